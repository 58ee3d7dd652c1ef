//! How a volume is deleted: its folder is taken away, kept or archived, its claim released, its record removed. Owns the order
//! of these steps; see `lifecycle` for the whole. Blocking; must not know gRPC.

use super::beneath;
use super::claims;
use super::crash_points::step;
use super::database::Share;
use super::error::{Doing, ShareError};
use super::folders::{exists_at, make_parents, open_parent};
use super::lifecycle::{contended, is_full, is_overtaken, is_read_only, owner};
use super::record::{OnDelete, Record, State};
use super::removal;
use super::store::{self, ATTEMPTS, Found, data_name, pause};
use super::sub_path::SubPath;
use super::token::{NameKey, Nonce};
use super::trash;
use rustix::io::Errno;

/// Deletes the volume `nonce` of the name with `key`. One that is not there (any more) is fine.
///
/// # Errors
/// [`ShareError::Unfinished`] says that a retry is needed; others that nothing was begun.
pub fn delete(share: &Share, key: NameKey, nonce: Nonce) -> Result<(), ShareError> {
    for attempt in 0..ATTEMPTS {
        pause(attempt);
        let found = match store::find::<Record>(share, key)? {
            Some(found) if found.record.nonce == nonce => found,
            // Another nonce: a newer volume of that name, which a late retry must not hit.
            _ => return Ok(()),
        };
        if found.record.state == State::Deleting {
            match finish_delete(share, &found) {
                Err(error) if is_overtaken(&error) => continue,
                other => return other,
            }
        }
        let mut next = found.record.next();
        next.state = State::Deleting;
        match store::update(share, &found, &next) {
            // Won or lost, the next look tells.
            Ok(_) => {}
            // On a full share a deletion must still be possible: all its other steps take no room. Should it die half
            // way, the record still says ready, and the repeated call does the rest.
            Err(ShareError::Io { source, .. }) if is_full(&source) => {
                return finish_delete(share, &found.with(next)?);
            }
            // The first step of all: nothing was begun.
            Err(ShareError::Io { doing, source }) if is_read_only(&source) => {
                return Err(ShareError::Io { doing, source });
            }
            Err(other) => return Err(other.unfinished()),
        }
    }
    Err(contended(key))
}

/// Finishes a deletion that the record tells of.
///
/// # Errors
/// As for [`delete`].
pub(super) fn finish_delete(share: &Share, found: &Found) -> Result<(), ShareError> {
    let record = &found.record;
    let path = &record.wanted.sub_dir;
    step("the record says deleting")?;
    if !set_aside(found).map_err(ShareError::unfinished)? {
        match record.on_delete() {
            OnDelete::Retain => bring_back(share, record).map_err(ShareError::unfinished)?,
            OnDelete::Delete | OnDelete::Archive => {
                take_away(share, record).map_err(ShareError::unfinished)?;
            }
        }
    }
    step("the folder is taken away")?;
    claims::release(share, path, owner(record)).map_err(ShareError::unfinished)?;
    step("the claim is released")?;
    // Only now: without it, and with the claim, a repeat would take what lies at the path for ours.
    trash::discard(share, &found.folder, SET_ASIDE, record.nonce)
        .map_err(ShareError::unfinished)?;
    removal::remove(share, found).map_err(ShareError::unfinished)
}

/// The prepared folder of a volume that is deleted before it was placed.
const SET_ASIDE: &str = "withdrawn";

/// Sees to it that the prepared folder is not placed any more. Returns false when it has been placed.
fn set_aside(found: &Found) -> Result<bool, ShareError> {
    let doing = || "setting the prepared folder aside".to_owned();
    let prepared = data_name(found.record.copy);
    match beneath::rename(&found.folder, &prepared, &found.folder, SET_ASIDE) {
        Ok(()) => {
            step("the prepared folder is set aside")?;
            beneath::sync(&found.folder).doing(doing)?;
            Ok(true)
        }
        // Set aside by an earlier call, then; or placed.
        Err(Errno::NOENT) => beneath::exists(&found.folder, SET_ASIDE).doing(doing),
        Err(error) => Err(error).doing(doing),
    }
}

