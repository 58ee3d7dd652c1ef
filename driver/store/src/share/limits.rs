//! The limits of volumes, where the folder lies, by an agent or by a controller that has the share itself: what a volume lacks, what a
//! request wants, and its answer. Owns `projects/` on the share, the ledger of project ids. When all volumes are looked at, and
//! what is set then, is the business of `comparison`.
//!
//! A folder becomes a project, and gets its limit, while it is empty. Who sets a limit locks the folder of the record: of two
//! processes the second finds what the first has done. A volume is never shrunk, so a request never lowers a limit. A comparison may
//! lower it, where nobody is asking for the volume: by a file, or by the lock, which a controller keeps until its record says what it
//! has set.

use crate::files::beneath;
use crate::files::crash_points::step;
use crate::quota::amounts::{self, Amounts};
use crate::quota::error::QuotaError;
use crate::quota::held::{self, Folder, Lack};
use crate::quota::ledger::Ledger;
use crate::quota::project::{self, Attributes};
use crate::quota::project_id::ProjectId;
use crate::share::agents;
use crate::share::database::Share;
use crate::share::error::{Context, ShareError};
use crate::share::paths::claim;
use crate::share::paths::open::blocked;
use crate::share::records::record::{Record, State};
use crate::share::records::size::Size;
use crate::share::records::store::{self, Found};
use crate::share::records::text::data_name;
use crate::share::records::volume::Volume;
use crate::share::requests::{Answer, REQUESTS, Request, Requests};
use crate::share::token::Nonce;
use rustix::fs;
use rustix::io::Errno;
use std::collections::BTreeSet;
use std::os::fd::OwnedFd;
use std::thread;
use std::time::{Duration, Instant};

const PROJECTS: &str = "projects";
/// How long to wait for an agent's answer, or for the lock of somebody who sets a volume's limit: one who is stopped does neither.
pub(super) const PATIENCE: Duration = Duration::from_secs(20);
/// The same for the lock, where others wait as well: a request that is not answered, and a volume that is not compared, come again.
pub(super) const SHORT_PATIENCE: Duration = Duration::from_secs(1);
/// Between two attempts to lock a volume's record.
const LOCK_PAUSE: Duration = Duration::from_millis(20);

/// A request that this process has answered.
#[derive(Debug)]
pub struct Answered {
    /// What a log says of it.
    pub words: String,
    /// Whether it was refused. What this process can, and says that it can, may have changed.
    pub is_refused: bool,
}

impl From<QuotaError> for ShareError {
    fn from(error: QuotaError) -> Self {
        not_held(error)
    }
}

/// Makes what requests need, where this process is to answer them, as an agent.
pub fn prepare(share: &Share) -> Result<(), ShareError> {
    if share.quotas().is_some() {
        share.make_part(REQUESTS)?;
        share.make_part(PROJECTS)?;
    }
    Ok(())
}

/// Whether this process answers requests. One that cannot do what they ask for says so, unless there is another that can.
fn answers(share: &Share) -> Result<bool, ShareError> {
    match share.quotas() {
        None => Ok(false),
        Some(Ok(_)) => Ok(true),
        Some(Err(_)) => Ok(!agents::has_another_that_can(share)?),
    }
}

/// The request that a record is by itself as soon as it appears: for an empty volume whose size is to be enforced.
pub(super) fn as_request(record: &Record<Volume>) -> Option<Request> {
    let wanted = &record.what.wanted;
    let is_new = record.state == State::Creating && wanted.source.is_none() && !wanted.adopt;
    let is_request = is_new && record.what.size == Some(Size::Enforced { project: None });
    is_request.then(|| Request::new((record.key(), record.nonce), None, promised(record)))
}

