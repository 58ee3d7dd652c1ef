//! Filling what a record promises with a copy of its source, once, whoever tries and whoever dies. Owns the claim on the copy
//! and its heartbeat; how trees are copied is the business of `copying`, what follows is that of the record's life.
//!
//! The claim is a generation of the record that names the attempt; the heartbeat is that generation renewed, with how far
//! the copy is. Both are link(2), so of two one wins. A claim that was not renewed for [`STALE`], by the server's clock, is
//! another's to take.
//! The copy is made as `data.<attempt>` beside the record and flushed. Then an update names the attempt in the record, and by
//! that alone the copy is the record's: of all attempts one is, whoever took whom for dead. Who takes a claim over moves what
//! the others have begun to the trash, so that they notice soon.

use super::beneath;
use super::copying::{self, CopyError, Progress};
use super::crash_points::step;
use super::database::Share;
use super::error::{Doing, ShareError};
use super::keep::Keep;
use super::process;
use super::removal;
use super::source::{Opened, Source, Target};
use super::store::{self, COPYING, Claimed, Found};
use super::token::Nonce;
use super::trash;
use rustix::fs::{self, AtFlags};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread::Builder;
use std::time::{Duration, Instant};

/// How often a claim is renewed.
const BEAT: Duration = Duration::from_secs(4);
/// How long a claim lives without that.
const STALE: Duration = Duration::from_secs(20);

/// Who copies, and how far it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Copying {
    /// This attempt.
    pub attempt: Nonce,
    /// The process that makes it.
    pub process: String,
    /// Entries that are copied.
    pub files: u64,
    /// Their sizes in bytes.
    pub bytes: u64,
}

/// A record that can be filled.
pub trait Fill: Keep {
    /// The claim on the copy.
    fn copying(&self) -> Option<&Copying>;
    /// The next generation, with another claim.
    fn with_copying(&self, copying: Option<Copying>) -> Self;
    /// The next generation, with the data there that the attempt `copy` has made. `left_out` is what did not travel.
    fn filled(&self, copy: Nonce, left_out: Option<String>) -> Self;
}

/// What this process copies now.
static ATTEMPTS: Mutex<Vec<Nonce>> = Mutex::new(Vec::new());

/// An attempt of this process, for as long as it lives.
struct Attempt(Nonce);

impl Attempt {
    fn begin() -> std::io::Result<(Self, Copying)> {
        let attempt = Nonce::random()?;
        let copying = Copying {
            attempt,
            process: process::own().to_owned(),
            files: 0,
            bytes: 0,
        };
        let mut attempts = ATTEMPTS.lock().unwrap_or_else(PoisonError::into_inner);
        attempts.push(attempt);
        Ok((Self(attempt), copying))
    }

    fn lives(copying: &Copying) -> bool {
        let attempts = ATTEMPTS.lock().unwrap_or_else(PoisonError::into_inner);
        attempts.contains(&copying.attempt)
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        let mut attempts = ATTEMPTS.lock().unwrap_or_else(PoisonError::into_inner);
        attempts.retain(|attempt| *attempt != self.0);
    }
}

/// A copy that is about to be made.
pub(super) struct Begun {
    from: Opened,
    /// The size of the source that is on record, in bytes.
    pub size_bytes: i64,
    attempt: Attempt,
    /// The claim, which a record may be published with.
    pub copying: Copying,
}

impl Begun {
    /// Opens `source` for a copy.
    ///
    /// # Errors
    /// As for [`Source::open`].
    pub(super) fn of(share: &Share, source: &Source) -> Result<Self, ShareError> {
        let (from, size_bytes) = source.open(share)?;
        let (attempt, copying) = Attempt::begin().doing(|| "drawing a nonce".to_owned())?;
        Ok(Self {
            from,
            size_bytes,
            attempt,
            copying,
        })
    }
}

/// Claims the copy that `found`'s record promises, unless it was published with the claim of `begun`. Nothing when somebody
/// else was first.
fn claim<R: Fill>(
    share: &Share,
    found: &Found<R>,
    source: &Source,
    begun: Option<Begun>,
) -> Result<Option<(Found<R>, Begun)>, ShareError> {
    if let Some(begun) = begun
        && found.record.copying() == Some(&begun.copying)
    {
        return Ok(Some((found.with(found.record.clone())?, begun)));
    }
    if let Some(copying) = found.record.copying()
        && is_alive(share, found, copying)?
    {
        return Err(ShareError::CopiedElsewhere {
            what: format!("{}/{}", R::SHELF, found.record.key()),
        });
    }
    // Before anything is claimed, so that what cannot be copied costs nothing.
    let begun = Begun::of(share, source)?;
    let next = found.record.with_copying(Some(begun.copying.clone()));
    let claimed = match store::update(share, found, &next)? {
        Claimed::Lost => return Ok(None),
        Claimed::Won => found.with(next)?,
    };
    step("the copy is claimed")?;
    // Those that were there before the claim: later ones may be on record already.
    removal::discard_attempts(share, found)?;
    step("other attempts are discarded")?;
    Ok(Some((claimed, begun)))
}

