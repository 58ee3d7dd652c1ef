//! Keeps a record of each publish on this node: one small file in the work folder, so that the specification's rules for
//! a second publish hold after a restart. mountinfo says what is mounted; a record says what was asked for. The work folder's disk
//! may hang, so it is never touched by the thread that serves all calls.

use crate::calls::node::arguments::Arguments;
use crate::calls::node::error::NodeError;
use crate::mount::mountinfo::{self, Mount};
use crate::process::disk_thread::DiskThread;
use crate::process::log::{Level, Log};
use crate::process::work_folder::{new_file, open, private_folder};
use csi_nfs_store::share::paths::sub_path::encode_name;
use rustix::fs::{FlockOperation, OFlags};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Mutex, OwnedMutexGuard};
use tokio::time::{Instant, sleep};

/// One publish.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PublishRecord {
    /// The volume.
    pub volume_id: String,
    /// Where, without symlinks above the last component.
    pub target: PathBuf,
    /// What was asked for.
    pub arguments: Arguments,
    /// The folder that a symlink at the target leads to, where mounting is refused.
    pub symlink: Option<PathBuf>,
    /// The staging path that the volume was bound from, where the driver stages.
    #[serde(default)]
    pub staging: Option<PathBuf>,
}

/// The records of one kind on this node: of publishes, or of stages, which are publishes at the staging path. Cheap to clone.
#[derive(Clone, Debug)]
pub struct PublishRecords {
    files: RecordFiles,
    thread: DiskThread,
    /// Whose turn it is in this process, and when the last one whose turn it was gave up.
    turn: Arc<Mutex<GivenUp>>,
}

/// The files of these records. All that it does waits for the disk.
#[derive(Clone, Debug)]
struct RecordFiles {
    folder: PathBuf,
    log: Log,
}

/// How long another process may hold the lock: it is held for a few small files.
const LOCK_BOUND: Duration = Duration::from_secs(30);

/// When somebody last gave up who had waited for another process's lock.
type GivenUp = Option<Instant>;

/// How often it is tried to get the lock meanwhile.
const LOCK_PAUSE: Duration = Duration::from_millis(20);

/// A lock on a file of the work folder, until this is dropped.
#[derive(Debug)]
pub struct FileLock {
    file: Option<File>,
    thread: DiskThread,
}

impl Drop for FileLock {
    fn drop(&mut self) {
        self.thread.close(self.file.take());
    }
}

impl PublishRecords {
    /// The records in the folder `name` of `work_dir`, which is made when it is missing. Blocks.
    pub fn open(work_dir: &Path, name: &str, thread: &DiskThread, log: Log) -> io::Result<Self> {
        let folder = work_dir.join(name);
        private_folder(&folder)?;
        Ok(Self {
            files: RecordFiles { folder, log },
            thread: thread.clone(),
            turn: Arc::default(),
        })
    }

    /// Forgets the publishes whose targets are gone, as after a reboot. Blocks; all else that touches the work folder is done by the
    /// thread.
    ///
    /// # Errors
    /// When the folder or mountinfo cannot be read.
    pub fn forget_gone(&self) -> io::Result<()> {
        self.files.forget_gone()
    }

    /// Waits until nobody else, in this process or another one, compares or writes records, and keeps them from it until the answer
    /// is dropped. The folder itself is locked, which takes no room on its disk.
    ///
    /// # Errors
    /// When the folder cannot be opened, or the other process does not let go in time (`TimedOut`).
    pub async fn lock(&self) -> Result<(FileLock, OwnedMutexGuard<GivenUp>), NodeError> {
        self.lock_within(LOCK_BOUND).await
    }

