//! The tools: each folder has a tool's command line and its work. No tool knows another, nor the dispatcher.

pub mod bench;
pub mod lifecycle;
pub mod proxy;
pub mod replay;
pub mod sanity;
pub mod shell;
