//! How a volume comes to be, empty, as a copy, or by adoption. Owns the order of the steps, so that each can be repeated and a
//! crash between any two is finished by whoever comes next. Its deletion is in `deletion`, what is changed later in `changes`.
//! Blocking; must not know gRPC.
//!
//! Create: the record and the folder beside it are published in one rename (`store`), then the path is claimed (`claims`),
//! then the folder is moved to it, then the record says ready. A folder that still lies beside its record is not placed;
//! one that does not was placed by us, so nobody else's folder is ever taken for ours. A source is copied to become the
//! folder beside the record (`fill`) before the rest goes on. An adopted folder is claimed where it is.
//! Delete: the record says deleting, the folder is moved to the trash, the claim is released, the record is removed.

use super::beneath;
use super::changes::dress;
use super::claims::{self, Owner};
use super::copying::Progress;
use super::crash_points::step;
use super::database::{FORMAT, Share, now};
use super::deletion::finish_delete;
use super::error::{Doing, ShareError};
use super::fill::{self, Begun};
use super::folders::{blocked, exists_at, make_parents, open_parent};
use super::record::{Changes, OnDelete, Record, State, Wanted};
use super::removal;
use super::store::{self, ATTEMPTS, Claimed, Found, data_name, pause};
use super::sub_path::SubPath;
use super::token::{NameKey, Nonce};
use rustix::io::Errno;
use std::io;
use std::os::fd::OwnedFd;

/// Makes the volume that `wanted` describes, or returns the one that answers it. `location` is the share as it is to
/// stand in a new volume's id, `progress` that of copying the source, where there is one.
///
/// # Errors
/// [`ShareError::Different`], [`ShareError::Overlap`], [`ShareError::Foreign`] and the like leave nothing behind;
/// [`ShareError::Unfinished`] says that a retry is needed.
pub fn create(
    share: &Share,
    wanted: &Wanted,
    location: &str,
    progress: &Progress,
) -> Result<Record, ShareError> {
    let key = NameKey::of(&wanted.name);
    let mut refusals = 0;
    let mut gone = 0;
    for attempt in 0..ATTEMPTS {
        pause(attempt);
        let mut begun = None;
        let found = if let Some(found) = store::find::<Record>(share, key)? {
            found
        } else {
            if let Some(source) = &wanted.source {
                begun = Some(Begun::of(share, source)?);
            }
            let capacity_bytes = capacity(wanted, begun.as_ref().map(|begun| begun.size_bytes))?;
            let refused = if wanted.adopt {
                refuse_to_adopt(share, &wanted.sub_dir)
            } else {
                refuse_foreign(share, &wanted.sub_dir)
            };
            if let Err(refusal) = refused {
                // What lies there may be this very volume, made by another call since the look.
                let own = matches!(&refusal, ShareError::Overlap { volume, .. } if *volume == wanted.name);
                refusals += usize::from(!own);
                if refusals < 3 {
                    continue;
                }
                return Err(refusal);
            }
            let record = Record {
                format: FORMAT,
                nonce: Nonce::random().doing(|| "drawing a nonce".to_owned())?,
                generation: 1,
                state: State::Creating,
                location: location.to_owned(),
                wanted: wanted.clone(),
                capacity_bytes,
                inode: 0,
                created: now(),
                copying: begun.as_ref().map(|begun| begun.copying.clone()),
                copy: None,
                changes: Changes::default(),
            };
            let published =
                store::publish(share, record, |draft, record| prepare(share, draft, record))?;
            // Lost to somebody else, the next look finds a record.
            let Some(found) = published else { continue };
            found
        };
        let record = &found.record;
        if record.wanted.name != wanted.name {
            return Err(ShareError::KeyTaken {
                other: record.wanted.name.clone(),
            });
        }
        match record.state {
            State::Deleting => match finish_delete(share, &found) {
                Err(error) if !is_overtaken(&error) => return Err(error),
                _ => {}
            },
            State::Creating | State::Ready => {
                if let Some(difference) = record.difference(wanted) {
                    return Err(ShareError::Different { difference });
                }
                if record.state == State::Ready {
                    let path = &record.wanted.sub_dir;
                    if exists_at(share, path)? {
                        return Ok(found.record);
                    }
                    // On its way back from a late deletion, or of a volume that was deleted since the look.
                    gone += 1;
                    if gone < 6 {
                        continue;
                    }
                    return Err(ShareError::FolderGone { path: path.clone() });
                }
                let found = if record.needs_copy() {
                    match copy_source(share, &found, begun, progress)? {
                        Some(copied) => copied,
                        None => continue,
                    }
                } else {
                    found
                };
                match finish_create(share, &found) {
                    Ok(Some(record)) => return Ok(record),
                    Err(error) if !is_overtaken(&error) => return Err(error),
                    _ => {}
                }
            }
        }
    }
    Err(contended(key))
}

