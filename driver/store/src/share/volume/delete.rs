//! Deletes a volume: its folder is taken away, kept or archived, its claim released, its record removed. Owns the order
//! of these steps. Blocking; must not know gRPC.
//!
//! A rename goes by a path, and may come late: hung for an hour on a dead server, or sent again by a client, while somebody
//! else has finished this deletion and a newer volume has come to the same path. A path that the driver has named is never
//! used again, so there such a rename finds nothing. From a path that a user has chosen, the folder leaves through the folder
//! `leaving` beside the record, which was made with that and is never made again: it is removed before the claim of the path
//! is released, and into a folder that is removed nothing can be renamed any more, however late. People who know no claims
//! may make a new folder there meanwhile. The record names the folder that is to leave; any other one stays, or is put back.

use crate::files::beneath;
use crate::files::crash_points::step;
use crate::share::database::Share;
use crate::share::error::{Context, ShareError};
use crate::share::life;
use crate::share::paths::claim;
use crate::share::paths::identity::FolderIdentity;
use crate::share::paths::open::{self, folder_at, make_parents, open_parent};
use crate::share::paths::sub_path::SubPath;
use crate::share::records::record::{Record, State};
use crate::share::records::store::{self, Found};
use crate::share::records::text::{LEAVING, data_name};
use crate::share::records::volume::{OnDelete, Volume, Wanted};
use crate::share::repeat::{ATTEMPTS, pause};
use crate::share::token::{NameKey, Nonce};
use crate::share::trash;
use rustix::fs::{self, AtFlags};
use rustix::io::Errno;
use std::os::fd::OwnedFd;

/// What `leaving` is when nothing comes through any more.
const LEFT: &str = "left";
/// What leaves: a folder that was at its path, and one that was not there yet.
const PLACED: &str = "placed";
const UNPLACED: &str = "unplaced";

/// Takes away what the record of a deletion is about, and releases its claim. Returns whether this call has seen the volume's
/// folder leave its path.
pub(super) fn take_away(share: &Share, found: &Found<Volume>) -> Result<bool, ShareError> {
    let taken = match found.record.what.wanted.sub_dir {
        None => take_own(share, found),
        Some(_) => take_claimed(share, found),
    }?;
    step("the folder is taken away")?;
    claim::release(share, &found.record)?;
    step("the claim is released")?;
    Ok(taken)
}

/// Takes away a folder that the driver has named.
fn take_own(share: &Share, found: &Found<Volume>) -> Result<bool, ShareError> {
    let (record, path) = (&found.record, &found.record.what.path);
    if trash::discard(
        share,
        &found.folder,
        &data_name(record.copy),
        record.promise(),
    )? {
        return Ok(false);
    }
    step("the prepared folder is not there")?;
    match record.what.on_delete() {
        OnDelete::Retain => Ok(false),
        OnDelete::Archive => archive(share, record, &share.root, path.leaf()),
        OnDelete::Delete => trash::discard(share, &share.root, path.leaf(), record.promise())
            .map_err(|error| blocked(path, error)),
    }
}

/// Takes away a folder that is where a user wanted it.
fn take_claimed(share: &Share, found: &Found<Volume>) -> Result<bool, ShareError> {
    let record = &found.record;
    let context = || format!("taking away {}", record.what.path);
    if record.what.wanted.adopt {
        return Ok(false);
    }
    if let Some(leaving) = beside(found, LEAVING)? {
        leave(share, found, &leaving)?;
        step("the folder is leaving")?;
        gone_is_fine(beneath::rename(&found.folder, LEAVING, &found.folder, LEFT))
            .context(context)?;
        step("nothing leaves any more")?;
    }
    let mut taken = false;
    for attempt in 0..ATTEMPTS {
        pause(attempt);
        let Some(left) = beside(found, LEFT)? else {
            return Ok(taken);
        };
        let placed = identity(record, &left, PLACED)?;
        if placed.is_some_and(|placed| !may_be_its(record, placed)) {
            give_back(share, record, &left)?;
        }
        taken |= match record.what.on_delete() {
            OnDelete::Archive => archive(share, record, &left, PLACED)?,
            _ => trash::discard(share, &left, PLACED, record.promise())?,
        };
        trash::discard(share, &left, UNPLACED, record.promise())?;
        step("what has left is in the trash")?;
        match fs::unlinkat(&found.folder, LEFT, AtFlags::REMOVEDIR) {
            Ok(()) => beneath::sync(&found.folder).context(context)?,
            // Moved there by another call since.
            Err(Errno::NOENT | Errno::NOTEMPTY | Errno::EXIST) => {}
            Err(error) => return Err(error).context(context),
        }
    }
    Err(store::contended::<Volume>(record.key()))
}

