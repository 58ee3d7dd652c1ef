//! Shows messages of unknown types: their fields by number, each as the likeliest kind of value.
//!
//! The wire does not say whether bytes are a text, a message or neither, so this is a guess, for people who asked to look.
//! Secrets cannot be told from anything else here: whoever shows the result must have been told that they may.

use crate::value::{Key, Value, unknown_number};
use crate::wire::{self, Raw, WireError};
use base64::Engine as _;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// How deep messages are looked for in messages. Deeper ones are bytes.
const DEPTH_MAX: usize = 16;

/// The fields of `bytes` by number: numbers as they are; bytes as text where all of it can be printed, else as a message
/// where they are one, else as text of several lines, else in base64.
///
/// # Errors
/// When the bytes are no protobuf message.
pub fn guess(bytes: &[u8]) -> Result<Value<'_>, WireError> {
    message(bytes, DEPTH_MAX)
}

fn message(bytes: &[u8], depth: usize) -> Result<Value<'_>, WireError> {
    let mut fields: BTreeMap<u32, Vec<Value<'_>>> = BTreeMap::new();
    for field in wire::fields(bytes) {
        let (number, raw) = field?;
        fields.entry(number).or_default().push(one(raw, depth));
    }
    let fields = fields.into_iter().map(|(number, mut values)| {
        let value = match values.len() {
            1 => values.remove(0),
            _ => Value::List(values),
        };
        (Key::Unknown(number), value)
    });
    Ok(Value::Message(fields.collect()))
}

fn one(raw: Raw<'_>, depth: usize) -> Value<'_> {
    let Raw::Bytes(bytes) = raw else {
        return unknown_number(raw);
    };
    let text = std::str::from_utf8(bytes).ok();
    let without = |allowed: &[char]| {
        text.filter(|text| {
            !text
                .chars()
                .any(|letter| letter.is_control() && !allowed.contains(&letter))
        })
    };
    if let Some(text) = without(&[]) {
        return Value::Text(Cow::Borrowed(text));
    }
    if depth > 0
        && let Ok(inner) = message(bytes, depth - 1)
    {
        return inner;
    }
    Value::Text(match without(&['\n', '\r', '\t']) {
        Some(text) => Cow::Borrowed(text),
        None => Cow::Owned(base64::engine::general_purpose::STANDARD.encode(bytes)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::v1::CreateVolumeRequest;
    use prost::Message as _;

    fn json(bytes: &[u8]) -> serde_json::Value {
        serde_json::to_value(guess(bytes).expect("a message")).expect("JSON")
    }

    #[test]
    fn texts_messages_numbers_and_bytes_are_told_apart() {
        let mut bytes = CreateVolumeRequest {
            name: "pvc-1".to_owned(),
            parameters: [("share".to_owned(), "/export".to_owned())].into(),
            ..Default::default()
        }
        .encode_to_vec();
        wire::put_varint(&mut bytes, 20, 7);
        wire::put_varint(&mut bytes, 20, u64::MAX);
        wire::put_bytes(&mut bytes, 21, b"");
        wire::put_bytes(&mut bytes, 22, &[0xff, 0xfe]);
        wire::put_bytes(&mut bytes, 23, b"two\nlines");
        assert_eq!(
            json(&bytes),
            serde_json::json!({
                "#1": "pvc-1",
                "#4": {"#1": "share", "#2": "/export"},
                "#20": ["7", "-1"],
                "#21": "",
                "#22": "//4=",
                "#23": "two\nlines",
            })
        );
        assert_eq!(guess(&[0x0a, 5]), Err(WireError::Truncated));
    }

    #[test]
    fn messages_in_messages_end_somewhere() {
        let mut bytes = vec![0x08, 1];
        for _ in 0..1000 {
            let mut outer = Vec::new();
            wire::put_bytes(&mut outer, 1, &bytes);
            bytes = outer;
        }
        let mut value = &json(&bytes);
        let mut depth = 0;
        while let Some(inner) = value.get("#1") {
            (value, depth) = (inner, depth + 1);
        }
        assert_eq!(depth, DEPTH_MAX + 1);
        assert!(value.is_string(), "{value}");
    }
}