/// Copies `source` to the data beside `found`'s record and puts that on record; `begun` is the copy that the record was
/// published with. `dress` is given the finished folder before anybody can see it. Returns the record as it is then; nothing
/// when others have changed it, and it is to be looked at again.
///
/// # Errors
/// [`ShareError::CopiedElsewhere`] while another controller does it, [`ShareError::NoSource`] when the source was deleted
/// meanwhile, [`ShareError::Copy`], and I/O errors. What was copied is in the trash then, unless an update may have put it on
/// record.
pub(super) fn fill<R: Fill>(
    share: &Share,
    found: &Found<R>,
    source: &Source,
    begun: Option<Begun>,
    progress: &Progress,
    dress: impl FnOnce(&OwnedFd) -> Result<(), ShareError>,
) -> Result<Option<Found<R>>, ShareError> {
    let Some((claimed, begun)) = claim(share, found, source, begun)? else {
        return Ok(None);
    };
    let Begun {
        from,
        attempt,
        copying,
        ..
    } = begun;
    let seen = from.seen()?;
    let [data, links] = COPYING.map(|kind| format!("{kind}.{}", attempt.0));
    let filled = copy_beating(share, &claimed, copying, from, [&data, &links], progress).and_then(
        |copied| {
            let Some((current, folder, report)) = copied else {
                return Ok(None);
            };
            step("the copy is made")?;
            source.still_there(share, &seen)?;
            finish(&current, &folder, dress)?;
            let filled = current.record.filled(attempt.0, report.omissions());
            Ok(Some((current, filled)))
        },
    );
    let result = match filled {
        Ok(Some((current, next))) => match store::update(share, &current, &next) {
            Ok(Claimed::Won) => {
                step("the copy is on record")?;
                return current.with(next).map(|filled| Some(filled.with_data()));
            }
            // Taken over, or deleted.
            Ok(Claimed::Lost) => Ok(None),
            // It may be on record, and then it must stay.
            Err(error) => return Err(error.unfinished()),
        },
        Ok(None) => Ok(None),
        Err(error) => Err(error),
    };
    if !store::is_crash(&result) {
        let nonce = claimed.record.nonce();
        for name in [&links, &data] {
            // Nothing of either when it was moved away.
            let _ = trash::discard(share, &claimed.folder, name, nonce);
        }
        // It may have been deleted meanwhile, and then this attempt has kept the folder.
        removal::remove_folder::<R>(share, claimed.record.key(), None);
    }
    result
}

/// Makes the finished copy in `folder` what it is to be.
fn finish<R: Fill>(
    current: &Found<R>,
    folder: &OwnedFd,
    dress: impl FnOnce(&OwnedFd) -> Result<(), ShareError>,
) -> Result<(), ShareError> {
    let doing = || "finishing the copy".to_owned();
    dress(folder)?;
    beneath::sync(folder).doing(doing)?;
    beneath::sync(&current.folder).doing(doing)
}

/// Copies, and renews the claim meanwhile. Nothing when the claim was lost; else the record as it is then, and the copy.
fn copy_beating<R: Fill>(
    share: &Share,
    claimed: &Found<R>,
    copying: Copying,
    from: Opened,
    [data, links]: [&str; 2],
    progress: &Progress,
) -> Result<Option<(Found<R>, OwnedFd, copying::Report)>, ShareError> {
    let made = beneath::make_folder(&claimed.folder, data, 0o700)
        .and_then(|_| beneath::folder(&claimed.folder, data));
    let target = match made {
        Ok(target) => target,
        // Deleted meanwhile, by another controller.
        Err(error) if beneath::is_gone(&error) => return Ok(None),
        Err(error) => return Err(error).doing(|| "making the folder of the copy".to_owned()),
    };
    let to = Target {
        folder: target.try_clone().doing(|| "copying".to_owned())?,
        beside: (claimed.folder.try_clone()).doing(|| "copying".to_owned())?,
        path: store::path_of::<R>(claimed.record.key()),
        names: [data, links],
    };
    step("the folder of the copy is made")?;
    let heart = Heart {
        over: Mutex::new(false),
        changed: Condvar::new(),
    };
    let (copied, beaten) = std::thread::scope(|scope| {
        let beats = || heart.beat(share, claimed, &copying, progress);
        let beating = Builder::new()
            .name("heart".to_owned())
            .spawn_scoped(scope, beats)
            .doing(|| "starting a thread to copy".to_owned())?;
        let copied = {
            let _stopping = Stopping(&heart);
            from.copy(share, to, progress)
        };
        let beaten = beating
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        Ok::<_, ShareError>((copied, beaten))
    })?;
    match (copied, beaten?) {
        (Err(CopyError::Stopped) | Ok(_), None) => Ok(None),
        (Ok(report), Some(current)) => Ok(Some((current, target, report))),
        // The trash folder that it was moved to is being purged.
        (Err(_), None) => Ok(None),
        (Err(error), Some(current)) => {
            let error = error.into();
            if ShareError::is_crash(&error) || is_ours(share, &current, copying, data)? {
                return Err(error);
            }
            Ok(None)
        }
    }
}