/// Whether a deletion of what is at a path that a user has chosen has taken something away.
pub(super) fn has_begun(found: &Found<Volume>) -> Result<bool, ShareError> {
    let Some(leaving) = beside(found, LEAVING)? else {
        return Ok(true);
    };
    let is_in =
        |name| beneath::exists(&leaving, name).context(|| format!("looking into {LEAVING}"));
    Ok(is_in(PLACED)? || is_in(UNPLACED)?)
}

/// The open folder of that name beside the record, when it is there.
fn beside(found: &Found<Volume>, name: &str) -> Result<Option<OwnedFd>, ShareError> {
    match beneath::folder_now(&found.folder, name) {
        Ok(folder) => Ok(Some(folder)),
        Err(error) if beneath::errno(&error) == Some(Errno::NOENT) => Ok(None),
        Err(error) => Err(error).context(|| format!("opening {name} beside the record")),
    }
}

/// Moves the volume's folder to `leaving`: the prepared one, so that it is not placed any more; else the one at its path.
fn leave(share: &Share, found: &Found<Volume>, leaving: &OwnedFd) -> Result<(), ShareError> {
    let (record, path) = (&found.record, &found.record.what.path);
    let context = || format!("moving {path} away");
    let is_in = |name| beneath::exists(leaving, name).context(context);
    // What comes to the path after the volume's folder has left is somebody else's.
    if is_in(PLACED)? || is_in(UNPLACED)? {
        return Ok(());
    }
    match beneath::rename(&found.folder, &data_name(record.copy), leaving, UNPLACED) {
        Ok(()) => {
            step("the prepared folder is leaving")?;
            return beneath::sync(&found.folder).context(context);
        }
        Err(Errno::NOENT) => {}
        Err(error) => return Err(error).context(context),
    }
    // Placed, or moved by another call in this moment. Asked in this order: what is in `leaving` stays in it as long as that
    // has its name.
    if is_in(UNPLACED)? || !beneath::exists(&found.folder, LEAVING).context(context)? {
        return Ok(());
    }
    if record.what.on_delete() == OnDelete::Retain || !claim::holds(share, record)? {
        return Ok(());
    }
    let Some(parent) = open_parent(share, path)? else {
        return Ok(());
    };
    match folder_at(&parent, path) {
        Ok(Some(now)) if may_be_its(record, now) => {}
        // Gone, or others have made what is there. What is no folder is theirs, too; below a mount it may be.
        Ok(_) => return Ok(()),
        Err(error) if matches!(beneath::errno(&error), Some(Errno::LOOP | Errno::NOTDIR)) => {
            return Ok(());
        }
        Err(error) => return Err(open::blocked(path, context)(error)),
    }
    match beneath::rename(&parent, path.leaf(), leaving, PLACED) {
        // Moved by another call, or removed by hand; or another call has moved it and something else has come.
        Ok(()) | Err(Errno::NOENT | Errno::NOTEMPTY | Errno::EXIST) => {}
        Err(error) => {
            return Err(error)
                .context(context)
                .map_err(|error| blocked(path, error));
        }
    }
    step("the placed folder is leaving")?;
    beneath::sync(&parent).context(context)
}

/// Which folder a deletion takes away from a path that a user has chosen, where it is to end as `on_delete` says; nothing where
/// that does not matter. Of a volume at a path that the driver has named it is only seen to that nothing else is there.
///
/// # Errors
/// [`ShareError::Damaged`] when the volume has lost the claim on its path, [`ShareError::Blocked`] when a symlink, a mount or a file
/// is in the way, and I/O errors: what is not known to be gone is not to lose its record.
pub(super) fn leaves(
    share: &Share,
    found: &Found<Volume>,
    on_delete: OnDelete,
) -> Result<Option<FolderIdentity>, ShareError> {
    let (record, wanted) = (&found.record, &found.record.what.wanted);
    let (is_ready, is_kept) = (record.state == State::Ready, on_delete == OnDelete::Retain);
    // What is being copied is at no path.
    if wanted.adopt || record.needs_copy() {
        return Ok(None);
    }
    if wanted.sub_dir.is_none() {
        if is_ready && !is_kept {
            at_path(share, &record.what.path)?;
        }
        return Ok(None);
    }
    if is_ready && !is_kept {
        // Without its claim the folder would stay, with all that is in it.
        claim::still_holds(share, found)?;
    }
    // Looked for where it is first and last: a folder goes this way.
    if !is_ready && let Some(prepared) = identity(record, &found.folder, &data_name(record.copy))? {
        return Ok(Some(prepared));
    }
    let there = at_path(share, &record.what.path);
    // An earlier deletion, which a full share has kept from the record, may have taken it, and what lies at the path now is
    // somebody else's.
    let leaving = beside(found, LEAVING)?;
    let left = beside(found, LEFT)?;
    for way in leaving.iter().chain(&left) {
        for name in [PLACED, UNPLACED] {
            if let Some(taken) = identity(record, way, name)? {
                return Ok(Some(taken));
            }
        }
    }
    match there {
        // Nothing leaves any more.
        _ if leaving.is_none() => Ok(Some(FolderIdentity::NONE)),
        Err(_) if is_kept => Ok(None),
        there => Ok(Some(there?.unwrap_or(FolderIdentity::NONE))),
    }
}

