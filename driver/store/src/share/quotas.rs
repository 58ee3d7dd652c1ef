//! Whether a volume's size is enforced, which is decided once, when it is made; and how a process gets that done: where the
//! folder lies by itself (`limits`), else by asking an agent (`requests`).

use crate::metrics::METRICS;
use crate::quota::amounts::Amounts;
use crate::share::agent_memory::next_pause;
use crate::share::agents::{self, Capabilities, Quotas};
use crate::share::attempt::process;
use crate::share::database::{Position, Share};
use crate::share::error::ShareError;
use crate::share::limits::{self, PATIENCE};
use crate::share::records::record::Record;
use crate::share::records::size::{Quota, Size};
use crate::share::records::volume::{Volume, Wanted};
use crate::share::requests::{Answer, Asked, Request};
use crate::share::token::Nonce;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

/// How long most answers take at most. Then an agent that was asked by a record alone is asked by a file too, and one looks
/// whether there still is one.
const SOON: Duration = Duration::from_millis(500);
/// Between two such looks.
const LOOK: Duration = Duration::from_secs(1);
const NOBODY: &str = "there is no agent that lives and can (csi-nfs agent --quotas), or this controller has the share's folder itself and was started without --quotas";

/// A folder whose size is enforced. Until its record says so, what is kept here keeps comparisons from the volume.
#[derive(Debug)]
pub(super) struct Held {
    /// Its project.
    pub project: u32,
    /// The lock of this process, which has limited it itself.
    _alone: Option<OwnedFd>,
    /// The request to the agent that has.
    _asked: Option<Asked>,
}

/// Whether the new volume that `wanted` describes is to have its size enforced.
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
        Some(Quota::Advise) => Capabilities::default(),
        _ => what_can_be_had(share)?,
    };
    judge(wanted.quota, can)
}

/// What this process can make of sizes, or an agent.
fn what_can_be_had(share: &Share) -> Result<Capabilities, ShareError> {
    if share.quotas().is_some() {
        return Ok(Capabilities::of_quotas(share));
    }
    let seen = share.memory.seen_on(share.uuid());
    if seen.is_some_and(|process| !process::is_dead(&process)) {
        return Ok(Capabilities {
            quotas: Quotas::Enforced,
            ..Capabilities::default()
        });
    }
    let Some(agent) = agents::at_work(share)? else {
        return Ok(Capabilities::default());
    };
    if agent.capabilities.quotas == Quotas::Enforced {
        share.memory.see(share.uuid(), agent.process);
    }
    Ok(agent.capabilities)
}

/// Whether the size of a volume that is not ready was to be enforced and need not be: nobody can any more, and its class takes what
/// can be had.
///
/// # Errors
/// I/O errors.
pub(super) fn has_lapsed(share: &Share, record: &Record<Volume>) -> Result<bool, ShareError> {
    let has_to_be = record.what.wanted.quota == Some(Quota::Enforce);
    Ok(!has_to_be && what_can_be_had(share)?.quotas != Quotas::Enforced)
}

/// Why the volume with this record could not be expanded now, where its size is enforced and that is so.
pub fn obstacle(share: &Share, record: &Record<Volume>) -> Result<Option<String>, ShareError> {
    if !matches!(record.what.size, Some(Size::Enforced { .. })) {
        return Ok(None);
    }
    let can = what_can_be_had(share)?;
    Ok(match can.quotas {
        Quotas::Enforced => None,
        Quotas::None | Quotas::Advisory => Some(can.why.unwrap_or_else(|| NOBODY.to_owned())),
    })
}

fn judge(asked: Option<Quota>, can: Capabilities) -> Result<Option<Size>, ShareError> {
    match (asked, can.quotas) {
        (Some(Quota::Advise), _) => Ok(Some(Size::Advisory {
            why: "its parameter quota says so".to_owned(),
        })),
        (_, Quotas::Enforced) => Ok(Some(Size::Enforced { project: None })),
        (Some(Quota::Enforce), _) => Err(ShareError::NotHeld(
            can.why.unwrap_or_else(|| NOBODY.to_owned()),
        )),
        (None, _) => Ok(can.why.map(|why| Size::Advisory { why })),
    }
}

