//! Maps of text, written `k=v,k2=v2`; quotes allow any value.
//!
//! - Entries are separated by commas and split at their first `=`; an entry without `=` is a key with an empty value;
//!   empty entries are skipped; the last of equal keys wins.
//! - An entry that holds a comma, a newline or a leading quote stands in quotes: `'"k=a,b",k2=v'`; a quote inside is `""`.
//! - `k=@file` takes the value from a file, without one newline at its end; `k=@@x` is the text `@x`.

use super::record::{self, Dialect, RecordSyntaxError};
use super::text::{TextError, TextOrigin};
use indexmap::IndexMap;
use std::borrow::Cow;
use thiserror::Error;

/// Text that is not a map.
#[derive(Debug, Error)]
pub enum MapError {
    /// Quotes that do not fit.
    #[error("{0}")]
    Record(RecordSyntaxError),
    /// `k=@-`.
    #[error(
        "the value of {0:?} cannot come from standard input, which more than one flag may want; name it as @/dev/stdin if you are sure"
    )]
    Stdin(String),
    /// `k=@` and nothing else.
    #[error("the value of {0:?} names no file: write {0}=@FILE, or {0}=@@ for a lone @")]
    NoFile(String),
    /// A file that cannot be used.
    #[error("the value of {0:?}: {1}; for a text that begins with @ write @@")]
    File(String, TextError),
}

/// Keys with their values, each key once, in the order in which they were first given.
pub type TextMap = IndexMap<String, String>;

/// The map that `text` says.
///
/// # Errors
/// When quotes do not fit or a file cannot be read.
pub fn parse(text: &str) -> Result<TextMap, MapError> {
    let entries = entries(text)?.into_iter();
    let pairs = entries.map(|(key, value)| (key, value.unwrap_or_default()));
    Ok(pairs.collect())
}

/// Keys and values in the order of `text`; the value of an entry without `=` is absent.
pub(super) fn entries(text: &str) -> Result<Vec<(String, Option<String>)>, MapError> {
    record::entries(text, Dialect::Plain)
        .map_err(MapError::Record)?
        .iter()
        .filter(|entry| !entry.is_empty())
        .map(|entry| match entry.split_once('=') {
            None => Ok((entry.clone(), None)),
            Some((key, value)) => Ok((key.to_owned(), Some(resolve(key, value)?))),
        })
        .collect()
}

/// The value itself, out of a file where it names one.
fn resolve(key: &str, value: &str) -> Result<String, MapError> {
    let key = || key.to_owned();
    match value.strip_prefix('@') {
        None => Ok(value.to_owned()),
        Some(literal) if literal.starts_with('@') => Ok(literal.to_owned()),
        Some("") => Err(MapError::NoFile(key())),
        Some("-") => Err(MapError::Stdin(key())),
        Some(path) => {
            let text = TextOrigin::File(path.into())
                .read()
                .map_err(|problem| MapError::File(key(), problem))?;
            let text = text.strip_suffix('\n').unwrap_or(&text);
            Ok(text.strip_suffix('\r').unwrap_or(text).to_owned())
        }
    }
}

/// Pairs as [`parse`] reads them back.
pub fn text<K: AsRef<str>, V: AsRef<str>>(pairs: impl IntoIterator<Item = (K, V)>) -> String {
    let mut text = String::new();
    for (key, value) in pairs {
        if !text.is_empty() {
            text.push(',');
        }
        write_pair(key.as_ref(), value.as_ref(), &mut text);
    }
    text
}

