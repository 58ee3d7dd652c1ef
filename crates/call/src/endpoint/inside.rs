//! The drivers in this process, reached over an in-memory pipe: the NFS driver, `embedded:[DIR]`, and the mock, `mock:[DIR]`. Owns the
//! folders of their state: the one that the endpoint names, or one of the user's own.
//!
//! Without the feature `embedded` such an endpoint is still understood, and refused with the reason. One process has the mock's folder,
//! which also holds the settings that it follows, at a time; another one waits a moment, as commands in a pipe do for each other.

use super::error::EndpointError;
use crate::user_folders;
#[cfg(not(feature = "embedded"))]
use absent::Embedded;
use csi_error::note;
use csi_mock::{Gate, Mock, Server, Settings, SettingsFile, Storage, StorageError};
#[cfg(feature = "embedded")]
use csi_nfs::process::embedded::Embedded;
use csi_proto::faults::FaultRules;
use csi_proto::lock::lock;
use csi_proto::methods;
use rustix::fs::{Access, access};
use rustix::process::geteuid;
use std::collections::BTreeMap;
use std::env;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;
use thiserror::Error;
use tokio::io::DuplexStream;
use tokio::time::{Instant, sleep};

/// How long another process may have the folder.
const PATIENCE: Duration = Duration::from_secs(5);

/// How often it is tried meanwhile.
const PAUSE: Duration = Duration::from_millis(10);

type Open = BTreeMap<PathBuf, Weak<Server<Gate>>>;

/// The drivers of this process by their folders: two endpoints of one folder name one driver.
static OPEN: Mutex<Open> = Mutex::new(BTreeMap::new());

/// A driver in this process.
pub(super) enum Inside {
    Nfs(Box<Embedded>),
    Mock(Arc<Server<Gate>>),
}

impl Inside {
    /// Opens the NFS driver that keeps its share and its records in `folder`.
    pub(super) fn nfs(folder: &Folder) -> Result<Self, EndpointError> {
        let folder = folder.prepare("embedded")?;
        let opened = Embedded::open(&folder);
        let opened = opened.map_err(|cause| EndpointError::inside("embedded", &folder, cause))?;
        Ok(Self::Nfs(Box::new(opened)))
    }

    /// Opens the mock whose state is in `folder`.
    pub(super) async fn mock(folder: &Folder) -> Result<Self, EndpointError> {
        let folder = folder.prepare("mock")?;
        let until = Instant::now() + PATIENCE;
        loop {
            if let Some(driver) = lock(&OPEN).get(&folder).and_then(Weak::upgrade) {
                return Ok(Self::Mock(driver));
            }
            match Storage::open(&folder) {
                Err(StorageError::InUse) if Instant::now() < until => sleep(PAUSE).await,
                Err(cause) => return Err(EndpointError::inside("mock", &folder, cause)),
                Ok(storage) => return mock_over(&folder, storage).map(Self::Mock),
            }
        }
    }

    /// A new connection to it.
    pub(super) fn connect(&self) -> DuplexStream {
        match self {
            Self::Nfs(driver) => driver.connect(),
            Self::Mock(driver) => driver.connect(),
        }
    }

    /// Waits until work that outlives its call is done. The mock has none.
    pub(super) async fn settled(&self) {
        match self {
            Self::Nfs(driver) => driver.settled().await,
            Self::Mock(_) => {}
        }
    }
}

fn mock_over(folder: &Path, storage: Storage) -> Result<Arc<Server<Gate>>, EndpointError> {
    let warn = Box::new(|text: &str| note!("warning: {text}"));
    let path = folder.join(SettingsFile::NAME);
    let mut file = SettingsFile::new(
        path.clone(),
        Settings::default(),
        FaultRules::default(),
        methods::named,
        warn,
    );
    let rules = file.read();
    let rules = rules.map_err(|cause| EndpointError::Settings {
        path,
        source: Arc::new(cause),
    })?;
    storage.restarted_with(rules.options.defect);
    let server = Arc::new(Mock::following(file, rules, storage).server());
    lock(&OPEN).insert(folder.to_owned(), Arc::downgrade(&server));
    Ok(server)
}

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
            temporary: env::temp_dir().join(temporary),
        }
    }

    /// The folder itself: the named one as an absolute path, or the first default that can be used, made where it was
    /// missing.
    pub(super) fn prepare(&self, driver: &'static str) -> Result<PathBuf, EndpointError> {
        match self {
            Self::Named(folder) => std::path::absolute(folder)
                .map_err(|cause| EndpointError::inside(driver, folder, cause)),
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
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)?;
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

/// In the place of a driver that is not linked.
#[cfg(not(feature = "embedded"))]
mod absent {
    use std::convert::Infallible;
    use std::path::Path;
    use thiserror::Error;
    use tokio::io::DuplexStream;

    #[derive(Debug, Error)]
    #[error("this csi was built without it; build it with --features embedded")]
    pub(crate) struct NotLinked;

    pub(crate) struct Embedded(Infallible);

    impl Embedded {
        pub fn open(_: &Path) -> Result<Self, NotLinked> {
            Err(NotLinked)
        }

        pub fn connect(&self) -> DuplexStream {
            match self.0 {}
        }

        pub async fn settled(&self) {
            match self.0 {}
        }
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
