//! Whether a volume is held to its size, which is decided once, when it is made; and how a process gets that done: as an agent by
//! itself (`limits`), else by asking one (`requests`).

use crate::share::agents::{self, Can, Quotas};
use crate::share::attempt::process;
use crate::share::database::{Place, Share};
use crate::share::error::ShareError;
use crate::share::limits;
use crate::share::records::record::Record;
use crate::share::records::size::{Quota, Size};
use crate::share::records::volume::{Volume, Wanted};
use crate::share::requests::{Answer, Asked, Request};
use crate::share::token::{Nonce, ShareUuid};
use csi_proto::lock::lock;
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// How long an agent may take to answer; as long as one lives that does not say so any more.
const PATIENCE: Duration = Duration::from_secs(20);
/// How long most answers take at most. Then an agent that was asked by a record alone is asked by a file too, and one looks
/// whether there still is one.
const SOON: Duration = Duration::from_millis(500);
/// Between two such looks.
const LOOK: Duration = Duration::from_secs(1);
/// Between two looks for the answer, at least and at most.
const PAUSES: [Duration; 2] = [Duration::from_millis(4), Duration::from_millis(64)];
/// How long an agent that was seen is believed to live. That there is none is found out anew each time.
const BELIEVED: Duration = Duration::from_secs(1);

/// The agents that hold volumes to their sizes: their processes, and when they were seen.
static SEEN: Mutex<BTreeMap<ShareUuid, (Instant, String)>> = Mutex::new(BTreeMap::new());
/// How long answers have taken lately, in milliseconds: whoever looks too early asks the server for nothing.
static LATELY: AtomicU64 = AtomicU64::new(0);

const NOBODY: &str = "there is no agent that lives and can (csi-nfs agent --quotas), or this controller has the share's folder itself and asks none";

/// A folder that is held to its size.
#[derive(Debug)]
pub(super) struct Held {
    /// Its project.
    pub project: u32,
    /// The request, until what came of it is on record.
    _asked: Option<Asked>,
}

/// Whether the new volume that `wanted` describes is to be held to its size.
///
/// # Errors
/// [`ShareError::NotHeld`] where it has to be and cannot, and I/O errors.
pub(super) fn decide(
    share: &Share,
    wanted: &Wanted,
    capacity_bytes: i64,
) -> Result<Option<Size>, ShareError> {
    let has_size = capacity_bytes > 0 || wanted.inodes.is_some();
    if wanted.adopt || !has_size {
        return Ok(None);
    }
    let can = match wanted.quota {
        Some(Quota::Advise) => None,
        _ => what_an_agent_can(share)?,
    };
    judge(wanted.quota, can)
}

fn what_an_agent_can(share: &Share) -> Result<Option<Can>, ShareError> {
    if let Some((at, process)) = lock(&SEEN).get(&share.uuid())
        && at.elapsed() < BELIEVED
        && !process::is_dead(process)
    {
        let quotas = Quotas::Enforced;
        return Ok(Some(Can {
            quotas,
            ..Can::default()
        }));
    }
    let Some(agent) = agents::at_work(share)? else {
        return Ok(None);
    };
    if agent.can.quotas == Quotas::Enforced {
        lock(&SEEN).insert(share.uuid(), (Instant::now(), agent.process));
    }
    Ok(Some(agent.can))
}

fn judge(asked: Option<Quota>, can: Option<Can>) -> Result<Option<Size>, ShareError> {
    let can = can.unwrap_or_default();
    match (asked, can.quotas) {
        (Some(Quota::Advise), _) => Ok(Some(Size::Advisory {
            why: "its parameter quota says so".to_owned(),
        })),
        (_, Quotas::Enforced) => Ok(Some(Size::Enforced { project: None })),
        (Some(Quota::Enforce), _) => Err(ShareError::NotHeld {
            why: can.why.unwrap_or_else(|| NOBODY.to_owned()),
        }),
        (None, _) => Ok(can.why.map(|why| Size::Advisory { why })),
    }
}

/// Holds a volume to `capacity_bytes`, or the copy of its source that the `attempt` is about to make.
///
/// # Errors
/// [`ShareError::NotHeld`], and I/O errors.
pub(super) fn hold(
    share: &Share,
    record: &Record<Volume>,
    capacity_bytes: i64,
    attempt: Option<Nonce>,
) -> Result<Held, ShareError> {
    let bytes = u64::try_from(capacity_bytes).unwrap_or_default();
    let inodes = record.what.wanted.inodes.unwrap_or_default();
    let request = Request::new((record.key(), record.nonce), attempt, [bytes, inodes]);
    if matches!(share.place, Place::Agent(_)) {
        let project = limits::limit(share, &request)?;
        return Ok(Held {
            project,
            _asked: None,
        });
    }
    let asked = match attempt.is_none() && limits::is_request(record) {
        true => Asked::by_record(share, record.nonce)?,
        false => Asked::ask(share, &request)?,
    };
    let mut asked = asked.ok_or_else(nobody)?;
    match wait(share, &mut asked, &request)? {
        Answer::Project(project) => Ok(Held {
            project,
            _asked: Some(asked),
        }),
        Answer::Refused(why) => Err(ShareError::NotHeld { why }),
    }
}

