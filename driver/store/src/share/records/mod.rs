//! The records of volumes and snapshots, as files on the share: their values, their text, and how they appear, change and go.
//! The rooms that use a record decide what its state means.

pub mod format;
pub mod leftovers;
pub mod origin;
pub mod promise;
pub mod record;
pub mod removal;
pub mod size;
pub mod snapshot;
pub mod store;
pub mod text;
pub mod volume;
