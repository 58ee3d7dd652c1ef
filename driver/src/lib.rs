//! The CSI driver for NFS, as a library: the binary and the embedded endpoint of `csi` serve it.

// One thread serves all calls: what blocks is denied, but to rooms that other threads or processes run.
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

pub mod agent;
pub mod calls;
#[cfg(test)]
#[path = "../../tests/support/corpus.rs"]
mod corpus;
#[expect(
    clippy::disallowed_methods,
    reason = "helper processes call most of it"
)]
pub mod mount;
pub mod process;
pub mod upstream;
