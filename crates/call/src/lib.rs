//! Calls to a driver: endpoints, places to listen, connections, the one generic call, and the errors of calls.
//!
//! Must not know clap, look into what commands mean, or print replies.

pub mod advertised;
pub mod answered;
pub mod endpoint;
pub mod error;
pub mod listen;
pub mod log;
pub mod pages;
pub mod process_group;
pub mod redacted;
pub mod secrets;
pub mod session;
pub mod status_details;
pub mod user_folders;
pub mod wait;

pub use advertised::Advertised;
pub use endpoint::Endpoint;
pub use error::{call_error, connection_error};
pub use log::Log;
pub use session::{CallError, Connection, Session};
