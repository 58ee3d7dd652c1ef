//! Templates of `-o jsonpath=…`: kubectl's braces and literals around expressions of RFC 9535.
//!
//! Owns the thin layer: what stands in braces, how kubectl writes a path, and how results become text. The expressions are
//! serde_json_path's, without its functions of regular expressions.

use csi_proto::text::{Escaping, escaped};
use serde::Serialize;
use serde_json::Value as Json;
use serde_json::ser::{CompactFormatter, Serializer};
use serde_json_path::{JsonPath, ParseError};
use std::borrow::Cow;
use thiserror::Error;

/// A template that cannot be read.
#[derive(Debug, Error)]
pub enum TemplateError {
    /// Nothing.
    #[error("write an expression: jsonpath={{.volume.volumeId}}")]
    Empty,
    /// A brace without its end.
    #[error("the expression {0:?} has no closing brace")]
    Open(String),
    /// kubectl's loops.
    #[error(
        "{{{0}}} is not supported: {{.entries[*].volume.volumeId}} has one value of every entry, and -o jsonl prints a line an entry"
    )]
    Loop(String),
    /// A literal that is no text.
    #[error("{0} is no literal: write \"\\n\", \"\\t\" or \"text\"")]
    Literal(String),
    /// Not an expression.
    #[error("{0:?} is no expression of RFC 9535: {1}")]
    Path(String, ParseError),
}

/// A template, checked.
#[derive(Clone, Debug)]
pub struct Template {
    text: String,
    pieces: Vec<Piece>,
}

#[derive(Clone, Debug)]
enum Piece {
    Text(String),
    Path(JsonPath),
}

impl Template {
    /// The template that `text` says. One without braces that begins as an expression does is one.
    ///
    /// # Errors
    /// What in it cannot be read.
    pub fn parse(text: &str) -> Result<Self, TemplateError> {
        if text.is_empty() {
            return Err(TemplateError::Empty);
        }
        if !text.contains('{') && text.starts_with(['$', '.', '[', '@']) {
            return Ok(Self {
                text: text.to_owned(),
                pieces: vec![path(text)?],
            });
        }
        let mut pieces = Vec::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('{') {
            if !before.is_empty() {
                pieces.push(Piece::Text(before.to_owned()));
            }
            let end = end_of(after).ok_or_else(|| TemplateError::Open(after.to_owned()))?;
            pieces.push(in_braces(after[..end].trim())?);
            rest = &after[end + 1..];
        }
        if !rest.is_empty() {
            pieces.push(Piece::Text(rest.to_owned()));
        }
        let text = text.to_owned();
        Ok(Self { text, pieces })
    }

    /// The template as it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// What the template finds in a document, safe to show. What it does not find is nothing, and so is null.
    pub fn text(&self, document: &Json) -> String {
        let mut out = String::new();
        for piece in &self.pieces {
            match piece {
                Piece::Text(text) => out.push_str(text),
                Piece::Path(path) => {
                    let found: Vec<_> = path.query(document).into_iter().map(shown).collect();
                    out.push_str(&found.join(" "));
                }
            }
        }
        out
    }
}

/// A value as kubectl shows it: texts without quotes, all else as JSON in one line.
fn shown(found: &Json) -> Cow<'_, str> {
    match found {
        Json::Null => Cow::Borrowed(""),
        Json::String(found) => escaped(found),
        found => {
            let mut text = Vec::new();
            let mut writer = Serializer::with_formatter(&mut text, Escaping(CompactFormatter));
            // A vector takes every byte.
            let _ = found.serialize(&mut writer);
            Cow::Owned(String::from_utf8_lossy(&text).into_owned())
        }
    }
}

/// Where the brace is that closes the expression at the beginning of `text`: not inside of quotes.
fn end_of(text: &str) -> Option<usize> {
    let mut quote = None;
    let mut letters = text.char_indices();
    while let Some((at, letter)) = letters.next() {
        match (quote, letter) {
            (None, '}') => return Some(at),
            (None, '"' | '\'') => quote = Some(letter),
            (Some(_), '\\') => drop(letters.next()),
            (Some(open), letter) if open == letter => quote = None,
            _ => {}
        }
    }
    None
}

