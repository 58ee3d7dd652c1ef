//! The CSI driver for NFS, as a library: the binary and the embedded endpoint of `csi` serve it.

pub mod accepting;
pub mod admission;
pub mod call_log;
pub mod capability;
pub mod config;
pub mod controller;
pub mod descriptors;
pub mod driver;
pub mod embedded;
pub mod export;
pub mod flags;
pub mod identity;
pub mod limits;
pub mod log;
pub mod mount;
pub mod namespace;
pub mod node;
pub mod operations;
pub mod parameters;
pub mod privileges;
pub mod server;
pub mod share;
pub mod status;
pub mod upstream;
pub mod volume_id;
pub mod work_folder;
