//! Replies as values: `$_`, `$name`, and paths into them.
//!
//! A reply stays bytes until somebody asks for a part of it. Nothing here prints or calls a driver.

use super::line::{Word, WordPiece};
use crate::arguments::map;
use crate::output::cell;
use crate::output::view::CellFormat;
use csi_proto::schema::{Cardinality, Field, Message};
use csi_proto::value::{Key, Secrets, Value, ValueError, decode};
use std::collections::BTreeMap;
use thiserror::Error;

/// The variable that holds the last reply.
pub const LAST: &str = "_";

/// The content of a variable.
#[derive(Clone, Debug)]
pub enum Variable {
    /// A reply; the pages of a list are one.
    Reply {
        /// The type of the message.
        message: &'static Message,
        /// The bytes of the message.
        bytes: Vec<u8>,
    },
    /// Text.
    Text(String),
}

/// All variables by name.
#[derive(Debug, Default)]
pub struct Values(BTreeMap<String, Variable>);

/// A path that leads nowhere.
#[derive(Debug, Error)]
pub enum ValuePathError {
    /// No such variable.
    #[error("there is no variable ${name}; {}", match .has.as_slice() {
        [] => "there are none yet: `name = COMMAND` makes one".to_owned(),
        has => format!("there is {}", has.join(", ")),
    })]
    Variable {
        /// The name.
        name: String,
        /// All names that there are.
        has: Vec<String>,
    },
    /// No such field.
    #[error("{at} has no {step}; it has {}", .has.join(", "))]
    Field {
        /// The path so far.
        at: String,
        /// The name that is not there.
        step: String,
        /// The names that are.
        has: Vec<String>,
    },
    /// No such element.
    #[error("{at} has no element {index}; it has {}", match .length {
        0 => "none".to_owned(),
        1 => "one, [0]".to_owned(),
        length => format!("{length}, [0] to [{}]", length - 1),
    })]
    Element {
        /// The path so far.
        at: String,
        /// The index.
        index: usize,
        /// The number of entries.
        length: usize,
    },
    /// A step into something that has no parts.
    #[error("{at} is {what}, which has no {step}")]
    Leaf {
        /// The path so far.
        at: String,
        /// The kind of value at that place.
        what: &'static str,
        /// The step.
        step: String,
    },
    /// The path itself is wrong.
    #[error("${0} is not a path: write $name.field, $name.list[0] or $name.map[\"key\"]")]
    Syntax(String),
    /// The reply is not valid.
    #[error("the reply is not valid: {0}")]
    Value(#[from] ValueError),
}

/// A step of a path.
#[derive(Debug, PartialEq, Eq)]
enum PathStep<'a> {
    Name(&'a str),
    Index(usize),
}

impl Values {
    /// Gives a variable its value.
    pub fn set(&mut self, name: &str, value: Variable) {
        self.0.insert(name.to_owned(), value);
    }

    /// Forgets a variable; says whether there was one.
    pub fn remove(&mut self, name: &str) -> bool {
        self.0.remove(name).is_some()
    }

    /// All variables in the order of their names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Variable)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value))
    }

    /// A word with its variables expanded.
    ///
    /// # Errors
    /// When a path leads nowhere.
    pub fn expand(&self, word: &Word) -> Result<String, ValuePathError> {
        let mut text = String::new();
        for piece in &word.pieces {
            match piece {
                WordPiece::Text(part) => text.push_str(part),
                WordPiece::Variable(path) => text.push_str(&self.text(path)?),
            }
        }
        Ok(text)
    }

    /// The text of what is at `path`, which begins with a variable's name: a map as `k=v,…`, a list with commas, a message
    /// as JSON, what is not set as nothing.
    ///
    /// # Errors
    /// When the path leads nowhere.
    pub fn text(&self, path: &str) -> Result<String, ValuePathError> {
        let (name, steps) = steps(path).ok_or_else(|| ValuePathError::Syntax(path.to_owned()))?;
        let missing = || ValuePathError::Variable {
            name: name.to_owned(),
            has: self.0.keys().map(|name| format!("${name}")).collect(),
        };
        let mut at = format!("${name}");
        match (self.0.get(name).ok_or_else(missing)?, steps.first()) {
            (Variable::Text(text), None) => Ok(text.clone()),
            (Variable::Text(_), Some(step)) => Err(ValuePathError::Leaf {
                at,
                what: "text",
                step: step.as_text(),
            }),
            (Variable::Reply { message, bytes }, _) => {
                let mut here = TypedValue {
                    value: decode(message, bytes, Secrets::Mask)?,
                    message: Some(message),
                };
                for step in &steps {
                    here = here.into_part(step, &at)?;
                    match step {
                        PathStep::Name(name) => at.push_str(&format!(".{name}")),
                        PathStep::Index(index) => at.push_str(&format!("[{index}]")),
                    }
                }
                Ok(text(&here.value))
            }
        }
    }

    /// The paths that could go on where `path` ends in an unfinished step, for completion: whole paths, without the `$`.
    pub fn continuations(&self, path: &str) -> Vec<String> {
        let Some((before, _)) = path.rsplit_once('.') else {
            return self.0.keys().cloned().collect();
        };
        let Some((name, steps)) = steps(before) else {
            return Vec::new();
        };
        let Some(Variable::Reply { message, bytes }) = self.0.get(name) else {
            return Vec::new();
        };
        let Ok(value) = decode(message, bytes, Secrets::Mask) else {
            return Vec::new();
        };
        let mut here = TypedValue {
            value,
            message: Some(message),
        };
        for step in &steps {
            match here.into_part(step, "") {
                Ok(part) => here = part,
                Err(_) => return Vec::new(),
            }
        }
        let names = here.names();
        names
            .into_iter()
            .map(|name| format!("{before}.{name}"))
            .collect()
    }
}

