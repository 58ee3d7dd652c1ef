//! The system calls that no crate wraps, as safe functions: one file a call, with its man page's contract. The only package
//! with unsafe code. Nothing else belongs here: what a program makes of a call is decided by those who make it.

pub mod end_signals;
pub mod file_attributes;
pub mod heap;
pub mod project_quota;
