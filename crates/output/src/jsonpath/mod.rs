//! Expressions into the JSON of a reply: `-o jsonpath=…` and `-o custom-columns=…`, as kubectl has them.
//!
//! Owns kubectl's layer: what stands in braces, loops, and how results become text. The expressions are those of `syntax.rs`.

mod names;
mod query;
mod shape;
mod syntax;

pub use names::NameError;
pub use query::{Query, Scope};
pub use shape::Shape;

use csi_proto::escaped;
use csi_proto::schema::Message;
use csi_proto::text::Escaping;
use names::check;
use serde::Serialize;
use serde_json::Value as Json;
use serde_json::ser::{CompactFormatter, Serializer};
use std::borrow::Cow;
use thiserror::Error;

/// How many loops may stand in each other.
const MOST_OPEN: usize = 64;

/// A template, or a list of columns, that cannot be read.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum TemplateError {
    /// Nothing.
    #[error("write an expression: jsonpath={{.volume.volume_id}}")]
    Empty,
    /// A brace without its end.
    #[error("the expression {0:?} has no closing brace")]
    Open(String),
    /// A loop without its end.
    #[error("{{range {0}}} has no {{end}}")]
    OpenLoop(String),
    /// A loop over nothing.
    #[error("write what to loop over: {{range .entries[*]}}")]
    Range,
    /// An end without its loop.
    #[error("{{end}} has no {{range}} before it")]
    End,
    /// A literal that is no text.
    #[error("{0} is no literal: write \"\\n\", \"\\t\" or \"text\"")]
    Literal(String),
    /// Loops in loops without end.
    #[error("more than {MOST_OPEN} loops stand in each other")]
    Deep,
    /// Not an expression.
    #[error("{0:?} is no expression: {1}")]
    Path(String, String),
    /// Not a column.
    #[error("{0:?} is no column: write NAME:EXPRESSION, as in ID:.volume.volume_id")]
    Column(String),
}

/// A template, checked.
#[derive(Clone, Debug)]
pub struct Template {
    pieces: Vec<Piece>,
    /// What the documents are.
    root: Shape,
}

#[derive(Clone, Debug)]
enum Piece {
    Text(String),
    Path(Query),
    /// The pieces for each value that the expression finds.
    Loop(Query, Vec<Piece>),
}

impl Template {
    /// The template that `text` says. One without braces that begins as an expression does is one.
    pub fn parse(text: &str) -> Result<Self, TemplateError> {
        if text.is_empty() {
            return Err(TemplateError::Empty);
        }
        if !text.contains('{') && text.starts_with(['$', '.', '[', '@']) {
            return Ok(Self::of(vec![Piece::Path(expression(text)?)]));
        }
        let mut pieces = Vec::new();
        // The loops that are open, with what stood before each.
        let mut open: Vec<(String, Query, Vec<Piece>)> = Vec::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('{') {
            if !before.is_empty() {
                pieces.push(Piece::Text(before.to_owned()));
            }
            let end = end_of(after).ok_or_else(|| TemplateError::Open(after.to_owned()))?;
            let inside = after[..end].trim();
            rest = &after[end + 1..];
            match inside.split_once(char::is_whitespace) {
                Some(("range", over)) => {
                    let query = expression(over.trim())?;
                    if open.len() == MOST_OPEN {
                        return Err(TemplateError::Deep);
                    }
                    open.push((over.to_owned(), query, std::mem::take(&mut pieces)));
                }
                _ if inside == "end" => {
                    let (_, query, outer) = open.pop().ok_or(TemplateError::End)?;
                    let inner = std::mem::replace(&mut pieces, outer);
                    pieces.push(Piece::Loop(query, inner));
                }
                _ if inside == "range" => return Err(TemplateError::Range),
                _ => pieces.push(in_braces(inside)?),
            }
        }
        if let Some((over, ..)) = open.pop() {
            return Err(TemplateError::OpenLoop(over));
        }
        if !rest.is_empty() {
            pieces.push(Piece::Text(rest.to_owned()));
        }
        Ok(Self::of(pieces))
    }

    fn of(pieces: Vec<Piece>) -> Self {
        let root = Shape::Unknown;
        Self { pieces, root }
    }

    /// The template for documents of that shape, whose fields it may name in either spelling.
    ///
    /// # Errors
    /// When it has a name that they cannot have.
    pub(crate) fn for_documents(&self, root: Shape) -> Result<Self, NameError> {
        check_pieces(&self.pieces, root, &[root])?;
        let pieces = self.pieces.clone();
        Ok(Self { pieces, root })
    }

    /// What the template finds in a document, safe to show. What it does not find is nothing, and so is null.
    pub fn text(&self, document: &Json) -> String {
        let mut out = String::new();
        write(&self.pieces, Scope::whole(document, self.root), &mut out);
        out
    }
}

