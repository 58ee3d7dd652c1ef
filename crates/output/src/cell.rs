//! Turns a value into the text of a table's cell. A column reads that value from a row.

use super::colour::Colour;
use super::jsonpath::{ExpressionColumn, NameError, without_braces};
use super::view::{CellFormat, Column};
use csi_arguments::{map, record, size};
use csi_proto::path::{Path, PathError};
use csi_proto::schema::{Field, Message};
use csi_proto::value::{Secrets, TimestampText, Value, ValueError, decode, enum_text};
use csi_proto::{duration, escaped};
use std::borrow::Cow;
use std::cell::OnceCell;
use std::fmt::Write as _;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The text of an empty cell, as in kubectl.
const NONE: &str = "<none>";

/// The text of a number that the driver has not set.
const UNSET: &str = "<unset>";

/// A text without letters where one has to be.
const EMPTY: &str = "\"\"";

/// A row with its reply and its request, as bytes.
#[derive(Clone, Copy, Debug)]
pub struct Row<'a> {
    /// The request that was answered.
    pub request: &'a [u8],
    /// The whole reply.
    pub reply: &'a [u8],
    /// The row: an element of the reply's list, or the reply.
    pub row: &'a [u8],
}

/// The messages of a [`Row`].
#[derive(Clone, Copy, Debug)]
pub struct RowTypes {
    /// The request's type.
    pub request: &'static Message,
    /// The reply's type.
    pub reply: &'static Message,
    /// The row's type.
    pub row: &'static Message,
}

#[derive(Clone, Copy, Debug)]
enum RowPart {
    Request,
    Reply,
    Row,
}

/// Alternative paths to a value: the first that is set counts.
#[derive(Debug)]
pub struct CellSource(Vec<(RowPart, Path)>);

impl CellSource {
    /// Checks `path`: `a.b` from the row, `/a.b` from the whole reply, `?a.b` from the request; alternatives are separated
    /// by `|`.
    ///
    /// # Errors
    /// When the messages have no such field.
    pub fn parse(types: RowTypes, path: &str) -> Result<Self, PathError> {
        let one = |path: &str| match (path.strip_prefix('/'), path.strip_prefix('?')) {
            (Some(path), _) => Ok((RowPart::Reply, Path::parse(types.reply, path)?)),
            (_, Some(path)) => Ok((RowPart::Request, Path::parse(types.request, path)?)),
            _ => Ok((RowPart::Row, Path::parse(types.row, path)?)),
        };
        path.split('|').map(one).collect::<Result<_, _>>().map(Self)
    }

    /// The field of the first path.
    fn field(&self) -> Option<&'static Field> {
        self.0.first()?.1.field()
    }

    /// The value for that row.
    ///
    /// # Errors
    /// When the bytes are not the messages.
    pub fn read<'a>(&self, row: Row<'a>) -> Result<Value<'a>, ValueError> {
        for (origin, path) in &self.0 {
            let value = path.read(match origin {
                RowPart::Request => row.request,
                RowPart::Reply => row.reply,
                RowPart::Row => row.row,
            })?;
            if value != Value::Absent {
                return Ok(value);
            }
        }
        Ok(Value::Absent)
    }
}

/// A row as JSON, which the first expression makes for all of that row's.
pub(crate) type RowJson = OnceCell<serde_json::Value>;

/// A column that can read.
#[derive(Debug)]
pub struct Reader {
    /// The head, in upper case.
    pub head: String,
    format: CellFormat,
    source: Source,
    unit: Option<Path>,
}

#[derive(Debug)]
enum Source {
    Paths(CellSource),
    /// An expression into a row of this type.
    Expression(ExpressionColumn, &'static Message),
}

impl Reader {
    /// Checks a declared column.
    ///
    /// # Errors
    /// When the messages have no such field.
    pub fn new(column: &Column, types: RowTypes) -> Result<Self, PathError> {
        Ok(Self {
            head: column.head.to_owned(),
            format: column.format,
            source: Source::Paths(CellSource::parse(types, column.path)?),
            unit: match column.format {
                CellFormat::Usage => Some(Path::parse(types.row, "unit")?),
                _ => None,
            },
        })
    }

    /// A column for a path that somebody typed, perhaps with kubectl's dot before it, and its braces.
    ///
    /// # Errors
    /// When the messages have no such field.
    pub fn typed(path: &str, types: RowTypes) -> Result<Self, PathError> {
        let path = without_braces(path);
        let path = path.strip_prefix('.').unwrap_or(path);
        Ok(Self {
            head: path.trim_start_matches(['/', '?']).to_uppercase(),
            format: CellFormat::Plain,
            source: Source::Paths(CellSource::parse(types, path)?),
            unit: None,
        })
    }

