//! The size limits of the specification ("Size Limits"): 128 bytes for a string, 4 KiB for a map, unless a field says
//! otherwise. Owns nothing else.

use std::collections::BTreeMap;
use thiserror::Error;

/// The longest string in bytes.
pub const MAX_STRING: usize = 128;
/// The largest map, all keys and values together, in bytes.
pub const MAX_MAP: usize = 4096;

/// A field that is missing or too large: INVALID_ARGUMENT.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum LimitError {
    /// A required field is empty.
    #[error("{0} is missing")]
    Missing(&'static str),
    /// A name has a character that the specification bans.
    #[error(
        "{0} has a control character; of these only tab, line feed and carriage return are allowed"
    )]
    Control(&'static str),
    /// A string is too long.
    #[error("{field} has {length} bytes, at most {MAX_STRING} are allowed")]
    String {
        /// Which field.
        field: &'static str,
        /// Its length in bytes.
        length: usize,
    },
    /// A map is too large.
    #[error("{field} has {length} bytes in all keys and values, at most {MAX_MAP} are allowed")]
    Map {
        /// Which field.
        field: &'static str,
        /// Its length in bytes.
        length: usize,
    },
}

/// Checks a string that may be empty.
///
/// # Errors
/// When it is too long.
pub fn optional(field: &'static str, text: &str) -> Result<(), LimitError> {
    match text.len() {
        length if length > MAX_STRING => Err(LimitError::String { field, length }),
        _ => Ok(()),
    }
}

/// Checks a string that must be there.
///
/// # Errors
/// When it is empty or too long.
pub fn required(field: &'static str, text: &str) -> Result<(), LimitError> {
    if text.is_empty() {
        return Err(LimitError::Missing(field));
    }
    optional(field, text)
}

/// Checks a name that the caller chooses.
///
/// # Errors
/// When it is empty, too long, or has a control character other than tab, line feed and carriage return.
pub fn name(field: &'static str, text: &str) -> Result<(), LimitError> {
    required(field, text)?;
    match text
        .chars()
        .any(|letter| letter.is_control() && !matches!(letter, '\t' | '\n' | '\r'))
    {
        true => Err(LimitError::Control(field)),
        false => Ok(()),
    }
}

/// Checks a map.
///
/// # Errors
/// When it is too large.
pub fn map(field: &'static str, map: &BTreeMap<String, String>) -> Result<(), LimitError> {
    match map.iter().map(|(key, value)| key.len() + value.len()).sum() {
        length if length > MAX_MAP => Err(LimitError::Map { field, length }),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_any_text_without_control_characters() {
        for valid in ["pvc-1", "a/../b\t\r\n", "größe \u{a0}"] {
            assert_eq!(name("name", valid), Ok(()), "{valid:?}");
        }
        for invalid in ["a\0", "\u{7}", "\u{1b}[31m", "\u{7f}", "\u{9f}"] {
            assert_eq!(
                name("name", invalid),
                Err(LimitError::Control("name")),
                "{invalid:?}"
            );
        }
        assert_eq!(name("name", ""), Err(LimitError::Missing("name")));
    }

    #[test]
    fn limits_are_in_bytes() {
        assert!(required("name", &"ä".repeat(64)).is_ok());
        assert!(required("name", &"ä".repeat(65)).is_err());
        assert_eq!(required("name", ""), Err(LimitError::Missing("name")));
        let of = |bytes: usize| BTreeMap::from([("k".to_owned(), "v".repeat(bytes - 1))]);
        assert!(map("parameters", &of(4096)).is_ok());
        assert!(map("parameters", &of(4097)).is_err());
    }
}
