//! The folders of a copy as one mount of their share shows them. Owns which of several such views is used next; must not
//! mount.
//!
//! An NFS client makes the names of one folder one after the other, and waits for the server's answer each time. Through
//! mounts with superblocks of their own it makes them side by side. What is made through one view is found through each
//! other by asking the server; link(2), rename(2) and FICLONE stay within one.

use super::distance::Distance;
use super::error::CopyError;
use super::links::LinksFolder;
use crate::files::admission::ExtraThreads;
use crate::files::beneath;
use crate::files::descriptors::Held;
use crate::files::owner::Owner;
use crate::files::roots::Mounted;
use csi_proto::lock::lock;
use rustix::fs::syncfs;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

/// The folders of a copy, as one mount of their share shows them.
#[derive(Debug)]
pub struct View {
    pub(super) source: OwnedFd,
    pub(super) target: OwnedFd,
    pub(super) links: LinksFolder,
    /// Who is to own the copied folder itself, where that is not the owner of the source.
    pub owner: Option<Owner>,
    /// How far its server is, where somebody has asked.
    pub distance: Option<Distance>,
    /// The right to its descriptors, of one that is added.
    _held: Option<Held>,
    /// What keeps the mount, if that is this view's alone. Dropped last.
    pub mount: Option<Mounted>,
}

impl View {
    /// Of a copy from `source` to the empty folder `target`, which keeps files with several names in `links` for its time.
    pub fn new(source: OwnedFd, target: OwnedFd, links: LinksFolder) -> Self {
        Self {
            source,
            target,
            links,
            owner: None,
            distance: None,
            _held: None,
            mount: None,
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

/// Descriptors of one view.
const DESCRIPTORS: usize = 6;

/// The views of one copy. The first is there from the beginning; folders are finished through it.
pub(super) struct Views<'a> {
    all: Mutex<Vec<Arc<View>>>,
    turn: AtomicUsize,
    more: More<'a>,
}

impl<'a> Views<'a> {
    pub fn new(first: View, more: More<'a>) -> Self {
        Self {
            all: Mutex::new(vec![Arc::new(first)]),
            turn: AtomicUsize::new(0),
            more,
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

    /// Adds one more, if there is one that shows the same as the first.
    pub fn add(&self) {
        if let Some(held) = Held::take(DESCRIPTORS)
            && let Some(view) = (self.more)()
            && view.shows_what(&self.first())
        {
            let _held = Some(held);
            self.lock().push(Arc::new(View { _held, ..view }));
        }
    }

    /// Removes what files with several names have needed, by as many threads as `extra` gives, and returns when all that was
    /// written through any view is on disk.
    pub fn finish(&self, extra: &ExtraThreads) -> Result<(), CopyError> {
        let views = self.lock();
        let first = &views[0];
        if views.iter().any(|view| view.links.is_made()) {
            first
                .links
                .remove(extra)
                .map_err(|error| CopyError::io("clearing the links of", ".".to_owned(), error))?;
        }
        // Once for all files, which is the cheapest; it reports what a write in the background met.
        views
            .iter()
            .try_for_each(|view| syncfs(&view.target))
            .map_err(|error| CopyError::io("writing to disk", ".".to_owned(), error))
    }
}
