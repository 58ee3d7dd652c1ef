//! Sizes in bytes, as Kubernetes writes quantities: `10Gi`, `1.5G`, `1073741824`.

use thiserror::Error;

/// A size that cannot be understood or is out of range.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum SizeError {
    /// No number at the start, or no unit after it.
    #[error(
        "{0:?} is not a size: write a number of bytes, or one with a unit, such as 10Gi, 512Mi or 1.5G"
    )]
    Malformed(String),
    /// A unit that does not exist.
    #[error(
        "unit {0:?} is unknown: use Ki, Mi, Gi, Ti, Pi, Ei (powers of 1024) or k, M, G, T, P, E (powers of 1000)"
    )]
    Unit(String),
    /// Kubernetes' unit for thousandths, which is a mistake for bytes.
    #[error("unit \"m\" would be thousandths of a byte: write M (1000 x 1000) or Mi (1024 x 1024)")]
    Milli,
    /// Beyond what a CSI message can carry.
    #[error("{0} is too large: a size is less than 8Ei in either direction")]
    Overflow(String),
}

const UNITS: [char; 6] = ['k', 'm', 'g', 't', 'p', 'e'];

/// The number of bytes that `text` says.
///
/// Units of 1024 are `Ki` to `Ei`, units of 1000 `k` to `E`; a `B` may follow (`10GiB`), and case does not matter except
/// for a lone `m`. A fraction of a byte is rounded away from zero, as Kubernetes does. Negative sizes are let through,
/// so that a driver can be sent nonsense.
///
/// # Errors
/// When it is not a size or does not fit in 64 bits.
pub fn parse(text: &str) -> Result<i64, SizeError> {
    parse_rounded(text).map(|(bytes, _)| bytes)
}

/// The same for what says a whole number of bytes.
///
/// # Errors
/// As [`parse`], and for a fraction of a byte.
pub fn parse_exact(text: &str) -> Result<i64, SizeError> {
    match parse_rounded(text)? {
        (bytes, false) => Ok(bytes),
        (_, true) => Err(SizeError::Malformed(text.to_owned())),
    }
}

/// The number of bytes, and whether it was rounded.
fn parse_rounded(text: &str) -> Result<(i64, bool), SizeError> {
    let malformed = || SizeError::Malformed(text.to_owned());
    let overflow = || SizeError::Overflow(text.trim().to_owned());
    let (negative, unsigned) = match text.trim() {
        signed if signed.starts_with('-') => (true, &signed[1..]),
        signed => (false, signed.strip_prefix('+').unwrap_or(signed)),
    };
    let end = unsigned
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(unsigned.len());
    let (number, unit) = unsigned.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
        return Err(malformed());
    }
    let scale = scale(unit.trim_start())?;
    let whole: i128 = match whole {
        "" => 0,
        digits => digits.parse().map_err(|_| overflow())?,
    };
    let mut bytes = whole.checked_mul(scale).ok_or_else(overflow)?;
    let mut is_rounded = false;
    // Each decimal is worth a tenth of the one before it; what remains below a byte rounds up.
    let fraction = fraction.trim_end_matches('0');
    if fraction.len() > 18 {
        return Err(malformed());
    }
    if !fraction.is_empty() {
        let digits: i128 = fraction.parse().map_err(|_| malformed())?;
        let parts = 10_i128.pow(u32::try_from(fraction.len()).map_err(|_| malformed())?);
        let product = digits * scale;
        is_rounded = product % parts != 0;
        let rounded = product / parts + i128::from(is_rounded);
        bytes = bytes.checked_add(rounded).ok_or_else(overflow)?;
    }
    let signed = if negative { -bytes } else { bytes };
    let bytes = i64::try_from(signed).map_err(|_| overflow())?;
    Ok((bytes, is_rounded))
}

/// The size as one reads it in a table: `10Gi`, `1536Mi`, `9.3Gi`.
///
/// Exact in the largest unit that takes at most four digits, else with one decimal in the largest unit that it fills.
pub fn human(bytes: i64) -> String {
    let sign = if bytes < 0 { "-" } else { "" };
    let size = bytes.unsigned_abs();
    if size < 1024 {
        return format!("{bytes}");
    }
    let largest = (size.ilog2() / 10) as usize;
    for power in (largest.saturating_sub(1)..=largest).rev() {
        let unit = 1_u64 << (10 * power);
        if size.is_multiple_of(unit) && size / unit < 10_000 {
            return format!("{sign}{}{}", size / unit, name(power));
        }
    }
    let tenths = |power: usize| {
        let unit = 1_u128 << (10 * power);
        (u128::from(size) * 10 + unit / 2) / unit
    };
    // 1023.97Mi is 1.0Gi, not 1024.0Mi.
    let power = if tenths(largest) >= 10_240 {
        largest + 1
    } else {
        largest
    };
    format!(
        "{sign}{}.{}{}",
        tenths(power) / 10,
        tenths(power) % 10,
        name(power)
    )
}

