//! The errors of project quotas.

use rustix::io::Errno;
use std::io;
use thiserror::Error;

/// Why a quota was not set, read or lifted.
#[derive(Debug, Error)]
pub enum QuotaError {
    /// The kernel or the file system has refused.
    #[error("{doing}: {source}")]
    Io {
        /// What was being done.
        doing: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
    /// Every id that was drawn was in use, which chance alone does not explain.
    #[error(
        "each of {tries} project ids drawn at random was in use: has somebody set limits on all of them?"
    )]
    NoFreeId {
        /// How many were drawn.
        tries: usize,
    },
    /// Only an empty folder becomes a project: what is in it would not be counted.
    #[error("the folder is not empty, so it cannot become a project of its own as it is")]
    NotEmpty,
    /// An entry of the ledger that this driver did not write.
    #[error("the ledger of project ids has the entry {name:?}, which is no id")]
    Ledger {
        /// The name of the entry.
        name: String,
    },
}

/// Says what was being done when an error arose.
pub(super) trait Doing<T> {
    fn doing(self, doing: &'static str) -> Result<T, QuotaError>;
}

impl<T> Doing<T> for io::Result<T> {
    fn doing(self, doing: &'static str) -> Result<T, QuotaError> {
        self.map_err(|source| QuotaError::Io { doing, source })
    }
}

impl<T> Doing<T> for Result<T, Errno> {
    fn doing(self, doing: &'static str) -> Result<T, QuotaError> {
        self.map_err(io::Error::from).doing(doing)
    }
}
