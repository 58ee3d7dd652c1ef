//! What is deleted and not gone yet. Owns `trash/` on the share: how things get there at once, and how they are purged
//! bit by bit, by many threads, by any number of controllers, and again after a restart.
//!
//! An entry `<nonce>-<random>.purge` is to be purged.
//! A folder within an entry is renamed to an entry of its own and then purged as that: however deep the tree, no path and
//! no stack grows, and the work is spread over threads: as many as there is work for, and a bounded number in the process.

use super::beneath;
use super::crash_points::step;
use super::database::Share;
use super::error::{Doing, ShareError};
use super::token::Nonce;
use crate::admission::{ExtraThread, ExtraThreads};
use crate::metrics::METRICS;
use rustix::fs::{self, AtFlags, Mode};
use rustix::io::Errno;
use std::collections::VecDeque;
use std::ffi::{CStr, CString, OsStr};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, Scope};
use std::time::{Duration, Instant};

const PURGE: &str = ".purge";
/// How long a purge goes on while others on the server wait for their turn.
const TURN: Duration = Duration::from_secs(10);
/// Names that one piece of work unlinks.
const BATCH: usize = 256;
/// Pieces of work kept in memory; what is above that is done where it is found.
const QUEUE: usize = 64;

/// Moves `name` from `folder` to the trash, whatever it is. Returns whether it was there.
///
/// # Errors
/// I/O errors.
pub(super) fn discard(
    share: &Share,
    folder: impl AsFd,
    name: &str,
    nonce: Nonce,
) -> Result<bool, ShareError> {
    let doing = || "moving to the trash".to_owned();
    let entry = format!("{nonce}-{}{PURGE}", Nonce::random().doing(doing)?);
    match beneath::rename(folder, name, &share.trash, &entry) {
        Ok(()) => {}
        Err(Errno::NOENT) => return Ok(false),
        Err(error) => return Err(error).doing(doing),
    }
    step("it is in the trash")?;
    beneath::sync(&share.trash).doing(doing)?;
    Ok(true)
}

/// The entries of the trash.
///
/// # Errors
/// I/O errors.
pub(super) fn entries(share: &Share) -> Result<Vec<CString>, ShareError> {
    beneath::names_now(&share.trash).doing(|| "listing the trash".to_owned())
}

/// How a purge has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purged {
    /// Nothing is left but so many entries, because a file in them is held open or this process may not remove it.
    ButFor(usize),
    /// Others on the server wait for their turn. There is more to do.
    InPart,
}

/// Purges what is in the trash, in this thread and in `threads` that are free when there is work for them.
///
/// # Errors
/// When the trash cannot be listed.
pub fn purge(share: &Share, threads: &ExtraThreads) -> Result<Purged, ShareError> {
    purge_for(share, threads, TURN)
}

fn purge_for(share: &Share, threads: &ExtraThreads, turn: Duration) -> Result<Purged, ShareError> {
    let end = Instant::now() + turn;
    let mut stuck = 0;
    loop {
        let round: VecDeque<Work> = entries(share)?
            .into_iter()
            .filter(|name| name.to_bytes().ends_with(PURGE.as_bytes()))
            .map(Work::Entry)
            .collect();
        let purger = Purger::new(share, threads, end, round);
        std::thread::scope(|scope| {
            let purger = &purger;
            Worker { purger, scope }.run(None);
        });
        let queue = purger.lock();
        METRICS.purged_files.inc_by(queue.removed as u64);
        if !queue.work.is_empty() {
            return Ok(Purged::InPart);
        }
        if queue.left == 0 {
            // Entries made by others meanwhile are purged by those who made them.
            return Ok(Purged::ButFor(0));
        }
        // An entry whose files came faster than they went is tried again, a bounded number of times without progress.
        stuck = if queue.removed > 0 { 0 } else { stuck + 1 };
        if stuck > 2 {
            return Ok(Purged::ButFor(queue.left));
        }
        if purger.is_over() {
            return Ok(Purged::InPart);
        }
    }
}

enum Work {
    /// An entry of the trash.
    Entry(CString),
    /// Names in a folder.
    Names(Arc<OwnedFd>, Vec<CString>),
    #[cfg(test)]
    Panic,
}

struct Queue {
    work: VecDeque<Work>,
    /// Threads that wait for work, and those that do some.
    idle: usize,
    busy: usize,
    removed: usize,
    left: usize,
}

struct Purger<'a> {
    trash: &'a OwnedFd,
    threads: &'a ExtraThreads,
    /// From then on others who wait come first.
    end: Instant,
    queue: Mutex<Queue>,
    changed: Condvar,
}

