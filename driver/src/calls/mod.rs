//! The gRPC faces: controller, node and identity, and what every call passes: limits, parameters, capabilities, codes, the log. Must not
//! touch a share, but through the store.

pub mod accepting;
pub mod call_log;
pub mod capability;
pub mod controller;
pub mod defaults;
pub mod identity;
pub mod limits;
pub mod node;
pub mod operations;
pub mod parameters;
pub mod policy;
pub mod status;
pub mod volume_id;