impl PathStep<'_> {
    fn as_text(&self) -> String {
        match self {
            Self::Name(name) => format!("field {name:?}"),
            Self::Index(index) => format!("element {index}"),
        }
    }
}

/// A value and, where it is a message, its type: what is not set has fields too.
struct TypedValue<'a> {
    value: Value<'a>,
    message: Option<&'static Message>,
}

impl<'a> TypedValue<'a> {
    /// The names of its parts, in the spelling of `csi.proto`.
    fn names(&self) -> Vec<String> {
        match (&self.value, self.message) {
            (Value::Map(map), _) => map.keys().map(|key| key.as_ref().to_owned()).collect(),
            (_, Some(message)) => {
                let names = message.fields.iter().map(|field| field.name.to_owned());
                names.collect()
            }
            _ => Vec::new(),
        }
    }

    fn into_part(self, step: &PathStep<'_>, at: &str) -> Result<Self, ValuePathError> {
        let at = || at.to_owned();
        let (names, message) = (self.names(), self.message);
        let part = |value, message| Ok(Self { value, message });
        let missing = |has: Vec<String>| ValuePathError::Field {
            at: at(),
            step: step.as_text(),
            has,
        };
        let no_element = |index, length| ValuePathError::Element {
            at: at(),
            index,
            length,
        };
        let leaf = |what| ValuePathError::Leaf {
            at: at(),
            what,
            step: step.as_text(),
        };
        match (self.value, step) {
            (Value::List(list), PathStep::Name("length")) => {
                let length = i64::try_from(list.len()).unwrap_or(i64::MAX);
                part(Value::Int64(length), None)
            }
            (Value::List(mut list), PathStep::Index(index)) => match *index < list.len() {
                true => part(list.swap_remove(*index), message),
                false => Err(no_element(*index, list.len())),
            },
            (Value::List(list), PathStep::Name(_)) if list.is_empty() => Err(no_element(0, 0)),
            (Value::List(_), PathStep::Name(_)) => {
                Err(leaf("a list: write [0] for its first element, or .length"))
            }
            (Value::Map(mut map), PathStep::Name(name)) => match map.remove(*name) {
                Some(value) => part(Value::Text(value), None),
                None if names.is_empty() => Err(leaf("an empty map")),
                None => Err(missing(names)),
            },
            (value @ (Value::Message(_) | Value::Absent), PathStep::Name(name))
                if message.is_some() =>
            {
                let field = message.and_then(|message| message.field(name));
                let same = |key: &Key| match (key, field) {
                    (Key::Known(of), Some(field)) => of.number == field.number,
                    (key, _) => key.to_string() == *name,
                };
                let found = match value {
                    Value::Message(fields) => fields.into_iter().find(|(key, _)| same(key)),
                    _ => None,
                };
                if field.is_none() && found.is_none() {
                    return Err(missing(names));
                }
                let inner = field.filter(|field| field.cardinality != Cardinality::Map);
                let value = found.map_or(Value::Absent, |(_, value)| value);
                part(value, inner.and_then(Field::message))
            }
            (value, _) => Err(leaf(match value {
                Value::Absent => "not set",
                Value::Message(_) => "a message",
                Value::Map(_) => "a map",
                Value::Text(_) => "text",
                _ => "a single value",
            })),
        }
    }
}

/// The variable's name and the steps behind it.
fn steps(path: &str) -> Option<(&str, Vec<PathStep<'_>>)> {
    let end = path.find(['.', '[']).unwrap_or(path.len());
    let (name, mut rest) = path.split_at(end);
    let mut steps = Vec::new();
    while !rest.is_empty() {
        if let Some(inner) = rest.strip_prefix("[\"") {
            let (key, after) = inner.split_once("\"]")?;
            steps.push(PathStep::Name(key));
            rest = after;
        } else if let Some(inner) = rest.strip_prefix('[') {
            let (index, after) = inner.split_once(']')?;
            steps.push(PathStep::Index(index.parse().ok()?));
            rest = after;
        } else {
            let inner = rest.strip_prefix('.')?;
            let end = inner.find(['.', '[']).unwrap_or(inner.len());
            let (name, after) = inner.split_at(end);
            // An index in the way of jq and of JSON pointers is one too.
            steps.push(match name.parse() {
                Ok(index) => PathStep::Index(index),
                Err(_) if name.is_empty() => return None,
                Err(_) => PathStep::Name(name),
            });
            rest = after;
        }
    }
    (!name.is_empty()).then_some((name, steps))
}

