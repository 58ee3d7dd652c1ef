//! The heartbeat of a process, and the rule by which it is taken for dead. Owns the file `beat.<attempt>` beside the record of
//! a copy; that a copy is claimed, and what is copied, is the business of the room above. Agents live by the same rule.
//!
//! The file is made with the claim and touched again and again, which takes no room and changes no record. A beat
//! never makes the file. Where the file was moved away, or the record has a newer generation, the copy stops. Watchers
//! open it too: what an NFS client knows of a file that it does not open may be old.
//! On the server itself the file is kept open for writing: nfsd hands out no delegation of such a file, which a client that
//! vanishes would keep, and with it the next beat, for longer than a claim lives.
//! A claim is dead when this process has seen it unchanged for its period, by its own monotonic clock, or knows that the
//! process which holds it is dead. No other clock decides.

use crate::files::beneath;
use crate::files::copying::Progress;
use crate::share::attempt::process;
use crate::share::database::{Position, Share};
use crate::share::error::{Context, ShareError};
use crate::share::records::record::Kind;
use crate::share::records::store::{self, Found};
use crate::share::token::Nonce;
use csi_proto::lock::lock;
use rustix::fs::{self, Timespec, Timestamps, UTIME_NOW, UTIME_OMIT};
use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

/// How often a claim is renewed.
pub const BEAT: Duration = Duration::from_secs(4);
/// How long a claim lives without that.
pub const PERIOD: Duration = Duration::from_secs(20);
/// How long a claim is remembered that nobody asks about.
const REMEMBERED: Duration = Duration::from_secs(3600);

/// The file's name.
pub(in crate::share) fn name(attempt: Nonce) -> String {
    format!("beat.{attempt}")
}

/// What the file says: entries and bytes that are copied, always as long.
fn text(files: u64, bytes: u64) -> String {
    format!("{files:>20} {bytes:>20}\n")
}

/// Makes the file in the folder of a record.
pub(in crate::share) fn begin(
    share: &Share,
    folder: &OwnedFd,
    attempt: Nonce,
) -> Result<(), ShareError> {
    let name = name(attempt);
    share
        .write_new(folder, &name, text(0, 0).as_bytes())
        .context(|| "making the sign of life of a copy".to_owned())
}

