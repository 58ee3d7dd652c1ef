//! Random messages, read and written by this package and by `prost-reflect`: both must agree.

#![allow(clippy::unwrap_used)]

use csi_proto::random::from_seed;
use csi_proto::schema::{Cardinality, Field, Kind, Message};
use csi_proto::value::{Secrets, decode};
use csi_proto::{json, tables};
use prost_reflect::{DescriptorPool, DynamicMessage, SerializeOptions};
use serde_json::{Value, json};
use std::path::Path;

/// Draws numbers, the same ones in every run.
struct Random {
    seed: u64,
    drawn: u64,
}

impl Random {
    fn new(seed: u64) -> Self {
        Self { seed, drawn: 0 }
    }

    fn next(&mut self, below: u64) -> u64 {
        self.drawn += 1;
        from_seed(self.seed, self.drawn) % below
    }

    fn text(&mut self) -> String {
        const LETTERS: [&str; 8] = ["a", "Z", "0", "/", "\n", "\u{1b}", "ß", "日"];
        (0..self.next(6))
            .map(|_| LETTERS[self.next(8) as usize])
            .collect()
    }
}

fn message(of: &'static Message, random: &mut Random) -> Value {
    let mut out = serde_json::Map::new();
    let mut oneofs = Vec::new();
    for field in of.fields {
        // Secrets are masked on the way out, which the oracle does not do.
        if random.next(4) == 0 || field.secret {
            continue;
        }
        if let Some(oneof) = field.oneof {
            if oneofs.contains(&oneof) {
                continue;
            }
            oneofs.push(oneof);
        }
        let spelling = if random.next(2) == 0 {
            field.name
        } else {
            field.json_name
        };
        let value = match field.cardinality {
            Cardinality::Singular => one(field, random),
            Cardinality::Repeated => (0..random.next(4)).map(|_| one(field, random)).collect(),
            Cardinality::Map => Value::Object(
                (0..random.next(4))
                    .map(|_| (random.text(), Value::String(random.text())))
                    .collect(),
            ),
        };
        out.insert(spelling.to_owned(), value);
    }
    Value::Object(out)
}

fn one(field: &'static Field, random: &mut Random) -> Value {
    let number = [0, 1, -1, i64::MAX, i64::MIN, 1 << 40][random.next(6) as usize];
    match field.kind {
        Kind::Bool | Kind::BoolValue => json!(random.next(2) == 0),
        Kind::Int32 => json!([0, 1, -1, i32::MAX, i32::MIN][random.next(5) as usize]),
        Kind::Int64 | Kind::Int64Value if random.next(2) == 0 => json!(number),
        Kind::Int64 | Kind::Int64Value => json!(number.to_string()),
        Kind::String => json!(random.text()),
        Kind::Enum(of) => match random.next(3) {
            0 => json!(4711),
            _ => json!(of.values[random.next(of.values.len() as u64) as usize].name),
        },
        Kind::Timestamp => {
            let times = [
                "1970-01-01T00:00:00Z",
                "2026-01-31T12:00:00.5Z",
                "0001-01-01T00:00:00Z",
                "9999-12-31T23:59:59.999999999Z",
            ];
            json!(times[random.next(4) as usize])
        }
        Kind::Message(of) => message(of, random),
    }
}

/// The oracle writes `null` for messages that are not set; both forms are canonical.
fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(members) => {
            let kept = members.into_iter().filter(|(_, value)| !value.is_null());
            Value::Object(
                kept.map(|(key, value)| (key, without_nulls(value)))
                    .collect(),
            )
        }
        Value::Array(list) => list.into_iter().map(without_nulls).collect(),
        other => other,
    }
}

#[test]
fn json_agrees_with_prost_reflect_both_ways() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut compiler = protox::Compiler::new([root]).unwrap();
    compiler
        .include_imports(true)
        .open_file("csi.proto")
        .unwrap();
    let pool = DescriptorPool::decode(compiler.encode_file_descriptor_set().as_slice()).unwrap();
    let mut random = Random::new(1);
    for of in tables::MESSAGES {
        let descriptor = pool.get_message_by_name(of.name).unwrap();
        for _ in 0..50 {
            let document = message(of, &mut random);
            let bytes = json::encode(of, &document)
                .unwrap_or_else(|error| panic!("{}: {error}: {document}", of.name));
            let theirs = DynamicMessage::decode(descriptor.clone(), bytes.as_slice()).unwrap();
            // Reading: what the oracle makes of the same document is the same message.
            let read = DynamicMessage::deserialize(descriptor.clone(), &document)
                .unwrap_or_else(|error| panic!("{}: {error}: {document}", of.name));
            assert_eq!(written(&theirs), written(&read), "{}: {document}", of.name);
            // Writing: both show the same bytes in the same way.
            let expected = written(&theirs);
            let value = decode(of, &bytes, Secrets::Omit).unwrap();
            let ours = serde_json::to_value(&value).unwrap();
            assert_eq!(
                ours,
                without_secrets(of, without_nulls(expected)),
                "{}: {document}",
                of.name
            );
        }
    }
}

/// The oracle's canonical JSON, defaults shown.
fn written(message: &DynamicMessage) -> Value {
    let options = SerializeOptions::new()
        .skip_default_fields(false)
        .stringify_64_bit_integers(true);
    message
        .serialize_with_options(serde_json::value::Serializer, &options)
        .unwrap()
}

/// The oracle shows empty secrets, which we leave out.
fn without_secrets(of: &'static Message, value: Value) -> Value {
    let Value::Object(members) = value else {
        return value;
    };
    let secret = |key: &str| of.field(key).is_some_and(|field| field.secret);
    Value::Object(
        members
            .into_iter()
            .filter(|(key, _)| !secret(key))
            .collect(),
    )
}

#[test]
fn broken_bytes_never_panic() {
    let mut random = Random::new(2);
    for of in tables::MESSAGES {
        for _ in 0..200 {
            let length = random.next(40);
            let bytes: Vec<u8> = (0..length).map(|_| random.next(256) as u8).collect();
            let _ = decode(of, &bytes, Secrets::Mask).map(|value| serde_json::to_string(&value));
        }
    }
}
