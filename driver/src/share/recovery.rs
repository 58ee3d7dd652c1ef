//! Finishing what a crash has left, at the first use of a share by a process: records that say creating or deleting, and old
//! drafts. Must be safe while other controllers work on the same share.
//!
//! An agent does a part of that all the time: it takes up copies, answers requests, and leaves everything else to controllers.

use crate::share::agents;
use crate::share::database::Share;
use crate::share::error::ShareError;
use crate::share::life::{self, Life};
use crate::share::limits::{self, Answered};
use crate::share::records::record::{Kind, Record, State};
use crate::share::records::snapshot::Snapshot;
use crate::share::records::store::{self, Kept};
use crate::share::records::volume::Volume;
use crate::share::records::{leftovers, removal};
use crate::share::token::NameKey;
use crate::share::trash;

/// What a recovery has found.
#[derive(Debug)]
pub struct Recovered {
    /// What could not be finished.
    pub failures: Vec<ShareError>,
    /// Volumes whose source was to be copied and is not, by the keys of their names: to be resumed with [`life::resume`].
    pub volumes: Vec<NameKey>,
    /// The same of snapshots.
    pub snapshots: Vec<NameKey>,
}

/// What has appeared on a share since an agent's last look.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Appeared {
    /// Records of volumes, by the keys of their names.
    pub volumes: Vec<NameKey>,
    /// The same of snapshots.
    pub snapshots: Vec<NameKey>,
    /// Whether there is something to be purged.
    pub trash: bool,
    /// Whether there are requests.
    pub requests: bool,
    /// Whether there may be more, of which nothing is known.
    pub missed: bool,
}

impl Appeared {
    /// Whether nothing of it is to be taken up by itself.
    pub fn is_empty(&self) -> bool {
        self.volumes.is_empty() && self.snapshots.is_empty() && !self.requests
    }

    /// Takes in what has appeared after it.
    pub fn join(&mut self, later: Self) {
        self.volumes.extend(later.volumes);
        self.snapshots.extend(later.snapshots);
        self.requests |= later.requests;
    }
}

/// Goes through the whole share once. `claim` is asked for each volume that needs work, and gives a guard, or nothing when
/// this process works on that volume already.
///
/// # Errors
/// When the share cannot be gone through.
pub fn recover<G>(
    share: &Share,
    claim: impl Fn(NameKey) -> Option<G>,
) -> Result<Recovered, ShareError> {
    // Needs room for a file, and so fails on a full share, where the rest matters most.
    let mut failures: Vec<ShareError> = trash::sweep_drafts(share).err().into_iter().collect();
    failures.extend(agents::sweep(share));
    Ok(Recovered {
        volumes: recover_kind::<Volume, _>(share, claim, &mut failures)?,
        snapshots: recover_kind::<Snapshot, _>(share, |_| Some(()), &mut failures)?,
        failures,
    })
}

/// Goes through the whole share once for copies alone. Drafts are swept too: a killed agent may leave one that a controller may
/// not move, where the server squashes root.
///
/// # Errors
/// As for [`recover`].
pub fn recover_copies(share: &Share) -> Result<Recovered, ShareError> {
    let mut failures: Vec<ShareError> = trash::sweep_drafts(share).err().into_iter().collect();
    failures.extend(agents::sweep(share));
    let (volumes, snapshots) = (
        store::keys::<Volume>(share)?,
        store::keys::<Snapshot>(share)?,
    );
    Ok(Recovered {
        volumes: waiting::<Volume>(share, volumes, &mut failures, |_| {})?,
        snapshots: waiting::<Snapshot>(share, snapshots, &mut failures, |_| {})?,
        failures,
    })
}

/// As an agent: answers requests, where there are new ones, and finds the copies that wait for it among what has appeared.
/// Returns these, and the requests that it has answered.
///
/// # Errors
/// When the share cannot be looked at.
pub fn take_up(
    share: &Share,
    appeared: Appeared,
) -> Result<(Recovered, Vec<Answered>), ShareError> {
    let (mut new, mut failures) = (Vec::new(), Vec::new());
    let volumes = waiting::<Volume>(share, appeared.volumes, &mut failures, |record| {
        new.extend(limits::as_request(record));
    })?;
    let (answered, odd) = limits::answer(share, new, appeared.requests)?;
    failures.extend(odd);
    let copies = Recovered {
        volumes,
        snapshots: waiting::<Snapshot>(share, appeared.snapshots, &mut failures, |_| {})?,
        failures,
    };
    Ok((copies, answered))
}

/// Those of `keys` whose source is to be copied by whoever may take the copy up. Each `other` record is shown.
///
/// # Errors
/// I/O errors of the share.
fn waiting<K: Kind>(
    share: &Share,
    keys: Vec<NameKey>,
    failures: &mut Vec<ShareError>,
    mut other: impl FnMut(&Record<K>),
) -> Result<Vec<NameKey>, ShareError> {
    let mut waiting = Vec::new();
    for key in keys {
        match store::look_among::<K>(share, key)? {
            Kept::Found(found) if found.record.needs_copy() => waiting.push(key),
            Kept::Unreadable(record) => failures.push(record.error::<K>(key)),
            Kept::Found(found) => other(&found.record),
            Kept::Nothing => {}
        }
    }
    Ok(waiting)
}

/// The same for one kind. Returns those whose source is to be copied: that may take hours, and is not waited for here.
fn recover_kind<K: Life, G>(
    share: &Share,
    claim: impl Fn(NameKey) -> Option<G>,
    failures: &mut Vec<ShareError>,
) -> Result<Vec<NameKey>, ShareError> {
    let mut copies = Vec::new();
    for key in store::keys::<K>(share)? {
        let done = match store::look_among::<K>(share, key)? {
            Kept::Nothing => leftovers::clear_leftovers::<K>(share, key),
            Kept::Unreadable(record) => Err(record.error::<K>(key)),
            Kept::Found(found) => {
                store::prune_leftovers(&found);
                match found.record.state {
                    State::Ready => removal::discard_attempts(share, &found),
                    State::Creating if found.record.needs_copy() => {
                        copies.push(key);
                        Ok(())
                    }
                    unfinished => match claim(key) {
                        None => Ok(()),
                        Some(_guard) if unfinished == State::Creating => {
                            K::finish_creation(share, &found).map(drop)
                        }
                        Some(_guard) => life::finish_deletion(share, &found).map(drop),
                    },
                }
            }
        };
        failures.extend(done.err());
    }
    Ok(copies)
}
