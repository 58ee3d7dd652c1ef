//! The results of comparing the shares at two addresses. Must not compare them.

use crate::calls::export::Export;
use crate::share::token::ShareUuid;
use csi_proto::lock::lock;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// How long an address is not asked again when it did not answer.
const REST: Duration = Duration::from_secs(300);

/// An address, one that was known before it, and the UUID that was found at both.
pub(super) type Pair = (Export, Export, ShareUuid);

/// What is known of two addresses.
#[derive(Clone, Copy)]
pub(super) enum Compared {
    /// Both lead to one share.
    One,
    /// One of them did not answer then.
    Unknown(Instant),
}

/// What pairs of addresses have come to.
#[derive(Default)]
pub(super) struct Pairs(Mutex<BTreeMap<Pair, Compared>>);

impl Pairs {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<Pair, Compared>> {
        lock(&self.0)
    }

    /// Whether two addresses are still to be compared.
    pub(super) fn is_open(&self, pair: &Pair) -> bool {
        match self.lock().get(pair) {
            None => true,
            Some(Compared::One) => false,
            Some(Compared::Unknown(since)) => since.elapsed() >= REST,
        }
    }

    /// Keeps what a comparison has come to.
    pub(super) fn put(&self, pair: Pair, compared: Compared) {
        self.lock().insert(pair, compared);
    }
}
