//! What passes between an orchestrator and a driver: `csi proxy` records it, `csi replay` and `csi serve` give it again.
//!
//! The three share the format of recordings, and know nothing else of each other.

#[cfg(test)]
#[path = "../../../tests/support/corpus.rs"]
mod corpus;
pub mod proxy;
mod recording;
pub mod replay;
pub mod serve;
