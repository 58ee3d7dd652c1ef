//! The pace of a load: calls begin as fast as answers come, or at a fixed rate whatever the answers do; and the moment
//! after which no call begins.
//!
//! At a fixed rate every call has a time at which it is due. Its latency counts from there, so that calls which had to wait
//! behind a stall show it, though they were answered fast once sent.

use rustix::fd::OwnedFd;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use std::io;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::net::unix::pipe::Receiver;

/// The limits of a load: number of calls, rate, duration.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Limits {
    /// Not more calls than this.
    pub count: Option<u64>,
    /// No call begins later than this after the first.
    pub duration: Option<Duration>,
    /// Calls a second; as fast as answers come without it.
    pub rate: Option<f64>,
}

impl Limits {
    /// The time after the first call at which the call of that number is due; `None` where there is no such call.
    fn due(&self, number: u64) -> Option<Duration> {
        if self.count.is_some_and(|count| number >= count) {
            return None;
        }
        let due = match self.rate {
            Some(rate) => Duration::try_from_secs_f64(number as f64 / rate).ok()?,
            None => Duration::ZERO,
        };
        let in_time = self.duration.is_none_or(|duration| due < duration);
        in_time.then_some(due)
    }

    /// The number of calls that are due until `elapsed` after the first.
    fn due_until(&self, elapsed: Duration) -> u64 {
        let (Some(rate), Some(duration)) = (self.rate, self.duration) else {
            return 0;
        };
        // As many as `due` knows; the estimate may be one off.
        let estimate = (elapsed.min(duration).as_secs_f64() * rate).ceil() as u64;
        let mut all = estimate.saturating_sub(1);
        while self.due(all).is_some_and(|due| due < elapsed) {
            all += 1;
        }
        all
    }

    /// The part of these limits that one of `parts` slices has.
    pub fn slice(&self, index: u64, parts: u64) -> Self {
        Self {
            count: self
                .count
                .map(|count| count * (index + 1) / parts - count * index / parts),
            duration: self
                .duration
                .map(|duration| duration / u32::try_from(parts).unwrap_or(u32::MAX)),
            rate: self.rate,
        }
    }
}

/// Hands out the calls of one stretch of a load.
pub(crate) struct Pace {
    limits: Limits,
    start: Instant,
    next: AtomicU64,
    /// When it was stopped, if it was: so long after its start.
    stopped: OnceLock<Duration>,
    /// At a fixed rate: whoever holds it waits for the next call's time.
    alarm: tokio::sync::Mutex<Option<Alarm>>,
}

impl Pace {
    /// The pace of a stretch that begins now. Needs a runtime.
    ///
    /// # Errors
    /// When the system has no timer left.
    pub fn start(limits: Limits) -> io::Result<Self> {
        let alarm = limits.rate.map(|_| Alarm::new()).transpose()?;
        Ok(Self {
            limits,
            start: Instant::now(),
            next: AtomicU64::new(0),
            stopped: OnceLock::new(),
            alarm: tokio::sync::Mutex::new(alarm),
        })
    }

    /// The time at which the load began.
    pub fn started(&self) -> Instant {
        self.start
    }

    /// No further call begins.
    pub fn stop(&self) {
        let _ = self.stopped.set(self.start.elapsed());
    }

    /// Waits until the next call is due; returns the time from which its latency counts, or `None` at the end.
    pub async fn next(&self) -> Option<Instant> {
        let mut alarm = match self.limits.rate {
            Some(_) => Some(self.alarm.lock().await),
            None => None,
        };
        let now = Instant::now();
        let over = self
            .limits
            .duration
            .is_some_and(|duration| now.duration_since(self.start) >= duration);
        if over || self.stopped.get().is_some() {
            return None;
        }
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let Some(due) = self.limits.due(number) else {
            self.next.fetch_sub(1, Ordering::Relaxed);
            return None;
        };
        let Some(alarm) = alarm.as_deref_mut() else {
            return Some(now);
        };
        let due = self.start + due;
        if let Some(alarm) = alarm {
            alarm.wait_until(due).await;
        }
        if self.stopped.get().is_some() {
            self.next.fetch_sub(1, Ordering::Relaxed);
            return None;
        }
        Some(due)
    }

    /// The number of calls that were due until now, or until it was stopped, and never begun, because all workers still waited for
    /// answers.
    pub(crate) fn overdue(&self) -> u64 {
        let until = self.stopped.get().copied();
        let due = self
            .limits
            .due_until(until.unwrap_or_else(|| self.start.elapsed()));
        due.saturating_sub(self.next.load(Ordering::Relaxed))
    }
}

