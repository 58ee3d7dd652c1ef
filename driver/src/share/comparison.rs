//! Compares what the file system reports of projects, and the folders of volumes, with the records, where the folders lie; sets what
//! differs, and says what it cannot. The records say what is to be. What it has found is written down by `compared`.
//!
//! One thing that cannot be read or set keeps nobody from the others.

use crate::quota::error::QuotaError;
use crate::quota::held::Lack;
use crate::quota::ledger::{Entry, Ledger};
use crate::quota::project;
use crate::quota::project_id::ProjectId;
use crate::quota::reconcile::{self, Action, Hold, Holder, Trouble};
use crate::share::compared;
use crate::share::database::{Share, now};
use crate::share::error::ShareError;
use crate::share::findings::Compared;
use crate::share::limited::{self, Limited};
use crate::share::limits::{alone, answer_all, failed, folder_of, is_enforced, ledger, sweep};
use crate::share::records::store::{self, Found, Kept};
use crate::share::records::text::COPYING;
use crate::share::records::volume::Volume;
use crate::share::requests::Requests;
use crate::share::token::{NameKey, Nonce};
use crate::share::volume::enable_quota;
use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::OwnedFd;

/// What has come of a comparison.
#[derive(Debug, Default)]
pub struct Comparison {
    /// What an administrator should know.
    pub told: Vec<String>,
    /// What was written down, to be kept until the next one is.
    pub report: Option<OwnedFd>,
}

/// Does what no event has told of: answers requests, and compares. Nothing where this process sets no limits.
///
/// # Errors
/// When the share cannot be gone through.
pub fn keep_up(share: &Share) -> Result<Comparison, ShareError> {
    let Some(quotas) = share.quotas() else {
        return Ok(Comparison::default());
    };
    let (_, failures) = answer_all(share)?;
    sweep(share)?;
    let mut done = match quotas {
        Ok(_) => compare(share)?,
        Err(why) => Comparison {
            report: Some(compared::write(
                &Compared::unable(now(), why.to_string(), count(share)?),
                share,
            )?),
            ..Comparison::default()
        },
    };
    done.told.extend(failures.iter().map(ToString::to_string));
    Ok(done)
}

/// How many volumes have sizes that are to be enforced.
fn count(share: &Share) -> Result<usize, ShareError> {
    let mut count = 0;
    for key in store::keys::<Volume>(share)? {
        if let Kept::Found(found) = store::look_among::<Volume>(share, key)? {
            count += usize::from(is_enforced(&found.record));
        }
    }
    Ok(count)
}

fn lack_now(share: &Share, key: NameKey) -> Result<Option<Lack>, ShareError> {
    match store::find::<Volume>(share, key)? {
        Some(found) => limited::lack(share, &found),
        None => Ok(None),
    }
}

/// All that was seen of the volumes.
#[derive(Default)]
struct Volumes {
    seen: Vec<Limited>,
    /// Whose folder has an id, by its place in `seen`.
    by_id: BTreeMap<ProjectId, usize>,
    /// Ids that several have.
    shared: BTreeSet<ProjectId>,
    /// Those that could not be looked at, and why.
    failed: BTreeMap<Nonce, String>,
    told: Vec<String>,
}

