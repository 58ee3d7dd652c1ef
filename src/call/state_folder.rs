//! The folder of a user's state, such as the history of the shell and the share of the embedded driver.

use std::env;
use std::ffi::OsString;
use std::path::PathBuf;

/// The folder of the user who runs this, if there is one.
pub fn current() -> Option<PathBuf> {
    state_folder(env::var_os("XDG_STATE_HOME"), env::home_dir())
}

/// The folder of a user's state. A relative `XDG_STATE_HOME` is ignored, as its specification says.
fn state_folder(xdg: Option<OsString>, home: Option<PathBuf>) -> Option<PathBuf> {
    xdg.map(PathBuf::from)
        .filter(|folder| folder.is_absolute())
        .or_else(|| {
            home.filter(|home| home.is_absolute())
                .map(|home| home.join(".local/state"))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn state_is_kept_where_the_user_wants_it() {
        let cases = [
            (Some("/x"), Some("/home/u"), Some("/x")),
            (None, Some("/home/u"), Some("/home/u/.local/state")),
            (Some(""), Some("/home/u"), Some("/home/u/.local/state")),
            (Some("rel"), Some("/home/u"), Some("/home/u/.local/state")),
            (Some("rel"), Some(""), None),
            (None, None, None),
        ];
        for (xdg, home, expected) in cases {
            let found = state_folder(xdg.map(Into::into), home.map(PathBuf::from));
            assert_eq!(found, expected.map(PathBuf::from), "{xdg:?} {home:?}");
        }
    }
}
