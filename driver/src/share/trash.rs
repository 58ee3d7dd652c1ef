//! What is deleted and not gone yet. Owns `trash/` on the share: how things get there at once, and how they are purged
//! bit by bit, by many threads, by any number of controllers, and again after a restart.
//!
//! An entry `<nonce>-<random>.purge` is to be purged. `<nonce>.waiting` is a volume's folder of which `lifecycle` must
//! first make sure that it is the deleted one.
//! A folder within an entry is renamed to an entry of its own and then purged as that: however deep the tree, no path and
//! no stack grows, and the work is spread over the threads.

use super::beneath;
use super::crash::step;
use super::database::Share;
use super::error::{Doing, ShareError};
use super::token::Nonce;
use rustix::fs::{self, AtFlags, Mode};
use rustix::io::Errno;
use std::collections::{HashMap, VecDeque};
use std::ffi::{CStr, CString, OsStr};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

const PURGE: &str = ".purge";
const WAITING: &str = ".waiting";
const THREADS: usize = 8;
/// Names that one piece of work unlinks.
const BATCH: usize = 256;
/// Pieces of work kept in memory; what is above that is done where it is found.
const QUEUE: usize = 64;

/// Where a volume's folder waits.
pub(super) fn waiting_name(nonce: Nonce) -> String {
    format!("{nonce}{WAITING}")
}

/// The nonce of a waiting folder's name.
fn parse_waiting(name: &CStr) -> Option<Nonce> {
    nonce_of_waiting(name.to_str().ok()?)
}

/// The same, of text.
pub(super) fn nonce_of_waiting(name: &str) -> Option<Nonce> {
    name.strip_suffix(WAITING)?.parse().ok()
}

/// What waits in the trash, by inode.
///
/// # Errors
/// I/O errors.
pub(super) fn waiting(share: &Share) -> Result<HashMap<u64, String>, ShareError> {
    let mut waiting = HashMap::new();
    for name in entries(share)? {
        if parse_waiting(&name).is_some() {
            let stat = fs::statat(&share.trash, &*name, AtFlags::SYMLINK_NOFOLLOW);
            if let (Ok(stat), Ok(name)) = (stat, name.to_str()) {
                waiting.insert(stat.st_ino, name.to_owned());
            }
        }
    }
    Ok(waiting)
}

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
    beneath::folder(&share.trash, ".")
        .and_then(beneath::names)
        .doing(|| "listing the trash".to_owned())
}

/// Purges what is in the trash until nothing is left or nothing can be done. Returns how many entries stay, because a
/// file in them is held open or this process may not remove it.
///
/// # Errors
/// When the trash cannot be listed.
pub fn purge(share: &Share) -> Result<usize, ShareError> {
    let mut stuck = 0;
    loop {
        let round: VecDeque<Work> = entries(share)?
            .into_iter()
            .filter(|name| name.to_bytes().ends_with(PURGE.as_bytes()))
            .map(Work::Entry)
            .collect();
        let purger = Purger {
            trash: &share.trash,
            queue: Mutex::new(Queue {
                work: round,
                busy: 0,
                removed: 0,
                left: 0,
            }),
            changed: Condvar::new(),
        };
        std::thread::scope(|scope| {
            for _ in 0..THREADS.min(purger.lock().work.len()) {
                scope.spawn(|| purger.run());
            }
        });
        let queue = purger.lock();
        if queue.left == 0 {
            // Entries made by others meanwhile are purged by those who made them.
            return Ok(0);
        }
        // An entry whose files came faster than they went is tried again, a bounded number of times without progress.
        stuck = if queue.removed > 0 { 0 } else { stuck + 1 };
        if stuck > 2 {
            return Ok(queue.left);
        }
    }
}

enum Work {
    /// An entry of the trash.
    Entry(CString),
    /// Names in a folder.
    Names(Arc<OwnedFd>, Vec<CString>),
}

struct Queue {
    work: VecDeque<Work>,
    busy: usize,
    removed: usize,
    left: usize,
}

struct Purger<'a> {
    trash: &'a OwnedFd,
    queue: Mutex<Queue>,
    changed: Condvar,
}

