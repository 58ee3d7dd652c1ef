//! A volume whose size is to be enforced, as the disk has it now, and what it lacks. Looks alone; `comparison` and `enable_quota` mend.

use crate::quota::amounts;
use crate::quota::error::QuotaError;
use crate::quota::held::Lack;
use crate::quota::ledger::Ledger;
use crate::quota::project_id::ProjectId;
use crate::quota::seen::Seen;
use crate::share::database::Share;
use crate::share::error::ShareError;
use crate::share::limits::{failed, folder_of, ledger, owner, promised};
use crate::share::records::record::{Record, State};
use crate::share::records::size::Size;
use crate::share::records::store::Found;
use crate::share::records::volume::Volume;
use crate::share::token::{NameKey, Nonce};
use std::collections::BTreeSet;

/// A volume whose size is to be enforced, as it was seen.
pub(super) struct Limited {
    pub key: NameKey,
    pub generation: u64,
    pub nonce: Nonce,
    pub path: String,
    /// For whom its project is, as the ledger has it.
    pub owner: String,
    pub is_ready: bool,
    /// Its folder.
    pub folder: Seen,
}

impl Limited {
    pub fn of(share: &Share, found: &Found<Volume>) -> Result<Self, ShareError> {
        let (record, what) = (&found.record, &found.record.what);
        let (bytes, inodes) = promised(record);
        let wanted = amounts::limits(bytes, inodes);
        let folder = folder_of(share, found, None)?;
        Ok(Self {
            key: record.key(),
            generation: record.generation,
            nonce: record.nonce,
            path: what.path.to_string(),
            owner: owner(record),
            is_ready: record.state == State::Ready,
            folder: Seen::of(folder, on_record(record), wanted).map_err(failed)?,
        })
    }

    /// What it lacks to have its size enforced, as the disk is now.
    pub fn lack(
        &self,
        share: &Share,
        ledger: &Ledger,
        shared: &BTreeSet<ProjectId>,
    ) -> Result<Option<Lack>, QuotaError> {
        self.folder.lack(&share.root, ledger, &self.owner, shared)
    }
}

/// The project that is on record.
fn on_record(record: &Record<Volume>) -> Option<u32> {
    match record.what.size {
        Some(Size::Enforced { project }) => project,
        _ => None,
    }
}

/// What the volume with this record, which is ready, lacks to have its size enforced.
///
/// # Errors
/// I/O errors.
pub(super) fn lack(share: &Share, found: &Found<Volume>) -> Result<Option<Lack>, ShareError> {
    let limited = Limited::of(share, found)?;
    let lack = limited.lack(share, &ledger(share)?, &BTreeSet::new());
    lack.map_err(failed)
}
