//! The real `csi-nfs` on a folder of this machine, killed at every step of its work from outside, and under many
//! calls at a time.
#![allow(clippy::unwrap_used)]

#[path = "../support/mod.rs"]
mod support;

#[cfg(debug_assertions)]
mod crashes;
mod crowds;
mod descriptors;
mod endings;
mod storms;
mod torture;
