//! A folder below a share's root as a list of checked components, and the folder names made from volume names.
//! No text reaches the file system but through here. Must not do I/O.

use crate::share::token::{Nonce, fnv};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::PathBuf;
use thiserror::Error;

/// The driver's private folder on every share.
pub const RECORDS_FOLDER: &str = ".csi-nfs";

/// The longest component in bytes: 255 less what the driver puts before a name in its own folders.
pub const MAX_COMPONENT: usize = 250;
const MAX_PATH: usize = 1024;
const MAX_ENCODED: usize = 200;

/// What stands between a volume's name and a part of its nonce in the name of a folder that the driver names.
const MARK: char = '~';
/// How long that part is.
const PART: usize = 8;

/// A path below the share's root that cannot leave it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct SubPath(Vec<String>);

/// Text that is no path below a share's root.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum SubPathError {
    /// Nothing is left of it.
    #[error("{0:?} is the share itself: name a folder below it")]
    Root(String),
    /// It has a component that names nothing.
    #[error("{0:?} has an empty component or '.' in it: put one slash between two folders")]
    Empty(String),
    /// It has `..`.
    #[error("{0:?} has the component '..', which leaves the share")]
    Escapes(String),
    /// A component has characters that would not be safe.
    #[error("{0:?} has a control character")]
    Control(String),
    /// A component or the whole is too long.
    #[error(
        "{0:?} is too long: at most {MAX_COMPONENT} bytes a component and {MAX_PATH} bytes in all"
    )]
    TooLong(String),
    /// A component is such as the driver alone gives to folders.
    #[error(
        "{0:?} has a folder whose name ends in {MARK} and {PART} characters of 0-9 and a-v: the driver alone gives such names, to folders of volumes without a subDir; choose another name, or rename the folder first"
    )]
    OwnName(String),
    /// It is in the driver's own folder.
    #[error("{0:?} is in the driver's own folder {RECORDS_FOLDER}")]
    Records(String),
}

impl SubPath {
    /// Checks `text`, which may begin or end with slashes.
    ///
    /// # Errors
    /// When it is empty, has `.` or `..`, an empty component in its middle, a control character, is too long, or lies in
    /// the driver's folder.
    pub fn parse(text: &str) -> Result<Self, SubPathError> {
        let shown = || text.chars().take(128).collect::<String>();
        let trimmed = text.trim_matches('/');
        if matches!(trimmed, "" | ".") {
            return Err(SubPathError::Root(shown()));
        }
        if trimmed.len() > MAX_PATH {
            return Err(SubPathError::TooLong(shown()));
        }
        let mut components = Vec::new();
        for component in trimmed.split('/') {
            if matches!(component, "" | ".") {
                return Err(SubPathError::Empty(shown()));
            }
            if component == ".." {
                return Err(SubPathError::Escapes(shown()));
            }
            if component.chars().any(char::is_control) {
                return Err(SubPathError::Control(shown()));
            }
            if component.len() > MAX_COMPONENT {
                return Err(SubPathError::TooLong(shown()));
            }
            components.push(component.to_owned());
        }
        // At any depth, since a folder of this share may be another share; and in any case, since servers may fold it.
        if components
            .iter()
            .any(|c| c.eq_ignore_ascii_case(RECORDS_FOLDER))
        {
            return Err(SubPathError::Records(shown()));
        }
        Ok(Self(components))
    }

    /// Checks `text` as [`SubPath::parse`] does, for a folder that a user chooses.
    ///
    /// # Errors
    /// As for [`SubPath::parse`], and when a component is such as the driver alone gives to folders.
    pub fn of_user(text: &str) -> Result<Self, SubPathError> {
        let path = Self::parse(text)?;
        match path.own_name() {
            Some(_) => Err(SubPathError::OwnName(path.to_string())),
            None => Ok(path),
        }
    }

    /// The folder of a volume that was given no subDir: its name, encoded to one component, and a part of its nonce, so that
    /// no two volumes ever have the same.
    pub fn of_volume(name: &str, nonce: Nonce) -> Self {
        Self(vec![encode_name(name) + &ending(nonce)])
    }

    /// Whether the driver may have made this path for the volume `nonce`.
    pub fn is_of_volume(&self, nonce: Nonce) -> bool {
        self.0.len() == 1 && self.leaf().ends_with(&ending(nonce))
    }

    /// The first component that is such as the driver alone gives to folders.
    pub fn own_name(&self) -> Option<&str> {
        let is_own = |component: &&String| {
            component.rsplit_once(MARK).is_some_and(|(_, part)| {
                // In any case, since servers may fold it.
                let is_of_nonce =
                    |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'v' | b'A'..=b'V');
                part.len() == PART && part.bytes().all(is_of_nonce)
            })
        };
        self.0.iter().find(is_own).map(String::as_str)
    }

    /// The components, at least one.
    pub fn components(&self) -> &[String] {
        &self.0
    }

    /// The last component.
    pub fn leaf(&self) -> &str {
        self.0.last().map_or("", String::as_str)
    }

    /// All but the last component, as a relative path; `.` when there are none.
    pub fn parent(&self) -> PathBuf {
        match &self.0[..self.0.len() - 1] {
            [] => PathBuf::from("."),
            above => above.iter().collect(),
        }
    }

    /// Each folder above it, from the share's root down, and the way on from there.
    pub fn above(&self) -> impl Iterator<Item = (Self, Self)> + '_ {
        (1..self.0.len()).map(|count| {
            let (above, rest) = self.0.split_at(count);
            (Self(above.to_vec()), Self(rest.to_vec()))
        })
    }

    /// The whole as a relative path.
    pub fn to_path(&self) -> PathBuf {
        self.0.iter().collect()
    }
}

