//! The errors of a share and its volumes. Plain Rust: the gRPC face turns these into statuses.

use crate::files::copying::CopyError;
use crate::files::crash_points::Crash;
use crate::share::paths::sub_path::{RECORDS_FOLDER, SubPath};
use crate::share::records::format::FORMAT;
use crate::share::records::promise::Overcommitted;
use crate::share::token::ShareUuid;
use rustix::io::Errno;
use std::io;
use thiserror::Error;

/// A failure of the share as a database.
#[derive(Debug, Error)]
pub enum ShareError {
    /// An id, an earlier call or a flag has the UUID of the share, and its records are not there.
    #[error(
        "the folder {RECORDS_FOLDER} is missing on the share, though an id, an earlier call or a flag names it as holding volumes (UUID {0}): is the server's disk mounted? Nothing was changed"
    )]
    RecordsMissing(ShareUuid),
    /// The share has no records at all, and this call may not make them.
    #[error("the share holds no volumes of this driver: it has no folder {RECORDS_FOLDER}")]
    NotInitialised,
    /// Another share answers at that address.
    #[error(
        "the share is another one: its UUID is {found}, expected was {expected}; is the right disk mounted on the server? Nothing was changed"
    )]
    OtherShare {
        /// The UUID that the volume id or an earlier call named.
        expected: ShareUuid,
        /// The UUID on the share.
        found: ShareUuid,
    },
    /// A newer driver has written the records.
    #[error(
        "the records on the share have format {0}, this driver knows up to {FORMAT}: upgrade the driver"
    )]
    NewerFormat(u64),
    /// A version of the driver has written the records that was never released.
    #[error(
        "the records on the share have format {0}, this driver reads format {FORMAT} alone: delete the share's volumes and snapshots with the driver that made them; or rename the folder {RECORDS_FOLDER} and make volumes of the folders that are there, with the parameters subDir and adopt. Nothing was changed"
    )]
    OlderFormat(u64),
    /// A part of the records was removed or damaged.
    #[error("{what} on the share is damaged: {detail}")]
    Damaged {
        /// Which file or folder.
        what: String,
        /// What is wrong with it.
        detail: String,
    },
    /// Another name has the same key.
    #[error("the name cannot be used: its key is that of {0:?}; choose another name")]
    KeyTaken(String),
    /// The name is taken by one that does not fit.
    #[error("one of that name exists and differs: {0}")]
    Different(String),
    /// The folder is, holds, or lies in another volume's folder.
    #[error(
        "the folder {path} {relation} volume {volume:?}, and two volumes cannot share a folder"
    )]
    Overlap {
        /// The folder asked for.
        path: SubPath,
        /// How the two lie: "is the folder of", "is inside the folder of", "contains the folder of".
        relation: &'static str,
        /// The other volume's name or nonce.
        volume: String,
    },
    /// Something that the driver did not make is where the folder should be.
    #[error(
        "{0} exists on the share and belongs to no volume of this driver: it is not touched; remove it or choose another subDir"
    )]
    Foreign(SubPath),
    /// Something other than a plain folder is in the way of a volume's folder.
    #[error("{path} on the share cannot be entered: {source}")]
    Blocked {
        /// The folder asked for.
        path: SubPath,
        /// A symlink, a mount, or a file in the way.
        source: io::Error,
    },
    /// The folder of a volume that was ready is not there any more.
    #[error(
        "the volume exists and its folder {0} is missing on the share: put it back from a backup, or delete the volume"
    )]
    FolderGone(SubPath),
    /// The data of a snapshot that was ready are not there any more.
    #[error(
        "the snapshot exists and its data are missing on the share: put them back from a backup, or delete the snapshot"
    )]
    DataGone,
    /// There is no such snapshot.
    #[error("there is no such snapshot on the share")]
    NoSnapshot,
    /// What is to be copied does not exist, or has been deleted while it was copied.
    #[error("the source {0} does not exist (any more)")]
    NoSource(String),
    /// What is to be copied is on another share.
    #[error(
        "the source is on another share: a copy is made on the source's own share, so name that one in the parameters"
    )]
    SourceElsewhere,
    /// What is to be copied is not finished.
    #[error("the source {0} is not ready yet: try again when it is")]
    SourceNotReady(String),
    /// What is to be copied is larger than the copy may be.
    #[error("the source has {source_bytes} bytes, more than the {allowed} that were asked for")]
    SmallerThanSource {
        /// The source's recorded size.
        source_bytes: i64,
        /// The largest size that the request allows.
        allowed: i64,
    },
    /// Another controller does it.
    #[error("{0} is being copied by another controller: try again when it has ended")]
    CopiedElsewhere(String),
    /// The copy was given up.
    #[error(transparent)]
    Copy(#[from] CopyError),
    /// There is no folder to adopt.
    #[error(
        "there is no folder {0} on the share to adopt: make it first, or leave out the parameter adopt"
    )]
    NothingToAdopt(SubPath),
    /// The volume's folder is not the driver's.
    #[error("the volume's folder was adopted and is not the driver's: {0} cannot be changed")]
    Adopted(&'static str),
    /// A folder that somebody else has made, as for another driver's volume, holds what does not belong to it; or the folder of a volume
    /// that is deleted cannot be moved to the trash or the archive.
    #[error("{path} is left as it is: {why}")]
    NotPlain {
        /// The folder.
        path: SubPath,
        /// What is in it.
        why: String,
    },
    /// There is nothing at all on a share that is known to hold volumes.
    #[error(
        "the share is empty, though a volume of kubernetes-csi's driver is known to be there: is the server's disk mounted? Nothing was changed"
    )]
    Empty,
    /// The volume is to have its size enforced, and nobody can do that. A new one is not made then.
    #[error("the size cannot be enforced: {0}")]
    NotHeld(String),
    /// The same of a volume that is there; or nobody has said by now whether it can be done.
    #[error("the size is not enforced yet: {0}")]
    NotHeldYet(String),
    /// A new one would be promised more than there is left of the file system.
    #[error(transparent)]
    Overcommitted(Overcommitted),
    /// The same of a volume that is to grow.
    #[error("{0}; the volume has the size that it had")]
    CannotGrow(Overcommitted),
    /// There is no such volume.
    #[error("there is no such volume on the share")]
    NoVolume,
    /// The volume is larger than a call allows.
    #[error(
        "the volume has {current} bytes, more than the limit of {limit}: volumes are never shrunk"
    )]
    TooLarge {
        /// What the volume has.
        current: i64,
        /// What the call allows.
        limit: i64,
    },
    /// Others change the volume faster than this call can.
    #[error("{0} is being changed by another controller: try again")]
    Contended(String),
    /// A failure after which something is on the share that a retry finishes.
    #[error(
        "{source}; what was begun is on the share and a retry finishes it{}",
        if source.is_final() { " once that is put right" } else { "" }
    )]
    Unfinished {
        /// The failure.
        source: Box<ShareError>,
    },
    /// The file system's word.
    #[error("{context}: {source}")]
    Io {
        /// What was tried.
        context: String,
        /// The cause.
        source: io::Error,
    },
}

