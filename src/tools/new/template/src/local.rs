//! The storage to begin with: folders of this machine, or of its memory. Yours takes its place.
//!
// with controller
//! A volume is a folder with its record and its content, and appears and disappears whole, by a rename. So nothing is half
//! made after a crash, and controller and nodes may share the folder. Sizes are noted, not enforced.
// end
// without controller
//! A volume is a folder that an administrator has made: `volumes/ID/content`.
// end

// with attach
use crate::storage::Attachment;
// end
// with groups
use crate::storage::Group;
// end
// with controller
use crate::storage::{NewVolume, Parameters, Volume};
// end
use crate::storage::{Secrets, Storage, StorageError, Stored};
// with snapshots
use crate::storage::{Snapshot, Source};
// end
// with controller
use serde::{Serialize, de::DeserializeOwned};
// end
use std::fs;
// with controller
use std::io::{ErrorKind, Write};
// end
// with snapshots
use std::os::unix::fs::{MetadataExt, lchown, symlink};
// end
use std::path::{Path, PathBuf};

/// The folders for each kind of thing.
const VOLUMES: &str = "volumes";
// with snapshots
const SNAPSHOTS: &str = "snapshots";
// end
// with groups
const GROUPS: &str = "groups";
// end
// with attach
const NODES: &str = "nodes";
// end

/// Where the content of a volume is, below its own folder.
const CONTENT: &str = "content";
// with controller
/// Where its record is.
const RECORD: &str = "record.json";
// end

/// Volumes in folders.
pub struct Local {
    folder: PathBuf,
    /// Goes with the process.
    _temporary: Option<tempfile::TempDir>,
}