    async fn lock_within(
        &self,
        bound: Duration,
    ) -> Result<(FileLock, OwnedMutexGuard<GivenUp>), NodeError> {
        let asked = Instant::now();
        let mut turn = Arc::clone(&self.turn).lock_owned().await;
        // Who has given up meanwhile has waited for this one too: they do not wait one after the other.
        let end = match *turn {
            Some(given_up) if given_up >= asked => given_up,
            _ => Instant::now() + bound,
        };
        loop {
            // No thread waits for the other process.
            match self.try_lock(self.files.folder.clone()).await {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                locked => return Ok((locked.map_err(record_error)?, turn)),
            }
            if Instant::now() >= end {
                *turn = Some(end);
                return Err(record_error(io::ErrorKind::TimedOut.into()));
            }
            sleep(LOCK_PAUSE).await;
        }
    }

    /// Says to other calls, and other processes, that what the record of `target` tells of is being taken away, until the
    /// answer is dropped. It is a lock on the record's file: a node whose disk is full must be able to let go of its volumes.
    /// Nothing where there is no record, or another process takes it away too.
    pub async fn hold(&self, target: &Path) -> Result<Option<FileLock>, NodeError> {
        match self.try_lock(self.files.path(target)).await {
            Err(error) if is_nothing(&error) || error.kind() == io::ErrorKind::WouldBlock => {
                Ok(None)
            }
            locked => locked.map(Some).map_err(record_error),
        }
    }

    /// Whether somebody holds the record of `target`.
    pub async fn is_held(&self, target: &Path) -> Result<bool, NodeError> {
        let path = self.files.path(target);
        // The lock is gone when this ends: it would keep a hold from being had.
        let looking =
            move |_: &RecordFiles| match lock(&path, FlockOperation::NonBlockingLockShared)
                .map(drop)
            {
                Err(error) if is_nothing(&error) => Ok(false),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(true),
                looked => looked.map(|()| false),
            };
        self.on_disk(looking).await
    }

    /// Locks a file of the work folder, unless somebody else has (`WouldBlock`).
    async fn try_lock(&self, path: PathBuf) -> io::Result<FileLock> {
        let thread = self.thread.clone();
        let locking = move || {
            let file = Some(lock(&path, FlockOperation::NonBlockingLockExclusive)?);
            Ok(FileLock { file, thread })
        };
        self.thread.run(locking).await
    }

    /// The record of a target. A damaged one is logged and counts for none: then the mount has to prove whose it is, as where the
    /// work folder was lost.
    ///
    /// # Errors
    /// When it exists and cannot be read.
    pub async fn get(&self, target: &Path) -> Result<Option<PublishRecord>, NodeError> {
        let target = target.to_owned();
        self.on_disk(move |files| files.get(&target)).await
    }

    /// All records. One that is damaged or cannot be read is logged and skipped.
    pub async fn all(&self) -> Result<Vec<PublishRecord>, NodeError> {
        self.on_disk(RecordFiles::all).await
    }

    /// Writes a record, on disk when it returns.
    ///
    /// # Errors
    /// When it cannot be written; an older record is then unchanged. After `TimedOut` it may be written later, and before all that
    /// is asked for later.
    pub async fn put(&self, record: &PublishRecord) -> Result<(), NodeError> {
        let record = record.clone();
        self.on_disk(move |files| files.put(&record)).await
    }

    /// Removes the record of a target, if there is one. On a disk that has become read-only it stays.
    ///
    /// # Errors
    /// When it exists and cannot be removed. After `TimedOut` it may be removed later, as for [`PublishRecords::put`].
    pub async fn remove(&self, target: &Path) -> Result<(), NodeError> {
        let target = target.to_owned();
        self.on_disk(move |files| files.remove(&target)).await
    }

    async fn on_disk<T: Send + 'static>(
        &self,
        work: impl FnOnce(&RecordFiles) -> io::Result<T> + Send + 'static,
    ) -> Result<T, NodeError> {
        let files = self.files.clone();
        let done = self.thread.run(move || work(&files)).await;
        done.map_err(record_error)
    }
}

/// What befell the records.
pub fn record_error(error: io::Error) -> NodeError {
    NodeError::io("the records of publishes in the work folder", error)
}