fn nobody() -> ShareError {
    let why = NOBODY.to_owned();
    ShareError::NotHeld { why }
}

/// Waits for the answer, as long as there is somebody who may give it.
fn wait(share: &Share, asked: &mut Asked, request: &Request) -> Result<Answer, ShareError> {
    let begun = Instant::now();
    let mut pause = first_pause(LATELY.load(Relaxed));
    let mut looked: Option<Instant> = None;
    while begun.elapsed() < PATIENCE {
        std::thread::sleep(pause);
        let took = begun.elapsed();
        if let Some(answer) = asked.answer()? {
            LATELY.store(lately(LATELY.load(Relaxed), took), Relaxed);
            return Ok(answer);
        }
        if took > SOON {
            asked.write(share, request)?;
        }
        if took > SOON && looked.is_none_or(|at| at.elapsed() > LOOK) {
            looked = Some(Instant::now());
            let agent = agents::at_work(share)?;
            if agent.is_none_or(|agent| agent.can.quotas != Quotas::Enforced) {
                lock(&SEEN).remove(&share.uuid());
                return Err(nobody());
            }
        }
        pause = next_pause(took);
    }
    let why = format!("its agent has not answered for {PATIENCE:?}");
    Err(ShareError::NotHeld { why })
}

/// The first pause, which is a little shorter than answers took `lately`, so that they may turn out to be faster.
fn first_pause(lately: u64) -> Duration {
    let [least, most] = PAUSES;
    Duration::from_millis(lately * 3 / 4).clamp(least, most)
}

/// The pause for somebody who has `waited` in vain: the longer that was, the less does a little more count.
fn next_pause(waited: Duration) -> Duration {
    let [least, most] = PAUSES;
    (waited / 3).clamp(least, most)
}

fn lately(before: u64, took: Duration) -> u64 {
    let took = u64::try_from(took.as_millis())
        .unwrap_or(u64::MAX)
        .min(1000);
    (before * 3 + took) / 4
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pace_of_looks_follows_the_answers() {
        let ms = Duration::from_millis;
        for (lately, expected) in [(0, 4), (8, 6), (40, 30), (1000, 64)] {
            assert_eq!(first_pause(lately), ms(expected), "{lately}");
        }
        for (waited, expected) in [(4, 4), (30, 10), (96, 32), (5000, 64)] {
            assert_eq!(next_pause(ms(waited)), ms(expected), "{waited}");
        }
        // Answers that come at the first look make the next look earlier.
        let mut now = 40;
        for _ in 0..100 {
            now = super::lately(now, first_pause(now));
        }
        assert!(now <= 4, "{now}");
        assert_eq!(super::lately(0, Duration::MAX), 250);
    }

    #[test]
    fn who_is_held_to_a_size() {
        let can = |quotas, why: Option<&str>| {
            Some(Can {
                quotas,
                why: why.map(str::to_owned),
                ..Can::default()
            })
        };
        let (none, enforced) = (can(Quotas::None, None), can(Quotas::Enforced, None));
        let unable = can(Quotas::Advisory, Some("tmpfs has no project quotas"));
        let (enforce, advise) = (Some(Quota::Enforce), Some(Quota::Advise));
        for (asked, can, expected) in [
            (None, None, Ok("")),
            (None, none.clone(), Ok("")),
            (None, unable.clone(), Ok("advisory: tmpfs")),
            (None, enforced.clone(), Ok("not enforced yet")),
            (enforce, None, Err("no agent")),
            (enforce, none, Err("no agent")),
            (enforce, unable, Err("tmpfs")),
            (enforce, enforced.clone(), Ok("not enforced yet")),
            (advise, enforced, Ok("parameter")),
            (advise, None, Ok("parameter")),
        ] {
            match (judge(asked, can), expected) {
                (Ok(size), Ok(words)) => {
                    let said = size.as_ref().map(ToString::to_string);
                    assert!(
                        said.clone().unwrap_or_default().contains(words),
                        "{said:?} {words}"
                    );
                    assert_eq!(size.is_none(), words.is_empty());
                }
                (Err(error), Err(words)) => assert!(error.to_string().contains(words), "{error}"),
                (judged, _) => panic!("{judged:?}, expected was {expected:?}"),
            }
        }
    }
}