/// A timer of the kernel: the runtime's own has steps of a millisecond, which is longer than many calls take. Its
/// descriptor is read like that of a pipe, which is what it is waited for as.
struct Alarm {
    timer: OwnedFd,
    rings: Receiver,
}

impl Alarm {
    fn new() -> io::Result<Self> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        let rings = Receiver::from_owned_fd_unchecked(timer.try_clone()?)?;
        Ok(Self { timer, rings })
    }

    async fn wait_until(&self, time: Instant) {
        let left = time.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return;
        }
        let zero = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        let Ok(it_value) = Timespec::try_from(left) else {
            return std::future::pending().await;
        };
        let once = Itimerspec {
            it_interval: zero,
            it_value,
        };
        if timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &once).is_err() {
            return tokio::time::sleep(left).await;
        }
        // A ring for an earlier time, whose waiter has gone, is read away.
        while Instant::now() < time {
            if self.rings.readable().await.is_err() {
                return;
            }
            match self.rings.try_read(&mut [0; 8]) {
                Err(error) if error.kind() != io::ErrorKind::WouldBlock => return,
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_due_at_even_distances_until_the_end() {
        let limits = Limits {
            rate: Some(4.0),
            duration: Some(Duration::from_secs(1)),
            count: None,
        };
        let due: Vec<_> = (0..6).map(|number| limits.due(number)).collect();
        let ms = |ms| Some(Duration::from_millis(ms));
        assert_eq!(due, [ms(0), ms(250), ms(500), ms(750), None, None]);
        for (elapsed, count) in [(0, 0), (1, 1), (250, 1), (251, 2), (999, 4), (5000, 4)] {
            let elapsed = Duration::from_millis(elapsed);
            assert_eq!(limits.due_until(elapsed), count, "{elapsed:?}");
        }
    }

    #[tokio::test]
    async fn a_count_ends_both_paces_exactly() {
        for rate in [None, Some(1_000_000.0)] {
            let limits = Limits {
                count: Some(5),
                duration: None,
                rate,
            };
            let pace = Pace::start(limits).unwrap();
            let mut begun = 0;
            while pace.next().await.is_some() {
                begun += 1;
            }
            assert_eq!(begun, 5);
            assert_eq!(pace.overdue(), 0);
        }
    }

    /// The omission that is corrected: the third call is asked for only after a stall, and counts from its own time.
    #[tokio::test]
    async fn a_call_that_had_to_wait_counts_from_when_it_was_due() {
        let limits = Limits {
            count: Some(3),
            duration: None,
            rate: Some(1000.0),
        };
        let pace = Pace::start(limits).unwrap();
        let first = pace.next().await.unwrap();
        let second = pace.next().await.unwrap();
        std::thread::sleep(Duration::from_millis(30));
        let third = pace.next().await.unwrap();
        assert_eq!(first, pace.started());
        assert_eq!(second - first, Duration::from_millis(1));
        assert_eq!(third - first, Duration::from_millis(2));
        assert!(third.elapsed() >= Duration::from_millis(28));
    }

    #[tokio::test]
    async fn what_was_never_begun_is_counted() {
        let limits = Limits {
            count: None,
            duration: None,
            rate: Some(1000.0),
        };
        let mut pace = Pace::start(limits).unwrap();
        pace.next().await.unwrap();
        // Not before the first call has begun, however long that took.
        pace.limits.duration = Some(Duration::from_millis(10));
        std::thread::sleep(Duration::from_millis(11));
        assert_eq!(pace.next().await, None);
        assert_eq!(pace.overdue(), 9);
        // What was due after a stop nobody was to begin.
        let duration = Some(Duration::from_secs(1000));
        let pace = Pace::start(Limits { duration, ..limits }).unwrap();
        pace.next().await.unwrap();
        pace.stop();
        let stopped = pace.overdue();
        std::thread::sleep(Duration::from_millis(11));
        assert_eq!(pace.overdue(), stopped);
    }

    #[test]
    fn slices_add_up() {
        let limits = Limits {
            count: Some(23),
            duration: Some(Duration::from_secs(10)),
            rate: Some(2.0),
        };
        let counts: Vec<_> = (0..10)
            .map(|index| limits.slice(index, 10).count.unwrap())
            .collect();
        assert_eq!(counts.iter().sum::<u64>(), 23);
        assert!(counts.iter().all(|count| (2..=3).contains(count)));
        let slice = limits.slice(3, 10);
        assert_eq!(slice.duration, Some(Duration::from_secs(1)));
        assert_eq!(slice.rate, Some(2.0));
    }
}
