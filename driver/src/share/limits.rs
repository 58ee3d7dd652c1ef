//! The limits of volumes, as they are set where the folder lies, by an agent or by a controller that has the share itself: it
//! answers requests, and compares what the file system reports with the records. Owns `projects/` on the share, the ledger of
//! project ids.
//!
//! A folder becomes a project, and gets its limit, while it is empty. Who sets a limit locks the folder of the record: of two
//! processes the second finds what the first has done. A volume is never shrunk, so a request never lowers a limit. A comparison may
//! lower it, where nobody is asking for the volume: by a file, or by the lock, which a controller keeps until its record says what it
//! has set.

use crate::beneath;
use crate::crash_points::step;
use crate::quota::amounts::{self, larger};
use crate::quota::error::QuotaError;
use crate::quota::ledger::Ledger;
use crate::quota::project;
use crate::quota::project_id::ProjectId;
use crate::quota::reconcile::{self, Action, Hold, Holder, Trouble};
use crate::share::database::Share;
use crate::share::error::{Doing, ShareError};
use crate::share::paths::claim;
use crate::share::paths::open::blocked;
use crate::share::paths::sub_path::RECORDS_FOLDER;
use crate::share::records::record::{Record, State};
use crate::share::records::size::Size;
use crate::share::records::store::{self, Found, Kept};
use crate::share::records::text::{COPYING, data_name};
use crate::share::records::volume::Volume;
use crate::share::requests::{self, Answer, Request, Requests};
use crate::share::token::{NameKey, Nonce};
use rustix::fs;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

const PROJECTS: &str = "projects";

/// A request that this process has answered.
#[derive(Debug)]
pub struct Answered {
    /// The volume, by its folder where that is known.
    volume: String,
    answer: Answer,
    took: Duration,
}

impl fmt::Display for Answered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let volume = &self.volume;
        match &self.answer {
            Answer::Project(id) => write!(
                f,
                "{volume} is held to its size by project {id}, which took {} ms",
                self.took.as_millis()
            ),
            Answer::Refused(why) => write!(f, "{volume} is not held to its size: {why}"),
        }
    }
}

/// A limit that was set, and the lock on its volume.
#[derive(Debug)]
pub(super) struct Limit {
    /// The project.
    pub project: u32,
    /// What keeps every comparison from the volume until this is dropped.
    _alone: OwnedFd,
}

/// Makes what requests need, where this process can answer them, as an agent.
///
/// # Errors
/// I/O errors.
pub fn prepare(share: &Share) -> Result<(), ShareError> {
    if share.sets_limits() {
        requests::prepare(share)?;
        share.make_part(PROJECTS)?;
    }
    Ok(())
}

/// Answers the request in the file `name`, if it is one and has no answer yet.
///
/// # Errors
/// I/O errors, after which the next look finds it again.
pub fn answer(share: &Share, name: &str) -> Result<Option<Answered>, ShareError> {
    if !share.sets_limits() {
        return Ok(None);
    }
    let requests = Requests::open(share)?;
    match (requests::nonce_of(name), requests.read(name)?) {
        (Some(nonce), Some(request)) => {
            answer_as(&requests, nonce, &request, || volume_of(share, &request))
        }
        _ => Ok(None),
    }
}

/// Answers the record `found`, which has just appeared, if it is a request.
///
/// # Errors
/// I/O errors, after which whoever waits asks by a file.
pub(super) fn answer_record(
    share: &Share,
    found: Found<Volume>,
) -> Result<Option<Answered>, ShareError> {
    let (record, what) = (&found.record, &found.record.what);
    if !share.sets_limits() || !is_request(record) {
        return Ok(None);
    }
    let bytes = u64::try_from(what.capacity_bytes).unwrap_or_default();
    let limits = [bytes, what.wanted.inodes.unwrap_or_default()];
    let request = Request::new((record.key(), record.nonce), None, limits);
    answer_as(&Requests::open(share)?, request.nonce, &request, || {
        Ok(found)
    })
}

