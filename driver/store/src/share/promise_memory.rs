//! What a process remembers of the promises on shares, and what it has reserved. Plain values; must not ask a share: `promised`
//! does.

use crate::files::admission::ExtraThreads;
use crate::share::records::promise::{Promise, Room};
use crate::share::token::{NameKey, Nonce, ShareUuid};
use csi_proto::lock::lock;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

/// What a process remembers of the promises on all shares.
#[derive(Debug, Default)]
pub struct PromiseMemory(Mutex<BTreeMap<ShareUuid, Arc<Mutex<Promised>>>>);

/// How a process counts what is promised on a share.
#[derive(Clone, Debug, Default)]
pub struct Counting {
    /// What it remembers.
    pub memory: Arc<PromiseMemory>,
    /// The threads that it reads with, beside that of the call.
    pub threads: ExtraThreads,
}

impl PromiseMemory {
    pub(super) fn of(&self, share: ShareUuid) -> Arc<Mutex<Promised>> {
        Arc::clone(lock(&self.0).entry(share).or_default())
    }
}

/// The kind of a record, and its key.
pub(super) type RecordKey = (&'static str, NameKey);

/// What is remembered of the promises on one share. Who counts holds its lock, so one counts for all who wait.
#[derive(Debug, Default)]
pub(super) struct Promised {
    /// The size of the file system.
    pub total: u64,
    /// By the places of the records.
    pub on_record: BTreeMap<RecordKey, Promise>,
    pub in_trash: Vec<Promise>,
    /// Those that are going on record now, and those that were when the last listing began or later.
    reserved: Vec<(RecordKey, Promise, Weak<()>)>,
    /// When the last listing began.
    pub listed: Option<Instant>,
    /// When all records were read, and how long that took.
    pub read: Option<(Instant, Duration)>,
}

/// A promise counts at least as long as this lives. It is on record by then, or given up: the next listing tells.
#[derive(Debug)]
pub(super) struct Reserved {
    _held: Arc<()>,
}

impl Promised {
    /// Whether there was a listing `since` then. If not, the next one is to find what has become of what was reserved.
    pub fn is_listed(&mut self, since: Instant) -> bool {
        if self.listed.is_some_and(|at| at >= since) {
            return true;
        }
        self.listed = None;
        self.reserved.retain(|(place, _, held)| {
            let is_held = held.strong_count() > 0;
            if !is_held {
                self.on_record.remove(place);
            }
            is_held
        });
        false
    }

    pub fn reserve(&mut self, place: RecordKey, promise: Promise) -> Reserved {
        let held = Arc::new(());
        self.reserved.push((place, promise, Arc::downgrade(&held)));
        Reserved { _held: held }
    }

    /// The bytes of each, which counts once and with the most that it has.
    fn each(&self) -> HashMap<Nonce, u64> {
        let all = self.on_record.values().chain(&self.in_trash);
        let mut each = HashMap::new();
        let reserved = self.reserved.iter().map(|(_, promise, _)| promise);
        for promise in all.chain(reserved) {
            let bytes = u64::try_from(promise.bytes).unwrap_or_default();
            let most = each.entry(promise.nonce).or_default();
            *most = bytes.max(*most);
        }
        each
    }

    /// How large the file system is, and what is promised of that.
    pub fn room(&self) -> Room {
        let promised = self.each().into_values().map(u128::from).sum::<u128>();
        Room {
            total: self.total,
            promised: promised.try_into().unwrap_or(u64::MAX),
        }
    }

    /// The bytes that `promise` wants beside what counts of the same volume or snapshot.
    pub fn more(&self, promise: Promise) -> u64 {
        let now = self.each().get(&promise.nonce).copied();
        let bytes: u64 = promise.bytes.try_into().unwrap_or_default();
        bytes.saturating_sub(now.unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::share::records::promise::Ratio;

    #[test]
    fn each_counts_once_and_with_the_most_that_it_has() {
        let nonces = [(); 3].map(|()| Nonce::random().unwrap());
        let [a, b, c] = nonces;
        let promise = |nonce, bytes| Promise { nonce, bytes };
        let place = |name: &str| ("volumes", NameKey::of(name));
        let mut promised = Promised::default();
        let list =
            |promised: &mut Promised, on_record: &[(&str, Promise)], in_trash: &[Promise]| {
                assert!(!promised.is_listed(Instant::now()));
                let on_record = on_record.iter().map(|(name, it)| (place(name), *it));
                promised.on_record.extend(on_record);
                promised.in_trash = in_trash.to_vec();
                promised.listed = Some(Instant::now());
                promised.room().promised
            };
        // Of `b` the record is there still, and all its data are in the trash, in two entries.
        let both = [("a", promise(a, 10)), ("b", promise(b, 20))];
        assert_eq!(list(&mut promised, &both, &[promise(b, 20); 2]), 30);
        // An expansion that is tried twice, and is given up. It counts until there is a listing.
        let tried = [(); 2].map(|()| promised.reserve(place("a"), promise(a, 15)));
        assert_eq!(promised.room().promised, 35);
        assert_eq!(
            (promised.more(promise(a, 15)), promised.more(promise(a, 16))),
            (0, 1)
        );
        drop(tried);
        assert_eq!(promised.room().promised, 35);
        assert!(promised.is_listed(promised.listed.unwrap()));
        assert_eq!(list(&mut promised, &both, &[]), 30);
        // One that is not, and a listing meanwhile that has not seen it: its record is read by the next one.
        let expanded = promised.reserve(place("a"), promise(a, 15));
        assert_eq!(list(&mut promised, &[], &[]), 35);
        drop(expanded);
        assert_eq!(list(&mut promised, &[("a", promise(a, 15))], &[]), 35);
        // A new one of a name whose last one may be in the trash.
        let new = promised.reserve(place("b"), promise(c, 7));
        assert_eq!(promised.room().promised, 42);
        drop(new);
        assert_eq!(list(&mut promised, &[("b", promise(c, 7))], &[]), 22);
        // More than any file system has.
        let most = nonces.map(|nonce| promise(nonce, i64::MAX));
        assert_eq!(list(&mut promised, &[], &most), u64::MAX);
        assert_eq!(promised.room().left(Ratio::parse("1000").unwrap()), 0);
    }
}
