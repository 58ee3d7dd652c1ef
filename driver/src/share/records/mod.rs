//! What is remembered of volumes and snapshots, as files on the share: their values, their text, and how they appear, change and go.
//! What a state means, and what follows from it, is the business of the rooms that use them.

pub mod format;
pub mod leftovers;
pub mod origin;
pub mod record;
pub mod removal;
pub mod snapshot;
pub mod store;
pub mod text;
pub mod volume;
