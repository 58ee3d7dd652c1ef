//! The report of a finished copy: how much was copied, and what was left out.

use csi_proto::lock::lock;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// What a finished copy came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Entries copied, folders included.
    pub files: u64,
    /// Their sizes in bytes.
    pub bytes: u64,
    /// What the file system, or this process's rights, did not let travel.
    pub left_out: BTreeMap<LeftOut, Omission>,
}

/// A kind of thing that a copy may have to leave out.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LeftOut {
    /// Owner and group: this process may not give files away.
    Owner,
    /// Set-id bits and the like, which this process may not set.
    Mode,
    /// Extended attributes of this namespace (`security`, `system`, `trusted`, `user`).
    Attributes(String),
    /// A device, a socket or a FIFO that cannot be made.
    Special,
    /// What is mounted within the tree: the folder itself is copied, empty; a file is not.
    Mount,
    /// It went away while the tree was copied.
    Vanished,
}

/// How often something was left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Omission {
    /// How many entries it concerns.
    pub count: u64,
    /// One of them.
    pub example: String,
}

impl std::fmt::Display for LeftOut {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Owner => f.write_str("the owner"),
            Self::Mode => f.write_str("the mode"),
            Self::Attributes(space) => write!(f, "{space}.* attributes"),
            Self::Special => f.write_str("a device, socket or FIFO"),
            Self::Mount => f.write_str("what is mounted"),
            Self::Vanished => f.write_str("an entry that went away"),
        }
    }
}

impl Report {
    /// What was left out, in one line; nothing when the copy is complete.
    pub fn omissions(&self) -> Option<String> {
        let texts: Vec<String> = self
            .left_out
            .iter()
            .map(|(kind, omission)| {
                format!(
                    "{kind} ({} times, as of {:?})",
                    omission.count, omission.example
                )
            })
            .collect();
        (!texts.is_empty()).then(|| texts.join("; "))
    }
}

/// What was left out so far.
#[derive(Debug, Default)]
pub struct Omissions(Mutex<BTreeMap<LeftOut, Omission>>);

impl Omissions {
    /// Notes that something of that kind was left out, such as `example`.
    pub fn add(&self, kind: LeftOut, example: impl FnOnce() -> String) {
        let mut all = lock(&self.0);
        all.entry(kind)
            .and_modify(|omission| omission.count += 1)
            .or_insert_with(|| Omission {
                count: 1,
                example: example(),
            });
    }

    /// The report of a copy that has come to so many entries and bytes.
    pub fn into_report(self, files: u64, bytes: u64) -> Report {
        let left_out = self.0.into_inner().unwrap_or_else(PoisonError::into_inner);
        Report {
            files,
            bytes,
            left_out,
        }
    }
}
