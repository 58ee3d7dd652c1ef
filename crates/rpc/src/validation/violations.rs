//! Violations of the specification: the rules that a message breaks, each with the path of the field.

use std::fmt;

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
    ///
    /// # Errors
    /// When there is any.
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
