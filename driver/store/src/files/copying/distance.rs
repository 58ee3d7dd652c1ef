//! How far a server is, and what a copy makes of that: how many views of a folder are worth their cost. Owns these
//! numbers; must not copy.

use rustix::fs::fstatfs;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

/// Answers that come so soon leave processors as what takes the time.
const QUICK: Duration = Duration::from_micros(750);
/// Views of one copy at most. Of the 32 threads that copy over NFS, each makes a name in one of nine calls, so more than
/// these would have nothing to do.
pub(super) const MOST: usize = 5;
/// What it costs to have one more: a helper process, and questions to the server.
const HELPER: Duration = Duration::from_millis(60);
const QUESTIONS: u32 = 16;

/// How long a server takes to answer.
#[derive(Clone, Copy, Debug)]
pub struct Distance(Duration);

impl Distance {
    /// That of the server which has `folder`. A late answer is asked for again: this process may have had to wait for a
    /// processor.
    pub fn of(folder: &OwnedFd) -> Self {
        let first = ask(folder);
        match first < QUICK {
            true => Self(first),
            false => Self(first.min(ask(folder))),
        }
    }

    /// Whether views may be worth anything.
    pub(super) fn is_quick(self) -> bool {
        self.0 < QUICK
    }

    /// How many views a folder with so many names is worth: as many as cost less, together, than the time for which the
    /// names would wait for each other.
    pub(super) fn views(self, names: usize) -> usize {
        if self.is_quick() {
            return 1;
        }
        let waiting = (self.0).saturating_mul(u32::try_from(names).unwrap_or(u32::MAX));
        let cost = HELPER + self.0 * QUESTIONS;
        usize::try_from(waiting.as_micros() / cost.as_micros())
            .map_or(MOST, |views| views.clamp(1, MOST))
    }
}

fn ask(folder: &OwnedFd) -> Duration {
    let began = Instant::now();
    // Never answered from what the client knows.
    let _ = fstatfs(folder);
    began.elapsed()
}

#[cfg(test)]
impl Distance {
    /// That of a server which answers after so many microseconds.
    pub(super) fn micros(round_trip: u64) -> Self {
        Self(Duration::from_micros(round_trip))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_worth_more_views_the_more_its_names_would_wait() {
        for (names, round_trip, views) in [
            // Nobody waits.
            (1_000_000, 0, 1),
            (1_000_000, 700, 1),
            // A network.
            (10, 2_000, 1),
            (50, 2_000, 1),
            (100, 2_000, 2),
            (200, 2_000, 4),
            (2_000, 2_000, MOST),
            (2_000, 1_000, MOST),
            (300, 1_000, 3),
            // A distance.
            (1, 20_000, 1),
            (30, 20_000, 1),
            (60, 20_000, 3),
            (300, 20_000, MOST),
            (1_000_000, 20_000, MOST),
            // Another continent: a mount costs more as well.
            (30, 300_000, 1),
            (100, 300_000, MOST),
            (usize::MAX, 10_000_000, MOST),
        ] {
            let worth = Distance::micros(round_trip).views(names);
            assert_eq!(worth, views, "{names} names, {round_trip} µs");
        }
    }
}
