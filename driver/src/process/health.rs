//! Checks that this instance can work: its socket, its work folder, and the kernel's NFS client; and, apart from that, the folders of
//! local shares. Nothing here asks an NFS server: the end of one share must not end what serves the others. Must not know who asks.

use crate::mount::helper::{HelperError, Helpers};
#[cfg(any(debug_assertions, test))]
use crate::mount::task::Failure;
use crate::mount::task::{FailureKind, Task};
use crate::process::config::Config;
use crate::process::config::LocalShare;
use crate::process::disk_thread::{DiskThread, DiskThreads};
use crate::process::log::{Level, Log};
use csi_proto::lock::lock;
use rustix::fs::{Access, access};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use thiserror::Error;

/// How long asking the kernel may take; loading the module of its NFS client is part of it.
const KERNEL_BOUND: Duration = Duration::from_secs(10);

/// How often a node without an NFS client is asked again. Each time the kernel tries to load the module.
const LOOK: Duration = Duration::from_secs(5);

/// After how many looks it is said again that the client is missing: once a minute.
const LOOKS_A_LINE: u64 = 12;

/// Why an instance cannot work.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum Obstacle {
    /// Its folders or its privileges are not as they should be, which another start may find mended.
    #[error("{0}")]
    Fault(String),
    /// The kernel of its node has no NFS client, which no other start brings: the instance waits for it.
    #[error("{0}")]
    NoNfsClient(String),
}

/// The health of one instance. Cheap to clone; the clones are one.
#[derive(Clone, Debug)]
pub struct Health {
    pub(crate) config: Arc<Config>,
    helpers: Helpers,
    /// Looks at the work folder.
    thread: DiskThread,
    /// Look at the folders of local shares.
    share_threads: Arc<DiskThreads>,
    /// Whether it was found that this process may mount NFS.
    may_mount: Arc<AtomicBool>,
    /// The obstacle by the last answer of the kernel that came in time.
    last: Arc<Mutex<Option<Obstacle>>>,
    /// Why nobody can call this instance.
    unheard: Arc<Mutex<Option<String>>>,
}

impl Health {
    /// That of the instance which `config` describes.
    pub fn new(config: Arc<Config>, helpers: Helpers) -> Self {
        Self {
            config,
            helpers,
            thread: DiskThread::default(),
            share_threads: Arc::default(),
            may_mount: Arc::default(),
            last: Arc::default(),
            unheard: Arc::default(),
        }
    }

    /// Notes why the driver's socket is lost; `None` when it is there again.
    pub fn note_socket(&self, lost: Option<String>) {
        *lock(&self.unheard) = lost;
    }

    /// Why this instance cannot work. Nothing here asks an NFS server, looks at a local share, or waits for work on shares.
    pub async fn obstacle(&self) -> Option<Obstacle> {
        if let Some(why) = lock(&self.unheard).clone() {
            return Some(Obstacle::Fault(why));
        }
        let config = Arc::clone(&self.config);
        let looked = self
            .thread
            .run(move || Ok(obstacle_in_work_folder(&config)));
        match looked.await {
            Ok(None) => self.obstacle_in_kernel().await,
            Ok(obstacle) => obstacle.map(Obstacle::Fault),
            Err(error) => {
                let folder = self.config.work_dir.display();
                Some(Obstacle::Fault(format!(
                    "the work folder {folder}: {error}: is it there?"
                )))
            }
        }
    }

    /// Why local shares cannot be used, each by its folder. This instance serves all others meanwhile, and no other start brings a
    /// disk back.
    pub async fn lost_shares(&self) -> Option<String> {
        let looks: Vec<_> = (0..self.config.local_shares.len())
            .map(|index| {
                let (config, threads) = (Arc::clone(&self.config), Arc::clone(&self.share_threads));
                tokio::spawn(async move { lost_share(&threads, &config, index).await })
            })
            .collect();
        let mut lost = Vec::new();
        for look in looks {
            lost.extend(look.await.ok().flatten());
        }
        (!lost.is_empty()).then(|| lost.join("; "))
    }

    /// What this instance has to wait for before it can be of use to its node: the kernel's NFS client.
    pub async fn missing_client(&self) -> Option<String> {
        // Local shares need none, and no helper to ask.
        if !self.config.mode.node() || !self.config.local_shares.is_empty() {
            return None;
        }
        match self.obstacle_in_kernel().await {
            Some(Obstacle::NoNfsClient(why)) => Some(why),
            _ => None,
        }
    }

    /// Waits until the kernel has what [`Health::missing_client`] has missed. Meanwhile `log` is told once a minute.
    pub async fn client_found(self, log: Log) {
        let mut looks = 0_u64;
        loop {
            let obstacle = self.obstacle_in_kernel().await;
            if self.may_mount.load(Ordering::Relaxed) {
                break;
            }
            if let Some(obstacle) = obstacle.filter(|_| looks.is_multiple_of(LOOKS_A_LINE)) {
                let fields = [("error", obstacle.to_string().into())];
                log.event(Level::Error, "waiting for an NFS client", &fields);
            }
            looks += 1;
            tokio::time::sleep(LOOK).await;
        }
        log.event(Level::Info, "the kernel has an NFS client now", &[]);
    }

    async fn obstacle_in_kernel(&self) -> Option<Obstacle> {
        // What this process may do, and the kernel has, it keeps.
        if self.config.symlink_fallback || self.may_mount.load(Ordering::Relaxed) {
            return None;
        }
        let Err(error) = self.try_client().await else {
            self.may_mount.store(true, Ordering::Relaxed);
            return None;
        };
        let has_local_share = !self.config.local_shares.is_empty();
        let mut last = lock(&self.last);
        *last = obstacle_of(
            &error,
            last.take(),
            self.config.mode.node(),
            has_local_share,
        );
        last.clone()
    }

