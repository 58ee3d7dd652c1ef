//! Deleted folders until they are gone. Owns `trash/` on the share: how things get there at once, and how they are purged
//! bit by bit, by many threads, by any number of controllers, and again after a restart.
//!
//! What ends with `.purge` is to be purged; `entry_of` says what else its name tells.
//! A folder within an entry is renamed to an entry of its own and then purged as that: however deep the tree, no path and
//! no stack grows, and the work is spread over threads: as many as there is work for, and a bounded number in the process.

use crate::files::admission::ExtraThreads;
use crate::files::beneath;
use crate::files::crash_points::step;
use crate::files::pool::Pool;
use crate::metrics::METRICS;
use crate::share::database::Share;
use crate::share::error::{Context, ShareError};
use crate::share::records::promise::Promise;
use crate::share::token::Nonce;
use csi_proto::lock::lock;
use rustix::fs::{self, AtFlags, Mode};
use rustix::io::Errno;
use std::collections::HashMap;
use std::ffi::{CStr, CString, OsStr};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const PURGE: &str = ".purge";
/// How long a purge goes on while others on the server wait for their turn.
const TURN: Duration = Duration::from_secs(10);
/// Names that one piece of work unlinks.
const BATCH: usize = 256;
/// Attempts before an undeletable entry is deferred: a file in it may be held open or not to be removed, or its user may go on writing into it.
const TRIES: usize = 4;
/// Names that are read in a folder at a time, which may get new ones as fast as they are removed.
const PASS: usize = 1 << 22;
/// How often the trash is gone through at most.
const ROUNDS: usize = 256;
/// Pieces of work that may wait when one is added; what is above that is left to the next time.
const QUEUE: usize = 64;

/// Moves `name` from `folder` to the trash, whatever it is. `promise` says whose it is, and what that was promised.
/// Returns whether it was there.
pub(super) fn discard(
    share: &Share,
    folder: impl AsFd,
    name: &str,
    promise: Promise,
) -> Result<bool, ShareError> {
    let context = || "moving to the trash".to_owned();
    let entry = entry_of(Some(promise)).context(context)?;
    match beneath::rename(folder, name, &share.trash, &entry) {
        Ok(()) => {}
        Err(Errno::NOENT) => return Ok(false),
        Err(error) => return Err(error).context(context),
    }
    step("it is in the trash")?;
    beneath::sync(&share.trash).context(context)?;
    Ok(true)
}

/// How many entries the trash has.
pub fn count(share: &Share) -> Result<usize, ShareError> {
    entries(share).map(|entries| entries.len())
}

fn entries(share: &Share) -> Result<Vec<CString>, ShareError> {
    beneath::names_now(&share.trash).context(|| "listing the trash".to_owned())
}

/// The name of a new entry: `<nonce>-<random>-<bytes>.purge`, where that many bytes are promised until it is purged.
fn entry_of(promise: Option<Promise>) -> io::Result<String> {
    let random = Nonce::random()?;
    Ok(match promise {
        Some(Promise { nonce, bytes: 0 }) => format!("{nonce}-{random}{PURGE}"),
        Some(Promise { nonce, bytes }) => format!("{nonce}-{random}-{bytes}{PURGE}"),
        None => format!("{random}{PURGE}"),
    })
}

fn promise_of(entry: &CStr) -> Option<Promise> {
    let name = entry.to_str().ok()?.strip_suffix(PURGE)?;
    let (nonce, rest) = name.split_once('-')?;
    let (_, bytes) = rest.split_once('-')?;
    let number: i64 = bytes.parse().ok()?;
    (number > 0 && number.to_string() == bytes).then_some(Promise {
        nonce: nonce.parse().ok()?,
        bytes: number,
    })
}

/// What is promised to what is in the trash; the same more than once where a volume or snapshot has several entries.
pub(super) fn promises(share: &Share) -> Result<Vec<Promise>, ShareError> {
    let entries = entries(share)?;
    Ok(entries.iter().filter_map(|it| promise_of(it)).collect())
}

/// How a purge has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purged {
    /// Nothing is left but so many entries, because a file in them is held open, somebody goes on writing into them, or this
    /// process may not remove them.
    ButFor(usize),
    /// Others on the server wait for their turn. There is more to do.
    InPart,
}

/// How often entries were gone through in vain, over all turns of one purge.
#[derive(Debug, Default)]
pub struct Tries(HashMap<CString, usize>);

/// Purges what is in the trash, in this thread and in `threads` that are free when there is work for them.
pub fn purge(
    share: &Share,
    threads: &ExtraThreads,
    tries: &mut Tries,
) -> Result<Purged, ShareError> {
    purge_for(share, threads, tries, TURN, PASS)
}

