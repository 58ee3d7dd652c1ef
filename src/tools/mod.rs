//! The tools: the folder of each has its command line and its work. No tool knows another, nor the dispatcher.

pub mod context;
pub mod doctor;
pub mod flex;
pub mod lifecycle;
pub mod mock;
pub mod new;
pub mod version;
pub mod wait;