    /// Asks the kernel. In a debug build a test answers, where `CSI_NFS_CLIENT` names a file: the client is there when the file is.
    async fn try_client(&self) -> Result<(), HelperError> {
        #[cfg(debug_assertions)]
        if let Some(file) = std::env::var_os("CSI_NFS_CLIENT") {
            return match tokio::fs::try_exists(file).await {
                Ok(true) => Ok(()),
                _ => Err(HelperError::Failed(Failure::no_nfs_client())),
            };
        }
        let asked = self.helpers.run(&Task::TryNfsClient, KERNEL_BOUND).await;
        asked.map(drop)
    }
}

/// The obstacle for an instance that asked the kernel in vain whether it can mount, and had the obstacle `last` before.
fn obstacle_of(
    error: &HelperError,
    last: Option<Obstacle>,
    is_node: bool,
    has_local_share: bool,
) -> Option<Obstacle> {
    let why = error.to_string();
    match (error, error.kind()) {
        // The machine is busy, or a module takes long to load. Whoever restarted the driver for that would make it worse.
        (HelperError::Deadline { .. }, _) => last,
        // Local shares need neither client nor, for the controller, a mount.
        (_, Some(FailureKind::NoNfsClient)) if has_local_share => None,
        (_, Some(FailureKind::NoNfsClient)) if is_node => Some(Obstacle::NoNfsClient(why)),
        (_, Some(FailureKind::NotPermitted)) if !is_node && has_local_share => None,
        _ => Some(Obstacle::Fault(why)),
    }
}

/// Why the work folder cannot be used.
fn obstacle_in_work_folder(config: &Config) -> Option<String> {
    // A name of its own for each probe: several drivers may have one work folder by mistake.
    match tempfile_in(&config.work_dir) {
        Ok(()) => None,
        // To restart does not help, and would interrupt what frees a full disk: unpublishing.
        Err(error) if is_full(&error) => None,
        Err(error) => {
            let folder = config.work_dir.display();
            Some(format!(
                "the work folder {folder} cannot be written: {error}"
            ))
        }
    }
}

/// Why the local share with this `index` cannot be used.
async fn lost_share(threads: &DiskThreads, config: &Arc<Config>, index: usize) -> Option<String> {
    let share = config.local_shares.get(index)?;
    let (of, writes) = (share.clone(), config.mode.controller());
    let looked = threads.run(&share.path, move || Ok(obstacle_in_share(&of, writes)));
    let (folder, export) = (share.path.display(), &share.export);
    looked.await.unwrap_or_else(|error| {
        Some(format!(
            "{folder}, the folder of {export}: {error}: is it there?"
        ))
    })
}

/// Why a local share cannot be used, by who `writes` there or by others.
#[expect(clippy::disallowed_methods, reason = "a disk's thread calls it")]
fn obstacle_in_share(share: &LocalShare, writes: bool) -> Option<String> {
    let (folder, export) = (share.path.display(), &share.export);
    if !share.path.is_dir() {
        return Some(format!("{folder}, the folder of {export}, does not exist"));
    }
    let error = access(&share.path, Access::WRITE_OK)
        .err()
        .filter(|_| writes)?;
    Some(format!(
        "{folder}, the folder of {export}, cannot be written, so no volumes can be made: {error}"
    ))
}

fn is_full(error: &io::Error) -> bool {
    use io::ErrorKind::{QuotaExceeded, StorageFull};
    matches!(error.kind(), StorageFull | QuotaExceeded)
}

/// Whether a file can be made in `folder`; it is gone afterwards.
#[expect(clippy::disallowed_methods, reason = "the disk's thread calls it")]
fn tempfile_in(folder: &std::path::Path) -> io::Result<()> {
    static COUNT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
    let count = COUNT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let path = folder.join(format!(".probe-{}-{count}", std::process::id()));
    drop(std::fs::File::create_new(&path)?);
    std::fs::remove_file(&path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_busy_machine_is_no_obstacle() {
        let failed = |kind| {
            let detail = "why".to_owned();
            let errno = 0;
            HelperError::Failed(Failure {
                kind,
                errno,
                detail,
            })
        };
        let missing = || failed(FailureKind::NoNfsClient);
        let forbidden = || failed(FailureKind::NotPermitted);
        let late = |stuck| HelperError::Deadline {
            step: "starting".into(),
            after: KERNEL_BOUND,
            stuck,
        };
        let died = || HelperError::Lost {
            step: "starting".into(),
            detail: "it was killed".into(),
        };
        let fault = |error: &HelperError| Some(Obstacle::Fault(error.to_string()));
        let waits = |error: &HelperError| Some(Obstacle::NoNfsClient(error.to_string()));
        let none = |_: &HelperError| None;
        for is_node in [true, false] {
            for (error, with_local, without) in [
                (
                    late(None),
                    none as fn(&HelperError) -> _,
                    none as fn(&HelperError) -> _,
                ),
                (late(Some(7)), none, none),
                (died(), fault, fault),
                (missing(), none, if is_node { waits } else { fault }),
                (forbidden(), if is_node { fault } else { none }, fault),
            ] {
                let of = |has_local_share| obstacle_of(&error, None, is_node, has_local_share);
                assert_eq!(of(true), with_local(&error), "{is_node} {error}");
                assert_eq!(of(false), without(&error), "{is_node} {error}");
            }
            // What was known before holds.
            let known = waits(&missing());
            assert_eq!(
                obstacle_of(&late(None), known.clone(), is_node, false),
                known
            );
        }
    }
}