/// Moves the volume's folder from its path to the trash or the archive.
///
/// The move goes by the path, and may come late: hung for an hour on a dead server, while somebody else has finished this
/// deletion and a new volume has come to the same path. So the folder goes to a waiting place first. If the claim is
/// ours after that, it was ours at the move; if not, what was moved is another volume's and goes back.
pub(super) fn take_away(share: &Share, record: &Record) -> Result<(), ShareError> {
    let path = &record.wanted.sub_dir;
    let doing = || format!("moving {path} to the trash");
    let parent = match open_parent(share, path) {
        Ok(parent) => Some(parent),
        Err(ShareError::Io { source, .. }) if beneath::is_gone(&source) => None,
        Err(other) => return Err(other),
    };
    let waiting = trash::waiting_name(record.nonce);
    // What comes to the path after the volume's folder was moved is somebody else's.
    if let Some(parent) = &parent
        && !beneath::exists(&share.trash, &waiting).doing(doing)?
        && is_ours(share, record)?
    {
        // What this client knows to be there may be another's by now.
        beneath::refresh(parent).doing(doing)?;
        match beneath::rename(parent, path.leaf(), &share.trash, &waiting) {
            // Nothing there: moved by another call, or removed by hand.
            Ok(()) | Err(Errno::NOENT) => {}
            Err(error @ (Errno::BUSY | Errno::XDEV)) => {
                return Err(ShareError::Blocked {
                    path: path.clone(),
                    source: error.into(),
                });
            }
            Err(error) => return Err(error).doing(doing),
        }
        step("the folder waits in the trash")?;
        beneath::sync(parent).doing(doing)?;
    }
    if !beneath::exists(&share.trash, &waiting).doing(doing)? {
        let Some(other) = taken_by_another(share, record)? else {
            return Ok(());
        };
        gone_is_fine(beneath::rename(
            &share.trash,
            &other,
            &share.trash,
            &waiting,
        ))
        .doing(doing)?;
        step("the folder is found in the trash")?;
    }
    if !is_ours(share, record)? {
        return give_back(share, path, &waiting);
    }
    if record.on_delete() == OnDelete::Archive {
        // Unique, and the same on each retry: once it is there, nothing waits any more.
        let parent = make_parents(share, path)?;
        let archived = archived_name(path, record.nonce);
        gone_is_fine(beneath::rename(&share.trash, &waiting, &parent, &archived)).doing(doing)?;
        beneath::sync(&parent).doing(doing)
    } else {
        trash::discard(share, &share.trash, &waiting, record.nonce).map(drop)
    }
}

/// The name in the trash under which this volume's folder waits, moved there by a late deletion of an earlier volume at the
/// same path that died before it gave it back.
fn taken_by_another(share: &Share, record: &Record) -> Result<Option<String>, ShareError> {
    if !is_ours(share, record)? {
        return Ok(None);
    }
    Ok(trash::waiting(share)?.remove(&record.inode))
}

/// Brings such a folder back to its path, if it is not there.
fn bring_back(share: &Share, record: &Record) -> Result<(), ShareError> {
    let path = &record.wanted.sub_dir;
    if exists_at(share, path)? {
        return Ok(());
    }
    match taken_by_another(share, record)? {
        Some(name) => give_back(share, path, &name),
        None => Ok(()),
    }
}

/// Whether the record's path is its volume's now. A claim counts only with its record: a creation that came too late may
/// have left one.
pub(super) fn is_ours(share: &Share, record: &Record) -> Result<bool, ShareError> {
    Ok(claims::holds(share, &record.wanted.sub_dir, owner(record))?
        && store::find::<Record>(share, record.key())?
            .is_some_and(|found| found.record.nonce == record.nonce))
}

/// Puts another volume's folder back to its path.
pub(super) fn give_back(share: &Share, path: &SubPath, waiting: &str) -> Result<(), ShareError> {
    let parent = open_parent(share, path)?;
    gone_is_fine(beneath::rename(&share.trash, waiting, &parent, path.leaf()))
        .doing(|| format!("putting {path} back to its place"))?;
    beneath::sync(&parent).doing(|| format!("putting {path} back to its place"))
}

fn gone_is_fine(result: Result<(), Errno>) -> Result<(), Errno> {
    match result {
        Err(Errno::NOENT) => Ok(()),
        other => other,
    }
}

/// `archived-<folder>-<nonce>`, cut to fit a file name.
fn archived_name(path: &SubPath, nonce: Nonce) -> String {
    let mut leaf = path.leaf().to_owned();
    let mut end = leaf.len().min(250 - "archived--".len() - Nonce::LENGTH);
    while !leaf.is_char_boundary(end) {
        end -= 1;
    }
    leaf.truncate(end);
    format!("archived-{leaf}-{nonce}")
}
