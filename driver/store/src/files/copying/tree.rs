//! The walk through a tree that is copied, by the threads of a pool: a bounded number of open folders and of names in memory,
//! no recursion however deep the tree, folders finished after all that is in them. What is done with an entry is the business
//! of `entry`, how folders are opened and finished that of `folders`.
//!
//! Work lies on a stack, so the walk goes down first. A thread that lists a folder puts down the folders that it finds, and the
//! other entries above them. Of these, whoever goes through them hands some on while others have little to do, and else copies
//! one itself: an NFS client makes the names of one folder one after the other, so threads had better be in several. A long
//! listing pauses below what it has found, and goes on when that is taken up.

use super::course::Course;
use super::entry::EntryCopier;
use super::error::CopyError;
use super::node::{Node, Pair};
use super::view::{View, Views};
use crate::files::crash_points;
use crate::files::descriptors::Held;
use crate::files::pool::Pool;
use crate::files::walking::listing::Listing;
use csi_proto::lock::lock;
use rustix::fs::{FileType, Mode};
use rustix::io::Errno;
use std::ffi::{CStr, CString};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::vec::IntoIter;

/// Names after which a listing pauses, with an open folder and a buffer.
const MANY: usize = 1024;
/// Names that one listing has in memory at most: then it pauses also when few descriptors are left.
const MOST: usize = 64 * MANY;
/// The stack of the thread that copies, where there may be no more: little, so that it can be had.
const STACK: usize = 256 * 1024;

pub(super) fn copy(views: &Views<'_>, course: &Course<'_>) -> Result<(), CopyError> {
    let tree = Tree::new(views, course);
    let worker = || {
        own_umask();
        let mut copier = EntryCopier {
            course,
            bytes: Vec::new(),
            names: Vec::new(),
        };
        let tree = &tree;
        move |step| {
            let done = match course.is_over() {
                true => Err(CopyError::Stopped),
                false => tree.perform(step, &mut copier),
            };
            if let Err(error) = done {
                lock(&tree.failed).get_or_insert(error);
                course.fail();
                tree.pool.end();
            }
        }
    };
    // Of this thread's own umask nothing is to be changed, so it copies nothing itself.
    std::thread::scope(|scope| {
        let first = std::thread::Builder::new().name("copy".to_owned());
        let first = first.stack_size(STACK);
        first
            .spawn_scoped(scope, || tree.pool.work(worker))
            .map(drop)
    })
    .map_err(|error| CopyError::io("starting a thread to copy", ".".to_owned(), error))?;
    let failed = tree.failed.into_inner();
    match failed.unwrap_or_else(PoisonError::into_inner) {
        Some(error) => Err(error),
        None => Ok(()),
    }
}

pub(super) enum TreeStep {
    /// A folder that was found.
    Folder(Arc<Node>),
    /// A listing that goes on.
    Listing(Arc<Node>, Arc<Pair>, Listing, Held),
    /// Entries of a folder that nobody has taken up.
    Entries(Arc<Node>, Arc<Pair>, IntoIter<(CString, FileType)>),
    /// An entry of a folder.
    Entry(Arc<Node>, CString, FileType),
}

pub(super) struct Tree<'a> {
    pub(super) views: &'a Views<'a>,
    pub(super) first: Arc<View>,
    /// Pairs of folders that are kept open.
    pub(super) open: AtomicUsize,
    /// What the ACLs take that are kept for folders.
    pub(super) acls: AtomicUsize,
    pub(super) course: &'a Course<'a>,
    pool: Pool<'a, TreeStep>,
    /// How many views are worth their cost.
    views_wanted: AtomicUsize,
    /// How many there are, or will be soon.
    views_made: AtomicUsize,
    /// Why the copy is given up.
    failed: Mutex<Option<CopyError>>,
}

impl<'a> Tree<'a> {
    pub(super) fn new(views: &'a Views<'a>, course: &'a Course<'a>) -> Self {
        let root = TreeStep::Folder(Node::new(None, CString::default()));
        Self {
            views,
            first: views.first(),
            open: AtomicUsize::new(0),
            acls: AtomicUsize::new(0),
            course,
            pool: Pool::new(&course.progress.threads, course.threads, vec![root]),
            views_wanted: AtomicUsize::new(1),
            views_made: AtomicUsize::new(1),
            failed: Mutex::default(),
        }
    }

    fn perform(&self, step: TreeStep, copier: &mut EntryCopier<'a>) -> Result<(), CopyError> {
        self.add_view();
        match step {
            TreeStep::Folder(node) => match self.enter(&node, copier)? {
                Some((pair, listing)) => self.list(node, pair, listing),
                None => self.finished(node),
            },
            TreeStep::Listing(node, pair, listing, _held) => self.list(node, pair, listing),
            TreeStep::Entries(node, pair, entries) => self.entries(node, pair, entries, copier),
            TreeStep::Entry(node, name, kind) => {
                match self.pair(&node)? {
                    Some(pair) => self.entry(&node, &pair, &name, kind, copier)?,
                    None => self.leave_out(&node, Some(&name)),
                }
                self.finished(node)
            }
        }
    }

