//! Durations as Go writes them (`1m30s`), and ages as kubectl shows them (`3m20s`, `12d`).

use std::time::Duration;
use thiserror::Error;

/// A duration that cannot be understood or is out of range.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum DurationError {
    /// Not a list of numbers with units.
    #[error("{0:?} is not a duration: write numbers with units, such as 90s, 1m30s, 500ms or 1.5h")]
    Malformed(String),
    /// A number without a unit.
    #[error(
        "{0:?} has no unit: write {0}s for seconds, {0}ms for milliseconds or {0}m for minutes"
    )]
    NoUnit(String),
    /// A unit that does not exist.
    #[error("unit {unit:?} is unknown: use ns, us, ms, s, m or h")]
    Unit {
        /// The unit as it was written.
        unit: String,
    },
    /// Less than nothing.
    #[error("{0:?} is negative: a duration is 0 or more")]
    Negative(String),
    /// Beyond Go's range of 2^63 nanoseconds.
    #[error("{0:?} is too long: at most 290 years (2540400h)")]
    Overflow(String),
}

/// The duration that `text` says: one or more numbers, each with a unit of `ns`, `us`, `ms`, `s`, `m`, `h`; or `0`.
///
/// A fraction of a nanosecond is dropped, unless nothing else is left: no time at all often means no limit.
///
/// # Errors
/// When it is not a duration, negative, or longer than Go can say.
pub fn parse(text: &str) -> Result<Duration, DurationError> {
    let malformed = || DurationError::Malformed(text.to_owned());
    let overflow = || DurationError::Overflow(text.to_owned());
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    if unsigned.is_empty() {
        return Err(malformed());
    }
    let mut nanoseconds: u128 = 0;
    let mut rest = unsigned;
    while !rest.is_empty() {
        let (number, after) = split(rest, |c| c.is_ascii_digit() || c == '.');
        let (unit, after) = split(after, |c| !c.is_ascii_digit() && c != '.');
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
            return Err(malformed());
        }
        let nonzero = whole.chars().chain(fraction.chars()).any(|c| c != '0');
        if unit.is_empty() {
            match nonzero || rest != unsigned {
                // A unit would not help.
                true if text.starts_with('-') => {
                    return Err(DurationError::Negative(text.to_owned()));
                }
                true => return Err(DurationError::NoUnit(text.to_owned())),
                false => return Ok(Duration::ZERO),
            }
        }
        let scale = scale(unit)?;
        let whole: u128 = match whole {
            "" => 0,
            digits => digits.parse().map_err(|_| overflow())?,
        };
        nanoseconds = whole
            .checked_mul(scale)
            .and_then(|part| nanoseconds.checked_add(part))
            .ok_or_else(overflow)?;
        // No unit holds 10^13 nanoseconds, so digits after the 18th say nothing and would only overflow.
        let digits = &fraction[..fraction.len().min(18)];
        let mut parts = 1;
        let mut numerator = 0;
        for digit in digits.bytes() {
            parts *= 10;
            numerator = numerator * 10 + u128::from(digit - b'0');
        }
        nanoseconds = nanoseconds
            .checked_add(numerator * scale / parts)
            .ok_or_else(overflow)?
            .max(u128::from(nonzero));
        rest = after;
    }
    if text.starts_with('-') && nanoseconds > 0 {
        return Err(DurationError::Negative(text.to_owned()));
    }
    i64::try_from(nanoseconds)
        .map(|nanoseconds| Duration::from_nanos(nanoseconds.unsigned_abs()))
        .map_err(|_| overflow())
}

/// The units of an age. A row holds for ages below its first number, in seconds: then come a unit's seconds and its name, and those of
/// the lesser unit that is shown behind it.
const UNITS: [(u64, u64, &str, u64, &str); 8] = [
    (120, 1, "s", 1, ""),
    (600, 60, "m", 1, "s"),
    (10_800, 60, "m", 60, ""),
    (28_800, 3600, "h", 60, "m"),
    (172_800, 3600, "h", 3600, ""),
    (691_200, 86_400, "d", 3600, "h"),
    (63_072_000, 86_400, "d", 86_400, ""),
    (252_288_000, 31_536_000, "y", 86_400, "d"),
];

/// An age as kubectl shows it: two units where the first is small (`3m20s`, `2d4h`), one where it is not (`15m`, `12d`).
pub fn human(age: Duration) -> String {
    let seconds = age.as_secs();
    let found = UNITS.iter().find(|(below, ..)| seconds < *below);
    let (_, unit, name, lesser, lesser_name) =
        found.unwrap_or(&(0, 31_536_000, "y", 31_536_000, ""));
    match seconds % unit / lesser {
        0 => format!("{}{name}", seconds / unit),
        second => format!("{}{name}{second}{lesser_name}", seconds / unit),
    }
}

/// The longest start of `text` whose characters all match, and the rest.
fn split(text: &str, matches: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.find(|c| !matches(c)).unwrap_or(text.len()))
}

