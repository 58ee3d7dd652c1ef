//! Tries at something that nobody announces, until a deadline.
//!
//! Owns the pauses, which grow, and the end: what has come true by the deadline is seen by the last try. Knows nothing of what
//! is tried.

use std::future::Future;
use std::time::Duration;
use tokio::time::{Instant, sleep_until, timeout_at};

/// How long the last try may take, which begins at the deadline.
const LAST_TRY: Duration = Duration::from_secs(1);

/// The tries.
pub struct Tries {
    end: Option<Instant>,
    pause: Duration,
    longest_pause: Duration,
    is_last: bool,
}

impl Tries {
    /// Tries for so long, `None` for ever, with pauses between these two.
    pub fn within(limit: Option<Duration>, (pause, longest_pause): (Duration, Duration)) -> Self {
        Self {
            end: limit.and_then(|limit| Instant::now().checked_add(limit)),
            pause,
            longest_pause,
            is_last: false,
        }
    }

    /// One try; `None` where it had no result in time.
    pub async fn once<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        match self.limit() {
            None => Some(work.await),
            Some(limit) => timeout_at(limit, work).await.ok(),
        }
    }

    /// When a try that is under way is given up.
    fn limit(&self) -> Option<Instant> {
        let end = self.end?;
        Some(match self.is_last {
            true => end + LAST_TRY,
            false => end,
        })
    }

    /// Waits for the next try; `false` where the one before was the last.
    pub async fn again(&mut self) -> bool {
        match self.next(Instant::now()) {
            Some(next) => {
                sleep_until(next).await;
                true
            }
            None => false,
        }
    }

    /// When the next try begins.
    fn next(&mut self, now: Instant) -> Option<Instant> {
        let next = now + self.pause;
        self.pause = self.longest_pause.min(self.pause * 2);
        match self.end {
            Some(end) if self.is_last || now >= end => None,
            Some(end) if next >= end => {
                self.is_last = true;
                Some(end)
            }
            _ => Some(next),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(1));

    #[test]
    fn the_last_try_begins_at_the_deadline() {
        for (limit, expected) in [
            (0, vec![]),
            (50, vec![50]),
            (2_000, vec![100, 300, 700, 1_500, 2_000]),
            (3_600, vec![100, 300, 700, 1_500, 2_500, 3_500, 3_600]),
        ] {
            let mut tries = Tries::within(Some(Duration::from_millis(limit)), PAUSES);
            let began = tries.end.expect("a deadline") - Duration::from_millis(limit);
            // A try that takes no time.
            let (mut now, mut found) = (began, Vec::new());
            while let Some(next) = tries.next(now) {
                found.push((next - began).as_millis());
                now = next;
                let end = tries.end.expect("a deadline");
                let more = if now == end { LAST_TRY } else { Duration::ZERO };
                assert_eq!(tries.limit(), Some(end + more));
            }
            assert_eq!(found, expected, "{limit}");
        }
    }

    #[test]
    fn a_try_that_reaches_the_deadline_was_the_last() {
        let mut tries = Tries::within(Some(Duration::from_secs(5)), PAUSES);
        let end = tries.end.expect("a deadline");
        assert_eq!(tries.next(end), None);
        let mut tries = Tries::within(None, PAUSES);
        assert!(tries.next(end).is_some());
        assert_eq!(tries.limit(), None);
    }

    #[tokio::test]
    async fn what_comes_is_returned_and_what_does_not_is_given_up() {
        let never = std::future::pending::<u8>;
        let mut over = Tries::within(Some(Duration::ZERO), PAUSES);
        assert_eq!(over.once(async { 5 }).await, Some(5));
        assert_eq!(over.once(never()).await, None);
        assert!(!over.again().await);
        let mut endless = Tries::within(None, (Duration::ZERO, Duration::ZERO));
        assert_eq!(endless.once(async { 5 }).await, Some(5));
        assert!(endless.again().await);
    }
}
