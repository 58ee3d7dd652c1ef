//! gRPC metadata: the keys and values that can be sent, and the bytes that the value of a `-bin` key stands for.
//!
//! The text form is that of maps. Errors name keys and never values, which may be tokens.

use super::map::{self, MapError, TextMap};
use base64::Engine;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use thiserror::Error;

/// Base64 as gRPC takes it: padded or not.
pub const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// What the keys are made of.
pub const OF_KEYS: &str = "keys are letters, digits, '-', '_' and '.', and case does not count";

/// Metadata that cannot be sent.
#[derive(Debug, Error)]
pub enum MetadataError {
    /// Not a map.
    #[error("{0}")]
    Map(MapError),
    /// Not the name of a header, or not one that the caller may set; why.
    #[error("metadata key {0:?} cannot be sent: {1}")]
    Key(String, &'static str),
    /// A value that no header can hold.
    #[error(
        "the value of metadata {key:?} cannot be sent: character {position} is not printable ASCII; binary values have keys that end in -bin, and are written in base64"
    )]
    Value {
        /// The key.
        key: String,
        /// Which character it is, counted from 1.
        position: usize,
    },
    /// A `-bin` key with something else.
    #[error("the value of metadata {0:?} is not base64, which keys that end in -bin need")]
    Base64(String),
}

/// A value as it is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SentValue<'a> {
    /// Printable ASCII.
    Text(&'a str),
    /// The bytes of a `-bin` key, which travel as base64 again.
    Bytes(Vec<u8>),
}

/// The metadata that `text` says, all of which can be sent.
///
/// # Errors
/// When it is no map, and for the first key or value that cannot be sent.
pub fn parse(text: &str) -> Result<TextMap, MetadataError> {
    let map = map::parse(text).map_err(MetadataError::Map)?;
    for (key, text) in &map {
        value(key, text)?;
    }
    Ok(map)
}

/// The value of `key` that `text` stands for; the key may be in either case.
///
/// # Errors
/// When gRPC carries no such key or value, or the key is not the caller's to set.
pub fn value<'a>(key: &str, text: &'a str) -> Result<SentValue<'a>, MetadataError> {
    let lower = key.to_ascii_lowercase();
    check_key(key, &lower)?;
    if lower.ends_with("-bin") {
        return match BASE64.decode(text) {
            Ok(bytes) => Ok(SentValue::Bytes(bytes)),
            Err(_) => Err(MetadataError::Base64(key.to_owned())),
        };
    }
    match text
        .chars()
        .position(|letter| !(' '..='~').contains(&letter))
    {
        None => Ok(SentValue::Text(text)),
        Some(before) => Err(MetadataError::Value {
            key: key.to_owned(),
            position: before + 1,
        }),
    }
}

fn check_key(key: &str, lower: &str) -> Result<(), MetadataError> {
    let is_name = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
    let problem = match lower {
        _ if key.starts_with(':') => "what begins with ':' belongs to HTTP/2 itself",
        _ if key.is_empty() || !key.chars().all(is_name) => OF_KEYS,
        "user-agent" => "it names this program, csi",
        "connection" | "keep-alive" | "proxy-connection" | "transfer-encoding" | "upgrade" => {
            "HTTP/2 has no such header, it is of connections"
        }
        "grpc-timeout" => "it is gRPC's own; --timeout sets it",
        "host" => "it is gRPC's own; --server-name sets the host for https://",
        "te" | "content-type" | "content-length" => "it is gRPC's own",
        _ if lower.starts_with("grpc-") => "it is gRPC's own",
        _ => return Ok(()),
    };
    Err(MetadataError::Key(key.to_owned(), problem))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_grpc_carries_is_taken() {
        let cases: &[(&str, &str, &[u8])] = &[
            ("x-trace-bin", "", b""),
            ("x-trace-bin", "/+8=", b"\xff\xef"),
            ("X-Trace-Bin", "/+8", b"\xff\xef"),
        ];
        for (key, text, bytes) in cases {
            let value = value(key, text).expect(text);
            assert_eq!(value, SentValue::Bytes(bytes.to_vec()), "{text}");
        }
        for (key, text) in [
            ("authorization", "Bearer a.b~ c"),
            ("X-Who", ""),
            ("a_b.c-1", "ends in -bin"),
            ("bin", "\u{7e}"),
        ] {
            assert_eq!(value(key, text).expect(key), SentValue::Text(text));
        }
    }

    #[test]
    fn what_cannot_be_sent_is_refused_with_the_reason() {
        let cases = [
            ("", "v", "keys are letters"),
            (
                "white space",
                "v",
                "\"white space\" cannot be sent: keys are letters",
            ),
            ("schl\u{fc}ssel", "v", "keys are letters"),
            (":authority", "v", "belongs to HTTP/2"),
            ("te", "v", "it is gRPC's own"),
            ("Content-Type", "v", "it is gRPC's own"),
            ("grpc-timeout", "v", "it is gRPC's own; --timeout sets it"),
            ("grpc-trace-bin", "", "it is gRPC's own"),
            ("host", "v", "--server-name"),
            ("connection", "v", "it is of connections"),
            ("user-agent", "v", "it names this program"),
            (
                "foo",
                "\u{fc}",
                "\"foo\" cannot be sent: character 1 is not",
            ),
            ("foo", "a\nb", "character 2 is not"),
            ("foo", "a\tb", "character 2 is not"),
            (
                "x-bin",
                "secret!",
                "the value of metadata \"x-bin\" is not base64",
            ),
        ];
        for (key, text, part) in cases {
            let error = value(key, text).expect_err(part).to_string();
            assert!(error.contains(part), "{error}");
            assert!(text.len() < 2 || !error.contains(text), "{error}");
        }
    }

    #[test]
    fn a_map_is_checked_as_a_whole() {
        let map = parse("a=b,c-bin=YQ").expect("sendable");
        assert_eq!(map::text(&map), "a=b,c-bin=YQ");
        for (text, part) in [("a=b,te=c", "\"te\""), ("a=\"b,c", "entry 1")] {
            let error = parse(text).expect_err(text).to_string();
            assert!(error.contains(part), "{error}");
        }
    }
}
