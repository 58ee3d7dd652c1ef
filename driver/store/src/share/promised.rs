//! What is promised on a share, and the one place that says whether more may be.
//!
//! Each volume and snapshot counts once, by its nonce: from the first generation of its record until the last of it is purged.
//! The trash has what was promised in the names of its entries. What somebody keeps after a deletion has no record, and counts
//! no more.
//!
//! A promise is reserved in memory before it goes on record, so creations side by side never promise more than one after the
//! other. Records are read once and remembered by their keys; names alone are listed again. So another controller's new volume
//! is seen within a second, and its expansion of a volume that this one knows within a minute or more.

use crate::files::crash_points::step;
use crate::files::pool::of_each;
use crate::share::database::Share;
use crate::share::error::{Context, ShareError};
use crate::share::promise_memory::{Found, OnRecord, Promised, Reserved};
use crate::share::records::promise::{Promise, Ratio};
use crate::share::records::record::Kind;
use crate::share::records::snapshot::Snapshot;
use crate::share::records::store::{self, Kept};
use crate::share::records::volume::Volume;
use crate::share::token::NameKey;
use crate::share::trash;
use csi_proto::lock::lock;
use rustix::fs;
use std::os::fd::AsFd;
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// How old a listing may be for a promise to be made. None is refused by one that is older than the question.
const LISTED: Duration = Duration::from_secs(1);
/// How old what was read of a record may be, at least.
const READ: Duration = Duration::from_secs(60);
/// Reading all records anew takes at most one part in so many of the time.
const READING: u32 = 20;

/// The size of the file system that `root` is on, in bytes.
pub fn size_of(root: impl AsFd) -> Result<u64, ShareError> {
    let asked =
        fs::fstatvfs(root).context(|| "asking for the size of the file system".to_owned())?;
    Ok(asked.f_blocks.saturating_mul(asked.f_frsize))
}

/// What may be promised on the share now.
pub fn left(share: &Share, ratio: Ratio) -> Result<u64, ShareError> {
    let memory = share.counting.memory.of(share.uuid());
    let promised = listed(&memory, share, Instant::now())?;
    Ok(promised.room().left(ratio))
}

/// Reserves what is about to be promised to the record under `key`. Without a `bound` it is not refused, and asks no server.
///
/// # Errors
/// [`ShareError::Overcommitted`], and I/O errors.
pub(super) fn reserve<K: Kind>(
    share: &Share,
    key: NameKey,
    promise: Promise,
    bound: Option<Ratio>,
) -> Result<Reserved, ShareError> {
    let asked = Instant::now();
    let recently = asked.checked_sub(LISTED).unwrap_or(asked);
    let memory = share.counting.memory.of(share.uuid());
    // Nobody else reserves anything between the check and the reservation.
    let mut promised = match bound.filter(|_| promise.bytes > 0) {
        Some(ratio) => {
            let check = |promised: &Promised| promised.room().check(ratio, promised.more(promise));
            let promised = listed(&memory, share, recently)?;
            match check(&promised) {
                Ok(()) => promised,
                Err(_) => {
                    drop(promised);
                    let promised = listed(&memory, share, asked)?;
                    check(&promised).map_err(ShareError::Overcommitted)?;
                    promised
                }
            }
        }
        // Whoever has a bound lists then.
        None => {
            let mut promised = lock(&memory);
            promised.forget(recently);
            promised
        }
    };
    Ok(promised.reserve((K::FOLDER, key), promise))
}

/// What is remembered, as a listing has found it that began `since` then: one is made, unless there was one. Whoever waits for the
/// server meanwhile keeps nobody waiting but those who want a listing at the same address.
fn listed<'a>(
    memory: &'a Mutex<Promised>,
    share: &Share,
    since: Instant,
) -> Result<MutexGuard<'a, Promised>, ShareError> {
    let promised = lock(memory);
    if promised.is_listed(since) {
        return Ok(promised);
    }
    drop(promised);
    let _turn = lock(&share.counting.turn);
    let mut promised = lock(memory);
    if promised.is_listed(since) {
        return Ok(promised);
    }
    let is_old = |(at, took): (Instant, Duration)| at.elapsed() > READ.max(took * READING);
    let is_anew = promised.read.is_none_or(is_old);
    let listing = promised.begin(is_anew);
    drop(promised);
    let found = list(share, &listing.known)?;
    let mut promised = lock(memory);
    promised.end(listing, found);
    Ok(promised)
}

/// Lists what there is. What is `known` is not read.
fn list(share: &Share, known: &OnRecord) -> Result<Found, ShareError> {
    let mut on_record = of_kind::<Volume>(share, known)?;
    on_record.extend(of_kind::<Snapshot>(share, known)?);
    step("the records are listed")?;
    Ok(Found {
        on_record,
        // After the records: what leaves one meanwhile is found there or here.
        in_trash: trash::promises(share)?,
        total: size_of(share.root())?,
    })
}

/// The promises on record of one kind: what is `known`, and what is read now. A record that cannot be used promises nothing.
fn of_kind<K: Kind>(share: &Share, known: &OnRecord) -> Result<OnRecord, ShareError> {
    let mut all = OnRecord::new();
    let mut unknown = Vec::new();
    for key in store::keys::<K>(share)? {
        let place = (K::FOLDER, key);
        match known.get(&place) {
            Some(promise) => drop(all.insert(place, *promise)),
            None => unknown.push(key),
        }
    }
    let read = |key: &NameKey| {
        Ok(match store::look_among::<K>(share, *key)? {
            Kept::Nothing => None,
            Kept::Found(found) => Some(found.record.promise()),
            Kept::Unreadable(record) => record.nonce.map(Promise::none),
        })
    };
    let read = of_each(&share.counting.threads, &unknown, || false, read);
    for (key, promise) in unknown.into_iter().zip(read) {
        let promise: Result<_, ShareError> = promise;
        all.extend(promise?.map(|promise| ((K::FOLDER, key), promise)));
    }
    Ok(all)
}
