//! The `grpc-timeout` header of a call: how long its caller waits, in the notation of the gRPC protocol.
//!
//! This file must not know what becomes of the time: a driver answers within it, a recording keeps it.

use std::time::Duration;

/// The header's name.
pub const HEADER: &str = "grpc-timeout";

/// How long a caller waits who has sent this metadata, where it says so.
#[cfg(feature = "server")]
pub fn of(metadata: &tonic::metadata::MetadataMap) -> Option<Duration> {
    parse(metadata.get(HEADER)?.as_bytes())
}

/// The longest time that the protocol can say: eight digits of hours. What is longer counts as this, so that whoever adds
/// it to a clock's time stays within what clocks can say.
pub const LONGEST: Duration = Duration::from_secs(99_999_999 * 3600);

/// The time that the header's value says: digits and a unit of `H`, `M`, `S`, `m`, `u` or `n`.
///
/// The protocol allows eight digits; more are as clear, and count too.
pub fn parse(value: &[u8]) -> Option<Duration> {
    let (unit, digits) = value.split_last()?;
    let amount: u64 = std::str::from_utf8(digits).ok()?.parse().ok()?;
    let time = match unit {
        b'H' => Duration::from_secs(amount.saturating_mul(3600)),
        b'M' => Duration::from_secs(amount.saturating_mul(60)),
        b'S' => Duration::from_secs(amount),
        b'm' => Duration::from_millis(amount),
        b'u' => Duration::from_micros(amount),
        b'n' => Duration::from_nanos(amount),
        _ => return None,
    };
    Some(time.min(LONGEST))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times() {
        for (value, expected) in [
            ("5S", Some(Duration::from_secs(5))),
            ("0n", Some(Duration::ZERO)),
            ("1500m", Some(Duration::from_millis(1500))),
            ("10M", Some(Duration::from_secs(600))),
            ("2H", Some(Duration::from_secs(7200))),
            ("99999999u", Some(Duration::from_micros(99_999_999))),
            ("99999999n", Some(Duration::from_nanos(99_999_999))),
            ("99999999H", Some(LONGEST)),
            // More digits than the protocol allows, and a sign.
            ("123456789S", Some(Duration::from_secs(123_456_789))),
            ("+5S", Some(Duration::from_secs(5))),
            ("18446744073709551615H", Some(LONGEST)),
            ("18446744073709551615S", Some(LONGEST)),
            ("18446744073709551616n", None),
            ("", None),
            ("S", None),
            ("5", None),
            ("x", None),
            ("5x", None),
            ("5s", None),
            ("-1S", None),
            ("1.5S", None),
            (" 5S", None),
            ("5S ", None),
            ("\u{e4}", None),
            ("5\u{e4}", None),
        ] {
            assert_eq!(parse(value.as_bytes()), expected, "{value:?}");
        }
        assert_eq!(parse(b"\xffS"), None);
    }
}
