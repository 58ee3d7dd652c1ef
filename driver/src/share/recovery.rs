//! Finishing what a crash has left, at the first use of a share by a process: records that say creating or deleting, and old
//! drafts. Must be safe while other controllers work on the same share.

use crate::share::copying::Progress;
use crate::share::database::Share;
use crate::share::error::ShareError;
use crate::share::records::leftovers;
use crate::share::records::removal;
use crate::share::records::snapshot::Snapshot;
use crate::share::records::store::{self, Kept};
use crate::share::records::volume::{Record, State};
use crate::share::snapshots;
use crate::share::token::NameKey;
use crate::share::trash;
use crate::share::volume::create;
use crate::share::volume::delete;

/// What a recovery has found.
#[derive(Debug)]
pub struct Recovered {
    /// What could not be finished.
    pub failures: Vec<ShareError>,
    /// What was to be copied and is not: to be resumed with [`resume_volume`] or [`resume_snapshot`].
    pub copies: Vec<Unfinished>,
}

/// A copy that was begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unfinished {
    /// Of a volume's source, by the key of the volume's name.
    Volume(NameKey),
    /// Of a snapshot, by the key of its name.
    Snapshot(NameKey),
}

/// Goes on with the creation of a volume, if that is what its record says.
///
/// # Errors
/// As for [`create::create`].
pub fn resume_volume(share: &Share, key: NameKey, progress: &Progress) -> Result<(), ShareError> {
    match store::find::<Record>(share, key)? {
        Some(found) if found.record.needs_copy() => {
            let record = &found.record;
            create::create(share, &record.wanted, &record.location, progress).map(drop)
        }
        _ => Ok(()),
    }
}

/// Goes on with the creation of a snapshot, if that is what its record says.
///
/// # Errors
/// As for [`snapshots::create`].
pub fn resume_snapshot(share: &Share, key: NameKey, progress: &Progress) -> Result<(), ShareError> {
    match store::find::<Snapshot>(share, key)? {
        Some(found) if found.record.state == State::Creating => {
            let record = &found.record;
            let (source, location) = (&record.source, &record.location);
            snapshots::create(share, &record.name, source, location, progress).map(drop)
        }
        _ => Ok(()),
    }
}

/// Goes through the whole share once. `claim` is asked for each record that needs work, and gives a guard, or nothing when
/// this process works on that volume already.
///
/// # Errors
/// When the share cannot be gone through.
pub fn recover<G>(
    share: &Share,
    claim: impl Fn(NameKey) -> Option<G>,
) -> Result<Recovered, ShareError> {
    let mut failures = Vec::new();
    let mut copies = Vec::new();
    // Needs room for a file, and so fails on a full share, where the rest matters most.
    failures.extend(trash::sweep_drafts(share).err());
    for key in store::keys::<Record>(share)? {
        let found = match store::look::<Record>(share, key)? {
            Kept::Found(found) => found,
            Kept::Nothing => {
                failures.extend(leftovers::clear_leftovers::<Record>(share, key).err());
                continue;
            }
            Kept::Unreadable(_) => continue,
        };
        store::prune_leftovers(&found);
        let record = &found.record;
        let done = match record.state {
            State::Ready => removal::discard_attempts(share, &found),
            // That may take hours, and is not waited for here.
            State::Creating if record.needs_copy() => {
                copies.push(Unfinished::Volume(key));
                Ok(())
            }
            unfinished => match claim(key) {
                None => Ok(()),
                Some(_guard) if unfinished == State::Creating => {
                    create::finish_create(share, &found).map(drop)
                }
                Some(_guard) => delete::finish(share, &found).map(drop),
            },
        };
        failures.extend(done.err());
    }
    for key in store::keys::<Snapshot>(share)? {
        let done = match store::look::<Snapshot>(share, key)? {
            Kept::Nothing => leftovers::clear_leftovers::<Snapshot>(share, key),
            Kept::Found(found) => match found.record.state {
                State::Ready => {
                    store::prune_leftovers(&found);
                    removal::discard_attempts(share, &found)
                }
                State::Creating => {
                    copies.push(Unfinished::Snapshot(key));
                    Ok(())
                }
                State::Deleting => snapshots::finish_delete(share, &found),
            },
            Kept::Unreadable(_) => Ok(()),
        };
        failures.extend(done.err());
    }
    Ok(Recovered { failures, copies })
}
