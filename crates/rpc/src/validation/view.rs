//! What a rule sees and says: a message's fields by their names, read from the bytes when a rule asks for them, and the rules that it
//! breaks, each with the path of the field.
//!
//! Reads leniently: what is broken or missing counts as not set, for `walk` reports broken bytes where they stand.

use csi_proto::path::{Path, contents};
use csi_proto::schema::{Field, Message};
use csi_proto::value::Value;
use std::borrow::Cow;
use std::fmt;

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
        let of = field.and_then(Field::message);
        debug_assert!(of.is_some(), "{name} is not a message field");
        let all = contents(self.message, self.bytes, name).into_iter();
        all.filter_map(|bytes| Some(MessageView::new(of?, bytes)))
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

/// Everything that is wrong with one message. Never empty; holds no secret, neither value nor key.
#[derive(Debug)]
pub struct Violations {
    message: &'static str,
    found: Broken,
}

impl std::error::Error for Violations {}

impl Violations {
    /// The violations one by one, as many as are shown.
    pub fn iter(&self) -> impl Iterator<Item = &Violation> {
        self.found.shown.iter()
    }
}

/// One rule that a message breaks.
#[derive(Debug)]
pub struct Violation {
    /// The path of the field, empty for the whole message.
    pub at: String,
    /// The rule.
    pub rule: String,
    /// Whether a required scalar has no more than its default value, which no sender can tell from a chosen one.
    pub is_default: bool,
}

impl fmt::Display for Violations {
    /// The message's name, then each field's path with the rule that it breaks.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is not valid: ", self.message)?;
        for (index, Violation { at, rule, .. }) in self.found.shown.iter().enumerate() {
            let separator = if index == 0 { "" } else { "; " };
            let colon = if at.is_empty() { "" } else { ": " };
            write!(f, "{separator}{at}{colon}{rule}")?;
        }
        match self.found.count - self.found.shown.len() {
            0 => Ok(()),
            more => write!(f, "; and {more} more"),
        }
    }
}

/// The number of violations that are shown; a list of thousands of bad entries would bury the rest of the output.
const SHOWN: usize = 20;

/// The rules that a message breaks, while it is checked.
#[derive(Debug, Default)]
pub struct Broken {
    pub(super) shown: Vec<Violation>,
    count: usize,
}

impl Broken {
    /// Notes that what lies at the path `at` breaks `rule`.
    pub fn push(&mut self, at: impl Into<String>, rule: impl Into<String>) {
        self.add(at.into(), rule.into(), false);
    }

    /// Notes that a required scalar at the path `at` has its default value.
    pub(crate) fn push_default(&mut self, at: impl Into<String>, rule: impl Into<String>) {
        self.add(at.into(), rule.into(), true);
    }

    fn add(&mut self, at: String, rule: String, is_default: bool) {
        self.count += 1;
        if self.shown.len() < SHOWN {
            self.shown.push(Violation {
                at,
                rule,
                is_default,
            });
        }
    }

    /// The violations of `message` as an error.
    pub(crate) fn into_result(self, message: &'static str) -> Result<(), Violations> {
        match self.count {
            0 => Ok(()),
            _ => Err(Violations {
                message,
                found: self,
            }),
        }
    }
}

/// Text as a violation shows it: escaped, and cut where it is longer than anything valid.
pub fn quoted(text: &str) -> String {
    let mut shown = text.chars();
    let start: String = shown.by_ref().take(128).collect();
    let more = if shown.next().is_some() { "…" } else { "" };
    format!("{start:?}{more}")
}

/// `name` inside `at`.
pub fn inside(at: &str, name: &str) -> String {
    match at {
        "" => name.to_owned(),
        _ => format!("{at}.{name}"),
    }
}
