//! Compares two drivers in alternating turns: whose turn is next, and the ratios of the paired turns.
//!
//! A machine is never as fast as it was a minute ago. Turns in the order A B B A A B … give both the same share of that,
//! and the spread between pairs shows how much of it there is.

use super::tally::Tally;
use csi_output::load::Ratio;

/// Whose turn is when: 0 for the first driver and 1 for the second, `turns` for each.
pub fn order(turns: u64) -> impl Iterator<Item = (u64, usize)> {
    (0..turns).flat_map(|turn| {
        let first = usize::from(turn % 2 == 1);
        [(turn, first), (turn, 1 - first)]
    })
}

/// A figure of one row.
type Measure = fn(&Tally, usize) -> f64;

/// The ratios of the second driver to the first, by pairs of their turns. `names` has one for each row that counts.
pub fn ratios(names: &[String], first: &[Tally], second: &[Tally]) -> Vec<Ratio> {
    let measures: [(&str, bool, Measure); 4] = [
        ("per second", true, |tally, row| {
            tally.rows[row].succeeded as f64 / tally.elapsed.as_secs_f64()
        }),
        ("mean", false, |tally, row| {
            tally.rows[row].mean().as_secs_f64()
        }),
        ("p50", false, |tally, row| {
            tally.rows[row].quantile(0.5).as_secs_f64()
        }),
        ("p99", false, |tally, row| {
            tally.rows[row].quantile(0.99).as_secs_f64()
        }),
    ];
    let mut ratios = Vec::new();
    for (row, name) in names.iter().enumerate() {
        for (measure, more_is_better, of) in measures {
            let pairs = first.iter().zip(second);
            let mut all: Vec<f64> = pairs
                .filter(|(a, b)| a.rows[row].calls() > 0 && b.rows[row].calls() > 0)
                .map(|(a, b)| of(b, row) / of(a, row))
                .filter(|ratio| ratio.is_finite())
                .collect();
            all.sort_by(f64::total_cmp);
            let (Some(lowest), Some(highest)) = (all.first(), all.last()) else {
                continue;
            };
            ratios.push(Ratio {
                name: name.clone(),
                measure,
                more_is_better,
                median: median(&all),
                lowest: *lowest,
                highest: *highest,
                pairs: all.len(),
            });
        }
    }
    ratios
}

/// The median of sorted numbers, of which there is one at least.
fn median(sorted: &[f64]) -> f64 {
    let middle = sorted.len() / 2;
    match sorted.len() % 2 {
        0 => f64::midpoint(sorted[middle - 1], sorted[middle]),
        _ => sorted[middle],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::CallOutcome;
    use std::time::{Duration, Instant};
    use tonic::Code;

    #[test]
    fn turns_alternate_so_that_drift_hits_both() {
        let all: Vec<_> = order(4).map(|(_, side)| side).collect();
        assert_eq!(all, [0, 1, 1, 0, 0, 1, 1, 0]);
        let turns: Vec<_> = order(2).map(|(turn, _)| turn).collect();
        assert_eq!(turns, [0, 0, 1, 1]);
    }

    fn tally(calls: u32, milliseconds: u64) -> Tally {
        let mut tally = Tally::new(1, false);
        let outcome = CallOutcome {
            code: Code::Ok,
            message: String::new(),
            reply: bytes::Bytes::new(),
            is_sent: true,
        };
        let since = Instant::now()
            .checked_sub(Duration::from_millis(milliseconds))
            .unwrap();
        for _ in 0..calls {
            tally.call(0, since, &outcome);
        }
        tally.elapsed = Duration::from_secs(1);
        tally
    }

    #[test]
    fn ratios_are_of_pairs_with_their_spread() {
        let names = ["GetPluginInfo".to_owned()];
        let first = [tally(100, 1000), tally(100, 1000), tally(100, 1000)];
        let second = [tally(150, 2000), tally(200, 2000), tally(300, 2000)];
        let all = ratios(&names, &first, &second);
        let rate = &all[0];
        assert_eq!((rate.measure, rate.pairs), ("per second", 3));
        assert_eq!((rate.median, rate.lowest, rate.highest), (2.0, 1.5, 3.0));
        let mean = &all[1];
        assert!((1.9..2.1).contains(&mean.median), "{}", mean.median);
        assert!(ratios(&names, &first, &[tally(0, 0)]).is_empty());
    }
}
