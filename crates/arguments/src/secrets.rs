//! Secrets: from the environment, from a file, or typed at a prompt, never from an argument.
//!
//! What is read here must not be seen: [`Secrets`] shows nothing of itself, and errors count entries and lines instead of
//! repeating them.

mod prompt;

pub use prompt::{PromptError, parse_key, prompt};

use super::record::{self, Dialect, RecordSyntaxError};
use super::text::{TextError, TextOrigin};
use serde_json::Value as Json;
use std::collections::BTreeMap;
use std::env;
use std::fmt;
use thiserror::Error;

/// The variable that holds secrets, as csc has it.
pub const VARIABLE: &str = "X_CSI_SECRETS";

/// Whether the variable holds something.
pub fn are_in_environment() -> bool {
    env::var_os(VARIABLE).is_some_and(|text| !text.is_empty())
}

/// Secrets that cannot be had. No message repeats any of what was read.
#[derive(Debug, Error)]
pub enum SecretsError {
    /// The variable's quotes do not fit.
    #[error("{VARIABLE}: {0}; write k=v,\"k2=a value, with a comma\"")]
    Record(RecordSyntaxError),
    /// An entry of the variable without `=`.
    #[error("{VARIABLE}: entry {0} has no =; write k=v,\"k2=a value, with a comma\"")]
    NoValue(usize),
    /// The variable is not UTF-8.
    #[error("{VARIABLE} is not UTF-8 text; for other secrets use --secrets-file")]
    NotText,
    /// A file that cannot be read.
    #[error("secrets: {0}")]
    Text(TextError),
    /// A line of the file without `=`.
    #[error(
        "secrets: {0}: line {1} has no =; write key=value lines, # comments, or one JSON object"
    )]
    Line(TextOrigin, usize),
    /// The file begins with `{` and is not JSON.
    #[error("secrets: {origin}: not valid JSON from line {line}, column {column}")]
    Json {
        /// The origin of the secrets.
        origin: TextOrigin,
        /// The line, from 1.
        line: usize,
        /// The column, from 1.
        column: usize,
    },
    /// A value in the JSON object that is not text.
    #[error("secrets: {0}: the value of {1:?} is not text; put it in quotes")]
    NotString(TextOrigin, String),
}

/// Names and values that must never be shown. Formatting them, also for debugging, shows nothing of either.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Secrets(BTreeMap<String, String>);

impl Secrets {
    /// The secrets in `X_CSI_SECRETS`; none when it is not set.
    pub fn from_environment() -> Result<Self, SecretsError> {
        match env::var(VARIABLE) {
            Ok(text) => Self::from_record(&text),
            Err(env::VarError::NotPresent) => Ok(Self::default()),
            Err(env::VarError::NotUnicode(_)) => Err(SecretsError::NotText),
        }
    }

    /// One record `k=v,"k2=v with , comma"`: split at the first `=`, spaces before an entry skipped, empty entries too.
    ///
    /// # Errors
    /// When quotes do not fit or an entry has no `=`: a value was probably cut at its comma.
    pub fn from_record(text: &str) -> Result<Self, SecretsError> {
        let mut secrets = BTreeMap::new();
        let text = text.trim_end_matches(['\n', '\r']);
        let entries = record::entries(text, Dialect::Strict).map_err(SecretsError::Record)?;
        for (index, entry) in entries.iter().enumerate() {
            match entry.split_once('=') {
                Some((key, value)) => secrets.insert(key.to_owned(), value.to_owned()),
                None if entry.is_empty() => None,
                None => return Err(SecretsError::NoValue(index + 1)),
            };
        }
        Ok(Self(secrets))
    }

    /// A file, or `-` for standard input: one JSON object of texts, or lines `key=value` with `#` comments. A value in a
    /// line is everything after the first `=`.
    ///
    /// # Errors
    /// When it cannot be read or is neither.
    pub fn from_file(path: &str) -> Result<Self, SecretsError> {
        let origin = TextOrigin::parse(path);
        let text = origin.read().map_err(SecretsError::Text)?;
        match text.trim_start().starts_with('{') {
            true => Self::from_json(&text, origin),
            false => Self::from_lines(&text, origin),
        }
    }

    fn from_json(text: &str, origin: TextOrigin) -> Result<Self, SecretsError> {
        // Read as any JSON first: the library's errors about types repeat the value.
        let members: BTreeMap<String, Json> = match serde_json::from_str(text) {
            Ok(members) => members,
            Err(error) => {
                return Err(SecretsError::Json {
                    origin,
                    line: error.line(),
                    column: error.column(),
                });
            }
        };
        let mut secrets = BTreeMap::new();
        for (key, value) in members {
            match value {
                Json::String(value) => secrets.insert(key, value),
                _ => return Err(SecretsError::NotString(origin, key)),
            };
        }
        Ok(Self(secrets))
    }

