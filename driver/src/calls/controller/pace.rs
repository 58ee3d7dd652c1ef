//! How often volumes are measured, and how fast. Plain values.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// Files, folders and records that are looked at on one server in a second, at most.
const RATE: u32 = 1000;
/// How many are looked at in one go.
pub(super) const PART: usize = 250;

/// How long to rest after so many of them.
pub type Rest = Arc<dyn Fn(usize) -> Duration + Send + Sync>;

/// How volumes are measured.
#[derive(Clone)]
pub struct Pace {
    /// How old the measure of a volume gets before the next one is made.
    pub interval: Duration,
    /// How long to rest after a part.
    pub rest: Rest,
}

impl Pace {
    /// One measure of each volume in this time, without haste.
    pub fn every(interval: Duration) -> Self {
        let rest = |looked| Duration::from_secs(1) * u32::try_from(looked).unwrap_or(RATE) / RATE;
        Self {
            interval,
            rest: Arc::new(rest),
        }
    }

    /// Between two looks for volumes that are due.
    pub(super) fn round(&self) -> Duration {
        (self.interval / 4).max(Duration::from_millis(1))
    }
}

impl fmt::Debug for Pace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pace")
            .field("interval", &self.interval)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rest_is_as_long_as_its_part_may_take() {
        let pace = Pace::every(Duration::from_secs(3600));
        assert_eq!(pace.round(), Duration::from_secs(900));
        for (looked, milliseconds) in [(0, 0), (1, 1), (PART, 250), (1000, 1000)] {
            assert_eq!((pace.rest)(looked), Duration::from_millis(milliseconds));
        }
    }
}
