//! Where the driver keeps what it knows and the data of its volumes: what outlives its process. Owns the file of the state,
//! which is replaced whole, and that one process has it at a time.

use crate::Defect;
use crate::state::{Group, Snapshot, State, Use, Volume};
use csi_proto::lock::lock;
use prost::Message;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use std::ffi::OsString;
use std::fs::{self, DirBuilder, File};
use std::io;
use std::ops::{Deref, DerefMut};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use tempfile::TempDir;
use thiserror::Error;

/// The form of the file. Another one is refused.
const FORMAT: u32 = 1;

/// The names in the folder.
const DATA: &str = "data";
const STATE: &str = "state";
const NEXT: &str = "state.next";
const LOCK: &str = "lock";

/// Why a folder cannot hold the state.
#[derive(Debug, Error)]
pub enum StorageError {
    /// The system refuses.
    #[error("{}: {source}", .path.display())]
    System {
        /// What was to be used.
        path: PathBuf,
        /// The system's word.
        #[source]
        source: io::Error,
    },
    /// Another process uses it.
    #[error("another process has it open: end that, or let both call one `csi mock --endpoint`")]
    InUse,
    /// The file of the state is none.
    #[error("{}: this is no state of a mock driver: remove the folder, or name another one", .0.display())]
    NotAState(PathBuf),
}

/// What a driver keeps. Clones are the same.
#[derive(Clone)]
pub struct Storage(Arc<Kept>);

struct Kept {
    known: Mutex<Known>,
    data: PathBuf,
    folder: Option<Folder>,
    _temporary: Option<TempDir>,
}

/// The state, and whether it may differ from the file.
#[derive(Default)]
struct Known {
    state: State,
    changed: bool,
}

/// The folder of the state, locked as long as this lives.
struct Folder {
    path: PathBuf,
    _lock: File,
}

/// The state, in one hand at a time.
pub(crate) struct Held<'a>(MutexGuard<'a, Known>);

impl Deref for Held<'_> {
    type Target = State;

    fn deref(&self) -> &State {
        &self.0.state
    }
}

impl DerefMut for Held<'_> {
    fn deref_mut(&mut self) -> &mut State {
        self.0.changed = true;
        &mut self.0.state
    }
}

impl Storage {
    /// In memory, but for the data of volumes, which is below the folder `data`, a new one.
    pub fn in_memory(data: PathBuf) -> Self {
        Self(Arc::new(Kept {
            known: Mutex::default(),
            data,
            folder: None,
            _temporary: None,
        }))
    }

    /// In memory, but for the data of volumes, which is in a temporary folder and goes with this.
    pub fn temporary() -> io::Result<Self> {
        let temporary = tempfile::Builder::new().prefix("csi-mock.").tempdir()?;
        Ok(Self(Arc::new(Kept {
            known: Mutex::default(),
            data: temporary.path().canonicalize()?,
            folder: None,
            _temporary: Some(temporary),
        })))
    }

    /// In a folder, which is made when it is missing; what is in it is for this user alone.
    ///
    /// # Errors
    /// When the folder cannot be used, or another process uses it: try again.
    pub fn open(folder: &Path) -> Result<Self, StorageError> {
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |source| StorageError::System { path, source }
        };
        let data = folder.join(DATA);
        let private = |path: &Path| DirBuilder::new().recursive(true).mode(0o700).create(path);
        private(folder).map_err(failed(folder))?;
        // Volumes are links to what is in there, followed from anywhere.
        let folder = folder.canonicalize().map_err(failed(folder))?;
        private(&data).map_err(failed(&data))?;
        let lock = folder.join(LOCK);
        let file = File::create(&lock).map_err(failed(&lock))?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) => return Err(StorageError::InUse),
            result => result.map_err(|errno| failed(&lock)(errno.into()))?,
        }
        let path = folder.join(STATE);
        let state = match fs::read(&path) {
            Ok(bytes) => Stored::decode(&*bytes)
                .ok()
                .and_then(Stored::state)
                .ok_or(StorageError::NotAState(path))?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => State::default(),
            Err(error) => return Err(failed(&path)(error)),
        };
        let changed = false;
        Ok(Self(Arc::new(Kept {
            known: Mutex::new(Known { state, changed }),
            data: folder.join(DATA),
            folder: Some(Folder {
                path: folder,
                _lock: file,
            }),
            _temporary: None,
        })))
    }

    /// What exists now, one line each: volumes, snapshots, groups, attachments, staged and published volumes.
    pub fn names(&self) -> Vec<String> {
        self.state().names()
    }

    /// Forgets what a driver with that defect has forgotten when it starts again.
    pub fn restarted_with(&self, defect: Option<Defect>) {
        if let Some(defect) = defect {
            self.state().forget(defect);
        }
    }

    /// The state. Never held across an await.
    pub(crate) fn state(&self) -> Held<'_> {
        Held(lock(&self.0.known))
    }

    /// Where the data of the volume or snapshot with this id is.
    pub(crate) fn data(&self, id: &str) -> PathBuf {
        self.0.data.join(id)
    }

    /// Keeps what has changed. A process that is killed meanwhile has kept all of it or nothing; against a failure of the
    /// machine this does nothing.
    pub(crate) fn save(&self) -> io::Result<()> {
        let mut known = lock(&self.0.known);
        let Some(folder) = self.0.folder.as_ref().filter(|_| known.changed) else {
            return Ok(());
        };
        let next = folder.path.join(NEXT);
        fs::write(&next, Stored::of(&known.state).encode_to_vec())?;
        fs::rename(&next, folder.path.join(STATE))?;
        known.changed = false;
        Ok(())
    }
}

