//! The one walk from a message's bytes to a value. Every output format, log line and comparison starts here.
//!
//! Fields keep the order of their declaration, maps are sorted, secrets are masked or left out, and what the tables do
//! not know (fields, enum numbers) is shown, never dropped. Nothing is printed here.

use crate::schema::{Cardinality, Enum, Field, Kind, Message};
use crate::wire::{self, Raw, WireError};
use base64::Engine as _;
use serde::ser::{Serialize, SerializeMap, Serializer};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::slice;
use thiserror::Error;

/// Stands where a secret was masked.
pub const MASK: &str = "***stripped***";

/// Keys whose values are secret in whatever map they stand: tokens that the kubelet puts into the volume context.
pub const SECRET_MAP_KEYS: [&str; 1] = ["csi.storage.k8s.io/serviceAccount.tokens"];

/// Whether fields that are marked `csi_secret` are shown or masked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Secrets {
    /// They are left out, so that the rest can be sent again as a request.
    Omit,
    /// Their keys are shown and their values replaced by [`MASK`].
    Mask,
}

/// A reply or request, or a part of one.
#[derive(Clone, Debug, PartialEq)]
pub enum Value<'a> {
    /// A message field or wrapper that is not set.
    Absent,
    /// A truth value.
    Bool(bool),
    /// A 32 bit number, which JSON shows as a number.
    Int32(i32),
    /// A 64 bit number, which canonical JSON shows as text.
    Int64(i64),
    /// Text.
    Text(Cow<'a, str>),
    /// An enum's number, with its name where the tables know it.
    Enum(i32, Option<&'static str>),
    /// A moment: seconds and nanoseconds since 1970 in UTC.
    Timestamp(prost_types::Timestamp),
    /// Repeated values.
    List(Vec<Value<'a>>),
    /// Text to text, sorted by key.
    Map(BTreeMap<Cow<'a, str>, Cow<'a, str>>),
    /// A message: its fields in the order of declaration, then unknown ones by number.
    Message(Vec<(Key, Value<'a>)>),
}

/// The name of a message's field.
#[derive(Clone, Copy, Debug)]
pub enum Key {
    /// A field of the tables.
    Known(&'static Field),
    /// A number that the tables do not have.
    Unknown(u32),
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        self.number() == other.number()
    }
}

impl Key {
    /// The field's number on the wire.
    pub fn number(self) -> u32 {
        match self {
            Self::Known(field) => field.number,
            Self::Unknown(number) => number,
        }
    }
}

impl fmt::Display for Key {
    /// The name in canonical JSON; `#7` for an unknown field of that number.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Known(field) => f.write_str(field.json_name),
            Self::Unknown(number) => write!(f, "#{number}"),
        }
    }
}

/// Bytes that are not a message of the expected type.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum ValueError {
    /// The bytes of a message are broken.
    #[error("{message}: {source}")]
    Wire {
        /// The name of the message.
        message: &'static str,
        /// What is wrong with the bytes.
        source: WireError,
    },
    /// A text field holds something else.
    #[error("{message}.{field} is not valid UTF-8")]
    Utf8 {
        /// The name of the message.
        message: &'static str,
        /// The name of the field.
        field: &'static str,
    },
}

impl ValueError {
    /// What is wrong with the bytes of a message.
    pub(crate) fn broken(of: &'static Message) -> impl Fn(WireError) -> Self {
        let message = of.name;
        move |source| Self::Wire { message, source }
    }
}

/// The value of `bytes`, which are a `message`.
///
/// # Errors
/// When the bytes are not a protobuf message, or a text of it is not UTF-8.
pub fn decode<'a>(
    message: &'static Message,
    bytes: &'a [u8],
    secrets: Secrets,
) -> Result<Value<'a>, ValueError> {
    secrets.message(message, &[bytes])
}

