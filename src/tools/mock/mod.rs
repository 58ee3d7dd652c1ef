//! `csi mock`: serves the mock driver, a driver that has everything, on a socket.
//!
//! Owns its flags, and the process that it runs in. What the driver does is said in its own package.

pub mod command;
mod flags;