/// Does what `request` wants, and answers it under this `nonce`; nothing when it has its answer.
fn answer_as(
    requests: &Requests<'_>,
    nonce: Nonce,
    request: &Request,
) -> Result<Option<Answered>, ShareError> {
    if requests.is_answered(nonce)? {
        return Ok(None);
    }
    let begun = Instant::now();
    let mut volume = request.volume.to_string();
    let limited = volume_of(requests.share, request).and_then(|found| {
        volume = found.record.what.path.to_string();
        let alone = alone(&found, SHORT_PATIENCE)?;
        match requests.is_answered(nonce)? {
            true => Ok(None),
            false => limit_of(requests.share, &found, request, alone).map(Some),
        }
    });
    let (answer, words) = match limited {
        // The volume stays locked until its answer is there: a second agent, whose turn is next, finds that.
        Ok(Some((project, _))) => {
            let took = begun.elapsed().as_millis();
            let words = format!("{volume}: size enforced by project {project}, in {took} ms");
            (Answer::Project(project), words)
        }
        // By another agent, meanwhile, or another thread.
        Ok(None) => return Ok(None),
        // The next look, which is soon then, answers it.
        Err(error @ ShareError::NotHeldYet(_)) => return Err(error),
        Err(error) => {
            let why = match error {
                ShareError::NotHeld(why) => why,
                other => other.to_string(),
            };
            let words = format!("{volume}: size not enforced: {why}");
            (Answer::Refused(why), words)
        }
    };
    step("the request is done")?;
    requests.reply(nonce, &answer)?;
    let is_refused = matches!(answer, Answer::Refused(_));
    Ok(Some(Answered { words, is_refused }))
}

/// Answers the requests that have no answer: those of `records`, which have just appeared, and where it is `by_file` those that are
/// files. Returns these, and why others could not be read or answered.
pub(super) fn answer(
    share: &Share,
    records: Vec<Request>,
    by_file: bool,
) -> Result<(Vec<Answered>, Vec<ShareError>), ShareError> {
    let (mut answered, mut failures) = (Vec::new(), Vec::new());
    // Where there never was an agent, nobody asks.
    let Some(requests) = Requests::if_there(share)? else {
        return Ok((answered, failures));
    };
    let mut all: Vec<_> = records.into_iter().map(|it| (it.nonce, it)).collect();
    if by_file {
        let (files, unread) = requests.all()?;
        all.extend(files);
        failures.extend(unread);
    }
    if answers(share)? {
        for (nonce, request) in all {
            match answer_as(&requests, nonce, &request) {
                Ok(answer) => answered.extend(answer),
                Err(failure) => failures.push(failure),
            }
        }
    }
    Ok((answered, failures))
}

/// Makes a volume's folder a project with the limits that `request` asks for, or gives it them. Returns the project, and the lock
/// that keeps every comparison from the volume until it is dropped.
pub(super) fn limit(share: &Share, request: &Request) -> Result<(u32, OwnedFd), ShareError> {
    let found = volume_of(share, request)?;
    let alone = alone(&found, PATIENCE)?;
    limit_of(share, &found, request, alone)
}

/// The volume that `request` is about.
fn volume_of(share: &Share, request: &Request) -> Result<Found<Volume>, ShareError> {
    store::find::<Volume>(share, request.volume)?
        .filter(|found| found.record.nonce == request.nonce && is_enforced(&found.record))
        .ok_or(ShareError::NoVolume)
}

/// The same, by one who is `alone`.
fn limit_of(
    share: &Share,
    found: &Found<Volume>,
    request: &Request,
    alone: OwnedFd,
) -> Result<(u32, OwnedFd), ShareError> {
    match &share.quotas {
        Some(Ok(_)) => {}
        Some(Err(why)) => return Err(not_held(why)),
        None => return Err(not_held("this agent was started without --quotas")),
    }
    let wanted = amounts::limits(request.bytes, request.inodes);
    if wanted == Amounts::default() {
        return Err(not_held("the request names no size"));
    }
    let folder = folder_of(share, found, request.attempt)?
        .ok_or_else(|| not_held("the volume has no folder"))?;
    step("the request is understood")?;
    let now = project::of(&folder)?;
    let limits = match now {
        Some(id) => amounts::larger(wanted, project::quota(&folder, id)?.limits),
        None => wanted,
    };
    let project = now.map(|id| id.number());
    let id = match now {
        // Nothing of that is unfinished, and the folder may be large by now.
        Some(id) if found.record.what.size == Some(Size::Enforced { project }) => {
            project::set_limits(&folder, id, limits)?;
            id
        }
        _ => project::assign(&ledger(share)?, &folder, &owner(&found.record), limits)?,
    };
    step("the folder is limited")?;
    Ok((id.number(), alone))
}

