//! Text from a file or from standard input that an argument names. Its size is limited, and it is always UTF-8.

use csi_sys::waits;
use std::fmt;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::Instant;
use thiserror::Error;

/// The most that is read, in bytes. gRPC servers refuse messages over 4 MiB unless told otherwise, so more than this is a
/// mistake such as `/dev/zero` or the wrong file.
pub const LIMIT: u64 = 16 << 20;

/// The origin of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TextOrigin {
    /// Standard input.
    Stdin,
    /// A file.
    File(PathBuf),
}

/// A text that could not be had.
#[derive(Debug, Error)]
pub enum TextError {
    /// The operating system refused.
    #[error("cannot read {0}: {1}")]
    Unreadable(TextOrigin, io::Error),
    /// More than [`LIMIT`].
    #[error("{0} holds more than {limit} MiB", limit = LIMIT >> 20)]
    TooLarge(TextOrigin),
    /// Bytes that are not UTF-8.
    #[error("{0} is not text: byte {1} is no UTF-8 character")]
    NotText(TextOrigin, usize),
    /// A NUL, which no text has.
    #[error("{0} is not text: byte {1} is a NUL")]
    Nul(TextOrigin, usize),
}

impl TextOrigin {
    /// `-` is standard input, everything else a file.
    pub fn parse(text: &str) -> Self {
        match text {
            "-" => Self::Stdin,
            path => Self::File(path.into()),
        }
    }

    /// The whole text.
    ///
    /// # Errors
    /// When it cannot be read, is too large, or is not text.
    pub fn read(&self) -> Result<String, TextError> {
        let bytes = match self {
            Self::Stdin => bounded(&mut *waits::stdin()),
            Self::File(path) => waits::open(path).and_then(bounded),
        };
        let bytes = bytes.map_err(|problem| TextError::Unreadable(self.clone(), problem))?;
        if bytes.len() as u64 > LIMIT {
            return Err(TextError::TooLarge(self.clone()));
        }
        if let Some(offset) = bytes.iter().position(|byte| *byte == 0) {
            return Err(TextError::Nul(self.clone(), offset));
        }
        let text = String::from_utf8(bytes)
            .map_err(|error| TextError::NotText(self.clone(), error.utf8_error().valid_up_to()))?;
        // Editors of other systems begin a file with it.
        Ok(match text.strip_prefix('\u{feff}') {
            Some(rest) => rest.to_owned(),
            None => text,
        })
    }
}

impl fmt::Display for TextOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stdin => f.write_str("standard input"),
            Self::File(path) => write!(f, "{}", path.display()),
        }
    }
}

/// The bytes of a file, for those who say themselves what they take it for. It is waited for until then.
///
/// # Errors
/// When it cannot be read, or holds more than [`LIMIT`].
pub fn bytes_of(path: &Path, deadline: Option<Instant>) -> io::Result<Vec<u8>> {
    let bytes = bounded(waits::open(path)?.until(deadline))?;
    if bytes.len() as u64 > LIMIT {
        let problem = format!("it holds more than {} MiB", LIMIT >> 20);
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, problem));
    }
    Ok(bytes)
}

/// The text of a file, as [`bytes_of`].
///
/// # Errors
/// As [`bytes_of`]; when it is no text.
pub fn text_of(path: &Path) -> io::Result<String> {
    String::from_utf8(bytes_of(path, None)?).map_err(io::Error::other)
}

/// Reads one byte beyond the limit, which shows that there is more.
fn bounded(input: impl Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    input.take(LIMIT + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_bytes(bytes: &[u8]) -> Result<String, String> {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("f");
        std::fs::write(&path, bytes).expect("written");
        TextOrigin::File(path).read().map_err(|error| {
            error
                .to_string()
                .replace(folder.path().to_str().expect("text"), "")
        })
    }

    #[test]
    fn text_comes_as_it_is() {
        assert_eq!(of_bytes(b"a\nb\n").as_deref(), Ok("a\nb\n"));
        assert_eq!(of_bytes(b"").as_deref(), Ok(""));
        assert_eq!(of_bytes(b"\xef\xbb\xbfk=v").as_deref(), Ok("k=v"));
    }

    #[test]
    fn what_is_no_text_is_refused() {
        let nul = of_bytes(b"ab\0c").expect_err("a NUL");
        assert_eq!(nul, "/f is not text: byte 2 is a NUL");
        let latin = of_bytes(b"caf\xe9").expect_err("no UTF-8");
        assert_eq!(latin, "/f is not text: byte 3 is no UTF-8 character");
    }

    #[test]
    fn endless_input_is_refused() {
        let error = TextOrigin::parse("/dev/zero").read().expect_err("endless");
        assert_eq!(error.to_string(), "/dev/zero holds more than 16 MiB");
    }

    #[test]
    fn a_missing_file_is_named() {
        let error = TextOrigin::parse("/nowhere/f").read().expect_err("missing");
        assert!(
            error
                .to_string()
                .starts_with("cannot read /nowhere/f: No such file")
        );
    }
}