fn in_braces(text: &str) -> Result<Piece, TemplateError> {
    let word = text.split_whitespace().next().unwrap_or_default();
    match word {
        "" => Err(TemplateError::Empty),
        "range" | "end" => Err(TemplateError::Loop(word.to_owned())),
        _ if text.starts_with(['"', '\'']) => {
            literal(text).ok_or_else(|| TemplateError::Literal(text.to_owned()))
        }
        _ => path(text),
    }
}

/// A literal in either kind of quotes, with JSON's escapes.
fn literal(text: &str) -> Option<Piece> {
    let inner = match text.strip_prefix('\'') {
        Some(rest) => rest.strip_suffix('\'')?.replace('"', "\\\""),
        None => text.strip_prefix('"')?.strip_suffix('"')?.to_owned(),
    };
    serde_json::from_str(&format!("\"{inner}\""))
        .ok()
        .map(Piece::Text)
}

/// An expression, as RFC 9535 or kubectl writes it: kubectl leaves the root out, or calls it `@`.
fn path(text: &str) -> Result<Piece, TemplateError> {
    let rooted = match text.strip_prefix(['$', '@']) {
        Some("") => "$".to_owned(),
        Some(rest) => format!("${rest}"),
        None if text == "." => "$".to_owned(),
        None if text.starts_with(['.', '[']) => format!("${text}"),
        None => format!("$.{text}"),
    };
    let parsed = JsonPath::parse(&rooted);
    let parsed = parsed.map_err(|error| TemplateError::Path(text.to_owned(), error))?;
    Ok(Piece::Path(parsed))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn found(template: &str) -> String {
        let document = json!({
            "volume": {"volumeId": "vol-1", "capacityBytes": "5", "volumeContext": {"a.b": "x", "c": "\u{1b}[2J"}},
            "entries": [{"id": "a", "n": 1}, {"id": "b", "n": 2}],
            "ready": true,
        });
        let template =
            Template::parse(template).unwrap_or_else(|error| panic!("{template}: {error}"));
        template.text(&document)
    }

    #[test]
    fn kubectl_s_way_and_the_standard_s_find_the_same() {
        for (template, expected) in [
            ("{.volume.volumeId}", "vol-1"),
            ("{$.volume.volumeId}", "vol-1"),
            ("{@.volume.volumeId}", "vol-1"),
            ("{volume.volumeId}", "vol-1"),
            ("$.volume.volumeId", "vol-1"),
            (".volume.volumeId", "vol-1"),
            ("{.volume['volumeContext']['a.b']}", "x"),
            ("{.entries[*].id}", "a b"),
            ("{.entries[-1].id}{\"\\n\"}", "b\n"),
            ("{.entries[?(@.n > 1)].id}", "b"),
            ("{.entries[?@.id == '}'].id}", ""),
            ("{..id}", "a b"),
            ("id={.entries[0].id}{'\\t'}n={.entries[0].n};", "id=a\tn=1;"),
            ("{.ready} {.entries[0]}", "true {\"id\":\"a\",\"n\":1}"),
            ("{.missing}{.volume.missing.deeper}", ""),
            ("{\"}\"}{'it\"s'}", "}it\"s"),
            ("{.volume.volumeContext.c}", "\\u{1b}[2J"),
            ("text", "text"),
        ] {
            assert_eq!(found(template), expected, "{template}");
        }
        assert!(found("{.}").starts_with("{\"volume\":{"));
    }

    #[test]
    fn what_is_no_template_says_why() {
        for (template, problem) in [
            ("", "write an expression"),
            ("{}", "write an expression"),
            ("{.a", "no closing brace"),
            ("{range .entries[*]}{.id}{end}", "{range} is not supported"),
            ("{\"a}", "no closing brace"),
            ("{\"\\q\"}", "is no literal"),
            ("{.a..}", "is no expression of RFC 9535"),
            (
                "{.entries[?match(@.id, 'a.*')]}",
                "is no expression of RFC 9535",
            ),
        ] {
            let error = Template::parse(template).expect_err(template).to_string();
            assert!(error.contains(problem), "{template}: {error}");
        }
    }
}
