//! Contexts: names under which a user keeps a driver's endpoint, and what its calls need.
//!
//! `file.rs` owns the file that they stand in, `choice.rs` decides which of them counts, and which of several sources of a
//! value. `chosen.rs` is the outcome for one command.

pub mod choice;
pub mod chosen;
pub mod file;
