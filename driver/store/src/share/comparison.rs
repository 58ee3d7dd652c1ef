//! Compares the folders of volumes, and the ledger of project ids, with the records, where the folders lie; sets what differs, and says
//! what it cannot. The records say what is to be. What it has found is written down by `compared`.
//!
//! One thing that cannot be read or set keeps nobody from the others.

use crate::quota::held::Lack;
use crate::quota::ledger::{Entry, Ledger};
use crate::quota::leftover::{self, Fate};
use crate::quota::project;
use crate::quota::project_id::ProjectId;
use crate::share::agent_memory::Compared;
use crate::share::compared;
use crate::share::database::{Share, now};
use crate::share::error::ShareError;
use crate::share::limits::{
    self, Limited, SHORT_PATIENCE, alone, answer, folder_of, is_enforced, ledger, owner,
};
use crate::share::records::record::{Record, State};
use crate::share::records::store::{self, Found, Kept};
use crate::share::records::text::COPYING;
use crate::share::records::volume::Volume;
use crate::share::requests::Requests;
use crate::share::token::Nonce;
use crate::share::volume::enable_quota;
use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::OwnedFd;

/// What has come of a comparison.
#[derive(Debug, Default)]
pub struct Comparison {
    /// Whether this process sets limits.
    pub sets_limits: bool,
    /// What an administrator should know.
    pub told: Vec<String>,
    /// What was written down, to be kept until the next one is.
    pub report: Option<OwnedFd>,
}

/// Does what no event has told of: answers requests, and compares. Nothing where this process sets no limits.
pub fn keep_up(share: &Share) -> Result<Comparison, ShareError> {
    let Some(quotas) = share.quotas() else {
        return Ok(Comparison::default());
    };
    let (_, failures) = answer(share, Vec::new(), true)?;
    if let Some(requests) = Requests::if_there(share)? {
        requests.sweep()?;
    }
    let mut done = match quotas {
        Ok(_) => compare(share)?,
        Err(why) => {
            let Volumes { seen, troubles, .. } = Volumes::look(share)?;
            let count = seen.len() + troubles.len();
            let found = Compared::unable(now(), why.to_string(), count);
            Comparison {
                report: Some(compared::write(&found, share)?),
                ..Comparison::default()
            }
        }
    };
    done.told.extend(failures.iter().map(ToString::to_string));
    Ok(done)
}

fn compare(share: &Share) -> Result<Comparison, ShareError> {
    let at = now();
    let ledger = ledger(share)?;
    // First: an id that is drawn now is in a folder that is seen, or young in the ledger.
    let (entries, odd) = ledger.entries()?;
    let mut volumes = Volumes::look(share)?;
    volumes.told.extend(odd);
    volumes.settle_ids(share, &ledger, &entries);
    let torn = volumes.settle_limits(share, &ledger);
    // Where it cannot be written, as on a full disk, volumes are mended all the same.
    let mut report = volumes.write(share, at);
    // It may take long: until it is done the volume is said not to be held.
    for (record, lack) in &torn {
        match enable_quota::mend(share, record) {
            Ok(taken) => {
                volumes.told.push(format!(
                    "{}: {lack}: put into a project of its own, with {} folders and {} files",
                    record.what.path, taken.folders, taken.files
                ));
                let now = store::find(share, record.key());
                let lack = now.and_then(|it| it.map_or(Ok(None), |it| limits::lack(share, &it)));
                volumes.troubles.remove(&record.nonce);
                volumes.note(record, lack);
            }
            Err(error) => volumes.trouble(
                record,
                format!("{lack}, and cannot be put into one of its own: {error}"),
            ),
        }
    }
    if !torn.is_empty() {
        report = volumes.write(share, at);
    }
    let Volumes {
        troubles, mut told, ..
    } = volumes;
    let troubles = troubles.values();
    told.extend(troubles.map(|(path, why)| format!("{path}: its size is not enforced: {why}")));
    Ok(Comparison {
        sets_limits: true,
        told,
        report,
    })
}

