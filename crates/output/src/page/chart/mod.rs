//! Charts as SVG: pure functions from figures to elements.
//!
//! A chart is as wide as its place: horizontal places are percentages, so that neither letters nor strokes are stretched.
//! Lines, which know no percentages, stand in a picture of their own within it, which is stretched without its strokes.

mod histogram;
mod over_time;
mod percentiles;
mod scale;

pub use histogram::histogram;
pub use over_time::over_time;
pub use percentiles::percentiles;
pub use scale::{Counts, Latencies};

use crate::load::time;
use maud::{Markup, html};
use std::time::Duration;

/// The height of a plot, in pixels, and of what stands above and below it.
const HEIGHT: f64 = 150.0;
const ABOVE: f64 = 18.0;
const BELOW: f64 = 20.0;

/// The width of the inner picture, in units of its own.
const WIDTH: f64 = 1000.0;

/// A number with so many digits behind the point at most.
fn rounded(number: f64, digits: usize) -> String {
    let text = format!("{number:.digits$}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// A number with at most one digit behind the point, which is finer than a pixel.
fn short(number: f64) -> String {
    rounded(number, 1)
}

/// A place from 0 to 1 as a percentage.
fn percent(place: f64) -> String {
    format!("{}%", rounded(place * 100.0, 3))
}

/// The frame of a chart, with lines at heights from 0 to 1 and words at places from 0 to 1.
fn framed(
    label: &str,
    heights: &[(f64, String)],
    places: &[(f64, String)],
    inside: &Markup,
) -> Markup {
    let bottom = ABOVE + HEIGHT;
    html! {
        svg.chart height=(short(bottom + BELOW)) role="img" aria-label=(label) {
            g.grid {
                @for (height, words) in heights {
                    @let y = short(y_of(*height));
                    line x1="0" x2="100%" y1=(y) y2=(y) {}
                    text x="-8" y=(short(y_of(*height) + 4.0)) text-anchor="end" { (words) }
                }
                line.base x1="0" x2="100%" y1=(short(bottom)) y2=(short(bottom)) {}
            }
            (inside)
            g.axis {
                @for (place, words) in places {
                    text x=(percent(*place)) y=(short(bottom + 15.0)) text-anchor=(anchor(*place)) { (words) }
                }
            }
        }
    }
}

/// Words at an end stay within the chart.
fn anchor(place: f64) -> &'static str {
    match place {
        ..0.04 => "start",
        0.96.. => "end",
        _ => "middle",
    }
}

/// The height from 0 to 1 in pixels from above.
fn y_of(height: f64) -> f64 {
    ABOVE + (1.0 - height) * HEIGHT
}

/// The picture of lines, in which x and y from 0 to 1 are drawn.
fn lines(inside: &Markup) -> Markup {
    html! {
        svg.lines x="0" y=(short(ABOVE)) width="100%" height=(short(HEIGHT))
            viewBox={ "0 0 " (short(WIDTH)) " " (short(HEIGHT)) } preserveAspectRatio="none" { (inside) }
    }
}

/// A line through places and heights from 0 to 1, as the commands of a path. A single point is a dot of its stroke.
fn path(points: &[(f64, f64)]) -> String {
    let mut out = String::new();
    for (index, (place, height)) in points.iter().enumerate() {
        let letter = if index == 0 { 'M' } else { 'L' };
        let (x, y) = (short(place * WIDTH), short((1.0 - height) * HEIGHT));
        out.push_str(&format!("{letter}{x} {y}"));
    }
    if points.len() == 1 {
        out.push_str("h0");
    }
    out
}

/// The latencies at the lines of a grid.
fn latency_grid(scale: &Latencies) -> Vec<(f64, String)> {
    let all = scale.ticks.iter();
    all.map(|tick| (scale.height(*tick), time(*tick))).collect()
}

/// What is told where a mouse rests.
fn calls(count: u64) -> String {
    match count {
        1 => "1 call".to_owned(),
        count => format!("{} calls", crate::load::count(count)),
    }
}

/// A time on an axis, without more digits than it has.
fn moment(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    match seconds {
        0.0 => "0".to_owned(),
        ..1.0 => format!("{}ms", short(seconds * 1e3)),
        ..600.0 => format!("{}s", short(seconds)),
        _ => format!("{}min", short(seconds / 60.0)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_as_short_as_a_pixel_is_wide() {
        for (number, text) in [
            (0.0, "0"),
            (1.0, "1"),
            (1.04, "1"),
            (99.96, "100"),
            (0.25, "0.2"),
        ] {
            assert_eq!(short(number), text);
        }
        for (place, text) in [
            (0.0, "0%"),
            (1.0, "100%"),
            (0.125, "12.5%"),
            (1.0 / 3.0, "33.333%"),
        ] {
            assert_eq!(percent(place), text);
        }
        for (milliseconds, text) in [
            (0, "0"),
            (250, "250ms"),
            (1_500, "1.5s"),
            (60_000, "60s"),
            (1_200_000, "20min"),
        ] {
            assert_eq!(moment(Duration::from_millis(milliseconds)), text);
        }
    }

    #[test]
    fn a_path_goes_through_its_points() {
        for (points, text) in [
            (&[][..], ""),
            (&[(0.5, 0.5)], "M500 75h0"),
            (
                &[(0.0, 0.0), (0.25, 1.0), (1.0, 0.5)],
                "M0 150L250 0L1000 75",
            ),
        ] {
            assert_eq!(path(points), text);
        }
    }
}
