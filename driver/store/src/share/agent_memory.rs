//! What a process knows of the agents that answer it: which were seen lately, how fast they answer, and which volumes they have
//! found whose sizes are not enforced. Plain values; must not ask a share.

use crate::share::records::format::FORMAT;
use crate::share::token::{Nonce, ShareUuid};
use csi_proto::lock::lock;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// How long an agent that was seen is believed to live. That there is none is found out anew each time.
const BELIEVED: Duration = Duration::from_secs(1);
/// Between two looks for an answer, at least and at most.
const PAUSES: [Duration; 2] = [Duration::from_millis(4), Duration::from_millis(64)];

/// What is remembered, of all shares.
#[derive(Debug, Default)]
pub struct AgentMemory {
    /// The agents that enforce the sizes of volumes: their processes, and when they were seen.
    seen: Mutex<BTreeMap<ShareUuid, (Instant, String)>>,
    /// How long answers have taken lately, in milliseconds: whoever looks too early asks the server for nothing.
    lately: AtomicU64,
    /// How many volumes have sizes that are not enforced though they are to be, as was found last, and when.
    not_held: Mutex<BTreeMap<ShareUuid, (Instant, usize)>>,
}

impl AgentMemory {
    /// The process of an agent that was seen on the share a moment ago.
    pub(super) fn seen_on(&self, share: ShareUuid) -> Option<String> {
        let seen = lock(&self.seen);
        let (at, process) = seen.get(&share)?;
        (at.elapsed() < BELIEVED).then(|| process.clone())
    }

    /// An agent is seen on the share now.
    pub(super) fn see(&self, share: ShareUuid, process: String) {
        lock(&self.seen).insert(share, (Instant::now(), process));
    }

    /// So many volumes of the share have sizes that are not enforced.
    pub(super) fn saw_not_held(&self, share: ShareUuid, count: usize) {
        lock(&self.not_held).insert(share, (Instant::now(), count));
    }

    /// How many volumes of the share are not, where that was found `within` this time.
    pub fn not_held(&self, share: ShareUuid, within: Duration) -> usize {
        let not_held = lock(&self.not_held);
        let found = not_held.get(&share).filter(|(at, _)| at.elapsed() < within);
        found.map_or(0, |(_, count)| *count)
    }

    /// The share is known no more.
    pub fn forget(&self, share: ShareUuid) {
        lock(&self.not_held).remove(&share);
        self.miss(share);
    }

    /// There is none on the share.
    pub(super) fn miss(&self, share: ShareUuid) {
        lock(&self.seen).remove(&share);
    }

    /// An answer `took` so long.
    pub(super) fn answered_after(&self, took: Duration) {
        let lately = lately(self.lately.load(Relaxed), took);
        self.lately.store(lately, Relaxed);
    }

    /// How long to wait before the first look for an answer.
    pub(super) fn first_pause(&self) -> Duration {
        first_pause(self.lately.load(Relaxed))
    }
}

/// The first pause, which is a little shorter than answers took `lately`, so that they may turn out to be faster.
fn first_pause(lately: u64) -> Duration {
    let [least, most] = PAUSES;
    Duration::from_millis(lately * 3 / 4).clamp(least, most)
}

/// The pause for somebody who has `waited` in vain: the longer that was, the less does a little more count.
pub(super) fn next_pause(waited: Duration) -> Duration {
    let [least, most] = PAUSES;
    (waited / 3).clamp(least, most)
}

fn lately(before: u64, took: Duration) -> u64 {
    let took = u64::try_from(took.as_millis())
        .unwrap_or(u64::MAX)
        .min(1000);
    (before * 3 + took) / 4
}

/// How many volumes are named at most. Where there are more, nothing is claimed of any.
pub(super) const MOST: usize = 4096;

/// The longest reason that is told, in bytes: every answer about the volume repeats it.
const LONGEST_REASON: usize = 4096;

/// What a comparison has found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Compared {
    format: u64,
    /// When it began, in seconds since 1970, by the clock of whoever compared.
    pub(super) at: u64,
    /// Why no size is enforced, where that is so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    unable: Option<String>,
    /// How many volumes have sizes that are not enforced though they are to be.
    pub(super) not_held: usize,
    /// Which, and why not.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    volumes: BTreeMap<Nonce, String>,
}

impl Compared {
    /// That of somebody who has found, since the time `at`, these `volumes` whose sizes are not enforced.
    pub(super) fn of(at: u64, volumes: BTreeMap<Nonce, String>) -> Self {
        let not_held = volumes.len();
        if not_held > MOST {
            let why = "volumes are not, which the log of who has compared names";
            return Self::unable(at, format!("{not_held} {why}"), not_held);
        }
        Self {
            format: FORMAT,
            at,
            unable: None,
            not_held,
            volumes,
        }
    }

    /// That of somebody who cannot enforce the sizes of volumes, of which so many are to be.
    pub(super) fn unable(at: u64, why: String, not_held: usize) -> Self {
        Self {
            unable: Some(why),
            not_held,
            ..Self::of(at, BTreeMap::new())
        }
    }

    /// Why the size of the volume is not enforced, where that was found.
    pub(super) fn trouble(&self, nonce: Nonce) -> Option<&str> {
        let why = self.unable.as_ref().or_else(|| self.volumes.get(&nonce))?;
        Some(&why[..why.floor_char_boundary(LONGEST_REASON)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_found_long_ago_is_not_told() {
        let memory = AgentMemory::default();
        let [share, other] = [(); 2].map(|()| ShareUuid::random().unwrap());
        let hour = Duration::from_secs(3600);
        memory.saw_not_held(share, 3);
        assert_eq!(memory.not_held(share, hour), 3);
        assert_eq!(memory.not_held(other, hour), 0);
        assert_eq!(memory.not_held(share, Duration::ZERO), 0);
        memory.forget(share);
        assert_eq!(memory.not_held(share, hour), 0);
    }

    #[test]
    fn the_pace_of_looks_follows_the_answers() {
        let ms = Duration::from_millis;
        for (lately, expected) in [(0, 4), (8, 6), (40, 30), (1000, 64)] {
            assert_eq!(first_pause(lately), ms(expected), "{lately}");
        }
        for (waited, expected) in [(4, 4), (30, 10), (96, 32), (5000, 64)] {
            assert_eq!(next_pause(ms(waited)), ms(expected), "{waited}");
        }
        // Answers that come at the first look make the next look earlier.
        let mut now = 40;
        for _ in 0..100 {
            now = super::lately(now, first_pause(now));
        }
        assert!(now <= 4, "{now}");
        assert_eq!(super::lately(0, Duration::MAX), 250);
    }
}
