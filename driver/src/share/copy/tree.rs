//! The walk through a tree that is copied: many threads, a bounded number of open folders and of names in memory, no
//! recursion however deep the tree, folders finished after all that is in them. What is done with an entry is the business
//! of `entry`.
//!
//! Work lies on a stack, so the walk goes down first. A thread that lists a folder hands its entries on in batches while
//! others have nothing to do, and else deals with them itself. When too many folders wait, a listing pauses, lies on the
//! stack below the folder that it has just found, and goes on when that is done. A thread is started when there is more work
//! than threads that wait for some: most volumes are small, and a thread costs more than a few files.

use super::attributes::{self, Basics};
use super::entry::{Desk, Done, Named};
use super::links::Links;
use super::listing::Listing;
use super::node::{Node, Pair};
use super::{CopyError, Course, LeftOut, Means, Omissions};
use crate::share::beneath;
use rustix::fs::{self, FileType, Mode};
use rustix::io::Errno;
use std::ffi::{CStr, CString, OsStr};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Entries that are handed on together.
const BATCH: usize = 8;
/// Folders that wait before listings begin to pause.
const WAITING: usize = 4096;
/// Listings that pause at most, each with an open folder and a buffer.
const PAUSED: usize = 48;
/// Pairs of folders that are kept open.
const OPEN: usize = 96;
const STACK: usize = 256 * 1024;
/// The longest path in one open(2), with room to spare.
const LONGEST: usize = 3500;

pub(super) fn copy(
    source: &OwnedFd,
    target: &OwnedFd,
    links: &OwnedFd,
    course: &Course<'_>,
    means: &Means,
    omissions: &Omissions,
) -> Result<(), CopyError> {
    let root = Arc::new(Node {
        parent: None,
        name: CString::default(),
        state: Mutex::default(),
        unfinished: AtomicUsize::new(1),
    });
    let tree = Tree {
        source,
        target,
        open: AtomicUsize::new(0),
        links: Links::new(links),
        course,
        means,
        omissions,
        queue: Mutex::new(Queue {
            work: vec![Work::Folder(root)],
            ..Queue::default()
        }),
        changed: Condvar::new(),
        wanted: Condvar::new(),
        #[cfg(test)]
        crash: crate::share::crash::inherited(),
    };
    // Of this thread's own umask nothing is to be changed, so it copies nothing itself.
    std::thread::scope(|scope| {
        let mut most = means.threads;
        let mut queue = tree.lock();
        while most > 0 && !queue.is_done() {
            if !queue.wants_a_thread(most) {
                queue = tree.wait(&tree.wanted, queue);
                continue;
            }
            queue.threads += 1;
            queue.starting += 1;
            drop(queue);
            let spawned = std::thread::Builder::new()
                .name("copy".to_owned())
                .stack_size(STACK)
                .spawn_scoped(scope, || tree.run());
            queue = tree.lock();
            if spawned.is_err() {
                queue.threads -= 1;
                queue.starting -= 1;
                // With fewer threads it takes longer.
                most = queue.threads;
            }
        }
    });
    let mut queue = tree.lock();
    match queue.failed.take() {
        Some(error) => Err(error),
        None if queue.work.is_empty() => Ok(()),
        None => Err(CopyError::io(
            "starting a thread to copy",
            ".".to_owned(),
            Errno::AGAIN,
        )),
    }
}

enum Work {
    /// A folder that was found.
    Folder(Arc<Node>),
    /// A listing that goes on.
    Listing(Arc<Node>, Arc<Pair>, Listing),
    /// Entries of a folder.
    Entries(Arc<Node>, Vec<(CString, FileType)>),
}

#[derive(Default)]
struct Queue {
    work: Vec<Work>,
    /// Threads that there are, of which some are starting and some wait for work.
    threads: usize,
    starting: usize,
    idle: usize,
    busy: usize,
    waiting: usize,
    paused: usize,
    failed: Option<CopyError>,
}

impl Queue {
    fn is_done(&self) -> bool {
        self.failed.is_some() || (self.work.is_empty() && self.busy == 0)
    }

    fn wants_a_thread(&self, most: usize) -> bool {
        self.threads < most && self.work.len() > self.idle + self.starting
    }
}

