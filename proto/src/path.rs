//! Paths into a message, such as `volume.volume_id` or `status.published_node_ids`. They are checked against the tables
//! and read straight from the bytes: a table of many rows decodes only its columns.

use crate::schema::{Cardinality, Field, Kind, Message};
use crate::value::{self, Secrets, Value, ValueError};
use crate::wire;
use thiserror::Error;

/// A checked path: a field of every message on the way, separated by dots.
#[derive(Clone, Debug)]
pub struct Path {
    steps: Vec<(&'static Message, &'static Field)>,
}

/// A path that the message does not have.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{message} has no field {name:?}{}", alternatives(.has))]
pub struct PathError {
    /// The message in which the name was looked up.
    pub message: &'static str,
    /// The name that it does not have.
    pub name: String,
    /// The names that it has.
    pub has: Vec<&'static str>,
}

fn alternatives(has: &[&str]) -> String {
    match has {
        [] => ": there are no fields in it".to_owned(),
        has => format!("; it has {}", has.join(", ")),
    }
}

impl Path {
    /// Checks `path` against `message`; names may be in either spelling.
    ///
    /// # Errors
    /// When a name is not a field, or a step goes into something that is not a single message.
    pub fn parse(message: &'static Message, path: &str) -> Result<Self, PathError> {
        let mut steps = Vec::new();
        let mut inside = Some(message);
        let mut within = message.short_name();
        for name in path.split('.') {
            let missing = |has| PathError {
                message: within,
                name: name.to_owned(),
                has,
            };
            let message = inside.ok_or_else(|| missing(Vec::new()))?;
            let field = message
                .field(name)
                .ok_or_else(|| missing(message.fields.iter().map(|field| field.name).collect()))?;
            steps.push((message, field));
            inside = match (field.kind, field.cardinality) {
                (Kind::Message(of), Cardinality::Singular) => Some(of),
                _ => None,
            };
            within = inside.map_or(field.name, Message::short_name);
        }
        Ok(Self { steps })
    }

    /// The field at the path's end.
    pub fn field(&self) -> Option<&'static Field> {
        self.steps.last().map(|(_, field)| *field)
    }

    /// The value at the path in `bytes`; [`Value::Absent`] where a message on the way is not set.
    ///
    /// # Errors
    /// As [`value::decode`].
    pub fn read<'a>(&self, bytes: &'a [u8]) -> Result<Value<'a>, ValueError> {
        read(&self.steps, &[bytes])
    }

    /// The bytes of every element of the repeated message at the path's end, in the order of the wire.
    ///
    /// # Errors
    /// When the bytes are not a protobuf message.
    pub fn elements<'a>(&self, bytes: &'a [u8]) -> Result<Vec<&'a [u8]>, ValueError> {
        let mut level = vec![bytes];
        for (message, field) in &self.steps {
            level = wire::contents(&occurrences(message, field, &level)?);
        }
        Ok(level)
    }
}

/// The contents of every text or message at `path`, through lists and in the order of the wire. None where the message
/// has no such path, and as far as the bytes are good.
pub fn contents<'a>(message: &'static Message, bytes: &'a [u8], path: &str) -> Vec<&'a [u8]> {
    let (name, rest) = match path.split_once('.') {
        Some((name, rest)) => (name, Some(rest)),
        None => (path, None),
    };
    let Some(field) = message.field(name) else {
        return Vec::new();
    };
    let mut found = Vec::new();
    for (number, raw) in wire::fields(bytes).map_while(Result::ok) {
        let wire::Raw::Bytes(content) = raw else {
            continue;
        };
        match (rest, field.kind) {
            _ if number != field.number => {}
            (Some(rest), Kind::Message(of)) => found.extend(contents(of, content, rest)),
            (Some(_), _) => {}
            (None, _) => found.push(content),
        }
    }
    found
}

/// The contents with which `field` occurs in the parts of a `message`, or of several.
fn occurrences<'a>(
    message: &'static Message,
    field: &'static Field,
    parts: &[&'a [u8]],
) -> Result<Vec<wire::Raw<'a>>, ValueError> {
    let mut found = Vec::new();
    for part in parts {
        for one in wire::fields(part) {
            let (number, raw) = one.map_err(ValueError::broken(message))?;
            if number == field.number && value::fits(field, raw) {
                found.push(raw);
            }
        }
    }
    Ok(found)
}

fn read<'a>(
    steps: &[(&'static Message, &'static Field)],
    parts: &[&'a [u8]],
) -> Result<Value<'a>, ValueError> {
    let Some(((message, field), rest)) = steps.split_first() else {
        return Ok(Value::Absent);
    };
    let occurrences = occurrences(message, field, parts)?;
    if rest.is_empty() {
        if field.oneof.is_some() && occurrences.is_empty() {
            return Ok(Value::Absent);
        }
        return Secrets::Mask.field(message, field, &occurrences);
    }
    match occurrences.is_empty() {
        true => Ok(Value::Absent),
        false => read(rest, &wire::contents(&occurrences)),
    }
}
