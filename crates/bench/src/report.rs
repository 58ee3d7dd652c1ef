//! Turns the tallies of a load into the report that is printed.

use super::compare;
use super::moments::Moments;
use super::side::Side;
use super::tally::{Tally, TallyRow};
use csi_error::code_name;
use csi_output::load;
use std::sync::Arc;
use std::time::Duration;
use tonic::Code;

/// The most bars of a histogram.
const BARS: usize = 14;

/// The ends that bars may have, in each power of ten: the finest series that needs not too many bars is taken.
const SERIES: [&[f64]; 5] = [
    &[
        1.0, 1.05, 1.1, 1.15, 1.2, 1.3, 1.4, 1.5, 1.6, 1.8, 2.0, 2.2, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0,
        6.0, 7.0, 8.0, 9.0,
    ],
    &[1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0],
    &[1.0, 1.5, 2.0, 3.0, 5.0, 7.0],
    &[1.0, 2.0, 5.0],
    &[1.0],
];

/// The names of the rows that count: the steps, and the cycle where there is more than one.
pub fn names(side: &Side) -> Vec<String> {
    let steps = side
        .scenario
        .cycle
        .iter()
        .map(|step| step.method.name.to_owned());
    let mut names: Vec<String> = steps.collect();
    if names.len() > 1 {
        names.push("cycle".to_owned());
    }
    names
}

/// The parts of all calls for which a latency is told, as far as so many calls can tell it.
const PARTS: [f64; 12] = [
    0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.995, 0.999, 0.9995, 0.9999,
];

/// The results of the drivers, over all turns of each.
pub fn sides(sides: &[Arc<Side>], turns: &[Vec<Tally>]) -> Vec<load::SideReport> {
    let merged = |(side, turns): (&Arc<Side>, &Vec<Tally>)| {
        let steps = side.scenario.cycle.len();
        let with_moments = turns.iter().any(|turn| turn.moments.is_some());
        let mut all = Tally::new(steps, with_moments);
        turns.iter().for_each(|turn| all.merge(turn));
        all
    };
    let all: Vec<Tally> = sides.iter().zip(turns).map(merged).collect();
    let ends = common_ends(&all);
    let pairs = sides.iter().zip(&all);
    pairs
        .map(|(one, counted)| side(one, counted, &ends))
        .collect()
}

/// The ends of the bars of each row, the same for all drivers.
fn common_ends(all: &[Tally]) -> Vec<Vec<Duration>> {
    let rows = all.iter().map(|tally| tally.rows.len()).max().unwrap_or(0);
    let of = |index: usize| {
        let counted = all.iter().filter_map(|tally| tally.rows.get(index));
        let counted: Vec<_> = counted.filter(|row| row.calls() > 0).collect();
        let min = counted.iter().map(|row| row.min()).min();
        let max = counted.iter().map(|row| row.max()).max();
        min.zip(max)
            .map_or_else(Vec::new, |(min, max)| ends(min, max))
    };
    (0..rows).map(of).collect()
}

fn side(side: &Side, all: &Tally, ends: &[Vec<Duration>]) -> load::SideReport {
    let names = names(side);
    let steps = &side.scenario.cycle;
    let errors = all.errors.iter().filter_map(|((step, code), failures)| {
        Some(load::FailedCalls {
            rpc: steps.get(*step)?.method.name,
            code: code_name(Code::from_i32(i32::from(*code))),
            calls: failures.calls,
            example: failures.example.clone(),
        })
    });
    let mut errors: Vec<_> = errors.collect();
    errors.sort_by_key(|failure| std::cmp::Reverse(failure.calls));
    load::SideReport {
        endpoint: side.node.endpoint.to_string(),
        elapsed: all.elapsed,
        unsent: all.unsent,
        rows: names
            .into_iter()
            .enumerate()
            .zip(ends)
            .map(|((index, name), ends)| row(name, all, index, ends))
            .collect(),
        errors,
    }
}

fn row(name: String, all: &Tally, index: usize, ends: &[Duration]) -> load::LoadRow {
    let row = &all.rows[index];
    let latency = (row.calls() > 0).then(|| {
        let of = |quantile| row.quantile(quantile);
        [
            row.min(),
            row.mean(),
            of(0.5),
            of(0.9),
            of(0.99),
            of(0.999),
            row.max(),
        ]
    });
    let bars = match latency {
        None => Vec::new(),
        Some(_) => {
            let starts = std::iter::once(Duration::ZERO).chain(ends.iter().copied());
            let bars = starts.zip(ends);
            bars.map(|(from, to)| (*to, row.between(from, *to)))
                .collect()
        }
    };
    let moments = all.moments.as_ref().and_then(|rows| rows.get(index));
    let (moments, moment_width) = moments.map(Moments::report).unwrap_or_default();
    load::LoadRow {
        name,
        calls: row.calls(),
        failed: row.failed,
        latency,
        bars,
        parts: parts(row),
        moments,
        moment_width,
    }
}

/// Which part of the calls took at most how long. The longest call stands for the last half of a call.
fn parts(row: &TallyRow) -> Vec<(f64, Duration)> {
    let calls = row.calls() as f64;
    let parts_shown = PARTS.into_iter().filter(|part| part * calls <= calls - 1.0);
    let mut parts: Vec<_> = parts_shown.map(|part| (part, row.quantile(part))).collect();
    if row.calls() > 0 {
        parts.push((1.0 - 0.5 / calls, row.max()));
    }
    parts
}

/// The ratios of the second driver to the first.
pub fn ratios(first: &Side, turns: &[Vec<Tally>]) -> Vec<load::Ratio> {
    match turns {
        [a, b] => compare::ratios(&names(first), a, b),
        _ => Vec::new(),
    }
}

/// The ends of the bars that hold everything from `min` to `max`.
fn ends(min: Duration, max: Duration) -> Vec<Duration> {
    let (min, max) = (min.as_nanos() as f64, max.as_nanos() as f64);
    let mut ends = Vec::new();
    for series in SERIES {
        ends.clear();
        'powers: for power in 0..18 {
            for step in series {
                let end = (step * 10_f64.powi(power)).round();
                if end < min {
                    continue;
                }
                ends.push(Duration::from_nanos(end as u64));
                if end >= max || ends.len() > BARS {
                    break 'powers;
                }
            }
        }
        if ends.len() <= BARS {
            break;
        }
    }
    ends
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_end_at_round_numbers_and_hold_everything() {
        let nanoseconds = Duration::from_nanos;
        for (min, max) in [
            (1, 1),
            (0, 0),
            (123_456, 130_000),
            (100_000, 150_000),
            (80_000, 3_000_000),
            (1_000, 60_000_000_000),
            (1, 3_600_000_000_000),
        ] {
            let ends = ends(nanoseconds(min), nanoseconds(max));
            assert!((1..=BARS).contains(&ends.len()), "{min} {max}: {ends:?}");
            assert!(ends[0] >= nanoseconds(min) && ends[ends.len() - 1] >= nanoseconds(max));
            assert!(ends.is_sorted_by(|a, b| a < b), "{ends:?}");
        }
        let some = ends(nanoseconds(110_000), nanoseconds(190_000));
        assert_eq!(some[0], nanoseconds(110_000));
        assert_eq!(some.len(), 9, "{some:?}");
    }
}