    /// Puts down what is in a folder as work.
    fn list(
        &self,
        node: Arc<Node>,
        pair: Arc<Pair>,
        mut listing: Listing,
    ) -> Result<(), CopyError> {
        let mut found = Vec::new();
        let pauses = loop {
            if self.course.is_over() {
                return Err(CopyError::Stopped);
            }
            match crash_points::ask().and_then(|()| listing.part()) {
                Ok(part) if part.is_empty() => break None,
                Ok(part) => found.extend(part),
                // The folder was removed while it was read: what was left in it then is not known.
                Err(Errno::NOENT) => {
                    self.leave_out(&node, None);
                    break None;
                }
                Err(Errno::STALE) if self.is_gone(&node, &pair.source, None)? => {
                    self.leave_out(&node, None);
                    break None;
                }
                Err(error) => {
                    return Err(CopyError::io("listing", node.path(None), error));
                }
            }
            if found.len() >= MANY {
                let held = Held::take(3);
                if held.is_some() || found.len() >= MOST {
                    break Some(held.unwrap_or_else(|| Held::need(3)));
                }
            }
        };
        self.widen(&node, listing.names());
        let (folders, entries): (Vec<_>, Vec<_>) = found
            .into_iter()
            .partition(|(_, kind)| *kind == FileType::Directory);
        let mut steps = Vec::with_capacity(folders.len() + 2);
        if let Some(held) = pauses {
            node.unfinished.fetch_add(1, Ordering::AcqRel);
            let (at, open) = (Arc::clone(&node), Arc::clone(&pair));
            steps.push(TreeStep::Listing(at, open, listing, held));
        }
        steps.extend(folders.into_iter().map(|(name, _)| self.child(&node, name)));
        steps.push(TreeStep::Entries(node, pair, entries.into_iter()));
        self.pool.put(steps);
        Ok(())
    }

    /// Hands entries on while others have little to do, or copies the first. What is left is put down again.
    fn entries(
        &self,
        node: Arc<Node>,
        pair: Arc<Pair>,
        mut entries: IntoIter<(CString, FileType)>,
        copier: &mut EntryCopier<'_>,
    ) -> Result<(), CopyError> {
        let before = entries.len();
        while self.pool.is_short_of_work()
            && let Some((name, kind)) = entries.next()
        {
            node.unfinished.fetch_add(1, Ordering::AcqRel);
            self.pool
                .put([TreeStep::Entry(Arc::clone(&node), name, kind)]);
        }
        if entries.len() == before
            && let Some((name, kind)) = entries.next()
        {
            self.entry(&node, &pair, &name, kind, copier)?;
        }
        if entries.len() > 0 {
            self.pool.put([TreeStep::Entries(node, pair, entries)]);
            return Ok(());
        }
        drop(pair);
        self.close_if_many(&node);
        self.finished(node)
    }

    /// Adds one of the views that are wanted. One thread alone is no faster by it: more threads may come later.
    fn add_view(&self) {
        let wanted = self.views_wanted.load(Ordering::Relaxed);
        let next = |made| (made < wanted).then_some(made + 1);
        if self.views_made.load(Ordering::Relaxed) < wanted
            && self.pool.threads() > 1
            && self
                .views_made
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, next)
                .is_ok()
        {
            self.views.add();
        }
    }

    /// Has a folder with so many names worked in through as many views as it is worth.
    fn widen(&self, node: &Arc<Node>, names: usize) {
        let views = match self.course.remote {
            true => self.course.distance.views(names),
            false => 1,
        };
        if views > 1 {
            node.lock().is_wide = true;
        }
        self.views_wanted.fetch_max(views, Ordering::Relaxed);
    }

    fn child(&self, node: &Arc<Node>, name: CString) -> TreeStep {
        node.unfinished.fetch_add(1, Ordering::AcqRel);
        TreeStep::Folder(Node::new(Some(Arc::clone(node)), name))
    }

    /// Copies the entry `name` of a folder, of which `pair` is what the first view shows.
    pub(super) fn entry(
        &self,
        node: &Arc<Node>,
        pair: &Arc<Pair>,
        name: &CStr,
        kind: FileType,
        copier: &mut EntryCopier<'_>,
    ) -> Result<(), CopyError> {
        if self.course.is_over() {
            return Err(CopyError::Stopped);
        }
        let pair = self.in_its_turn(node, pair);
        match copier.copy(&pair, name, kind, || node.path(Some(name))) {
            Ok(true) => {}
            Err(error) if error.is_stale() && self.is_gone(node, &pair.source, Some(name))? => {
                self.leave_out(node, Some(name));
            }
            Err(error) => return Err(error),
            Ok(false) => {
                self.pool.put([self.child(node, name.to_owned())]);
            }
        }
        crash_points::step("an entry is copied")
            .map_err(|(_, errno)| CopyError::io("copying", node.path(Some(name)), errno))
    }

    /// Counts one part of a folder as done; the last one finishes the folder, which is a part of the one above.
    fn finished(&self, node: Arc<Node>) -> Result<(), CopyError> {
        let (mut next, mut below) = (Some(node), None);
        while let Some(node) = next {
            if node.unfinished.fetch_sub(1, Ordering::AcqRel) > 1 {
                return Ok(());
            }
            below = self.seal(&node, below)?;
            next = node.parent.clone();
        }
        Ok(())
    }
}

/// Gives this thread a umask of its own, which takes nothing from the modes that files are made with. Where the system
/// refuses, each mode is set afterwards, which costs a call.
fn own_umask() {
    // Deprecated for a flag that is not given here; the replacement is `unsafe`.
    #[allow(deprecated)]
    if rustix::thread::unshare(rustix::thread::UnshareFlags::FS).is_ok() {
        rustix::process::umask(Mode::empty());
    }
}
