//! Changes a volume that exists: its size, and the owner, mode and policy of its folder. Blocking; must not know
//! gRPC.

use crate::files::beneath;
use crate::files::crash_points::step;
use crate::share::database::Share;
use crate::share::error::ShareError;
use crate::share::life::Life;
use crate::share::paths::claim;
use crate::share::paths::open::{blocked, set_attributes};
use crate::share::promise_memory::Reserved;
use crate::share::promised;
use crate::share::quotas;
use crate::share::records::promise::Promise;
use crate::share::records::record::{Record, State};
use crate::share::records::size::Size;
use crate::share::records::store::{self, Claimed};
use crate::share::records::volume::{Changes, OnDelete, Volume};
use crate::share::repeat::{ATTEMPTS, pause};
use crate::share::token::{NameKey, Nonce};

/// Promises the volume at least `required` and at most `limit` bytes (0: any); it is never shrunk. Returns the record as
/// it is then.
///
/// # Errors
/// [`ShareError::NoVolume`], [`ShareError::TooLarge`], [`ShareError::CannotGrow`], [`ShareError::NotHeldYet`], and I/O errors.
pub fn expand(
    share: &Share,
    key: NameKey,
    nonce: Nonce,
    required: i64,
    limit: i64,
) -> Result<Record<Volume>, ShareError> {
    // Until it is on record.
    let (mut held, mut reserved) = (None, None);
    let expanded = change(share, key, nonce, |volume| {
        let current = volume.what.capacity_bytes;
        if limit > 0 && current > limit {
            return Err(ShareError::TooLarge { current, limit });
        }
        // Who names the limit alone wants that much, where there is no size yet.
        let required = if required == 0 && current == 0 {
            limit
        } else {
            required
        };
        let mut next = volume.what.clone();
        if required > current {
            next.capacity_bytes = required;
            reserved = Some(reserve(share, volume, required)?);
            if let Some(Size::Enforced { .. }) = next.size {
                // Another turn of `change` lets go of the volume's lock first: `hold` waits for it.
                held = None;
                // Which project has all of it, the record says already, or a comparison finds out.
                held = Some(quotas::hold(share, volume, required, None).map_err(not_grown)?);
            }
        }
        Ok(Some(next))
    });
    // A limit that was set is there, whatever the record says.
    match held {
        Some(_) => expanded.map_err(ShareError::unfinished),
        None => expanded,
    }
}

/// The volume is there, with the size that it had. FAILED_PRECONDITION would tell external-resizer to wait until no pod has it.
fn not_grown(error: ShareError) -> ShareError {
    match error {
        ShareError::NotHeld(why) => ShareError::NotHeldYet(why),
        other => other,
    }
}

/// Reserves what the volume is to be promised then.
fn reserve(share: &Share, volume: &Record<Volume>, bytes: i64) -> Result<Reserved, ShareError> {
    let promise = Promise {
        bytes,
        ..volume.promise()
    };
    let bound = volume.what.wanted.overcommit;
    let reserved = promised::reserve::<Volume>(share, volume.key(), promise, bound);
    reserved.map_err(|error| match error {
        ShareError::Overcommitted(why) => ShareError::CannotGrow(why),
        other => other,
    })
}

/// Changes the folder's owner and mode, and what becomes of it. Returns the record as it is then.
///
/// # Errors
/// [`ShareError::NoVolume`], [`ShareError::Adopted`], and I/O errors; [`ShareError::Unfinished`] when the folder has been changed.
pub fn modify(
    share: &Share,
    key: NameKey,
    nonce: Nonce,
    changes: &Changes,
) -> Result<Record<Volume>, ShareError> {
    let ownership = changes.mode.or(changes.uid).or(changes.gid).is_some();
    let mut has_begun = false;
    let modified = change(share, key, nonce, |volume| {
        let what = &volume.what;
        if what.wanted.adopt {
            let is_kept = changes.on_delete.unwrap_or(OnDelete::Retain) == OnDelete::Retain;
            return match (ownership, is_kept) {
                (true, _) => Err(ShareError::Adopted("its owner or mode")),
                (false, false) => Err(ShareError::Adopted("onDelete")),
                (false, true) => Ok(Some(what.clone())),
            };
        }
        if ownership {
            let folder = beneath::folder(&share.root, what.path.to_path())
                .map_err(blocked(&what.path, || format!("opening {}", what.path)))?;
            if !is_ours(share, volume)? {
                return Err(ShareError::NoVolume);
            }
            set_attributes(&folder, changes.mode, changes.uid, changes.gid)?;
            has_begun = true;
            step("the folder is changed")?;
        }
        Ok(Some(Volume {
            changes: what.changes.and(changes),
            ..what.clone()
        }))
    });
    match has_begun {
        true => modified.map_err(ShareError::unfinished),
        false => modified,
    }
}

/// Makes of the volume what `changed` makes of it when it is ready, or nothing when it is to be looked at again. Returns the
/// record as it is then.
pub(super) fn change(
    share: &Share,
    key: NameKey,
    nonce: Nonce,
    mut changed: impl FnMut(&Record<Volume>) -> Result<Option<Volume>, ShareError>,
) -> Result<Record<Volume>, ShareError> {
    for attempt in 0..ATTEMPTS {
        pause(attempt);
        let found = match store::find::<Volume>(share, key)? {
            Some(found) if found.record.nonce == nonce => found,
            _ => return Err(ShareError::NoVolume),
        };
        match found.record.state {
            State::Ready => {}
            State::Creating if !found.record.needs_copy() => {
                Volume::finish_creation(share, &found)?;
                continue;
            }
            State::Creating | State::Deleting => return Err(ShareError::NoVolume),
        }
        let Some(what) = changed(&found.record)? else {
            continue;
        };
        if what == found.record.what {
            return Ok(found.record);
        }
        let mut next = found.record.next();
        next.what = what;
        if let Claimed::Won = store::update(share, &found, &next)? {
            return Ok(next);
        }
    }
    Err(store::contended::<Volume>(key))
}

/// Whether the folder at the record's path is its volume's now. A claim counts only with its record: a creation that came too
/// late may have left one.
fn is_ours(share: &Share, record: &Record<Volume>) -> Result<bool, ShareError> {
    let holds = claim::holds(share, record)?;
    match store::find::<Volume>(share, record.key())? {
        Some(found) if found.record.nonce == record.nonce => {
            Ok(holds || claim::still_holds(share, &found)?)
        }
        _ => Ok(false),
    }
}
