//! The system calls that no crate wraps, as safe functions, and what is done in a signal's handler: one file a subject, with its man
//! page's contract. The only package with unsafe code. What a program makes of it is decided by those who call it.

pub mod end_signals;
pub mod file_attributes;
pub mod heap;
pub mod process_groups;
pub mod project_quota;
pub mod waits;