fn check_pieces(pieces: &[Piece], root: Shape, current: &[Shape]) -> Result<(), NameError> {
    for piece in pieces {
        match piece {
            Piece::Text(_) => {}
            Piece::Path(query) => drop(check(query, root, current)?),
            Piece::Loop(query, inner) => {
                let each = check(query, root, current)?;
                check_pieces(inner, root, &each)?;
            }
        }
    }
    Ok(())
}

fn write(pieces: &[Piece], scope: Scope<'_>, out: &mut String) {
    for piece in pieces {
        match piece {
            Piece::Text(text) => out.push_str(text),
            Piece::Path(query) => out.push_str(&joined(query, scope, " ")),
            Piece::Loop(query, inner) => {
                for current in query.find(scope) {
                    write(inner, Scope { current, ..scope }, out);
                }
            }
        }
    }
}

/// What an expression finds, as text. Null is nothing.
fn joined(query: &Query, scope: Scope<'_>, separator: &str) -> String {
    let found: Vec<_> = query
        .find(scope)
        .into_iter()
        .map(|node| shown(node.value))
        .collect();
    found.join(separator)
}

/// A column of `-o custom-columns=…`.
#[derive(Clone, Debug)]
pub struct ExpressionColumn {
    /// The head, as it was typed.
    pub head: String,
    query: Query,
    /// What the rows are.
    root: Shape,
}

impl ExpressionColumn {
    /// The columns that `text` says: `NAME:EXPRESSION,…`, with braces or without.
    pub(crate) fn parse_all(text: &str) -> Result<Vec<Self>, TemplateError> {
        let columns = split_at_commas(text).into_iter();
        let column = |text: &str| {
            let wrong = || TemplateError::Column(text.to_owned());
            let (head, path) = text.split_once(':').ok_or_else(wrong)?;
            let path = path.trim();
            if head.is_empty() || path.is_empty() {
                return Err(wrong());
            }
            Ok(Self {
                head: head.to_owned(),
                query: expression(without_braces(path).trim())?,
                root: Shape::Unknown,
            })
        };
        columns.map(column).collect()
    }

    /// The column for rows that are a `message`, as [`Template::for_message`].
    ///
    /// # Errors
    /// When it has a name that they cannot have.
    pub(crate) fn for_message(&self, message: &'static Message) -> Result<Self, NameError> {
        let root = Shape::Message(message);
        check(&self.query, root, &[root])?;
        let column = self.clone();
        Ok(Self { root, ..column })
    }

    /// Its text for a row, safe to show; nothing where nothing is found.
    pub fn text(&self, row: &Json) -> String {
        joined(&self.query, Scope::whole(row, self.root), ",")
    }
}

/// The letters of `text` that stand in no quotes, with their places; without those that a backslash takes as they are.
fn outside_quotes(text: &str) -> impl Iterator<Item = (usize, char)> + '_ {
    let mut quote = None;
    let mut letters = text.char_indices();
    std::iter::from_fn(move || {
        loop {
            let (at, letter) = letters.next()?;
            match (quote, letter) {
                (_, '\\') => drop(letters.next()),
                (Some(open), letter) if open == letter => quote = None,
                (Some(_), _) => {}
                (None, '"' | '\'') => quote = Some(letter),
                (None, letter) => return Some((at, letter)),
            }
        }
    })
}

/// `text`, split at the commas that stand in no brackets and no quotes.
fn split_at_commas(text: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let (mut start, mut depth) = (0, 0_usize);
    for (at, letter) in outside_quotes(text) {
        match letter {
            '[' | '(' | '{' => depth += 1,
            ']' | ')' | '}' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                parts.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts
}

/// An expression without the braces of kubectl, where it has them.
pub(crate) fn without_braces(text: &str) -> &str {
    let inner = text
        .strip_prefix('{')
        .and_then(|inner| inner.strip_suffix('}'));
    inner.unwrap_or(text)
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
    let mut braces = outside_quotes(text).filter(|(_, letter)| *letter == '}');
    braces.next().map(|(at, _)| at)
}

fn in_braces(text: &str) -> Result<Piece, TemplateError> {
    match text {
        "" => Err(TemplateError::Empty),
        _ if text.starts_with(['"', '\'']) => {
            let literal = syntax::unquoted(text).map(Piece::Text);
            literal.ok_or_else(|| TemplateError::Literal(text.to_owned()))
        }
        _ => expression(text).map(Piece::Path),
    }
}

fn expression(text: &str) -> Result<Query, TemplateError> {
    syntax::parse(text).map_err(|problem| TemplateError::Path(text.to_owned(), problem))
}

#[cfg(test)]
mod tests;
