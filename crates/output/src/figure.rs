//! Times and rates as JSON numbers, rounded to the precision of the measurement: they read as people write decimals. And
//! numbers of things in words.
//!
//! A number that is made from an integer by one division is the nearest to its decimal, and is written as short as that.
//! `as_secs_f64() * 1000.0` rounds three times, and is written as 1.2000000000000002.

use std::fmt::Display;
use std::time::Duration;

/// Milliseconds, in steps of a microsecond.
pub fn milliseconds(time: Duration) -> f64 {
    time.as_micros() as f64 / 1e3
}

/// Seconds, in steps of a microsecond: how long calls and runs take.
pub fn seconds(time: Duration) -> f64 {
    time.as_micros() as f64 / 1e6
}

/// Seconds, in steps of a nanosecond: latencies, of which many are shorter than a microsecond's steps can tell apart.
pub(crate) fn exact_seconds(time: Duration) -> f64 {
    time.as_nanos() as f64 / 1e9
}

/// A rate or ratio, in steps of a millionth; 0 for what is no number.
pub fn ratio(value: f64) -> f64 {
    let rounded = (value * 1e6).round() / 1e6;
    if rounded.is_finite() { rounded } else { 0.0 }
}

/// A number of things, such as `1 volume` or `2 volumes`.
pub fn counted<N: Display + PartialEq + From<u8>>(count: N, thing: &str) -> String {
    let plural = if count == N::from(1) { "" } else { "s" };
    format!("{count} {thing}{plural}")
}

/// The first of some names, and how many there are besides.
pub fn some(names: &[impl AsRef<str>], most: usize) -> String {
    let shown: Vec<&str> = names.iter().take(most).map(AsRef::as_ref).collect();
    match names.len().saturating_sub(most) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_written_as_decimals() {
        let written = |number: f64| serde_json::Value::from(number).to_string();
        for microseconds in [0, 200, 1_200, 1_100_000, 4_100_001, 86_400_999_999] {
            let time = Duration::from_micros(microseconds);
            let decimal = |digits: usize, number: String| {
                let (whole, part) = number.split_at(number.len() - digits);
                let part = part.trim_end_matches('0');
                format!("{whole}.{}", if part.is_empty() { "0" } else { part })
            };
            let six = format!("{microseconds:07}");
            let three = format!("{microseconds:04}");
            assert_eq!(written(seconds(time)), decimal(6, six));
            assert_eq!(written(milliseconds(time)), decimal(3, three));
        }
        assert_eq!(
            written(exact_seconds(Duration::from_nanos(4_100_000_001))),
            "4.100000001"
        );
        assert_eq!(written(ratio(0.1 + 0.2)), "0.3");
        assert_eq!(written(ratio(f64::NAN)), "0.0");
    }
}
