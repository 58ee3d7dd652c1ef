//! A value as the text of a table's cell, and a column as something that reads it from a row.

use super::text::escaped;
use super::view::{Column, Format};
use crate::arguments::{duration, size};
use csi_proto::path::{Path, PathError};
use csi_proto::schema::Message;
use csi_proto::value::{TimestampText, Value, ValueError, enum_text};
use std::fmt::Write as _;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// What stands where there is nothing, as kubectl has it.
const NONE: &str = "<none>";

/// One of several places of which the first that is set counts.
#[derive(Debug)]
pub struct Source(Vec<(bool, Path)>);

impl Source {
    /// Checks `path`: `a.b` from the row, `/a.b` from the whole reply, alternatives separated by `|`.
    ///
    /// # Errors
    /// When the messages have no such field.
    pub fn parse(
        reply: &'static Message,
        row: &'static Message,
        path: &str,
    ) -> Result<Self, PathError> {
        let one = |path: &str| match path.strip_prefix('/') {
            Some(path) => Ok((true, Path::parse(reply, path)?)),
            None => Ok((false, Path::parse(row, path)?)),
        };
        path.split('|').map(one).collect::<Result<_, _>>().map(Self)
    }

    /// The value in that row of that reply.
    ///
    /// # Errors
    /// When the bytes are not the messages.
    pub fn read<'a>(&self, reply: &'a [u8], row: &'a [u8]) -> Result<Value<'a>, ValueError> {
        for (from_reply, path) in &self.0 {
            let value = path.read(if *from_reply { reply } else { row })?;
            if value != Value::Absent {
                return Ok(value);
            }
        }
        Ok(Value::Absent)
    }
}

/// A column that can read.
#[derive(Debug)]
pub struct Reader {
    /// The head, in upper case.
    pub head: String,
    format: Format,
    source: Source,
    unit: Option<Path>,
}

impl Reader {
    /// Checks a declared column.
    ///
    /// # Errors
    /// When the messages have no such field.
    pub fn new(
        column: &Column,
        reply: &'static Message,
        row: &'static Message,
    ) -> Result<Self, PathError> {
        Ok(Self {
            head: column.head.to_owned(),
            format: column.format,
            source: Source::parse(reply, row, column.path)?,
            unit: match column.format {
                Format::Usage => Some(Path::parse(row, "unit")?),
                _ => None,
            },
        })
    }

    /// A column for a path that somebody typed.
    ///
    /// # Errors
    /// When the messages have no such field.
    pub fn typed(
        path: &str,
        reply: &'static Message,
        row: &'static Message,
    ) -> Result<Self, PathError> {
        Ok(Self {
            head: path.trim_start_matches('/').to_uppercase(),
            format: Format::Plain,
            source: Source::parse(reply, row, path)?,
            unit: None,
        })
    }

    /// The value in that row of that reply.
    ///
    /// # Errors
    /// When the bytes are not the messages.
    pub fn value<'a>(&self, reply: &'a [u8], row: &'a [u8]) -> Result<Value<'a>, ValueError> {
        self.source.read(reply, row)
    }

    /// Appends the cell's text to `out`.
    ///
    /// # Errors
    /// When the bytes are not the messages.
    pub fn write(&self, reply: &[u8], row: &[u8], out: &mut String) -> Result<(), ValueError> {
        let value = self.value(reply, row)?;
        let format = match &self.unit {
            None => self.format,
            Some(unit) => match unit.read(row)? {
                Value::Enum(_, Some("BYTES")) => Format::Size,
                _ => Format::Plain,
            },
        };
        let start = out.len();
        write(&value, format, out);
        if out.len() == start {
            out.push_str(NONE);
        }
        Ok(())
    }
}

/// Appends the text of `value`; nothing for what is not set or empty.
pub fn write(value: &Value<'_>, format: Format, out: &mut String) {
    match (format, value) {
        (Format::Size, Value::Int64(bytes)) => out.push_str(&size::human(*bytes)),
        (Format::Age, Value::Timestamp(time)) => out.push_str(&age(*time)),
        (Format::Presence, value) => out.push_str(yes(*value != Value::Absent)),
        // The specification: a driver that leaves `ready` out is ready.
        (Format::Ready, Value::Absent) => out.push_str("true"),
        (Format::Condition, Value::Message(_)) => {
            let abnormal = value.get("abnormal") == Some(&Value::Bool(true));
            out.push_str(if abnormal { "abnormal" } else { "ok" });
            if let Some(Value::Text(message)) = value.get("message")
                && !message.is_empty()
            {
                let _ = write!(out, ": {}", escaped(message));
            }
        }
        _ => plain(value, out),
    }
}

fn yes(value: bool) -> &'static str {
    if value { "true" } else { "false" }
}

fn plain(value: &Value<'_>, out: &mut String) {
    match value {
        Value::Absent => {}
        Value::Bool(value) => out.push_str(yes(*value)),
        Value::Int32(number) => {
            let _ = write!(out, "{number}");
        }
        Value::Int64(number) => {
            let _ = write!(out, "{number}");
        }
        Value::Enum(number, name) => out.push_str(&enum_text(*number, *name)),
        Value::Text(text) => out.push_str(&escaped(text)),
        Value::Timestamp(time) => {
            let _ = write!(out, "{}", TimestampText(*time));
        }
        Value::List(list) => separated(list.iter(), ";", out, |one, out| plain(one, out)),
        Value::Map(map) => separated(map.iter(), ",", out, |(key, value), out| {
            let _ = write!(out, "{}={}", escaped(key), escaped(value));
        }),
        Value::Message(fields) => separated(fields.iter(), ",", out, |(key, value), out| {
            // A message of one field that says it all, such as a topology's segments, needs no name.
            if let (Value::Map(_), 1) = (value, fields.len()) {
                return plain(value, out);
            }
            let _ = write!(out, "{key}=");
            match value {
                Value::Message(inner) if inner.is_empty() => {}
                Value::Message(inner) if inner.len() == 1 => plain(&inner[0].1, out),
                _ => plain(value, out),
            }
        }),
    }
}

fn separated<T>(
    all: impl Iterator<Item = T>,
    separator: &str,
    out: &mut String,
    mut write: impl FnMut(T, &mut String),
) {
    for (index, one) in all.enumerate() {
        if index > 0 {
            out.push_str(separator);
        }
        write(one, out);
    }
}

/// How long ago a time was, as kubectl shows ages.
fn age(time: prost_types::Timestamp) -> String {
    let Ok(time) = SystemTime::try_from(time) else {
        return "<invalid>".to_owned();
    };
    // A driver's clock may run ahead of ours: that is an age of nothing.
    let age = SystemTime::now().duration_since(time);
    if time == UNIX_EPOCH {
        return "<unknown>".to_owned();
    }
    duration::human(age.unwrap_or(Duration::ZERO))
}