impl<'a> Purger<'a> {
    fn new(
        share: &'a Share,
        threads: &'a ExtraThreads,
        end: Instant,
        work: VecDeque<Work>,
    ) -> Self {
        Self {
            trash: &share.trash,
            threads,
            end,
            queue: Mutex::new(Queue {
                work,
                idle: 0,
                busy: 0,
                removed: 0,
                left: 0,
            }),
            changed: Condvar::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_over(&self) -> bool {
        Instant::now() >= self.end && self.threads.others_wait()
    }
}

/// Has a thread that panics not waited for.
struct Busy<'a, 'env>(&'a Purger<'env>);

impl Drop for Busy<'_, '_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.lock().busy -= 1;
            self.0.changed.notify_all();
        }
    }
}

/// A thread of a purge.
#[derive(Clone, Copy)]
struct Worker<'scope, 'env> {
    purger: &'scope Purger<'env>,
    scope: &'scope Scope<'scope, 'env>,
}

impl<'scope> Worker<'scope, '_> {
    /// Works until nothing is left, or its turn is over. `extra` is which thread this is, but for the one that the purge has
    /// begun with.
    fn run(self, mut extra: Option<ExtraThread>) {
        let is_first = extra.is_none();
        let mut queue = self.purger.lock();
        loop {
            let is_over = self.purger.is_over();
            if queue.work.is_empty() || is_over {
                if queue.busy == 0 || (is_over && !is_first) {
                    self.purger.changed.notify_all();
                    return;
                }
                // One that waits is free for other shares.
                extra = None;
                queue.idle += 1;
                let changed = self.purger.changed.wait(queue);
                queue = changed.unwrap_or_else(PoisonError::into_inner);
                queue.idle -= 1;
                continue;
            }
            if !is_first {
                extra = extra.or_else(|| self.purger.threads.take());
                if extra.as_ref().is_none_or(ExtraThread::is_wanted_back) {
                    self.purger.changed.notify_all();
                    return;
                }
            }
            let Some(work) = queue.work.pop_front() else {
                continue;
            };
            queue.busy += 1;
            self.find_help(&queue);
            drop(queue);
            let busy = Busy(self.purger);
            let (removed, left) = self.perform(work);
            drop(busy);
            queue = self.purger.lock();
            queue.busy -= 1;
            queue.removed += removed;
            queue.left += left;
            self.purger.changed.notify_all();
        }
    }

    /// One more thread, if there is work for it.
    fn find_help(self, queue: &Queue) {
        self.purger.changed.notify_one();
        if queue.work.len() > queue.idle
            && let Some(extra) = self.purger.threads.take()
        {
            let helps = move || self.run(Some(extra));
            // Where no thread can be had, there is one less.
            let _ = Builder::new().spawn_scoped(self.scope, helps);
        }
    }

    /// Returns how many names this has removed and how many entries stayed. What others have removed is no progress: with
    /// another purger at work, one that makes none would go on for as long as that one.
    fn perform(self, work: Work) -> (usize, usize) {
        match work {
            #[cfg(test)]
            Work::Panic => panic!("on purpose"),
            Work::Names(folder, names) => (self.remove_all(&folder, &names), 0),
            Work::Entry(name) => {
                let mut removed = 0;
                match self.remove_entry(&name, &mut removed) {
                    Ok(()) => (removed, 0),
                    Err(_) => (removed, 1),
                }
            }
        }
    }

    fn remove_entry(self, name: &CStr, removed: &mut usize) -> io::Result<()> {
        match beneath::unlink(self.purger.trash, name) {
            Ok(()) => {
                *removed += 1;
                return Ok(());
            }
            Err(Errno::NOENT) => return Ok(()),
            Err(Errno::ISDIR | Errno::PERM | Errno::ACCESS) => {}
            Err(error) => return Err(error.into()),
        }
        let Some(folder) = self.open(name)? else {
            return Ok(());
        };
        let folder = Arc::new(folder);
        let mut batch = Vec::with_capacity(BATCH);
        let mut entries = fs::Dir::read_from(&*folder)?;
        while let Some(entry) = entries.read() {
            let entry = entry?;
            let file = entry.file_name();
            if matches!(file.to_bytes(), b"." | b"..") {
                continue;
            }
            batch.push(file.to_owned());
            if batch.len() == BATCH {
                *removed += self.hand_on(&folder, std::mem::take(&mut batch));
            }
        }
        *removed += self.remove_all(&folder, &batch);
        match fs::unlinkat(self.purger.trash, name, AtFlags::REMOVEDIR) {
            Ok(()) => {
                *removed += 1;
                Ok(())
            }
            Err(Errno::NOENT) => Ok(()),
            // Others still unlink their batches, or somebody holds a file open (`.nfs…`): the next round.
            Err(error) => Err(error.into()),
        }
    }

    /// Opens an entry; nothing when it is gone. A mode that keeps its owner out is changed: nobody else uses it.
    fn open(self, name: &CStr) -> io::Result<Option<OwnedFd>> {
        let path = || OsStr::from_bytes(name.to_bytes());
        match beneath::folder(self.purger.trash, path()) {
            Ok(folder) => {
                let mode = fs::fstat(&folder)?.st_mode;
                if mode & 0o300 != 0o300 {
                    let _ = fs::fchmod(&folder, Mode::RWXU);
                }
                Ok(Some(folder))
            }
            Err(error) if beneath::is_gone(&error) => Ok(None),
            Err(error) if beneath::errno(&error) == Some(Errno::ACCESS) => {
                beneath::change_mode(self.purger.trash, path(), Mode::RWXU)?;
                beneath::folder(self.purger.trash, path()).map(Some)
            }
            Err(error) => Err(error),
        }
    }

    fn hand_on(self, folder: &Arc<OwnedFd>, names: Vec<CString>) -> usize {
        let mut queue = self.purger.lock();
        if queue.work.len() < QUEUE {
            queue
                .work
                .push_front(Work::Names(Arc::clone(folder), names));
            self.find_help(&queue);
            return 0;
        }
        drop(queue);
        self.remove_all(folder, &names)
    }

    /// Returns how many names this has removed.
    fn remove_all(self, folder: &OwnedFd, names: &[CString]) -> usize {
        names
            .iter()
            .filter(|name| self.remove_name(folder, name))
            .count()
    }

    fn remove_name(self, folder: &OwnedFd, name: &CStr) -> bool {
        match fs::unlinkat(folder, name, AtFlags::empty()) {
            Ok(()) => true,
            Err(Errno::ISDIR | Errno::PERM) => self.raise(folder, name).unwrap_or(false),
            Err(_) => false,
        }
    }

    /// Makes a folder within an entry an entry of its own, unless it is gone, which returns false. A mount point refuses (EBUSY,
    /// EXDEV) and stays as it is.
    fn raise(self, folder: &OwnedFd, name: &CStr) -> io::Result<bool> {
        // Most folders are the last of their branch or empty.
        match fs::unlinkat(folder, name, AtFlags::REMOVEDIR) {
            Ok(()) => return Ok(true),
            Err(Errno::NOENT) => return Ok(false),
            Err(_) => {}
        }
        let entry = CString::new(format!("{}{PURGE}", Nonce::random()?))?;
        match fs::renameat(folder, name, self.purger.trash, &*entry) {
            // An ordinary user may move a folder to another one only with the right to write in it.
            Err(Errno::ACCESS) => {
                beneath::change_mode(folder, OsStr::from_bytes(name.to_bytes()), Mode::RWXU)?;
                fs::renameat(folder, name, self.purger.trash, &*entry)?;
            }
            other => other?,
        }
        let mut queue = self.purger.lock();
        if queue.work.len() < QUEUE {
            queue.work.push_back(Work::Entry(entry));
            self.find_help(&queue);
        } else {
            // The next round finds it.
            queue.left += 1;
        }
        Ok(true)
    }
}

