//! What a process remembers of the promises on shares, and what it has reserved. Plain values; must not ask a share: `promised`
//! does.

use crate::export::Export;
use crate::files::admission::ExtraThreads;
use crate::share::records::promise::{Promise, Room};
use crate::share::token::{NameKey, Nonce, ShareUuid};
use csi_proto::lock::lock;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

/// What a process remembers of the promises on all shares.
#[derive(Debug, Default)]
pub struct PromiseMemory {
    shares: Mutex<BTreeMap<ShareUuid, Arc<Mutex<Promised>>>>,
    /// Those that somebody has.
    turns: Mutex<BTreeMap<Export, Turn>>,
}

/// Whoever has it locked lists what is on a share at one address, for all who wait for it. At another address nobody does: a server
/// that is away keeps it for as long as that lasts.
type Turn = Arc<Mutex<()>>;

/// How a process counts what is promised on a share.
#[derive(Clone, Debug, Default)]
pub struct Counting {
    /// What it remembers.
    pub(super) memory: Arc<PromiseMemory>,
    pub(super) turn: Turn,
    /// The threads that it reads with, beside that of the call.
    pub(super) threads: ExtraThreads,
}

impl Counting {
    /// That of a process which remembers so much, for a share at this `address`.
    pub fn at(address: &Export, memory: &Arc<PromiseMemory>, threads: ExtraThreads) -> Self {
        let mut turns = lock(&memory.turns);
        turns.retain(|_, turn| Arc::strong_count(turn) > 1);
        let turn = turns.entry(address.clone()).or_default();
        Self {
            memory: Arc::clone(memory),
            turn: Arc::clone(turn),
            threads,
        }
    }
}

impl PromiseMemory {
    pub(super) fn of(&self, share: ShareUuid) -> Arc<Mutex<Promised>> {
        Arc::clone(lock(&self.shares).entry(share).or_default())
    }
}

