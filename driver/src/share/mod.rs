//! A share as the database of its volumes. Plain Rust: nothing here knows gRPC, and all of it may block.

pub(crate) mod beneath;
pub mod changes;
pub mod claims;
pub mod copying;
mod crash_points;
pub mod database;
pub mod deletion;
pub mod error;
pub mod fill;
mod folders;
mod format;
mod heartbeat;
pub mod keep;
mod leftovers;
pub mod lifecycle;
pub mod listing;
pub mod local;
pub mod origin;
mod process;
pub mod record;
pub mod recovery;
mod removal;
mod repeat;
pub mod roots;
pub mod snapshot;
pub mod snapshots;
pub mod source;
pub mod store;
pub mod sub_path;
#[cfg(test)]
mod tests;
pub mod token;
pub mod trash;
pub mod twin;
pub mod upstream;