/// The volume that answers `wanted`, if it is ready.
///
/// # Errors
/// I/O errors. What is in the way of a creation is said by [`create`].
pub fn existing(share: &Share, wanted: &Wanted) -> Result<Option<Record>, ShareError> {
    let found = store::find::<Record>(share, NameKey::of(&wanted.name))?;
    let record = found.map(|found| found.record).filter(|record| {
        record.state == State::Ready
            && record.wanted.name == wanted.name
            && record.difference(wanted).is_none()
    });
    match record {
        Some(record) if exists_at(share, &record.wanted.sub_dir)? => Ok(Some(record)),
        _ => Ok(None),
    }
}

/// The capacity of a new volume. One that is a copy is not smaller than its source.
fn capacity(wanted: &Wanted, source_bytes: Option<i64>) -> Result<i64, ShareError> {
    let Some(source_bytes) = source_bytes else {
        return Ok(wanted.capacity());
    };
    for allowed in [wanted.required_bytes, wanted.limit_bytes] {
        if allowed > 0 && allowed < source_bytes {
            return Err(ShareError::SmallerThanSource {
                source_bytes,
                allowed,
            });
        }
    }
    Ok(wanted.required_bytes.max(source_bytes))
}

/// Makes ready what is published with the record: an empty volume's folder. A source is copied when the record is there. Returns
/// whether the folder lies in the draft.
fn prepare(share: &Share, draft: &OwnedFd, record: &mut Record) -> Result<bool, ShareError> {
    let wanted = &record.wanted;
    if wanted.source.is_some() {
        return Ok(false);
    }
    let doing = || "making the volume's folder".to_owned();
    let folder = if wanted.adopt {
        let path = wanted.sub_dir.to_path();
        beneath::folder(&share.root, path).map_err(blocked(&wanted.sub_dir, || {
            format!("opening {}", wanted.sub_dir)
        }))?
    } else {
        let name = data_name(None);
        beneath::make_folder(draft, &name, 0o700).doing(doing)?;
        let folder = beneath::folder(draft, name).doing(doing)?;
        dress(&folder, wanted.mode, wanted.uid, wanted.gid)?;
        beneath::sync(&folder).doing(doing)?;
        folder
    };
    record.inode = beneath::own_inode(&folder).doing(doing)?;
    Ok(!record.wanted.adopt)
}

/// Copies the source of `found`, a record that says creating; `begun` is the copy that it was published with. Returns it with
/// the copy; nothing when it is to be looked at again.
///
/// # Errors
/// Those of copying; a volume whose source cannot be copied is withdrawn, and after an error that may pass left to a retry.
pub(super) fn copy_source(
    share: &Share,
    found: &Found,
    begun: Option<Begun>,
    progress: &Progress,
) -> Result<Option<Found>, ShareError> {
    let wanted = &found.record.wanted;
    let Some(source) = &wanted.source else {
        return Ok(None);
    };
    let filled = fill::fill(share, found, source, begun, progress, |folder| {
        dress(folder, wanted.mode, wanted.uid, wanted.gid)
    });
    match filled {
        Err(error) if is_overtaken(&error) => Ok(None),
        Err(error) if error.is_final() => {
            // By now the record has other generations.
            for attempt in 0..ATTEMPTS {
                pause(attempt);
                match store::find::<Record>(share, found.record.key())? {
                    Some(now)
                        if now.record.nonce == found.record.nonce && now.record.needs_copy() =>
                    {
                        if let Claimed::Won = withdraw(share, &now)? {
                            break;
                        }
                    }
                    _ => break,
                }
            }
            Err(error)
        }
        other => other.map_err(ShareError::unfinished),
    }
}