impl Purger<'_> {
    fn lock(&self) -> std::sync::MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self) {
        let mut queue = self.lock();
        loop {
            if let Some(work) = queue.work.pop_front() {
                queue.busy += 1;
                drop(queue);
                let (removed, left) = self.perform(work);
                queue = self.lock();
                queue.busy -= 1;
                queue.removed += removed;
                queue.left += left;
                self.changed.notify_all();
            } else if queue.busy == 0 {
                return;
            } else {
                queue = self
                    .changed
                    .wait(queue)
                    .unwrap_or_else(PoisonError::into_inner);
            }
        }
    }

    /// Returns how many names went and how many entries stayed.
    fn perform(&self, work: Work) -> (usize, usize) {
        match work {
            Work::Names(folder, names) => (self.remove_all(&folder, &names), 0),
            Work::Entry(name) => {
                let mut removed = 0;
                match self.remove_entry(&name, &mut removed) {
                    Ok(()) => (removed + 1, 0),
                    Err(_) => (removed, 1),
                }
            }
        }
    }

    fn remove_entry(&self, name: &CStr, removed: &mut usize) -> io::Result<()> {
        match fs::unlinkat(self.trash, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => return Ok(()),
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
        match fs::unlinkat(self.trash, name, AtFlags::REMOVEDIR) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            // Others still unlink their batches, or somebody holds a file open (`.nfs…`): the next round.
            Err(error) => Err(error.into()),
        }
    }

    /// Opens an entry; nothing when it is gone. A mode that keeps its owner out is changed: nobody else uses it.
    fn open(&self, name: &CStr) -> io::Result<Option<OwnedFd>> {
        let path = || OsStr::from_bytes(name.to_bytes());
        match beneath::folder(self.trash, path()) {
            Ok(folder) => {
                let mode = fs::fstat(&folder)?.st_mode;
                if mode & 0o300 != 0o300 {
                    let _ = fs::fchmod(&folder, Mode::RWXU);
                }
                Ok(Some(folder))
            }
            Err(error) if beneath::is_gone(&error) => Ok(None),
            Err(error) if beneath::errno(&error) == Some(Errno::ACCESS) => {
                beneath::change_mode(self.trash, path(), Mode::RWXU)?;
                beneath::folder(self.trash, path()).map(Some)
            }
            Err(error) => Err(error),
        }
    }

    fn hand_on(&self, folder: &Arc<OwnedFd>, names: Vec<CString>) -> usize {
        let mut queue = self.lock();
        if queue.work.len() < QUEUE {
            queue
                .work
                .push_front(Work::Names(Arc::clone(folder), names));
            self.changed.notify_one();
            return 0;
        }
        drop(queue);
        self.remove_all(folder, &names)
    }

    /// Returns how many names went.
    fn remove_all(&self, folder: &OwnedFd, names: &[CString]) -> usize {
        names
            .iter()
            .filter(|name| self.remove_name(folder, name))
            .count()
    }

    fn remove_name(&self, folder: &OwnedFd, name: &CStr) -> bool {
        match fs::unlinkat(folder, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => true,
            Err(Errno::ISDIR | Errno::PERM) => self.raise(folder, name).is_ok(),
            Err(_) => false,
        }
    }

    /// Makes a folder within an entry an entry of its own. A mount point refuses (EBUSY, EXDEV) and stays as it is.
    fn raise(&self, folder: &OwnedFd, name: &CStr) -> io::Result<()> {
        // Most folders are the last of their branch or empty.
        match fs::unlinkat(folder, name, AtFlags::REMOVEDIR) {
            Ok(()) | Err(Errno::NOENT) => return Ok(()),
            Err(_) => {}
        }
        let entry = CString::new(format!("{}{PURGE}", Nonce::random()?))?;
        match fs::renameat(folder, name, self.trash, &*entry) {
            // An ordinary user may move a folder to another one only with the right to write in it.
            Err(Errno::ACCESS) => {
                beneath::change_mode(folder, OsStr::from_bytes(name.to_bytes()), Mode::RWXU)?;
                fs::renameat(folder, name, self.trash, &*entry)?;
            }
            other => other?,
        }
        let mut queue = self.lock();
        queue.removed += 1;
        if queue.work.len() < QUEUE {
            queue.work.push_back(Work::Entry(entry));
            self.changed.notify_one();
        } else {
            // The next round finds it.
            queue.left += 1;
        }
        Ok(())
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
    let names = beneath::folder(&share.drafts, ".")
        .and_then(beneath::names)
        .doing(doing)?;
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
