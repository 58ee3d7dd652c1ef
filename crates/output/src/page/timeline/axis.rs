//! The axis of a timeline. Calls of an orchestrator come in bursts with minutes between: idle times are cut short, so that
//! the calls have the room.

use std::time::Duration;

/// The part of the busy time that all idle times together may seem to last.
const IDLE: f64 = 0.5;

/// An axis on which long idle times are cut.
#[derive(Debug)]
pub(crate) struct TimeAxis {
    pieces: Vec<Piece>,
}

/// A stretch of time and where it stands, 0 to 1.
#[derive(Debug, PartialEq)]
struct Piece {
    from: Duration,
    to: Duration,
    left: f64,
    right: f64,
    /// Whether it is an idle time that is shown shorter than it was.
    cut: bool,
}

/// An idle time that is shown shorter than it was.
#[derive(Debug, PartialEq)]
pub struct Cut {
    /// The place of its beginning, 0 to 1.
    pub left: f64,
    /// The place of its end.
    pub right: f64,
    /// How long it was.
    pub time: Duration,
}

impl TimeAxis {
    /// The axis of spans, in the order of their beginning.
    pub fn of(spans: &[(Duration, Duration)]) -> Self {
        let mut busy: Vec<(Duration, Duration)> = Vec::new();
        for (from, to) in spans {
            match busy.last_mut() {
                Some((_, end)) if *end >= *from => *end = (*end).max(*to),
                _ => busy.push((*from, *to)),
            }
        }
        let total: f64 = busy
            .iter()
            .map(|(from, to)| (*to - *from).as_secs_f64())
            .sum();
        let idle = busy.len().saturating_sub(1).max(1);
        // Calls that took no time at all still stand apart.
        let longest = (total.max(1e-6) * IDLE) / idle as f64;
        let mut pieces = Vec::new();
        let mut at = 0.0;
        let mut add = |from: Duration, to: Duration, cut: bool| {
            let length = (to - from).as_secs_f64();
            let is_cut = cut && length > longest;
            let right = at + if is_cut { longest } else { length };
            pieces.push(Piece {
                from,
                to,
                left: at,
                right,
                cut: is_cut,
            });
            at = right;
        };
        let mut before: Option<Duration> = None;
        for (from, to) in &busy {
            if let Some(before) = before {
                add(before, *from, true);
            }
            add(*from, *to, false);
            before = Some(*to);
        }
        if at > 0.0 {
            for piece in &mut pieces {
                piece.left /= at;
                piece.right /= at;
            }
        }
        Self { pieces }
    }

    /// The place of a time, 0 to 1.
    pub fn place(&self, time: Duration) -> f64 {
        let piece = self.pieces.iter().find(|piece| time <= piece.to);
        let Some(piece) = piece.or(self.pieces.last()) else {
            return 0.0;
        };
        let length = piece.to.saturating_sub(piece.from).as_secs_f64();
        let into = time.saturating_sub(piece.from).as_secs_f64();
        let part = if length > 0.0 {
            (into / length).min(1.0)
        } else {
            0.0
        };
        piece.left + part * (piece.right - piece.left)
    }

    /// The idle times that are cut.
    pub fn cuts(&self) -> impl Iterator<Item = Cut> {
        let cut = self.pieces.iter().filter(|piece| piece.cut);
        cut.map(|piece| Cut {
            left: piece.left,
            right: piece.right,
            time: piece.to - piece.from,
        })
    }

    /// The times that are written below, no two closer than `apart`: where bursts begin.
    pub fn words(&self, apart: f64) -> Vec<(f64, Duration)> {
        let mut words: Vec<(f64, Duration)> = Vec::new();
        for piece in self.pieces.iter().filter(|piece| !piece.cut) {
            let is_far = words
                .last()
                .is_none_or(|(last, _)| piece.left - last >= apart);
            if is_far && piece.left <= 1.0 - apart / 2.0 {
                words.push((piece.left, piece.from));
            }
        }
        if let Some(end) = self.pieces.last()
            && words.last().is_some_and(|(last, _)| 1.0 - last >= apart)
        {
            words.push((1.0, end.to));
        }
        words
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn axis(spans: &[(u64, u64)]) -> TimeAxis {
        let seconds = Duration::from_secs;
        let spans: Vec<_> = spans
            .iter()
            .map(|(from, to)| (seconds(*from), seconds(*to)))
            .collect();
        TimeAxis::of(&spans)
    }

    #[test]
    fn idle_times_are_cut_and_calls_are_not() {
        for (spans, places, cuts) in [
            (&[][..], &[(5, 0.0)][..], 0),
            (
                &[(2, 6)],
                &[(0, 0.0), (2, 0.0), (4, 0.5), (6, 1.0), (9, 1.0)],
                0,
            ),
            // Two bursts of 4 s, an hour apart: the hour is as wide as 4 s.
            (
                &[(0, 4), (3604, 3608)],
                &[(4, 1.0 / 3.0), (3604, 2.0 / 3.0), (3606, 5.0 / 6.0)],
                1,
            ),
            // A second is shorter than what is cut.
            (&[(0, 2), (3, 5)], &[(2, 0.4), (3, 0.6)], 0),
            // What overlaps is one burst.
            (&[(0, 5), (1, 2), (4, 10)], &[(5, 0.5)], 0),
        ] {
            let axis = axis(spans);
            for (time, place) in places {
                let found = axis.place(Duration::from_secs(*time));
                assert!(
                    (found - place).abs() < 1e-9,
                    "{spans:?}: {time} is at {found}"
                );
            }
            assert_eq!(axis.cuts().count(), cuts, "{spans:?}");
        }
        let cut = axis(&[(0, 4), (3604, 3608)]).cuts().next();
        assert_eq!(cut.map(|cut| cut.time), Some(Duration::from_secs(3600)));
    }

    #[test]
    fn calls_without_a_measured_duration_stand_apart() {
        let axis = axis(&[(1, 1), (2, 2), (3, 3)]);
        let places = [1, 2, 3].map(|time| axis.place(Duration::from_secs(time)));
        assert_eq!(places, [0.0, 0.5, 1.0]);
    }

    #[test]
    fn words_do_not_meet() {
        let axis = axis(&[(0, 4), (4000, 4001), (8000, 8004)]);
        let words: Vec<_> = axis
            .words(0.3)
            .iter()
            .map(|(_, time)| time.as_secs())
            .collect();
        assert_eq!(words, [0, 4000, 8004]);
        for pair in axis.words(0.1).windows(2) {
            assert!(pair[1].0 - pair[0].0 >= 0.1);
        }
    }
}
