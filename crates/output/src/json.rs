//! Canonical proto3 JSON, pretty or one document a line. A reply's list is written entry by entry, never built whole.

use super::reply::{Format, OutputError};
use csi_proto::schema::{Cardinality, Field, Kind, Message};
use csi_proto::text::Escaping;
use csi_proto::value::{Secrets, decode};
use csi_proto::wire::{self, Raw, fields};
use serde::Serialize;
use serde::ser::{Error as _, SerializeMap, SerializeSeq, Serializer};
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
        let is_list = |field: &&Field| {
            matches!(field.kind, Kind::Message(_)) && field.cardinality == Cardinality::Repeated
        };
        let Some(list) = self.message.fields.iter().find(is_list) else {
            let value = decode(self.message, self.bytes, self.secrets).map_err(S::Error::custom)?;
            return value.serialize(serializer);
        };
        // Everything but the list is small: decode it without the list's bytes.
        let mut rest = Vec::new();
        for part in fields(self.bytes) {
            let (number, raw) = part.map_err(S::Error::custom)?;
            if number != list.number {
                wire::put(&mut rest, number, raw);
            }
        }
        let rest = decode(self.message, &rest, self.secrets).map_err(S::Error::custom)?;
        let csi_proto::value::Value::Message(rest) = rest else {
            return rest.serialize(serializer);
        };
        let mut out = serializer.serialize_map(None)?;
        for (key, value) in rest {
            if key.number() == list.number {
                out.serialize_entry(
                    list.json_name,
                    &Entries {
                        document: self,
                        list,
                    },
                )?;
            } else {
                out.serialize_entry(&key.to_string(), &value)?;
            }
        }
        out.end()
    }
}

struct Entries<'a> {
    document: &'a Document<'a>,
    list: &'static Field,
}

impl Serialize for Entries<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut out = serializer.serialize_seq(None)?;
        for part in fields(self.document.bytes) {
            let (number, raw) = part.map_err(S::Error::custom)?;
            if let (Kind::Message(message), Raw::Bytes(bytes)) = (self.list.kind, raw)
                && number == self.list.number
            {
                let secrets = self.document.secrets;
                let value = decode(message, bytes, secrets).map_err(S::Error::custom)?;
                out.serialize_element(&value)?;
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
///
/// # Errors
/// When it cannot be read.
pub fn text(document: &impl Serialize) -> Result<String, OutputError> {
    let mut out = Vec::new();
    pretty(document, &mut out)?;
    Ok(String::from_utf8_lossy(&out).into_owned())
}

/// A tool's JSON: over several lines, or on one, a list on one for each entry.
///
/// # Errors
/// When it cannot be read.
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

fn from_json(error: serde_json::Error) -> OutputError {
    if error.is_io() {
        OutputError::Io(error.into())
    } else {
        OutputError::Json(error)
    }
}
