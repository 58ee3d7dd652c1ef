//! The errors that end a copy before it is complete.

use rustix::io::Errno;
use std::io;
use thiserror::Error;

/// Why a copy was given up.
#[derive(Debug, Error)]
pub enum CopyError {
    /// There is no room, or the quota is used up.
    #[error("no room to copy {path:?}, on the share or within the size of the copy: {source}")]
    NoRoom {
        /// The entry, from the tree's root.
        path: String,
        /// ENOSPC or EDQUOT.
        source: io::Error,
    },
    /// Somebody asked for it.
    #[error("the copy was stopped")]
    Stopped,
    /// An entry is replaced by one of another kind over and over.
    #[error("{0:?} is changed faster than it can be copied")]
    Changing(String),
    /// Holes that cannot be seen would be read without end.
    #[error(
        "{0:?}, with others before it, has more holes than can be read, and NFS before 4.2 does not show where they are: have the share mounted with vers=4.2, run an agent on the server, or remove such files"
    )]
    Unseen(String),
    /// An archive cannot be unpacked, or must not be.
    #[error("the archive is not unpacked, at {path:?}: {problem}")]
    Archive {
        /// The entry, or the one before what cannot be read.
        path: String,
        /// What is wrong.
        problem: String,
    },
    /// The file system's word.
    #[error("{context} {path:?}: {source}")]
    Io {
        /// What was tried.
        context: &'static str,
        /// The entry, from the tree's root.
        path: String,
        /// The cause.
        source: io::Error,
    },
}

impl CopyError {
    /// Whether a server does not know what was open.
    pub(super) fn is_stale(&self) -> bool {
        matches!(self, Self::Io { source, .. } if Errno::from_io_error(source) == Some(Errno::STALE))
    }

    /// The error for what the file system said when this was tried.
    pub fn io(context: &'static str, path: String, source: impl Into<io::Error>) -> Self {
        let source = source.into();
        match Errno::from_io_error(&source) {
            Some(Errno::NOSPC | Errno::DQUOT) => Self::NoRoom { path, source },
            _ => Self::Io {
                context,
                path,
                source,
            },
        }
    }
}