/// How long a draft lives before it is taken for a leftover, by the server's clock. It is written and moved to its place
/// within moments; one whose writer hung for longer is written again.
pub const DRAFT_LIFE: Duration = Duration::from_secs(600);

/// Moves drafts that a crash has left to the trash.
///
/// # Errors
/// I/O errors.
pub fn sweep_drafts(share: &Share) -> Result<(), ShareError> {
    sweep_older(share, DRAFT_LIFE)
}

fn sweep_older(share: &Share, life: Duration) -> Result<(), ShareError> {
    let doing = || "sweeping the drafts".to_owned();
    let nonce = Nonce::random().doing(doing)?;
    let time = |name: &CStr| {
        fs::statat(&share.drafts, name, AtFlags::SYMLINK_NOFOLLOW).map(|stat| stat.st_mtime)
    };
    let now = server_now(share)?;
    let names = beneath::names_now(&share.drafts).doing(doing)?;
    for name in names {
        let old = time(&name)
            .is_ok_and(|then| u64::try_from(now - then).is_ok_and(|age| age >= life.as_secs()));
        if let (true, Ok(text)) = (old, name.to_str()) {
            // A rename, not a removal: of us and of one who publishes the draft after all, one gets it whole.
            discard(share, &share.drafts, text, nonce)?;
        }
    }
    Ok(())
}

/// The time by the server's clock, in seconds since 1970. An age is the difference of two of the server's times, so this
/// machine's clock does not matter.
///
/// # Errors
/// I/O errors: asking takes a file.
pub(super) fn server_now(share: &Share) -> Result<i64, ShareError> {
    let doing = || "asking for the server's time".to_owned();
    let probe = format!("probe-{}", Nonce::random().doing(doing)?);
    beneath::write_new(&share.drafts, &probe, b"").doing(doing)?;
    let stat = fs::statat(&share.drafts, &*probe, AtFlags::SYMLINK_NOFOLLOW);
    let _ = fs::unlinkat(&share.drafts, &*probe, AtFlags::empty());
    Ok(stat.doing(doing)?.st_mtime)
}

#[cfg(test)]
mod tests;
