//! Questions to file systems that may not answer. Owns the bound on how many helpers ask one server at a time: a dead one
//! holds so many and no more, however often its volumes are asked about. The same for threads that bind folders of one disk.

use crate::mount::helper::{HelperError, Helpers};
use crate::mount::mountinfo::Mount;
use crate::mount::task::{Task, Usage};
use csi_proto::lock::lock;
use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;
use thiserror::Error;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout_at};

/// Helpers that ask one server at a time, those among them that hang in the kernel.
const AT_A_TIME: usize = 4;

/// Why there is no answer.
#[derive(Debug, Error)]
pub enum NoAnswer {
    /// The helper got none.
    #[error(transparent)]
    Helper(#[from] HelperError),
    /// The helpers that may ask the server do, and none came back in time.
    #[error("no answer after {after:?}: {AT_A_TIME} earlier questions to {server} wait for theirs")]
    Crowded {
        /// Whom they ask.
        server: String,
        /// The deadline.
        after: Duration,
    },
    /// It answered without a usage, or not at all: a defect.
    #[error("the helper process gave no usage")]
    NoUsage,
}

impl NoAnswer {
    /// Whether the file system has answered that the folder is one that the server does not know any more.
    pub fn is_stale(&self) -> bool {
        matches!(self, Self::Helper(error) if error.is_stale())
    }
}

/// Who is asked now. Cheap to copy.
#[derive(Clone, Debug)]
pub struct Questions {
    helpers: Helpers,
    servers: Arc<Mutex<HashMap<String, Weak<Semaphore>>>>,
}

impl Questions {
    /// Questions by `helpers`.
    pub fn new(helpers: Helpers) -> Self {
        Self {
            helpers,
            servers: Arc::default(),
        }
    }

    /// How full the file system at `path` is, which lies in `mount`; waits for that for at most `bound`. A question goes on when its
    /// caller gives up, and counts until its helper has ended; it takes none where it `asks_no_server`.
    ///
    /// # Errors
    /// When there is no answer in time, or it is an error.
    pub async fn usage(
        &self,
        path: &Path,
        mount: Option<&Mount>,
        asks_no_server: bool,
        bound: Duration,
    ) -> Result<Usage, NoAnswer> {
        let deadline = Instant::now() + bound;
        let server = mount.map_or_else(String::new, server_of);
        let Some(permit) = self.turn(&server, deadline).await else {
            return Err(NoAnswer::Crowded {
                server,
                after: bound,
            });
        };
        let left = deadline.saturating_duration_since(Instant::now());
        let (helpers, path) = (self.helpers.clone(), path.to_owned());
        let asking = tokio::spawn(async move {
            let task = Task::Usage { path };
            let asking = helpers.run_where_it_fits(task, asks_no_server, left, permit);
            asking.await
        });
        let done = asking.await.map_err(|_| NoAnswer::NoUsage)??;
        done.usage.ok_or(NoAnswer::NoUsage)
    }

    /// The right to one more task that may hang on `server`, which is waited for until `deadline`.
    pub(super) async fn turn(
        &self,
        server: &str,
        deadline: Instant,
    ) -> Option<OwnedSemaphorePermit> {
        let turn = self.of(server, AT_A_TIME).acquire_owned();
        timeout_at(deadline, turn).await.ok()?.ok()
    }

    /// The right to mount at `target`; nothing while an earlier mount there goes on.
    pub(super) fn turn_at(&self, target: &Path) -> Option<OwnedSemaphorePermit> {
        // No server's name and no device begins as paths do.
        let turn = self.of(&target.to_string_lossy(), 1);
        turn.try_acquire_owned().ok()
    }

    fn of(&self, server: &str, most: usize) -> Arc<Semaphore> {
        let mut servers = lock(&self.servers);
        servers.retain(|_, semaphore| semaphore.strong_count() > 0);
        if let Some(semaphore) = servers.get(server).and_then(Weak::upgrade) {
            return semaphore;
        }
        let semaphore = Arc::new(Semaphore::new(most));
        servers.insert(server.to_owned(), Arc::downgrade(&semaphore));
        semaphore
    }
}

/// Who answers for a mount: its server, or the device of a local file system.
pub(super) fn server_of(mount: &Mount) -> String {
    let source = mount.source.to_string_lossy();
    match source.split_once(":/") {
        Some((server, _)) if mount.is_nfs() => server.to_owned(),
        _ => mount.device.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::log::Log;

    #[tokio::test]
    async fn one_server_is_asked_by_so_many_and_no_more() {
        let questions = Questions::new(Helpers::new(Log::off()));
        let held: Vec<_> = (0..AT_A_TIME)
            .map(|_| questions.of("nas", AT_A_TIME).try_acquire_owned().unwrap())
            .collect();
        assert!(questions.of("nas", AT_A_TIME).try_acquire_owned().is_err());
        assert!(questions.of("other", AT_A_TIME).try_acquire_owned().is_ok());
        drop(held);
        assert!(questions.of("nas", AT_A_TIME).try_acquire_owned().is_ok());
        assert_eq!(questions.servers.lock().unwrap().len(), 1);
    }

    #[test]
    fn a_server_is_one_whatever_it_exports() {
        let mount = |fs_type: &str, source: &str| Mount {
            id: 2,
            parent: 1,
            device: "0:42".to_owned(),
            root: "/".into(),
            target: "/t".into(),
            read_only: false,
            flags: crate::mount::options::MountFlags::default(),
            fs_type: fs_type.into(),
            source: source.into(),
        };
        assert_eq!(server_of(&mount("nfs4", "nas:/a/b:/c")), "nas");
        assert_eq!(server_of(&mount("nfs", "[fe80::1]:/a")), "[fe80::1]");
        assert_eq!(server_of(&mount("ext4", "/dev/sda:/1")), "0:42");
    }
}