    /// A column that an expression says.
    ///
    /// # Errors
    /// When it has a name that rows cannot have.
    pub fn expression(column: &ExpressionColumn, types: RowTypes) -> Result<Self, NameError> {
        Ok(Self {
            head: escaped(&column.head).into_owned(),
            format: CellFormat::Plain,
            source: Source::Expression(column.for_message(types.row)?, types.row),
            unit: None,
        })
    }

    /// The value for that row.
    ///
    /// # Errors
    /// When the bytes are not the messages.
    pub fn value<'a>(&self, row: Row<'a>) -> Result<Value<'a>, ValueError> {
        self.value_by(row, &RowJson::new())
    }

    fn value_by<'a>(&self, row: Row<'a>, json: &RowJson) -> Result<Value<'a>, ValueError> {
        let (column, message) = match &self.source {
            Source::Paths(paths) => return paths.read(row),
            Source::Expression(column, message) => (column, message),
        };
        if json.get().is_none() {
            let row = decode(message, row.row, Secrets::Mask)?;
            // A value of JSON can be made of every message.
            let _ = json.set(serde_json::to_value(row).unwrap_or_default());
        }
        let text = json.get().map(|row| column.text(row));
        Ok(Value::Text(text.unwrap_or_default().into()))
    }

    /// The colour of a finished cell: a condition says at a glance what it is.
    pub fn colour(&self, cell: &str) -> Option<Colour> {
        match self.format {
            CellFormat::Condition if cell == "ok" => Some(Colour::Green),
            CellFormat::Condition if cell.starts_with("abnormal") => Some(Colour::Red),
            _ => None,
        }
    }

    /// Appends the cell's text to `out`, as programs read it: the value itself, and no letter for nothing. A text is as the
    /// driver gave it, but for a terminal, which would act on it.
    ///
    /// # Errors
    /// When the bytes are not the messages.
    pub(crate) fn write_bare(
        &self,
        row: Row<'_>,
        json: &RowJson,
        is_terminal: bool,
        out: &mut String,
    ) -> Result<(), ValueError> {
        let format = match self.format {
            CellFormat::Size | CellFormat::Usage | CellFormat::Age => CellFormat::Plain,
            format => format,
        };
        match (self.value_by(row, json)?, format) {
            (Value::Int64(0), _) if self.field().is_some_and(Field::is_unset_at_0) => {}
            (Value::Text(text), CellFormat::Plain) if !is_terminal => out.push_str(&text),
            (value, format) => write(&value, format, out),
        }
        Ok(())
    }

    /// The field that it shows, where that is one.
    fn field(&self) -> Option<&'static Field> {
        match &self.source {
            Source::Paths(paths) => paths.field(),
            Source::Expression(..) => None,
        }
    }

    /// Appends the cell's text to `out`, as people read it.
    ///
    /// # Errors
    /// When the bytes are not the messages.
    pub fn write(&self, row: Row<'_>, json: &RowJson, out: &mut String) -> Result<(), ValueError> {
        let value = self.value_by(row, json)?;
        if let Some(text) = self.field().and_then(|field| nothing(field, &value)) {
            out.push_str(text);
            return Ok(());
        }
        let format = match &self.unit {
            None => self.format,
            Some(unit) => match unit.read(row.row)? {
                Value::Enum(_, Some("BYTES")) => CellFormat::Size,
                _ => CellFormat::Plain,
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

/// The text of a value that is none by what the specification says of its field: a driver's mistake is to be seen, and what it
/// left out is not to look like a number.
fn nothing(field: &Field, value: &Value<'_>) -> Option<&'static str> {
    match value {
        Value::Text(text) if text.is_empty() && field.is_required() => Some(EMPTY),
        Value::Int64(0) if field.is_unset_at_0() => Some(UNSET),
        _ => None,
    }
}

/// Appends the text of `value`; nothing for what is not set or empty.
pub fn write(value: &Value<'_>, format: CellFormat, out: &mut String) {
    match (format, value) {
        (CellFormat::Size, Value::Int64(bytes)) => out.push_str(&size::human(*bytes)),
        (CellFormat::Age, Value::Timestamp(time)) => out.push_str(&age(*time)),
        (CellFormat::Presence, value) => out.push_str(yes(*value != Value::Absent)),
        // The specification: a driver that leaves `ready` out is ready.
        (CellFormat::Ready, Value::Absent) => out.push_str("true"),
        (CellFormat::Condition, Value::Message(_)) => {
            // What a healthy volume's message says stands in JSON; here it would only be noise.
            if value.get("abnormal") != Some(&Value::Bool(true)) {
                return out.push_str("ok");
            }
            out.push_str("abnormal");
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
        Value::List(list) => {
            // Maps and messages have commas of their own.
            let scalars = !matches!(list.first(), Some(Value::Message(_) | Value::Map(_)));
            let separator = if scalars { "," } else { ";" };
            separated(list.iter(), separator, out, |one, out| match one {
                // No list has entries without letters.
                Value::Text(text) if text.is_empty() => out.push_str(EMPTY),
                // As the flags for lists take it.
                Value::Text(text) => out.push_str(&escaped(&record::quote(text))),
                one => plain(one, out),
            });
        }
        // As the flags for maps take it, so that what is shown can be given back.
        Value::Map(entries) => separated(entries.iter(), ",", out, |(key, value), out| {
            let start = out.len();
            map::write_pair(key, value, out);
            if let Cow::Owned(safe) = escaped(&out[start..]) {
                out.truncate(start);
                out.push_str(&safe);
            }
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

/// How far a clock may run ahead.
const AHEAD: Duration = Duration::from_secs(2);

/// The age of a time, as kubectl shows ages.
fn age(time: prost_types::Timestamp) -> String {
    let Ok(time) = SystemTime::try_from(time) else {
        return "<invalid>".to_owned();
    };
    if time == UNIX_EPOCH {
        return "<unknown>".to_owned();
    }
    match SystemTime::now().duration_since(time) {
        Ok(age) => duration::human(age),
        // A driver's clock may run ahead of ours a little, which is an age of nothing.
        Err(ahead) if ahead.duration() < AHEAD => duration::human(Duration::ZERO),
        Err(_) => "<invalid>".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use csi_proto::tables;

    fn shown(pairs: &[(&str, &str)]) -> String {
        let pairs = pairs
            .iter()
            .map(|(key, value)| ((*key).into(), (*value).into()));
        let mut out = String::new();
        write(&Value::Map(pairs.collect()), CellFormat::Plain, &mut out);
        out
    }

    #[test]
    fn an_age_is_not_invented() {
        let now = SystemTime::now();
        for (time, expected) in [
            (UNIX_EPOCH, "<unknown>"),
            (now - Duration::from_secs(3600 * 24 * 3), "3d"),
            (now + Duration::from_secs(1), "0s"),
            (now + Duration::from_secs(3600), "<invalid>"),
        ] {
            assert_eq!(age(time.into()), expected);
        }
    }

    #[test]
    fn a_list_can_be_given_back() {
        let ids = ["a,b", "", "c", "\"d\"", "e\u{1b}"];
        let list = Value::List(ids.map(|id| Value::Text(id.into())).into());
        let mut out = String::new();
        write(&list, CellFormat::Plain, &mut out);
        assert_eq!(out, "\"a,b\",\"\",c,\"\"\"d\"\"\",e\\u{1b}");
    }

    #[test]
    fn a_map_can_be_given_back() {
        let pairs: &[(&str, &str)] = &[
            ("empty", ""),
            ("hosts", "a,b"),
            ("mail", "@home"),
            ("said", "\"so\""),
            ("share", "/exports/pvc 1=x"),
        ];
        let text = shown(pairs);
        let expected =
            "empty=,\"hosts=a,b\",mail=@@home,\"said=\"\"so\"\"\",share=/exports/pvc 1=x";
        assert_eq!(text, expected);
        let again = map::parse(&text).expect(&text);
        let again = again
            .iter()
            .map(|(key, value)| (key.as_str(), value.as_str()));
        assert_eq!(again.collect::<Vec<_>>(), pairs);
    }

    #[test]
    fn what_is_missing_is_shown_by_what_the_specification_says_of_its_field() {
        let field = |message: &'static Message, name| message.field(name).expect(name);
        for (message, name, value, expected) in [
            (
                &tables::VOLUME,
                "volume_id",
                Value::Text("".into()),
                Some(EMPTY),
            ),
            (&tables::VOLUME, "volume_id", Value::Text("v".into()), None),
            (
                &tables::VOLUME,
                "capacity_bytes",
                Value::Int64(0),
                Some(UNSET),
            ),
            (&tables::VOLUME, "capacity_bytes", Value::Int64(1), None),
            (
                &tables::SNAPSHOT,
                "size_bytes",
                Value::Int64(0),
                Some(UNSET),
            ),
            (
                &tables::SNAPSHOT,
                "group_snapshot_id",
                Value::Text("".into()),
                None,
            ),
            (
                &tables::GET_CAPACITY_RESPONSE,
                "available_capacity",
                Value::Int64(0),
                None,
            ),
            (
                &tables::BLOCK_METADATA,
                "byte_offset",
                Value::Int64(0),
                None,
            ),
            (
                &tables::NODE_PUBLISH_VOLUME_REQUEST,
                "staging_target_path",
                Value::Text("".into()),
                None,
            ),
        ] {
            let found = nothing(field(message, name), &value);
            assert_eq!(found, expected, "{name} {value:?}");
        }
    }

    #[test]
    fn what_a_terminal_would_act_on_stays_escaped_in_a_map() {
        let text = shown(&[("a", "\x1b[2J"), ("b", "1\n2")]);
        assert_eq!(text, "a=\\u{1b}[2J,\"b=1\\n2\"");
    }
}