/// Whether a record is a request by itself as soon as it appears: for an empty volume that is to be held to its size.
pub(super) fn is_request(record: &Record<Volume>) -> bool {
    let wanted = &record.what.wanted;
    let is_new = record.state == State::Creating && wanted.source.is_none() && !wanted.adopt;
    is_new && matches!(record.what.size, Some(Size::Enforced { project: None }))
}

/// Does what `request` wants for the volume that `find` finds, and answers it under this `nonce`; nothing when it has its answer.
fn answer_as(
    requests: &Requests<'_>,
    nonce: Nonce,
    request: &Request,
    find: impl FnOnce() -> Result<Found<Volume>, ShareError>,
) -> Result<Option<Answered>, ShareError> {
    if requests.is_answered(nonce)? {
        return Ok(None);
    }
    let begun = Instant::now();
    let mut volume = request.volume.to_string();
    let limited = find().and_then(|found| {
        volume = found.record.what.path.to_string();
        let is_done = || requests.is_answered(nonce);
        limit_unless(requests.share(), &found, request, is_done)
    });
    let answer = match limited {
        Ok(Some(limit)) => Answer::Project(limit.project),
        // By another agent, meanwhile, or another thread.
        Ok(None) => return Ok(None),
        Err(error) if error.is_crash() => return Err(error),
        Err(ShareError::NotHeld { why }) => Answer::Refused(why),
        Err(error) => Answer::Refused(error.to_string()),
    };
    step("the request is done")?;
    requests.reply(nonce, &answer)?;
    Ok(Some(Answered {
        volume,
        answer,
        took: begun.elapsed(),
    }))
}

/// Does what no event has told of: answers requests, sweeps old ones, and compares what the file system reports with the records.
/// Returns what an administrator should know.
///
/// # Errors
/// I/O errors.
pub fn keep_up(share: &Share) -> Result<Vec<String>, ShareError> {
    if !share.sets_limits() {
        return Ok(Vec::new());
    }
    // Where there never was an agent, nobody asks.
    if let Some(requests) = Requests::if_there(share)? {
        for (name, request) in requests.all()? {
            if let Some(nonce) = requests::nonce_of(&name) {
                answer_as(&requests, nonce, &request, || volume_of(share, &request))?;
            }
        }
        requests.sweep()?;
    }
    compare(share)
}

/// Makes a volume's folder a project with the limits that `request` asks for, or gives it them.
pub(super) fn limit(share: &Share, request: &Request) -> Result<Limit, ShareError> {
    let found = volume_of(share, request)?;
    let limited = limit_unless(share, &found, request, || Ok(false))?;
    limited.ok_or(ShareError::NoVolume)
}

/// The volume that `request` is about.
fn volume_of(share: &Share, request: &Request) -> Result<Found<Volume>, ShareError> {
    store::find::<Volume>(share, request.volume)?
        .filter(|found| found.record.nonce == request.nonce && is_enforced(&found.record))
        .ok_or(ShareError::NoVolume)
}

/// The same, unless it `is_done` when it is this caller's turn.
fn limit_unless(
    share: &Share,
    found: &Found<Volume>,
    request: &Request,
    is_done: impl FnOnce() -> Result<bool, ShareError>,
) -> Result<Option<Limit>, ShareError> {
    let not_held = |why: String| ShareError::NotHeld { why };
    match &share.quotas {
        Some(Ok(_)) => {}
        Some(Err(why)) => return Err(not_held(why.to_string())),
        None => {
            return Err(not_held(
                "this agent was started without --quotas".to_owned(),
            ));
        }
    }
    let wanted = amounts::limits(request.bytes, request.inodes)
        .ok_or_else(|| not_held("the request names no size".to_owned()))?;
    let _alone = alone(found)?;
    if is_done()? {
        return Ok(None);
    }
    let folder = folder_of(share, found, request.attempt)?
        .ok_or_else(|| not_held("the volume has no folder".to_owned()))?;
    step("the request is understood")?;
    let own = |error: QuotaError| not_held(error.to_string());
    let now = project::of(&folder).map_err(own)?;
    let limits = match now {
        Some(id) => larger(wanted, project::quota(&folder, id).map_err(own)?.limits),
        None => wanted,
    };
    let id = match now {
        // Nothing of that is unfinished, and the folder may be large by now.
        Some(id) if is_on_record(&found.record, id) => {
            project::set_limits(&folder, id, limits).map(|()| id)
        }
        _ => project::assign(&ledger(share)?, &folder, &owner(&found.record), limits),
    };
    let id = id.map_err(own)?;
    step("the folder is limited")?;
    let project = id.number();
    Ok(Some(Limit { project, _alone }))
}

