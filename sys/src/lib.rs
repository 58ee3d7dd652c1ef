//! The system calls that no crate wraps, as safe functions, and what is done in a signal's handler: one file a subject, with its man
//! page's contract. Beside them, how the kernel writes paths in its tables. The only package with unsafe code. What a program makes of
//! it is decided by those who call it.

pub mod end_signals;
pub mod file_attributes;
pub mod heap;
pub mod kernel_table;
pub mod process_groups;
pub mod project_quota;
pub mod waits;
