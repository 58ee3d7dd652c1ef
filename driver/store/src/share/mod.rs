//! A share as the database of its volumes. Plain Rust: nothing here knows gRPC, and all of it may block.

pub mod agent_memory;
pub mod agents;
pub mod archives;
pub mod attempt;
pub mod compared;
pub mod comparison;
pub mod database;
pub mod error;
pub mod life;
pub mod limits;
pub mod listing;
pub mod measures;
pub mod paths;
pub mod promise_memory;
pub mod promised;
pub mod quotas;
pub mod records;
pub mod recovery;
mod repeat;
pub mod requests;
pub mod snapshots;
#[cfg(test)]
pub(crate) mod tests;
pub mod token;
pub mod trash;
pub mod twin;
pub mod volume;
