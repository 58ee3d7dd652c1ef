//! One record of comma-separated entries, with the quoting of RFC 4180: `a,"b,c","d ""quoted"" e"`.
//!
//! This file owns where an entry ends. What an entry says is for its readers. Errors count entries and never repeat
//! them, since a record may hold secrets.

use std::borrow::Cow;
use thiserror::Error;

/// The differences between the three notations that use records.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dialect {
    /// Spaces belong to entries; a quote counts only where an entry begins.
    Plain,
    /// A quote may also begin right after an entry's first `=`.
    QuotedValues,
    /// Spaces before an entry are skipped, and an entry that does not begin with a quote holds none.
    Strict,
}

/// A record whose quotes do not fit.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum RecordSyntaxError {
    /// The closing quote is missing.
    #[error("entry {0} has an opening quote but no closing one; write a quote inside as \"\"")]
    Unclosed(usize),
    /// Something other than a comma follows the closing quote.
    #[error("entry {0} goes on after its closing quote; write a quote inside as \"\"")]
    AfterQuote(usize),
    /// An entry that was cut at a comma inside its quotes.
    #[error(
        "entry {0} has a quote that ends after a comma; put the whole entry in quotes, and those in quotes of the shell: '\"key=a,b\"'"
    )]
    Cut(usize),
    /// A line break that no quotes hold.
    #[error(
        "entry {0} holds a line break; separate entries by commas, or put the whole entry in quotes"
    )]
    LineBreak(usize),
    /// A quote in an entry that is not quoted.
    #[error(
        "entry {0} holds a quote; put the whole entry in quotes and double those inside: '\"key=a\"\"b\"'"
    )]
    BareQuote(usize),
}

/// The texts of a list such as `a,"b,c"`.
///
/// # Errors
/// As [`entries`].
pub fn list(text: &str) -> Result<Vec<String>, RecordSyntaxError> {
    entries(text, Dialect::Plain)
}

/// The entries of `text`, unquoted. Empty text is one empty entry.
///
/// # Errors
/// When a quote is not closed or stands where none may.
pub(crate) fn entries(text: &str, dialect: Dialect) -> Result<Vec<String>, RecordSyntaxError> {
    let mut entries = Vec::new();
    let mut rest = text;
    loop {
        let number = entries.len() + 1;
        if dialect == Dialect::Strict {
            rest = rest.trim_start();
        }
        let (entry, after) = match quote_at(rest, dialect) {
            Some(at) => {
                let (value, after) =
                    quoted(&rest[at + 1..]).ok_or(RecordSyntaxError::Unclosed(number))?;
                (format!("{}{value}", &rest[..at]), after)
            }
            None => {
                let end = rest.find(',').unwrap_or(rest.len());
                check_unquoted(&rest[..end], number, dialect)?;
                (rest[..end].to_owned(), &rest[end..])
            }
        };
        entries.push(entry);
        if after.is_empty() {
            return Ok(entries);
        }
        rest = after
            .strip_prefix(',')
            .ok_or(RecordSyntaxError::AfterQuote(number))?;
    }
}

/// Refuses what was surely meant to be quoted.
fn check_unquoted(entry: &str, number: usize, dialect: Dialect) -> Result<(), RecordSyntaxError> {
    if dialect == Dialect::Strict {
        if entry.contains('"') {
            return Err(RecordSyntaxError::BareQuote(number));
        }
        if entry.contains(['\n', '\r']) {
            return Err(RecordSyntaxError::LineBreak(number));
        }
    }
    // Whole quotes around a value are the value's own, as in csc.
    let value = entry.split_once('=').map_or("", |(_, value)| value);
    if value.starts_with('"') && (value.len() == 1 || !value.ends_with('"')) {
        return Err(RecordSyntaxError::Cut(number));
    }
    Ok(())
}

/// `entry` so that [`entries`] reads it back in every dialect, among others.
pub fn quote(entry: &str) -> Cow<'_, str> {
    if entry.contains([',', '"', '\n', '\r']) || entry.starts_with(char::is_whitespace) {
        Cow::Owned(format!("\"{}\"", entry.replace('"', "\"\"")))
    } else {
        Cow::Borrowed(entry)
    }
}

