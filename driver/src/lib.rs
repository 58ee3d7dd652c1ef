//! The CSI driver for NFS, as a library: the binary and the embedded endpoint of `csi` serve it.

// One thread serves all calls: what blocks is denied, but to rooms that other threads or processes run.
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

pub mod accepting;
pub mod admission;
pub mod agent;
#[expect(clippy::disallowed_methods, reason = "threads of shares call it")]
pub(crate) mod beneath;
pub mod call_log;
pub mod capability;
pub mod commands;
pub mod config;
pub mod controller;
#[expect(clippy::disallowed_methods, reason = "threads of shares call it")]
pub mod copying;
mod crash_points;
pub mod defaults;
pub mod descriptors;
pub mod disk_thread;
pub mod driver;
pub mod embedded;
pub mod export;
pub mod flags;
pub mod health;
pub mod http;
pub mod identity;
pub mod limits;
pub mod log;
pub mod metrics;
#[expect(
    clippy::disallowed_methods,
    reason = "helper processes call most of it"
)]
pub mod mount;
pub mod namespace;
pub mod node;
pub mod operations;
pub mod owner;
pub mod parameters;
pub mod policy;
pub mod privileges;
#[expect(clippy::disallowed_methods, reason = "threads of shares call it")]
pub mod quota;
pub mod registration;
pub mod relay;
pub mod roots;
pub mod server;
#[expect(clippy::disallowed_methods, reason = "threads of shares call it")]
pub mod share;
mod side_by_side;
pub mod socket;
pub mod start;
pub mod status;
pub mod take_in;
pub mod upstream;
pub mod volume_id;
#[expect(clippy::disallowed_methods, reason = "threads of shares call it")]
mod walking;
#[expect(clippy::disallowed_methods, reason = "before anybody is served")]
pub mod work_folder;
