//! Parses files in TOML. An error names the line.

use serde::de::DeserializeOwned;
use thiserror::Error;

/// A text that is not TOML, or has keys or values that mean nothing.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("line {line}: {problem}")]
pub struct TomlError {
    /// The line, from 1.
    pub line: usize,
    /// The problem, and the key that it belongs to.
    pub problem: String,
}

/// The library's words for what it expects, and the words that users of TOML know.
const PLAIN_WORDS: &[(&str, &str)] = &[
    ("expected a string", "expected text in quotes"),
    ("expected path string", "expected text in quotes"),
    ("expected a boolean", "expected true or false"),
    (
        "expected a map",
        "expected a table, such as { server = \"10.0.0.4\" }",
    ),
    ("expected usize", "expected a whole number from 0"),
    ("expected u64", "expected a whole number from 0"),
    ("unknown field", "no such key"),
    (", expected one of", "; the keys are"),
];

/// The value that a text says.
///
/// # Errors
/// When it is not TOML, or has keys or values that mean nothing.
pub fn parse<T: DeserializeOwned>(text: &str) -> Result<T, TomlError> {
    toml::from_str(text).map_err(|mut error| {
        let at = error.span().map_or(0, |span| span.start).min(text.len());
        let before = &text.as_bytes()[..at];
        // Given the text, the library would draw the line; without it, it names the key after the problem.
        error.set_input(None);
        let shown = error.to_string();
        let key = shown.trim_end().rsplit_once("\nin `");
        let key = key.and_then(|(_, key)| key.strip_suffix('`'));
        let mut problem = error.message().replace('\n', ", ");
        for (words, plain) in PLAIN_WORDS {
            problem = problem.replace(words, plain);
        }
        if let Some(key) = key {
            problem = format!("{key}: {problem}");
        }
        TomlError {
            line: before.iter().filter(|byte| **byte == b'\n').count() + 1,
            problem,
        }
    })
}
