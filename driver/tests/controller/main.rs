//! The Controller service from outside, on local folders: what a request gets, and what is on the share after it.
#![allow(clippy::unwrap_used)]

mod calls;
mod hazards;
mod lists;
#[cfg(feature = "migration")]
mod migration;
#[cfg(feature = "migration")]
mod migration_copies;
mod requests;
mod snapshots;
mod volumes;
