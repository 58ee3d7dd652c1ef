//! A running copy: how far it is, and whether it goes on. Must not know what is copied.

use crate::files::admission::ExtraThreads;
use crate::metrics::METRICS;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// A running copy, seen from outside: how far it is, the way to end it, and where it asks for threads.
#[derive(Debug, Default)]
pub struct Progress {
    files: AtomicU64,
    bytes: AtomicU64,
    stop: AtomicBool,
    pub(super) threads: ExtraThreads,
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

    /// Counts one more entry, of so many bytes.
    pub fn count(&self, bytes: u64) {
        self.files.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        METRICS.copied_files.inc();
        METRICS.copied_bytes.inc_by(bytes);
    }
}