/// Finishes what `found`, a record that says creating, has begun. Nothing when somebody else has changed it meanwhile.
///
/// # Errors
/// When the folder cannot be had, the volume is withdrawn and the reason returned; I/O errors leave it to a retry.
pub(super) fn finish_create(share: &Share, found: &Found) -> Result<Option<Record>, ShareError> {
    let record = &found.record;
    refuse_misplaced(share, found)?;
    removal::discard_attempts(share, found).map_err(ShareError::unfinished)?;
    let placed = claims::claim(share, &record.wanted.sub_dir, owner(record))
        .and_then(|()| place(share, found));
    match placed {
        Ok(()) => {}
        Err(
            refusal @ (ShareError::Overlap { .. }
            | ShareError::Foreign { .. }
            | ShareError::Blocked { .. }
            | ShareError::NothingToAdopt { .. }),
        ) => {
            // Changed by others meanwhile, the refusal may be about a volume that is gone.
            return match withdraw(share, found)? {
                Claimed::Won => Err(refusal),
                Claimed::Lost => Ok(None),
            };
        }
        // Nobody has written to it yet, so a new one is as good.
        Err(ShareError::Vanished { .. }) => return withdraw(share, found).map(|_| None),
        Err(other) => return Err(other.unfinished()),
    }
    let mut next = record.next();
    next.state = State::Ready;
    match store::update(share, found, &next).map_err(ShareError::unfinished)? {
        Claimed::Won => Ok(Some(next)),
        Claimed::Lost => Ok(None),
    }
}

/// Refuses a record whose folder is said to be placed, where another folder lies: it was forged or damaged, and with a claim
/// that folder would be taken for its own. To be asked before there is one.
fn refuse_misplaced(share: &Share, found: &Found) -> Result<(), ShareError> {
    let record = &found.record;
    let path = &record.wanted.sub_dir;
    if found.prepared || record.wanted.adopt {
        return Ok(());
    }
    let parent = match open_parent(share, path) {
        Ok(parent) => parent,
        Err(ShareError::Io { source, .. }) if beneath::is_gone(&source) => return Ok(()),
        Err(other) => return Err(other),
    };
    let inode = beneath::inode(&parent, path.leaf()).doing(|| format!("looking at {path}"))?;
    if inode.is_none_or(|inode| inode == record.inode) {
        return Ok(());
    }
    match store::find::<Record>(share, record.key())? {
        Some(now) if now.record == *record && !now.prepared => Err(ShareError::Damaged {
            what: format!("the record volumes/{}/{}", record.key(), record.nonce),
            detail: format!("{path} is not the folder that was made for it"),
        }),
        // Finished, deleted and followed by another volume since the look.
        _ => Ok(()),
    }
}

/// Moves the prepared folder to its claimed path.
fn place(share: &Share, found: &Found) -> Result<(), ShareError> {
    let path = &found.record.wanted.sub_dir;
    let doing = || format!("moving the volume's folder to {path}");
    if found.record.wanted.adopt {
        return match exists_at(share, path)? {
            true => Ok(()),
            false => Err(ShareError::NothingToAdopt { path: path.clone() }),
        };
    }
    if !found.prepared {
        return match exists_at(share, path)? {
            true => Ok(()),
            false => Err(ShareError::Vanished { path: path.clone() }),
        };
    }
    let parent = make_parents(share, path)?;
    step("the parents are made")?;
    if let Some(inode) = beneath::inode(&parent, path.leaf()).doing(doing)? {
        // Ours, when another call for this volume has placed it since we looked; then it no longer lies beside the record,
        // which an NFSv3 client may be late to see.
        if inode == found.record.inode {
            return Ok(());
        }
        return match store::find::<Record>(share, found.record.key())? {
            Some(again) if again.record.nonce == found.record.nonce && again.prepared => {
                Err(ShareError::Foreign { path: path.clone() })
            }
            _ => Ok(()),
        };
    }
    let prepared = data_name(found.record.copy);
    match beneath::rename(&found.folder, &prepared, &parent, path.leaf()) {
        Ok(()) => {}
        // Placed by another call.
        Err(Errno::NOENT) => return Ok(()),
        Err(Errno::NOTEMPTY | Errno::EXIST | Errno::NOTDIR) => {
            return Err(ShareError::Foreign { path: path.clone() });
        }
        Err(error) => return Err(error).doing(doing),
    }
    step("the volume's folder is placed")?;
    beneath::sync(&parent).doing(doing)?;
    beneath::sync(&found.folder).doing(doing)
}