/// A volume whose limits were settled.
enum Settled {
    /// It lacks this, or nothing.
    Lacks(Option<Lack>),
    /// Somebody changes it; this is why its size was not enforced when it was last compared.
    Changes(Option<String>),
}

/// All that was seen of the volumes whose sizes are to be enforced.
#[derive(Default)]
struct Volumes {
    seen: Vec<Limited>,
    /// Whose folders, or copies, have ids, in the words of the ledger.
    owners: BTreeMap<ProjectId, String>,
    /// Ids that several have.
    shared: BTreeSet<ProjectId>,
    /// All whose sizes are to be enforced, and those that cannot be read.
    recorded: BTreeSet<Nonce>,
    /// All whose sizes were not to be enforced when they were looked at: somebody may be taking them in.
    advisory: BTreeSet<Nonce>,
    /// Whether there is a record of which not even the nonce is known.
    is_any_unknown: bool,
    /// Those whose sizes are not enforced: their paths, and why not.
    troubles: BTreeMap<Nonce, (String, String)>,
    told: Vec<String>,
}

impl Volumes {
    fn look(share: &Share) -> Result<Self, ShareError> {
        let mut all = Self::default();
        for key in store::keys::<Volume>(share)? {
            match store::look_among::<Volume>(share, key)? {
                Kept::Found(found) if is_enforced(&found.record) => {
                    all.recorded.insert(found.record.nonce);
                    if let Err(error) = all.look_at(share, &found) {
                        all.trouble(&found.record, error.to_string());
                    }
                }
                Kept::Unreadable(record) => {
                    all.is_any_unknown |= record.nonce.is_none();
                    all.recorded.extend(record.nonce);
                    all.told.push(record.error::<Volume>(key).to_string());
                }
                Kept::Found(found) if found.record.state != State::Deleting => {
                    all.advisory.insert(found.record.nonce);
                }
                Kept::Found(_) | Kept::Nothing => {}
            }
        }
        Ok(all)
    }

    /// Looks at the folders of one volume: its own, and those that copies are made in.
    fn look_at(&mut self, share: &Share, found: &Found<Volume>) -> Result<(), ShareError> {
        let seen = Limited::of(share, found)?;
        let mut ids: Vec<ProjectId> = seen.project().into_iter().collect();
        for name in &found.attempts {
            if let Some((kind, attempt)) = name.split_once('.')
                && kind == COPYING[0]
                && let Ok(attempt) = attempt.parse::<Nonce>()
                && found.record.copy != Some(attempt)
                && let Some(folder) = folder_of(share, found, Some(attempt))?
            {
                ids.extend(project::of(folder)?);
            }
        }
        for id in ids {
            if self.owners.insert(id, owner(&found.record)).is_some() {
                self.shared.insert(id);
            }
        }
        self.seen.push(seen);
        Ok(())
    }

    /// Enters ids that the ledger has lost, and settles those that the folder of no volume has.
    fn settle_ids(&mut self, share: &Share, ledger: &Ledger, entries: &BTreeMap<ProjectId, Entry>) {
        for (id, owner) in &self.owners {
            if !entries.contains_key(id)
                && !self.shared.contains(id)
                && let Err(error) = ledger.enter(*id, owner)
            {
                self.told.push(format!("project {id}: {error}"));
            }
        }
        let entries = entries.iter();
        for (id, entry) in entries.filter(|(id, _)| !self.owners.contains_key(id)) {
            let nonce = entry.owner.split(' ').next().and_then(|it| it.parse().ok());
            if nonce.is_some_and(|it| self.advisory.contains(&it)) {
                continue;
            }
            let has_record =
                self.is_any_unknown || nonce.is_none_or(|it| self.recorded.contains(&it));
            match leftover::settle(&share.root, ledger, *id, entry.age, has_record) {
                Ok(Fate::Stray) => self.told.push(format!(
                    "project {id} has files and limits, and no volume that is known: was its folder moved by hand?"
                )),
                Ok(Fate::Stays | Fate::Unlimited | Fate::Free) => {}
                Err(error) => self.told.push(format!("project {id}: {error}")),
            }
        }
    }