/// Whether `raw` is how a field of that type stands on the wire; if not, the field is shown as unknown.
pub fn fits(field: &Field, raw: Raw<'_>) -> bool {
    let number = match field.kind {
        Kind::Bool | Kind::Int32 | Kind::Int64 | Kind::Enum(_) => {
            field.cardinality != Cardinality::Map
        }
        Kind::String | Kind::Message(_) | Kind::Timestamp | Kind::BoolValue | Kind::Int64Value => {
            false
        }
    };
    match raw {
        Raw::Varint(_) => number,
        Raw::Bytes(_) => !number,
        Raw::Fixed32(_) | Raw::Fixed64(_) => false,
    }
}

/// The values in `bytes`, which are a `message`, that must not be seen: those of secret fields, and the kubelet's tokens.
/// Whoever shows what a driver says can look for them there. Bytes that are no such message have none.
pub fn secret_values(message: &'static Message, bytes: &[u8]) -> Vec<String> {
    let mut found = Vec::new();
    for (number, raw) in wire::fields(bytes).map_while(Result::ok) {
        let field = message.fields.iter().find(|field| field.number == number);
        let (Some(field), Raw::Bytes(content)) = (field, raw) else {
            continue;
        };
        match (field.cardinality, field.kind) {
            (Cardinality::Map, _) => {
                let (key, value) = wire::entry(wire::fields(content).map_while(Result::ok));
                if field.secret || SECRET_MAP_KEYS.iter().any(|known| known.as_bytes() == key) {
                    found.push(String::from_utf8_lossy(value).into_owned());
                }
            }
            (_, Kind::Message(of)) => found.extend(secret_values(of, content)),
            _ if field.secret => found.push(String::from_utf8_lossy(content).into_owned()),
            _ => {}
        }
    }
    found
}

/// The walk from bytes to values.
impl Secrets {
    /// The value of a message that stands on the wire in these parts.
    fn message<'a>(
        self,
        message: &'static Message,
        parts: &[&'a [u8]],
    ) -> Result<Value<'a>, ValueError> {
        let mut known: Vec<Vec<Raw<'a>>> = vec![Vec::new(); message.fields.len()];
        let mut unknown: BTreeMap<u32, Vec<Raw<'a>>> = BTreeMap::new();
        for part in parts {
            for field in wire::fields(part) {
                let (number, raw) = field.map_err(ValueError::broken(message))?;
                let mut fields = message.fields.iter();
                match fields.position(|field| field.number == number && fits(field, raw)) {
                    Some(index) => known[index].push(raw),
                    None => unknown.entry(number).or_default().push(raw),
                }
            }
        }
        let mut out = Vec::with_capacity(message.fields.len() + unknown.len());
        for (field, occurrences) in message.fields.iter().zip(known) {
            if field.secret && self == Secrets::Omit {
                continue;
            }
            // A oneof's members are shown when they are set; all others show their default.
            if field.oneof.is_some() && occurrences.is_empty() {
                continue;
            }
            let value = self.field(message, field, &occurrences)?;
            if value != Value::Absent {
                out.push((Key::Known(field), value));
            }
        }
        for (number, occurrences) in unknown {
            let mut values: Vec<Value<'a>> = occurrences.into_iter().map(unknown_value).collect();
            let value = if values.len() == 1 {
                values.remove(0)
            } else {
                Value::List(values)
            };
            out.push((Key::Unknown(number), value));
        }
        Ok(Value::Message(out))
    }

    /// The value of one field, given the contents with which it occurs in a message, in the order of the wire.
    ///
    /// # Errors
    /// As [`decode`].
    pub fn field<'a>(
        self,
        message: &'static Message,
        field: &'static Field,
        occurrences: &[Raw<'a>],
    ) -> Result<Value<'a>, ValueError> {
        match field.cardinality {
            Cardinality::Map => self.map(message, field, occurrences),
            Cardinality::Repeated => occurrences
                .iter()
                .map(|raw| self.one(message, field, slice::from_ref(raw)))
                .collect::<Result<_, _>>()
                .map(Value::List),
            Cardinality::Singular => self.one(message, field, occurrences),
        }
    }

    fn one<'a>(
        self,
        message: &'static Message,
        field: &'static Field,
        occurrences: &[Raw<'a>],
    ) -> Result<Value<'a>, ValueError> {
        // The last occurrence of a scalar counts.
        let number = match occurrences.last() {
            Some(Raw::Varint(number)) => *number,
            _ => 0,
        };
        // Protobuf defines numbers of fewer bits as the low bits of the varint.
        #[allow(clippy::cast_possible_truncation)]
        let low = number as i32;
        Ok(match field.kind {
            Kind::Bool => Value::Bool(number != 0),
            Kind::Int32 => Value::Int32(low),
            Kind::Int64 => Value::Int64(number.cast_signed()),
            Kind::Enum(of) => Value::Enum(low, of.name_of(low)),
            Kind::String => match occurrences.last() {
                Some(Raw::Bytes(bytes)) => Value::Text(text(message, field, bytes)?),
                _ => Value::Text(Cow::Borrowed("")),
            },
            _ if occurrences.is_empty() => Value::Absent,
            Kind::Message(of) => self.message(of, &wire::contents(occurrences))?,
            Kind::Timestamp | Kind::BoolValue | Kind::Int64Value => {
                well_known(message, field, &wire::contents(occurrences))?
            }
        })
    }

    fn map<'a>(
        self,
        message: &'static Message,
        field: &'static Field,
        occurrences: &[Raw<'a>],
    ) -> Result<Value<'a>, ValueError> {
        let mut map = BTreeMap::new();
        for entry in wire::contents(occurrences) {
            let parts: Result<Vec<_>, _> = wire::fields(entry).collect();
            let (key, value) = wire::entry(parts.map_err(ValueError::broken(message))?);
            let (key, mut value) = (text(message, field, key)?, text(message, field, value)?);
            if field.secret || SECRET_MAP_KEYS.contains(&key.as_ref()) {
                value = Cow::Borrowed(MASK);
            }
            map.insert(key, value);
        }
        if self == Secrets::Omit {
            map.retain(|key, _| !SECRET_MAP_KEYS.contains(&key.as_ref()));
        }
        Ok(Value::Map(map))
    }
}