fn name(power: usize) -> &'static str {
    ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"][power]
}

/// How many bytes one of `unit` is.
fn scale(unit: &str) -> Result<i128, SizeError> {
    if unit == "m" {
        return Err(SizeError::Milli);
    }
    let lower = unit.to_ascii_lowercase();
    let lower = lower.strip_suffix('b').unwrap_or(&lower);
    let (prefix, base) = match lower.strip_suffix('i') {
        Some(prefix) => (prefix, 1024_i128),
        None => (lower, 1000_i128),
    };
    let power = match prefix {
        "" if base == 1000 => Some(0),
        prefix => UNITS
            .iter()
            .position(|unit| prefix.chars().eq([*unit]))
            .map(|index| index + 1),
    };
    power
        .and_then(|power| base.checked_pow(u32::try_from(power).ok()?))
        .ok_or_else(|| SizeError::Unit(unit.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn sizes_are_exact() {
        let cases = [
            ("0", 0),
            ("1073741824", 1 << 30),
            ("10Gi", 10 << 30),
            ("10GiB", 10 << 30),
            ("10gi", 10 << 30),
            ("10 Gi", 10 << 30),
            (" 10Gi ", 10 << 30),
            ("512Ki", 512 << 10),
            ("1.5G", 1_500_000_000),
            ("1.5GB", 1_500_000_000),
            ("1.5Gi", 3 << 29),
            ("1k", 1000),
            ("1K", 1000),
            ("5M", 5_000_000),
            ("2B", 2),
            (".5Ki", 512),
            ("1.", 1),
            ("+1Ki", 1024),
            ("-1Ki", -1024),
            ("0.1Ki", 103),
            ("-0.1Ki", -103),
            ("0.5", 1),
            ("1.50000000000000000000000Ki", 1536),
            ("8191Pi", 8191 << 50),
            ("7Ei", 7 << 60),
            ("9223372036854775807", i64::MAX),
            ("-9223372036854775808", i64::MIN),
            ("-8Ei", i64::MIN),
        ];
        for (text, bytes) in cases {
            assert_eq!(parse(text), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn nonsense_is_refused() {
        for text in [
            "",
            " ",
            "Gi",
            "-",
            ".",
            "1.2.3",
            "--1",
            "ten",
            "\u{661}",
            "0.1234567890123456789",
        ] {
            let error = parse(text).expect_err(text);
            assert_eq!(error, SizeError::Malformed(text.to_owned()));
        }
        for text in ["1X", "1Gx", "1i", "1iB", "1GiBB", "1e9", "1Zi", "1 G i"] {
            let error = parse(text).expect_err(text);
            assert!(matches!(error, SizeError::Unit(..)), "{text}: {error}");
        }
        for text in [
            "8Ei",
            "9223372036854775808",
            "-9223372036854775809",
            "99999999999999999999999999999999999999999",
            "10E",
        ] {
            let error = parse(text).expect_err(text);
            assert!(matches!(error, SizeError::Overflow(_)), "{text}: {error}");
        }
        assert_eq!(parse("10m"), Err(SizeError::Milli));
    }

    #[test]
    fn sizes_read_as_in_kubectl() {
        let cases = [
            (0, "0"),
            (1023, "1023"),
            (1024, "1Ki"),
            (1025, "1025"),
            (10_001, "9.8Ki"),
            (1536, "1536"),
            (10 << 30, "10Gi"),
            (1536 << 20, "1536Mi"),
            (1025 << 20, "1025Mi"),
            (10_000 << 20, "9.8Gi"),
            (10_000_000_000, "9.3Gi"),
            ((1 << 30) - 1, "1.0Gi"),
            ((1 << 30) - (1 << 20), "1023Mi"),
            (-(10 << 30), "-10Gi"),
            (i64::MAX, "8.0Ei"),
            (i64::MIN, "-8Ei"),
        ];
        for (bytes, text) in cases {
            assert_eq!(human(bytes), text, "{bytes}");
        }
    }

    proptest! {
        #[test]
        fn nothing_panics(text in ".*", bytes: i64) {
            let _ = parse(&text);
            let _ = human(bytes);
        }

        #[test]
        fn numbers_and_units_come_back(number in -8000_i64..8000, power in 0_usize..6) {
            let bytes = number << (10 * power);
            let text = format!("{number}{}", name(power));
            prop_assert_eq!(parse(&text), Ok(bytes));
            // Four digits are always exact.
            prop_assert_eq!(parse(&human(bytes)), Ok(bytes));
        }

        #[test]
        fn plain_bytes_come_back(bytes: i64) {
            prop_assert_eq!(parse(&bytes.to_string()), Ok(bytes));
        }

        #[test]
        fn human_sizes_are_near(bytes in 1024_i64..i64::MAX / 2) {
            let shown = parse(&human(bytes)).expect("a size");
            prop_assert!(shown.abs_diff(bytes) as f64 <= bytes as f64 * 0.05 + 1.0);
        }
    }
}
