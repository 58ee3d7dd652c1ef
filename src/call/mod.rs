//! Calls of a driver: every way to name one, the connection, the one generic call, and why it failed.
//!
//! Must not know clap, look into what commands mean, or print replies.

pub mod advertised;
pub mod endpoint;
pub mod error;
pub mod log;
pub mod session;
pub mod state_folder;
pub mod status_details;
pub mod wait;
