//! Creates a volume, empty, as a copy, or by adoption: the steps that only a volume needs until it is ready. Its
//! deletion is in `delete`, what is changed later in `change`. Blocking; must not know gRPC.
//!
//! The record and the folder beside it are published in one rename (`store`), then the path is claimed if a user has chosen it
//! (`claim`), then the folder is moved to it, then the record says ready. A folder that still lies beside its record is not
//! placed; one that does not was placed by us, so nobody else's folder is ever taken for ours. A copied source becomes the
//! folder beside the record before the rest goes on. An adopted folder is claimed where it is.

use crate::files::beneath;
use crate::files::crash_points::step;
use crate::share::attempt::heartbeat;
use crate::share::database::Share;
use crate::share::error::{Context, ShareError};
use crate::share::life::{self, Life};
use crate::share::paths::claim;
use crate::share::paths::open::{
    blocked, exists_at, make_parents, open_parent, refuse_share, set_attributes,
};
use crate::share::quotas;
use crate::share::records::promise::Ratio;
use crate::share::records::record::{Record, State};
use crate::share::records::removal;
use crate::share::records::size::Size;
use crate::share::records::store::{self, Claimed, Found};
use crate::share::records::text::data_name;
use crate::share::records::volume::{OnDelete, Volume, Wanted};
use crate::share::token::Nonce;
use crate::share::volume::delete;
use rustix::io::Errno;
use std::os::fd::OwnedFd;

impl Life for Volume {
    fn begin(
        share: &Share,
        wanted: &Wanted,
        nonce: Nonce,
        source_bytes: i64,
    ) -> Result<Self, ShareError> {
        let capacity_bytes = capacity(wanted, source_bytes)?;
        refuse_taken(share, wanted)?;
        Ok(Self {
            capacity_bytes,
            size: quotas::decide(share, wanted, capacity_bytes)?,
            ..Self::new(wanted.clone(), nonce)
        })
    }

    fn overcommit(wanted: &Wanted, _of_source: Option<Ratio>) -> Option<Ratio> {
        wanted.overcommit
    }

    fn prepare(draft: &OwnedFd, wanted: &Wanted) -> Result<bool, ShareError> {
        if wanted.sub_dir.is_some() && !wanted.adopt {
            delete::prepare_to_leave(draft)?;
        }
        if wanted.adopt || wanted.source.is_some() {
            return Ok(false);
        }
        let context = || "making the volume's folder".to_owned();
        let name = data_name(None);
        beneath::make_folder(draft, &name, 0o700).context(context)?;
        let folder = beneath::folder(draft, name).context(context)?;
        Self::finish_copy(&folder, wanted)?;
        beneath::sync(&folder).context(context)?;
        Ok(true)
    }

    fn begin_copy(share: &Share, record: &Record<Self>, attempt: Nonce) -> Result<(), ShareError> {
        match record.what.size {
            Some(Size::Enforced { .. }) => {
                quotas::hold(share, record, record.what.capacity_bytes, Some(attempt)).map(drop)
            }
            _ => Ok(()),
        }
    }

    fn finish_copy(folder: &OwnedFd, wanted: &Wanted) -> Result<(), ShareError> {
        set_attributes(folder, wanted.mode, wanted.uid, wanted.gid)
    }

    fn is_to_be_begun_anew(
        share: &Share,
        record: &Record<Self>,
        failure: &ShareError,
    ) -> Result<bool, ShareError> {
        match failure {
            ShareError::NotHeldYet(_) => quotas::has_lapsed(share, record),
            _ => Ok(false),
        }
    }

    fn finish_creation(
        share: &Share,
        found: &Found<Self>,
    ) -> Result<Option<Record<Self>>, ShareError> {
        let record = &found.record;
        let adopts = record.what.wanted.adopt;
        let withdraw = |refusal: ShareError| match life::withdraw(share, found)? {
            true => Err(refusal),
            false => Ok(None),
        };
        if !found.prepared && !adopts && record.what.wanted.sub_dir.is_some() {
            // It was being taken back, and a full share had no room to say so: what lies at the path is somebody else's.
            if delete::has_begun(found)? {
                return life::withdraw(share, found).map(|_| None);
            }
            if !claim::holds(share, record)? {
                return refuse_misplaced(share, found);
            }
        }
        removal::discard_attempts(share, found).map_err(ShareError::unfinished)?;
        // Before anybody can write to it.
        let held = match record.what.size {
            Some(Size::Enforced { .. }) => {
                match quotas::hold(share, record, record.what.capacity_bytes, None) {
                    // Nobody ever had it, and its size was why it was to be made.
                    Err(refusal @ ShareError::NotHeld(_)) => return withdraw(refusal),
                    // An agent that is back meanwhile limits a folder that nobody gets, and the look after this one finds it.
                    Err(failure) if Self::is_to_be_begun_anew(share, record, &failure)? => {
                        return life::withdraw(share, found).map(|_| None);
                    }
                    held => Some(held.map_err(ShareError::unfinished)?),
                }
            }
            _ => None,
        };
        let placed = claim::claim(share, record).and_then(|()| match found.prepared {
            true => place(share, found).map(|()| true),
            false => match exists_at(share, &record.what.path)? {
                false if adopts => Err(ShareError::NothingToAdopt(record.what.path.clone())),
                there => Ok(there),
            },
        });
        match placed {
            Ok(true) => {}
            // Removed by hand. Nobody has written to it yet, so a new one is as good.
            Ok(false) => return life::withdraw(share, found).map(|_| None),
            // Changed by others meanwhile, the refusal may be about a volume that is gone.
            Err(refusal) if refusal.is_about_others() => return withdraw(refusal),
            Err(other) => return Err(other.unfinished()),
        }
        let mut next = record.next();
        next.state = State::Ready;
        if let Some(held) = &held {
            next.what.size = Some(Size::Enforced {
                project: Some(held.project),
            });
        }
        match store::update(share, found, &next).map_err(ShareError::unfinished)? {
            Claimed::Won => Ok(Some(next)),
            Claimed::Lost => Ok(None),
        }
    }

