//! What a volume or snapshot is a copy of: how it is named in records, how it is opened, and whether it is still there. Must
//! not change it.

use super::beneath;
use super::claims::{self, Owner};
use super::database::Share;
use super::error::{Doing, ShareError};
use super::record::{Record, State};
use super::snapshot::Snapshot;
use super::store::{self, PREPARED};
use super::token::{NameKey, Nonce};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::os::fd::OwnedFd;

/// One volume or snapshot, never a later one of the same name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// The id, as it was given.
    pub id: String,
    /// Where its record is kept.
    pub key: NameKey,
    /// Its nonce.
    pub nonce: Nonce,
}

/// What a volume is a copy of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Source {
    /// A volume, as it is while it is copied.
    Volume(Origin),
    /// A snapshot.
    Snapshot(Origin),
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Volume(origin) => write!(f, "volume {:?}", origin.id),
            Self::Snapshot(origin) => write!(f, "snapshot {:?}", origin.id),
        }
    }
}

impl Source {
    /// The size that is on record, in bytes.
    ///
    /// # Errors
    /// [`ShareError::NoSource`], [`ShareError::SourceNotReady`], and I/O errors.
    pub(super) fn size(&self, share: &Share) -> Result<i64, ShareError> {
        match self {
            Self::Volume(origin) => Ok(self.volume(share, origin)?.capacity_bytes),
            Self::Snapshot(origin) => {
                let found = self.snapshot(share, origin)?;
                Ok(found.record.size_bytes)
            }
        }
    }

    /// Its folder, open for reading.
    ///
    /// # Errors
    /// As for [`Source::size`].
    pub(super) fn open(&self, share: &Share) -> Result<OwnedFd, ShareError> {
        let folder = match self {
            Self::Volume(origin) => {
                let record = self.volume(share, origin)?;
                let path = &record.wanted.sub_dir;
                let owner = Owner {
                    key: origin.key,
                    nonce: origin.nonce,
                };
                if !claims::holds(share, path, owner)? {
                    return Err(self.gone());
                }
                beneath::folder(&share.root, path.to_path())
            }
            Self::Snapshot(origin) => {
                let found = self.snapshot(share, origin)?;
                beneath::folder(&found.folder, PREPARED)
            }
        };
        match folder {
            Err(error) if beneath::is_gone(&error) => Err(self.gone()),
            other => other.doing(|| format!("opening the {self}")),
        }
    }

    /// Looks whether it is still what it was: a deletion is on record before anything is taken away, so what was read until
    /// now was complete.
    ///
    /// # Errors
    /// As for [`Source::size`].
    pub(super) fn still_there(&self, share: &Share) -> Result<(), ShareError> {
        self.size(share).map(drop)
    }

    fn gone(&self) -> ShareError {
        ShareError::NoSource(self.to_string())
    }

    fn not_ready(&self) -> ShareError {
        ShareError::SourceNotReady(self.to_string())
    }

    fn volume(&self, share: &Share, origin: &Origin) -> Result<Record, ShareError> {
        let found = store::find::<Record>(share, origin.key)?
            .filter(|found| found.record.nonce == origin.nonce)
            .ok_or_else(|| self.gone())?;
        match found.record.state {
            State::Ready => Ok(found.record),
            State::Creating => Err(self.not_ready()),
            State::Deleting => Err(self.gone()),
        }
    }

    fn snapshot(
        &self,
        share: &Share,
        origin: &Origin,
    ) -> Result<store::Found<Snapshot>, ShareError> {
        let found = store::find::<Snapshot>(share, origin.key)?
            .filter(|found| found.record.nonce == origin.nonce)
            .ok_or_else(|| self.gone())?;
        match found.record.state {
            State::Ready => Ok(found),
            State::Creating => Err(self.not_ready()),
            State::Deleting => Err(self.gone()),
        }
    }
}
