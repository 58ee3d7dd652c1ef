//! What a driver is known to have done: where its volumes are attached, staged and published. Kept in a folder, whole and
//! synced before a call-out begins and after it has succeeded. Holds no secrets.

use super::options::Options;
use super::request::How;
use csi_call::user_folders;
use csi_invocation::private_file;
use csi_proto::lock;
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use thiserror::Error;

/// The form of the file. Another one is refused.
const FORMAT: u32 = 1;
const FILE: &str = "state.json";
const LOCK: &str = "lock";

/// Why the state cannot be kept.
#[derive(Debug, Error)]
pub enum StateError {
    /// The system refuses.
    #[error("{path}: {cause}", path = path.display())]
    System {
        /// The file or folder.
        path: PathBuf,
        /// The system's word.
        cause: io::Error,
    },
    /// Another process keeps its state there.
    #[error("{folder}: another process has it open", folder = folder.display())]
    InUse {
        /// The folder.
        folder: PathBuf,
    },
    /// What is there was not written by this program.
    #[error("{path}: it is no state of csi flex: {why}", path = path.display())]
    NotAState {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
}

/// Where a volume can be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum VolumeLocation {
    /// Attached to a node.
    Node(String),
    /// Mounted for a node, at its staging path.
    Staging(PathBuf),
    /// Mounted for a workload, at its target path.
    Target(PathBuf),
}

impl VolumeLocation {
    /// The path, where it is one.
    pub fn path(&self) -> Option<&Path> {
        match self {
            Self::Node(_) => None,
            Self::Staging(path) | Self::Target(path) => Some(path),
        }
    }
}

/// A volume at a place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Use {
    /// Its id.
    pub volume: String,
    /// Where it is.
    pub place: VolumeLocation,
    /// How it is used there.
    pub how: How,
    /// Whether the driver has said that it is done. A call-out that was begun may have done it all the same.
    pub done: bool,
    /// Whether the place was a mount point then.
    #[serde(default)]
    pub mounted: bool,
    /// The options of its call-outs, without secrets.
    pub options: Options,
    /// The device, as attach or waitforattach told it.
    #[serde(default)]
    pub device: String,
    /// The driver's name of the volume, which detach takes.
    #[serde(default)]
    pub name: String,
    /// The size after it was expanded.
    #[serde(default)]
    pub size: i64,
}

impl Use {
    /// What is noted before it is done.
    pub fn begun(volume: &str, place: VolumeLocation, how: How, options: Options) -> Self {
        Self {
            volume: volume.to_owned(),
            place,
            how,
            done: false,
            mounted: false,
            options,
            device: String::new(),
            name: String::new(),
            size: 0,
        }
    }
}

/// All that is known.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    format: u32,
    /// The volumes at their places.
    pub uses: Vec<Use>,
}

impl State {
    /// What is known of this volume at a node, or of any volume at a path.
    pub fn at(&self, volume: &str, place: &VolumeLocation) -> Option<&Use> {
        let is_path = !matches!(place, VolumeLocation::Node(_));
        let mut uses = self.uses.iter();
        uses.find(|one| one.place == *place && (is_path || one.volume == volume))
    }

    /// The places of a volume.
    pub fn of<'a>(&'a self, volume: &'a str) -> impl Iterator<Item = &'a Use> {
        self.uses.iter().filter(move |one| one.volume == volume)
    }

    /// Notes a volume at a place, instead of what was known of it there.
    pub fn put(&mut self, new: Use) {
        self.forget(&new.volume, &new.place);
        self.uses.push(new);
    }

    /// Forgets a volume at a place.
    pub fn forget(&mut self, volume: &str, place: &VolumeLocation) {
        self.uses
            .retain(|one| one.place != *place || one.volume != volume);
    }
}

/// A state that one process keeps in a folder. Changes that come while one is written are written together: a disk takes its
/// time to sync, and calls for other volumes are not to wait in a row.
pub struct Store {
    /// The folder.
    pub folder: PathBuf,
    known: Mutex<Known>,
    /// The number of the change up to which all are on the disk.
    written: tokio::sync::Mutex<u64>,
    lock: File,
}

/// What is known, and how many changes have led to it.
#[derive(Clone)]
struct Known {
    state: State,
    changes: u64,
}

impl Store {
    /// The state in a folder, which is made for this user alone where it is missing.
    ///
    /// # Errors
    /// When the folder cannot be used, another process uses it, or something else is in it.
    pub fn open(folder: &Path) -> Result<Self, StateError> {
        user_folders::make_private(folder).map_err(system(folder))?;
        let folder = folder.canonicalize().map_err(system(folder))?;
        let path = folder.join(LOCK);
        let lock = File::create(&path).map_err(system(&path))?;
        if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
            return Err(StateError::InUse { folder });
        }
        let state = read(&folder.join(FILE))?;
        Ok(Self {
            folder,
            known: Mutex::new(Known { state, changes: 0 }),
            written: tokio::sync::Mutex::default(),
            lock,
        })
    }

    /// All that is known now.
    pub fn now(&self) -> State {
        lock(&self.known).state.clone()
    }

    /// Changes what is known, and returns when the change is on the disk.
    ///
    /// # Errors
    /// When it cannot be kept there; the next change tries again.
    pub async fn change(&self, change: impl FnOnce(&mut State)) -> Result<(), StateError> {
        let own = {
            let mut known = lock(&self.known);
            change(&mut known.state);
            known.changes += 1;
            known.changes
        };
        let mut written = self.written.lock().await;
        if *written >= own {
            return Ok(());
        }
        let Known { state, changes } = lock(&self.known).clone();
        let path = self.folder.join(FILE);
        let failed = system(&path);
        let done = tokio::task::spawn_blocking(move || write(&state, &path)).await;
        // A task that has died has written nothing that counts.
        done.unwrap_or_else(|error| Err(io::Error::other(error)))
            .map_err(failed)?;
        *written = changes;
        Ok(())
    }
}

