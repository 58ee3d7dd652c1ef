//! The Controller service from outside, on local folders: what a request gets, and what is on the share after it.
mod addresses;
pub mod calls;
#[cfg(feature = "upstream")]
mod defaults;
mod hazards;
mod kept_options;
mod lists;
mod lost;
mod overcommit;
mod requests;
pub mod snapshots;
#[cfg(feature = "upstream")]
mod upstream;
#[cfg(feature = "upstream")]
mod upstream_copies;
#[cfg(feature = "upstream")]
mod upstream_neighbours;
mod volumes;
