//! A snapshot's life on the share: begun, filled, deleted. Owns the order of the steps, so that each can be repeated and a
//! crash between any two is finished by whoever comes next. Nothing here, or anywhere, writes to a finished snapshot.
//! Blocking; must not know gRPC.
//!
//! Create: the record says creating, then the copy is made beside it (`attempt`), and the same update that says ready says that
//! it is whole. Delete: the record says deleting, the data are moved to the trash, the record is removed.

use crate::share::attempt::heartbeat;
use crate::share::attempt::{self, Begun};
use crate::share::copying::Progress;
use crate::share::crash_points::step;
use crate::share::database::{Share, now};
use crate::share::error::{Doing, ShareError};
use crate::share::records::format::FORMAT;
use crate::share::records::keep::{self, Keep};
use crate::share::records::origin::{Origin, Source};
use crate::share::records::removal;
use crate::share::records::snapshot::Snapshot;
use crate::share::records::store::{self, Claimed, Found};
use crate::share::records::volume::State;
use crate::share::repeat::{ATTEMPTS, pause};
use crate::share::token::{NameKey, Nonce};
use crate::share::trash;

/// Makes the snapshot `name` of the volume `origin`, or returns the one that answers it, when it is on disk. `location` is
/// the share as it is to stand in a new snapshot's id.
///
/// # Errors
/// [`ShareError::Different`] when there is one of another volume, and those that are final for a copy, leave nothing behind.
/// [`ShareError::CopiedElsewhere`], [`ShareError::Unfinished`] and a copy that was stopped want a retry.
pub fn create(
    share: &Share,
    name: &str,
    origin: &Origin,
    location: &str,
    progress: &Progress,
) -> Result<Snapshot, ShareError> {
    let key = NameKey::of(name);
    for attempt in 0..ATTEMPTS {
        pause(attempt);
        let mut begun = None;
        let found = if let Some(found) = store::find::<Snapshot>(share, key)? {
            found
        } else {
            let copy = Begun::of(share, &Source::Volume(origin.clone()))?;
            let record = Snapshot {
                format: FORMAT,
                nonce: Nonce::random().doing(|| "drawing a nonce".to_owned())?,
                generation: 1,
                state: State::Creating,
                location: location.to_owned(),
                name: name.to_owned(),
                source: origin.clone(),
                size_bytes: copy.size_bytes,
                created: now(),
                copying: Some(copy.copying.clone()),
                copy: None,
                left_out: None,
            };
            let attempt = copy.copying.attempt;
            begun = Some(copy);
            let published = store::publish(share, record, |draft| {
                heartbeat::begin(draft, attempt).map(|()| false)
            })?;
            // Lost to somebody else, the next look finds a record.
            let Some(found) = published else { continue };
            found
        };
        let record = &found.record;
        if record.state == State::Deleting {
            match finish_delete(share, &found) {
                Err(error) if !error.is_stale() => return Err(error),
                _ => continue,
            }
        }
        if let Some(refusal) = refusal(record, name, origin) {
            return Err(refusal);
        }
        if record.state == State::Ready {
            removal::discard_attempts(share, &found)?;
            return Ok(found.record);
        }
        if let Some(made) = resume(share, &found, begun, progress)? {
            return Ok(made.record);
        }
    }
    Err(store::contended::<Snapshot>(key))
}

/// Why `record` is not the snapshot `name` of `origin`; nothing when it is.
pub fn refusal(record: &Snapshot, name: &str, origin: &Origin) -> Option<ShareError> {
    if record.name != name {
        return Some(ShareError::KeyTaken {
            other: record.name.clone(),
        });
    }
    let own = &record.source;
    // Not the ids' texts: a share may have two names.
    if (own.key, own.nonce) != (origin.key, origin.nonce) {
        return Some(ShareError::Different {
            difference: format!(
                "it is a snapshot of volume {:?}, asked for was one of {:?}",
                own.id, origin.id
            ),
        });
    }
    None
}

/// Copies what `found`, a record that says creating, promises; `begun` is the copy that it was published with. Returns it with
/// the copy; nothing when it is to be looked at again.
///
/// # Errors
/// As for [`create`]. What cannot be copied is withdrawn; after an error that may pass it is left to a retry.
pub(super) fn resume(
    share: &Share,
    found: &Found<Snapshot>,
    begun: Option<Begun>,
    progress: &Progress,
) -> Result<Option<Found<Snapshot>>, ShareError> {
    let source = Source::Volume(found.record.source.clone());
    match attempt::make(share, found, &source, begun, progress, |_| Ok(())) {
        Err(error) if error.is_stale() => Ok(None),
        Err(error) if error.is_final() => {
            withdraw(share, found)?;
            Err(error)
        }
        other => other.map_err(ShareError::unfinished),
    }
}

/// Takes back a snapshot that cannot be made, whatever generation its record has by now.
fn withdraw(share: &Share, begun: &Found<Snapshot>) -> Result<(), ShareError> {
    delete_if(share, begun.record.key(), begun.record.nonce, |record| {
        record.state != State::Ready
    })
    .map_err(ShareError::unfinished)
}

/// Deletes the snapshot `nonce` of the name with `key`. One that is not there (any more) is fine.
///
/// # Errors
/// [`ShareError::Unfinished`] says that a retry is needed; others that nothing was begun.
pub fn delete(share: &Share, key: NameKey, nonce: Nonce) -> Result<(), ShareError> {
    delete_if(share, key, nonce, |_| true)
}

fn delete_if(
    share: &Share,
    key: NameKey,
    nonce: Nonce,
    fits: impl Fn(&Snapshot) -> bool,
) -> Result<(), ShareError> {
    for attempt in 0..ATTEMPTS {
        pause(attempt);
        let found = match store::find::<Snapshot>(share, key)? {
            Some(found) if found.record.nonce == nonce && fits(&found.record) => found,
            _ => return Ok(()),
        };
        if found.record.state == State::Deleting {
            match finish_delete(share, &found) {
                Err(error) if error.is_stale() => continue,
                other => return other,
            }
        }
        let mut next = found.record.next();
        next.state = State::Deleting;
        next.copying = None;
        match store::update(share, &found, &next) {
            // Won or lost, the next look tells.
            Ok(Claimed::Won | Claimed::Lost) => {}
            // On a full share a deletion must still be possible: all its other steps take no room.
            Err(error) if error.is_full() => return finish_delete(share, &found.with(next)?),
            // The first step of all: nothing was begun.
            Err(error) if error.is_read_only() => return Err(error),
            Err(other) => return Err(other.unfinished()),
        }
    }
    Err(store::contended::<Snapshot>(key))
}

/// Finishes a deletion that the record tells of.
///
/// # Errors
/// As for [`delete`].
pub(super) fn finish_delete(share: &Share, found: &Found<Snapshot>) -> Result<(), ShareError> {
    let nonce = found.record.nonce;
    step("the snapshot's record says deleting")?;
    let data = keep::data_name(found.record.copy);
    trash::discard(share, &found.folder, &data, nonce).map_err(ShareError::unfinished)?;
    step("the snapshot's data are in the trash")?;
    removal::remove(share, found).map_err(ShareError::unfinished)
}
