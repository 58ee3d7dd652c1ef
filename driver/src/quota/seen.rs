//! A folder that is to have limits, as the disk has it now. Must not decide what it lacks, which `held` does, nor mend it.

use crate::quota::error::QuotaError;
use crate::quota::held::{self, Folder, Lack};
use crate::quota::ledger::Ledger;
use crate::quota::project;
use crate::quota::project_id::ProjectId;
use crate::quota::reconcile::Hold;
use csi_sys::file_attributes::Attributes;
use csi_sys::project_quota::{Amounts, Quota};
use std::collections::BTreeSet;
use std::os::fd::AsFd;

/// The folder, where there is one, and what it is to be.
#[derive(Clone, Copy, Debug)]
pub struct Seen {
    folder: Option<Attributes>,
    on_record: Option<u32>,
    wanted: Amounts,
}

impl Seen {
    /// The open folder that is to have the limits `wanted`, in the project that is `on_record`.
    ///
    /// # Errors
    /// I/O errors.
    pub fn of(
        folder: Option<impl AsFd>,
        on_record: Option<u32>,
        wanted: Option<Amounts>,
    ) -> Result<Self, QuotaError> {
        Ok(Self {
            folder: folder.map(project::attributes).transpose()?,
            on_record,
            wanted: wanted.unwrap_or_default(),
        })
    }

    /// The project of the folder.
    pub fn project(&self) -> Option<ProjectId> {
        self.folder
            .and_then(|folder| ProjectId::new(folder.project()))
    }

    /// What becomes of the limits of that project.
    pub fn hold(&self) -> Hold {
        let is_on_record = |folder: Attributes| self.on_record == Some(folder.project());
        match self.on_record.is_none() || self.folder.is_some_and(is_on_record) {
            true => Hold::Volume(self.wanted),
            false => Hold::Unrecorded,
        }
    }

    /// What the folder, whose project the ledger has for `owner`, lacks now. `shared` are projects that several volumes have.
    ///
    /// # Errors
    /// I/O errors.
    pub fn lack(
        &self,
        root: impl AsFd,
        ledger: &Ledger,
        owner: &str,
        shared: &BTreeSet<ProjectId>,
    ) -> Result<Option<Lack>, QuotaError> {
        let id = self.project();
        let quota = match id {
            Some(id) => project::quota(root, id)?,
            None => Quota::default(),
        };
        let entry = id.map(|id| ledger.entry(id)).transpose()?.flatten();
        let is_others = entry.is_some_and(|entry| entry.owner != owner);
        let folder = self.folder.map(|folder| Folder {
            project: folder.project(),
            is_inherited: folder.is_inherited(),
            // An id that this driver never draws is somebody else's, too.
            is_of_others: is_others || (id.is_none() && folder.project() > 0),
            is_shared: id.is_some_and(|id| shared.contains(&id)),
            limits: quota.limits,
            used: quota.used,
        });
        Ok(held::lack(folder, self.on_record, self.wanted))
    }
}