/// Appends one pair as [`parse`] reads it back, provided that its key holds no `=`, which no map can say.
pub fn write_pair(key: &str, value: &str, out: &mut String) {
    let start = out.len();
    out.push_str(key);
    out.push('=');
    if value.starts_with('@') {
        out.push('@');
    }
    out.push_str(value);
    if let Cow::Owned(quoted) = record::quote(&out[start..]) {
        out.truncate(start);
        out.push_str(&quoted);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pairs(text: &str) -> Vec<(String, String)> {
        parse(text).expect(text).into_iter().collect()
    }

    fn message(text: &str) -> String {
        parse(text).expect_err(text).to_string()
    }

    #[test]
    fn maps_are_csc_s() {
        let cases: &[(&str, &[(&str, &str)])] = &[
            ("", &[]),
            ("k=v", &[("k", "v")]),
            ("k=v,k2=v2", &[("k", "v"), ("k2", "v2")]),
            ("k=a=b", &[("k", "a=b")]),
            ("k", &[("k", "")]),
            ("k,l=", &[("k", ""), ("l", "")]),
            ("k=1,l=2,k=3", &[("k", "3"), ("l", "2")]),
            ("k=v,", &[("k", "v")]),
            ("=v", &[("", "v")]),
            ("k=v, l=w", &[("k", "v"), (" l", "w")]),
            (
                "server=10.0.0.4,share=nfs_share",
                &[("server", "10.0.0.4"), ("share", "nfs_share")],
            ),
            ("\"k=a,b\",k2=v", &[("k", "a,b"), ("k2", "v")]),
            ("\"k=say \"\"hi\"\"\"", &[("k", "say \"hi\"")]),
            ("\"k=a\nb\"", &[("k", "a\nb")]),
            ("k=a\nb", &[("k", "a\nb")]),
            ("k=\"quoted\"", &[("k", "\"quoted\"")]),
            ("k=@@x", &[("k", "@x")]),
            ("k=@@", &[("k", "@")]),
            ("k=a@b", &[("k", "a@b")]),
        ];
        for (text, expected) in cases {
            let expected: Vec<_> = expected
                .iter()
                .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
                .collect();
            assert_eq!(pairs(text), expected, "{text}");
        }
    }

    #[test]
    fn values_come_from_files() {
        let folder = tempfile::tempdir().expect("a folder");
        for (content, value) in [
            ("a,b\nc\n", "a,b\nc"),
            ("x", "x"),
            ("x\r\n", "x"),
            ("x\n\n", "x\n"),
            ("", ""),
        ] {
            let path = folder.path().join("a,file");
            std::fs::write(&path, content).expect("written");
            let text = format!("\"k=@{}\",l=m", path.display());
            assert_eq!(pairs(&text)[0].1, value);
            assert_eq!(pairs(&text)[1].1, "m");
        }
        std::fs::write(folder.path().join("nul"), "a\0").expect("written");
        let error = message(&format!("k=@{}/nul", folder.path().display()));
        assert!(error.contains("is not text: byte 1"), "{error}");
    }

    #[test]
    fn errors_say_what_to_write() {
        let error = message("k=@/nowhere/f");
        assert!(
            error.starts_with("the value of \"k\": cannot read /nowhere/f: No such file"),
            "{error}"
        );
        assert!(
            error.ends_with("for a text that begins with @ write @@"),
            "{error}"
        );
        assert!(message("k=@").contains("k=@FILE"));
        assert!(message("k=@-").contains("@/dev/stdin"));
        assert!(message("k=\"a,b\"").contains("'\"key=a,b\"'"));
        assert!(message("\"k=a").contains("no closing one"));
    }

    #[test]
    fn a_repeated_flag_is_one_map() {
        let maps = ["a=1,b=2", "c=3,a=4"].map(|text| parse(text).expect(text));
        let all: TextMap = maps.into_iter().flatten().collect();
        assert_eq!(text(&all), "a=4,b=2,c=3");
    }

    proptest! {
        #[test]
        fn maps_come_back(pairs in prop::collection::vec(("[a-z ,\"\n]{0,4}", "[a-z=@ ,\"\n]{0,6}"), 0..5)) {
            let map: TextMap = pairs.into_iter().collect();
            prop_assert_eq!(parse(&text(&map)).ok(), Some(map));
        }

        #[test]
        fn nothing_panics(text in "[^@]*") {
            let _ = parse(&text);
        }
    }
}
