//! The CSI driver for NFS, as a library: the binary and the embedded endpoint of `csi` serve it.

pub mod capability;
pub mod controller;
pub mod export;
pub mod limits;
pub mod operations;
pub mod parameters;
pub mod share;
pub mod status;
pub mod volume_id;
