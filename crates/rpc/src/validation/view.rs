//! A message's fields by their names, read from the bytes when a rule asks for them.
//!
//! Reads leniently: what is broken or missing counts as not set, for `walk` reports broken bytes where they stand.

use csi_proto::path::Path;
use csi_proto::schema::{Kind, Message};
use csi_proto::value::Value;
use csi_proto::wire::{self, Raw};
use std::borrow::Cow;

/// A message's type and bytes.
#[derive(Clone, Copy, Debug)]
pub struct MessageView<'a> {
    message: &'static Message,
    bytes: &'a [u8],
}

impl<'a> MessageView<'a> {
    /// `bytes`, which should be a `message`.
    pub fn new(message: &'static Message, bytes: &'a [u8]) -> Self {
        Self { message, bytes }
    }

    /// The value at a path such as `volume.volume_id`; secrets are masked.
    pub fn read(&self, path: &str) -> Value<'a> {
        let path = Path::parse(self.message, path);
        debug_assert!(path.is_ok(), "{path:?}");
        path.ok()
            .and_then(|path| path.read(self.bytes).ok())
            .unwrap_or(Value::Absent)
    }

    /// Whether the field at `path` is specified.
    pub(crate) fn is_set(&self, path: &str) -> bool {
        is_specified(&self.read(path))
    }

    /// The number at `path`, 0 where there is none.
    pub fn number(&self, path: &str) -> i64 {
        match self.read(path) {
            Value::Int32(number) | Value::Enum(number, _) => i64::from(number),
            Value::Int64(number) => number,
            _ => 0,
        }
    }

    /// The text at `path`, empty where there is none.
    pub fn text(&self, path: &str) -> Cow<'a, str> {
        match self.read(path) {
            Value::Text(text) => text,
            _ => Cow::Borrowed(""),
        }
    }

    /// The values of the list at `path`.
    pub fn list(&self, path: &str) -> Vec<Value<'a>> {
        match self.read(path) {
            Value::List(list) => list,
            _ => Vec::new(),
        }
    }

    /// The texts of the list at `path`.
    pub fn texts(&self, path: &str) -> Vec<Cow<'a, str>> {
        let values = self.list(path).into_iter();
        values
            .filter_map(|value| match value {
                Value::Text(text) => Some(text),
                _ => None,
            })
            .collect()
    }

    /// The elements of a repeated message of this message. They are not decoded, for there may be many.
    pub fn elements(&self, name: &str) -> Vec<MessageView<'a>> {
        let field = self.message.field(name);
        let Some((number, Kind::Message(of))) = field.map(|field| (field.number, field.kind))
        else {
            debug_assert!(false, "{name} is not a message field");
            return Vec::new();
        };
        wire::fields(self.bytes)
            .flatten()
            .filter_map(|part| match part {
                (found, Raw::Bytes(bytes)) if found == number => Some(MessageView::new(of, bytes)),
                _ => None,
            })
            .collect()
    }
}

/// Whether a value counts as specified in the sense of the specification's section "REQUIRED vs. OPTIONAL". A truth value
/// always does: proto3 does not tell false from missing.
pub(crate) fn is_specified(value: &Value<'_>) -> bool {
    match value {
        Value::Absent => false,
        Value::Text(text) => !text.is_empty(),
        Value::Enum(number, _) | Value::Int32(number) => *number != 0,
        Value::Int64(number) => *number != 0,
        Value::List(list) => !list.is_empty(),
        Value::Map(map) => !map.is_empty(),
        Value::Bool(_) | Value::Timestamp(_) | Value::Message(_) => true,
    }
}