#[expect(clippy::disallowed_methods, reason = "the disk's thread calls it")]
impl RecordFiles {
    fn get(&self, target: &Path) -> io::Result<Option<PublishRecord>> {
        let path = self.path(target);
        let read = self.sound(&path);
        let record = read.map_err(|error| named(&path, &error))?;
        Ok(record.filter(|record| record.target == target))
    }

    fn all(&self) -> io::Result<Vec<PublishRecord>> {
        let mut records = Vec::new();
        for entry in self.folder.read_dir()? {
            let path = entry?.path();
            if path.extension().is_none_or(|extension| extension != "json") {
                continue;
            }
            match self.sound(&path) {
                Ok(record) => records.extend(record),
                // It may be that of the volume which the caller asks about.
                Err(error) if is_want(&error) => return Err(named(&path, &error)),
                Err(error) => self.tell_of_damage(&path, &error),
            }
        }
        Ok(records)
    }

    /// The record in the file `path`, unless it is damaged.
    fn sound(&self, path: &Path) -> io::Result<Option<PublishRecord>> {
        let mut content = Vec::new();
        let read = open(path, OFlags::RDONLY).map_err(io::Error::from);
        match read.and_then(|mut file| file.read_to_end(&mut content)) {
            Ok(_) => {}
            Err(error) if is_nothing(&error) => return Ok(None),
            Err(error) if is_damage(&error) => {
                self.tell_of_damage(path, &error);
                return Ok(None);
            }
            Err(error) => return Err(error),
        };
        match serde_json::from_slice(&content) {
            Ok(record) => Ok(Some(record)),
            Err(error) => {
                self.tell_of_damage(path, &error.into());
                Ok(None)
            }
        }
    }

    fn tell_of_damage(&self, path: &Path, error: &io::Error) {
        let path = path.display().to_string();
        let fields = [("path", path.into()), ("error", error.to_string().into())];
        self.log
            .event(Level::Warn, "damaged record of a publish", &fields);
    }

    fn forget_gone(&self) -> io::Result<()> {
        // Another process that is at work has done the same when it started.
        let Ok(_lock) = lock(&self.folder, FlockOperation::NonBlockingLockExclusive) else {
            return Ok(());
        };
        let mounts = mountinfo::read(self.log)?;
        for record in self.all()? {
            let target = &record.target;
            // Only what is no mount may be looked at, and lies in none whose server may not answer.
            let gone = mountinfo::at(&mounts, target).is_empty()
                && !mountinfo::covering(&mounts, target).is_some_and(Mount::is_nfs)
                && target
                    .symlink_metadata()
                    .is_err_and(|error| is_nothing(&error));
            if gone {
                self.remove(target)?;
            }
        }
        Ok(())
    }

    fn put(&self, record: &PublishRecord) -> io::Result<()> {
        let path = self.path(&record.target);
        let temporary = path.with_extension("new");
        let mut file = new_file(&temporary).map_err(|error| named(&temporary, &error))?;
        let written = (|| {
            file.write_all(&serde_json::to_vec(record)?)?;
            file.sync_all()?;
            std::fs::rename(&temporary, &path)
        })();
        if written.is_err() {
            // On a full disk it would take room that others need.
            let _ = std::fs::remove_file(&temporary);
        }
        written.map_err(|error| named(&path, &error))?;
        File::open(&self.folder)?.sync_all()
    }

    fn remove(&self, target: &Path) -> io::Result<()> {
        let path = self.path(target);
        match std::fs::remove_file(&path) {
            Err(error) if is_nothing(&error) => Ok(()),
            // What is no file was no record, and whoever publishes there again is told of it.
            Err(error) if error.kind() == io::ErrorKind::IsADirectory => Ok(()),
            // A disk with an error keeps no volume: a record of what is gone is in nobody's way.
            Err(error) if error.kind() == io::ErrorKind::ReadOnlyFilesystem => Ok(()),
            removed => removed.map_err(|error| named(&path, &error)),
        }
    }

