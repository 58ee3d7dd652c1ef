//! What all threads of a copy share: the ways to copy between its two file systems, as far as they are known by now, what is
//! left out, and whether it goes on. Must not copy.

use super::distance::Distance;
use super::links::Links;
use super::progress::Progress;
use super::report::Omissions;
use super::view::View;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

/// A running copy, seen by its threads.
#[derive(Debug)]
pub(super) struct Course<'a> {
    pub progress: &'a Progress,
    pub omissions: Omissions,
    pub links: Links,
    /// Whether FICLONE is worth a try.
    pub clone: AtomicBool,
    /// Whether copy_file_range(2) is worth a try.
    pub copy_range: AtomicBool,
    /// Whether the source has extended attributes at all.
    pub attributes: AtomicBool,
    /// Whether the target is on a server: what is written is flushed file by file, which closing would do anyway.
    pub remote: bool,
    /// Whether a source may be opened without a look: it is on a server, and its mount keeps devices from being opened.
    pub harmless: bool,
    /// How far the server is.
    pub distance: Distance,
    pub threads: usize,
    failed: AtomicBool,
}

/// How many entries are worked on at a time over NFS, where most of the time is spent waiting. More would wait for the client:
/// a server bounds the calls of a session, and that of Linux 6.1 lets no more than 30 be under way.
const THREADS_REMOTE: usize = 32;
/// The same where the kernel answers at once.
const THREADS_LOCAL: usize = 8;

impl<'a> Course<'a> {
    pub fn of(view: &View, progress: &'a Progress) -> io::Result<Self> {
        use rustix::fs::{NFS_SUPER_MAGIC, StatVfsMountFlags, fstat, fstatfs};
        let View { source, target, .. } = view;
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
            progress,
            omissions: Omissions::default(),
            links: Links::default(),
            clone: AtomicBool::new(true),
            copy_range: AtomicBool::new(true),
            attributes: AtomicBool::new(true),
            remote,
            harmless: from_server && flags.contains(StatVfsMountFlags::NODEV),
            distance: (view.distance).unwrap_or_else(|| Distance::of(source)),
            threads: if remote {
                THREADS_REMOTE
            } else {
                THREADS_LOCAL
            },
            failed: AtomicBool::new(false),
        })
    }

    /// Whether somebody has stopped the copy, or one of its threads has failed.
    pub fn is_over(&self) -> bool {
        self.progress.is_stopped() || self.failed.load(Ordering::Relaxed)
    }

    /// Ends all threads at the next part of what they copy.
    pub fn fail(&self) {
        self.failed.store(true, Ordering::Relaxed);
    }
}