fn purge_for(
    share: &Share,
    threads: &ExtraThreads,
    Tries(tries): &mut Tries,
    turn: Duration,
    pass: usize,
) -> Result<Purged, ShareError> {
    let end = Instant::now() + turn;
    let mut left = 0;
    for _ in 0..ROUNDS {
        let all = entries(share)?;
        let all = all
            .into_iter()
            .filter(|name| name.to_bytes().ends_with(PURGE.as_bytes()));
        let is_put_off = |name: &CString| tries.get(name).is_some_and(|count| *count >= TRIES);
        let (put_off, round): (Vec<_>, Vec<_>) = all.partition(is_put_off);
        left = put_off.len();
        if round.is_empty() {
            return Ok(Purged::ButFor(left));
        }
        let purger = Purger::new(share, threads, end, pass, round);
        purger.pool.work(|| |step| purger.perform(step));
        for name in std::mem::take(&mut *lock(&purger.stayed)) {
            *tries.entry(name).or_default() += 1;
            left += 1;
        }
        let raised = purger.raised.load(Ordering::Relaxed);
        if purger.pool.waiting() > 0 || (purger.is_over() && (left > 0 || raised)) {
            return Ok(Purged::InPart);
        }
        if left == 0 && !raised {
            // Entries made by others meanwhile are purged by those who made them.
            return Ok(Purged::ButFor(0));
        }
    }
    // Somebody makes folders in what is deleted, over and over.
    Ok(Purged::ButFor(left.max(1)))
}

enum PurgeStep {
    /// An entry of the trash.
    Entry(CString),
    /// An entry that is a folder, and the names in it that nobody has read yet.
    Folder(Arc<OpenEntry>, fs::Dir),
}

/// An entry that is a folder. Whoever has it last removes the folder itself.
struct OpenEntry {
    name: CString,
    folder: OwnedFd,
    /// What is promised to it, and so to what is raised from it.
    promise: Option<Promise>,
    /// Names of it that were read.
    read: AtomicUsize,
}

struct Purger<'a> {
    trash: &'a OwnedFd,
    threads: &'a ExtraThreads,
    /// From then on others who wait come first.
    end: Instant,
    /// Names that are read in a folder.
    pass: usize,
    pool: Pool<'a, PurgeStep>,
    /// Entries that are there although they were gone through.
    stayed: Mutex<Vec<CString>>,
    /// Whether there are entries that only the next round finds.
    raised: AtomicBool,
}

impl<'a> Purger<'a> {
    fn new(
        share: &'a Share,
        threads: &'a ExtraThreads,
        end: Instant,
        pass: usize,
        entries: Vec<CString>,
    ) -> Self {
        let entries = entries.into_iter().map(PurgeStep::Entry).collect();
        Self {
            trash: &share.trash,
            threads,
            end,
            pass,
            pool: Pool::new(threads, usize::MAX, entries),
            stayed: Mutex::default(),
            raised: AtomicBool::new(false),
        }
    }

    fn is_over(&self) -> bool {
        Instant::now() >= self.end && self.threads.others_wait()
    }

    fn perform(&self, step: PurgeStep) {
        if self.is_over() {
            self.pool.put([step]);
            return self.pool.end();
        }
        let (name, done) = match step {
            PurgeStep::Entry(name) => {
                let done = self.remove_entry(&name);
                (name, done)
            }
            PurgeStep::Folder(entry, names) => (entry.name.clone(), self.remove_some(entry, names)),
        };
        if done.is_err() {
            lock(&self.stayed).push(name);
        }
    }

    fn remove_entry(&self, name: &CStr) -> io::Result<()> {
        match counted(beneath::unlink(self.trash, name)) {
            Ok(()) | Err(Errno::NOENT) => return Ok(()),
            Err(Errno::ISDIR | Errno::PERM | Errno::ACCESS) => {}
            Err(error) => return Err(error.into()),
        }
        let Some(folder) = self.open(name)? else {
            return Ok(());
        };
        let names = fs::Dir::read_from(&folder)?;
        let entry = OpenEntry {
            name: name.to_owned(),
            folder,
            promise: promise_of(name),
            read: AtomicUsize::new(0),
        };
        self.remove_some(Arc::new(entry), names)
    }

