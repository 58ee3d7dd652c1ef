//! The life of a volume: how it comes to be, what can be changed of it, how it goes.

pub mod change;
pub mod create;
pub mod delete;