fn is_on_record(record: &Record<Volume>, id: ProjectId) -> bool {
    let project = Some(id.number());
    record.what.size == Some(Size::Enforced { project })
}

pub(super) fn is_enforced(record: &Record<Volume>) -> bool {
    record.state != State::Deleting && matches!(record.what.size, Some(Size::Enforced { .. }))
}

/// For whom an id is, as the ledger has it.
pub(super) fn owner(record: &Record<Volume>) -> String {
    format!("{} {}", record.nonce, record.what.path)
}

/// The folder of a volume: the one that the `attempt` copies to, the one beside its record, or the one at its path.
pub(super) fn folder_of(
    share: &Share,
    found: &Found<Volume>,
    attempt: Option<Nonce>,
) -> Result<Option<OwnedFd>, ShareError> {
    let (record, path) = (&found.record, &found.record.what.path);
    let doing = || format!("opening the folder of {path}");
    let data = data_name(attempt.or(record.copy));
    let beside = beneath::if_there(beneath::folder(&found.folder, &data)).doing(doing)?;
    if beside.is_some() || attempt.is_some() || record.needs_copy() {
        return Ok(beside);
    }
    if !claim::holds(share, record)? {
        return Ok(None);
    }
    beneath::if_there(beneath::folder(&share.root, path.to_path())).map_err(blocked(path, doing))
}

/// Waits until nobody else sets the limit of the volume with this record, until what is returned is dropped: another thread, or
/// another agent.
pub(super) fn alone(found: &Found<Volume>) -> Result<OwnedFd, ShareError> {
    let doing = || "locking a volume's record".to_owned();
    let folder = beneath::folder(&found.folder, ".").doing(doing)?;
    fs::flock(&folder, fs::FlockOperation::LockExclusive).doing(doing)?;
    Ok(folder)
}

pub(super) fn ledger(share: &Share) -> Result<Ledger, ShareError> {
    let path = format!("{RECORDS_FOLDER}/{PROJECTS}");
    let there = beneath::if_there(beneath::folder(&share.root, &path));
    match there.doing(|| format!("opening {path}"))? {
        Some(folder) => Ok(Ledger::new(folder)),
        None => share.make_part(PROJECTS).map(Ledger::new),
    }
}

pub(super) fn failed(error: QuotaError) -> ShareError {
    ShareError::NotHeld {
        why: error.to_string(),
    }
}

/// What was found of a volume that is held to its size.
struct Seen {
    key: NameKey,
    generation: u64,
}

/// Compares, and puts right.
fn compare(share: &Share) -> Result<Vec<String>, ShareError> {
    let ledger = ledger(share)?;
    let mut volumes = BTreeMap::new();
    let plan = reconcile::plan(&share.root, &ledger, || {
        holders(share, &ledger, &mut volumes).map_err(Failed)
    });
    let plan = plan.map_err(|Failed(error)| error)?;
    let mut told = Vec::new();
    for (id, actions) in plan {
        let _alone = match volumes.get(&id) {
            None => None,
            Some(seen) => match as_seen(share, seen)? {
                None => continue,
                alone => alone,
            },
        };
        reconcile::execute(&share.root, &ledger, id, &actions).map_err(failed)?;
        for action in actions {
            match action {
                Action::Tell(Trouble::Shared) => told.push(format!(
                    "several volumes are project {id}: their sizes are one together"
                )),
                Action::Tell(Trouble::Stray) => told.push(format!(
                    "project {id} has files and limits, and no volume that is known: was its folder moved by hand?"
                )),
                Action::Enter(_) | Action::Limit(_) | Action::Free => {}
            }
        }
    }
    Ok(told)
}