/// How many nanoseconds one of `unit` is.
fn scale(unit: &str) -> Result<u128, DurationError> {
    Ok(match unit {
        "ns" => 1,
        // Both of Unicode's letters for micro, as in Go.
        "us" | "\u{b5}s" | "\u{3bc}s" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        _ => {
            return Err(DurationError::Unit {
                unit: unit.to_owned(),
            });
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn durations_are_go_s() {
        let cases = [
            ("0", 0),
            ("-0", 0),
            ("0s", 0),
            ("-0s", 0),
            ("1s.5s", 1_500_000_000),
            ("90s", 90_000_000_000),
            ("1m30s", 90_000_000_000),
            ("500ms", 500_000_000),
            ("1.5h", 5_400_000_000_000),
            ("100us", 100_000),
            ("100\u{b5}s", 100_000),
            ("100\u{3bc}s", 100_000),
            ("1ns", 1),
            ("1.9ns", 1),
            (".5s", 500_000_000),
            ("1.s", 1_000_000_000),
            ("+5s", 5_000_000_000),
            ("1h1m1s1ms1us1ns", 3_661_001_001_001),
            ("0.000000001s", 1),
            ("0.0000000001s", 1),
            ("0.333333333333333333h", 1_199_999_999_999),
            (
                "0.3333333333333333333333333333333333333333h",
                1_199_999_999_999,
            ),
            ("1s1s", 2_000_000_000),
            ("2540400h", 9_145_440_000_000_000_000),
        ];
        for (text, nanoseconds) in cases {
            assert_eq!(parse(text), Ok(Duration::from_nanos(nanoseconds)), "{text}");
        }
    }

    #[test]
    fn nonsense_is_refused() {
        for text in ["", "-", "s", ".s", "1.2.3s", "-s", " 1s", "ten"] {
            let error = parse(text).expect_err(text);
            assert_eq!(error, DurationError::Malformed(text.to_owned()));
        }
        for text in ["30", "1.5", "1m30", "1m0"] {
            let error = parse(text).expect_err(text);
            assert_eq!(error, DurationError::NoUnit(text.to_owned()));
        }
        for text in ["1d", "1sec", "1S", "1m 30s", "3 s"] {
            let error = parse(text).expect_err(text);
            assert!(
                matches!(error, DurationError::Unit { .. }),
                "{text}: {error}"
            );
        }
        for text in ["-1s", "-1ns", "-1", "-1m30"] {
            let error = parse(text).expect_err(text);
            assert_eq!(error, DurationError::Negative(text.to_owned()));
        }
        for text in ["9999999h", "99999999999999999999999999999999999999999999h"] {
            let error = parse(text).expect_err(text);
            assert_eq!(error, DurationError::Overflow(text.to_owned()));
        }
    }

    #[test]
    fn ages_read_as_in_kubectl() {
        let (minute, hour, day) = (60, 3600, 86_400);
        let cases = [
            (0, "0s"),
            (5, "5s"),
            (119, "119s"),
            (2 * minute, "2m"),
            (3 * minute + 20, "3m20s"),
            (10 * minute + 20, "10m"),
            (179 * minute, "179m"),
            (180 * minute, "3h"),
            (4 * hour, "4h"),
            (4 * hour + 5 * minute, "4h5m"),
            (8 * hour + 5 * minute, "8h"),
            (47 * hour, "47h"),
            (2 * day, "2d"),
            (2 * day + 4 * hour, "2d4h"),
            (8 * day + 4 * hour, "8d"),
            (729 * day, "729d"),
            (730 * day, "2y"),
            (735 * day, "2y5d"),
            (3000 * day, "8y"),
        ];
        for (seconds, text) in cases {
            assert_eq!(human(Duration::from_secs(seconds)), text, "{seconds}");
        }
    }

    proptest! {
        #[test]
        fn nothing_panics(text in ".*", seconds: u64) {
            let _ = parse(&text);
            let _ = human(Duration::from_secs(seconds));
        }

        #[test]
        fn units_add_up(h in 0_u64..1000, m in 0_u64..1000, s in 0_u64..1000, ms in 0_u64..1000, ns in 0_u64..1000) {
            let text = format!("{h}h{m}m{s}s{ms}ms{ns}ns");
            let expected = Duration::new(h * 3600 + m * 60 + s, 0) + Duration::from_millis(ms) + Duration::from_nanos(ns);
            prop_assert_eq!(parse(&text), Ok(expected));
        }

        #[test]
        fn young_ages_come_back(seconds in 0_u64..600) {
            let age = Duration::from_secs(seconds);
            prop_assert_eq!(parse(&human(age)), Ok(age));
        }

        #[test]
        fn seconds_with_decimals_are_exact(nanoseconds in 0_u64..10_000_000_000) {
            let text = format!("{}.{:09}s", nanoseconds / 1_000_000_000, nanoseconds % 1_000_000_000);
            prop_assert_eq!(parse(&text), Ok(Duration::from_nanos(nanoseconds)));
        }
    }
}
