//! The ways to copy files between two file systems, as far as they are known by now.

use super::distance::Distance;
use super::view::View;
use std::io;
use std::sync::atomic::AtomicBool;

/// What is found out about a source and a target once, for all entries.
#[derive(Debug)]
pub(super) struct CopyMethods {
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
}

/// How many entries are worked on at a time over NFS, where most of the time is spent waiting. More would wait for the client:
/// a server bounds the calls of a session, and that of Linux 6.1 lets no more than 30 be under way.
const THREADS_REMOTE: usize = 32;
/// The same where the kernel answers at once.
const THREADS_LOCAL: usize = 8;

impl CopyMethods {
    pub fn of(view: &View) -> io::Result<Self> {
        let View { source, target, .. } = view;
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
            distance: (view.distance).unwrap_or_else(|| Distance::of(source)),
            threads: if remote {
                THREADS_REMOTE
            } else {
                THREADS_LOCAL
            },
        })
    }
}