    fn path(&self, target: &Path) -> PathBuf {
        // Targets come from gRPC texts and canonical paths; what is not Unicode is told apart by the record itself.
        let name = encode_name(&target.to_string_lossy());
        self.folder.join(format!("{name}.json"))
    }
}

fn lock(path: &Path, how: FlockOperation) -> io::Result<File> {
    // Over NFS an exclusive lock needs a file that is open for writing. A folder's lock is this node's own, there too.
    let file = match open(path, OFlags::RDWR | OFlags::NOFOLLOW) {
        Err(Errno::ISDIR | Errno::ROFS | Errno::ACCESS | Errno::PERM) => {
            open(path, OFlags::RDONLY | OFlags::NOFOLLOW)
        }
        opened => opened,
    }?;
    rustix::fs::flock(&file, how)?;
    Ok(file)
}

fn is_nothing(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound
}

/// Whether something else is in the record's place, or its disk has lost it. Of a FIFO that is locked nothing can be read now.
fn is_damage(error: &io::Error) -> bool {
    let errno = Errno::from_io_error(error);
    matches!(
        errno,
        Some(Errno::ISDIR | Errno::AGAIN | Errno::IO | Errno::UCLEAN)
    )
}

/// Whether nothing is wrong with the record, which cannot be read for want of descriptors or memory.
fn is_want(error: &io::Error) -> bool {
    let errno = Errno::from_io_error(error);
    matches!(errno, Some(Errno::MFILE | Errno::NFILE | Errno::NOMEM))
}