impl From<Crash> for ShareError {
    fn from((step, errno): Crash) -> Self {
        Self::Io {
            context: step.to_owned(),
            source: errno.into(),
        }
    }
}

impl ShareError {
    /// Whether there is no room on the share.
    pub(crate) fn is_full(&self) -> bool {
        matches!(self.errno(), Some(Errno::NOSPC | Errno::DQUOT))
    }

    /// Whether nothing at all can be changed on the share.
    pub(crate) fn is_read_only(&self) -> bool {
        self.errno() == Some(Errno::ROFS)
    }

    fn errno(&self) -> Option<Errno> {
        match self {
            Self::Io { source, .. } => Errno::from_io_error(source),
            _ => None,
        }
    }

    /// Whether the server does not know a file any more that is open here: the root of a share that was made anew, or the
    /// folder of a record that somebody else has removed meanwhile.
    pub fn is_stale(&self) -> bool {
        match self {
            Self::Unfinished { source } => source.is_stale(),
            other => other.errno() == Some(Errno::STALE),
        }
    }

    /// Whether what was to be copied cannot be had, however often it is tried, so that nothing of it is to stay. What may pass
    /// leaves the record to a retry: its id may have been given out.
    pub fn is_final(&self) -> bool {
        match self {
            Self::NoSource(_)
            | Self::NotHeld(_)
            | Self::NotPlain { .. }
            | Self::Blocked { .. }
            | Self::Copy(
                CopyError::NoRoom { .. } | CopyError::Archive { .. } | CopyError::Unseen(_),
            ) => true,
            Self::Io { source, .. } | Self::Copy(CopyError::Io { source, .. }) => {
                is_lasting(source)
            }
            _ => false,
        }
    }

    /// Whether it is about what others have, and so may be said of what has changed since a look.
    pub(crate) fn is_about_others(&self) -> bool {
        matches!(
            self,
            Self::Overlap { .. }
                | Self::Foreign(_)
                | Self::Blocked { .. }
                | Self::NothingToAdopt(_)
                | Self::FolderGone(_)
                | Self::DataGone
        )
    }

    /// Marks that something was left on the share. Errors that say nothing about the share's state stay as they are.
    pub fn unfinished(self) -> Self {
        match self {
            Self::Io { .. } | Self::NotHeldYet(_) | Self::Copy(CopyError::Io { .. }) => {
                Self::Unfinished {
                    source: Box::new(self),
                }
            }
            other => other,
        }
    }
}

/// Whether who tries again meets the error again, until somebody has done something about it outside the driver. Others may
/// pass: of a server that fails over or is away, of a machine that is short of memory.
pub fn is_lasting(error: &io::Error) -> bool {
    matches!(
        Errno::from_io_error(error),
        Some(
            Errno::NOSPC
                | Errno::DQUOT
                | Errno::FBIG
                | Errno::ACCESS
                | Errno::PERM
                | Errno::ROFS
                | Errno::OPNOTSUPP
                | Errno::NOSYS
                | Errno::NOTDIR
                | Errno::LOOP
                | Errno::XDEV
                | Errno::MLINK
                | Errno::NAMETOOLONG
                | Errno::TOOBIG
                | Errno::INVAL
                | Errno::ILSEQ
        )
    )
}

/// Says what was tried when an I/O call fails.
pub trait Context<T> {
    /// The same, with what was tried in its error.
    fn context(self, what: impl FnOnce() -> String) -> Result<T, ShareError>;
}

impl<T, E: Into<io::Error>> Context<T> for Result<T, E> {
    fn context(self, what: impl FnOnce() -> String) -> Result<T, ShareError> {
        self.map_err(|source| ShareError::Io {
            context: what(),
            source: source.into(),
        })
    }
}