fn text<'a>(
    message: &'static Message,
    field: &'static Field,
    bytes: &'a [u8],
) -> Result<Cow<'a, str>, ValueError> {
    let text = std::str::from_utf8(bytes).map_err(|_| ValueError::Utf8 {
        message: message.name,
        field: field.name,
    })?;
    Ok(Cow::Borrowed(text))
}

fn well_known<'a>(
    message: &'static Message,
    field: &'static Field,
    parts: &[&[u8]],
) -> Result<Value<'a>, ValueError> {
    let (mut first, mut second) = (0_u64, 0_u64);
    for field in parts.iter().flat_map(|part| wire::fields(part)) {
        match field.map_err(ValueError::broken(message))? {
            (1, Raw::Varint(number)) => first = number,
            (2, Raw::Varint(number)) => second = number,
            _ => {}
        }
    }
    Ok(match field.kind {
        Kind::BoolValue => Value::Bool(first != 0),
        Kind::Int64Value => Value::Int64(first.cast_signed()),
        _ => Value::Timestamp(prost_types::Timestamp {
            seconds: first.cast_signed(),
            #[allow(clippy::cast_possible_truncation)]
            nanos: second as i32,
        }),
    })
}

/// Nothing tells the type of an unknown field: text where it is text, base64 for other bytes.
fn unknown_value(raw: Raw<'_>) -> Value<'_> {
    match raw {
        Raw::Bytes(bytes) => Value::Text(match std::str::from_utf8(bytes) {
            Ok(text) if !text.chars().any(char::is_control) => Cow::Borrowed(text),
            _ => Cow::Owned(base64::engine::general_purpose::STANDARD.encode(bytes)),
        }),
        number => unknown_number(number),
    }
}

/// The number of an unknown field, with the sign that most 64 bit fields have; nothing for bytes.
pub(crate) fn unknown_number(raw: Raw<'_>) -> Value<'_> {
    match raw {
        Raw::Varint(number) | Raw::Fixed64(number) => Value::Int64(number.cast_signed()),
        Raw::Fixed32(number) => Value::Int64(i64::from(number)),
        Raw::Bytes(_) => Value::Absent,
    }
}

impl<'a> Value<'a> {
    /// The value without the fields that say nothing, which protobuf would not have sent.
    #[must_use]
    pub fn lean(self) -> Self {
        match self {
            Self::Message(fields) => {
                let fields = fields.into_iter();
                let said = fields.filter(|(key, value)| !value.is_default(*key));
                Self::Message(said.map(|(key, value)| (key, value.lean())).collect())
            }
            Self::List(list) => Self::List(list.into_iter().map(Self::lean).collect()),
            value => value,
        }
    }

    /// Whether protobuf would not have sent it.
    fn is_default(&self, key: Key) -> bool {
        let is_sent = match key {
            Key::Known(field) => {
                matches!(field.kind, Kind::BoolValue | Kind::Int64Value)
                    || (field.oneof.is_some() && field.cardinality == Cardinality::Singular)
            }
            Key::Unknown(_) => true,
        };
        match self {
            Self::List(list) => list.is_empty(),
            Self::Map(map) => map.is_empty(),
            _ if is_sent => false,
            Self::Absent
            | Self::Bool(false)
            | Self::Int32(0)
            | Self::Int64(0)
            | Self::Enum(0, _) => true,
            Self::Text(text) => text.is_empty(),
            _ => false,
        }
    }

    /// The field of a message by either spelling of its name; `None` for other values and for names that it has not.
    pub fn get(&self, name: &str) -> Option<&Value<'a>> {
        let Self::Message(fields) = self else {
            return None;
        };
        fields.iter().find_map(|(key, value)| match key {
            Key::Known(field) if field.name == name || field.json_name == name => Some(value),
            _ => None,
        })
    }
}

/// The name of an enum's number, or the number itself where it is newer than the tables.
pub fn enum_text(number: i32, name: Option<&'static str>) -> Cow<'static, str> {
    name.map_or_else(|| Cow::Owned(number.to_string()), Cow::Borrowed)
}

/// The name of `number` in `of`, or the number itself where it is newer than the tables.
pub fn enum_name(of: &'static Enum, number: i32) -> Cow<'static, str> {
    enum_text(number, of.name_of(number))
}

impl Serialize for Value<'_> {
    /// Canonical proto3 JSON with defaults shown.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Absent => serializer.serialize_unit(),
            Self::Bool(value) => serializer.serialize_bool(*value),
            Self::Int32(value) => serializer.serialize_i32(*value),
            Self::Int64(value) => serializer.collect_str(value),
            Self::Text(text) => serializer.serialize_str(text),
            Self::Enum(_, Some(name)) => serializer.serialize_str(name),
            Self::Enum(number, None) => serializer.serialize_i32(*number),
            Self::Timestamp(time) => serializer.collect_str(&TimestampText(*time)),
            Self::List(list) => serializer.collect_seq(list),
            Self::Map(map) => serializer.collect_map(map),
            Self::Message(fields) => {
                let mut out = serializer.serialize_map(Some(fields.len()))?;
                for (key, value) in fields {
                    match key {
                        Key::Known(field) => out.serialize_entry(field.json_name, value)?,
                        Key::Unknown(_) => out.serialize_entry(&key.to_string(), value)?,
                    }
                }
                out.end()
            }
        }
    }
}

/// RFC 3339, or the bare numbers for a moment that RFC 3339 cannot say.
pub struct TimestampText(pub prost_types::Timestamp);

impl fmt::Display for TimestampText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The years 0001 to 9999, which is what protobuf allows.
        let range = -62_135_596_800..=253_402_300_799;
        if range.contains(&self.0.seconds) && (0..1_000_000_000).contains(&self.0.nanos) {
            write!(f, "{}", self.0)
        } else {
            write!(f, "seconds:{} nanos:{}", self.0.seconds, self.0.nanos)
        }
    }
}
