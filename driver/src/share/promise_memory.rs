//! What a process remembers of the promises on shares, and what it has reserved. Plain values; must not ask a share: `promised`
//! does.

use crate::calls::admission::ExtraThreads;
use crate::share::records::promise::{Promise, Room};
use crate::share::token::{NameKey, Nonce, ShareUuid};
use csi_proto::lock::lock;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};
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
    /// Of a share about which somebody has asked.
    pub(super) fn known(&self, share: ShareUuid) -> Option<Arc<Mutex<Promised>>> {
        lock(&self.0).get(&share).cloned()
    }

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
    total: u64,
    /// By the places of the records.
    on_record: BTreeMap<RecordKey, Promise>,
    in_trash: Vec<Promise>,
    /// Those that are about to go on record.
    reserved: Vec<Promise>,
    /// When the last listing began.
    pub listed: Option<Instant>,
    /// When all records were read, and how long that took.
    pub read: Option<(Instant, Duration)>,
}

impl Promised {
    /// Takes what was found for all that there is.
    pub fn set(
        &mut self,
        total: u64,
        on_record: BTreeMap<RecordKey, Promise>,
        in_trash: Vec<Promise>,
    ) {
        self.total = total;
        self.on_record = on_record;
        self.in_trash = in_trash;
    }

    /// What was read of the records.
    pub fn on_record(&self) -> &BTreeMap<RecordKey, Promise> {
        &self.on_record
    }

    /// The bytes of each, which counts once and with the most that it has.
    fn each(&self) -> HashMap<Nonce, u64> {
        let all = self.on_record.values().chain(&self.in_trash);
        let mut each = HashMap::new();
        for promise in all.chain(&self.reserved) {
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

/// A promise that is about to go on record. One that is given up may be there all the same, and is looked for.
#[derive(Debug)]
pub(super) struct Reserved {
    promised: Arc<Mutex<Promised>>,
    place: RecordKey,
    promise: Promise,
    is_on_record: bool,
}

impl Reserved {
    /// Reserves it, in `of`, which is what is behind the lock `promised`.
    pub fn new(
        promised: &Arc<Mutex<Promised>>,
        of: &mut Promised,
        (place, promise): (RecordKey, Promise),
    ) -> Self {
        of.reserved.push(promise);
        Self {
            promised: Arc::clone(promised),
            place,
            promise,
            is_on_record: false,
        }
    }

    /// To be called when it is on record.
    pub fn put_on_record(mut self) {
        self.is_on_record = true;
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        let mut promised = lock(&self.promised);
        let mut reserved = promised.reserved.iter();
        if let Some(place) = reserved.position(|it| *it == self.promise) {
            promised.reserved.swap_remove(place);
        }
        let before = match self.is_on_record {
            true => promised.on_record.insert(self.place, self.promise),
            false => promised.on_record.remove(&self.place),
        };
        // Of another one that had this name something may be in the trash, or nothing.
        if !self.is_on_record || before.is_some_and(|it| it.nonce != self.promise.nonce) {
            promised.listed = None;
        }
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
        let memory = PromiseMemory::default();
        let uuid: ShareUuid = "4g2v0aq5j8m1c3d7e9f2b6h4k0".parse().unwrap();
        assert!(memory.known(uuid).is_none());
        let shared = memory.of(uuid);
        let count = || lock(&shared).room().promised;
        let reserve = |name, promise| {
            let mut promised = lock(&shared);
            promised.listed = Some(Instant::now());
            Reserved::new(&shared, &mut promised, (place(name), promise))
        };
        let is_listed = || lock(&shared).listed.is_some();
        let list = |on_record: &[(&str, Promise)], in_trash: &[Promise]| {
            let on_record = on_record.iter().map(|(name, it)| (place(name), *it));
            lock(&shared).set(1000, on_record.collect(), in_trash.to_vec());
        };
        // Of `b` the record is there still, and all its data are in the trash, in two entries.
        list(
            &[("a", promise(a, 10)), ("b", promise(b, 20))],
            &[promise(b, 20); 2],
        );
        assert_eq!(count(), 30);
        // An expansion that is tried twice, and is given up.
        let (first, second) = (reserve("a", promise(a, 15)), reserve("a", promise(a, 15)));
        assert_eq!(count(), 35);
        drop(first);
        assert_eq!((count(), is_listed()), (35, false));
        drop(second);
        // Either may be on record all the same: nobody counts before that is looked up.
        assert!(!is_listed());
        list(
            &[("a", promise(a, 10)), ("b", promise(b, 20))],
            &[promise(b, 20); 2],
        );
        assert_eq!(count(), 30);
        // One that is not, and a listing meanwhile that has seen it.
        let expanded = reserve("a", promise(a, 15));
        list(&[("a", promise(a, 15)), ("b", promise(b, 20))], &[]);
        assert_eq!(count(), 35);
        expanded.put_on_record();
        assert_eq!((count(), is_listed()), (35, true));
        // A new one of a name whose last one may be in the trash.
        let new = reserve("b", promise(c, 7));
        assert_eq!(count(), 42);
        new.put_on_record();
        assert!(!is_listed());
        list(&[("a", promise(a, 15)), ("b", promise(c, 7))], &[]);
        assert_eq!(count(), 22);
        // More than any file system has.
        let most: Vec<_> = nonces.map(|nonce| promise(nonce, i64::MAX)).into();
        list(&[], &most);
        assert_eq!(count(), u64::MAX);
        assert_eq!(lock(&shared).room().left(Ratio::parse("1000").unwrap()), 0);
    }
}
