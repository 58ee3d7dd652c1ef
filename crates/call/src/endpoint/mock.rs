//! The mock driver in this process: `mock:[DIR]`. Its folder holds its state, and the settings that it follows.
//!
//! One process has the folder at a time; another one waits a moment, as commands in a pipe do for each other.

use super::EndpointError;
use super::state::Folder;
use csi_error::note;
use csi_mock::{Gate, Mock, Server, Settings, SettingsFile, Storage, StorageError};
use csi_proto::faults::FaultRules;
use csi_proto::lock::lock;
use csi_proto::methods;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// How long another process may have the folder.
const PATIENCE: Duration = Duration::from_secs(5);

/// How often it is tried meanwhile.
const PAUSE: Duration = Duration::from_millis(10);

type Open = BTreeMap<PathBuf, Weak<Server<Gate>>>;

/// The drivers of this process by their folders: two endpoints of one folder name one driver.
static OPEN: Mutex<Open> = Mutex::new(BTreeMap::new());

/// The mock, which serves.
pub(super) type MockDriver = Arc<Server<Gate>>;

/// Opens the driver whose state is in `folder`.
pub(super) async fn open(folder: &Folder) -> Result<MockDriver, EndpointError> {
    let folder = folder.prepare("mock")?;
    let until = Instant::now() + PATIENCE;
    loop {
        if let Some(driver) = lock(&OPEN).get(&folder).and_then(Weak::upgrade) {
            return Ok(driver);
        }
        match Storage::open(&folder) {
            Err(StorageError::InUse) if Instant::now() < until => sleep(PAUSE).await,
            Err(cause) => return Err(EndpointError::inside("mock", &folder, cause)),
            Ok(storage) => return over(&folder, storage),
        }
    }
}

fn over(folder: &Path, storage: Storage) -> Result<MockDriver, EndpointError> {
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
