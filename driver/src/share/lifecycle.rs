//! A volume's life on the share: created, expanded, deleted. Owns the order of the steps, so that each can be repeated and a
//! crash between any two is finished by whoever comes next. Blocking; must not know gRPC.
//!
//! Create: the record and the folder beside it are published in one rename (`store`), then the path is claimed (`claims`),
//! then the folder is moved to it, then the record says ready. A folder that still lies beside its record is not placed;
//! one that does not was placed by us, so nobody else's folder is ever taken for ours.
//! Delete: the record says deleting, the folder is moved to the trash, the claim is released, the record is removed.

use super::beneath;
use super::claims::{self, Owner};
use super::copy::Progress;
use super::crash::step;
use super::database::{FORMAT, Share, now};
use super::error::{Doing, ShareError};
use super::fill;
use super::record::{Changes, OnDelete, Record, State, Wanted};
use super::snapshots::is_final;
use super::store::{self, ATTEMPTS, Claimed, Found, PREPARED, pause};
use super::sub_path::SubPath;
use super::token::{NameKey, Nonce};
use super::trash;
use rustix::fs::{self, Gid, Mode, Uid};
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
        let Some(found) = store::find::<Record>(share, key)? else {
            let capacity_bytes = capacity(share, wanted)?;
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
            let mut record = Record {
                format: FORMAT,
                nonce: Nonce::random().doing(|| "drawing a nonce".to_owned())?,
                generation: 1,
                state: State::Creating,
                location: location.to_owned(),
                wanted: wanted.clone(),
                capacity_bytes,
                inode: 0,
                created: now(),
                copying: None,
                copied: false,
                changes: Changes::default(),
            };
            // Won or lost, the next look finds a record.
            store::publish(share, &mut record, |draft, record| {
                prepare(share, draft, record)
            })?;
            continue;
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
                if record.needs_copy() {
                    copy_source(share, &found, progress)?;
                    continue;
                }
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
fn capacity(share: &Share, wanted: &Wanted) -> Result<i64, ShareError> {
    let Some(source) = &wanted.source else {
        return Ok(wanted.capacity());
    };
    let source_bytes = source.size(share)?;
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

/// Makes ready what is published with the record: an empty volume's folder. A source is copied when the record is there.
fn prepare(share: &Share, draft: &OwnedFd, record: &mut Record) -> Result<(), ShareError> {
    let wanted = &record.wanted;
    if wanted.source.is_some() {
        return Ok(());
    }
    let doing = || "making the volume's folder".to_owned();
    let folder = if wanted.adopt {
        let path = wanted.sub_dir.to_path();
        beneath::folder(&share.root, path).map_err(blocked(&wanted.sub_dir, || {
            format!("opening {}", wanted.sub_dir)
        }))?
    } else {
        beneath::make_folder(draft, PREPARED, 0o700).doing(doing)?;
        let folder = beneath::folder(draft, PREPARED).doing(doing)?;
        dress(&folder, wanted.mode, wanted.uid, wanted.gid)?;
        beneath::sync(&folder).doing(doing)?;
        folder
    };
    record.inode = fs::fstat(&folder).doing(doing)?.st_ino;
    Ok(())
}

/// Gives a volume's folder its owner and mode, as far as they are said.
fn dress(
    folder: &OwnedFd,
    mode: Option<u32>,
    uid: Option<u32>,
    gid: Option<u32>,
) -> Result<(), ShareError> {
    let mut mode = mode;
    if uid.is_some() || gid.is_some() {
        if mode.is_none() {
            // A change of owner clears the set-id bits.
            let stat = fs::fstat(folder).doing(|| "looking at the volume's folder".to_owned())?;
            mode = Some(stat.st_mode & 0o7777);
        }
        fs::fchown(folder, uid.map(Uid::from_raw), gid.map(Gid::from_raw)).doing(|| {
            "giving the volume's folder its owner (uid, gid); an export with root_squash does not let this driver do so"
                .to_owned()
        })?;
    }
    match mode {
        Some(mode) => fs::fchmod(folder, Mode::from_raw_mode(mode))
            .doing(|| "giving the volume's folder its mode (mountPermissions)".to_owned()),
        None => Ok(()),
    }
}

/// Copies the source of `found`, a record that says creating. The record is to be looked at again.
///
/// # Errors
/// Those of copying; a volume whose source cannot be copied is withdrawn.
pub(super) fn copy_source(
    share: &Share,
    found: &Found,
    progress: &Progress,
) -> Result<(), ShareError> {
    let wanted = &found.record.wanted;
    let Some(source) = &wanted.source else {
        return Ok(());
    };
    let filled = fill::fill(share, found, source, progress, |folder| {
        dress(folder, wanted.mode, wanted.uid, wanted.gid)
    });
    match filled {
        Err(error) if is_overtaken(&error) => Ok(()),
        Err(error) if is_final(&error) => {
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
        other => other,
    }
}

/// Finishes what `found`, a record that says creating, has begun. Nothing when somebody else has changed it meanwhile.
///
/// # Errors
/// When the folder cannot be had, the volume is withdrawn and the reason returned; I/O errors leave it to a retry.
pub(super) fn finish_create(share: &Share, found: &Found) -> Result<Option<Record>, ShareError> {
    let record = &found.record;
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
    match beneath::rename(&found.folder, PREPARED, &parent, path.leaf()) {
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
    // First, so that none can become the prepared folder after that is set aside.
    store::discard_copies(share, &found.folder, record.nonce, None)
        .map_err(ShareError::unfinished)?;
    if !set_aside(found).map_err(ShareError::unfinished)? {
        match record.on_delete() {
            OnDelete::Retain => {}
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
    store::remove(share, found).map_err(ShareError::unfinished)
}

/// The prepared folder of a volume that is deleted before it was placed.
const SET_ASIDE: &str = "withdrawn";

/// Sees to it that the prepared folder is not placed any more. Returns false when it has been placed.
fn set_aside(found: &Found) -> Result<bool, ShareError> {
    let doing = || "setting the prepared folder aside".to_owned();
    match beneath::rename(&found.folder, PREPARED, &found.folder, SET_ASIDE) {
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
    if let Some(parent) = &parent
        && is_ours(share, record)?
    {
        match beneath::rename(parent, path.leaf(), &share.trash, &waiting) {
            // Nothing there: moved by an earlier call, or removed by hand.
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
        return Ok(());
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

/// Whether the record's path is its volume's now. A claim counts only with its record: a creation that came too late may
/// have left one.
fn is_ours(share: &Share, record: &Record) -> Result<bool, ShareError> {
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

/// Promises the volume at least `required` and at most `limit` bytes (0: any); it is never shrunk. Returns the record as
/// it is then.
///
/// # Errors
/// [`ShareError::NoVolume`], [`ShareError::TooLarge`], and I/O errors.
pub fn expand(
    share: &Share,
    key: NameKey,
    nonce: Nonce,
    required: i64,
    limit: i64,
) -> Result<Record, ShareError> {
    for attempt in 0..ATTEMPTS {
        pause(attempt);
        let found = match store::find::<Record>(share, key)? {
            Some(found) if found.record.nonce == nonce => found,
            _ => return Err(ShareError::NoVolume),
        };
        match found.record.state {
            State::Deleting => return Err(ShareError::NoVolume),
            State::Creating if found.record.needs_copy() => return Err(ShareError::NoVolume),
            State::Creating => {
                finish_create(share, &found)?;
                continue;
            }
            State::Ready => {}
        }
        let current = found.record.capacity_bytes;
        if limit > 0 && current > limit {
            return Err(ShareError::TooLarge { current, limit });
        }
        if current >= required {
            return Ok(found.record);
        }
        let mut next = found.record.next();
        next.capacity_bytes = required;
        if let Claimed::Won = store::update(share, &found, &next)? {
            return Ok(next);
        }
    }
    Err(contended(key))
}

/// Changes the folder's owner and mode, and what becomes of it. Returns the record as it is then.
///
/// # Errors
/// [`ShareError::NoVolume`], [`ShareError::Adopted`], and I/O errors, after which a repeat is needed.
pub fn modify(
    share: &Share,
    key: NameKey,
    nonce: Nonce,
    changes: &Changes,
) -> Result<Record, ShareError> {
    for attempt in 0..ATTEMPTS {
        pause(attempt);
        let found = match store::find::<Record>(share, key)? {
            Some(found) if found.record.nonce == nonce => found,
            _ => return Err(ShareError::NoVolume),
        };
        let record = &found.record;
        match record.state {
            State::Ready => {}
            State::Creating if !record.needs_copy() => {
                finish_create(share, &found)?;
                continue;
            }
            State::Creating | State::Deleting => return Err(ShareError::NoVolume),
        }
        let ownership = changes.mode.or(changes.uid).or(changes.gid).is_some();
        if record.wanted.adopt {
            let policy = changes
                .on_delete
                .is_some_and(|policy| policy != OnDelete::Retain);
            let what = match (ownership, policy) {
                (true, _) => "its owner or mode",
                (false, true) => "onDelete",
                (false, false) => return Ok(found.record),
            };
            return Err(ShareError::Adopted { what });
        }
        if ownership {
            let path = &record.wanted.sub_dir;
            let folder = beneath::folder(&share.root, path.to_path())
                .map_err(blocked(path, || format!("opening {path}")))?;
            if !is_ours(share, record)? {
                continue;
            }
            dress(&folder, changes.mode, changes.uid, changes.gid)?;
            step("the folder is changed")?;
        }
        let mut next = record.next();
        next.changes = record.changes.and(changes);
        if next.changes == record.changes {
            return Ok(found.record);
        }
        if let Claimed::Won = store::update(share, &found, &next)? {
            return Ok(next);
        }
    }
    Err(contended(key))
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

fn owner(record: &Record) -> Owner {
    Owner {
        key: record.key(),
        nonce: record.nonce,
    }
}

fn contended(key: NameKey) -> ShareError {
    ShareError::Contended {
        what: format!("the volume with the record volumes/{key}"),
    }
}

/// A symlink, a mount or a file where a folder should be is said as such; they are never followed or crossed.
fn blocked(path: &SubPath, doing: impl FnOnce() -> String) -> impl FnOnce(io::Error) -> ShareError {
    move |source| match beneath::errno(&source) {
        Some(Errno::LOOP | Errno::XDEV | Errno::NOTDIR) => ShareError::Blocked {
            path: path.clone(),
            source,
        },
        _ => ShareError::Io {
            doing: doing(),
            source,
        },
    }
}

fn open_parent(share: &Share, path: &SubPath) -> Result<OwnedFd, ShareError> {
    beneath::folder(&share.root, path.parent())
        .map_err(blocked(path, || format!("opening the folder above {path}")))
}

fn make_parents(share: &Share, path: &SubPath) -> Result<OwnedFd, ShareError> {
    let doing = || format!("making the folders above {path}");
    let mut at = beneath::folder(&share.root, ".").map_err(blocked(path, doing))?;
    for component in &path.components()[..path.components().len() - 1] {
        let made = beneath::make_folder(&at, component, 0o755).map_err(blocked(path, doing))?;
        let next = beneath::folder(&at, component).map_err(blocked(path, doing))?;
        if made {
            // The umask may have taken what other users need to get to the volume.
            fs::fchmod(&next, Mode::from_raw_mode(0o755)).doing(doing)?;
            beneath::sync(&at).doing(doing)?;
        }
        at = next;
    }
    Ok(at)
}

/// Whether a folder is at `path`.
fn exists_at(share: &Share, path: &SubPath) -> Result<bool, ShareError> {
    match beneath::folder(&share.root, path.to_path()) {
        Ok(_) => Ok(true),
        // A mode that keeps this driver out says that the folder is there.
        Err(error) if beneath::errno(&error) == Some(Errno::ACCESS) => Ok(true),
        Err(error) if beneath::is_gone(&error) => Ok(false),
        Err(error) => Err(blocked(path, || format!("looking for {path}"))(error)),
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
