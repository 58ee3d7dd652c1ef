//! Violations of the specification: the rules that a message breaks, each with the path of the field.

use std::fmt;

/// Everything that is wrong with one message. Never empty; holds no secret, neither value nor key.
#[derive(Debug)]
pub struct Violations {
    message: &'static str,
    found: Broken,
}

impl std::error::Error for Violations {}

impl fmt::Display for Violations {
    /// The message's name, then each field's path with the rule that it breaks.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is not valid: ", self.message)?;
        for (index, (at, rule)) in self.found.shown.iter().enumerate() {
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

/// The rules that a message breaks, while it is checked: the path of a field, empty for the whole message, and the rule that it breaks.
#[derive(Debug, Default)]
pub struct Broken {
    pub(super) shown: Vec<(String, String)>,
    count: usize,
}

impl Broken {
    /// Notes that what lies at the path `at` breaks `rule`.
    pub fn push(&mut self, at: impl Into<String>, rule: impl Into<String>) {
        self.count += 1;
        if self.shown.len() < SHOWN {
            self.shown.push((at.into(), rule.into()));
        }
    }

    /// The violations of `message` as an error.
    ///
    /// # Errors
    /// When there is any.
    pub fn into_result(self, message: &'static str) -> Result<(), Violations> {
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