/// Enforces the size of a volume: `capacity_bytes`, or the copy of its source that the `attempt` is about to make.
///
/// # Errors
/// [`ShareError::NotHeld`], [`ShareError::NotHeldYet`], and I/O errors.
pub(super) fn hold(
    share: &Share,
    record: &Record<Volume>,
    capacity_bytes: i64,
    attempt: Option<Nonce>,
) -> Result<Held, ShareError> {
    let bytes = u64::try_from(capacity_bytes).unwrap_or_default();
    let inodes = record.what.wanted.inodes.unwrap_or_default();
    let wanted = Amounts { bytes, inodes };
    let request = Request::new((record.key(), record.nonce), attempt, wanted);
    let begun = Instant::now();
    let held = match share.quotas().is_some() || matches!(share.position, Position::Agent(_)) {
        true => limits::limit(share, &request).map(|(project, alone)| Held {
            project,
            _alone: Some(alone),
            _asked: None,
        }),
        false => ask(share, record, &request),
    }?;
    METRICS.limit(begun.elapsed());
    Ok(held)
}

fn ask(share: &Share, record: &Record<Volume>, request: &Request) -> Result<Held, ShareError> {
    let asked = match request.attempt.is_none() && limits::as_request(record).is_some() {
        true => Asked::by_record(share, record.nonce)?,
        false => Asked::ask(share, request)?,
    };
    let Some(mut asked) = asked else {
        share.memory.miss(share.uuid());
        return Err(not_yet(NOBODY));
    };
    match wait(share, &mut asked, request)? {
        Answer::Project(project) => Ok(Held {
            project,
            _alone: None,
            _asked: Some(asked),
        }),
        Answer::Refused(why) => {
            // It may have said that it can, a moment ago.
            share.memory.miss(share.uuid());
            Err(ShareError::NotHeld(why))
        }
    }
}

fn not_yet(why: impl Into<String>) -> ShareError {
    ShareError::NotHeldYet(why.into())
}

/// Waits for the answer, as long as there is somebody who may give it.
fn wait(share: &Share, asked: &mut Asked, request: &Request) -> Result<Answer, ShareError> {
    let begun = Instant::now();
    let mut pause = share.memory.first_pause();
    let mut looked: Option<Instant> = None;
    while begun.elapsed() < PATIENCE {
        std::thread::sleep(pause);
        let took = begun.elapsed();
        if let Some(answer) = asked.answer()? {
            share.memory.answered_after(took);
            return Ok(answer);
        }
        if took > SOON {
            asked.write(share, request)?;
        }
        if took > SOON && looked.is_none_or(|at| at.elapsed() > LOOK) {
            looked = Some(Instant::now());
            let agent = agents::at_work(share)?;
            if agent.is_none_or(|agent| agent.capabilities.quotas != Quotas::Enforced) {
                share.memory.miss(share.uuid());
                return Err(not_yet(NOBODY));
            }
        }
        pause = next_pause(took);
    }
    Err(not_yet(format!(
        "its agent has not answered for {PATIENCE:?}"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_held_to_a_size() {
        let can = |quotas, why: Option<&str>| Capabilities {
            quotas,
            why: why.map(str::to_owned),
            ..Capabilities::default()
        };
        let (none, enforced) = (can(Quotas::None, None), can(Quotas::Enforced, None));
        let unable = can(Quotas::Advisory, Some("tmpfs has no project quotas"));
        let (enforce, advise) = (Some(Quota::Enforce), Some(Quota::Advise));
        for (asked, can, expected) in [
            (None, none.clone(), Ok("")),
            (None, unable.clone(), Ok("advisory: tmpfs")),
            (None, enforced.clone(), Ok("not enforced yet")),
            (enforce, none.clone(), Err("no agent")),
            (enforce, unable, Err("tmpfs")),
            (enforce, enforced.clone(), Ok("not enforced yet")),
            (advise, enforced, Ok("parameter")),
            (advise, none, Ok("parameter")),
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
