//! Paths into a reply: its steps, where they lead, and what is found there as text.
//!
//! What is not set has fields too: a path is checked by the types of the protocol, not by what a driver has sent. Which
//! variables there are is not known here.

use csi_arguments::{map, record};
use csi_output::cell;
use csi_output::view::CellFormat;
use csi_proto::schema::{Cardinality, Field, Message};
use csi_proto::value::{Key, Value, ValueError};
use thiserror::Error;

/// A path that leads nowhere.
#[derive(Debug, Error)]
pub(crate) enum ValuePathError {
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
    /// No such argument of the script.
    #[error("there is no argument ${number}: {}", match .given {
        0 => "none was given".to_owned(),
        1 => "only $1 was given".to_owned(),
        given => format!("$1 to ${given} were given"),
    })]
    Argument {
        /// The number, as it was typed.
        number: String,
        /// How many there are.
        given: usize,
    },
    /// No such variable of the environment.
    #[error(
        "the environment has no variable {0:?}: ${{env.{0}:-VALUE}} is VALUE where it is missing"
    )]
    Environment(String),
    /// No such field, or no such key in a map.
    #[error("{at} has no {step}; it has {}", .has.join(", "))]
    Field {
        /// The path so far.
        at: String,
        /// The name that is not there.
        step: String,
        /// The names that are.
        has: Vec<String>,
        /// Whether another reply may have it: a key.
        others_may_have: bool,
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
        index: i64,
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
        /// Whether another reply may have it: this one leaves out what is at that place.
        others_may_have: bool,
    },
    /// The path itself is wrong.
    #[error("${0} is not a path: write $name.field, $name.list[0] or $name.map[\"key\"]")]
    Syntax(String),
    /// The reply is not valid.
    #[error("the reply is not valid: {0}")]
    Value(#[from] ValueError),
}

impl ValuePathError {
    /// Whether something is not there that another reply may have, for which a default may stand. A name that no reply has is
    /// a mistake.
    pub fn is_missing(&self) -> bool {
        match self {
            Self::Field {
                others_may_have, ..
            }
            | Self::Leaf {
                others_may_have, ..
            } => *others_may_have,
            Self::Syntax(_) | Self::Value(_) => false,
            _ => true,
        }
    }
}

/// A step of a path.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum PathStep<'a> {
    /// `.name` or `["name"]`.
    Name(&'a str),
    /// `[0]` or `.0`; `[-1]` is the last.
    Index(i64),
}

impl PathStep<'_> {
    /// The step in the words of an error.
    pub(crate) fn as_text(&self) -> String {
        match self {
            Self::Name(name) => format!("field {name:?}"),
            Self::Index(index) => format!("element {index}"),
        }
    }
}

/// The name with which a path begins, and the rest of it.
pub fn split(path: &str) -> (&str, &str) {
    path.split_at(path.find(['.', '[']).unwrap_or(path.len()))
}

/// A path, and the text behind `:-` for what is missing or empty, without one pair of quotes around it, as in sh. A key in quotes may
/// hold that sign too.
pub fn split_default(path: &str) -> (&str, Option<&str>) {
    let mut is_quoted = false;
    let sign = path.char_indices().find(|(at, letter)| {
        is_quoted ^= *letter == '"';
        !is_quoted && path[*at..].starts_with(":-")
    });
    match sign {
        Some((at, _)) => (&path[..at], Some(unquoted(&path[at + 2..]))),
        None => (path, None),
    }
}

fn unquoted(text: &str) -> &str {
    let within = |quote: char| {
        let inner = text.strip_prefix(quote)?.strip_suffix(quote)?;
        // Of two quoted texts the outer quotes are no pair.
        (!inner.contains(quote)).then_some(inner)
    };
    within('"').or_else(|| within('\'')).unwrap_or(text)
}

/// The steps of what stands behind the name of a path; `None` where it is no path.
pub fn steps(mut rest: &str) -> Option<Vec<PathStep<'_>>> {
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
            let (name, after) = split(rest.strip_prefix('.')?);
            // An index in the way of jq and of JSON pointers is one too.
            steps.push(match name.parse() {
                Ok(index) => PathStep::Index(index),
                Err(_) if name.is_empty() => return None,
                Err(_) => PathStep::Name(name),
            });
            rest = after;
        }
    }
    Some(steps)
}

