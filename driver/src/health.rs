//! Checks that this instance can work: its work folder, the folders of local shares, and the kernel's NFS client. Nothing here asks an
//! NFS server, whose end must not end its drivers. Must not know who asks.

use crate::config::Config;
use crate::disk_thread::DiskThread;
use crate::mount::helper::Helpers;
use crate::mount::task::{FailureKind, Task};
use rustix::fs::{Access, access};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How long asking the kernel may take; loading the module of its NFS client is part of it.
const KERNEL_BOUND: Duration = Duration::from_secs(10);

/// The health of one instance. Cheap to clone; the clones are one.
#[derive(Clone, Debug)]
pub struct Health {
    config: Arc<Config>,
    helpers: Helpers,
    /// Looks at folders.
    thread: DiskThread,
    /// Whether it was found that this process may mount NFS.
    may_mount: Arc<AtomicBool>,
}

impl Health {
    /// That of the instance which `config` describes.
    pub fn new(config: Arc<Config>, helpers: Helpers) -> Self {
        Self {
            config,
            helpers,
            thread: DiskThread::default(),
            may_mount: Arc::default(),
        }
    }

    /// Why this instance cannot work. Nothing here asks an NFS server, or waits for work on shares.
    pub async fn obstacle(&self) -> Option<String> {
        let config = Arc::clone(&self.config);
        let looked = self.thread.run(move || Ok(obstacle_in_folders(&config)));
        match looked.await {
            Ok(None) => {}
            Ok(obstacle) => return obstacle,
            Err(error) => {
                return Some(format!(
                    "the work folder, or the folder of a local share: {error}: is it there?"
                ));
            }
        }
        // What this process may do, and the kernel has, it keeps.
        if self.config.symlink_fallback || self.may_mount.load(Ordering::Relaxed) {
            return None;
        }
        match self.helpers.run(&Task::TryNfsClient, KERNEL_BOUND).await {
            Ok(_) => {
                self.may_mount.store(true, Ordering::Relaxed);
                None
            }
            // Local shares need neither client nor, for the controller, a mount.
            Err(error) if error.kind() == Some(FailureKind::NoNfsClient) => self
                .config
                .local_shares
                .is_empty()
                .then(|| error.to_string()),
            Err(error) if error.kind() == Some(FailureKind::NotPermitted) => {
                let needed = self.config.mode.node() || self.config.local_shares.is_empty();
                needed.then(|| error.to_string())
            }
            Err(error) => Some(error.to_string()),
        }
    }
}

/// Why the work folder or a local share cannot be used.
#[expect(clippy::disallowed_methods, reason = "the disk's thread calls it")]
fn obstacle_in_folders(config: &Config) -> Option<String> {
    // A name of its own for each probe: several drivers may have one work folder by mistake.
    match tempfile_in(&config.work_dir) {
        Ok(()) => {}
        // To restart does not help, and would interrupt what frees a full disk: unpublishing.
        Err(error) if is_full(&error) => {}
        Err(error) => {
            let folder = config.work_dir.display();
            return Some(format!(
                "the work folder {folder} cannot be written: {error}"
            ));
        }
    }
    for share in &config.local_shares {
        let (folder, export) = (share.path.display(), &share.export);
        if !share.path.is_dir() {
            return Some(format!("{folder}, the folder of {export}, does not exist"));
        }
        if config.mode.controller()
            && let Err(error) = access(&share.path, Access::WRITE_OK)
        {
            return Some(format!(
                "{folder}, the folder of {export}, cannot be written, so no volumes can be made: {error}"
            ));
        }
    }
    None
}

fn is_full(error: &io::Error) -> bool {
    use io::ErrorKind::{QuotaExceeded, StorageFull};
    matches!(error.kind(), StorageFull | QuotaExceeded)
}

/// Whether a file can be made in `folder`; it is gone afterwards.
#[expect(clippy::disallowed_methods, reason = "the disk's thread calls it")]
fn tempfile_in(folder: &std::path::Path) -> io::Result<()> {
    use rustix::fs::{Mode, OFlags};
    static COUNT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
    let count = COUNT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let path = folder.join(format!(".probe-{}-{count}", std::process::id()));
    let how = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    drop(rustix::fs::open(&path, how, Mode::RUSR | Mode::WUSR)?);
    std::fs::remove_file(&path)
}