    /// Removes the next of the `names` in a folder, while others read on.
    fn remove_some(&self, entry: Arc<OpenEntry>, mut names: fs::Dir) -> io::Result<()> {
        let mut batch = Vec::with_capacity(BATCH);
        while batch.len() < BATCH
            && let Some(file) = names.read()
        {
            let file = file?;
            if !matches!(file.file_name().to_bytes(), b"." | b"..") {
                batch.push(file.file_name().to_owned());
            }
        }
        let read = entry.read.fetch_add(batch.len(), Ordering::Relaxed);
        if batch.len() == BATCH && read < self.pass {
            let entry = Arc::clone(&entry);
            self.pool.put([PurgeStep::Folder(entry, names)]);
        }
        for name in batch {
            // What stays keeps its folder, which tells of it.
            let removed = counted(fs::unlinkat(&entry.folder, &name, AtFlags::empty()));
            if let Err(Errno::ISDIR | Errno::PERM) = removed {
                let _ = self.raise(&entry, &name);
            }
        }
        let Some(last) = Arc::into_inner(entry) else {
            return Ok(());
        };
        match counted(fs::unlinkat(self.trash, &last.name, AtFlags::REMOVEDIR)) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            // Somebody holds a file open (`.nfs…`), or writes new ones: the next round.
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

    /// Makes a folder within an entry an entry of its own, unless it is gone. A mount point refuses (EBUSY, EXDEV) and stays as
    /// it is.
    fn raise(&self, from: &OpenEntry, name: &CStr) -> io::Result<()> {
        let folder = &from.folder;
        // Most folders are the last of their branch or empty.
        match counted(fs::unlinkat(folder, name, AtFlags::REMOVEDIR)) {
            Ok(()) | Err(Errno::NOENT) => return Ok(()),
            Err(_) => {}
        }
        let entry = CString::new(entry_of(from.promise)?)?;
        match fs::renameat(folder, name, self.trash, &*entry) {
            // An ordinary user may move a folder to another one only with the right to write in it.
            Err(Errno::ACCESS) => {
                beneath::change_mode(folder, OsStr::from_bytes(name.to_bytes()), Mode::RWXU)?;
                fs::renameat(folder, name, self.trash, &*entry)?;
            }
            other => other?,
        }
        if self.pool.waiting() < QUEUE {
            self.pool.put([PurgeStep::Entry(entry)]);
        } else {
            self.raised.store(true, Ordering::Relaxed);
        }
        Ok(())
    }
}

/// Counts what was removed.
fn counted(removed: Result<(), Errno>) -> Result<(), Errno> {
    if removed.is_ok() {
        METRICS.purged_files.inc();
    }
    removed
}

/// How long a draft lives before it is taken for a leftover, by the server's clock. It is written and moved to its place
/// within moments; one whose writer hung for longer is written again.
pub const DRAFT_LIFE: Duration = Duration::from_secs(600);

/// Moves drafts that a crash has left to the trash.
pub fn sweep_drafts(share: &Share) -> Result<(), ShareError> {
    let context = || "sweeping the drafts".to_owned();
    let promise = Promise::none(Nonce::random().context(context)?);
    let time = |name: &CStr| {
        fs::statat(&share.drafts, name, AtFlags::SYMLINK_NOFOLLOW).map(|stat| stat.st_mtime)
    };
    let now = server_now(share)?;
    let names = beneath::names_now(&share.drafts).context(context)?;
    let mut failure = None;
    for name in names {
        let old = time(&name).is_ok_and(|then| {
            u64::try_from(now - then).is_ok_and(|age| age >= DRAFT_LIFE.as_secs())
        });
        if let (true, Ok(text)) = (old, name.to_str()) {
            // A rename, not a removal: of us and of one who publishes the draft after all, one gets it whole.
            // Of several the last one: the others are met again when that is gone.
            failure = discard(share, &share.drafts, text, promise)
                .err()
                .or(failure);
        }
    }
    failure.map_or(Ok(()), Err)
}

/// The time by the server's clock, in seconds since 1970. An age is the difference of two of the server's times, so this
/// machine's clock does not matter.
///
/// # Errors
/// I/O errors: asking takes a file.
pub(super) fn server_now(share: &Share) -> Result<i64, ShareError> {
    let context = || "asking for the server's time".to_owned();
    let probe = format!("probe-{}", Nonce::random().context(context)?);
    beneath::write_new(&share.drafts, &probe, b"").context(context)?;
    let stat = fs::statat(&share.drafts, &*probe, AtFlags::SYMLINK_NOFOLLOW);
    let _ = fs::unlinkat(&share.drafts, &*probe, AtFlags::empty());
    Ok(stat.context(context)?.st_mtime)
}

#[cfg(test)]
mod tests;
