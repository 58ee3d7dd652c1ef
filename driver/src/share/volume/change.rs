//! What can be changed of a volume that exists: its size, and the owner, mode and policy of its folder. Blocking; must not know
//! gRPC.

use crate::beneath;
use crate::share::crash_points::step;
use crate::share::database::Share;
use crate::share::error::ShareError;
use crate::share::paths::claim;
use crate::share::paths::open::{blocked, set_attributes};
use crate::share::records::keep::Keep;
use crate::share::records::store::{self, Claimed};
use crate::share::records::volume::{Changes, OnDelete, Record, State};
use crate::share::repeat::{ATTEMPTS, pause};
use crate::share::token::{NameKey, Nonce};
use crate::share::volume::create::finish_create;

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
    Err(store::contended::<Record>(key))
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
            let path = &record.path;
            let folder = beneath::folder(&share.root, path.to_path())
                .map_err(blocked(path, || format!("opening {path}")))?;
            if !is_ours(share, record)? {
                continue;
            }
            set_attributes(&folder, changes.mode, changes.uid, changes.gid)?;
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
    Err(store::contended::<Record>(key))
}

/// Whether the folder at the record's path is its volume's now. A claim counts only with its record: a creation that came too
/// late may have left one.
fn is_ours(share: &Share, record: &Record) -> Result<bool, ShareError> {
    Ok(claim::holds(share, record)?
        && store::find::<Record>(share, record.key())?
            .is_some_and(|found| found.record.nonce == record.nonce))
}
