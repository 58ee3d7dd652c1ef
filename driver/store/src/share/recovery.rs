//! Finishing what a crash has left, at the first use of a share by a process: records that say creating or deleting, and old
//! drafts. Must be safe while other controllers work on the same share.
//!
//! An agent does a part of that all the time: it takes up copies, answers requests, and leaves everything else to controllers.

use crate::share::agents;
use crate::share::database::Share;
use crate::share::error::ShareError;
use crate::share::life::{self, Life};
use crate::share::limits::{self, Answered};
use crate::share::records::record::{Kind, State};
use crate::share::records::snapshot::Snapshot;
use crate::share::records::store::{self, Found, Kept};
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
pub fn recover<G>(
    share: &Share,
    claim: impl Fn(NameKey) -> Option<G>,
) -> Result<Recovered, ShareError> {
    let mut failures = sweep(share);
    Ok(Recovered {
        volumes: recover_kind::<Volume, _>(share, claim, &mut failures)?,
        snapshots: recover_kind::<Snapshot, _>(share, |_| Some(()), &mut failures)?,
        failures,
    })
}

/// Goes through the whole share once for copies alone.
pub fn recover_copies(share: &Share) -> Result<Recovered, ShareError> {
    let mut failures = sweep(share);
    let (volumes, snapshots) = (
        store::keys::<Volume>(share)?,
        store::keys::<Snapshot>(share)?,
    );
    Ok(Recovered {
        volumes: go_through::<Volume>(share, volumes, &mut failures, |_, _| Ok(()))?,
        snapshots: go_through::<Snapshot>(share, snapshots, &mut failures, |_, _| Ok(()))?,
        failures,
    })
}

/// Drafts are swept by agents too: a killed one may leave one that a controller may not move, where the server squashes root.
fn sweep(share: &Share) -> Vec<ShareError> {
    // Needs room for a file, and so fails on a full share, where the rest matters most.
    let mut failures: Vec<ShareError> = trash::sweep_drafts(share).err().into_iter().collect();
    failures.extend(agents::sweep(share));
    failures
}

/// As an agent: answers requests, where there are new ones, and finds the copies that wait for it among what has appeared.
/// Returns these, and the requests that it has answered.
pub fn take_up(
    share: &Share,
    appeared: Appeared,
) -> Result<(Recovered, Vec<Answered>), ShareError> {
    // First those that nothing else tells of.
    let (mut answered, mut failures) = limits::answer(share, Vec::new(), appeared.requests)?;
    let mut new = Vec::new();
    let note = |_, found: Option<Found<Volume>>| {
        new.extend(found.and_then(|found| limits::as_request(&found.record)));
        Ok(())
    };
    let volumes = go_through(share, appeared.volumes, &mut failures, note)?;
    let (more, odd) = limits::answer(share, new, false)?;
    answered.extend(more);
    failures.extend(odd);
    let nothing = |_, _| Ok(());
    let copies = Recovered {
        volumes,
        snapshots: go_through::<Snapshot>(share, appeared.snapshots, &mut failures, nothing)?,
        failures,
    };
    Ok((copies, answered))
}

/// Recovers one kind.
fn recover_kind<K: Life, G>(
    share: &Share,
    claim: impl Fn(NameKey) -> Option<G>,
    failures: &mut Vec<ShareError>,
) -> Result<Vec<NameKey>, ShareError> {
    go_through(share, store::keys::<K>(share)?, failures, |key, found| {
        let Some(found): Option<Found<K>> = found else {
            return leftovers::clear_leftovers::<K>(share, key);
        };
        store::prune_leftovers(&found);
        match found.record.state {
            State::Ready => removal::discard_attempts(share, &found),
            unfinished => match claim(key) {
                None => Ok(()),
                Some(_guard) if unfinished == State::Creating => {
                    K::finish_creation(share, &found).map(drop)
                }
                Some(_guard) => life::finish_deletion(share, &found).map(drop),
            },
        }
    })
}

/// Does `otherwise` with what is kept under each of `keys`, but for those whose source is to be copied by whoever may take the
/// copy up: these it returns, since a copy may take hours.
fn go_through<K: Kind>(
    share: &Share,
    keys: Vec<NameKey>,
    failures: &mut Vec<ShareError>,
    mut otherwise: impl FnMut(NameKey, Option<Found<K>>) -> Result<(), ShareError>,
) -> Result<Vec<NameKey>, ShareError> {
    let mut copies = Vec::new();
    for key in keys {
        let done = match store::look_among::<K>(share, key)? {
            Kept::Found(found) if found.record.needs_copy() => {
                copies.push(key);
                Ok(())
            }
            Kept::Found(found) => otherwise(key, Some(found)),
            Kept::Nothing => otherwise(key, None),
            Kept::Unreadable(record) => Err(record.error::<K>(key)),
        };
        failures.extend(done.err());
    }
    Ok(copies)
}