impl fmt::Display for SubPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join("/"))
    }
}

impl TryFrom<String> for SubPath {
    type Error = SubPathError;

    fn try_from(text: String) -> Result<Self, SubPathError> {
        Self::parse(&text)
    }
}

impl From<SubPath> for String {
    fn from(path: SubPath) -> Self {
        path.to_string()
    }
}

/// What the name of a folder ends in that the driver has named for the volume `nonce`.
fn ending(nonce: Nonce) -> String {
    format!("{MARK}{}", &nonce.to_string()[..PART])
}

/// One safe component from any text: percent-encoded where needed; beyond 200 bytes cut, with a hash of the whole.
///
/// Different names stay different, save for a collision of the hash, which the claim of the folder then refuses.
pub fn encode_name(name: &str) -> String {
    let mut text = String::with_capacity(name.len());
    for (index, character) in name.char_indices() {
        let plain = match character {
            '%' | '/' => false,
            // A leading dot hides the folder, and could be `.`, `..` or the driver's own folder.
            '.' => index > 0,
            other => !other.is_control(),
        };
        if plain {
            text.push(character);
        } else {
            let mut bytes = [0; 4];
            for byte in character.encode_utf8(&mut bytes).bytes() {
                text.push_str(&format!("%{byte:02X}"));
            }
        }
    }
    if text.len() > MAX_ENCODED {
        text.truncate(text.floor_char_boundary(MAX_ENCODED - 34));
        // `%~` is no percent-code, so no other name is encoded to this.
        text.push_str(&format!("%~{:032x}", fnv(name.as_bytes())));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_leaves_the_share_is_refused() {
        for bad in [
            "",
            "/",
            "//",
            ".",
            "./",
            "..",
            "a/..",
            "../a",
            "a/../../b",
            "a//b",
            "a/./b",
        ] {
            assert!(SubPath::parse(bad).is_err(), "{bad:?}");
        }
        for bad in ["a\0b", "a\nb", "a/\u{7f}", "\u{85}"] {
            assert!(matches!(SubPath::parse(bad), Err(SubPathError::Control(_))));
        }
        for bad in [
            ".csi-nfs",
            "/.csi-nfs/volumes",
            ".CSI-nfs/x",
            "a/.csi-nfs/b",
        ] {
            assert!(matches!(SubPath::parse(bad), Err(SubPathError::Records(_))));
        }
        assert!(SubPath::parse(&"a".repeat(251)).is_err());
        assert!(SubPath::parse(&"a/".repeat(600)).is_err());
    }

    #[test]
    fn slashes_at_the_ends_do_not_matter() {
        let path = SubPath::parse("/a/b c/").unwrap();
        assert_eq!(path.to_string(), "a/b c");
        assert_eq!(path.parent().to_str(), Some("a"));
        assert_eq!(path.leaf(), "b c");
        let above: Vec<_> = path
            .above()
            .map(|(a, b)| (a.to_string(), b.to_string()))
            .collect();
        assert_eq!(above, [("a".to_owned(), "b c".to_owned())]);
        assert_eq!(SubPath::parse("a").unwrap().parent().to_str(), Some("."));
    }

    #[test]
    fn nobody_chooses_what_the_driver_calls_its_folders() {
        let nonce: Nonce = "0123456789abcdef".parse().unwrap();
        let own = SubPath::of_volume("a/b", nonce);
        assert_eq!(own.to_string(), "a%2Fb~01234567");
        assert_eq!(SubPath::parse("a%2Fb~01234567"), Ok(own.clone()));
        assert!(own.is_of_volume(nonce));
        let other: Nonce = "1123456789abcdef".parse().unwrap();
        assert!(!SubPath::of_volume("a/b", other).is_of_volume(nonce));
        assert!(!SubPath::parse("x/v~01234567").unwrap().is_of_volume(nonce));
        for bad in ["v~01234567", "x/v~0123ABCV/y", "~vvvvvvvv", "a~b~01234567"] {
            let refused = SubPath::of_user(bad);
            assert!(matches!(refused, Err(SubPathError::OwnName(_))), "{bad:?}");
        }
        for good in [
            "v~0123456",
            "v~012345678",
            "v~0123456w",
            "v~01234567x",
            "v-01234567",
            "~",
        ] {
            assert!(SubPath::of_user(good).is_ok(), "{good:?}");
        }
    }

    #[test]
    fn names_become_one_component() {
        assert_eq!(encode_name("pvc-1"), "pvc-1");
        assert_eq!(encode_name(".."), "%2E.");
        assert_eq!(encode_name("a/b\n%"), "a%2Fb%0A%25");
        assert_eq!(encode_name("größe"), "größe");
        let long = encode_name(&"\n".repeat(128));
        assert!(long.len() <= 200, "{}", long.len());
        assert_ne!(long, encode_name(&"\n".repeat(127)));
    }
}
