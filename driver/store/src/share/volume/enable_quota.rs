//! Takes a volume that exists into a project of its own, on the server: from then on its size is enforced. Decides whether that can
//! be, and puts it on record last. Must not choose volumes: an administrator does.
//!
//! After an end at any moment a repeat finishes it: the ledger knows whose the project of a half tagged folder is. What is tagged
//! may be limited before the record says that all of it is.

use crate::files::crash_points::step;
use crate::quota::amounts::{Amounts, is_beyond, larger};
use crate::quota::enable_quota::{self, Found};
use crate::quota::error::QuotaError;
use crate::quota::project;
use crate::share::database::Share;
use crate::share::error::ShareError;
use crate::share::limits;
use crate::share::records::record::{Record, State};
use crate::share::records::size::{Quota, Size};
use crate::share::records::store;
use crate::share::records::volume::Volume;
use crate::share::token::NameKey;
use crate::share::volume::change::change;
use std::os::fd::OwnedFd;
use thiserror::Error;

/// Why a volume is not taken in.
#[derive(Debug, Error)]
pub enum EnableQuotaError {
    /// Its size is enforced already.
    #[error("its size is enforced already")]
    Enforced,
    /// It cannot be, or not now.
    #[error("{0}")]
    Refused(String),
    /// Its folder cannot be a project.
    #[error(transparent)]
    Quota(#[from] QuotaError),
    /// The share refuses.
    #[error(transparent)]
    Share(#[from] ShareError),
}

/// Takes in the volume of this key, or says what that would do where it `is_dry`. Returns what is in its folder.
///
/// # Errors
/// [`EnableQuotaError`]. A repeat finishes what was begun.
pub fn enable_quota(share: &Share, key: NameKey, is_dry: bool) -> Result<Found, EnableQuotaError> {
    match &share.quotas {
        Some(Ok(_)) => {}
        Some(Err(why)) => return Err(EnableQuotaError::Refused(why.to_string())),
        None => return Err(refused("no quotas were asked for")),
    }
    let found = store::find::<Volume>(share, key)?.ok_or(ShareError::NoVolume)?;
    let is_mended = match judge(&found.record) {
        // The record says so; the folder may be one that was restored since.
        Err(EnableQuotaError::Enforced) => match limits::lack(share, &found)? {
            Some(lack) if lack.is_mended_by_a_project() => true,
            _ => return Err(EnableQuotaError::Enforced),
        },
        judged => judged.map(|()| false)?,
    };
    let folder = limits::folder_of(share, &found, None)?.ok_or(ShareError::NoVolume)?;
    // In use it may grow while it is looked at; then it is full, as it would be a moment later.
    let former = limits::ledger(share)?.all_of(&limits::owner(&found.record))?;
    let seen = enable_quota::look(&folder, project::of(&folder)?, &former)?;
    let limits = limits::promised(&found.record);
    if is_beyond(seen.used, limits) {
        let used = seen.used;
        return Err(QuotaError::Beyond { used, limits }.into());
    }
    match (is_dry, is_mended) {
        (true, _) => Ok(seen),
        (false, true) => mend(share, &found.record),
        (false, false) => put_into_a_project(share, &found, &folder),
    }
}

fn refused(why: &str) -> EnableQuotaError {
    EnableQuotaError::Refused(why.to_owned())
}

/// Puts the volume with this record, whose size is to be enforced and whose folder was found not to be, into a project again.
/// Returns what is in its folder, which may be more than its size.
///
/// # Errors
/// As for [`enable_quota`]; also where not all can be put into it now.
pub(in crate::share) fn mend(
    share: &Share,
    record: &Record<Volume>,
) -> Result<Found, EnableQuotaError> {
    let (key, nonce) = (record.key(), record.nonce);
    let found = store::find::<Volume>(share, key)?.ok_or(ShareError::NoVolume)?;
    let folder = limits::folder_of(share, &found, None)?.ok_or(ShareError::NoVolume)?;
    // Whoever ends on the way leaves a record from which the next comparison sees that.
    change(share, key, nonce, |volume| {
        Ok(Some(Volume {
            size: Some(Size::Enforced { project: None }),
            ..volume.what.clone()
        }))
    })?;
    put_into_a_project(share, &found, &folder)
}

fn put_into_a_project(
    share: &Share,
    found: &store::Found<Volume>,
    folder: &OwnedFd,
) -> Result<Found, EnableQuotaError> {
    let _alone = limits::alone(found, limits::PATIENCE)?;
    let ledger = limits::ledger(share)?;
    let record = &found.record;
    let id = project::begin(&ledger, folder, &limits::owner(record))?;
    step("the folder of a volume is a project").map_err(ShareError::from)?;
    let former = ledger.all_of(&limits::owner(record))?;
    // Never lower than it is: an expansion may have been granted that is not on record yet. A comparison lowers what is too much.
    let limit = |volume: &Record<Volume>| {
        let granted = project::quota(folder, id)?.limits;
        project::set_limits(folder, id, larger(limits::promised(volume), granted))
    };
    let was_enforced = matches!(record.what.size, Some(Size::Enforced { .. }));
    let taken = match enable_quota::enable_quota(folder, id, &former) {
        Err(error) if was_enforced => {
            limit(record)?;
            return Err(error.into());
        }
        taken => taken?,
    };
    step("all of a volume is in its project").map_err(ShareError::from)?;
    if was_enforced && taken.busy > 0 {
        limit(record)?;
        let why = format!("{} files are held by NFS clients now", taken.busy);
        return Err(EnableQuotaError::Refused(why));
    }
    change(share, record.key(), record.nonce, |volume| {
        // It may have been expanded meanwhile.
        limit(volume)?;
        step("a volume that is taken in is limited")?;
        Ok(Some(Volume {
            size: Some(Size::Enforced {
                // Files that clients hold can grow outside of it, until a comparison has put them into it.
                project: (taken.busy == 0).then(|| id.number()),
            }),
            ..volume.what.clone()
        }))
    })?;
    Ok(taken)
}

/// Whether the volume with this record can be taken in, as far as the record says.
fn judge(record: &Record<Volume>) -> Result<(), EnableQuotaError> {
    let (what, wanted) = (&record.what, &record.what.wanted);
    Err(match (record.state, &what.size) {
        (State::Creating | State::Deleting, _) => refused("it is being made or deleted"),
        (State::Ready, Some(Size::Enforced { .. })) => EnableQuotaError::Enforced,
        _ if wanted.adopt => refused("its folder was adopted, and is not the driver's"),
        _ if wanted.quota == Some(Quota::Advise) => refused("its parameter quota is \"advise\""),
        _ if limits::promised(record) == Amounts::default() => {
            refused("it was made without a size")
        }
        _ => return Ok(()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::share::paths::sub_path::SubPath;
    use crate::share::records::volume::{OnDelete, Wanted};
    use crate::share::token::Nonce;

    #[test]
    fn who_is_taken_in() {
        let enforced = || Some(Size::Enforced { project: None });
        let advisory = || {
            let why = "no agent".to_owned();
            Some(Size::Advisory { why })
        };
        let advise = Some(Quota::Advise);
        // State, size on record, adopted, parameter, MiB, and why not.
        for (state, size, adopt, quota, mib, why) in [
            (State::Ready, None, false, None, 3, None),
            (State::Ready, advisory(), false, None, 3, None),
            (
                State::Ready,
                advisory(),
                false,
                Some(Quota::Enforce),
                3,
                None,
            ),
            (
                State::Ready,
                enforced(),
                false,
                None,
                3,
                Some("enforced already"),
            ),
            (State::Ready, advisory(), true, None, 3, Some("adopted")),
            (State::Ready, advisory(), false, advise, 3, Some("advise")),
            (State::Ready, None, false, None, 0, Some("without a size")),
            (State::Creating, None, false, None, 3, Some("being made")),
            (
                State::Deleting,
                enforced(),
                false,
                None,
                3,
                Some("being made"),
            ),
        ] {
            let path = SubPath::parse("v").unwrap();
            let wanted = Wanted {
                adopt,
                quota,
                ..Wanted::unrecorded("v", &path, OnDelete::Retain)
            };
            let nonce = Nonce::random().unwrap();
            let what = Volume {
                capacity_bytes: mib * (1 << 20),
                size,
                ..Volume::new(wanted, nonce)
            };
            let judged = judge(&Record::new(what, nonce, state));
            match (judged, why) {
                (Ok(()), None) => {}
                (Err(error), Some(why)) => assert!(error.to_string().contains(why), "{error}"),
                (judged, why) => panic!("{judged:?} {why:?}"),
            }
        }
    }
}
