//! The folders of a copy as one mount of their share shows them. Owns how many such views a copy is worth, and which one is
//! used next; must not mount.
//!
//! An NFS client makes the names of one folder one after the other, and waits for the server's answer each time. Through
//! mounts with superblocks of their own it makes them side by side. What is made through one view is found through each
//! other by asking the server; link(2), rename(2) and FICLONE stay within one.

use super::descriptors::Held;
use super::error::CopyError;
use super::links::LinksFolder;
use crate::admission::ExtraThreads;
use crate::beneath::{self, Keeper};
use crate::roots::Mounted;
use csi_proto::lock::lock;
use rustix::fs::{fstatfs, syncfs};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// The folders of a copy, as one mount of their share shows them.
#[derive(Debug)]
pub struct View {
    pub(super) source: OwnedFd,
    pub(super) target: OwnedFd,
    pub(super) links: LinksFolder,
    /// Who is to own the copied folder itself, where that is not the owner of the source.
    pub(super) keeper: Option<Keeper>,
    /// What keeps the mount, if that is this view's alone. Dropped last.
    _mount: Option<Mounted>,
}

impl View {
    /// Of a copy from `source` to the empty folder `target`, which keeps files with several names in `links` for its time.
    pub fn new(source: OwnedFd, target: OwnedFd, links: LinksFolder) -> Self {
        Self {
            source,
            target,
            links,
            keeper: None,
            _mount: None,
        }
    }

    /// The same, whose copied folder itself is to belong to `keeper`; without one to the owner of the source.
    pub fn kept_by(self, keeper: Option<Keeper>) -> Self {
        Self { keeper, ..self }
    }

    /// The same, which lets go of `mount` in the end.
    pub fn keeping(self, mount: Mounted) -> Self {
        Self {
            _mount: Some(mount),
            ..self
        }
    }

    fn shows_what(&self, other: &Self) -> bool {
        is_same(&self.source, &other.source) && is_same(&self.target, &other.target)
    }
}

/// Whether two open folders of one share are the same, without asking the server.
pub(super) fn is_same(one: &OwnedFd, other: &OwnedFd) -> bool {
    let inodes = [one, other].map(beneath::own_inode);
    matches!(inodes, [Ok(one), Ok(other)] if one == other)
}

/// Gives one more view, or nothing where there is no other. It may block.
pub type More<'a> = &'a (dyn Fn() -> Option<View> + Sync);

/// Views of one copy at most. Of the 32 threads that copy over NFS, each makes a name in one of eight calls, so more than
/// these would have nothing to do.
pub(super) const MOST: usize = 5;
/// Round trips that are no reason for more: there the processors are what takes the time.
const QUICK: Duration = Duration::from_micros(750);
/// What it costs to have one more: a helper process, and questions to the server.
const HELPER: Duration = Duration::from_millis(60);
const QUESTIONS: u32 = 16;
/// Descriptors of one view.
const DESCRIPTORS: usize = 6;

/// How many views a folder with so many names is worth, when the server answers after `round_trip`: as many as cost less,
/// together, than the time for which the names would wait for each other.
pub(super) fn worth(names: usize, round_trip: Duration) -> usize {
    if round_trip < QUICK {
        return 1;
    }
    let waiting = round_trip.saturating_mul(u32::try_from(names).unwrap_or(u32::MAX));
    let cost = HELPER + round_trip * QUESTIONS;
    usize::try_from(waiting.as_micros() / cost.as_micros())
        .map_or(MOST, |views| views.clamp(1, MOST))
}

/// How long a server takes to answer: the shortest of a few answers, since this process may have had to wait for a processor.
fn round_trip(folder: &OwnedFd) -> Duration {
    let ask = |_| {
        let began = Instant::now();
        // Never answered from what the client knows.
        let _ = fstatfs(folder);
        began.elapsed()
    };
    (0..3).map(ask).min().unwrap_or_default()
}

/// The views of one copy. The first is there from the beginning; folders are finished through it.
pub(super) struct Views<'a> {
    all: Mutex<Vec<Arc<View>>>,
    held: Mutex<Vec<Held>>,
    turn: AtomicUsize,
    more: More<'a>,
    /// Asked for once, when a large folder is met.
    pub(super) round_trip: Mutex<Option<Duration>>,
}

impl<'a> Views<'a> {
    pub fn new(first: View, more: More<'a>) -> Self {
        Self {
            all: Mutex::new(vec![Arc::new(first)]),
            held: Mutex::default(),
            turn: AtomicUsize::new(0),
            more,
            round_trip: Mutex::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Arc<View>>> {
        lock(&self.all)
    }

    pub fn first(&self) -> Arc<View> {
        Arc::clone(&self.lock()[0])
    }

    /// Each in its turn.
    pub fn next(&self) -> Arc<View> {
        let all = self.lock();
        Arc::clone(&all[self.turn.fetch_add(1, Ordering::Relaxed) % all.len()])
    }

    /// How many views a folder with so many names is worth here.
    pub fn worth(&self, names: usize) -> usize {
        // However slow, fewer are not worth the question.
        if worth(names, Duration::from_secs(1)) == 1 {
            return 1;
        }
        let mut known = lock(&self.round_trip);
        let asked = known.get_or_insert_with(|| round_trip(&self.first().target));
        worth(names, *asked)
    }

    /// Adds one more, if there is one that shows the same as the first.
    pub fn add(&self) {
        if let Some(held) = Held::take(DESCRIPTORS)
            && let Some(view) = (self.more)()
            && view.shows_what(&self.first())
        {
            self.lock().push(Arc::new(view));
            lock(&self.held).push(held);
        }
    }

    /// Removes what files with several names have needed, by as many threads as `extra` gives, `most` at the most, and
    /// returns when all that was written through any view is on disk.
    pub fn finish(&self, most: usize, extra: &ExtraThreads) -> Result<(), CopyError> {
        let views = self.lock();
        let first = &views[0];
        if views.iter().any(|view| view.links.is_made()) {
            first
                .links
                .remove(most, extra)
                .map_err(|error| CopyError::io("clearing the links of", ".".to_owned(), error))?;
        }
        // Once for all files, which is the cheapest; it reports what a write in the background met.
        views
            .iter()
            .try_for_each(|view| syncfs(&view.target))
            .map_err(|error| CopyError::io("writing to disk", ".".to_owned(), error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_worth_more_views_the_more_its_names_would_wait() {
        for (names, round_trip, views) in [
            // Nobody waits.
            (1_000_000, 0, 1),
            (1_000_000, 700, 1),
            // A network.
            (10, 2_000, 1),
            (50, 2_000, 1),
            (100, 2_000, 2),
            (200, 2_000, 4),
            (2_000, 2_000, MOST),
            (2_000, 1_000, MOST),
            (300, 1_000, 3),
            // A distance.
            (1, 20_000, 1),
            (30, 20_000, 1),
            (60, 20_000, 3),
            (300, 20_000, MOST),
            (1_000_000, 20_000, MOST),
            // Another continent: a mount costs more as well.
            (30, 300_000, 1),
            (100, 300_000, MOST),
            (usize::MAX, 10_000_000, MOST),
        ] {
            let worth = worth(names, Duration::from_micros(round_trip));
            assert_eq!(worth, views, "{names} names, {round_trip} µs");
        }
    }
}
