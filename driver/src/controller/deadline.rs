//! How long a call may wait, from its `grpc-timeout`. The answer has to leave before the caller stops listening.

use std::time::Duration;
use tonic::metadata::MetadataMap;

/// How long to wait for an operation: the caller's time less a margin, or `otherwise` when it has set none.
pub(crate) fn patience(metadata: &MetadataMap, otherwise: Duration) -> Duration {
    let header = metadata
        .get("grpc-timeout")
        .and_then(|value| value.to_str().ok());
    match header.and_then(parse) {
        Some(given) => given.saturating_sub((given / 10).clamp(MARGIN, Duration::from_secs(2))),
        None => otherwise,
    }
}

const MARGIN: Duration = Duration::from_millis(20);

/// At most eight digits and a unit, as the gRPC protocol has it.
fn parse(text: &str) -> Option<Duration> {
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    if digits.is_empty() || digits.len() > 8 || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let number: u64 = digits.parse().ok()?;
    Some(match unit {
        "H" => Duration::from_secs(number * 3600),
        "M" => Duration::from_secs(number * 60),
        "S" => Duration::from_secs(number),
        "m" => Duration::from_millis(number),
        "u" => Duration::from_micros(number),
        "n" => Duration::from_nanos(number),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_leaves_in_time() {
        let with = |text: &str| {
            let mut metadata = MetadataMap::new();
            metadata.insert("grpc-timeout", text.parse().unwrap());
            patience(&metadata, Duration::from_secs(7))
        };
        assert_eq!(with("1000m"), Duration::from_millis(900));
        assert_eq!(with("10M"), Duration::from_secs(598));
        assert_eq!(with("5m"), Duration::ZERO);
        for odd in ["", "5", "x", "123456789S", "-1S", "ä"] {
            if odd.is_ascii() {
                assert_eq!(with(odd), Duration::from_secs(7), "{odd:?}");
            }
        }
    }
}