/// An error of a share, where one of quotas may come too.
struct Failed(ShareError);

impl From<QuotaError> for Failed {
    fn from(error: QuotaError) -> Self {
        Self(failed(error))
    }
}

/// The lock on a volume that nobody is about to change, nor has changed since it was seen.
fn as_seen(share: &Share, seen: &Seen) -> Result<Option<OwnedFd>, ShareError> {
    let Some(found) = store::find::<Volume>(share, seen.key)? else {
        return Ok(None);
    };
    let alone = alone(&found)?;
    let requests = Requests::if_there(share)?.map(|requests| requests.all());
    let requests = requests.transpose()?.unwrap_or_default();
    let is_asked_for = requests
        .iter()
        .any(|(_, request)| request.volume == seen.key);
    // In this order: a request goes after the record has changed.
    let now = store::find::<Volume>(share, seen.key)?;
    let is_same = now.is_some_and(|now| now.record.generation == seen.generation);
    Ok((is_same && !is_asked_for).then_some(alone))
}

/// The folders that have ids: those of volumes, and what is left of volumes that are gone, wherever that lies by now.
fn holders(
    share: &Share,
    ledger: &Ledger,
    volumes: &mut BTreeMap<ProjectId, Seen>,
) -> Result<Vec<(ProjectId, Holder)>, ShareError> {
    // Before the records: whoever is entered here had one.
    let entries = ledger.entries().map_err(failed)?;
    let mut alive = BTreeSet::new();
    let mut holders = Vec::new();
    for key in store::keys::<Volume>(share)? {
        let found = match store::look::<Volume>(share, key)? {
            Kept::Found(found) => found,
            Kept::Unreadable(record) => {
                alive.insert(record.nonce);
                continue;
            }
            Kept::Nothing => continue,
        };
        if !is_enforced(&found.record) {
            continue;
        }
        alive.insert(found.record.nonce);
        for (id, hold) in held(share, &found)? {
            let owner = owner(&found.record);
            holders.push((id, Holder { owner, hold }));
            let generation = found.record.generation;
            volumes.insert(id, Seen { key, generation });
        }
    }
    for (id, entry) in entries {
        let nonce = entry.owner.split(' ').next().and_then(|it| it.parse().ok());
        let is_alive = nonce.is_none_or(|nonce: Nonce| alive.contains(&nonce));
        let is_used = || Ok::<_, QuotaError>(project::quota(&share.root, id)?.used.inodes > 0);
        if !is_alive && is_used().map_err(failed)? {
            let (owner, hold) = (entry.owner, Hold::Left);
            holders.push((id, Holder { owner, hold }));
        }
    }
    Ok(holders)
}

/// The folders of one volume that have ids: its own, and those that copies are made in.
fn held(share: &Share, found: &Found<Volume>) -> Result<Vec<(ProjectId, Hold)>, ShareError> {
    let (record, mut held) = (&found.record, Vec::new());
    let bytes = u64::try_from(record.what.capacity_bytes).unwrap_or_default();
    let limits = amounts::limits(bytes, record.what.wanted.inodes.unwrap_or_default());
    let id = |folder: Option<OwnedFd>| match folder {
        Some(folder) => project::of(folder).map_err(failed),
        None => Ok(None),
    };
    if let (Some(id), Some(limits)) = (id(folder_of(share, found, None)?)?, limits) {
        let hold = match record.what.size {
            Some(Size::Enforced {
                project: Some(on_record),
            }) if on_record != id.number() => Hold::Unrecorded,
            _ => Hold::Volume(limits),
        };
        held.push((id, hold));
    }
    for name in &found.attempts {
        let attempt = name
            .strip_prefix(COPYING[0])
            .and_then(|it| it.strip_prefix('.'));
        if let Some(attempt) = attempt.and_then(|it| it.parse::<Nonce>().ok())
            && record.copy != Some(attempt)
            && let Some(id) = id(folder_of(share, found, Some(attempt))?)?
        {
            held.push((id, Hold::Unrecorded));
        }
    }
    Ok(held)
}