    /// Sets the limits of ready volumes that differ. Returns those whose folders are to be put into projects, and why.
    fn settle_limits(&mut self, share: &Share, ledger: &Ledger) -> Vec<(Record<Volume>, Lack)> {
        let mut torn = Vec::new();
        let seen = std::mem::take(&mut self.seen).into_iter();
        for seen in seen.filter(|it| it.record.state == State::Ready) {
            let lack = match self.settle(share, ledger, &seen) {
                Ok(Settled::Lacks(lack)) => Ok(lack),
                Ok(Settled::Changes(last)) => {
                    if let Some(why) = last {
                        self.trouble(&seen.record, why);
                    }
                    continue;
                }
                Err(error) => Err(error),
            };
            if let Ok(Some(lack)) = lack
                && lack.is_mended_by_a_project()
            {
                torn.push((seen.record.clone(), lack));
            }
            self.note(&seen.record, lack);
        }
        torn
    }

    /// Sets the limits of one volume, where they differ, and says what it lacks then. Of one that somebody is about to change or has
    /// changed it repeats what was said last: another comparison looks at it.
    fn settle(
        &self,
        share: &Share,
        ledger: &Ledger,
        seen: &Limited,
    ) -> Result<Settled, ShareError> {
        let lack = || seen.lack(share, ledger, &self.shared);
        let Some(found) = lack()? else {
            return Ok(Settled::Lacks(None));
        };
        let Some(_alone) = as_seen(share, &seen.record)? else {
            return Ok(Settled::Changes(compared::trouble(share, &seen.record)));
        };
        match (found, seen.project()) {
            (Lack::OtherLimits { wanted, .. }, Some(id)) => {
                project::set_limits(&share.root, id, wanted)?;
                lack().map(Settled::Lacks)
            }
            (other, _) => Ok(Settled::Lacks(Some(other))),
        }
    }

    /// Keeps in mind that the size of this volume is not enforced, where that is so or cannot be seen.
    fn note(&mut self, record: &Record<Volume>, lack: Result<Option<Lack>, ShareError>) {
        match lack {
            Ok(None) => {}
            Ok(Some(lack)) => self.trouble(record, lack.to_string()),
            Err(error) => self.trouble(record, error.to_string()),
        }
    }

    fn trouble(&mut self, record: &Record<Volume>, why: String) {
        let path = record.what.path.to_string();
        self.troubles.insert(record.nonce, (path, why));
    }

    /// Writes down what was found since the time `at`.
    fn write(&mut self, share: &Share, at: u64) -> Option<OwnedFd> {
        let troubles = self.troubles.iter();
        let troubles = troubles.map(|(nonce, (_, why))| (*nonce, why.clone()));
        let written = compared::write(&Compared::of(at, troubles.collect()), share);
        let told = &mut self.told;
        written.map_err(|error| told.push(error.to_string())).ok()
    }
}

/// The lock on a volume that nobody is about to change, nor has changed since it was seen.
fn as_seen(share: &Share, seen: &Record<Volume>) -> Result<Option<OwnedFd>, ShareError> {
    let Some(found) = store::find::<Volume>(share, seen.key())? else {
        return Ok(None);
    };
    let alone = match alone(&found, SHORT_PATIENCE) {
        Err(ShareError::NotHeldYet(_)) => return Ok(None),
        alone => alone?,
    };
    let requests = Requests::if_there(share)?.map(|requests| requests.all());
    let (requests, _) = requests.transpose()?.unwrap_or_default();
    let is_asked_for = requests.iter().any(|(_, it)| it.volume == seen.key());
    // In this order: a request goes after the record has changed.
    let now = store::find::<Volume>(share, seen.key())?;
    let is_same = now.is_some_and(|now| now.record.generation == seen.generation);
    Ok((is_same && !is_asked_for).then_some(alone))
}
