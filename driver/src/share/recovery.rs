//! Finishing what a crash has left, at the first use of a share by a process: records that say creating or deleting, folders
//! that wait in the trash, old drafts. Must be safe while other controllers work on the same share.

use super::beneath;
use super::copying::Progress;
use super::database::Share;
use super::deletion;
use super::error::{Doing, ShareError};
use super::lifecycle;
use super::record::{Record, State};
use super::removal;
use super::snapshot::Snapshot;
use super::snapshots;
use super::store::{self, Kept};
use super::token::NameKey;
use super::trash;

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
/// As for [`lifecycle::create`].
pub fn resume_volume(share: &Share, key: NameKey, progress: &Progress) -> Result<(), ShareError> {
    match store::find::<Record>(share, key)? {
        Some(found) if found.record.needs_copy() => {
            let record = &found.record;
            lifecycle::create(share, &record.wanted, &record.location, progress).map(drop)
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
    let mut waiting = trash::waiting(share)?;
    for key in store::keys::<Record>(share)? {
        let found = match store::look::<Record>(share, key)? {
            Kept::Found(found) => found,
            Kept::Nothing => {
                failures.extend(removal::clear_leftovers::<Record>(share, key).err());
                continue;
            }
            Kept::Unreadable(record) => {
                waiting.retain(|_, name| trash::nonce_of_waiting(name) != Some(record.nonce));
                continue;
            }
        };
        store::prune_leftovers(&found);
        let record = &found.record;
        waiting.retain(|_, name| trash::nonce_of_waiting(name) != Some(record.nonce));
        let done = match record.state {
            State::Ready => match waiting.remove(&record.inode) {
                // Moved by a late deletion of an earlier volume at that path, which died before it gave it back.
                Some(name) => give_back(share, record, &name),
                None => removal::discard_attempts(share, &found),
            },
            // That may take hours, and is not waited for here.
            State::Creating if record.needs_copy() => {
                copies.push(Unfinished::Volume(key));
                Ok(())
            }
            unfinished => match claim(key) {
                None => Ok(()),
                Some(_guard) if unfinished == State::Creating => {
                    lifecycle::finish_create(share, &found).map(drop)
                }
                Some(_guard) => deletion::finish_delete(share, &found),
            },
        };
        failures.extend(done.err());
    }
    // Moved by a late deletion that died, and of no volume: somebody else's, whose place is not known any more.
    for name in waiting.into_values() {
        if beneath::exists(&share.trash, &name).doing(|| format!("looking at {name}"))? {
            failures.push(ShareError::Astray { name });
        }
    }
    for key in store::keys::<Snapshot>(share)? {
        let done = match store::look::<Snapshot>(share, key)? {
            Kept::Nothing => removal::clear_leftovers::<Snapshot>(share, key),
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

fn give_back(share: &Share, record: &Record, waiting: &str) -> Result<(), ShareError> {
    let path = &record.wanted.sub_dir;
    let there = beneath::folder(&share.root, path.to_path());
    match there {
        Err(error) if beneath::is_gone(&error) => deletion::give_back(share, path, waiting),
        Err(error) => Err(error).doing(|| format!("looking for {path}")),
        Ok(_) => Ok(()),
    }
}
