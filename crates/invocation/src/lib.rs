//! One run of the program: its global flags and defaults, its connection, its signals, and the RPC that it calls.
//!
//! Tools and the dispatcher stand above it. Must not know any tool.

pub mod completion;
pub mod connect;
pub mod contexts;
#[cfg(test)]
#[path = "../../../tests/support/corpus.rs"]
mod corpus;
pub mod defaults;
pub mod faults;
pub mod globals;
pub mod help;
pub mod interrupt;
pub mod live_ids;
pub mod mount_points;
pub mod parse;
pub mod private_file;
pub mod process_stat;
pub mod rpc_command;
pub mod run_folder;
pub mod serving;
pub mod verbs;
pub mod volume_flags;
pub mod watch;

pub use defaults::{Defaults, Program};
pub use globals::Globals;
