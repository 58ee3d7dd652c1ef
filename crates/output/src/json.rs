//! Canonical proto3 JSON, pretty or one document a line. A reply's list is written entry by entry, never built whole.

use super::reply::{Format, OutputError};
use csi_proto::schema::{Cardinality, Message};
use csi_proto::text::Escaping;
use csi_proto::value::{Key, Secrets, Value, decode};
use csi_proto::wire::{self, Raw};
use serde::Serialize;
use serde::ser::{Error as _, SerializeMap, Serializer};
use serde_json::Value as Json;
use serde_json::ser::{CompactFormatter, PrettyFormatter};
use std::io::Write;

/// A message that is decoded while it is written.
pub struct Document<'a> {
    /// The type of the message.
    pub message: &'static Message,
    /// The bytes of the message.
    pub bytes: &'a [u8],
    /// Whether secrets are shown or masked.
    pub secrets: Secrets,
}

impl Serialize for Document<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let fields = self.message.fields.iter();
        let mut lists = fields.filter(|field| field.cardinality == Cardinality::Repeated);
        let Some((list, message)) = lists.find_map(|list| Some((list, list.message()?))) else {
            let value = decode(self.message, self.bytes, self.secrets).map_err(S::Error::custom)?;
            return value.serialize(serializer);
        };
        // Everything but the list is small: it is decoded without the list's bytes.
        let (mut entries, mut rest) = (Vec::new(), Vec::new());
        for part in wire::fields(self.bytes) {
            match part.map_err(S::Error::custom)? {
                (number, Raw::Bytes(bytes)) if number == list.number => entries.push(Self {
                    message,
                    bytes,
                    secrets: self.secrets,
                }),
                (number, raw) => wire::put(&mut rest, number, raw),
            }
        }
        let rest = decode(self.message, &rest, self.secrets).map_err(S::Error::custom)?;
        let Value::Message(rest) = rest else {
            return rest.serialize(serializer);
        };
        let mut out = serializer.serialize_map(None)?;
        for (key, value) in rest {
            match key {
                Key::Known(field) if field.number == list.number => {
                    out.serialize_entry(list.json_name, &entries)?;
                }
                key => out.serialize_entry(&key.to_string(), &value)?,
            }
        }
        out.end()
    }
}

/// Writes `document` over several lines.
///
/// # Errors
/// When the bytes are not the message or `out` cannot be written.
pub fn pretty(document: &impl Serialize, out: &mut impl Write) -> Result<(), OutputError> {
    let mut serializer =
        serde_json::Serializer::with_formatter(&mut *out, Escaping(PrettyFormatter::new()));
    document.serialize(&mut serializer).map_err(from_json)?;
    Ok(out.write_all(b"\n")?)
}

/// `document` as pretty text.
pub fn text(document: &impl Serialize) -> Result<String, OutputError> {
    let mut out = Vec::new();
    pretty(document, &mut out)?;
    Ok(String::from_utf8_lossy(&out).into_owned())
}

/// A tool's JSON: over several lines, or on one, a list on one for each entry.
pub fn in_format(document: &Json, format: Format) -> Result<String, OutputError> {
    let entries = match (format, document) {
        (Format::Jsonl, Json::Array(entries)) => entries.as_slice(),
        (Format::Jsonl, one) => std::slice::from_ref(one),
        _ => return text(document),
    };
    let mut out = Vec::new();
    for entry in entries {
        line(entry, &mut out)?;
    }
    Ok(String::from_utf8_lossy(&out).into_owned())
}

/// Writes `document` as one line.
///
/// # Errors
/// When the bytes are not the message or `out` cannot be written.
pub fn line(document: &impl Serialize, out: &mut impl Write) -> Result<(), OutputError> {
    let mut serializer =
        serde_json::Serializer::with_formatter(&mut *out, Escaping(CompactFormatter));
    document.serialize(&mut serializer).map_err(from_json)?;
    Ok(out.write_all(b"\n")?)
}

/// `document` as one line of text, without its end.
pub fn line_text(document: &impl Serialize) -> Result<String, OutputError> {
    let mut out = Vec::new();
    line(document, &mut out)?;
    Ok(String::from_utf8_lossy(out.trim_ascii_end()).into_owned())
}

fn from_json(error: serde_json::Error) -> OutputError {
    if error.is_io() {
        OutputError::Io(error.into())
    } else {
        OutputError::Json(error)
    }
}
