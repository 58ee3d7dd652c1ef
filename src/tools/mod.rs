//! The tools: the folder of each has its command line and its work. No tool knows another, nor the dispatcher.

pub mod bench;
pub mod context;
pub mod doctor;
pub mod flex;
pub mod lifecycle;
pub mod mock;
pub mod new;
pub mod proxy;
pub mod replay;
pub mod sanity;
pub mod serve;
pub mod shell;
pub mod version;
pub mod wait;
