//! Counts a load's calls: how many, how long, which errors. Latencies are histograms with three significant digits;
//! those of failed calls count too, because a stall that ends in a time-out is no less a stall.

use super::client::CallOutcome;
use super::moments::Moments;
use hdrhistogram::Histogram;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use tonic::Code;

/// The calls of one RPC, or the cycles of several.
#[derive(Clone, Debug)]
pub(crate) struct TallyRow {
    /// The calls that ended with OK.
    pub succeeded: u64,
    /// The calls that failed.
    pub failed: u64,
    shortest: Duration,
    longest: Duration,
    total: Duration,
    /// Nanoseconds.
    histogram: Histogram<u64>,
}

/// The errors of one RPC with one code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failures {
    /// The number of calls with this error.
    pub calls: u64,
    /// The first one's words.
    pub example: String,
}

/// The calls of a stretch of a load.
#[derive(Clone, Debug)]
pub struct Tally {
    /// One row for each step, and behind them one for whole cycles.
    pub rows: Vec<TallyRow>,
    /// By step and code.
    pub errors: BTreeMap<(usize, u8), Failures>,
    /// How each row went on; only where somebody wants to see it.
    pub moments: Option<Vec<Moments>>,
    /// Calls that were due and never begun.
    pub unsent: u64,
    /// The time between the beginning of the first call and the end of the last.
    pub elapsed: Duration,
    started: Option<Instant>,
}

impl TallyRow {
    fn new() -> Self {
        // Nothing but the number of digits can be wrong.
        let histogram = Histogram::new(3).unwrap_or_else(|_| unreachable!("three digits are few"));
        Self {
            succeeded: 0,
            failed: 0,
            shortest: Duration::MAX,
            longest: Duration::ZERO,
            total: Duration::ZERO,
            histogram,
        }
    }

    fn add(&mut self, took: Duration, succeeded: bool) {
        match succeeded {
            true => self.succeeded += 1,
            false => self.failed += 1,
        }
        self.shortest = self.shortest.min(took);
        self.longest = self.longest.max(took);
        self.total += took;
        let nanoseconds = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        // It grows as it needs.
        let _ = self.histogram.record(nanoseconds);
    }

    fn merge(&mut self, other: &Self) {
        self.succeeded += other.succeeded;
        self.failed += other.failed;
        self.shortest = self.shortest.min(other.shortest);
        self.longest = self.longest.max(other.longest);
        self.total += other.total;
        // Both grow as they need; the one that cannot is the one beyond 2^63 nanoseconds.
        let _ = self.histogram.add(&other.histogram);
    }

    /// The number of all calls.
    pub fn calls(&self) -> u64 {
        self.succeeded + self.failed
    }

    /// The latency that this part of all calls, 0 to 1, did not exceed.
    pub(crate) fn quantile(&self, quantile: f64) -> Duration {
        self.told(self.histogram.value_at_quantile(quantile))
    }

    /// The latency that a number in the histogram stands for, which is rounded up.
    fn told(&self, nanoseconds: u64) -> Duration {
        Duration::from_nanos(nanoseconds).min(self.longest)
    }

    /// The shortest latency.
    pub fn min(&self) -> Duration {
        self.shortest.min(self.longest)
    }

    /// The longest latency.
    pub fn max(&self) -> Duration {
        self.longest
    }

    /// The mean latency.
    pub fn mean(&self) -> Duration {
        self.total.div_f64(self.calls().max(1) as f64)
    }

    /// The number of calls that took longer than `from` and at most `to`; the lowest bar holds the shortest too.
    pub fn between(&self, from: Duration, to: Duration) -> u64 {
        let all = self.histogram.iter_recorded();
        all.map(|step| {
            (
                self.told(step.value_iterated_to()),
                step.count_since_last_iteration(),
            )
        })
        .filter(|(value, _)| (from < *value || from.is_zero()) && *value <= to)
        .map(|(_, count)| count)
        .sum()
    }
}

impl Tally {
    /// Nothing yet, of that many steps, and if so wanted with how each row goes on.
    pub fn new(steps: usize, with_moments: bool) -> Self {
        let rows = steps + 1;
        Self {
            rows: std::iter::repeat_with(TallyRow::new).take(rows).collect(),
            errors: BTreeMap::new(),
            moments: with_moments.then(|| vec![Moments::new(); rows]),
            unsent: 0,
            elapsed: Duration::ZERO,
            started: None,
        }
    }

    /// Starts the clock of the tally.
    pub fn start(&mut self, at: Instant) {
        self.started = Some(at);
    }

