//! The course of a load: its calls by the moment in which each ended. However long the load, there are few moments: when
//! there are too many, each two become one of double the length.

use csi_output::load::LoadMoment;
use hdrhistogram::Histogram;
use std::time::Duration;

/// The most moments.
const MOST: usize = 120;

/// The fewest moments that are joined for want of calls, and the calls that one has on average then: less than that
/// has no percentiles.
const FEW: usize = 32;
const CALLS: u64 = 8;

/// The length of a moment in the beginning.
const FIRST: Duration = Duration::from_millis(10);

/// The moments of a load.
#[derive(Clone, Debug)]
pub(crate) struct Moments {
    /// The length of each.
    width: Duration,
    all: Vec<Moment>,
}

#[derive(Clone, Debug)]
struct Moment {
    failed: u64,
    /// Nanoseconds, to two digits: more are not seen in a chart.
    latencies: Histogram<u32>,
}

impl Moment {
    fn new() -> Self {
        // Nothing but the number of digits can be wrong.
        let latencies = Histogram::new(2).unwrap_or_else(|_| unreachable!("two digits are few"));
        Self {
            failed: 0,
            latencies,
        }
    }

    fn add(&mut self, other: &Self) {
        self.failed += other.failed;
        // Both grow as they need.
        let _ = self.latencies.add(&other.latencies);
    }
}

impl Moments {
    /// None yet.
    pub fn new() -> Self {
        Self {
            width: FIRST,
            all: Vec::new(),
        }
    }

    /// A call that took so long ended at this time after the beginning.
    pub fn add(&mut self, at: Duration, took: Duration, succeeded: bool) {
        let moment = self.at(at);
        let nanoseconds = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        // It grows as it needs.
        let _ = moment.latencies.record(nanoseconds);
        moment.failed += u64::from(!succeeded);
    }

    /// Adds those of a stretch that began at this time.
    pub fn append(&mut self, other: &Self, begin: Duration) {
        while self.width < other.width {
            self.double();
        }
        for (index, moment) in other.all.iter().enumerate() {
            let from = other.width * u32::try_from(index).unwrap_or(u32::MAX);
            // The middle, so that a moment that lies across two goes where more of it is.
            self.at(begin + from + other.width / 2).add(moment);
        }
    }

    /// The moments in which calls ended, and their length.
    pub fn report(&self) -> (Vec<LoadMoment>, Duration) {
        let mut joined = self.clone();
        while joined.all.len() > FEW && joined.calls() < joined.all.len() as u64 * CALLS {
            joined.double();
        }
        joined.shown()
    }

    fn calls(&self) -> u64 {
        self.all.iter().map(|moment| moment.latencies.len()).sum()
    }

    fn shown(&self) -> (Vec<LoadMoment>, Duration) {
        let line = |(index, moment): (u32, &Moment)| {
            let latency = |part| Duration::from_nanos(moment.latencies.value_at_quantile(part));
            LoadMoment {
                at: self.width * index,
                calls: moment.latencies.len(),
                failed: moment.failed,
                p50: latency(0.5),
                p99: latency(0.99),
                most: Duration::from_nanos(moment.latencies.max()),
            }
        };
        let all = (0..).zip(&self.all);
        let some = all.filter(|(_, moment)| !moment.latencies.is_empty());
        (some.map(line).collect(), self.width)
    }

    /// The moment of a time.
    fn at(&mut self, time: Duration) -> &mut Moment {
        while time.as_nanos() / self.width.as_nanos() >= MOST as u128 {
            self.double();
        }
        // It is below the number of moments.
        let index = (time.as_nanos() / self.width.as_nanos()) as usize;
        if self.all.len() <= index {
            self.all.resize_with(index + 1, Moment::new);
        }
        &mut self.all[index]
    }

    fn double(&mut self) {
        self.width *= 2;
        let pairs = self.all.chunks(2).map(|pair| {
            let mut one = pair[0].clone();
            pair.iter().skip(1).for_each(|other| one.add(other));
            one
        });
        self.all = pairs.collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Duration = Duration::from_millis;

    fn counts(moments: &Moments) -> Vec<(u64, u64, u64)> {
        let (all, _) = moments.shown();
        let figures = |one: &LoadMoment| (one.at.as_millis() as u64, one.calls, one.failed);
        all.iter().map(figures).collect()
    }

    #[test]
    fn calls_stand_in_the_moment_of_their_end() {
        let mut moments = Moments::new();
        for (at, took, succeeded) in [(0, 1, true), (9, 3, false), (10, 5, true), (995, 7, true)] {
            moments.add(MS(at), MS(took), succeeded);
        }
        assert_eq!(counts(&moments), [(0, 2, 1), (10, 1, 0), (990, 1, 0)]);
        let (all, width) = moments.shown();
        assert_eq!(width, MS(10));
        let most = all[0].most.as_secs_f64();
        assert!((most / 0.003 - 1.0).abs() < 0.01, "{most}");
    }

    #[test]
    fn a_long_load_has_few_and_long_moments_and_loses_no_call() {
        let mut moments = Moments::new();
        for at in 0..100_000 {
            moments.add(MS(at), MS(1), at % 10 != 0);
        }
        let (all, width) = moments.report();
        assert!(all.len() <= MOST && width == MS(1280), "{width:?}");
        assert_eq!(all.iter().map(|one| one.calls).sum::<u64>(), 100_000);
        assert_eq!(all.iter().map(|one| one.failed).sum::<u64>(), 10_000);
    }

    #[test]
    fn few_calls_make_few_moments() {
        let mut moments = Moments::new();
        for at in (0..1_000).step_by(20) {
            moments.add(MS(at), MS(1), true);
        }
        let (all, width) = moments.report();
        assert_eq!((all.len(), width), (25, MS(40)));
        assert_eq!(all.iter().map(|one| one.calls).sum::<u64>(), 50);
    }

    #[test]
    fn turns_follow_on_each_other() {
        let mut long = Moments::new();
        long.add(MS(0), MS(1), true);
        long.add(MS(2_000), MS(1), true);
        let mut short = Moments::new();
        short.add(MS(5), MS(1), true);
        short.add(MS(25), MS(1), true);
        let mut all = Moments::new();
        all.append(&short, Duration::ZERO);
        all.append(&long, MS(100));
        all.append(&short, MS(3_000));
        assert_eq!(all.shown().1, MS(40));
        assert_eq!(
            counts(&all),
            [(0, 2, 0), (80, 1, 0), (2_080, 1, 0), (3_000, 2, 0)]
        );
    }
}
