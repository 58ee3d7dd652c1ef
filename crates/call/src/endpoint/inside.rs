//! The drivers in this process, reached over an in-memory pipe: the NFS driver, `embedded:[DIR]`, and the mock, `mock:[DIR]`. Owns how
//! they are opened; `state` owns the folders in which they keep what they have.
//!
//! Without the feature `embedded` such an endpoint is still understood, and refused with the reason. One process has the mock's folder,
//! which also holds the settings that it follows, at a time; another one waits a moment, as commands in a pipe do for each other.

use super::error::EndpointError;
use super::state::Folder;
use csi_error::note;
use csi_mock::{Gate, Mock, Server, Settings, SettingsFile, Storage, StorageError};
#[cfg(feature = "embedded")]
use csi_nfs::process::embedded::Embedded;
use csi_proto::{lock, methods};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;
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
    #[cfg(feature = "embedded")]
    Nfs(Box<Embedded>),
    Mock(Arc<Server<Gate>>),
}

impl Inside {
    /// Opens the NFS driver that keeps its share and its records in `folder`.
    pub(super) fn nfs(folder: &Folder) -> Result<Self, EndpointError> {
        let folder = folder.prepare("embedded")?;
        #[cfg(feature = "embedded")]
        let opened = Embedded::open(&folder).map(|driver| Self::Nfs(Box::new(driver)));
        #[cfg(not(feature = "embedded"))]
        let opened = Err(NotLinked);
        opened.map_err(|cause| EndpointError::inside("embedded", &folder, cause))
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
            #[cfg(feature = "embedded")]
            Self::Nfs(driver) => driver.connect(),
            Self::Mock(driver) => driver.connect(),
        }
    }

    /// Waits until work that outlives its call is done. The mock has none.
    pub(super) async fn settled(&self) {
        match self {
            #[cfg(feature = "embedded")]
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
        Vec::new(),
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

/// Why there is no NFS driver in this process.
#[cfg(not(feature = "embedded"))]
#[derive(Debug, thiserror::Error)]
#[error("this csi was built without it; build it with --features embedded")]
struct NotLinked;