/// A value and, where it is a message, its type: what is not set has fields too.
pub(crate) struct TypedValue<'a> {
    /// The value.
    pub value: Value<'a>,
    /// The type of the message, or of a list's.
    pub message: Option<&'static Message>,
}

impl TypedValue<'_> {
    /// Follows `steps`; `at` is the path so far, for errors.
    ///
    /// # Errors
    /// When they lead nowhere.
    pub fn follow(mut self, steps: &[PathStep<'_>], at: &str) -> Result<Self, ValuePathError> {
        let mut at = at.to_owned();
        for step in steps {
            self = self.into_part(step, &at)?;
            match step {
                PathStep::Name(name) => at.push_str(&format!(".{name}")),
                PathStep::Index(index) => at.push_str(&format!("[{index}]")),
            }
        }
        Ok(self)
    }

    /// The names of its parts, in the spelling of `csi.proto`.
    pub fn names(&self) -> Vec<String> {
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
        let missing = |has, others_may_have| ValuePathError::Field {
            at: at(),
            step: step.as_text(),
            has,
            others_may_have,
        };
        let no_element = |index, length| ValuePathError::Element {
            at: at(),
            index,
            length,
        };
        let leaf = |what, others_may_have| ValuePathError::Leaf {
            at: at(),
            what,
            step: step.as_text(),
            others_may_have,
        };
        match (self.value, step) {
            (Value::List(list), PathStep::Name("length")) => {
                let length = i64::try_from(list.len()).unwrap_or(i64::MAX);
                part(Value::Int64(length), None)
            }
            (Value::List(mut list), PathStep::Index(index)) => {
                let from_end = usize::try_from(index.unsigned_abs()).ok();
                let place = match index.is_negative() {
                    true => from_end.and_then(|back| list.len().checked_sub(back)),
                    false => from_end.filter(|place| *place < list.len()),
                };
                match place {
                    Some(place) => part(list.swap_remove(place), message),
                    None => Err(no_element(*index, list.len())),
                }
            }
            (Value::List(list), PathStep::Name(_)) if list.is_empty() => Err(no_element(0, 0)),
            (Value::List(_), PathStep::Name(_)) => {
                let what = "a list: write [0] for its first element, or .length";
                Err(leaf(what, false))
            }
            (Value::Map(mut map), PathStep::Name(name)) => match map.remove(*name) {
                Some(value) => part(Value::Text(value), None),
                None if names.is_empty() => Err(leaf("an empty map", true)),
                None => Err(missing(names, true)),
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
                    return Err(missing(names, false));
                }
                let inner = field.filter(|field| field.cardinality != Cardinality::Map);
                let value = found.map_or(Value::Absent, |(_, value)| value);
                part(value, inner.and_then(Field::message))
            }
            (Value::Absent, _) => Err(leaf("not set", true)),
            (Value::Message(_), _) => Err(leaf("a message", false)),
            (Value::Map(_), _) => Err(leaf("a map", false)),
            (Value::Text(_), _) => Err(leaf("text", false)),
            _ => Err(leaf("a single value", false)),
        }
    }
}

/// A value as a flag would take it: a map as `k=v,…`, a list with commas, a message as JSON, what is not set as nothing.
pub fn text(value: &Value<'_>) -> String {
    let mut out = String::new();
    match value {
        Value::Text(text) => out.push_str(text),
        Value::Map(map) => out = map::text(map),
        Value::List(list) if !list.iter().any(is_composite) => {
            let texts = list
                .iter()
                .map(|one| record::quote(&text(one)).into_owned());
            out = texts.collect::<Vec<_>>().join(",");
        }
        value if is_composite(value) => out = serde_json::to_string(value).unwrap_or_default(),
        value => cell::write(value, CellFormat::Plain, &mut out),
    }
    out
}

fn is_composite(value: &Value<'_>) -> bool {
    matches!(value, Value::Message(_) | Value::List(_))
}
