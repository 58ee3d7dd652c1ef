//! The folders of a user: that of the state, such as the history of the shell and the share of the embedded driver, that of the
//! configuration, and the temporary one.

use std::env;
use std::ffi::OsString;
use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

/// The folder for the state of the user who runs this, if there is one.
pub fn state() -> Option<PathBuf> {
    folder(
        env::var_os("XDG_STATE_HOME"),
        env::home_dir(),
        ".local/state",
    )
}

/// The folder for the configuration of the user who runs this, if there is one.
pub fn config() -> Option<PathBuf> {
    folder(env::var_os("XDG_CONFIG_HOME"), env::home_dir(), ".config")
}

/// The folder for what is needed for a short time. An empty TMPDIR names none.
pub fn temporary() -> PathBuf {
    let named = Some(env::temp_dir()).filter(|folder| !folder.as_os_str().is_empty());
    named.unwrap_or_else(|| "/tmp".into())
}

/// A folder of a user. One that is named relatively is ignored, as the specification of these variables says.
fn folder(xdg: Option<OsString>, home: Option<PathBuf>, in_home: &str) -> Option<PathBuf> {
    xdg.map(PathBuf::from)
        .filter(|folder| folder.is_absolute())
        .or_else(|| {
            home.filter(|home| home.is_absolute())
                .map(|home| home.join(in_home))
        })
}

/// Makes a folder that is for its owner alone, with those above it that are missing.
pub fn make_private(folder: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_are_where_the_user_wants_them() {
        let cases = [
            (Some("/x"), Some("/home/u"), Some("/x")),
            (None, Some("/home/u"), Some("/home/u/.local/state")),
            (Some(""), Some("/home/u"), Some("/home/u/.local/state")),
            (Some("rel"), Some("/home/u"), Some("/home/u/.local/state")),
            (Some("rel"), Some(""), None),
            (None, None, None),
        ];
        for (xdg, home, expected) in cases {
            let found = folder(xdg.map(Into::into), home.map(PathBuf::from), ".local/state");
            assert_eq!(found, expected.map(PathBuf::from), "{xdg:?} {home:?}");
        }
    }
}
