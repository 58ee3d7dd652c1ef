//! The CSI driver for NFS, as a library: the binary and the embedded endpoint of `csi` serve it.

pub mod call_log;
pub mod config;
pub mod driver;
pub mod embedded;
pub mod export;
pub mod flags;
pub mod identity;
pub mod log;
pub mod mount;
pub mod namespace;
pub mod node;
pub mod server;
pub mod share;
