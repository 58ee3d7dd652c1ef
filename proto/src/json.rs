//! Turns proto3 JSON into a message's bytes: the JSON that `--request` accepts.
//!
//! Either spelling of a field's name, numbers as numbers or text, enums by name or number, `null` for what is not set.
//! Unlike a lenient parser this one refuses what it does not know and says where.
//!
//! Our own, because prost-reflect decodes its descriptors for 1.3 ms at each start; a test compares the two.

use crate::schema::{Cardinality, Field, Kind, Message};
use crate::wire;
use serde_json::Value as Json;
use thiserror::Error;

/// JSON that is not a message of the expected type.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{}: {problem}", if .at.is_empty() { "the request" } else { .at.as_str() })]
pub struct JsonError {
    /// The place in the document, such as `volumeCapabilities[0].accessMode.mode`; empty for the whole document.
    pub at: String,
    /// The problem at that place, with the remedy.
    pub problem: String,
}

/// The bytes of the `message` that `json` says.
///
/// # Errors
/// When a field is unknown, given twice in two spellings, or not of its type.
pub fn encode(message: &'static Message, json: &Json) -> Result<Vec<u8>, JsonError> {
    let mut out = Vec::new();
    encode_message(message, json, "", &mut out)?;
    Ok(out)
}

/// Whether any field marked secret is set in `json`, so that a caller can refuse it where it would be seen.
pub fn has_secrets(message: &'static Message, json: &Json) -> bool {
    let Json::Object(members) = json else {
        return false;
    };
    members.iter().any(|(name, value)| {
        message.field(name).is_some_and(|field| {
            let nested = match field.kind {
                Kind::Message(of) => match value {
                    Json::Array(list) => list.iter().any(|one| has_secrets(of, one)),
                    one => has_secrets(of, one),
                },
                _ => false,
            };
            nested || (field.secret && value.as_object().is_none_or(|map| !map.is_empty()))
        })
    })
}

fn error<T>(at: &str, problem: impl Into<String>) -> Result<T, JsonError> {
    Err(JsonError {
        at: at.to_owned(),
        problem: problem.into(),
    })
}

fn encode_message(
    message: &'static Message,
    json: &Json,
    at: &str,
    out: &mut Vec<u8>,
) -> Result<(), JsonError> {
    let Json::Object(members) = json else {
        return error(at, format!("expected an object ({})", message.short_name()));
    };
    let mut seen: Vec<&'static Field> = Vec::new();
    for (name, value) in members {
        let Some(field) = message.field(name) else {
            let names: Vec<&str> = message.fields.iter().map(|field| field.json_name).collect();
            let has = match names.is_empty() {
                true => "no fields".to_owned(),
                false => names.join(", "),
            };
            return error(
                at,
                format!(
                    "{} has no field {name:?}; it has {has}",
                    message.short_name()
                ),
            );
        };
        let at = match at {
            "" => name.clone(),
            _ => format!("{at}.{name}"),
        };
        for other in &seen {
            if other.number == field.number {
                return error(&at, "given twice, in two spellings");
            }
            if other.oneof.is_some() && other.oneof == field.oneof && !value.is_null() {
                return error(&at, format!("excludes {}", other.json_name));
            }
        }
        if value.is_null() {
            continue;
        }
        seen.push(field);
        encode_field(field, value, &at, out)?;
    }
    Ok(())
}

fn encode_field(
    field: &'static Field,
    value: &Json,
    at: &str,
    out: &mut Vec<u8>,
) -> Result<(), JsonError> {
    match field.cardinality {
        Cardinality::Singular => encode_one(field, value, at, out),
        Cardinality::Repeated => {
            let Json::Array(list) = value else {
                return error(at, "expected a list");
            };
            for (index, one) in list.iter().enumerate() {
                encode_one(field, one, &format!("{at}[{index}]"), out)?;
            }
            Ok(())
        }
        Cardinality::Map => {
            let Json::Object(members) = value else {
                return error(at, "expected an object of text values");
            };
            for (key, value) in members {
                let Json::String(text) = value else {
                    return error(&format!("{at}.{key}"), "expected text in quotes");
                };
                let mut entry = Vec::new();
                wire::put_bytes(&mut entry, 1, key.as_bytes());
                wire::put_bytes(&mut entry, 2, text.as_bytes());
                wire::put_bytes(out, field.number, &entry);
            }
            Ok(())
        }
    }
}

fn encode_one(
    field: &'static Field,
    value: &Json,
    at: &str,
    out: &mut Vec<u8>,
) -> Result<(), JsonError> {
    // Sign extension to 64 bits is how protobuf writes negative numbers of any width.
    let mut number = |number: i64| wire::put_varint(out, field.number, number.cast_unsigned());
    match field.kind {
        Kind::Bool => match value {
            Json::Bool(value) => number(i64::from(*value)),
            _ => return error(at, "expected true or false"),
        },
        Kind::Int32 => number(i64::from(integer::<i32>(value, at)?)),
        Kind::Int64 => number(integer(value, at)?),
        Kind::Enum(of) => match value {
            Json::String(name) => match of.number_of(name) {
                Some(value) => number(i64::from(value)),
                None => {
                    let names: Vec<&str> = of.values.iter().map(|value| value.name).collect();
                    let problem = format!("{name:?} is none of {}", names.join(", "));
                    return error(at, problem);
                }
            },
            _ => number(i64::from(integer::<i32>(value, at)?)),
        },
        Kind::String => match value {
            Json::String(text) => wire::put_bytes(out, field.number, text.as_bytes()),
            _ => return error(at, "expected text in quotes"),
        },
        Kind::Message(of) => {
            let mut nested = Vec::new();
            encode_message(of, value, at, &mut nested)?;
            wire::put_bytes(out, field.number, &nested);
        }
        Kind::BoolValue => match value {
            Json::Bool(value) => wrapper(out, field, i64::from(*value)),
            _ => return error(at, "expected true, false or null"),
        },
        Kind::Int64Value => wrapper(out, field, integer(value, at)?),
        Kind::Timestamp => {
            let time: Option<prost_types::Timestamp> =
                value.as_str().and_then(|text| text.parse().ok());
            let Some(time) = time else {
                return error(at, "expected a time such as \"2026-01-31T12:00:00Z\"");
            };
            wire::put_bytes(out, field.number, &prost::Message::encode_to_vec(&time));
        }
    }
    Ok(())
}

fn wrapper(out: &mut Vec<u8>, field: &Field, value: i64) {
    let mut nested = Vec::new();
    wire::put_varint(&mut nested, 1, value.cast_unsigned());
    wire::put_bytes(out, field.number, &nested);
}

/// A whole number that is given as a number or as text, as canonical JSON has 64 bit numbers; with an exponent or zeros behind the
/// point too.
fn integer<T: TryFrom<i64>>(value: &Json, at: &str) -> Result<T, JsonError> {
    let text = match value {
        Json::Number(number) => number.to_string(),
        Json::String(text) => text.clone(),
        _ => String::new(),
    };
    // From 2^53 on a floating number may have been rounded.
    let is_whole = |number: &f64| number.fract() == 0.0 && number.abs() < 2_f64.powi(53);
    let floating = || text.parse().ok().filter(is_whole);
    let number = text.parse().ok();
    let number = number.or_else(|| floating().map(|number| number as i64));
    match number.and_then(|number| T::try_from(number).ok()) {
        Some(number) => Ok(number),
        None => error(
            at,
            format!(
                "{value} is not a whole number of {} bits",
                size_of::<T>() * 8
            ),
        ),
    }
}