/// Takes back a volume whose folder cannot be had.
fn withdraw(share: &Share, found: &Found) -> Result<Claimed, ShareError> {
    let mut next = found.record.next();
    next.state = State::Deleting;
    next.copying = None;
    if !found.record.wanted.adopt {
        // Should another call have placed the folder after all, it is ours and nobody has used it.
        next.changes.on_delete = Some(OnDelete::Delete);
    }
    match store::update(share, found, &next) {
        Ok(Claimed::Lost) => return Ok(Claimed::Lost),
        Ok(Claimed::Won) => {}
        // All the other steps take no room.
        Err(ShareError::Io { source, .. }) if is_full(&source) => {}
        Err(error) => return Err(error.unfinished()),
    }
    finish_delete(share, &found.with(next)?)?;
    Ok(Claimed::Won)
}

/// Whether somebody else has finished, and removed, what was worked on: NFS says ESTALE of an open folder that is gone.
pub(super) fn is_overtaken(error: &ShareError) -> bool {
    match error {
        ShareError::Io { source, .. } => beneath::errno(source) == Some(Errno::STALE),
        ShareError::Unfinished { source } => is_overtaken(source),
        _ => false,
    }
}

/// Whether there is no room on the share.
pub(crate) fn is_full(error: &io::Error) -> bool {
    matches!(beneath::errno(error), Some(Errno::NOSPC | Errno::DQUOT))
}

/// Whether nothing at all can be changed on the share.
pub(super) fn is_read_only(error: &io::Error) -> bool {
    beneath::errno(error) == Some(Errno::ROFS)
}

/// What is wrong with the volume, for its condition; nothing when all is well.
///
/// # Errors
/// I/O errors that tell nothing about this volume.
pub fn trouble(share: &Share, record: &Record) -> Result<Option<String>, ShareError> {
    Ok(match record.state {
        State::Creating if record.needs_copy() => Some(format!(
            "its source is being copied, {}",
            match &record.copying {
                Some(copying) => format!(
                    "{} entries and {} bytes so far",
                    copying.files, copying.bytes
                ),
                None => "or waits for that: repeat CreateVolume".to_owned(),
            }
        )),
        State::Creating => Some("its creation is not finished: repeat CreateVolume".to_owned()),
        State::Deleting => Some("its deletion is not finished: repeat DeleteVolume".to_owned()),
        State::Ready => match exists_at(share, &record.wanted.sub_dir) {
            Ok(true) => None,
            Ok(false) => Some(format!("its folder {} is missing", record.wanted.sub_dir)),
            Err(blocked @ ShareError::Blocked { .. }) => Some(blocked.to_string()),
            Err(other) => return Err(other),
        },
    })
}

pub(super) fn owner(record: &Record) -> Owner {
    Owner {
        key: record.key(),
        nonce: record.nonce,
    }
}

pub(super) fn contended(key: NameKey) -> ShareError {
    ShareError::Contended {
        what: format!("the volume with the record volumes/{key}"),
    }
}

/// Refuses a folder that cannot be adopted before anything is begun. The claim decides races.
fn refuse_to_adopt(share: &Share, path: &SubPath) -> Result<(), ShareError> {
    if !exists_at(share, path)? {
        return Err(ShareError::NothingToAdopt { path: path.clone() });
    }
    claims::taken(share, path)?.map_or(Ok(()), Err)
}

/// Refuses a folder that is, lies in, or holds a volume's: it cannot be a share of its own, where nobody would know of that
/// volume.
///
/// # Errors
/// [`ShareError::Overlap`], and I/O errors.
pub fn refuse_claimed(share: &Share, path: &SubPath) -> Result<(), ShareError> {
    claims::taken(share, path)?.map_or(Ok(()), Err)
}

/// Refuses a path that is taken before anything is begun. The claim decides races; this gives the better answer.
fn refuse_foreign(share: &Share, path: &SubPath) -> Result<(), ShareError> {
    let parent = match open_parent(share, path) {
        Ok(parent) => parent,
        Err(ShareError::Io { source, .. }) if beneath::is_gone(&source) => return Ok(()),
        Err(other) => return Err(other),
    };
    if !beneath::exists(&parent, path.leaf()).doing(|| format!("looking for {path}"))? {
        return Ok(());
    }
    Err(match claims::taken(share, path)? {
        Some(overlap) => overlap,
        None => ShareError::Foreign { path: path.clone() },
    })
}