/// A value as a flag would take it.
pub fn text(value: &Value<'_>) -> String {
    let mut out = String::new();
    match value {
        Value::Text(text) => out.push_str(text),
        Value::Map(map) => out = map::text(map),
        Value::List(list) if !list.iter().any(is_composite) => {
            out = list.iter().map(text).collect::<Vec<_>>().join(",");
        }
        value if is_composite(value) => out = serde_json::to_string(value).unwrap_or_default(),
        value => cell::write(value, CellFormat::Plain, &mut out),
    }
    out
}

fn is_composite(value: &Value<'_>) -> bool {
    matches!(value, Value::Message(_) | Value::List(_))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::map;
    use csi_proto::{tables, v1};
    use prost::Message as _;

    fn values() -> Values {
        let volume = v1::Volume {
            capacity_bytes: 1 << 30,
            volume_id: "a#b:c d".to_owned(),
            volume_context: [("share", "/x"), ("a.b/c", "1,2"), ("at", "@x")]
                .map(|(key, value)| (key.to_owned(), value.to_owned()))
                .into(),
            ..v1::Volume::default()
        };
        let list = v1::ListVolumesResponse {
            entries: vec![v1::list_volumes_response::Entry {
                volume: Some(volume.clone()),
                status: None,
            }],
            next_token: String::new(),
        };
        let created = v1::CreateVolumeResponse {
            volume: Some(volume),
        };
        let mut values = Values::default();
        let reply = |message, bytes| Variable::Reply { message, bytes };
        values.set(
            "vol",
            reply(&tables::CREATE_VOLUME_RESPONSE, created.encode_to_vec()),
        );
        values.set(
            "list",
            reply(&tables::LIST_VOLUMES_RESPONSE, list.encode_to_vec()),
        );
        values.set("t", Variable::Text("text".to_owned()));
        values
    }

    #[test]
    fn paths_lead_to_text() {
        let values = values();
        for (path, expected) in [
            ("vol.volume.volume_id", "a#b:c d"),
            ("vol.volume.volumeId", "a#b:c d"),
            ("vol.volume.capacity_bytes", "1073741824"),
            ("vol.volume.volume_context.share", "/x"),
            ("vol.volume.volume_context[\"a.b/c\"]", "1,2"),
            ("vol.volume.content_source", ""),
            ("vol.volume.content_source.volume.volume_id", ""),
            ("list.entries[0].volume.volume_id", "a#b:c d"),
            ("list.entries.0.volume.volume_id", "a#b:c d"),
            ("list.entries.length", "1"),
            ("t", "text"),
        ] {
            assert_eq!(values.text(path).unwrap(), expected, "{path}");
        }
        let context = values.text("vol.volume.volume_context").unwrap();
        assert_eq!(context, "\"a.b/c=1,2\",at=@@x,share=/x");
        let back: Vec<_> = map::parse(&context).unwrap().into_iter().collect();
        assert!(back.contains(&("at".to_owned(), "@x".to_owned())));
        let json = values.text("vol.volume.volume_context.at").unwrap();
        assert_eq!(json, "@x");
    }

    #[test]
    fn what_leads_nowhere_names_what_exists() {
        let values = values();
        for (path, error) in [
            ("x", "there is no variable $x; there is $list, $t, $vol"),
            ("vol.id", "$vol has no field \"id\"; it has volume"),
            (
                "vol.volume.id",
                "$vol.volume has no field \"id\"; it has capacity_bytes, volume_id, volume_context, content_source, accessible_topology",
            ),
            (
                "vol.volume.volume_context.x",
                "$vol.volume.volume_context has no field \"x\"; it has a.b/c, at, share",
            ),
            (
                "list.entries[1]",
                "$list.entries has no element 1; it has one, [0]",
            ),
            (
                "list.entries.volume",
                "$list.entries is a list: write [0] for its first element, or .length, which has no field \"volume\"",
            ),
            ("t.x", "$t is text, which has no field \"x\""),
            (
                "vol.volume.volume_id.x",
                "$vol.volume.volume_id is text, which has no field \"x\"",
            ),
        ] {
            assert_eq!(values.text(path).unwrap_err().to_string(), error);
        }
        let none = Values::default().text("_").unwrap_err().to_string();
        assert_eq!(
            none,
            "there is no variable $_; there are none yet: `name = COMMAND` makes one"
        );
    }

    #[test]
    fn paths_go_on() {
        let values = values();
        assert_eq!(values.continuations("v"), ["list", "t", "vol"]);
        assert_eq!(
            values.continuations("list.entries[0]."),
            ["list.entries[0].volume", "list.entries[0].status"]
        );
        assert_eq!(values.continuations("t."), Vec::<String>::new());
    }
}
