//! Copying a tree from one folder of a share to another, with all that a file system lets travel. Owns what a copy is told
//! and what it tells; the walk is `tree`, its folders are `folders`, one entry is `entry`, the bytes of a file are `content`,
//! the rest of it is `attributes`, files with several names are `links`; an archive instead of a tree is read by `tar` and
//! unpacked by `unpack`. Must not know volumes or snapshots.
//!
//! The source may be changed, and by somebody hostile, while it is copied: every entry is opened by one name below a folder
//! that is held open, no symlink is followed, no mount is crossed and no device is opened. The target is a private folder
//! in which nobody else works.

mod attributes;
mod content;
mod entry;
mod folders;
mod links;
mod listing;
mod node;
#[cfg(feature = "upstream")]
mod tar;
#[cfg(test)]
mod tests;
mod tree;
#[cfg(feature = "upstream")]
mod unpack;
#[cfg(test)]
#[cfg(feature = "upstream")]
mod unpack_tests;

pub use links::LinksFolder;
#[cfg(feature = "upstream")]
pub use unpack::unpack;

use super::crash_points;
#[cfg(test)]
use super::error::ShareError;
use crate::admission::ExtraThreads;
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use thiserror::Error;

/// A running copy, seen from outside: how far it is, the way to end it, and where it asks for threads.
#[derive(Debug, Default)]
pub struct Progress {
    files: AtomicU64,
    bytes: AtomicU64,
    stop: AtomicBool,
    threads: ExtraThreads,
}

impl Progress {
    /// Of a copy that asks for its threads there.
    pub fn with_threads(threads: ExtraThreads) -> Self {
        Self {
            threads,
            ..Self::default()
        }
    }

    /// Entries that are done, folders included.
    pub fn files(&self) -> u64 {
        self.files.load(Ordering::Relaxed)
    }

    /// The sizes of the files that are done, in bytes. Cloned ones count in full, though they took no room.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Ends the copy soon, with [`CopyError::Stopped`].
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Whether somebody wants the copy to end.
    pub fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn count(&self, bytes: u64) {
        self.files.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }
}

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

/// Why a copy was given up.
#[derive(Debug, Error)]
pub enum CopyError {
    /// There is no room, or the quota is used up.
    #[error("no room on the share to copy {path:?}: {source}")]
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
    #[error("{path:?} is changed faster than it can be copied")]
    Changing {
        /// The entry, from the tree's root.
        path: String,
    },
    /// An archive cannot be unpacked, or must not be.
    #[error("the archive is not unpacked, at {path:?}: {problem}")]
    Archive {
        /// The entry, or the one before what cannot be read.
        path: String,
        /// What is wrong.
        problem: String,
    },
    /// The file system's word.
    #[error("{doing} {path:?}: {source}")]
    Io {
        /// What was tried.
        doing: &'static str,
        /// The entry, from the tree's root.
        path: String,
        /// The cause.
        source: io::Error,
    },
    /// A crash that a test asked for.
    #[cfg(test)]
    #[error("crash after {0}")]
    Crash(&'static str),
}

impl CopyError {
    /// Whether a server does not know what was open.
    fn is_stale(&self) -> bool {
        matches!(self, Self::Io { source, .. } if Errno::from_io_error(source) == Some(Errno::STALE))
    }

