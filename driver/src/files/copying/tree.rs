//! The walk through a tree that is copied: many threads, a bounded number of open folders and of names in memory, no
//! recursion however deep the tree, folders finished after all that is in them. What is done with an entry is the business
//! of `entry`, how folders are opened and finished that of `folders`.
//!
//! Work lies on a stack, so the walk goes down first. A thread that lists a folder hands its entries on in batches while
//! others have nothing to do, and else deals with them itself. When too many folders wait, a listing pauses, lies on the
//! stack below the folder that it has just found, and goes on when that is done. A thread is started when there is more work
//! than threads that wait for some: most volumes are small, and a thread costs more than a few files.

use super::descriptors::{self, Held};
use super::entry::{Done, EntryCopier};
use super::error::{CopyError, step};
use super::links::Links;
use super::methods::CopyMethods;
use super::node::{Node, Pair};
use super::progress::CopyProgress;
use super::report::Omissions;
use super::view::{View, Views};
use crate::calls::admission::ExtraThread;
use crate::files::crash_points;
use crate::files::walking::listing::Listing;
use csi_proto::lock::{lock, wait, wait_for};
use rustix::fs::{FileType, Mode};
use rustix::io::Errno;
use std::ffi::{CStr, CString};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

/// Folders that wait before listings begin to pause.
const WAITING: usize = 4096;
/// Listings that pause at most, each with an open folder and a buffer.
const PAUSED: usize = 48;
const STACK: usize = 256 * 1024;
/// How long an extra thread waits for work.
const IDLE: Duration = Duration::from_millis(200);

pub(super) fn copy(
    views: &Views<'_>,
    course: &CopyProgress<'_>,
    methods: &CopyMethods,
    omissions: &Omissions,
) -> Result<(), CopyError> {
    let tree = Tree::new(views, course, methods, omissions);
    // Of this thread's own umask nothing is to be changed, so it copies nothing itself.
    std::thread::scope(|scope| {
        let tree = &tree;
        let mut most = methods.threads;
        let mut queue = tree.lock();
        let mut is_refused = false;
        while most > 0 && !queue.is_done() {
            if is_refused || !queue.wants_a_thread(most) {
                queue = wait(&tree.wanted, queue);
                is_refused = false;
                continue;
            }
            // The first one is the job's own.
            let extra = match queue.threads {
                0 => Some((None, Held::need(descriptors::THREAD))),
                _ => Held::take(descriptors::THREAD)
                    .and_then(|held| Some((Some(course.progress.threads.take()?), held))),
            };
            let Some((extra, held)) = extra else {
                is_refused = true;
                continue;
            };
            queue.threads += 1;
            queue.starting += 1;
            drop(queue);
            let spawned = std::thread::Builder::new()
                .name("copy".to_owned())
                .stack_size(STACK)
                .spawn_scoped(scope, move || {
                    let _held = held;
                    tree.run(extra);
                });
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

enum TreeStep {
    /// A folder that was found.
    Folder(Arc<Node>),
    /// A listing that goes on.
    Listing(Arc<Node>, Arc<Pair>, Listing, Held),
    /// Entries of a folder.
    Entries(Arc<Node>, Vec<(CString, FileType)>),
}

#[derive(Default)]
struct Queue {
    work: Vec<TreeStep>,
    /// Threads that there are, of which some are starting and some wait for work.
    threads: usize,
    starting: usize,
    idle: usize,
    busy: usize,
    waiting: usize,
    paused: usize,
    /// Views that there are or that somebody opens, and how many there should be.
    views: usize,
    views_wanted: usize,
    failed: Option<CopyError>,
}

impl Queue {
    fn is_done(&self) -> bool {
        self.failed.is_some() || (self.work.is_empty() && self.busy == 0)
    }

    fn wants_a_thread(&self, most: usize) -> bool {
        self.threads < most && self.work.len() > self.idle + self.starting
    }

    /// Whether one more view is to be opened: threads that wait for each other have the use of it.
    fn wants_a_view(&self) -> bool {
        self.views < self.views_wanted && self.threads > 2 * self.views && !self.work.is_empty()
    }
}

pub(super) struct Tree<'a> {
    pub(super) views: &'a Views<'a>,
    pub(super) first: Arc<View>,
    /// Pairs of folders that are kept open.
    pub(super) open: AtomicUsize,
    links: Links,
    pub(super) course: &'a CopyProgress<'a>,
    pub(super) methods: &'a CopyMethods,
    pub(super) omissions: &'a Omissions,
    queue: Mutex<Queue>,
    /// There is work, or there will be no more.
    changed: Condvar,
    /// A thread is wanted, or none will be.
    wanted: Condvar,
    #[cfg(test)]
    crash: crash_points::Inherited,
}

/// Wakes the other threads when one panics, which they would wait for.
struct Waking<'a>(&'a Tree<'a>);

impl Drop for Waking<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.lock().failed.get_or_insert(CopyError::Stopped);
            self.0.course.fail();
            self.0.changed.notify_all();
            self.0.wanted.notify_one();
        }
    }
}

