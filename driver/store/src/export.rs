//! The name of an NFS export: a server and an absolute path. Owns its syntax; must not connect or mount.

use crate::share::paths::sub_path::{RECORDS_FOLDER, SubPath};
use serde::{Deserialize, Serialize};
use std::fmt;
use thiserror::Error;

/// An export of an NFS server, normalised so that two spellings of one export are equal.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Export {
    server: String,
    #[serde(rename = "share")]
    path: String,
}

/// A server or share that cannot be one.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum ExportError {
    /// No server was given.
    #[error("the server is empty: give a host name or an address")]
    NoServer,
    /// The server has characters that no host has.
    #[error("the server {0:?} is neither a host name nor an address")]
    Server(String),
    /// The share is empty or leaves its own root.
    #[error(
        "the share {0:?} is not an export's path: no '..', no empty text, no control characters"
    )]
    Share(String),
}

impl Export {
    /// The export of `server` (a host name, an IPv4 address, or an IPv6 address with or without brackets) at `share` (a
    /// path; the leading slash may be missing).
    ///
    /// # Errors
    /// When either cannot name an export.
    pub fn parse(server: &str, share: &str) -> Result<Self, ExportError> {
        if server.is_empty() {
            return Err(ExportError::NoServer);
        }
        let bare = server
            .strip_prefix('[')
            .and_then(|rest| rest.strip_suffix(']'))
            .unwrap_or(server);
        let host = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | ':' | '%');
        // No name or address begins so, and `..` in the place of one must not be read as a path by anybody.
        let odd = bare.starts_with(['.', '-', '_', '%']);
        if bare.is_empty() || odd || bare.len() > 253 || !bare.chars().all(host) {
            return Err(ExportError::Server(server.to_owned()));
        }
        let wrong = || ExportError::Share(share.to_owned());
        if share.is_empty() || share.chars().any(char::is_control) {
            return Err(wrong());
        }
        let mut path = String::new();
        for component in share.split('/').filter(|part| !matches!(*part, "" | ".")) {
            if component == ".." {
                return Err(wrong());
            }
            path.push('/');
            path.push_str(component);
        }
        if path.is_empty() {
            path.push('/');
        }
        Ok(Self {
            server: bare.to_owned(),
            path,
        })
    }

    /// The folder `sub_path` of this share as an export of its own; the share itself where there is none.
    pub fn folder(&self, sub_path: Option<&SubPath>) -> Self {
        let Some(sub_path) = sub_path else {
            return self.clone();
        };
        Self {
            server: self.server.clone(),
            path: format!("{}/{sub_path}", self.path.trim_end_matches('/')),
        }
    }

    /// Whether it is the driver's own folder of a share, or lies in one; in any case, since servers may fold it.
    pub fn is_private(&self) -> bool {
        let mut components = self.path.split('/');
        components.any(|part| part.eq_ignore_ascii_case(RECORDS_FOLDER))
    }

    /// The host name or address, IPv6 without brackets.
    pub fn server(&self) -> &str {
        &self.server
    }

    /// Whether `server` is its server's name, in which case means nothing.
    pub fn is_on(&self, server: &str) -> bool {
        self.server.eq_ignore_ascii_case(server)
    }

    /// The absolute path, without a slash at its end unless it is `/`.
    pub fn path(&self) -> &str {
        &self.path
    }
}

impl fmt::Display for Export {
    /// `server:/path`, IPv6 addresses in brackets, as mountinfo shows it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.server.contains(':') {
            write!(f, "[{}]:{}", self.server, self.path)
        } else {
            write!(f, "{}:{}", self.server, self.path)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_of_one_export_are_equal() {
        let export = Export::parse("10.0.0.4", "nfs_share").unwrap();
        assert_eq!(export.to_string(), "10.0.0.4:/nfs_share");
        for share in ["/nfs_share", "/nfs_share/", "//nfs_share/.", "./nfs_share"] {
            assert_eq!(Export::parse("10.0.0.4", share).unwrap(), export, "{share}");
        }
        let six = Export::parse("[fe80::1]", "/").unwrap();
        assert_eq!(six, Export::parse("fe80::1", "/").unwrap());
        assert_eq!(six.to_string(), "[fe80::1]:/");
    }

    #[test]
    fn what_is_no_export_is_refused() {
        for (server, share) in [
            ("", "/a"),
            ("a b", "/a"),
            ("[]", "/a"),
            ("s,x", "/a"),
            ("..", "/a"),
            ("-x", "/a"),
            (".", "/a"),
        ] {
            assert!(Export::parse(server, share).is_err(), "{server:?}");
        }
        for share in ["", "..", "/a/../b", "/a\n", "/a\0"] {
            assert!(Export::parse("server", share).is_err(), "{share:?}");
        }
    }
}