/// Whether the claim on a copy that has failed is still this attempt's. Who takes it over moves the copy away, which fails then
/// before the heart has noticed; and the record is another's, which such a failure must not withdraw.
fn is_ours<R: Fill>(
    share: &Share,
    current: &Found<R>,
    copying: Copying,
    data: &str,
) -> Result<bool, ShareError> {
    match beneath::exists(&current.folder, data) {
        Ok(true) => {}
        Ok(false) => return Ok(false),
        Err(error) if beneath::is_gone(&error) => return Ok(false),
        Err(error) => return Err(error).doing(|| "looking for the copy".to_owned()),
    }
    let renewed = store::update(share, current, &current.record.with_copying(Some(copying)));
    // A full share: what the copy has met says more.
    Ok(!matches!(renewed, Ok(Claimed::Lost)))
}

struct Heart {
    over: Mutex<bool>,
    changed: Condvar,
}

/// Stops the heart when the copy has ended, also by a panic.
struct Stopping<'a>(&'a Heart);

impl Drop for Stopping<'_> {
    fn drop(&mut self) {
        self.0.stop();
    }
}

impl Heart {
    fn stop(&self) {
        *self.over.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.changed.notify_all();
    }

    /// Renews the claim until the copy is over. Returns the record as it is then; nothing when somebody else has changed it.
    fn beat<R: Fill>(
        &self,
        share: &Share,
        claimed: &Found<R>,
        copying: &Copying,
        progress: &Progress,
    ) -> Result<Option<Found<R>>, ShareError> {
        let mut current = claimed.with(claimed.record.clone())?;
        let mut over = self.over.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let (guard, waited) = self
                .changed
                .wait_timeout_while(over, BEAT, |over| !*over)
                .unwrap_or_else(PoisonError::into_inner);
            over = guard;
            if !waited.timed_out() {
                return Ok(Some(current));
            }
            drop(over);
            let next = current.record.with_copying(Some(Copying {
                files: progress.files(),
                bytes: progress.bytes(),
                ..copying.clone()
            }));
            match store::update(share, &current, &next) {
                Ok(Claimed::Won) => current = current.with(next)?,
                Ok(Claimed::Lost) => {
                    progress.stop();
                    return Ok(None);
                }
                // A full share, a server that is away: the copy meets it as well, and says more.
                Err(_) => {}
            }
            over = self.over.lock().unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// Claims of others that this process waits for: their generation, and when it was first seen.
static WATCHED: Mutex<BTreeMap<Nonce, (u64, Instant)>> = Mutex::new(BTreeMap::new());

/// How many are watched; the oldest makes room.
const MOST_WATCHED: usize = 256;

/// Whether this process has seen `generation` of a claim for at least `limit`, with no newer one since. A server's clock that
/// was set back would keep a dead claim young until it is right again.
fn seen_for(attempt: Nonce, generation: u64, limit: Duration) -> bool {
    let mut watched = WATCHED.lock().unwrap_or_else(PoisonError::into_inner);
    if watched.len() >= MOST_WATCHED && !watched.contains_key(&attempt) {
        let oldest = watched.iter().min_by_key(|(_, (_, since))| *since);
        if let Some(oldest) = oldest.map(|(attempt, _)| *attempt) {
            watched.remove(&oldest);
        }
    }
    let entry = watched
        .entry(attempt)
        .or_insert_with(|| (generation, Instant::now()));
    if entry.0 != generation {
        *entry = (generation, Instant::now());
    }
    let seen = entry.1.elapsed() >= limit;
    if seen {
        watched.remove(&attempt);
    }
    seen
}

/// Whether a claim is held by somebody who lives.
fn is_alive<R: Fill>(
    share: &Share,
    found: &Found<R>,
    copying: &Copying,
) -> Result<bool, ShareError> {
    if copying.process == process::own() {
        return Ok(Attempt::lives(copying));
    }
    if process::is_dead(&copying.process) {
        return Ok(false);
    }
    let doing = || "looking how old the claim on the copy is".to_owned();
    let now = trash::server_now(share)?;
    let renewed = fs::statat(
        &found.folder,
        found.record.file_name(),
        AtFlags::SYMLINK_NOFOLLOW,
    );
    match renewed {
        Ok(stat) => {
            let young = u64::try_from(now - stat.st_mtime).unwrap_or(0) < STALE.as_secs();
            Ok(young && !seen_for(copying.attempt, found.record.generation(), STALE))
        }
        // Renewed in this moment.
        Err(Errno::NOENT) => Ok(true),
        Err(error) => Err(error).doing(doing),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_is_old_when_it_was_seen_for_long_without_a_change() {
        let (claim, other) = (Nonce::random().unwrap(), Nonce::random().unwrap());
        let limit = Duration::from_millis(40);
        assert!(!seen_for(claim, 1, limit));
        std::thread::sleep(limit);
        // Renewed.
        assert!(!seen_for(claim, 2, limit));
        assert!(!seen_for(other, 1, limit));
        std::thread::sleep(limit);
        assert!(seen_for(claim, 2, limit));
        assert!(seen_for(other, 1, limit));
    }
}
