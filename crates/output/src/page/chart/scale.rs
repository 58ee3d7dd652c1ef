//! Scales: which values an axis shows, where, and at which of them it has a line.

use std::time::Duration;

/// The most lines of an axis.
const LINES: usize = 6;

/// The steps between lines in a power of ten, the finest first.
const STEPS: [&[f64]; 3] = [&[1.0, 2.0, 5.0], &[1.0, 3.0], &[1.0]];

/// A logarithmic axis of latencies: those of one driver may be a thousand times those of another.
#[derive(Clone, Debug, PartialEq)]
pub struct Latencies {
    low: f64,
    high: f64,
    /// The latencies that have a line.
    pub ticks: Vec<Duration>,
}

impl Latencies {
    /// The axis that has all of these, and little more.
    pub fn of(all: impl IntoIterator<Item = Duration>) -> Self {
        let (mut low, mut high) = (f64::MAX, 1.0_f64);
        for latency in all {
            let nanoseconds = (latency.as_nanos() as f64).max(1.0);
            low = low.min(nanoseconds);
            high = high.max(nanoseconds);
        }
        // A flat line stands in the middle.
        let low = low.min(high) / 1.3;
        let high = high * 1.3;
        Self {
            low: low.ln(),
            high: high.ln(),
            ticks: ticks(low, high),
        }
    }

    /// The height of a latency, from 0 to 1.
    pub(crate) fn height(&self, latency: Duration) -> f64 {
        let nanoseconds = (latency.as_nanos() as f64).max(1.0);
        ((nanoseconds.ln() - self.low) / (self.high - self.low)).clamp(0.0, 1.0)
    }
}

/// Round values between two, in the finest steps that are not too many.
fn ticks(low: f64, high: f64) -> Vec<Duration> {
    let mut ticks = Vec::new();
    for every in 1..18 {
        for steps in STEPS {
            ticks.clear();
            for power in (0..18).step_by(every) {
                let values = steps.iter().map(|step| step * 10_f64.powi(power));
                ticks.extend(values.filter(|value| (low..=high).contains(value)));
            }
            if ticks.len() <= LINES {
                return ticks
                    .into_iter()
                    .map(|value| Duration::from_nanos(value as u64))
                    .collect();
            }
        }
    }
    Vec::new()
}

/// A linear axis of numbers from 0 on.
#[derive(Clone, Debug, PartialEq)]
pub struct Counts {
    /// The highest number.
    pub most: f64,
    /// The numbers that have a line, without 0.
    pub ticks: Vec<f64>,
}

impl Counts {
    /// The axis up to this number.
    pub fn up_to(most: f64) -> Self {
        let most = most.max(f64::MIN_POSITIVE);
        let power = 10_f64.powf((most / 4.0).log10().floor());
        let steps = [1.0, 2.0, 5.0, 10.0].map(|step| step * power);
        let step = steps.into_iter().find(|step| most / step <= 4.0);
        let step = step.unwrap_or(most);
        let ticks = (1..=4).map(|index| f64::from(index) * step);
        Self {
            most,
            ticks: ticks.filter(|tick| *tick <= most * 1.000_001).collect(),
        }
    }

    /// The place of a number, from 0 to 1.
    pub fn place(&self, number: f64) -> f64 {
        (number / self.most).clamp(0.0, 1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_axis_of_latencies_has_all_and_a_few_round_lines() {
        let us = Duration::from_micros;
        for (all, lines) in [
            (&[][..], &[1][..]),
            (&[us(0)], &[1]),
            (&[us(100)], &[100_000]),
            (&[us(90), us(210)], &[100_000, 200_000]),
            (
                &[us(80), us(3_000)],
                &[100_000, 200_000, 500_000, 1_000_000, 2_000_000],
            ),
            (&[us(1), us(1_000)], &[1_000, 10_000, 100_000, 1_000_000]),
            (
                &[us(10), us(60_000_000)],
                &[10_000, 1_000_000, 100_000_000, 10_000_000_000],
            ),
        ] {
            let axis = Latencies::of(all.iter().copied());
            let found: Vec<_> = axis.ticks.iter().map(Duration::as_nanos).collect();
            assert_eq!(found, lines, "{all:?}");
            for latency in all {
                assert!((0.0..=1.0).contains(&axis.height(*latency)), "{all:?}");
            }
        }
        let axis = Latencies::of([us(10), us(1_000)]);
        assert!((axis.height(us(100)) - 0.5).abs() < 0.001);
        assert!(axis.height(us(10)) < axis.height(us(11)));
    }

    #[test]
    fn an_axis_of_counts_begins_at_zero_and_ends_at_the_most() {
        for (most, ticks) in [
            (1.0, &[0.5, 1.0][..]),
            (7.0, &[2.0, 4.0, 6.0]),
            (10.0, &[5.0, 10.0]),
            (12.0, &[5.0, 10.0]),
            (1234.0, &[500.0, 1000.0]),
            (0.04, &[0.01, 0.02, 0.03, 0.04]),
        ] {
            let axis = Counts::up_to(most);
            assert_eq!(axis.ticks.len(), ticks.len(), "{most}: {:?}", axis.ticks);
            for (tick, expected) in axis.ticks.iter().zip(ticks) {
                assert!((tick - expected).abs() < 1e-9, "{most}: {:?}", axis.ticks);
            }
            assert!((axis.place(most) - 1.0).abs() < 1e-9);
        }
        assert_eq!(Counts::up_to(0.0).place(1.0), 1.0);
    }
}