struct Tree<'a> {
    source: &'a OwnedFd,
    target: &'a OwnedFd,
    open: AtomicUsize,
    links: Links<'a>,
    course: &'a Course<'a>,
    means: &'a Means,
    omissions: &'a Omissions,
    queue: Mutex<Queue>,
    /// There is work, or there will be no more.
    changed: Condvar,
    /// A thread is wanted, or none will be.
    wanted: Condvar,
    #[cfg(test)]
    crash: crate::share::crash::Inherited,
}

impl<'a> Tree<'a> {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'q>(&self, event: &Condvar, queue: MutexGuard<'q, Queue>) -> MutexGuard<'q, Queue> {
        event.wait(queue).unwrap_or_else(PoisonError::into_inner)
    }

    /// Has the work that was put down in `queue` taken up by a thread.
    fn call(&self, queue: MutexGuard<'_, Queue>) {
        let (idle, wanted) = (queue.idle > 0, queue.wants_a_thread(self.means.threads));
        drop(queue);
        if idle {
            self.changed.notify_one();
        }
        if wanted {
            self.wanted.notify_one();
        }
    }

    fn run(&'a self) {
        own_umask();
        #[cfg(test)]
        crate::share::crash::adopt(&self.crash);
        let mut desk = Desk {
            means: self.means,
            links: &self.links,
            course: self.course,
            omissions: self.omissions,
            bytes: Vec::new(),
            names: Vec::new(),
        };
        let mut queue = self.lock();
        queue.starting -= 1;
        while queue.failed.is_none() {
            if self.course.is_over() {
                queue.failed = Some(CopyError::Stopped);
                break;
            }
            match queue.work.pop() {
                Some(work) => {
                    match &work {
                        Work::Folder(_) => queue.waiting = queue.waiting.saturating_sub(1),
                        Work::Listing(..) => queue.paused -= 1,
                        Work::Entries(..) => {}
                    }
                    queue.busy += 1;
                    drop(queue);
                    let done = self.perform(work, &mut desk);
                    queue = self.lock();
                    queue.busy -= 1;
                    if let Err(error) = done {
                        queue.failed.get_or_insert(error);
                        self.course.fail();
                    }
                    if queue.busy == 0 || queue.failed.is_some() {
                        self.changed.notify_all();
                    }
                }
                None if queue.busy == 0 => break,
                None => {
                    queue.idle += 1;
                    queue = self.wait(&self.changed, queue);
                    queue.idle -= 1;
                }
            }
        }
        self.changed.notify_all();
        self.wanted.notify_one();
    }

    fn perform(&'a self, work: Work, desk: &mut Desk<'a>) -> Result<(), CopyError> {
        match work {
            Work::Folder(node) => match self.enter(&node, desk)? {
                Some((pair, listing)) => self.list(node, pair, listing, desk),
                None => self.finished(node),
            },
            Work::Listing(node, pair, listing) => self.list(node, pair, listing, desk),
            Work::Entries(node, entries) => {
                let pair = self.pair(&node)?;
                for (name, kind) in &entries {
                    self.entry(&node, &pair, name, *kind, desk)?;
                }
                drop(pair);
                self.finished(node)
            }
        }
    }

    /// Makes the folder in the target and opens both. Nothing when there is nothing to list.
    fn enter(
        &self,
        node: &Arc<Node>,
        desk: &mut Desk<'_>,
    ) -> Result<Option<(Arc<Pair>, Listing)>, CopyError> {
        let failed = |doing| {
            let node = Arc::clone(node);
            move |error: io::Error| CopyError::io(doing, node.path(None), error)
        };
        let (source, target) = match &node.parent {
            None => (
                beneath::folder(self.source, ".").map_err(failed("opening"))?,
                beneath::folder(self.target, ".").map_err(failed("opening"))?,
            ),
            Some(parent) => {
                let above = self.pair(parent)?;
                let name = OsStr::from_bytes(node.name.to_bytes());
                let source = match beneath::folder(&above.source, name) {
                    Ok(source) => Some(source),
                    Err(error) => match beneath::errno(&error) {
                        Some(Errno::XDEV) => {
                            desk.omissions.add(LeftOut::Mount, || node.path(None));
                            None
                        }
                        Some(Errno::NOENT | Errno::STALE) => {
                            desk.omissions.add(LeftOut::Vanished, || node.path(None));
                            return Ok(None);
                        }
                        // No folder any more.
                        Some(Errno::LOOP | Errno::NOTDIR) => {
                            self.entry(parent, &above, &node.name, FileType::Unknown, desk)?;
                            return Ok(None);
                        }
                        _ => return Err(failed("opening")(error)),
                    },
                };
                fs::mkdirat(&above.target, &*node.name, Mode::RWXU)
                    .map_err(|error| failed("making")(error.into()))?;
                desk.course.progress.count(0);
                let Some(source) = source else {
                    return Ok(None);
                };
                let target =
                    beneath::folder(&above.target, name).map_err(failed("opening the copy of"))?;
                (source, target)
            }
        };
        let looking = failed("looking at");
        let stat = fs::fstat(&source).map_err(|error| looking(error.into()))?;
        let attributes =
            attributes::read(&source, self.means, desk.omissions, &mut desk.names, || {
                node.path(None)
            })
            .map_err(|error| failed("reading the attributes of")(error.into()))?;
        let listing = Listing::open(&source, self.means.remote).map_err(failed("listing"))?;
        let pair = Arc::new(Pair { source, target });
        self.open.fetch_add(1, Ordering::Relaxed);
        let mut state = node.lock();
        state.pair = Some(Arc::clone(&pair));
        state.rest = Some((Basics::of(&stat), attributes));
        Ok(Some((pair, listing)))
    }

    fn list(
        &'a self,
        node: Arc<Node>,
        pair: Arc<Pair>,
        mut listing: Listing,
        desk: &mut Desk<'a>,
    ) -> Result<(), CopyError> {
        let mut batch: Vec<(CString, FileType)> = Vec::with_capacity(BATCH);
        loop {
            let (name, kind) = match listing.next() {
                Ok(Some(entry)) => entry,
                Ok(None) => break,
                // The folder was removed while it was read: what was left in it then is not known.
                Err(Errno::NOENT | Errno::STALE) => {
                    desk.omissions.add(LeftOut::Vanished, || node.path(None));
                    break;
                }
                Err(error) => {
                    return Err(CopyError::io("listing", node.path(None), error));
                }
            };
            if self.course.is_over() {
                return Err(CopyError::Stopped);
            }
            if kind == FileType::Directory {
                let child = self.child(&node, &name);
                let mut queue = self.lock();
                queue.waiting += 1;
                let pause = queue.waiting > WAITING && queue.paused < PAUSED;
                if pause {
                    queue.paused += 1;
                    queue
                        .work
                        .push(Work::Listing(Arc::clone(&node), Arc::clone(&pair), listing));
                    queue.work.push(Work::Folder(child));
                    self.call(queue);
                    return self.entries(&node, &pair, batch, desk);
                }
                queue.work.push(Work::Folder(child));
                self.call(queue);
                continue;
            }
            batch.push((name, kind));
            if batch.len() == BATCH {
                let full = std::mem::replace(&mut batch, Vec::with_capacity(BATCH));
                self.hand_on(&node, &pair, full, desk)?;
            }
        }
        drop(listing);
        self.entries(&node, &pair, batch, desk)?;
        drop(pair);
        self.close_if_many(&node);
        self.finished(node)
    }

    fn child(&self, node: &Arc<Node>, name: &CStr) -> Arc<Node> {
        node.unfinished.fetch_add(1, Ordering::AcqRel);
        Arc::new(Node {
            parent: Some(Arc::clone(node)),
            name: name.to_owned(),
            state: Mutex::default(),
            unfinished: AtomicUsize::new(1),
        })
    }

    /// Gives entries to a thread that has nothing to do, or deals with them here.
    fn hand_on(
        &'a self,
        node: &Arc<Node>,
        pair: &Arc<Pair>,
        entries: Vec<(CString, FileType)>,
        desk: &mut Desk<'a>,
    ) -> Result<(), CopyError> {
        let mut queue = self.lock();
        // Some more than are idle now, for those that soon will be.
        if queue.idle > 0 || queue.work.len() < 2 * self.means.threads {
            node.unfinished.fetch_add(1, Ordering::AcqRel);
            queue.work.push(Work::Entries(Arc::clone(node), entries));
            self.call(queue);
            return Ok(());
        }
        drop(queue);
        self.entries(node, pair, entries, desk)
    }

    fn entries(
        &'a self,
        node: &Arc<Node>,
        pair: &Arc<Pair>,
        entries: Vec<(CString, FileType)>,
        desk: &mut Desk<'a>,
    ) -> Result<(), CopyError> {
        entries
            .iter()
            .try_for_each(|(name, kind)| self.entry(node, pair, name, *kind, desk))
    }

    fn entry(
        &self,
        node: &Arc<Node>,
        pair: &Pair,
        name: &CStr,
        kind: FileType,
        desk: &mut Desk<'_>,
    ) -> Result<(), CopyError> {
        if self.course.is_over() {
            return Err(CopyError::Stopped);
        }
        let (from, to) = (&pair.source, &pair.target);
        let from = Named { folder: from, name };
        let to = Named { folder: to, name };
        match desk.copy(from, to, kind, || node.path(Some(name)))? {
            Done::Yes => {}
            Done::Folder => {
                let child = self.child(node, name);
                let mut queue = self.lock();
                queue.waiting += 1;
                queue.work.push(Work::Folder(child));
                self.call(queue);
            }
        }
        super::step("an entry is copied", || node.path(Some(name)))
    }

    /// The node's two folders, opened again where they were closed.
    fn pair(&self, node: &Arc<Node>) -> Result<Arc<Pair>, CopyError> {
        if let Some(pair) = &node.lock().pair {
            return Ok(Arc::clone(pair));
        }
        let failed = |error| CopyError::io("opening", node.path(None), error);
        let pair = Arc::new(Pair {
            source: self.walk(self.source, node, true).map_err(failed)?,
            target: self.walk(self.target, node, false).map_err(failed)?,
        });
        let mut state = node.lock();
        if state.pair.is_none() && self.open.load(Ordering::Relaxed) < OPEN {
            self.open.fetch_add(1, Ordering::Relaxed);
            state.pair = Some(Arc::clone(&pair));
        }
        drop(state);
        Ok(pair)
    }

    /// Opens the node's folder from the nearest one above that is open, in pieces where the path is too long for one call.
    fn walk(&self, root: &OwnedFd, node: &Arc<Node>, source: bool) -> io::Result<OwnedFd> {
        let mut names = Vec::new();
        let mut at = Arc::clone(node);
        let mut start = None;
        while let Some(parent) = at.parent.clone() {
            names.push(at.name.clone());
            if let Some(pair) = &parent.lock().pair {
                start = Some(Arc::clone(pair));
            }
            if start.is_some() {
                break;
            }
            at = parent;
        }
        let from = match &start {
            Some(pair) if source => &pair.source,
            Some(pair) => &pair.target,
            None => root,
        };
        let mut current: Option<OwnedFd> = None;
        let mut path = Vec::new();
        while let Some(name) = names.pop() {
            if !path.is_empty() {
                path.push(b'/');
            }
            path.extend(name.to_bytes());
            if names.is_empty() || path.len() > LONGEST {
                let next = Path::new(OsStr::from_bytes(&path));
                current = Some(match &current {
                    Some(current) => beneath::folder(current, next)?,
                    None => beneath::folder(from, next)?,
                });
                path.clear();
            }
        }
        match current {
            Some(current) => Ok(current),
            None => beneath::folder(root, "."),
        }
    }

    fn close_if_many(&self, node: &Arc<Node>) {
        if self.open.load(Ordering::Relaxed) > OPEN && node.lock().pair.take().is_some() {
            self.open.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Counts one part of a folder as done; the last one finishes the folder, which is a part of the one above.
    fn finished(&self, node: Arc<Node>) -> Result<(), CopyError> {
        let mut next = Some(node);
        while let Some(node) = next {
            if node.unfinished.fetch_sub(1, Ordering::AcqRel) > 1 {
                return Ok(());
            }
            self.seal(&node)?;
            next = node.parent.clone();
        }
        Ok(())
    }

    /// Gives a folder its attributes, after all that is in it, which would change its times.
    fn seal(&self, node: &Arc<Node>) -> Result<(), CopyError> {
        let (pair, rest) = {
            let mut state = node.lock();
            (state.pair.take(), state.rest.take())
        };
        let Some((basics, attributes)) = rest else {
            return Ok(());
        };
        let failed = |error| CopyError::io("giving its attributes to", node.path(None), error);
        let walked;
        let target = match &pair {
            Some(pair) => {
                self.open.fetch_sub(1, Ordering::Relaxed);
                &pair.target
            }
            None => {
                walked = self.walk(self.target, node, false).map_err(failed)?;
                &walked
            }
        };
        let made = fs::fstat(target).map_err(|error| failed(error.into()))?;
        basics
            .give(target, &made, &attributes, self.omissions, || {
                node.path(None)
            })
            .map_err(|error| failed(error.into()))
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
