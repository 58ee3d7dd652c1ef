//! Latency over time: the median, what all but a hundredth of the calls did not exceed, and the longest.

use super::{
    Counts, HEIGHT, Latencies, calls, framed, latency_grid, lines, moment, path, percent, short,
    y_of,
};
use crate::load::{LoadMoment, time};
use maud::{Markup, html};
use std::time::Duration;

/// The height of the mark of failed calls.
const MARK: f64 = 5.0;

/// The moments of a load, each `width` long. Moments in which no call ended are gaps.
pub fn over_time(
    label: &str,
    moments: &[LoadMoment],
    width: Duration,
    latencies: &Latencies,
    seconds: &Counts,
) -> Markup {
    let mut places = vec![(0.0, moment(Duration::ZERO))];
    places.extend(
        seconds
            .ticks
            .iter()
            .map(|tick| (seconds.place(*tick), moment(Duration::from_secs_f64(*tick)))),
    );
    let middle = |at: Duration| seconds.place((at + width / 2).as_secs_f64());
    let points = |of: fn(&LoadMoment) -> Duration| {
        let point = |one: &LoadMoment| (middle(one.at), latencies.height(of(one)));
        let stretches = stretches(moments, width);
        stretches
            .into_iter()
            .map(|stretch| stretch.iter().map(point).collect::<Vec<_>>())
            .collect::<Vec<_>>()
    };
    let (p50, p99, most) = (
        points(|one| one.p50),
        points(|one| one.p99),
        points(|one| one.most),
    );
    let drawn = html! {
        @for (low, high) in p50.iter().zip(&p99) { path.band d=(band(low, high)) {} }
        @for (class, all) in [("most", &most), ("p99", &p99), ("p50", &p50)] {
            @for stretch in all { path class=(class) d=(path(stretch)) vector-effect="non-scaling-stroke" {} }
        }
    };
    let slot = seconds.place(width.as_secs_f64());
    let inside = html! {
        (lines(&drawn))
        g.moments {
            @for one in moments {
                @let x = percent(seconds.place(one.at.as_secs_f64()));
                rect x=(x) width=(percent(slot)) y=(short(y_of(1.0))) height=(short(HEIGHT)) data-calls=(one.calls) {
                    title {
                        (time(one.at)) ": " (calls(one.calls)) @if one.failed > 0 { ", " (one.failed) " failed" }
                        ", p50 " (time(one.p50)) ", p99 " (time(one.p99)) ", max " (time(one.most))
                    }
                }
                @if one.failed > 0 {
                    rect.failed x=(x) width=(percent(slot)) y=(short(y_of(0.0) - MARK)) height=(short(MARK)) {}
                }
            }
        }
    };
    framed(label, &latency_grid(latencies), &places, &inside)
}

/// The moments that follow on each other without a gap of two or more.
fn stretches(moments: &[LoadMoment], width: Duration) -> Vec<&[LoadMoment]> {
    moments
        .chunk_by(|one, next| next.at <= one.at + width * 2)
        .collect()
}

/// What lies between two lines over the same places.
fn band(low: &[(f64, f64)], high: &[(f64, f64)]) -> String {
    let around: Vec<_> = low.iter().chain(high.iter().rev()).copied().collect();
    format!("{}Z", path(&around))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64, failed: u64) -> LoadMoment {
        let us = Duration::from_micros;
        LoadMoment {
            at: Duration::from_millis(ms),
            calls: 10,
            failed,
            p50: us(100),
            p99: us(300),
            most: us(900),
        }
    }

    #[test]
    fn a_stall_is_a_gap_and_a_failure_is_marked() {
        let moments = [at(0, 0), at(100, 0), at(700, 3), at(800, 0)];
        let width = Duration::from_millis(100);
        let lengths: Vec<_> = stretches(&moments, width)
            .iter()
            .map(|one| one.len())
            .collect();
        assert_eq!(lengths, [2, 2]);
        let scale = Latencies::of(moments.iter().flat_map(|one| [one.p50, one.most]));
        let text = over_time("latency", &moments, width, &scale, &Counts::up_to(1.0)).into_string();
        assert_eq!(text.matches("class=\"p50\"").count(), 2);
        assert_eq!(text.matches("data-calls=\"10\"").count(), 4);
        assert_eq!(text.matches("class=\"failed\"").count(), 1);
        assert!(
            text.contains("x=\"70%\" width=\"10%\" y=\"163\" height=\"5\""),
            "{text}"
        );
        assert!(
            text.contains("700ms: 10 calls, 3 failed, p50 100µs, p99 300µs, max 900µs"),
            "{text}"
        );
        // The axis begins at 0 and ends at a second.
        assert!(
            text.contains(">0</text>") && text.contains(">1s</text>"),
            "{text}"
        );
    }

    #[test]
    fn a_band_goes_there_and_back() {
        let low = [(0.0, 0.0), (1.0, 0.0)];
        let high = [(0.0, 1.0), (1.0, 1.0)];
        assert_eq!(band(&low, &high), "M0 150L1000 150L1000 0L0 0Z");
    }
}