/// An error of the record in the file `path`, with what to do.
fn named(path: &Path, error: &io::Error) -> io::Error {
    let remedy = match error.kind() {
        io::ErrorKind::IsADirectory => "; move it away",
        _ => "",
    };
    let problem = format!("{}: {error}{remedy}", path.display());
    io::Error::new(error.kind(), problem)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::corpus;
    use csi_nfs_store::export::Export;
    use csi_nfs_store::share::paths::sub_path::SubPath;
    use std::os::unix::fs::MetadataExt;

    fn record(volume: &str, target: &str) -> PublishRecord {
        PublishRecord {
            volume_id: volume.into(),
            target: PathBuf::from(target),
            arguments: Arguments {
                share: Export::parse("nas", "/srv").unwrap(),
                sub_dir: None,
                mode: "SINGLE_NODE_WRITER".into(),
                readonly: false,
                mount_options: vec!["hard".into()],
            },
            symlink: None,
            staging: None,
        }
    }

    fn open(work_dir: &Path) -> PublishRecords {
        let thread = DiskThread::default();
        PublishRecords::open(work_dir, "publishes", &thread, Log::off()).unwrap()
    }

    #[tokio::test]
    async fn records_outlive_their_writer() {
        let dir = tempfile::tempdir().unwrap();
        let long = format!("/{}", "a/".repeat(400));
        let records = open(dir.path());
        for target in ["/a", "/a/b", long.as_str()] {
            let _lock = records.lock().await.unwrap();
            records.put(&record("v", target)).await.unwrap();
        }
        records.put(&record("w", "/c")).await.unwrap();
        let again = open(dir.path());
        assert_eq!(again.all().await.unwrap().len(), 4);
        assert_eq!(
            again.get(Path::new("/a/b")).await.unwrap().unwrap(),
            record("v", "/a/b")
        );
        assert_eq!(again.get(Path::new("/b")).await.unwrap(), None);
        again.remove(Path::new("/a")).await.unwrap();
        again.remove(Path::new("/a")).await.unwrap();
        assert_eq!(again.all().await.unwrap().len(), 3);
        let mode = dir.path().join("publishes").metadata().unwrap().mode();
        assert_eq!(mode & 0o777, 0o700);
    }

    #[tokio::test]
    async fn those_who_wait_for_another_process_give_up_together() {
        let dir = tempfile::tempdir().unwrap();
        let records = open(dir.path());
        let how = FlockOperation::NonBlockingLockExclusive;
        let other = lock(&dir.path().join("publishes"), how).unwrap();
        let turn = Arc::clone(&records.turn).lock_owned().await;
        let in_turn = [Duration::ZERO, Duration::from_secs(3600)];
        let [mut first, mut second] = in_turn.map(|bound| Box::pin(records.lock_within(bound)));
        for waiting in [&mut first, &mut second] {
            let mut context = std::task::Context::from_waker(std::task::Waker::noop());
            assert!(waiting.as_mut().poll(&mut context).is_pending());
        }
        drop(turn);
        for gave_up in [first.await, second.await] {
            let error = gave_up.unwrap_err().to_string();
            assert!(error.contains("work folder"), "{error}");
        }
        drop(other);
        records.lock().await.unwrap();
    }

    /// A record with every field, and one with as few as can be.
    fn of_the_formats() -> [PublishRecord; 2] {
        let whole = PublishRecord {
            volume_id: "nas/srv#0123456789abcdefghijklmno0.r57n10c25d0vpids.n7vpngkb6itntiqn"
                .into(),
            target: "/var/lib/kubelet/pods/1/a b".into(),
            arguments: Arguments {
                share: Export::parse("fe80::1", "/srv/a b").unwrap(),
                sub_dir: Some(SubPath::parse("team/web").unwrap()),
                mode: "MULTI_NODE_READER_ONLY".into(),
                readonly: true,
                mount_options: vec!["hard".into(), "vers=4.2".into()],
            },
            symlink: Some("/run/csi-nfs/1".into()),
            staging: Some("/var/lib/kubelet/plugins/1".into()),
        };
        [
            whole,
            record(
                "home#0123456789abcdefghijklmno0.r57n10c25d0vpids.n7vpngkb6itntiqn",
                "/t",
            ),
        ]
    }

    #[tokio::test]
    async fn formats_of_publishes_are_as_in_the_newest_version_and_all_are_read() {
        let dir = tempfile::tempdir().unwrap();
        for record in of_the_formats() {
            open(dir.path()).put(&record).await.unwrap();
        }
        corpus::holds("publishes", corpus::read(&dir.path().join("publishes")));
        for (version, folder) in corpus::versions("publishes") {
            let dir = tempfile::tempdir().unwrap();
            let records = open(dir.path());
            corpus::copy(&folder, &dir.path().join("publishes"));
            assert_eq!(records.all().await.unwrap().len(), of_the_formats().len());
            for record in of_the_formats() {
                let found = records.get(&record.target).await.unwrap();
                assert_eq!(found, Some(record), "{version}");
            }
        }
    }

    #[tokio::test]
    async fn what_is_gone_is_forgotten() {
        let dir = tempfile::tempdir().unwrap();
        let here = dir.path().join("here");
        std::fs::create_dir(&here).unwrap();
        let records = open(dir.path());
        for target in ["/nonexistent/target", "/proc", here.to_str().unwrap()] {
            records.put(&record("v", target)).await.unwrap();
        }
        records.forget_gone().unwrap();
        let mut left: Vec<_> = records
            .all()
            .await
            .unwrap()
            .into_iter()
            .map(|record| record.target)
            .collect();
        left.sort();
        assert_eq!(left, [PathBuf::from("/proc"), here]);
    }

    #[tokio::test]
    async fn a_damaged_record_hides_no_other() {
        let dir = tempfile::tempdir().unwrap();
        let records = open(dir.path());
        records.put(&record("v", "/a")).await.unwrap();
        std::fs::write(dir.path().join("publishes/x.json"), "{").unwrap();
        assert_eq!(records.all().await.unwrap().len(), 1);
    }

    #[test]
    fn a_record_that_cannot_be_read_for_want_of_descriptors_is_not_taken_for_none() {
        for (errno, want) in [
            (Errno::MFILE, true),
            (Errno::NFILE, true),
            (Errno::NOMEM, true),
            (Errno::LOOP, false),
            (Errno::ACCESS, false),
        ] {
            assert_eq!(is_want(&errno.into()), want, "{errno}");
        }
    }
}