/// The state as it stands in the file.
#[derive(Clone, PartialEq, Message)]
struct Stored {
    #[prost(uint32, tag = "1")]
    format: u32,
    #[prost(uint64, tag = "2")]
    last_id: u64,
    #[prost(message, repeated, tag = "3")]
    volumes: Vec<Volume>,
    #[prost(message, repeated, tag = "4")]
    snapshots: Vec<Snapshot>,
    #[prost(message, repeated, tag = "5")]
    groups: Vec<Group>,
    #[prost(message, repeated, tag = "6")]
    attached: Vec<StoredUse>,
    #[prost(message, repeated, tag = "7")]
    staged: Vec<StoredUse>,
    #[prost(message, repeated, tag = "8")]
    published: Vec<StoredUse>,
}

/// A volume in use somewhere.
#[derive(Clone, PartialEq, Message)]
struct StoredUse {
    #[prost(string, tag = "1")]
    volume: String,
    /// A node's id, or a path.
    #[prost(bytes = "vec", tag = "2")]
    place: Vec<u8>,
    #[prost(message, required, tag = "3")]
    how: Use,
}

impl StoredUse {
    fn of(volume: &str, place: &[u8], how: &Use) -> Self {
        Self {
            volume: volume.to_owned(),
            place: place.to_vec(),
            how: how.clone(),
        }
    }

    fn path(self) -> (String, PathBuf, Use) {
        let path = OsString::from_vec(self.place).into();
        (self.volume, path, self.how)
    }
}

impl Stored {
    fn of(state: &State) -> Self {
        let attached = state.attached.iter();
        let staged = state.staged.iter();
        let published = state.published.iter();
        Self {
            format: FORMAT,
            last_id: state.last_id,
            volumes: state.volumes.values().cloned().collect(),
            snapshots: state.snapshots.values().cloned().collect(),
            groups: state.groups.values().cloned().collect(),
            attached: attached
                .map(|((volume, node), how)| StoredUse::of(volume, node.as_bytes(), how))
                .collect(),
            staged: staged
                .map(|((volume, path), how)| {
                    StoredUse::of(volume, path.as_os_str().as_bytes(), how)
                })
                .collect(),
            published: published
                .map(|(path, (volume, how))| {
                    StoredUse::of(volume, path.as_os_str().as_bytes(), how)
                })
                .collect(),
        }
    }

    /// The state; `None` where the file is of another form.
    fn state(self) -> Option<State> {
        let by_volume = |one: Volume| (one.id.clone(), one);
        let by_snapshot = |one: Snapshot| (one.id.clone(), one);
        let by_group = |one: Group| (one.id.clone(), one);
        let staged = self.staged.into_iter().map(StoredUse::path);
        let published = self.published.into_iter().map(StoredUse::path);
        let attached = self.attached.into_iter().map(|one| {
            let node = String::from_utf8(one.place).ok()?;
            Some(((one.volume, node), one.how))
        });
        (self.format == FORMAT).then_some(())?;
        Some(State {
            volumes: self.volumes.into_iter().map(by_volume).collect(),
            snapshots: self.snapshots.into_iter().map(by_snapshot).collect(),
            groups: self.groups.into_iter().map(by_group).collect(),
            attached: attached.collect::<Option<_>>()?,
            staged: staged
                .map(|(volume, path, how)| ((volume, path), how))
                .collect(),
            published: published
                .map(|(volume, path, how)| (path, (volume, how)))
                .collect(),
            last_id: self.last_id,
            ..State::default()
        })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::{Mock, Options};

    #[test]
    fn what_was_saved_is_there_again_and_one_process_has_it() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("deep/state");
        let first = Storage::open(&place).unwrap();
        Mock::new(Options::default(), first.clone()).fill(3);
        {
            let mut state = first.state();
            let how = Use::default();
            let volume = "vol-00000002".to_owned();
            let place = (volume.clone(), "/a \u{fc}".into());
            state.staged.insert(place, how.clone());
            state
                .published
                .insert("/b".into(), (volume.clone(), how.clone()));
            state.attached.insert((volume, "node-1".to_owned()), how);
        }
        first.save().unwrap();
        let (names, bytes) = (first.names(), fs::read(place.join(STATE)).unwrap());
        assert_eq!(names.len(), 6, "{names:?}");
        assert!(matches!(Storage::open(&place), Err(StorageError::InUse)));
        drop(first);
        let again = Storage::open(&place).unwrap();
        assert_eq!(again.names(), names);
        // Nothing is written for a look.
        again.save().unwrap();
        assert_eq!(fs::read(place.join(STATE)).unwrap(), bytes);
        assert_eq!(again.state().new_id("vol"), "vol-00000004");
    }

    #[test]
    fn another_file_is_no_state() {
        let folder = tempfile::tempdir().unwrap();
        for bytes in [&b"text"[..], b"", &[8, 2]] {
            fs::write(folder.path().join(STATE), bytes).unwrap();
            let opened = Storage::open(folder.path());
            assert!(
                matches!(opened, Err(StorageError::NotAState(_))),
                "{bytes:?}"
            );
        }
    }
}
