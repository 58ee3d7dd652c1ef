//! The open files of this process: the limit that the system sets (RLIMIT_NOFILE), and the part of it that work in several threads
//! may have. What is opened is others' business.
//!
//! A copy needs few descriptors to go on, and keeps more to be fast: threads, folders that are worked in, listings that
//! pause. Near its bound it does without those.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// What one thread has open at most while it works: of a copy its folders, the entry on both sides, and those on the way.
pub(crate) const THREAD: usize = 12;

/// Descriptors of all such work.
static HELD: AtomicUsize = AtomicUsize::new(0);

/// How many files this process may have open; nothing when it may have any number.
pub fn limit() -> Option<u64> {
    getrlimit(Resource::Nofile).current
}

/// Raises the limit to the highest that this process may have: the soft limit of most systems, 1024, is for programs that
/// use select(2).
///
/// # Errors
/// When the system refuses; the limit is as it was then.
pub fn raise_limit() -> std::io::Result<()> {
    let maximum = getrlimit(Resource::Nofile).maximum;
    let highest = Rlimit {
        current: maximum,
        maximum,
    };
    Ok(setrlimit(Resource::Nofile, highest)?)
}

/// The right to some descriptors, until this is dropped.
#[derive(Debug)]
pub(crate) struct Held(usize);

impl Held {
    /// So many, if they are left of half of the limit. The other half is for connections, mounts and calls.
    pub(crate) fn take(count: usize) -> Option<Self> {
        let bound = limit().map_or(usize::MAX, |limit| {
            usize::try_from(limit / 2).unwrap_or(usize::MAX)
        });
        let more = |held: usize| held.checked_add(count).filter(|held| *held <= bound);
        HELD.fetch_update(Relaxed, Relaxed, more).ok()?;
        Some(Self(count))
    }

    /// So many in any case, for what the work cannot do without.
    pub(crate) fn need(count: usize) -> Self {
        HELD.fetch_add(count, Relaxed);
        Self(count)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        HELD.fetch_sub(self.0, Relaxed);
    }
}