impl Local {
    /// In memory, on the file system that Linux has for that. It ends with the process.
    pub fn in_memory() -> Stored<Self> {
        let temporary = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir())?;
        let local = Self::in_folder(temporary.path())?;
        Ok(Self {
            _temporary: Some(temporary),
            ..local
        })
    }

    /// In a folder, which may exist.
    pub fn in_folder(folder: &Path) -> Stored<Self> {
        fs::create_dir_all(folder.join(VOLUMES))?;
        // with snapshots
        fs::create_dir_all(folder.join(SNAPSHOTS))?;
        // end
        // with groups
        fs::create_dir_all(folder.join(GROUPS))?;
        // end
        // with attach
        fs::create_dir_all(folder.join(NODES))?;
        // end
        let local = Self {
            folder: folder.to_owned(),
            _temporary: None,
        };
        // with controller
        local.sweep(VOLUMES)?;
        // end
        // with snapshots
        local.sweep(SNAPSHOTS)?;
        // end
        // with groups
        local.sweep(GROUPS)?;
        // end
        Ok(local)
    }

    /// The folder of the thing with that id; an id that this storage never makes has none.
    fn place(&self, kind: &str, id: &str) -> Stored<PathBuf> {
        match is_plain(id) {
            true => Ok(self.folder.join(kind).join(id)),
            false => Err(StorageError::NotFound(format!("{kind}: {id:?}"))),
        }
    }
    // with node or snapshots

    /// The folder with a volume's content.
    fn content_of_volume(&self, id: &str) -> Stored<PathBuf> {
        let content = self.place(VOLUMES, id)?.join(CONTENT);
        match content.try_exists()? {
            true => Ok(content),
            false => Err(StorageError::NotFound(format!("the volume {id}"))),
        }
    }
    // end
    // with controller

    /// The record of one thing, if it is there.
    fn one<T: DeserializeOwned>(&self, kind: &str, id: &str) -> Stored<Option<T>> {
        match self.place(kind, id).and_then(|place| read(&place)) {
            Ok(record) => Ok(Some(record)),
            Err(StorageError::NotFound(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The records of all things of a kind.
    fn all<T: DeserializeOwned>(&self, kind: &str) -> Stored<Vec<T>> {
        let mut found = Vec::new();
        for entry in fs::read_dir(self.folder.join(kind))? {
            let entry = entry?;
            if entry.file_name().as_encoded_bytes().starts_with(b".") {
                continue;
            }
            match read(&entry.path()) {
                Ok(record) => found.push(record),
                // Removed in this moment.
                Err(StorageError::NotFound(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(found)
    }

    /// Makes a thing: `fill` gets its id and the place of its content, and returns its record.
    fn make<T: Serialize>(
        &self,
        kind: &str,
        prefix: &str,
        fill: impl FnOnce(&str, &Path) -> Stored<T>,
    ) -> Stored<T> {
        let hidden = format!(".{prefix}-");
        let draft = tempfile::Builder::new()
            .prefix(&hidden)
            .rand_bytes(16)
            .tempdir_in(self.folder.join(kind))?;
        // As long as it is locked, nobody sweeps it away.
        let lock = fs::File::open(draft.path())?;
        lock.lock()?;
        let name = draft.path().file_name().unwrap_or_default();
        let id = name.to_string_lossy()[1..].to_owned();
        let record = fill(&id, &draft.path().join(CONTENT))?;
        write(draft.path(), &record)?;
        fs::rename(draft.path(), self.place(kind, &id)?)?;
        Ok(record)
    }

    /// Changes the record of a thing.
    fn change<T: Serialize + DeserializeOwned>(
        &self,
        kind: &str,
        id: &str,
        change: impl FnOnce(&mut T),
    ) -> Stored<()> {
        let place = self.place(kind, id)?;
        let mut record = read(&place)?;
        change(&mut record);
        write(&place, &record)
    }

    /// Removes a thing, if it is there: out of sight first.
    fn remove(&self, kind: &str, id: &str) -> Stored<()> {
        let Ok(place) = self.place(kind, id) else {
            return Ok(());
        };
        let hidden = place.with_file_name(format!(".{id}"));
        gone_already(fs::rename(&place, &hidden))?;
        gone_already(fs::remove_dir_all(&hidden))
    }

    /// Removes what a crash has left half made or half removed.
    fn sweep(&self, kind: &str) -> Stored<()> {
        for entry in fs::read_dir(self.folder.join(kind))? {
            let entry = entry?;
            let is_hidden = entry.file_name().as_encoded_bytes().starts_with(b".");
            if is_hidden && fs::File::open(entry.path())?.try_lock().is_ok() {
                gone_already(fs::remove_dir_all(entry.path()))?;
            }
        }
        Ok(())
    }
    // end
    // with snapshots

    /// Where the content of a source is.
    fn content_of(&self, source: &Source) -> Stored<PathBuf> {
        let id = match source {
            Source::Volume(id) => return self.content_of_volume(id),
            Source::Snapshot(id) => id,
        };
        let found = self.snapshot(id)?;
        let snapshot = found.ok_or_else(|| StorageError::NotFound(format!("the snapshot {id}")))?;
        // with groups
        if let Some(group) = &snapshot.group {
            return Ok(self.place(GROUPS, group)?.join(CONTENT).join(id));
        }
        // end
        Ok(self.place(SNAPSHOTS, &snapshot.id)?.join(CONTENT))
    }
    // end
}

impl Storage for Local {
    fn check(&self) -> Stored<()> {
        fs::read_dir(self.folder.join(VOLUMES))?;
        Ok(())
    }
    // with controller

    fn check_parameters(&self, parameters: &Parameters) -> Stored<()> {
        match parameters.keys().next() {
            Some(name) => Err(StorageError::Refused(format!(
                "there is no parameter {name}"
            ))),
            None => Ok(()),
        }
    }

    fn volumes(&self) -> Stored<Vec<Volume>> {
        self.all(VOLUMES)
    }

    fn volume(&self, id: &str) -> Stored<Option<Volume>> {
        self.one(VOLUMES, id)
    }

    fn volume_named(&self, name: &str) -> Stored<Option<Volume>> {
        let volumes = self.volumes()?;
        Ok(volumes.into_iter().find(|volume| volume.name == name))
    }

    fn free_bytes(&self, _parameters: &Parameters) -> Stored<u64> {
        let room = rustix::fs::statvfs(&self.folder).map_err(std::io::Error::from)?;
        Ok(room.f_bavail * room.f_frsize)
    }

    fn create_volume(&self, volume: NewVolume, _secrets: &Secrets) -> Stored<Volume> {
        if volume.bytes > self.free_bytes(&volume.parameters)? {
            return Err(StorageError::Full);
        }
        // with snapshots
        let from = volume.source.as_ref().map(|one| self.content_of(one));
        let from = from.transpose()?;
        // end
        self.make(VOLUMES, "vol", |id, content| {
            // with snapshots
            match from {
                Some(from) => copy(&from, content)?,
                None => fs::create_dir(content)?,
            }
            // end
            // without snapshots
            fs::create_dir(content)?;
            // end
            Ok(Volume {
                id: id.to_owned(),
                name: volume.name,
                bytes: volume.bytes,
                parameters: volume.parameters,
                // with snapshots
                source: volume.source,
                // end
                // with attach
                attached: None,
                // end
            })
        })
    }

    fn delete_volume(&self, id: &str, _secrets: &Secrets) -> Stored<()> {
        self.remove(VOLUMES, id)
    }

    fn expand_volume(&self, id: &str, bytes: u64, _secrets: &Secrets) -> Stored<()> {
        self.change(VOLUMES, id, |volume: &mut Volume| volume.bytes = bytes)
    }
    // end
    // with attach

    fn register_node(&self, node: &str) -> Stored<()> {
        fs::write(self.place(NODES, node)?, "")?;
        Ok(())
    }

    fn has_node(&self, node: &str) -> Stored<bool> {
        match self.place(NODES, node) {
            Ok(place) => Ok(place.try_exists()?),
            // No node has such a name.
            Err(_) => Ok(false),
        }
    }

    fn attach_volume(&self, id: &str, to: Option<Attachment>, _secrets: &Secrets) -> Stored<()> {
        self.change(VOLUMES, id, |volume: &mut Volume| volume.attached = to)
    }
    // end
    // with snapshots

    // with groups
    fn snapshots(&self) -> Stored<Vec<Snapshot>> {
        let mut snapshots = self.all(SNAPSHOTS)?;
        let groups = self.all::<Group>(GROUPS)?;
        snapshots.extend(groups.into_iter().flat_map(|group| group.snapshots));
        Ok(snapshots)
    }

    fn snapshot(&self, id: &str) -> Stored<Option<Snapshot>> {
        let snapshots = self.snapshots()?;
        Ok(snapshots.into_iter().find(|snapshot| snapshot.id == id))
    }
    // end
    // without groups
    fn snapshots(&self) -> Stored<Vec<Snapshot>> {
        self.all(SNAPSHOTS)
    }

    fn snapshot(&self, id: &str) -> Stored<Option<Snapshot>> {
        self.one(SNAPSHOTS, id)
    }
    // end

    fn snapshot_named(&self, name: &str) -> Stored<Option<Snapshot>> {
        let snapshots = self.snapshots()?;
        Ok(snapshots.into_iter().find(|snapshot| snapshot.name == name))
    }

    fn create_snapshot(
        &self,
        name: &str,
        volume: &Volume,
        _parameters: &Parameters,
        _secrets: &Secrets,
    ) -> Stored<Snapshot> {
        let from = self.content_of_volume(&volume.id)?;
        self.make(SNAPSHOTS, "snap", |id, content| {
            copy(&from, content)?;
            Ok(Snapshot {
                id: id.to_owned(),
                name: name.to_owned(),
                volume: volume.id.clone(),
                bytes: volume.bytes,
                taken: std::time::SystemTime::now(),
                // with groups
                group: None,
                // end
            })
        })
    }

    fn delete_snapshot(&self, id: &str, _secrets: &Secrets) -> Stored<()> {
        self.remove(SNAPSHOTS, id)
    }
    // end
    // with groups

    fn group(&self, id: &str) -> Stored<Option<Group>> {
        self.one(GROUPS, id)
    }

    fn group_named(&self, name: &str) -> Stored<Option<Group>> {
        let groups = self.all::<Group>(GROUPS)?;
        Ok(groups.into_iter().find(|group| group.name == name))
    }

    /// The copies are made one after the other: this storage can stop nobody's writes.
    fn create_group(
        &self,
        name: &str,
        volumes: &[Volume],
        _parameters: &Parameters,
        _secrets: &Secrets,
    ) -> Stored<Group> {
        self.make(GROUPS, "group", |group, content| {
            fs::create_dir(content)?;
            let taken = std::time::SystemTime::now();
            let take = |volume: &Volume| {
                let id = format!("{group}-{}", volume.id);
                copy(&self.content_of_volume(&volume.id)?, &content.join(&id))?;
                Ok(Snapshot {
                    id,
                    name: String::new(),
                    volume: volume.id.clone(),
                    bytes: volume.bytes,
                    taken,
                    group: Some(group.to_owned()),
                })
            };
            Ok(Group {
                id: group.to_owned(),
                name: name.to_owned(),
                snapshots: volumes.iter().map(take).collect::<Stored<_>>()?,
                taken,
            })
        })
    }

    fn delete_group(&self, id: &str, _secrets: &Secrets) -> Stored<()> {
        self.remove(GROUPS, id)
    }
    // end
    // with node

    fn content(&self, id: &str, _secrets: &Secrets) -> Stored<PathBuf> {
        self.content_of_volume(id)
    }
    // end
}

/// Whether an id can be the name of a folder: ids come from outside, and must not lead there.
fn is_plain(id: &str) -> bool {
    !id.is_empty() && id.len() < 200 && !id.starts_with('.') && !id.contains(['/', '\0'])
}
// with controller

/// The record in a thing's folder.
fn read<T: DeserializeOwned>(place: &Path) -> Stored<T> {
    match fs::read(place.join(RECORD)) {
        Ok(bytes) => {
            serde_json::from_slice(&bytes).map_err(|error| StorageError::Failed(error.into()))
        }
        Err(error) if error.kind() == ErrorKind::NotFound => {
            Err(StorageError::NotFound(place.display().to_string()))
        }
        Err(error) => Err(error.into()),
    }
}

/// Replaces the record in a thing's folder.
fn write<T: Serialize>(place: &Path, record: &T) -> Stored<()> {
    let mut file = tempfile::NamedTempFile::new_in(place)?;
    let bytes = serde_json::to_vec(record).map_err(std::io::Error::from)?;
    file.write_all(&bytes)?;
    file.as_file().sync_all()?;
    file.persist(place.join(RECORD))
        .map_err(|error| error.error)?;
    Ok(())
}

/// That something is gone already is no error.
fn gone_already(result: std::io::Result<()>) -> Stored<()> {
    match result {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error.into()),
        _ => Ok(()),
    }
}
// end
// with snapshots

/// Copies a folder with owners and modes. A file with several names becomes several; sockets and devices are left out. Folders
/// are followed as they are there: this is no guard against a volume's user who replaces them meanwhile.
fn copy(from: &Path, to: &Path) -> std::io::Result<()> {
    let there = from.symlink_metadata()?;
    if there.is_dir() {
        fs::create_dir(to)?;
        for entry in fs::read_dir(from)? {
            let name = entry?.file_name();
            copy(&from.join(&name), &to.join(&name))?;
        }
    } else if there.is_symlink() {
        symlink(fs::read_link(from)?, to)?;
    } else if there.is_file() {
        fs::copy(from, to)?;
    } else {
        return Ok(());
    }
    lchown(to, Some(there.uid()), Some(there.gid()))?;
    match there.is_symlink() {
        true => Ok(()),
        // After the owner, whose change takes away bits.
        false => fs::set_permissions(to, there.permissions()),
    }
}
// end

#[cfg(test)]
mod tests {
    use super::*;
    // with controller

    fn new(name: &str) -> NewVolume {
        NewVolume {
            name: name.to_owned(),
            bytes: 1,
            parameters: Parameters::new(),
            // with snapshots
            source: None,
            // end
        }
    }

    #[test]
    fn volumes_outlive_the_process_and_drafts_do_not() {
        let folder = tempfile::tempdir().expect("a folder");
        let local = Local::in_folder(folder.path()).expect("a storage");
        let made = local.create_volume(new("a"), &Secrets::new());
        let made = made.expect("a volume");
        let expanded = local.expand_volume(&made.id, 2, &Secrets::new());
        expanded.expect("a larger volume");
        let draft = folder.path().join(VOLUMES).join(".vol-left");
        fs::create_dir(&draft).expect("a draft");
        let again = Local::in_folder(folder.path()).expect("a storage");
        let volumes = again.volumes().expect("volumes");
        assert_eq!(volumes, [Volume { bytes: 2, ..made }]);
        assert!(!draft.exists());
        let volume = &volumes[0];
        for found in [again.volume(&volume.id), again.volume_named("a")] {
            assert_eq!(found.expect("looked up").as_ref(), Some(volume));
        }
        let deleted = again.delete_volume(&volume.id, &Secrets::new());
        deleted.expect("deleted");
        for gone in [local.volume(&volume.id), local.volume_named("a")] {
            assert_eq!(gone.expect("looked up"), None);
        }
    }

    #[test]
    fn what_is_in_memory_ends_with_it() {
        let local = Local::in_memory().expect("a storage");
        let folder = local.folder.clone();
        assert!(folder.exists());
        drop(local);
        assert!(!folder.exists());
    }

    #[test]
    fn no_id_leads_out_of_the_folder() {
        let folder = tempfile::tempdir().expect("a folder");
        let local = Local::in_folder(&folder.path().join("inner")).expect("a storage");
        let outside = folder.path().join("inner/outside");
        fs::create_dir(&outside).expect("a folder");
        for id in ["../outside", "..", "", "/", "."] {
            let deleted = local.delete_volume(id, &Secrets::new());
            deleted.expect("nothing to delete");
            assert!(local.expand_volume(id, 1, &Secrets::new()).is_err());
            assert_eq!(local.volume(id).expect("looked up"), None);
        }
        assert!(outside.exists());
    }
    // end
    // with snapshots

    #[test]
    fn a_snapshot_keeps_what_was_there() {
        let local = Local::in_memory().expect("a storage");
        let make = |volume| local.create_volume(volume, &Secrets::new());
        let content = |volume: &Volume| local.content_of_volume(&volume.id).expect("content");
        let volume = make(new("a")).expect("a volume");
        let file = content(&volume).join("file");
        fs::write(&file, "before").expect("written");
        symlink("file", file.with_file_name("link")).expect("a link");
        let snapshot = local.create_snapshot("s", &volume, &Parameters::new(), &Secrets::new());
        let snapshot = snapshot.expect("a snapshot");
        fs::write(&file, "after").expect("written");
        let restored = make(NewVolume {
            source: Some(Source::Snapshot(snapshot.id)),
            ..new("b")
        });
        let restored = content(&restored.expect("a volume"));
        assert_eq!(fs::read(restored.join("link")).expect("content"), b"before");
    }
    // end
    // without controller

    #[test]
    fn a_volume_is_a_folder_that_somebody_has_made() {
        let folder = tempfile::tempdir().expect("a folder");
        let local = Local::in_folder(folder.path()).expect("a storage");
        let content = folder.path().join("volumes/v1/content");
        fs::create_dir_all(&content).expect("a folder");
        assert_eq!(local.content_of_volume("v1").expect("content"), content);
        for id in ["v2", "../volumes/v1", ""] {
            assert!(local.content_of_volume(id).is_err());
        }
        assert!(Local::in_memory().expect("a storage").check().is_ok());
    }
    // end
}
