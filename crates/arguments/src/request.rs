//! Whole requests from `--request FILE|-|JSON`.
//!
//! What has been typed is read only when asked for, so that no report of a bad argument repeats a request that may hold
//! secrets.

use super::text::{TextError, TextOrigin};
use super::unique_keys::UniqueKeys;
use csi_proto::{json, schema::Message};
use serde_json::Value as Json;
use serde_json::error::Category;
use std::fmt;
use thiserror::Error;

/// A request that cannot be had, or may not come this way.
#[derive(Debug, Error)]
pub enum RequestTextError {
    /// No file, no JSON.
    #[error(
        "the request is empty: name a file, - for standard input, or write JSON such as '{{\"volumeId\": \"v\"}}'"
    )]
    Empty,
    /// The file or standard input cannot be read.
    #[error("{0}")]
    Text(TextError),
    /// The text is not JSON, or an object in it has a key twice.
    #[error("{origin}: line {line}, column {column}: {problem}")]
    Syntax {
        /// The origin of the JSON.
        origin: String,
        /// The line, from 1.
        line: usize,
        /// The column, from 1.
        column: usize,
        /// What the parser expected there.
        problem: String,
    },
    /// Secrets on the command line, where every process and the shell's history see them.
    #[error(
        "the request on the command line holds secrets, which others can see there: put it in a file, or use --secrets-file or X_CSI_SECRETS"
    )]
    InlineSecrets,
}

/// A place from which a request can be read.
#[derive(Clone, PartialEq, Eq)]
pub enum RequestSource {
    /// JSON that stands in the argument itself.
    Inline(String),
    /// A file or standard input.
    Text(TextOrigin),
}

/// `-` is standard input, what begins with `{` is JSON, everything else a file.
///
/// # Errors
/// When `text` is empty.
pub fn parse(text: &str) -> Result<RequestSource, RequestTextError> {
    match text.trim_start() {
        "" => Err(RequestTextError::Empty),
        json if json.starts_with('{') => Ok(RequestSource::Inline(text.to_owned())),
        _ => Ok(RequestSource::Text(TextOrigin::parse(text))),
    }
}

impl RequestSource {
    /// Whether it takes all of standard input.
    pub fn is_stdin(&self) -> bool {
        *self == Self::Text(TextOrigin::Stdin)
    }

    /// The JSON of a request of type `message`. Only its syntax is checked here, and that no secret is on the command line.
    ///
    /// # Errors
    /// When it cannot be read, is not JSON, or carries secrets in the argument itself.
    pub fn read(&self, message: &'static Message) -> Result<Json, RequestTextError> {
        let text = match self {
            Self::Inline(text) => text,
            Self::Text(origin) => &origin.read().map_err(RequestTextError::Text)?,
        };
        let UniqueKeys(value) = serde_json::from_str(text).map_err(|error| self.syntax(&error))?;
        if matches!(self, Self::Inline(_)) && json::has_secrets(message, &value) {
            return Err(RequestTextError::InlineSecrets);
        }
        Ok(value)
    }

    fn syntax(&self, error: &serde_json::Error) -> RequestTextError {
        // The library's text ends with the position, which has its own place here, and never repeats the document.
        let position = format!(" at line {} column {}", error.line(), error.column());
        let problem = error.to_string().replace(&position, "");
        RequestTextError::Syntax {
            origin: self.to_string(),
            line: error.line(),
            column: error.column(),
            problem: match error.classify() {
                Category::Eof => format!("{problem}; the JSON is cut off"),
                _ if problem == "trailing characters" => {
                    "more after the end of the JSON; a request is one JSON object".to_owned()
                }
                Category::Syntax => format!("{problem}; a request is JSON, as -o json prints it"),
                _ => problem,
            },
        }
    }
}

/// The place alone, never the JSON.
impl fmt::Display for RequestSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Inline(_) => f.write_str("the JSON of the request"),
            Self::Text(origin) => origin.fmt(f),
        }
    }
}

impl fmt::Debug for RequestSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RequestSource({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use csi_proto::tables;
    use serde_json::json;

    fn read(text: &str) -> Result<Json, RequestTextError> {
        parse(text)?.read(&tables::CREATE_VOLUME_REQUEST)
    }

    #[test]
    fn json_comes_inline_or_from_a_file() {
        assert_eq!(
            read(" {\"name\": \"v\"}").expect("JSON"),
            json!({"name": "v"})
        );
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("r.json");
        std::fs::write(
            &path,
            "{\n\"name\": \"v\", \"secrets\": {\"k\": \"v\"}\n}\n",
        )
        .expect("written");
        let value = read(path.to_str().expect("text")).expect("JSON");
        assert_eq!(value, json!({"name": "v", "secrets": {"k": "v"}}));
        assert!(parse("-").expect("a source").is_stdin());
    }

    #[test]
    fn inline_secrets_are_refused_and_shown_nowhere() {
        for text in [
            "{\"secrets\": {\"k\": \"hunter2\"}}",
            "{\"name\": \"v\", \"secrets\": \"hunter2\"}",
        ] {
            let error = read(text).expect_err(text);
            assert!(matches!(error, RequestTextError::InlineSecrets), "{error}");
            assert!(!format!("{error} {error:?} {:?}", parse(text)).contains("hunter2"));
        }
        let broken = "{\"secrets\": {\"k\": \"hunter2\"";
        let error = read(broken).expect_err(broken);
        assert!(!format!("{error} {error:?} {:?}", parse(broken)).contains("hunter2"));
        assert!(read("{\"secrets\": {}}").is_ok());
    }

    #[test]
    fn errors_say_where() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("r.json");
        std::fs::write(&path, "{\n  \"name\": v\n}").expect("written");
        let path = path.to_str().expect("text");
        let error = read(path).expect_err("broken");
        assert_eq!(
            error.to_string(),
            format!(
                "{path}: line 2, column 11: expected value; a request is JSON, as -o json prints it"
            )
        );
        let cases = [
            (
                "{\"a\": 1",
                "the JSON of the request: line 1, column 7: EOF while parsing an object; the JSON is cut off",
            ),
            (
                "{\"parameters\": {\"a\": \"b\", \"a\": \"c\"}}",
                "the JSON of the request: line 1, column 29: the key \"a\" is given twice",
            ),
            (
                "{} {}",
                "the JSON of the request: line 1, column 4: more after the end of the JSON; a request is one JSON object",
            ),
        ];
        for (text, message) in cases {
            assert_eq!(read(text).expect_err(text).to_string(), message);
        }
        for (text, part) in [
            ("", "the request is empty"),
            ("/nowhere/r", "cannot read /nowhere/r: "),
        ] {
            let error = read(text).expect_err(text).to_string();
            assert!(error.starts_with(part), "{error}");
        }
    }
}