    fn from_lines(text: &str, origin: TextOrigin) -> Result<Self, SecretsError> {
        let mut secrets = BTreeMap::new();
        for (index, line) in text.lines().enumerate() {
            let line = line.trim_start();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let Some((key, value)) = line.split_once('=') else {
                return Err(SecretsError::Line(origin, index + 1));
            };
            secrets.insert(key.trim_end().to_owned(), value.to_owned());
        }
        Ok(Self(secrets))
    }

    /// Adds those of `other`; where both have a name, `other` wins.
    pub fn extend(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    /// The secrets in clear, for the one place that puts them into a request.
    pub fn reveal(&self) -> &BTreeMap<String, String> {
        &self.0
    }
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secrets(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(pairs: &[(&str, &str)]) -> Secrets {
        let owned = pairs
            .iter()
            .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()));
        Secrets(owned.collect())
    }

    fn from_file(content: &str) -> Result<Secrets, SecretsError> {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("secrets");
        std::fs::write(&path, content).expect("written");
        Secrets::from_file(path.to_str().expect("text"))
    }

    #[test]
    fn records_are_csc_s() {
        let cases: &[(&str, &[(&str, &str)])] = &[
            ("", &[]),
            ("k=v", &[("k", "v")]),
            ("k=v\n", &[("k", "v")]),
            ("k=v=w", &[("k", "v=w")]),
            ("k=v, l=w", &[("k", "v"), ("l", "w")]),
            (
                "k=v,\"k2=v with , comma\"",
                &[("k", "v"), ("k2", "v with , comma")],
            ),
            ("k=v, \"k2=a \"\"b\"\"\"", &[("k", "v"), ("k2", "a \"b\"")]),
            ("\"k=a\nb\"", &[("k", "a\nb")]),
            ("k=", &[("k", "")]),
            ("k=v,", &[("k", "v")]),
        ];
        for (text, expected) in cases {
            assert!(
                Secrets::from_record(text).expect(text) == of(expected),
                "{text}"
            );
        }
    }

    #[test]
    fn malformed_records_are_not_repeated() {
        let cases = [
            ("\"k=hunter2", "X_CSI_SECRETS: entry 1 has an opening quote"),
            ("a=b,k=hunt\"er2", "X_CSI_SECRETS: entry 2 holds a quote"),
            (
                "a=b,\"k=x\"hunter2",
                "X_CSI_SECRETS: entry 2 goes on after its closing quote",
            ),
            ("k=x,hunter2", "X_CSI_SECRETS: entry 2 has no ="),
            (
                "k=x\nl=hunter2",
                "X_CSI_SECRETS: entry 1 holds a line break",
            ),
        ];
        for (text, message) in cases {
            let error = Secrets::from_record(text).expect_err(text);
            assert!(error.to_string().starts_with(message), "{error}");
            assert!(!format!("{error} {error:?}").contains("hunt"), "{error:?}");
        }
    }

    #[test]
    fn files_hold_json_or_lines() {
        let expected = of(&[("k", "v, w"), ("l", " x=y ")]);
        let cases = [
            "{\"k\": \"v, w\", \"l\": \" x=y \"}",
            "\n {\"k\": \"v, w\",\n \"l\": \" x=y \"}\n",
            "# a comment\nk=v, w\n\n  l = x=y \n",
            "k=v, w\r\nl= x=y \r\n",
        ];
        for content in cases {
            assert!(from_file(content).expect(content) == expected, "{content}");
        }
        assert!(from_file("").expect("nothing").reveal().is_empty());
    }

    #[test]
    fn malformed_files_are_not_repeated() {
        let cases = [
            ("# x\nk=v\nhunter2\n", "line 3 has no ="),
            ("{\"k\": hunter2}", "not valid JSON from line 1, column 7"),
            (
                "{\"k\": \"hunter2\"",
                "not valid JSON from line 1, column 15",
            ),
            ("{\"k\": [\"hunter2\"]}", "the value of \"k\" is not text"),
            ("{\"k\": 42424242}", "the value of \"k\" is not text"),
        ];
        for (content, message) in cases {
            let error = from_file(content).expect_err(content);
            assert!(error.to_string().contains(message), "{error}");
            let shown = format!("{error} {error:?}");
            assert!(
                !shown.contains("hunter2") && !shown.contains("42424242"),
                "{shown}"
            );
        }
        let error = Secrets::from_file("/nowhere/s").expect_err("missing");
        assert!(
            error
                .to_string()
                .starts_with("secrets: cannot read /nowhere/s: ")
        );
    }

    #[test]
    fn debugging_shows_nothing() {
        assert_eq!(format!("{:?}", of(&[("user", "hunter2")])), "Secrets(..)");
    }

    #[test]
    fn later_secrets_win() {
        let mut secrets = of(&[("a", "1"), ("b", "2")]);
        secrets.extend(of(&[("b", "3")]));
        assert!(secrets == of(&[("a", "1"), ("b", "3")]));
    }

    proptest! {
        #[test]
        fn nothing_panics(text in ".*") {
            let _ = Secrets::from_record(&text);
            let _ = Secrets::from_lines(&text, TextOrigin::Stdin);
            let _ = Secrets::from_json(&text, TextOrigin::Stdin);
        }
    }
}
