//! Derives the timeout of a call from its `grpc-timeout`. Must not wait. The answer has to leave before the caller stops listening.

use csi_proto::grpc_timeout;
use std::time::Duration;
use tonic::metadata::MetadataMap;

/// How long to wait for an operation: the caller's time less a margin, or `otherwise` when it has set none.
pub(crate) fn timeout(metadata: &MetadataMap, otherwise: Duration) -> Duration {
    match grpc_timeout::of(metadata) {
        Some(given) => given.saturating_sub((given / 10).clamp(MARGIN, Duration::from_secs(2))),
        None => otherwise,
    }
}

const MARGIN: Duration = Duration::from_millis(20);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_leaves_in_time() {
        let otherwise = Duration::from_secs(7);
        assert_eq!(timeout(&MetadataMap::new(), otherwise), otherwise);
        for (text, expected) in [
            ("1000m", Duration::from_millis(900)),
            ("10M", Duration::from_secs(598)),
            ("5m", Duration::ZERO),
            ("5", otherwise),
        ] {
            let mut metadata = MetadataMap::new();
            metadata.insert("grpc-timeout", text.parse().unwrap());
            assert_eq!(timeout(&metadata, otherwise), expected, "{text}");
        }
    }
}
