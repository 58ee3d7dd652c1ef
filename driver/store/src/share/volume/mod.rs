//! The life of a volume: it is created, changed and deleted.

pub mod change;
pub mod create;
pub mod delete;
pub mod enable_quota;