impl<'a> Tree<'a> {
    pub(super) fn new(
        views: &'a Views<'a>,
        course: &'a CopyProgress<'a>,
        methods: &'a CopyMethods,
        omissions: &'a Omissions,
    ) -> Self {
        let root = Arc::new(Node {
            parent: None,
            name: CString::default(),
            state: Mutex::default(),
            unfinished: AtomicUsize::new(1),
        });
        Self {
            views,
            first: views.first(),
            open: AtomicUsize::new(0),
            links: Links::default(),
            course,
            methods,
            omissions,
            queue: Mutex::new(Queue {
                work: vec![TreeStep::Folder(root)],
                views: 1,
                ..Queue::default()
            }),
            changed: Condvar::new(),
            wanted: Condvar::new(),
            #[cfg(test)]
            crash: crash_points::inherited(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        lock(&self.queue)
    }

    /// Waits for work, or that there will be none. Returns whether an extra thread has waited long enough: others on the
    /// server may have work for it.
    fn wait_for_work<'q>(
        &self,
        queue: MutexGuard<'q, Queue>,
        is_extra: bool,
    ) -> (MutexGuard<'q, Queue>, bool) {
        if !is_extra {
            return (wait(&self.changed, queue), false);
        }
        let (queue, is_over) = wait_for(&self.changed, queue, IDLE);
        let is_idle = is_over && queue.work.is_empty();
        (queue, is_idle)
    }

    /// Has the work that was put down in `queue` taken up by a thread.
    fn call(&self, queue: MutexGuard<'_, Queue>) {
        let (idle, wanted) = (queue.idle > 0, queue.wants_a_thread(self.methods.threads));
        drop(queue);
        if idle {
            self.changed.notify_one();
        }
        if wanted {
            self.wanted.notify_one();
        }
    }

    /// Copies until all is done. A thread that is an extra one ends when another job wants it, or when it has nothing to do for
    /// a while.
    fn run(&'a self, extra: Option<ExtraThread>) {
        let _waking = Waking(self);
        own_umask();
        #[cfg(test)]
        crash_points::adopt(&self.crash);
        let mut copier = EntryCopier {
            methods: self.methods,
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
            if queue.wants_a_view() {
                queue.views += 1;
                queue.busy += 1;
                drop(queue);
                self.views.add();
                queue = self.lock();
                queue.busy -= 1;
                if queue.busy == 0 {
                    self.changed.notify_all();
                }
            }
            match queue.work.pop() {
                Some(work) => {
                    match &work {
                        TreeStep::Folder(_) => queue.waiting = queue.waiting.saturating_sub(1),
                        TreeStep::Listing(..) => queue.paused -= 1,
                        TreeStep::Entries(..) => {}
                    }
                    queue.busy += 1;
                    drop(queue);
                    let done = self.perform(work, &mut copier);
                    queue = self.lock();
                    queue.busy -= 1;
                    if let Err(error) = done {
                        queue.failed.get_or_insert(error);
                        self.course.fail();
                    }
                    if queue.busy == 0 || queue.failed.is_some() {
                        self.changed.notify_all();
                    }
                    if extra.as_ref().is_some_and(ExtraThread::is_wanted_back) {
                        break;
                    }
                }
                None if queue.busy == 0 => break,
                None => {
                    queue.idle += 1;
                    let is_idle;
                    (queue, is_idle) = self.wait_for_work(queue, extra.is_some());
                    queue.idle -= 1;
                    if is_idle {
                        break;
                    }
                }
            }
        }
        if extra.is_some() {
            queue.threads -= 1;
        }
        // Before somebody asks for it.
        drop(extra);
        self.changed.notify_all();
        self.wanted.notify_one();
    }

    fn perform(&'a self, work: TreeStep, copier: &mut EntryCopier<'a>) -> Result<(), CopyError> {
        match work {
            TreeStep::Folder(node) => match self.enter(&node, copier)? {
                Some((pair, listing)) => self.list(node, pair, listing, copier),
                None => self.finished(node),
            },
            TreeStep::Listing(node, pair, listing, _held) => self.list(node, pair, listing, copier),
            TreeStep::Entries(node, entries) => {
                match self.pair(&node)? {
                    Some(pair) => self.entries(&node, &pair, entries, copier)?,
                    None => self.leave_out(&node, None),
                }
                self.finished(node)
            }
        }
    }

    fn list(
        &'a self,
        node: Arc<Node>,
        pair: Arc<Pair>,
        mut listing: Listing,
        copier: &mut EntryCopier<'a>,
    ) -> Result<(), CopyError> {
        let together = self.methods.distance.batch();
        let mut batch: Vec<(CString, FileType)> = Vec::with_capacity(together);
        let mut names = 0;
        loop {
            let (name, kind) = match crash_points::ask().and_then(|()| listing.next()) {
                Ok(Some(entry)) => entry,
                Ok(None) => break,
                // The folder was removed while it was read: what was left in it then is not known.
                Err(Errno::NOENT) => {
                    self.leave_out(&node, None);
                    break;
                }
                Err(Errno::STALE) if self.is_gone(&node, &pair.source, None)? => {
                    self.leave_out(&node, None);
                    break;
                }
                Err(error) => {
                    return Err(CopyError::io("listing", node.path(None), error));
                }
            };
            if self.course.is_over() {
                return Err(CopyError::Stopped);
            }
            if listing.names() > names {
                names = listing.names();
                self.widen(&node, names);
            }
            if kind == FileType::Directory {
                let child = self.child(&node, &name);
                let mut queue = self.lock();
                queue.waiting += 1;
                let pause = queue.waiting > WAITING && queue.paused < PAUSED;
                if let Some(held) = pause.then(|| Held::take(3)).flatten() {
                    queue.paused += 1;
                    let (at, open) = (Arc::clone(&node), Arc::clone(&pair));
                    queue.work.push(TreeStep::Listing(at, open, listing, held));
                    queue.work.push(TreeStep::Folder(child));
                    self.call(queue);
                    return self.entries(&node, &pair, batch, copier);
                }
                queue.work.push(TreeStep::Folder(child));
                self.call(queue);
                continue;
            }
            batch.push((name, kind));
            if batch.len() == together {
                let full = std::mem::replace(&mut batch, Vec::with_capacity(together));
                self.hand_on(&node, &pair, full, copier)?;
            }
        }
        drop(listing);
        self.entries(&node, &pair, batch, copier)?;
        drop(pair);
        self.close_if_many(&node);
        self.finished(node)
    }

    /// Has a folder with so many names worked in through as many views as it is worth.
    fn widen(&self, node: &Arc<Node>, names: usize) {
        if !self.methods.remote {
            return;
        }
        let views = self.methods.distance.views(names);
        if views > 1 {
            node.lock().is_wide = true;
            let mut queue = self.lock();
            queue.views_wanted = queue.views_wanted.max(views);
        }
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
        copier: &mut EntryCopier<'a>,
    ) -> Result<(), CopyError> {
        let mut queue = self.lock();
        // Some more than are idle now, for those that soon will be.
        if queue.idle > 0 || queue.work.len() < 2 * self.methods.threads {
            node.unfinished.fetch_add(1, Ordering::AcqRel);
            queue
                .work
                .push(TreeStep::Entries(Arc::clone(node), entries));
            self.call(queue);
            return Ok(());
        }
        drop(queue);
        self.entries(node, pair, entries, copier)
    }

    fn entries(
        &'a self,
        node: &Arc<Node>,
        pair: &Arc<Pair>,
        entries: Vec<(CString, FileType)>,
        copier: &mut EntryCopier<'a>,
    ) -> Result<(), CopyError> {
        entries.iter().try_for_each(|(name, kind)| {
            let pair = self.in_its_turn(node, pair);
            self.entry(node, &pair, name, *kind, copier)
        })
    }

    pub(super) fn entry(
        &self,
        node: &Arc<Node>,
        pair: &Pair,
        name: &CStr,
        kind: FileType,
        copier: &mut EntryCopier<'_>,
    ) -> Result<(), CopyError> {
        if self.course.is_over() {
            return Err(CopyError::Stopped);
        }
        match copier.copy(pair, name, kind, || node.path(Some(name))) {
            Ok(Done::Yes) => {}
            Err(error) if error.is_stale() && self.is_gone(node, &pair.source, Some(name))? => {
                self.leave_out(node, Some(name));
            }
            Err(error) => return Err(error),
            Ok(Done::Folder) => {
                let child = self.child(node, name);
                let mut queue = self.lock();
                queue.waiting += 1;
                queue.work.push(TreeStep::Folder(child));
                self.call(queue);
            }
        }
        step("an entry is copied", || node.path(Some(name)))
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
