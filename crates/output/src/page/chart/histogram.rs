//! The histogram: how many calls took how long.

use super::{ABOVE, Counts, HEIGHT, calls, framed, percent, short};
use crate::load::{count, time};
use maud::{Markup, html};
use std::time::Duration;

/// The part of a bar's place that is left free beside it.
const FREE: f64 = 0.12;

/// The words below the bars, at most.
const WORDS: usize = 5;

/// Bars with the latency up to which each counts; `most` is the axis of all histograms that are compared.
pub fn histogram(label: &str, bars: &[(Duration, u64)], most: &Counts) -> Markup {
    let heights: Vec<_> = most
        .ticks
        .iter()
        .filter(|tick| tick.fract() == 0.0)
        .map(|tick| (most.place(*tick), count(*tick as u64)))
        .collect();
    let width = 1.0 / bars.len().max(1) as f64;
    let every = bars.len().div_ceil(WORDS).max(1);
    // The last end is the one that tells how long a call took at most.
    let ends = bars.iter().enumerate().rev().step_by(every);
    let places: Vec<_> = ends
        .map(|(index, (to, _))| ((index + 1) as f64 * width, time(*to)))
        .collect();
    let inside = html! {
        g.bars {
            @for (index, (to, number)) in bars.iter().enumerate() {
                @let height = drawn(*number, most);
                rect x=(percent((index as f64 + FREE / 2.0) * width)) width=(percent(width * (1.0 - FREE)))
                    y=(short(ABOVE + HEIGHT - height)) height=(short(height)) data-calls=(number) {
                    title { (calls(*number)) " took up to " (time(*to)) }
                }
            }
        }
    };
    framed(label, &heights, &places, &inside)
}

/// The height of a bar in pixels. What is there is seen.
fn drawn(number: u64, most: &Counts) -> f64 {
    match number {
        0 => 0.0,
        number => (most.place(number as f64) * HEIGHT).max(1.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_as_high_as_their_calls() {
        let most = Counts::up_to(1000.0);
        for (number, height) in [(0, 0.0), (1, 1.0), (500, 75.0), (1000, 150.0)] {
            assert_eq!(drawn(number, &most), height);
        }
    }

    #[test]
    fn every_bar_is_drawn_and_few_have_words() {
        let bars: Vec<_> = (1..=14)
            .map(|ms| (Duration::from_millis(ms), ms * 10))
            .collect();
        let text = histogram("calls", &bars, &Counts::up_to(140.0)).into_string();
        assert_eq!(text.matches("<rect").count(), 14);
        assert!(
            text.contains("data-calls=\"140\"><title>140 calls took up to 14.0ms"),
            "{text}"
        );
        assert!(text.contains("text-anchor=\"end\">14.0ms"), "{text}");
        assert_eq!(
            text.split("class=\"axis\"")
                .nth(1)
                .unwrap()
                .matches("<text")
                .count(),
            5
        );
        let one = histogram(
            "calls",
            &[(Duration::from_millis(1), 1)],
            &Counts::up_to(1.0),
        )
        .into_string();
        assert!(
            one.contains("x=\"6%\" width=\"88%\" y=\"18\" height=\"150\""),
            "{one}"
        );
        assert_eq!(
            histogram("calls", &[], &Counts::up_to(0.0))
                .into_string()
                .matches("<rect")
                .count(),
            0
        );
    }
}