    fn io(doing: &'static str, path: String, source: impl Into<io::Error>) -> Self {
        let source = source.into();
        match Errno::from_io_error(&source) {
            Some(Errno::NOSPC | Errno::DQUOT) => Self::NoRoom { path, source },
            _ => Self::Io {
                doing,
                path,
                source,
            },
        }
    }
}

/// Copies all that is in `source`, and the folder's own attributes, to the empty folder `target`, and returns when it is on
/// disk. In `links` files with several names are kept by inode for the time of the copy.
///
/// # Errors
/// [`CopyError`]; the target then holds a part, and the folder of links may be there.
pub fn copy(
    source: &OwnedFd,
    target: &OwnedFd,
    links: &LinksFolder<'_>,
    progress: &Progress,
) -> Result<Report, CopyError> {
    let means = Means::of(source, target)
        .map_err(|error| CopyError::io("looking at", ".".to_owned(), error))?;
    let (course, omissions) = (Course::of(progress), Omissions::default());
    tree::copy(source, target, links, &course, &means, &omissions)?;
    links
        .remove(means.threads, &progress.threads)
        .map_err(|error| CopyError::io("clearing the links of", ".".to_owned(), error))?;
    // Once for the whole file system, which is the cheapest; it reports what a write in the background met.
    rustix::fs::syncfs(target)
        .map_err(|error| CopyError::io("writing to disk", ".".to_owned(), error))?;
    Ok(Report {
        files: progress.files(),
        bytes: progress.bytes(),
        left_out: omissions
            .0
            .into_inner()
            .unwrap_or_else(std::sync::PoisonError::into_inner),
    })
}

/// Whether the threads of a copy go on: until somebody stops it, or one of them has failed.
#[derive(Debug)]
struct Course<'a> {
    progress: &'a Progress,
    failed: AtomicBool,
}

impl<'a> Course<'a> {
    fn of(progress: &'a Progress) -> Self {
        Self {
            progress,
            failed: AtomicBool::new(false),
        }
    }

    fn is_over(&self) -> bool {
        self.progress.is_stopped() || self.failed.load(Ordering::Relaxed)
    }

    /// Ends all threads at the next part of what they copy.
    fn fail(&self) {
        self.failed.store(true, Ordering::Relaxed);
    }
}

/// Marks a step of a copy; see [`crash`].
fn step(step: &'static str, path: impl FnOnce() -> String) -> Result<(), CopyError> {
    let passed = crash_points::step(step);
    #[cfg(test)]
    return passed.map_err(|error| match error {
        ShareError::Io { source, .. } => CopyError::io("copying", path(), source),
        _ => CopyError::Crash(step),
    });
    #[cfg(not(test))]
    {
        let _ = (passed, path);
        Ok(())
    }
}

/// What was left out so far.
#[derive(Debug, Default)]
struct Omissions(Mutex<BTreeMap<LeftOut, Omission>>);

impl Omissions {
    fn add(&self, kind: LeftOut, example: impl FnOnce() -> String) {
        let mut all = self
            .0
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        all.entry(kind)
            .and_modify(|omission| omission.count += 1)
            .or_insert_with(|| Omission {
                count: 1,
                example: example(),
            });
    }
}

/// How the two file systems let files be copied, as far as it was found out.
#[derive(Debug)]
struct Means {
    /// Whether FICLONE is worth a try.
    clone: AtomicBool,
    /// Whether copy_file_range(2) is worth a try.
    copy_range: AtomicBool,
    /// Whether the source has extended attributes at all.
    attributes: AtomicBool,
    /// Whether the target is on a server: what is written is flushed file by file, which closing would do anyway.
    remote: bool,
    /// Whether a source may be opened without a look: it is on a server, and its mount keeps devices from being opened.
    harmless: bool,
    threads: usize,
}

/// How many entries are worked on at a time over NFS, where most of the time is spent waiting.
const THREADS_REMOTE: usize = 32;
/// The same where the kernel answers at once.
const THREADS_LOCAL: usize = 8;

impl Means {
    fn of(source: &OwnedFd, target: &OwnedFd) -> io::Result<Self> {
        use rustix::fs::{NFS_SUPER_MAGIC, StatVfsMountFlags, fstat, fstatfs};
        // A server is asked each time, but within one file system the answer is the same.
        let from = fstatfs(source)?;
        let from_server = from.f_type == NFS_SUPER_MAGIC;
        let remote = if fstat(source)?.st_dev == fstat(target)?.st_dev {
            from_server
        } else {
            fstatfs(target)?.f_type == NFS_SUPER_MAGIC
        };
        let flags = StatVfsMountFlags::from_bits_retain(from.f_flags as u64);
        Ok(Self {
            clone: AtomicBool::new(true),
            copy_range: AtomicBool::new(true),
            attributes: AtomicBool::new(true),
            remote,
            harmless: from_server && flags.contains(StatVfsMountFlags::NODEV),
            threads: if remote {
                THREADS_REMOTE
            } else {
                THREADS_LOCAL
            },
        })
    }
}