/// Which folder lies at a path, where one does.
fn at_path(share: &Share, path: &SubPath) -> Result<Option<FolderIdentity>, ShareError> {
    let Some(parent) = open_parent(share, path)? else {
        return Ok(None);
    };
    folder_at(&parent, path).map_err(open::blocked(path, || format!("looking at {path}")))
}

/// Whether `now` may be what the deletion began with; else others, who know no claims, have made it since.
fn may_be_its(record: &Record<Volume>, now: FolderIdentity) -> bool {
    record
        .what
        .leaving
        .is_none_or(|leaving| leaving.may_be(now))
}

fn identity(
    record: &Record<Volume>,
    folder: &OwnedFd,
    name: &str,
) -> Result<Option<FolderIdentity>, ShareError> {
    FolderIdentity::of(folder, name).context(|| format!("looking at {}", record.what.path))
}

/// Moves what a late rename has taken from others back to its path.
fn give_back(share: &Share, record: &Record<Volume>, left: &OwnedFd) -> Result<(), ShareError> {
    let path = &record.what.path;
    let context = || format!("giving back what others have made at {path}");
    let parent = make_parents(share, path)?;
    gone_is_fine(beneath::rename(left, PLACED, &parent, path.leaf())).context(context)?;
    step("it is given back")?;
    beneath::sync(&parent).context(context)
}

/// Moves `name` in `folder` to the archive of the volume, beside its path. Returns whether it was there.
fn archive(
    share: &Share,
    record: &Record<Volume>,
    folder: &OwnedFd,
    name: &str,
) -> Result<bool, ShareError> {
    let path = &record.what.path;
    let context = || format!("archiving {path}");
    let parent = make_parents(share, path)?;
    // Unique, and the same on each retry.
    let archived = archived_name(path, record.nonce);
    match beneath::rename(folder, name, &parent, &archived) {
        Ok(()) => {}
        Err(Errno::NOENT) => return Ok(false),
        Err(Errno::NOTEMPTY | Errno::EXIST | Errno::NOTDIR) => {
            return Err(ShareError::NotPlain {
                path: path.clone(),
                why: format!(
                    "{archived} beside it, the name of its archive, exists already, and may be that: look at both, move one of them away, and delete the volume again"
                ),
            });
        }
        Err(error) => {
            return Err(error)
                .context(context)
                .map_err(|error| blocked(path, error));
        }
    }
    step("the folder is archived")?;
    beneath::sync(&parent).context(context)?;
    Ok(true)
}

/// A mount on a volume's folder, or one within the share, is said as such; so is a folder that may not be moved.
fn blocked(path: &SubPath, error: ShareError) -> ShareError {
    let ShareError::Io { context, source } = error else {
        return error;
    };
    let path = path.clone();
    match beneath::errno(&source) {
        Some(Errno::BUSY | Errno::XDEV) => ShareError::Blocked { path, source },
        Some(Errno::PERM) => ShareError::NotPlain {
            path,
            why: format!(
                "{context}: {source}: where it, or the folder above it, is immutable (lsattr -d), end that with chattr -i; delete the volume again then"
            ),
        },
        _ => ShareError::Io { context, source },
    }
}

fn gone_is_fine(result: Result<(), Errno>) -> Result<(), Errno> {
    match result {
        Err(Errno::NOENT) => Ok(()),
        other => other,
    }
}

