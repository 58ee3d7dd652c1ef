//! What all threads of a copy share: the ways to copy between its two file systems, as far as they are known by now, what is
//! left out, and whether it goes on. Must not copy.

use super::distance::Distance;
use super::links::Links;
use super::progress::Progress;
use super::report::Omissions;
use super::view::View;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

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
    /// Bytes of holes that may still be read because they cannot be seen.
    holes: AtomicU64,
    failed: AtomicBool,
}

/// How often the size of a file system may be read of holes that cannot be seen. Files of a server that compresses look as if they
/// had holes.
const HOLES: u64 = 4;

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
            holes: AtomicU64::new(most_holes(from.f_blocks, from.f_bsize.unsigned_abs())),
            failed: AtomicBool::new(false),
        })
    }

    /// Whether so many bytes of holes that cannot be seen may be read, besides those that others have.
    pub fn may_read_holes(&self, bytes: u64) -> bool {
        let left = |left: u64| left.checked_sub(bytes);
        let (set, get) = (Ordering::Relaxed, Ordering::Relaxed);
        self.holes.fetch_update(set, get, left).is_ok()
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

/// Bytes of holes that a copy may read from a file system of so many blocks: who has more has not filled it. Nothing is known where
/// there are none.
fn most_holes(blocks: u64, block_bytes: u64) -> u64 {
    match blocks.saturating_mul(block_bytes) {
        0 => u64::MAX,
        bytes => bytes.saturating_mul(HOLES),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_reads_no_more_holes_than_its_file_system_is_large() {
        for (blocks, block_bytes, expected) in [
            (0, 4096, u64::MAX),
            (1 << 20, 4096, 16 << 30),
            (u64::MAX / 2, 4096, u64::MAX),
        ] {
            assert_eq!(most_holes(blocks, block_bytes), expected, "{blocks}");
        }
    }
}
