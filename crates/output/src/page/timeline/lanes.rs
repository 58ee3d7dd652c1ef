//! Lanes: calls at the same time stand beside each other.

use std::time::Duration;

/// The lane of each span, in the order of their beginning: the first that is free then.
pub(crate) fn lanes(spans: &[(Duration, Duration)]) -> Vec<usize> {
    let mut ends: Vec<Duration> = Vec::new();
    let lane = |(from, to): &(Duration, Duration)| {
        let free = ends.iter().position(|end| end <= from);
        let lane = free.unwrap_or(ends.len());
        if free.is_none() {
            ends.push(Duration::ZERO);
        }
        // A call that took no time that could be measured is one nevertheless.
        ends[lane] = (*to).max(*from + Duration::from_nanos(1));
        lane
    };
    spans.iter().map(lane).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_takes_the_first_lane_that_is_free() {
        let ms = |(from, to)| (Duration::from_millis(from), Duration::from_millis(to));
        for (spans, expected) in [
            (&[][..], &[][..]),
            (&[(0, 1), (1, 2), (5, 6)], &[0, 0, 0]),
            (&[(0, 9), (1, 3), (2, 8), (3, 4), (9, 10)], &[0, 1, 2, 1, 0]),
            (&[(1, 1), (1, 1), (1, 2)], &[0, 1, 2]),
        ] {
            let spans: Vec<_> = spans.iter().copied().map(ms).collect();
            assert_eq!(lanes(&spans), expected);
        }
    }
}
