//! The state folder of a driver in this process: the folder that the endpoint names, or one of the user's own.

use super::error::EndpointError;
use crate::user_folders;
use rustix::fs::{Access, access};
use rustix::process::geteuid;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use thiserror::Error;

/// The folder of the state of a driver in this process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Folder {
    /// The one that was named.
    Named(PathBuf),
    /// The folder of the user: the endpoint names none.
    Default {
        /// `csi/embedded` or `csi/mock` among the user's state, where there is such a place.
        state: Option<PathBuf>,
        /// The one for users without a home, such as most of those in containers.
        temporary: PathBuf,
    },
}

/// Why there is no default folder.
#[derive(Debug, Error)]
#[error("{temporary}; and {state}: name a folder, as {driver}:DIR")]
struct NoFolder {
    driver: &'static str,
    temporary: NotPrivate,
    state: String,
}

/// Why the temporary folder is not to be trusted.
#[derive(Debug, Error)]
enum NotPrivate {
    #[error("it is a symbolic link, or no folder at all")]
    NotAFolder,
    #[error("it belongs to another user")]
    Foreign,
    #[error("others may write to it")]
    Open,
    #[error("{0}")]
    System(io::Error),
}

impl Folder {
    /// The default folder of who runs this process, for the driver of that scheme. To be asked for before a user namespace is entered, where everyone is
    /// root: without HOME, the home would be root's.
    pub(super) fn of_this_user(driver: &str) -> Self {
        let temporary = format!("csi-{driver}-{}", geteuid().as_raw());
        Self::Default {
            state: user_folders::state().map(|state| state.join("csi").join(driver)),
            temporary: user_folders::temporary().join(temporary),
        }
    }

    /// The folder itself: the named one as an absolute path, or the first default that can be used, made where it was
    /// missing.
    pub(super) fn prepare(&self, driver: &'static str) -> Result<PathBuf, EndpointError> {
        match self {
            Self::Named(folder) => {
                let found = match folder.metadata() {
                    Ok(found) if !found.is_dir() => Err(io::ErrorKind::NotADirectory.into()),
                    _ => std::path::absolute(folder),
                };
                found.map_err(|cause| EndpointError::inside(driver, folder, cause))
            }
            Self::Default { state, temporary } => {
                let problem = match state {
                    None => "there is no home folder".to_owned(),
                    Some(state) => match make_writable(state) {
                        Ok(()) => return Ok(state.clone()),
                        Err(error) => format!("{} cannot be used ({error})", state.display()),
                    },
                };
                let private = std::path::absolute(temporary)
                    .map_err(NotPrivate::System)
                    .and_then(|folder| make_private(&folder).map(|()| folder));
                private.map_err(|temporary_problem| {
                    let none = NoFolder {
                        driver,
                        temporary: temporary_problem,
                        state: problem,
                    };
                    EndpointError::inside(driver, temporary, none)
                })
            }
        }
    }
}

fn make_writable(folder: &Path) -> io::Result<()> {
    user_folders::make_private(folder)?;
    Ok(access(folder, Access::WRITE_OK | Access::EXEC_OK)?)
}

/// Makes a folder among those of everyone. Its name is no secret, so another user may have been there first.
fn make_private(folder: &Path) -> Result<(), NotPrivate> {
    match DirBuilder::new().mode(0o700).create(folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            return Err(NotPrivate::System(error));
        }
        _ => {}
    }
    // Links are not followed: theirs would be the choice of where to write.
    let found = fs::symlink_metadata(folder).map_err(NotPrivate::System)?;
    if !found.is_dir() {
        return Err(NotPrivate::NotAFolder);
    }
    if found.uid() != geteuid().as_raw() {
        return Err(NotPrivate::Foreign);
    }
    match found.mode() & 0o022 {
        0 => Ok(()),
        _ => Err(NotPrivate::Open),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::error::Error;
    use std::fs::Permissions;
    use std::os::unix::fs::{PermissionsExt, chown, symlink};

    #[test]
    fn the_default_is_the_state_folder_and_else_a_private_one() {
        let folder = tempfile::tempdir().expect("a folder");
        let temporary = folder.path().join("temporary");
        let prepared = |state: Option<PathBuf>| {
            let temporary = temporary.clone();
            Folder::Default { state, temporary }.prepare("embedded")
        };
        let home = folder.path().join("home/csi/embedded");
        assert_eq!(prepared(Some(home.clone())).expect("made"), home);
        assert!(home.is_dir() && !temporary.exists());
        // Nothing can be made below a file, not even by root.
        let file = folder.path().join("file");
        fs::write(&file, "").expect("written");
        for state in [Some(file.join("csi/embedded")), None] {
            assert_eq!(prepared(state.clone()).expect("made"), temporary);
            let mode = temporary.metadata().expect("there").mode();
            assert_eq!(mode & 0o777, 0o700);
            // And again, now that it is there.
            assert_eq!(prepared(state).expect("found"), temporary);
        }
    }

    #[test]
    fn a_file_is_no_folder_for_a_state() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let named = Folder::Named(file.path().to_owned());
        let error = named.prepare("mock").expect_err("a file");
        let cause = error.source().expect("a cause").to_string();
        assert_eq!(cause, "not a directory");
    }

    #[test]
    fn a_folder_that_another_user_may_have_made_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let made = |name: &str| {
            let path = folder.path().join(name);
            fs::create_dir(&path).expect("made");
            path
        };
        let link = folder.path().join("link");
        symlink(made("target"), &link).expect("linked");
        let open = made("open");
        fs::set_permissions(&open, Permissions::from_mode(0o777)).expect("opened");
        let given = made("given");
        // Who may not give folders away has root's to find.
        let foreign = chown(&given, Some(4242), None).map_or("/usr".into(), |()| given);
        let cases = [
            (
                link,
                "it is a symbolic link, or no folder at all; and there is no home folder: name a folder, as embedded:DIR",
            ),
            (open, "others may write to it"),
            (foreign, "it belongs to another user;"),
            ("/dev/null/none".into(), "Not a directory"),
        ];
        for (temporary, part) in cases {
            let default = Folder::Default {
                state: None,
                temporary: temporary.clone(),
            };
            let error = default.prepare("embedded").expect_err(part);
            assert_eq!(
                error.to_string(),
                format!("cannot open the embedded driver in {}", temporary.display())
            );
            let cause = error.source().expect("a cause").to_string();
            assert!(cause.starts_with(part), "{cause}");
        }
    }
}
