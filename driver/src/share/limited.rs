//! A volume whose size is to be enforced, as the disk has it now, and what it lacks. Looks alone; `comparison` and `enable_quota` mend.

use crate::quota::held::{self, Folder, Lack};
use crate::quota::ledger::Ledger;
use crate::quota::project;
use crate::quota::project_id::ProjectId;
use crate::share::database::Share;
use crate::share::error::ShareError;
use crate::share::limits::{folder_of, ledger, owner, promised};
use crate::share::records::record::Record;
use crate::share::records::size::Size;
use crate::share::records::store::Found;
use crate::share::records::volume::Volume;
use csi_sys::file_attributes::Attributes;
use std::collections::BTreeSet;

/// A volume whose size is to be enforced, as it was seen.
pub(super) struct Limited {
    pub record: Record<Volume>,
    /// Its folder, where there is one.
    folder: Option<Attributes>,
}

impl Limited {
    pub fn of(share: &Share, found: &Found<Volume>) -> Result<Self, ShareError> {
        let folder = folder_of(share, found, None)?;
        Ok(Self {
            record: found.record.clone(),
            folder: folder.map(project::attributes).transpose()?,
        })
    }

    /// The project of its folder.
    pub fn project(&self) -> Option<ProjectId> {
        self.folder
            .and_then(|folder| ProjectId::new(folder.project()))
    }

    /// What it lacks to have its size enforced, as the disk is now. `shared` are projects that several volumes have.
    pub fn lack(
        &self,
        share: &Share,
        ledger: &Ledger,
        shared: &BTreeSet<ProjectId>,
    ) -> Result<Option<Lack>, ShareError> {
        let id = self.project();
        let quota = id.map(|id| project::quota(&share.root, id)).transpose()?;
        let quota = quota.unwrap_or_default();
        let entry = id.map(|id| ledger.entry(id)).transpose()?.flatten();
        let is_others = entry.is_some_and(|entry| entry.owner != owner(&self.record));
        let folder = self.folder.map(|folder| Folder {
            project: folder.project(),
            is_inherited: folder.is_inherited(),
            // An id that this driver never draws is somebody else's, too.
            is_of_others: is_others || (id.is_none() && folder.project() > 0),
            is_shared: id.is_some_and(|id| shared.contains(&id)),
            limits: quota.limits,
            used: quota.used,
        });
        let on_record = match self.record.what.size {
            Some(Size::Enforced { project }) => project,
            _ => None,
        };
        Ok(held::lack(folder, on_record, promised(&self.record)))
    }
}

/// What the volume with this record, which is ready, lacks to have its size enforced.
///
/// # Errors
/// I/O errors.
pub(super) fn lack(share: &Share, found: &Found<Volume>) -> Result<Option<Lack>, ShareError> {
    Limited::of(share, found)?.lack(share, &ledger(share)?, &BTreeSet::new())
}
