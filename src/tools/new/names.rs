//! The names of a new driver: the one that CSI knows, and that of its package and folder. Pure.

use csi_rpc::validation::syntax::PLUGIN_NAME_MAX;
use thiserror::Error;

/// The domain of a driver for which none was said. ICANN keeps it for private use.
const PRIVATE: &str = "csi.internal";

/// What a package of Rust, or its program, cannot be called: keywords, and what cargo keeps for itself.
const RESERVED: &str = "\
abstract alloc as async await become box break build const continue core crate deps do dyn else enum examples \
extern false final fn for gen if impl in incremental let loop macro match mod move mut override priv proc-macro \
pub ref return self static std struct super test trait true try type typeof unsafe unsized use virtual where \
while yield";

/// The names of a driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Names {
    /// In domain notation, as `GetPluginInfo` tells it.
    pub driver: String,
    /// Its first part.
    pub package: String,
}

/// Why a name cannot be a driver's.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum NameError {
    /// It is too long.
    #[error(
        "the name has {0} bytes, and a CSI driver's at most {PLUGIN_NAME_MAX}: choose a shorter one"
    )]
    Long(usize),
    /// It has upper-case letters.
    #[error(
        "the name has upper-case letters, which Kubernetes' CSIDriver does not take: write {0}"
    )]
    UpperCase(String),
    /// It has something that is no part of names.
    #[error(
        "{0:?} cannot be in a name: it has letters, digits, dashes and dots, as disks.csi.example.com has"
    )]
    Character(char),
    /// A part of it is no part of a domain.
    #[error(
        "{0:?} between dots begins or ends with a dash, or is empty: write a domain, such as disks.csi.example.com"
    )]
    Part(String),
    /// Cargo does not take it.
    #[error(
        "the package is called after the first part of the name, and Rust has no package {0:?}: begin with another word, such as {0}-driver"
    )]
    Reserved(String),
    /// Cargo does not take it either.
    #[error(
        "the package is called after the first part of the name, which begins with a digit: put a letter before it, such as d{0}"
    )]
    Digit(String),
    /// A library that the driver uses has that name.
    #[error(
        "the package is called after the first part of the name, and the driver uses a library {0}: begin with another word, such as {0}-driver"
    )]
    Library(String),
}

impl Names {
    /// The names that follow from what was typed: a domain, or its first part alone.
    ///
    /// # Errors
    /// When it cannot be a name of a CSI driver, or its first part not one of a package. `libraries` are taken.
    pub fn of(typed: &str, libraries: &[&str]) -> Result<Self, NameError> {
        let is_allowed = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '.';
        if let Some(other) = typed.chars().find(|c| !is_allowed(*c)) {
            return Err(NameError::Character(other));
        }
        if typed.contains(|c: char| c.is_ascii_uppercase()) {
            return Err(NameError::UpperCase(typed.to_ascii_lowercase()));
        }
        let driver = match typed.contains('.') {
            true => typed.to_owned(),
            false => format!("{typed}.{PRIVATE}"),
        };
        let is_part =
            |part: &&str| !part.is_empty() && !part.starts_with('-') && !part.ends_with('-');
        if let Some(part) = driver.split('.').find(|part| !is_part(part)) {
            return Err(NameError::Part(part.to_owned()));
        }
        if driver.len() > PLUGIN_NAME_MAX {
            return Err(NameError::Long(driver.len()));
        }
        let package = driver.split('.').next().unwrap_or_default().to_owned();
        if package.starts_with(|c: char| c.is_ascii_digit()) {
            return Err(NameError::Digit(package));
        }
        if RESERVED.split(' ').any(|word| word == package) {
            return Err(NameError::Reserved(package));
        }
        if libraries.contains(&package.as_str()) {
            return Err(NameError::Library(package));
        }
        Ok(Self { driver, package })
    }

    /// Whether the domain is one that nobody has typed.
    pub fn is_completed(&self, typed: &str) -> bool {
        self.driver != typed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_from_what_was_typed() {
        let names = |typed| {
            let names = Names::of(typed, &["tokio"])?;
            Ok((names.driver, names.package))
        };
        let ok = |driver: &str, package: &str| Ok((driver.to_owned(), package.to_owned()));
        assert_eq!(
            names("disks.csi.example.com"),
            ok("disks.csi.example.com", "disks")
        );
        assert_eq!(names("my-disks"), ok("my-disks.csi.internal", "my-disks"));
        assert_eq!(names("a.b"), ok("a.b", "a"));
        let longest = format!("a.{}", "b".repeat(61));
        assert_eq!(names(&longest), ok(&longest, "a"));
        let longer = format!("{longest}b");
        assert_eq!(names(&longer), Err(NameError::Long(64)));
        assert_eq!(names("Disks"), Err(NameError::UpperCase("disks".into())));
        assert_eq!(names("my_disks"), Err(NameError::Character('_')));
        assert_eq!(names("../up"), Err(NameError::Character('/')));
        assert_eq!(names("é"), Err(NameError::Character('é')));
        for (typed, part) in [
            ("", ""),
            (".", ""),
            ("a..b", ""),
            ("a.b.", ""),
            ("-a", "-a"),
            ("a.b-.c", "b-"),
        ] {
            assert_eq!(names(typed), Err(NameError::Part(part.into())), "{typed}");
        }
        assert_eq!(names("9p"), Err(NameError::Digit("9p".into())));
        assert_eq!(
            names("fn.example.com"),
            Err(NameError::Reserved("fn".into()))
        );
        assert_eq!(names("tokio"), Err(NameError::Library("tokio".into())));
    }
}