    /// A call of a step has ended; its latency counts from `since`.
    pub fn call(&mut self, step: usize, since: Instant, outcome: &CallOutcome) {
        let now = Instant::now();
        let succeeded = outcome.code == Code::Ok;
        self.add(step, now, now.saturating_duration_since(since), succeeded);
        if let Some(started) = self.started {
            self.elapsed = now.saturating_duration_since(started);
        }
        if !succeeded {
            let key = (step, csi_error::code_number(outcome.code));
            let failures = self.errors.entry(key).or_insert_with(|| Failures {
                calls: 0,
                example: outcome.message.clone(),
            });
            failures.calls += 1;
        }
    }

    /// A cycle has ended.
    pub fn cycle(&mut self, since: Instant, succeeded: bool) {
        let now = Instant::now();
        let last = self.rows.len().saturating_sub(1);
        self.add(last, now, now.saturating_duration_since(since), succeeded);
    }

    fn add(&mut self, row: usize, now: Instant, took: Duration, succeeded: bool) {
        if let Some(counted) = self.rows.get_mut(row) {
            counted.add(took, succeeded);
        }
        let moments = self.moments.as_mut().and_then(|all| all.get_mut(row));
        if let (Some(moments), Some(started)) = (moments, self.started) {
            moments.add(now.saturating_duration_since(started), took, succeeded);
        }
    }

    /// Adds another stretch.
    pub(crate) fn merge(&mut self, other: &Self) {
        for (row, other) in self.rows.iter_mut().zip(&other.rows) {
            row.merge(other);
        }
        for (key, failures) in &other.errors {
            let mine = self.errors.entry(*key).or_insert_with(|| Failures {
                calls: 0,
                example: failures.example.clone(),
            });
            mine.calls += failures.calls;
        }
        if let (Some(moments), Some(others)) = (&mut self.moments, &other.moments) {
            for (mine, other) in moments.iter_mut().zip(others) {
                mine.append(other, self.elapsed);
            }
        }
        self.unsent += other.unsent;
        self.elapsed += other.elapsed;
    }

    /// Calls of all steps, and how many of them failed.
    pub fn totals(&self) -> (u64, u64) {
        let steps = self.rows.len().saturating_sub(1);
        self.rows
            .iter()
            .take(steps)
            .fold((0, 0), |(calls, failed), row| {
                (calls + row.calls(), failed + row.failed)
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(code: Code, message: &str) -> CallOutcome {
        CallOutcome {
            code,
            message: message.to_owned(),
            reply: bytes::Bytes::new(),
            is_sent: true,
        }
    }

    #[test]
    fn quantiles_are_right_to_three_digits() {
        let mut row = TallyRow::new();
        for milliseconds in 1..=1000 {
            row.add(Duration::from_millis(milliseconds), true);
        }
        for (quantile, milliseconds) in [(0.5, 500.0), (0.9, 900.0), (0.99, 990.0), (0.999, 999.0)]
        {
            let got = row.quantile(quantile).as_secs_f64() * 1e3;
            assert!(
                (got / milliseconds - 1.0).abs() < 0.001,
                "{quantile}: {got}"
            );
        }
        assert!((row.mean().as_secs_f64() / 0.5005 - 1.0).abs() < 0.001);
        assert_eq!(
            (row.min(), row.max()),
            (Duration::from_millis(1), Duration::from_millis(1000))
        );
        let half = Duration::from_micros(500_500);
        let (low, high) = (
            row.between(Duration::ZERO, half),
            row.between(half, row.max()),
        );
        assert_eq!(low + high, 1000);
        assert!((499..=501).contains(&low), "{low}");
    }

    #[test]
    fn of_one_call_all_latencies_are_its_own() {
        let mut row = TallyRow::new();
        let took = Duration::from_nanos(10_534_999);
        row.add(took, true);
        let all = [row.min(), row.mean(), row.quantile(0.5), row.max()];
        assert_eq!(all, [took; 4]);
        assert_eq!(row.between(Duration::ZERO, took), 1);
    }

    #[test]
    fn errors_are_kept_by_step_and_code_with_their_first_words() {
        let mut tally = Tally::new(2, false);
        let now = Instant::now();
        tally.start(now);
        tally.call(0, now, &outcome(Code::Ok, ""));
        tally.call(1, now, &outcome(Code::Aborted, "busy 1"));
        tally.call(1, now, &outcome(Code::Aborted, "busy 2"));
        tally.call(1, now, &outcome(Code::Internal, "fire"));
        let mut other = Tally::new(2, false);
        other.call(1, now, &outcome(Code::Aborted, "busy 3"));
        tally.merge(&other);
        let failures = |calls, example: &str| Failures {
            calls,
            example: example.to_owned(),
        };
        assert_eq!(tally.errors[&(1, 10)], failures(3, "busy 1"));
        assert_eq!(tally.errors[&(1, 13)], failures(1, "fire"));
        assert_eq!(tally.totals(), (5, 4));
    }
}
