//! Percentiles: which part of the calls took at most how long. Each nine of the part has the same room.

use super::{Latencies, framed, latency_grid, lines, path, percent, rounded, short, y_of};
use crate::load::time;
use maud::{Markup, html};
use std::time::Duration;

/// The parts that have a word, in percent.
const WORDS: [(f64, &str); 6] = [
    (0.0, "0%"),
    (0.5, "50%"),
    (0.9, "90%"),
    (0.99, "99%"),
    (0.999, "99.9%"),
    (0.9999, "99.99%"),
];

/// The line of each driver, by the letter that its style has: parts of all calls, 0 to 1, and latencies.
pub fn percentiles(
    label: &str,
    sides: &[(&str, &[(f64, Duration)])],
    latencies: &Latencies,
) -> Markup {
    let parts = sides
        .iter()
        .flat_map(|(_, points)| points.iter().map(|(part, _)| *part));
    let last = parts.map(nines).fold(1.0, f64::max);
    let place = |part: f64| nines(part) / last;
    let words = WORDS.iter().filter(|(part, _)| nines(*part) <= last);
    let places: Vec<_> = words
        .map(|(part, word)| (place(*part), (*word).to_owned()))
        .collect();
    let points = |points: &[(f64, Duration)]| -> Vec<_> {
        let point = |(part, latency): &(f64, Duration)| (place(*part), latencies.height(*latency));
        points.iter().map(point).collect()
    };
    let drawn = html! {
        @for (letter, side) in sides {
            path class=(letter) d=(path(&points(side))) vector-effect="non-scaling-stroke" {}
        }
    };
    let inside = html! {
        (lines(&drawn))
        @for (letter, side) in sides {
            g.dots.(letter) {
                @for ((x, height), (part, latency)) in points(side).iter().zip(*side) {
                    circle cx=(percent(*x)) cy=(short(y_of(*height))) r="3" {
                        title { (in_percent(*part)) " took up to " (time(*latency)) }
                    }
                }
            }
        }
    };
    framed(label, &latency_grid(latencies), &places, &inside)
}

/// How many nines a part of all has: 1 for 90 %, 2 for 99 %. All are taken for a tenth of a millionth less.
fn nines(part: f64) -> f64 {
    -(1.0 - part).max(1e-7).log10()
}

fn in_percent(part: f64) -> String {
    format!("{} %", rounded(part * 100.0, 4))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_nine_has_the_same_room() {
        for (part, expected) in [
            (0.0, 0.0),
            (0.9, 1.0),
            (0.99, 2.0),
            (0.999, 3.0),
            (1.0, 7.0),
        ] {
            assert!((nines(part) - expected).abs() < 1e-9, "{part}");
        }
        for (part, text) in [
            (0.0, "0 %"),
            (0.5, "50 %"),
            (0.999, "99.9 %"),
            (0.9999, "99.99 %"),
        ] {
            assert_eq!(in_percent(part), text);
        }
    }

    #[test]
    fn every_driver_has_a_line_and_a_dot_a_point() {
        let ms = Duration::from_millis;
        let one = [(0.0, ms(1)), (0.5, ms(2)), (0.9, ms(4)), (0.99, ms(8))];
        let other = [(0.0, ms(2)), (0.5, ms(2))];
        let scale = Latencies::of([ms(1), ms(8)]);
        let text = percentiles("percentiles", &[("a", &one), ("b", &other)], &scale).into_string();
        assert_eq!(text.matches("<circle").count(), 6);
        assert_eq!(text.matches("<path class=\"a\"").count(), 1);
        assert!(
            text.contains("cx=\"100%\"") && text.contains("99 % took up to 8.00ms"),
            "{text}"
        );
        // 99 % is the last part, and nothing lies behind it.
        assert!(
            text.contains(">99%</text>") && !text.contains(">99.9%</text>"),
            "{text}"
        );
    }
}
