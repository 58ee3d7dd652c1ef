//! Contexts: names under which a user keeps a driver's endpoint, and what its calls need.
//!
//! `file.rs` owns the file that they stand in, `chosen.rs` decides which of them counts for a command, and which of
//! several sources of a value.

pub mod chosen;
pub mod file;