fn compare(share: &Share) -> Result<Comparison, ShareError> {
    let at = now();
    let ledger = ledger(share)?;
    let (entries, odd) = ledger.entries().map_err(failed)?;
    let mut volumes = Volumes::default();
    volumes.told.extend(odd.iter().map(ToString::to_string));
    let plan = reconcile::plan(&share.root, entries, |entries| {
        volumes.look(share, entries).map_err(Failed)
    });
    let plan = plan.map_err(|Failed(error)| error)?;
    for (id, actions) in plan {
        if let Err(error) = volumes.carry_out(share, &ledger, id, &actions) {
            volumes.told.push(format!("project {id}: {error}"));
        }
    }
    let lacking = volumes.lacking(share, &ledger)?;
    let Volumes {
        failed, mut told, ..
    } = volumes;
    let mut troubles = failed;
    let words = |(seen, lack): &(Limited, Lack)| (seen.nonce, lack.to_string());
    troubles.extend(lacking.iter().map(words));
    // Where it cannot be written, as on a full disk, volumes are mended all the same.
    let write = |troubles: &BTreeMap<Nonce, String>, told: &mut Vec<String>| {
        let written = compared::write(&Compared::of(at, troubles.clone()), share);
        written.map_err(|error| told.push(error.to_string())).ok()
    };
    let mut report = write(&troubles, &mut told);
    // It may take long: until it is done the volume is said not to be held.
    let mut is_mended = false;
    for (seen, lack) in lacking
        .iter()
        .filter(|(_, lack)| lack.is_mended_by_a_project())
    {
        let path = &seen.path;
        match enable_quota::mend(share, (seen.key, seen.nonce)) {
            Ok(taken) => {
                told.push(format!(
                    "{path}: {lack}: put into a project of its own, with {} folders and {} files",
                    taken.folders, taken.files
                ));
                is_mended = true;
                match lack_now(share, seen.key) {
                    Ok(None) => drop(troubles.remove(&seen.nonce)),
                    Ok(Some(lack)) => drop(troubles.insert(seen.nonce, lack.to_string())),
                    Err(error) => drop(troubles.insert(seen.nonce, error.to_string())),
                }
            }
            Err(error) => {
                let why = format!("{lack}, and cannot be put into one of its own: {error}");
                is_mended |= troubles.insert(seen.nonce, why.clone()) != Some(why);
            }
        }
    }
    let paths: BTreeMap<Nonce, &String> =
        lacking.iter().map(|(it, _)| (it.nonce, &it.path)).collect();
    told.extend(troubles.iter().map(|(nonce, why)| match paths.get(nonce) {
        Some(path) => format!("{path}: its size is not enforced: {why}"),
        None => format!("the volume {nonce}: its size is not enforced: {why}"),
    }));
    if is_mended {
        report = write(&troubles, &mut told);
    }
    Ok(Comparison { told, report })
}

/// An error of a share, where one of quotas may come too.
struct Failed(ShareError);

impl From<QuotaError> for Failed {
    fn from(error: QuotaError) -> Self {
        Self(failed(error))
    }
}

impl Volumes {
    /// The folders that have ids: those of volumes, and what is left of volumes that are gone, wherever that lies by now.
    fn look(
        &mut self,
        share: &Share,
        entries: &BTreeMap<ProjectId, Entry>,
    ) -> Result<Vec<(ProjectId, Holder)>, ShareError> {
        let mut alive = BTreeSet::new();
        // Whether there is a record of which not even the nonce is known.
        let mut is_any_unknown = false;
        let mut holders = Vec::new();
        for key in store::keys::<Volume>(share)? {
            let found = match store::look_among::<Volume>(share, key)? {
                Kept::Found(found) => found,
                Kept::Unreadable(record) => {
                    is_any_unknown |= record.nonce.is_none();
                    alive.extend(record.nonce);
                    self.told.push(record.error::<Volume>(key).to_string());
                    continue;
                }
                Kept::Nothing => continue,
            };
            if !is_enforced(&found.record) {
                continue;
            }
            let nonce = found.record.nonce;
            alive.insert(nonce);
            match self.look_at(share, &found) {
                Ok(held) => holders.extend(held),
                Err(error) => drop(self.failed.insert(nonce, error.to_string())),
            }
        }
        for (id, entry) in entries {
            let nonce = entry.owner.split(' ').next().and_then(|it| it.parse().ok());
            let is_alive =
                is_any_unknown || nonce.is_none_or(|nonce: Nonce| alive.contains(&nonce));
            let is_used = || Ok::<_, QuotaError>(project::quota(&share.root, *id)?.used.inodes > 0);
            if !is_alive && is_used().map_err(failed)? {
                let (owner, hold) = (entry.owner.clone(), Hold::Left);
                holders.push((*id, Holder { owner, hold }));
            }
        }
        Ok(holders)
    }

