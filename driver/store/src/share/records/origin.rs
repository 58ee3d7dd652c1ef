//! The origin of a volume or snapshot, as its record names it: the source of its copy. `attempt/source.rs` opens it.

use crate::share::paths::sub_path::SubPath;
use crate::share::token::{NameKey, Nonce};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::mem::discriminant;

/// The longest id of another driver that a record may hold, in bytes.
pub const MAX_UPSTREAM_ID: usize = 2048;

/// One volume or snapshot, never a later one of the same name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// The id, as it was given.
    pub id: String,
    /// Where its record is kept.
    pub key: NameKey,
    /// Its nonce.
    pub nonce: Nonce,
    /// The path of a source without a record, which kubernetes-csi's driver has made. Key and nonce are then made of the id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<SubPath>,
}

impl Origin {
    /// The volume or snapshot `id` of this driver.
    pub fn new(id: &str, key: NameKey, nonce: Nonce) -> Self {
        Self {
            id: id.to_owned(),
            key,
            nonce,
            path: None,
        }
    }

    /// A source that kubernetes-csi's driver has made: the volume `id` in the folder `path`, or the snapshot `id`, which is an
    /// archive of that name less its ending.
    pub fn upstream(id: &str, path: SubPath) -> Self {
        Self {
            id: id.to_owned(),
            key: NameKey::of(id),
            nonce: Nonce::of(id),
            path: Some(path),
        }
    }

    /// Whether both are one. Not the ids' texts: a share may have two names. The share is not in it: a source lies on the share of its
    /// copy.
    pub fn is_same(&self, other: &Self) -> bool {
        (self.key, self.nonce) == (other.key, other.nonce)
    }

    /// Whether the id may stand in a record: this driver's have at most 128 bytes.
    pub(in crate::share) fn is_sound(&self) -> bool {
        let most = match self.path {
            Some(_) => MAX_UPSTREAM_ID,
            None => 128,
        };
        self.id.len() <= most
    }
}

/// What a volume is a copy of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Source {
    /// A volume, as it is while it is copied.
    Volume(Origin),
    /// A snapshot.
    Snapshot(Origin),
    /// A snapshot of kubernetes-csi's driver, which is an archive.
    Archive(Origin),
}

impl Source {
    /// Which volume or snapshot.
    pub fn origin(&self) -> &Origin {
        let (Self::Volume(origin) | Self::Snapshot(origin) | Self::Archive(origin)) = self;
        origin
    }

    /// Whether both are one source, and of one kind.
    pub fn is_same(&self, other: &Self) -> bool {
        discriminant(self) == discriminant(other) && self.origin().is_same(other.origin())
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Volume(origin) => write!(f, "volume {:?}", origin.id),
            Self::Snapshot(origin) | Self::Archive(origin) => {
                write!(f, "snapshot {:?}", origin.id)
            }
        }
    }
}
