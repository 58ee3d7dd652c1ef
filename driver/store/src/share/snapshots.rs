//! The steps that only a snapshot needs in its life: its size, and where its data lie. Nothing here, or anywhere, writes to a
//! finished snapshot: the same update that puts the copy on record says that it is ready. Blocking; must not know gRPC.

use crate::files::beneath;
use crate::files::crash_points::step;
use crate::share::database::Share;
use crate::share::error::{Context, ShareError};
use crate::share::life::Life;
use crate::share::records::promise::Ratio;
use crate::share::records::record::{Record, State};
use crate::share::records::removal;
use crate::share::records::snapshot::{Snapshot, Wanted};
use crate::share::records::store::{self, Found};
use crate::share::records::text;
use crate::share::token::Nonce;
use crate::share::trash;

impl Life for Snapshot {
    fn begin(
        _share: &Share,
        wanted: &Wanted,
        _nonce: Nonce,
        source_bytes: i64,
    ) -> Result<Self, ShareError> {
        Ok(Self {
            wanted: wanted.clone(),
            size_bytes: source_bytes,
            left_out: None,
        })
    }

    /// A class of snapshots has no ratio. Without that of their volumes, nothing would keep them from the whole file system.
    fn overcommit(_wanted: &Wanted, of_source: Option<Ratio>) -> Option<Ratio> {
        of_source
    }

    /// Nothing is left to do when the copy is there.
    fn finish_creation(
        _share: &Share,
        _found: &Found<Self>,
    ) -> Result<Option<Record<Self>>, ShareError> {
        Ok(None)
    }

    fn check_ready(share: &Share, found: &Found<Self>) -> Result<(), ShareError> {
        match has_data(found)? {
            true => removal::discard_attempts(share, found),
            false => Err(ShareError::DataGone),
        }
    }

    fn take_away(share: &Share, found: &Found<Self>) -> Result<bool, ShareError> {
        let data = text::data_name(found.record.copy);
        let promise = found.record.promise();
        let taken = trash::discard(share, &found.folder, &data, promise)?;
        step("the snapshot's data are in the trash")?;
        Ok(taken)
    }
}

/// The finished snapshot that `found` is the record of; nothing where it is not finished, or is deleted in this moment.
///
/// # Errors
/// [`ShareError::DataGone`], and I/O errors.
pub fn finished(
    share: &Share,
    found: Found<Snapshot>,
) -> Result<Option<Record<Snapshot>>, ShareError> {
    if found.record.state != State::Ready {
        return Ok(None);
    }
    match has_data(&found) {
        Ok(true) => return Ok(Some(found.record)),
        Err(error) if !error.is_stale() => return Err(error),
        _ => {}
    }
    // A deletion says so before it takes them away.
    match store::find::<Snapshot>(share, found.record.key())? {
        Some(now) if now.record == found.record => Err(ShareError::DataGone),
        _ => Ok(None),
    }
}

/// Whether its data are there. A listing may be an old one.
fn has_data(found: &Found<Snapshot>) -> Result<bool, ShareError> {
    let data = text::data_name(found.record.copy);
    let there = || beneath::exists(&found.folder, &data);
    Ok(found.prepared || there().context(|| "looking for a snapshot's data".to_owned())?)
}