/// The kind of a record, and its key.
pub(super) type RecordKey = (&'static str, NameKey);

/// The promises on record, by the places of the records.
pub(super) type OnRecord = BTreeMap<RecordKey, Promise>;

/// What is remembered of the promises on one share, at all its addresses. Its lock must not be held while a server is asked: one
/// that is away would keep all others waiting.
#[derive(Debug, Default)]
pub(super) struct Promised {
    found: Found,
    reserved: Vec<Reservation>,
    /// When the listing began that has found this. Nothing where somebody may have gone on record since whom it has overlooked.
    listed: Option<Instant>,
    /// When all records were read, and how long that took.
    pub read: Option<(Instant, Duration)>,
    /// How many listings have begun, and which of them has found this.
    begun: u64,
    taken: u64,
    /// Every listing that runs has this too.
    runs: Arc<()>,
}

/// What a listing has found.
#[derive(Clone, Debug, Default)]
pub(super) struct Found {
    /// The size of the file system.
    pub total: u64,
    pub on_record: OnRecord,
    pub in_trash: Vec<Promise>,
}

/// A listing that runs.
#[derive(Debug)]
pub(super) struct Listing {
    number: u64,
    begun: Instant,
    is_anew: bool,
    /// What need not be read.
    pub known: OnRecord,
    _runs: Arc<()>,
}

/// What is going on record, or was when the last listing began or later.
#[derive(Debug)]
struct Reservation {
    place: RecordKey,
    promise: Promise,
    held: Weak<()>,
    /// The first listing that began after it was let go of, and so finds what has become of it.
    told_by: Option<u64>,
}

impl Reservation {
    fn is_held(&self) -> bool {
        self.held.strong_count() > 0
    }
}

/// A promise counts at least as long as this lives. It is on record by then, or given up: the next listing tells.
#[derive(Debug)]
pub(super) struct Reserved {
    _held: Arc<()>,
}

impl Promised {
    /// Whether what is remembered is from a listing that began `since` then.
    pub fn is_listed(&self, since: Instant) -> bool {
        self.listed.is_some_and(|at| at >= since)
    }

    /// Begins a listing, which reads all records where it `is_anew`. Others may reserve meanwhile, or list.
    pub fn begin(&mut self, is_anew: bool) -> Listing {
        self.begun += 1;
        let mut known = match is_anew {
            true => OnRecord::new(),
            false => self.found.on_record.clone(),
        };
        for let_go in self.reserved.iter_mut().filter(|one| !one.is_held()) {
            known.remove(&let_go.place);
            let_go.told_by.get_or_insert(self.begun);
        }
        Listing {
            number: self.begun,
            begun: Instant::now(),
            is_anew,
            known,
            _runs: Arc::clone(&self.runs),
        }
    }

    /// Ends a listing that has `found` this. It says nothing of what was reserved, or let go of, after it had begun; and nothing at
    /// all where one that began later has ended before.
    pub fn end(&mut self, listing: Listing, found: Found) {
        if listing.number < self.taken {
            return;
        }
        self.taken = listing.number;
        self.found = found;
        self.listed = Some(listing.begun);
        if listing.is_anew {
            self.read = Some((listing.begun, listing.begun.elapsed()));
        }
        let is_told = |by: u64| by <= listing.number;
        self.reserved
            .retain(|one| !one.told_by.is_some_and(is_told));
    }

    /// Forgets what was let go of, unless there was a listing `since` then: the next one finds what has become of it. One that runs
    /// may have overlooked it, and may hang for long.
    pub fn forget(&mut self, since: Instant) {
        if self.is_listed(since) || Arc::strong_count(&self.runs) > 1 {
            return;
        }
        self.listed = None;
        for let_go in self.reserved.extract_if(.., |one| !one.is_held()) {
            self.found.on_record.remove(&let_go.place);
        }
    }

    pub fn reserve(&mut self, place: RecordKey, promise: Promise) -> Reserved {
        let held = Arc::new(());
        self.reserved.push(Reservation {
            place,
            promise,
            held: Arc::downgrade(&held),
            told_by: None,
        });
        Reserved { _held: held }
    }

    /// The bytes of each, which counts once and with the most that it has.
    fn each(&self) -> HashMap<Nonce, u64> {
        let all = self.found.on_record.values().chain(&self.found.in_trash);
        let mut each = HashMap::new();
        let reserved = self.reserved.iter().map(|one| &one.promise);
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
            total: self.found.total,
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
                let listing = promised.begin(false);
                let mut found = Found {
                    on_record: listing.known.clone(),
                    in_trash: in_trash.to_vec(),
                    total: 0,
                };
                let on_record = on_record.iter().map(|(name, it)| (place(name), *it));
                found.on_record.extend(on_record);
                promised.end(listing, found);
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
        // Two listings at once, of which the first ends last, with what it has seen before.
        let [first, last] = [(); 2].map(|()| promised.begin(false));
        let reserved = promised.reserve(place("c"), promise(b, 100));
        promised.forget(Instant::now());
        let found = |known: &OnRecord, trash: i64| Found {
            on_record: known.clone(),
            in_trash: vec![promise(Nonce::random().unwrap(), trash)],
            total: 0,
        };
        let [old, new] = [found(&first.known, 1000), found(&last.known, 2000)];
        promised.end(last, new);
        drop(reserved);
        promised.forget(Instant::now());
        promised.end(first, old);
        assert_eq!(promised.room().promised, 2122);
        // Nobody lists: what was let go of is forgotten, and so is what was there.
        promised.forget(Instant::now());
        assert!(promised.reserved.is_empty() && promised.listed.is_none());
        // More than any file system has.
        let most = nonces.map(|nonce| promise(nonce, i64::MAX));
        assert_eq!(list(&mut promised, &[], &most), u64::MAX);
        assert_eq!(promised.room().left(Ratio::parse("1000").unwrap()), 0);
    }
}