    /// The folders of one volume that have ids: its own, and those that copies are made in.
    fn look_at(
        &mut self,
        share: &Share,
        found: &Found<Volume>,
    ) -> Result<Vec<(ProjectId, Holder)>, ShareError> {
        let (record, mut held) = (&found.record, Vec::new());
        let seen = Limited::of(share, found)?;
        let place = self.seen.len();
        if let Some(id) = seen.folder.project() {
            held.push((id, seen.folder.hold()));
        }
        for name in &found.attempts {
            let attempt = name
                .strip_prefix(COPYING[0])
                .and_then(|it| it.strip_prefix('.'));
            if let Some(attempt) = attempt.and_then(|it| it.parse::<Nonce>().ok())
                && record.copy != Some(attempt)
                && let Some(folder) = folder_of(share, found, Some(attempt))?
                && let Some(id) = project::of(folder).map_err(failed)?
            {
                held.push((id, Hold::Unrecorded));
            }
        }
        for (id, _) in &held {
            if self.by_id.insert(*id, place).is_some() {
                self.shared.insert(*id);
            }
        }
        let holder = |(id, hold)| {
            let owner = seen.owner.clone();
            (id, Holder { owner, hold })
        };
        let holders = held.into_iter().map(holder).collect();
        self.seen.push(seen);
        Ok(holders)
    }

    /// Does what was planned about an id, unless it is a volume's that somebody else is about to change or has changed.
    fn carry_out(
        &mut self,
        share: &Share,
        ledger: &Ledger,
        id: ProjectId,
        actions: &[Action],
    ) -> Result<(), ShareError> {
        let _alone = match self.by_id.get(&id) {
            None => None,
            Some(place) => match as_seen(share, &self.seen[*place])? {
                None => return Ok(()),
                alone => alone,
            },
        };
        reconcile::execute(&share.root, ledger, id, actions).map_err(failed)?;
        for action in actions {
            match action {
                Action::Tell(Trouble::Shared) => self.told.push(format!(
                    "several volumes are project {id}: their sizes are one together"
                )),
                Action::Tell(Trouble::Stray) => self.told.push(format!(
                    "project {id} has files and limits, and no volume that is known: was its folder moved by hand?"
                )),
                Action::Enter(_) | Action::Limit(_) | Action::Free => {}
            }
        }
        Ok(())
    }

    /// The volumes whose sizes are not enforced, but for those that somebody is changing.
    fn lacking(
        &mut self,
        share: &Share,
        ledger: &Ledger,
    ) -> Result<Vec<(Limited, Lack)>, ShareError> {
        let mut lacking = Vec::new();
        for seen in std::mem::take(&mut self.seen) {
            if !seen.is_ready {
                continue;
            }
            match seen.lack(share, ledger, &self.shared) {
                Ok(None) => {}
                Ok(Some(lack)) => match as_seen(share, &seen) {
                    Ok(Some(_alone)) => lacking.push((seen, lack)),
                    Ok(None) => {}
                    Err(error) => drop(self.failed.insert(seen.nonce, error.to_string())),
                },
                Err(error) => drop(self.failed.insert(seen.nonce, error.to_string())),
            }
        }
        Ok(lacking)
    }
}

/// The lock on a volume that nobody is about to change, nor has changed since it was seen.
fn as_seen(share: &Share, seen: &Limited) -> Result<Option<OwnedFd>, ShareError> {
    let Some(found) = store::find::<Volume>(share, seen.key)? else {
        return Ok(None);
    };
    let alone = alone(&found)?;
    let requests = Requests::if_there(share)?.map(|requests| requests.all());
    let (requests, _) = requests.transpose()?.unwrap_or_default();
    let is_asked_for = requests
        .iter()
        .any(|(_, request)| request.volume == seen.key);
    // In this order: a request goes after the record has changed.
    let now = store::find::<Volume>(share, seen.key)?;
    let is_same = now.is_some_and(|now| now.record.generation == seen.generation);
    Ok((is_same && !is_asked_for).then_some(alone))
}