pub(super) fn is_enforced(record: &Record<Volume>) -> bool {
    record.state != State::Deleting && matches!(record.what.size, Some(Size::Enforced { .. }))
}

/// The limits that the volume with this record has been promised; 0 is none.
pub(super) fn promised(record: &Record<Volume>) -> Amounts {
    let bytes = u64::try_from(record.what.capacity_bytes).unwrap_or_default();
    amounts::limits(bytes, record.what.wanted.inodes.unwrap_or_default())
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
    let context = || format!("opening the folder of {path}");
    let data = data_name(attempt.or(record.copy));
    let beside = beneath::if_there(beneath::folder(&found.folder, &data)).context(context)?;
    if beside.is_some() || attempt.is_some() || record.needs_copy() {
        return Ok(beside);
    }
    if !claim::holds(share, record)? {
        return Ok(None);
    }
    beneath::if_there(beneath::folder(&share.root, path.to_path())).map_err(blocked(path, context))
}

/// Waits until nobody else sets the limit of the volume with this record, until what is returned is dropped: another thread, or
/// another agent.
///
/// # Errors
/// [`ShareError::NotHeldYet`] where another keeps the lock for longer than `patience`, and I/O errors.
pub(super) fn alone(found: &Found<Volume>, patience: Duration) -> Result<OwnedFd, ShareError> {
    let context = || "locking a volume's record".to_owned();
    let folder = beneath::folder(&found.folder, ".").context(context)?;
    let begun = Instant::now();
    loop {
        match fs::flock(&folder, fs::FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) if begun.elapsed() < patience => thread::sleep(LOCK_PAUSE),
            Err(Errno::WOULDBLOCK) => {
                let why = format!("others have had the volume's lock for {patience:?}");
                return Err(ShareError::NotHeldYet(why));
            }
            locked => return locked.map(|()| folder).context(context),
        }
    }
}

pub(super) fn ledger(share: &Share) -> Result<Ledger, ShareError> {
    let there = share.part_if_there(PROJECTS)?;
    let folder = there.map_or_else(|| share.make_part(PROJECTS), Ok);
    folder.map(Ledger::new)
}

/// A volume whose size is to be enforced, as it was seen.
pub(super) struct Limited {
    pub record: Record<Volume>,
    /// Its folder, where there is one.
    folder: Option<Attributes>,
}

impl Limited {
    pub fn of(share: &Share, found: &Found<Volume>) -> Result<Self, ShareError> {
        let folder = folder_of(share, found, None)?;
        Ok(Self {
            record: found.record.clone(),
            folder: folder.map(project::attributes).transpose()?,
        })
    }

    /// The project of its folder.
    pub fn project(&self) -> Option<ProjectId> {
        self.folder
            .and_then(|folder| ProjectId::new(folder.project()))
    }

    /// What it lacks to have its size enforced, as the disk is now. `shared` are projects that several volumes have.
    pub fn lack(
        &self,
        share: &Share,
        ledger: &Ledger,
        shared: &BTreeSet<ProjectId>,
    ) -> Result<Option<Lack>, ShareError> {
        let id = self.project();
        let quota = id.map(|id| project::quota(&share.root, id)).transpose()?;
        let quota = quota.unwrap_or_default();
        let entry = id.map(|id| ledger.entry(id)).transpose()?.flatten();
        let is_others = entry.is_some_and(|entry| entry.owner != owner(&self.record));
        let folder = self.folder.map(|folder| Folder {
            project: folder.project(),
            is_inherited: folder.is_inherited(),
            // An id that this driver never draws is somebody else's, too.
            is_of_others: is_others || (id.is_none() && folder.project() > 0),
            is_shared: id.is_some_and(|id| shared.contains(&id)),
            limits: quota.limits,
            used: quota.used,
        });
        let on_record = match self.record.what.size {
            Some(Size::Enforced { project }) => project,
            _ => None,
        };
        Ok(held::lack(folder, on_record, promised(&self.record)))
    }
}

/// What the volume with this record, which is ready, lacks to have its size enforced.
pub(super) fn lack(share: &Share, found: &Found<Volume>) -> Result<Option<Lack>, ShareError> {
    Limited::of(share, found)?.lack(share, &ledger(share)?, &BTreeSet::new())
}

fn not_held(why: impl ToString) -> ShareError {
    ShareError::NotHeld(why.to_string())
}
