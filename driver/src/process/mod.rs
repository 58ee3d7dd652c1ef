//! The process: flags, configuration, log, sockets, registration, signals, privileges. Must not decide what a call does.

pub mod commands;
pub mod config;
pub mod disk_thread;
pub mod driver;
pub mod embedded;
pub mod flags;
pub mod health;
pub mod http;
pub mod log;
pub mod namespace;
pub mod privileges;
pub mod registration;
pub mod relay;
pub mod server;
pub mod socket;
pub mod start;
#[expect(
    clippy::disallowed_methods,
    reason = "before anybody is served, or in the disk's thread"
)]
pub mod work_folder;
