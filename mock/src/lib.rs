//! A CSI driver that has everything: every service and every capability of the specification, with its volumes in memory or
//! in a folder. And, when asked, with one [`Defect`].
//!
//! It stands in for a driver where somebody writes an orchestrator, a sidecar or a test of one, and proves that a
//! conformance suite can pass and can fail. It mounts nothing: a published volume is a link to a folder, or for block access
//! a file. It must not know the client nor where connections come from.

mod age;
mod capabilities;
mod changes;
mod checks;
mod controller;
mod core;
mod data;
mod defect;
mod defect_names;
mod driver;
mod filled;
mod framing;
mod groups;
mod identity;
mod listing;
mod metadata;
mod node;
mod options;
mod service;
mod serving;
mod settings;
mod similar;
mod snapshots;
mod state;
mod storage;
mod volumes;
mod wire;

pub use capabilities::{CapabilityError, capability_names};
pub use defect::Defect;
pub use driver::Mock;
pub use framing::{answer_of, message_of};
pub use options::Options;
pub use serving::{Answers, Ended, Running, Server};
pub use settings::{Rules, Settings, SettingsError, SettingsFile};
pub use storage::{Storage, StorageError};
pub use wire::Gate;