fn write(state: &State, path: &Path) -> io::Result<()> {
    let mut text = serde_json::to_vec_pretty(state)?;
    text.push(b'\n');
    private_file::replace(path, &text)
}

fn read(path: &Path) -> Result<State, StateError> {
    let bytes = match fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let format = FORMAT;
            return Ok(State {
                format,
                ..State::default()
            });
        }
        Err(error) => return Err(system(path)(error)),
    };
    let not = |why: String| StateError::NotAState {
        path: path.to_owned(),
        why,
    };
    let state: State = serde_json::from_slice(&bytes).map_err(|error| not(error.to_string()))?;
    match state.format {
        FORMAT => Ok(state),
        other => Err(not(format!("format {other} is not known, but {FORMAT}"))),
    }
}

fn system(path: &Path) -> impl Fn(io::Error) -> StateError + use<> {
    let path = path.to_owned();
    move |cause| StateError::System {
        path: path.clone(),
        cause,
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        // The close alone leaves it to a program that is just being started, which has a copy of each open file.
        let _ = flock(&self.lock, FlockOperation::Unlock);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::corpus;

    fn at(volume: &str, place: VolumeLocation) -> Use {
        Use {
            volume: volume.to_owned(),
            place,
            how: How::default(),
            done: true,
            mounted: true,
            options: [("a".to_owned(), "b \u{fc}".to_owned())].into(),
            device: "/dev/x".to_owned(),
            name: "n".to_owned(),
            size: 5,
        }
    }

    #[tokio::test]
    async fn what_was_kept_is_there_again_and_one_process_has_it() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("deep/state");
        let store = Store::open(&place).unwrap();
        let (node, target) = (
            VolumeLocation::Node("n1".into()),
            VolumeLocation::Target("/t".into()),
        );
        for (volume, place) in [("a", &node), ("b", &node), ("a", &target)] {
            let new = at(volume, place.clone());
            store.change(|state| state.put(new)).await.unwrap();
        }
        let changes = ["x", "y", "z"].map(|volume| {
            let new = at(volume, node.clone());
            store.change(|state| state.put(new))
        });
        // At the same time: the first is written alone, the others together.
        for changed in futures_util::future::join_all(changes).await {
            changed.unwrap();
        }
        for volume in ["b", "x", "y", "z"] {
            let change = store.change(|state| state.forget(volume, &node));
            change.await.unwrap();
        }
        let known = store.now();
        assert!(known.at("a", &node).is_some() && known.at("b", &node).is_none());
        assert_eq!(known.at("b", &target).unwrap().volume, "a");
        assert_eq!(known.of("a").count(), 2);
        let second = Store::open(&place).map(drop).unwrap_err();
        assert!(second.to_string().ends_with("another process has it open"));
        drop(store);
        assert_eq!(Store::open(&place).unwrap().now(), known);
    }

    #[tokio::test]
    async fn formats_of_states_are_as_in_the_newest_version_and_all_are_read() {
        let how = How {
            mode: "MULTI_NODE_MULTI_WRITER".to_owned(),
            fs_type: "ext4".to_owned(),
            group: "100".to_owned(),
            readonly: true,
        };
        let places = [
            VolumeLocation::Node("n1".to_owned()),
            VolumeLocation::Staging("/s".into()),
            VolumeLocation::Target("/t".into()),
        ];
        let uses = places.map(|place| Use {
            how: how.clone(),
            ..at("a", place)
        });
        let state = State {
            format: FORMAT,
            uses: uses.into(),
        };
        let folder = tempfile::tempdir().unwrap();
        write(&state, &folder.path().join(FILE)).unwrap();
        corpus::holds("flex", corpus::read(folder.path()));
        for (version, kept) in corpus::versions("flex") {
            let folder = tempfile::tempdir().unwrap();
            corpus::copy(&kept, folder.path());
            assert_eq!(
                Store::open(folder.path()).unwrap().now(),
                state,
                "{version}"
            );
        }
    }

    #[tokio::test]
    async fn what_is_no_state_is_refused_and_what_cannot_be_kept_is_said() {
        let folder = tempfile::tempdir().unwrap();
        for text in ["", "{}", "{\"format\":2,\"uses\":[]}"] {
            fs::write(folder.path().join(FILE), text).unwrap();
            let error = Store::open(folder.path()).map(drop).unwrap_err();
            assert!(
                error.to_string().contains("it is no state of csi flex"),
                "{error}"
            );
        }
        fs::remove_file(folder.path().join(FILE)).unwrap();
        let store = Store::open(folder.path()).unwrap();
        let path = folder.path().join(FILE);
        fs::create_dir(&path).unwrap();
        let new = at("a", VolumeLocation::Target("/t".into()));
        assert!(store.change(|state| state.put(new)).await.is_err());
        // The next change keeps it too.
        fs::remove_dir(&path).unwrap();
        store.change(|_| {}).await.unwrap();
        drop(store);
        let again = Store::open(folder.path()).unwrap();
        assert_eq!(again.now().uses.len(), 1);
    }
}