/// The place of the quote that opens the entry at the start of `rest`, if it is quoted.
fn quote_at(rest: &str, dialect: Dialect) -> Option<usize> {
    if rest.starts_with('"') {
        return Some(0);
    }
    let equals = rest.find(['=', ','])?;
    (dialect == Dialect::QuotedValues && rest[equals..].starts_with("=\"")).then_some(equals + 1)
}

/// The text up to the closing quote, and what follows that quote.
fn quoted(rest: &str) -> Option<(String, &str)> {
    let mut text = String::new();
    let mut rest = rest;
    loop {
        let (before, after) = rest.split_once('"')?;
        text.push_str(before);
        match after.strip_prefix('"') {
            Some(further) => {
                text.push('"');
                rest = further;
            }
            None => return Some((text, after)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Dialect::{Plain, QuotedValues, Strict};
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn entries_end_where_they_should() {
        let cases: &[(&str, Dialect, &[&str])] = &[
            ("", Plain, &[""]),
            ("a", Plain, &["a"]),
            ("a,b", Plain, &["a", "b"]),
            ("a,,b,", Plain, &["a", "", "b", ""]),
            ("a, b", Plain, &["a", " b"]),
            ("a, b", Strict, &["a", "b"]),
            ("a, \"b\"", Strict, &["a", "b"]),
            ("\"a,b\",c", Plain, &["a,b", "c"]),
            ("\"a\"\"b\"", Plain, &["a\"b"]),
            ("\"\"", Plain, &[""]),
            ("\"a\nb\"", Plain, &["a\nb"]),
            ("k=\"a\",b", Plain, &["k=\"a\"", "b"]),
            ("k=\"a,b\",c", QuotedValues, &["k=a,b", "c"]),
            ("k=\"a,b\"", QuotedValues, &["k=a,b"]),
            ("k=x\"y\"", QuotedValues, &["k=x\"y\""]),
            ("k,l=\"a,b\"", QuotedValues, &["k", "l=a,b"]),
        ];
        for (text, dialect, expected) in cases {
            let found = entries(text, *dialect).expect(text);
            assert_eq!(found, *expected, "{text}");
        }
    }

    #[test]
    fn misplaced_quotes_are_errors() {
        let cases = [
            ("\"a", Plain, RecordSyntaxError::Unclosed(1)),
            ("x,\"a\"\"", Plain, RecordSyntaxError::Unclosed(2)),
            ("\"a\"b", Plain, RecordSyntaxError::AfterQuote(1)),
            ("a,\"b\" ,c", Plain, RecordSyntaxError::AfterQuote(2)),
            ("k=\"a", QuotedValues, RecordSyntaxError::Unclosed(1)),
            ("k=a\"b", Strict, RecordSyntaxError::BareQuote(1)),
            ("k=a\nl=b", Strict, RecordSyntaxError::LineBreak(1)),
            ("k=\"a,b\"", Plain, RecordSyntaxError::Cut(1)),
            ("k=\"", Plain, RecordSyntaxError::Cut(1)),
        ];
        for (text, dialect, expected) in cases {
            assert_eq!(entries(text, dialect), Err(expected), "{text}");
        }
    }

    proptest! {
        #[test]
        fn quoted_entries_come_back(list in prop::collection::vec("[a-z=\", \n]{0,8}", 1..5)) {
            let text = list.iter().map(|entry| quote(entry)).collect::<Vec<_>>().join(",");
            // An entry such as `k="` needs no care in any dialect, because `quote` has quoted it.
            for dialect in [Plain, QuotedValues, Strict] {
                prop_assert_eq!(entries(&text, dialect), Ok(list.clone()));
            }
        }

        #[test]
        fn nothing_panics(text in ".*") {
            for dialect in [Plain, QuotedValues, Strict] {
                let _ = entries(&text, dialect);
            }
        }
    }
}
