//! The errors of project quotas.

use crate::quota::project_id::ProjectId;
use csi_sys::project_quota::Amounts;
use std::io;
use thiserror::Error;

/// Why a quota was not set, read or lifted.
#[derive(Debug, Error)]
pub enum QuotaError {
    /// The kernel or the file system has refused.
    #[error("{context}: {source}")]
    Io {
        /// What was being done.
        context: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
    /// Every id that was drawn was in use, which chance alone does not explain.
    #[error(
        "each of {0} project ids drawn at random was in use: has somebody set limits on all of them?"
    )]
    NoFreeId(usize),
    /// Only an empty folder becomes a project: what is in it would not be counted.
    #[error("the folder is not empty, so it cannot become a project of its own as it is")]
    NotEmpty,
    /// A folder that is to be taken in has files of another project.
    #[error("files in the folder are in project {0}, which is not the folder's")]
    OtherProject(u32),
    /// A folder that is to be taken in would be full at once.
    #[error("it takes {}, and its size is {}: expand it first", amount(*used), amount(*limits))]
    Beyond {
        /// What it takes.
        used: Amounts,
        /// What it may take, where 0 is any.
        limits: Amounts,
    },
    /// Folders lie too deep to be gone through, so not all of it can be known to be in the project.
    #[error(
        "it has folders below {0} others: nobody could count what is in them; move them up first"
    )]
    Deep(usize),
    /// Somebody goes on bringing in files of no project.
    #[error(
        "after {0} passes there were still new files outside of project {1}: is the folder in use?"
    )]
    Restless(usize, ProjectId),
}

pub(super) fn amount(Amounts { bytes, inodes }: Amounts) -> String {
    match (bytes, inodes) {
        (0, 0) => "none".to_owned(),
        (bytes, 0) => format!("{bytes} bytes"),
        (0, inodes) => format!("{inodes} files and folders"),
        (bytes, inodes) => format!("{bytes} bytes in {inodes} files and folders"),
    }
}

/// Says what was being done when an error arose.
pub(super) trait Context<T> {
    fn context(self, context: &'static str) -> Result<T, QuotaError>;
}

impl<T, E: Into<io::Error>> Context<T> for Result<T, E> {
    fn context(self, context: &'static str) -> Result<T, QuotaError> {
        self.map_err(|source| QuotaError::Io {
            context,
            source: source.into(),
        })
    }
}