    fn check_ready(share: &Share, found: &Found<Self>) -> Result<(), ShareError> {
        let what = &found.record.what;
        match exists_at(share, &what.path)? {
            true if what.wanted.adopt || claim::still_holds(share, found)? => Ok(()),
            _ => Err(ShareError::FolderGone(what.path.clone())),
        }
    }

    fn going(share: &Share, found: &Found<Self>) -> Result<Record<Self>, ShareError> {
        let mut next = found.record.deleting();
        next.what.leaving = delete::leaves(share, found, next.what.on_delete())?;
        Ok(next)
    }

    fn withdrawn(share: &Share, found: &Found<Self>) -> Result<Record<Self>, ShareError> {
        let mut next = found.record.deleting();
        if !found.record.what.wanted.adopt {
            // Should another call have placed the folder after all, it is ours and nobody has used it.
            next.what.changes.on_delete = Some(OnDelete::Delete);
        }
        next.what.leaving = delete::leaves(share, found, next.what.on_delete())?;
        Ok(next)
    }

    fn take_away(share: &Share, found: &Found<Self>) -> Result<bool, ShareError> {
        delete::take_away(share, found)
    }
}

/// The capacity of a new volume. One that is a copy is not smaller than its source.
fn capacity(wanted: &Wanted, source_bytes: i64) -> Result<i64, ShareError> {
    for allowed in [wanted.required_bytes, wanted.limit_bytes] {
        if allowed > 0 && allowed < source_bytes {
            return Err(ShareError::SmallerThanSource {
                source_bytes,
                allowed,
            });
        }
    }
    match wanted.required_bytes.max(source_bytes) {
        // The source has no size either.
        0 => Ok(wanted.limit_bytes),
        bytes => Ok(bytes),
    }
}

/// Refuses a record whose folder is said to be placed, though it has no claim to the path: it was forged or damaged, and with
/// a claim now, what lies there would be taken for its own. Nothing when it is to be looked at again.
fn refuse_misplaced(
    share: &Share,
    found: &Found<Volume>,
) -> Result<Option<Record<Volume>>, ShareError> {
    let record = &found.record;
    match store::find::<Volume>(share, record.key())? {
        Some(now) if now.record == *record && !now.prepared => Err(ShareError::Damaged {
            what: format!("the record volumes/{}/{}", record.key(), record.nonce),
            detail: format!(
                "it has no claim to {}, where its folder is to be",
                record.what.path
            ),
        }),
        // Finished, and perhaps deleted, since the look.
        _ => Ok(None),
    }
}

/// Moves the prepared folder to its path.
fn place(share: &Share, found: &Found<Volume>) -> Result<(), ShareError> {
    let path = &found.record.what.path;
    let context = || format!("moving the volume's folder to {path}");
    let parent = make_parents(share, path)?;
    step("the parents are made")?;
    let prepared = data_name(found.record.copy);
    if found.record.what.wanted.sub_dir.is_some()
        && let Some(there) = beneath::inode(&parent, path.leaf()).context(context)?
    {
        // Ours, when another call for this volume has placed it since we looked; then it does not lie beside the record any
        // more, which an NFSv3 client may be late to see.
        let ours = beneath::inode(&found.folder, &prepared).context(context)?;
        return match ours.is_none_or(|ours| ours == there) {
            true => Ok(()),
            false => Err(ShareError::Foreign(path.clone())),
        };
    }
    match beneath::rename(&found.folder, &prepared, &parent, path.leaf()) {
        Ok(()) => {}
        // Placed by another call.
        Err(Errno::NOENT) => return Ok(()),
        Err(Errno::NOTEMPTY | Errno::EXIST | Errno::NOTDIR) => {
            return Err(ShareError::Foreign(path.clone()));
        }
        Err(error) => return Err(error).context(context),
    }
    step("the volume's folder is placed")?;
    beneath::sync(&parent).context(context)?;
    beneath::sync(&found.folder).context(context)
}

