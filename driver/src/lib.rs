//! The CSI driver for NFS, as a library: the binary and the embedded endpoint of `csi` serve it.

pub mod export;
pub mod share;