/// How many entries and bytes the attempt says to have copied; nothing when that is not known.
pub(in crate::share) fn progress(folder: &OwnedFd, attempt: Nonce) -> Option<(u64, u64)> {
    let content = beneath::read(folder, &name(attempt), 64).ok()?;
    let mut numbers = std::str::from_utf8(&content).ok()?.split_ascii_whitespace();
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

/// The times of what is touched: modified now, by the server's clock.
pub(in crate::share) const TOUCHED: Timestamps = {
    const fn at(tv_nsec: i64) -> Timespec {
        Timespec { tv_sec: 0, tv_nsec }
    }
    Timestamps {
        last_access: at(UTIME_OMIT),
        last_modification: at(UTIME_NOW),
    }
};

/// Touches the file `name` in `folder`, which is there, and returns it open.
///
/// # Errors
/// ENOENT and ESTALE when somebody has taken it away; others say nothing about that.
pub(in crate::share) fn touch(folder: &OwnedFd, name: &str) -> io::Result<OwnedFd> {
    let file = beneath::file_to_write(folder, name)?;
    fs::futimens(&file, &TOUCHED)?;
    Ok(file)
}

/// Whether the record has no newer generation, as far as can be known.
pub(in crate::share) fn is_unchanged<K: Kind>(claimed: &Found<K>) -> bool {
    match store::has_newer(claimed) {
        Ok(newer) => !newer,
        Err(error) => !beneath::is_gone(&error),
    }
}

/// Renews the claim until the copy is over, which is when nobody can send on `over`, and stops the copy when the claim is lost, or
/// when it is `in_vain`. Returns whether it is held still.
pub(in crate::share) fn beat<K: Kind>(
    share: &Share,
    claimed: &Found<K>,
    attempt: Nonce,
    progress: &Progress,
    in_vain: impl Fn() -> bool,
    over: &Receiver<()>,
) -> bool {
    let is_on_server = matches!(share.position, Position::Agent(_));
    // One that cannot be had now is had at the first beat.
    let mut _kept = is_on_server.then(|| beneath::file_to_write(&claimed.folder, name(attempt)));
    while over.recv_timeout(BEAT) == Err(RecvTimeoutError::Timeout) {
        let touched = touch(&claimed.folder, &name(attempt));
        // A full share or a server that is away says nothing about the claim.
        let is_gone = matches!(&touched, Err(error) if beneath::is_gone(error));
        if is_gone || !is_unchanged(claimed) {
            progress.stop();
            return false;
        }
        if let Ok(file) = touched {
            // For people alone: on a full share it may fail.
            let text = text(progress.files(), progress.bytes());
            let _ = rustix::io::pwrite(&file, text.as_bytes(), 0);
            _kept = is_on_server.then_some(Ok(file));
        }
        if in_vain() {
            progress.stop();
        }
    }
    true
}

/// What can be seen of a claim: the record's generation (0 for an agent, which has no record), and when the file was touched, by
/// the server's clock. That time only has to differ from one beat to the next.
type Sign = (u64, Option<(i64, u64)>);

/// What was seen of one claim.
struct Seen {
    sign: Sign,
    /// Since when it has been the same.
    since: Instant,
    asked: Instant,
}

/// Claims that this process waits for.
struct Watch(BTreeMap<Nonce, Seen>);

static WATCH: Mutex<Watch> = Mutex::new(Watch(BTreeMap::new()));

impl Watch {
    /// For how long the claim has been seen as it is now.
    fn unchanged_for(&mut self, attempt: Nonce, sign: Sign, now: Instant) -> Duration {
        self.0
            .retain(|_, seen| now.saturating_duration_since(seen.asked) < REMEMBERED);
        let new = || Seen {
            sign,
            since: now,
            asked: now,
        };
        let seen = self.0.entry(attempt).or_insert_with(new);
        seen.asked = now;
        if seen.sign != sign {
            *seen = new();
        }
        now.saturating_duration_since(seen.since)
    }
}

/// The rule: whether the process `holder`, which touches `file` in `folder`, is dead. What is watched is told from all others by
/// `whose`, and counts as touched as well when its `generation` changes.
///
/// # Errors
/// I/O errors, which say nothing about it.
pub(in crate::share) fn has_stopped(
    folder: &OwnedFd,
    file: &str,
    whose: Nonce,
    generation: u64,
    holder: &str,
) -> io::Result<bool> {
    if process::is_dead(holder) {
        return Ok(true);
    }
    let touched = beneath::file(folder, file).and_then(|file| {
        let stat = fs::fstat(&file)?;
        Ok((stat.st_mtime, stat.st_mtime_nsec))
    });
    let sign = (generation, beneath::if_there(touched)?);
    let mut watch = lock(&WATCH);
    Ok(watch.unchanged_for(whose, sign, now()) >= PERIOD)
}

fn now() -> Instant {
    #[cfg(test)]
    return Instant::now() + tests::AHEAD.get();
    #[cfg(not(test))]
    Instant::now()
}

#[cfg(test)]
pub(in crate::share) mod tests {
    use super::*;
    use std::cell::Cell;

    thread_local! {
        /// How far this thread's clock is ahead.
        pub static AHEAD: Cell<Duration> = const { Cell::new(Duration::ZERO) };
    }

    /// Lets a claim's period pass for this thread.
    pub fn let_a_period_pass() {
        AHEAD.set(AHEAD.get() + PERIOD);
    }

    #[test]
    fn a_claim_is_dead_when_it_was_seen_unchanged_for_its_period() {
        let (claim, other) = (Nonce::random().unwrap(), Nonce::random().unwrap());
        let (mut watch, start) = (Watch(BTreeMap::new()), Instant::now());
        let mut look = |claim, sign, seconds| {
            watch
                .unchanged_for(claim, sign, start + Duration::from_secs(seconds))
                .as_secs()
        };
        assert_eq!(look(claim, (1, None), 0), 0);
        assert_eq!(look(claim, (1, None), 15), 15);
        // Touched; a server's clock that was set back is a change as any other.
        assert_eq!(look(claim, (1, Some((9, 9))), 16), 0);
        assert_eq!(look(claim, (1, Some((9, 8))), 30), 0);
        assert_eq!(look(claim, (2, Some((9, 8))), 40), 0);
        assert_eq!(look(other, (2, Some((9, 8))), 50), 0);
        assert_eq!(look(claim, (2, Some((9, 8))), 61), 21);
        // Nobody asked for long: it begins anew, and takes no room meanwhile.
        assert_eq!(look(claim, (2, Some((9, 8))), 61 + 3600), 0);
        assert_eq!(watch.0.len(), 1);
    }

    #[test]
    fn a_thousand_dead_claims_are_all_seen_to_be_dead() {
        let (mut watch, start) = (Watch(BTreeMap::new()), Instant::now());
        let claims: Vec<Nonce> = (0..1000).map(|_| Nonce::random().unwrap()).collect();
        for (index, claim) in claims.iter().enumerate() {
            let soon = start + Duration::from_millis(index as u64);
            assert_eq!(watch.unchanged_for(*claim, (1, None), soon), Duration::ZERO);
        }
        let later = start + PERIOD + Duration::from_secs(1);
        for claim in &claims {
            assert!(watch.unchanged_for(*claim, (1, None), later) >= PERIOD);
        }
    }
}