/// Deletes a folder that has no record, as if it were the volume `name` at `path`. What is not there (any more) is fine; whether
/// it is there, and may be deleted, says `look`. Before it is taken away it becomes a volume that is being deleted: a record
/// says so, and its folder is claimed. What is claimed by a volume, lies in one or holds one is refused by that, races
/// included, and a crash is finished as that of any other deletion.
///
/// What takes long to find out is asked of `search`, once nothing else is against it. Returns false, and has changed nothing,
/// when that has not ended.
///
/// # Errors
/// [`ShareError::Overlap`] and those of `look` and `search`, and nothing was changed then. [`ShareError::Unfinished`] wants a
/// retry.
pub fn delete_unrecorded(
    share: &Share,
    name: &str,
    path: &SubPath,
    on_delete: OnDelete,
    look: impl Fn() -> Result<bool, ShareError>,
    mut search: impl FnMut() -> Result<bool, ShareError>,
) -> Result<bool, ShareError> {
    let key = NameKey::of(name);
    for attempt in 0..ATTEMPTS {
        pause(attempt);
        let found = match store::find::<Volume>(share, key)? {
            // Begun by an earlier call.
            Some(found) => found,
            None => {
                if !look()? {
                    return Ok(true);
                }
                claim::refuse_taken(share, path)?;
                if !search()? {
                    return Ok(false);
                }
                let Some(there) = at_path(share, path)? else {
                    continue;
                };
                let nonce = Nonce::random().context(|| "drawing a nonce".to_owned())?;
                let wanted = Wanted::unrecorded(name, path, on_delete);
                let mut record = Record::new(Volume::new(wanted, nonce), nonce, State::Deleting);
                record.what.leaving = Some(there);
                match store::publish(share, record, prepare_to_leave)? {
                    Some(published) => published,
                    None => continue,
                }
            }
        };
        let record = &found.record;
        if record.what.wanted.name != name || record.what.path != *path {
            return Err(ShareError::KeyTaken(record.what.wanted.name.clone()));
        }
        match take_unrecorded(share, &found, &look) {
            Ok(true) => return Ok(true),
            Ok(false) => {}
            Err(error) if error.is_stale() => {}
            Err(error) => return Err(error),
        }
    }
    Err(store::contended::<Volume>(key))
}

/// Takes away what `found`, the record of a deletion, is about. Returns false when that may be there still.
fn take_unrecorded(
    share: &Share,
    found: &Found<Volume>,
    look: impl Fn() -> Result<bool, ShareError>,
) -> Result<bool, ShareError> {
    let record = &found.record;
    // What an earlier call has taken away needs no claim: others may have come to its path.
    let claimed = match beside(found, LEAVING)? {
        Some(_) => claim::claim(share, record),
        None => Ok(()),
    };
    // Without the claim this removes the record and nothing else.
    let taken = life::finish_deletion(share, found)?;
    claimed?;
    // Another call may have finished this deletion before the claim was made, and has released none.
    claim::release(share, record)?;
    Ok(taken
        || record.what.leaving.is_some()
        || !look()?
        || claim::refuse_taken(share, &record.what.path).is_err())
}

/// Makes the way out of a volume at a path that a user has chosen, in the draft of its record.
pub(in crate::share) fn prepare_to_leave(draft: &OwnedFd) -> Result<bool, ShareError> {
    beneath::make_folder(draft, LEAVING, 0o700)
        .context(|| "making the record's folder".to_owned())?;
    Ok(false)
}

/// `archived-<folder>-<nonce>`, cut to fit a file name.
fn archived_name(path: &SubPath, nonce: Nonce) -> String {
    let (leaf, most) = (path.leaf(), 250 - "archived--".len() - Nonce::LENGTH);
    let leaf = &leaf[..leaf.floor_char_boundary(most)];
    format!("archived-{leaf}-{nonce}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_may_not_be_moved_wants_somebody_to_act() {
        let path = SubPath::parse("team/v").unwrap();
        let of = |errno: Errno| {
            let error = Err::<(), _>(errno).context(|| "moving".to_owned());
            blocked(&path, error.unwrap_err()).unfinished()
        };
        let error = of(Errno::PERM);
        assert!(matches!(error, ShareError::NotPlain { .. }), "{error}");
        let text = error.to_string();
        assert!(
            text.starts_with("team/v is left") && text.contains("chattr -i"),
            "{text}"
        );
        assert!(matches!(of(Errno::BUSY), ShareError::Blocked { .. }));
        let (passing, lasting) = (of(Errno::IO).to_string(), of(Errno::ACCESS).to_string());
        assert!(passing.ends_with("a retry finishes it"), "{passing}");
        assert!(lasting.ends_with("once that is put right"), "{lasting}");
    }
}
