//! What these tests start from: a folder of the export with volumes in it, and mounts of it. Every test has its own, and all
//! of it is gone in the end.

use crate::patience::Patience;
use csi_nfs_store::quota::ability::{self, FileSystem};
use csi_nfs_store::quota::ledger::Ledger;
use csi_nfs_store::quota::project;
use csi_nfs_store::quota::project_id::ProjectId;
use csi_sys::project_quota::{self, Amounts, Quota};
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use std::ffi::CString;
use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

pub const MIB: u64 = 1 << 20;

pub fn bytes(bytes: u64) -> Amounts {
    Amounts { bytes, inodes: 0 }
}

pub fn export() -> PathBuf {
    let export = std::env::var("EXPORT");
    export
        .expect("EXPORT is not set: start these tests with tests/run")
        .into()
}

/// The file system below the export.
pub fn file_system() -> FileSystem {
    let root = File::open(export()).unwrap();
    ability::of(&root, true).unwrap()
}

/// The disk, which tests share but those that fill it, count all that is on it, or export it otherwise.
static DISK: RwLock<()> = RwLock::new(());

/// What keeps the disk for a test.
enum Disk {
    Shared {
        _guard: RwLockReadGuard<'static, ()>,
    },
    Alone {
        _guard: RwLockWriteGuard<'static, ()>,
    },
}

/// A share with a ledger beside it.
pub struct Share {
    name: String,
    pub folder: PathBuf,
    pub records: PathBuf,
    pub ledger: Ledger,
    /// The last field: what this test has made is gone when another one gets the disk.
    _disk: Disk,
}

/// A volume of it: a project.
pub struct Volume {
    pub folder: PathBuf,
    pub id: ProjectId,
}

impl Share {
    /// A new share; `name` is the test's.
    pub fn new(name: &str) -> Self {
        let _guard = DISK.read().unwrap_or_else(PoisonError::into_inner);
        Self::on(name, Disk::Shared { _guard })
    }

    /// The same, with the disk for this test alone.
    pub fn alone(name: &str) -> Self {
        let _guard = DISK.write().unwrap_or_else(PoisonError::into_inner);
        Self::on(name, Disk::Alone { _guard })
    }

    fn on(name: &str, disk: Disk) -> Self {
        let folder = export().join(name);
        let records = folder.join("records");
        fs::create_dir_all(&records).unwrap();
        Self {
            name: name.to_owned(),
            ledger: Ledger::new(File::open(&records).unwrap().into()),
            folder,
            records,
            _disk: disk,
        }
    }

    /// Takes the ledger that is in its place now.
    pub fn reopen(&mut self) {
        self.ledger = Ledger::new(File::open(&self.records).unwrap().into());
    }

    /// The share as a descriptor.
    pub fn root(&self) -> File {
        File::open(&self.folder).unwrap()
    }

    /// A folder that anybody may fill.
    pub fn folder(&self, name: &str) -> PathBuf {
        let folder = self.folder.join(name);
        fs::create_dir(&folder).unwrap();
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).unwrap();
        folder
    }

    /// A new volume with these limits.
    pub fn volume(&self, name: &str, limits: Amounts) -> Volume {
        let folder = self.folder(name);
        let id = project::assign(&self.ledger, File::open(&folder).unwrap(), name, limits);
        Volume {
            id: id.unwrap(),
            folder,
        }
    }

    pub fn quota(&self, id: ProjectId) -> Quota {
        project::quota(self.root(), id).unwrap()
    }

    /// All projects on the file system that have a limit or usage, but 0.
    pub fn report(&self) -> Vec<Quota> {
        let root = self.root();
        let next = |id: u32| project_quota::next(&root, id).unwrap();
        std::iter::successors(next(1), |last| next(last.id + 1)).collect()
    }

    /// Waits until a project has this usage. What was unlinked is given back a moment later, by XFS and by a server that has just
    /// closed it, and nothing announces it.
    pub fn wait_for_usage(&self, id: ProjectId, wanted: impl Fn(Amounts) -> bool) {
        let mut patience = Patience::default();
        loop {
            let used = self.quota(id).used;
            if wanted(used) {
                return;
            }
            assert!(patience.lasts(), "{used:?}");
            std::thread::sleep(patience.pause());
        }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        if self.records.exists() {
            self.reopen();
        }
        // Limits of projects that are gone are nobody's.
        for id in self.ledger.entries().unwrap_or_default().0.keys() {
            let _ = project::lift_limits(self.root(), *id);
        }
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// A mount of a folder of the share, or of the share itself.
pub struct Mount(pub PathBuf);

impl Share {
    pub fn mount(&self, version: &str, path: &str) -> Mount {
        let target = tempfile::tempdir().unwrap().keep();
        let root = match version {
            "3" => std::env::var("EXPORT").unwrap(),
            _ => std::env::var("EXPORT_V4").unwrap(),
        };
        let root = root.trim_end_matches('/');
        let source = format!("127.0.0.1:{root}/{}/{path}", self.name);
        // As mount.nfs would say it to the kernel, of which it takes two programs.
        let more = match version {
            "3" => "nolock,mountaddr=127.0.0.1,mountproto=tcp",
            _ => "clientaddr=127.0.0.1",
        };
        let options = format!("vers={version},proto=tcp,addr=127.0.0.1,{more}");
        let options = CString::new(options).unwrap();
        mount(source, &target, "nfs", MountFlags::empty(), &*options).unwrap();
        Mount(target)
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        // Not by force: that ends the calls of all mounts of the file system, also those of other tests.
        let _ = unmount(&self.0, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW);
        let _ = fs::remove_dir(&self.0);
    }
}

/// What a mount shows as the size and as free, as df does.
pub fn shown(folder: &Path) -> (u64, u64) {
    let shown = rustix::fs::statvfs(folder).unwrap();
    let bytes = |blocks: u64| blocks * shown.f_frsize;
    (bytes(shown.f_blocks), bytes(shown.f_bavail))
}

/// Runs a command that must succeed, and returns what it prints.
pub fn run(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {text}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}
