//! The record of one snapshot. Owns its values and their checks; its life is in `snapshots`.

use crate::share::database::Share;
use crate::share::records::origin::{Origin, Source};
use crate::share::records::record::{Kind, Record, State};
use serde::{Deserialize, Serialize};
use std::os::fd::OwnedFd;

/// What a CreateSnapshot asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wanted {
    /// The snapshot's name.
    pub name: String,
    /// The volume that it is a copy of.
    pub source: Origin,
}

/// What is remembered of a snapshot alone. It is creating while it is copied, and ready when it is on disk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    /// The original request.
    #[serde(flatten)]
    pub wanted: Wanted,
    /// The size of that volume, in bytes, and so the least size of a volume made of it.
    pub size_bytes: i64,
    /// What did not travel, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left_out: Option<String>,
}

impl Kind for Snapshot {
    const FOLDER: &'static str = "snapshots";
    type Wanted = Wanted;

    fn folder(share: &Share) -> &OwnedFd {
        &share.snapshots
    }

    fn wanted(&self) -> &Wanted {
        &self.wanted
    }

    fn name(wanted: &Wanted) -> &str {
        &wanted.name
    }

    fn promised_bytes(&self) -> i64 {
        self.size_bytes
    }

    fn source(wanted: &Wanted) -> Option<Source> {
        Some(Source::Volume(wanted.source.clone()))
    }

    fn difference(record: &Record<Self>, wanted: &Wanted) -> Option<String> {
        let (own, other) = (&record.what.wanted.source, &wanted.source);
        (!own.is_same(other)).then(|| {
            format!(
                "it is a snapshot of volume {:?}, asked for was one of {:?}",
                own.id, other.id
            )
        })
    }

    fn is_sound(record: &Record<Self>) -> bool {
        let Self {
            wanted, size_bytes, ..
        } = &record.what;
        let is_copied = record.copy.is_some();
        wanted.name.len() <= 128
            && wanted.source.is_sound()
            && *size_bytes >= 0
            && (record.state != State::Creating || !is_copied)
    }

    fn note_copied(record: &mut Record<Self>, left_out: Option<String>) {
        record.state = State::Ready;
        record.what.left_out = left_out;
    }
}
