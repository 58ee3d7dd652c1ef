//! The open files of all copies of this process together. Owns their bound, which is a part of the limit that the system
//! sets (RLIMIT_NOFILE); what is opened is others' business.
//!
//! A copy needs few descriptors to go on, and keeps more to be fast: threads, folders that are worked in, listings that
//! pause. Near the bound it does without those.

use crate::files::descriptors;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// What one thread has open at most while it works: its folders, the entry on both sides, and those on the way.
pub(super) const THREAD: usize = 12;

/// Descriptors of all copies.
static HELD: AtomicUsize = AtomicUsize::new(0);

/// The right to some descriptors, until this is dropped.
#[derive(Debug)]
pub(super) struct Held(usize);

/// How many there may be: half of the limit. The other half is for connections, mounts and calls.
fn bound() -> usize {
    descriptors::limit().map_or(usize::MAX, |limit| {
        usize::try_from(limit / 2).unwrap_or(usize::MAX)
    })
}

impl Held {
    /// So many, if they are left.
    pub fn take(count: usize) -> Option<Self> {
        let bound = bound();
        let more = |held: usize| held.checked_add(count).filter(|held| *held <= bound);
        HELD.fetch_update(Relaxed, Relaxed, more).ok()?;
        Some(Self(count))
    }

    /// So many in any case, for what a copy cannot do without.
    pub fn need(count: usize) -> Self {
        HELD.fetch_add(count, Relaxed);
        Self(count)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        HELD.fetch_sub(self.0, Relaxed);
    }
}
