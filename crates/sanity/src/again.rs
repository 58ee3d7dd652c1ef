//! Decides whether a call is made again after its answer: the specification lets an RPC say that it goes on, and demands of its
//! caller to ask again. No shorter time than that of one call is too long for a driver.

use csi_call::session::{Lost, had_no_answer};
use std::time::{Duration, Instant};
use tonic::{Code, Status};

/// The first pause, which doubles each time, and the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

/// How often a call is made again that is UNAVAILABLE: that may be for good, and hold up each case.
const UNAVAILABLE_AT_MOST: usize = 5;

/// The tries of one call.
pub struct Again {
    limit: Duration,
    begun: Instant,
    pause: Duration,
    unavailable: usize,
}

impl Again {
    /// The tries of a call that begins now and may take so long.
    pub(super) fn within(limit: Duration) -> Self {
        Self {
            limit,
            begun: Instant::now(),
            pause: FIRST_PAUSE,
            unavailable: 0,
        }
    }

    /// The pause before the next try, when one that took so long was answered with that status; `None` where it is the driver's
    /// last word, or not the driver's.
    pub(super) fn after(&mut self, status: &Status, took: Duration) -> Option<Duration> {
        let is_pending = match status.code() {
            Code::Aborted => true,
            Code::DeadlineExceeded => !had_no_answer(status, Some(self.limit), took),
            Code::Unavailable => {
                self.unavailable += 1;
                Lost::of(status).is_none() && self.unavailable <= UNAVAILABLE_AT_MOST
            }
            _ => false,
        };
        let pause = self.pause;
        self.pause = (pause * 2).min(LONGEST_PAUSE);
        (is_pending && self.begun.elapsed() + pause < self.limit).then_some(pause)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_made_again_that_the_driver_says_goes_on() {
        let hour = Duration::from_secs(3600);
        for (code, took, again) in [
            (Code::Aborted, Duration::ZERO, 50),
            (Code::DeadlineExceeded, Duration::ZERO, 50),
            // Nobody has answered.
            (Code::DeadlineExceeded, hour, 0),
            (Code::Unavailable, Duration::ZERO, UNAVAILABLE_AT_MOST),
            (Code::Internal, Duration::ZERO, 0),
        ] {
            let mut tries = Again::within(hour);
            let mut pauses = Vec::new();
            let status = Status::new(code, "words");
            while let Some(pause) = tries.after(&status, took).filter(|_| pauses.len() < 50) {
                pauses.push(pause);
            }
            assert_eq!(pauses.len(), again, "{code:?}");
            assert!(pauses.iter().all(|pause| *pause <= LONGEST_PAUSE));
        }
        let mut over = Again::within(FIRST_PAUSE);
        assert_eq!(over.after(&Status::aborted("words"), Duration::ZERO), None);
    }
}