/// What is wrong with the volume, for its condition; nothing when all is well.
///
/// # Errors
/// I/O errors that tell nothing about this volume.
pub fn trouble(share: &Share, found: &Found<Volume>) -> Result<Option<String>, ShareError> {
    let record = &found.record;
    Ok(match record.state {
        State::Creating if record.needs_copy() => Some(format!(
            "its source is being copied, {}",
            match &record.copying {
                Some(copying) => match heartbeat::progress(&found.folder, copying.attempt) {
                    Some((files, bytes)) => format!("{files} entries and {bytes} bytes so far"),
                    None => "and has just begun".to_owned(),
                },
                None => "or waits for that: repeat CreateVolume".to_owned(),
            }
        )),
        State::Creating => Some("its creation is not finished: repeat CreateVolume".to_owned()),
        State::Deleting => Some("its deletion is not finished: repeat DeleteVolume".to_owned()),
        State::Ready => match exists_at(share, &record.what.path) {
            Ok(true) => match claim::still_holds(share, found) {
                Ok(true) if matches!(record.what.size, Some(Size::Enforced { .. })) => {
                    full(share, record)?
                }
                Ok(true) => None,
                Ok(false) => Some(format!(
                    "its folder {} is no longer its own: delete the volume",
                    record.what.path
                )),
                Err(damaged @ ShareError::Damaged { .. }) => Some(damaged.to_string()),
                Err(other) => return Err(other),
            },
            Ok(false) => Some(format!("its folder {} is missing", record.what.path)),
            Err(blocked @ ShareError::Blocked { .. }) => Some(blocked.to_string()),
            Err(other) => return Err(other),
        },
    })
}

/// The bytes that must be left in a volume of `size` bytes for a write to succeed for certain. XFS refuses one already when there is
/// no room for all that it might need to find its blocks again.
fn room_to_write(size: u64) -> u64 {
    (size / 64).clamp(1, 64 << 10)
}

/// What is wrong with a volume whose size is enforced when nothing more fits into it.
fn full(share: &Share, record: &Record<Volume>) -> Result<Option<String>, ShareError> {
    let path = &record.what.path;
    let context = || format!("asking for the room in {path}");
    let folder = beneath::folder(&share.root, path.to_path()).map_err(blocked(path, context))?;
    let room = rustix::fs::fstatvfs(folder).context(context)?;
    let left = room.f_bavail.saturating_mul(room.f_frsize);
    let is_full = left < room_to_write(room.f_blocks.saturating_mul(room.f_frsize))
        || (room.f_files > 0 && room.f_ffree == 0);
    Ok(is_full.then(|| "it is full: remove something in it, or expand it".to_owned()))
}

/// Refuses a path that cannot be had before anything is begun. The claim decides races; this gives the better answer.
fn refuse_taken(share: &Share, wanted: &Wanted) -> Result<(), ShareError> {
    let Some(path) = &wanted.sub_dir else {
        return Ok(());
    };
    if wanted.adopt {
        if !exists_at(share, path)? {
            return Err(ShareError::NothingToAdopt(path.clone()));
        }
        claim::refuse_taken(share, path)?;
        // One that keeps this driver out shows it no records.
        return match beneath::folder_now(&share.root, path.to_path()) {
            Ok(folder) => refuse_share(share, path, &folder),
            Err(_) => Ok(()),
        };
    }
    let Some(parent) = open_parent(share, path)? else {
        return Ok(());
    };
    let look = || beneath::inode(&parent, path.leaf()).context(|| format!("looking for {path}"));
    let Some(there) = look()? else {
        return Ok(());
    };
    claim::refuse_taken(share, path)?;
    // What has left meanwhile was a volume's, whose claim goes after its folder.
    match look()? == Some(there) {
        true => Err(ShareError::Foreign(path.clone())),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_volume_gets_what_is_required_or_else_its_limit_and_no_less_than_its_source_has() {
        for (required_bytes, limit_bytes, source_bytes, expected) in [
            (10, 20, 0, Some(10)),
            (10, 0, 0, Some(10)),
            (0, 20, 0, Some(20)),
            (0, 0, 0, Some(0)),
            (0, 0, 5, Some(5)),
            (0, 20, 5, Some(5)),
            (10, 20, 5, Some(10)),
            (0, 4, 5, None),
            (4, 0, 5, None),
        ] {
            let wanted = Wanted {
                required_bytes,
                limit_bytes,
                ..Wanted::default()
            };
            assert_eq!(capacity(&wanted, source_bytes).ok(), expected, "{wanted:?}");
        }
    }

    #[test]
    fn a_volume_is_full_where_little_is_left_of_it() {
        let mib = 1 << 20;
        for (size, room) in [
            (0, 1),
            (mib, mib / 64),
            (10 * mib, 64 << 10),
            (1 << 40, 64 << 10),
        ] {
            assert_eq!(room_to_write(size), room, "{size}");
        }
    }
}
