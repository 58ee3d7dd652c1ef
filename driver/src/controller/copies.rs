//! Copies as work in the background: how many run at a time, how they are watched and stopped, and what becomes of a failure
//! that nobody was there to hear. Must not know what is copied.

use super::error::ControllerError;
use super::shares::{Shares, VolumeKey};
use crate::admission::Work;
use crate::export::Export;
use crate::operations::Operation;
use crate::share::copying::Progress;
use crate::share::database::{Expect, Share};
use crate::share::error::ShareError;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How often the progress of a copy is told.
const TELL: Duration = Duration::from_secs(10);
/// How often it is looked whether another controller has ended its copy.
const LOOK: Duration = Duration::from_secs(2);
/// How long a failure is kept for the retry.
const KEEP: Duration = Duration::from_secs(600);
/// How many failures are kept.
const KEPT: usize = 256;

/// What a copy is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Purpose {
    Volume,
    Snapshot,
}

type Key = (Purpose, VolumeKey);

struct Failure {
    operation: Operation,
    error: ControllerError,
    since: Instant,
}

/// The copies of this process.
#[derive(Default)]
pub(super) struct Copies {
    running: Mutex<HashMap<Key, Arc<Progress>>>,
    /// Whether the process ends.
    ending: AtomicBool,
    failures: Mutex<HashMap<Key, Failure>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Copies {
    /// Ends all copies soon, and those that come.
    pub(super) fn stop_all(&self) {
        let running = lock(&self.running);
        self.ending.store(true, Ordering::SeqCst);
        for progress in running.values() {
            progress.stop();
        }
    }

    /// Keeps a failure for the retry, which would otherwise begin anew and never hear of it.
    pub(super) fn keep_failure(
        &self,
        purpose: Purpose,
        key: &VolumeKey,
        operation: &Operation,
        error: &ControllerError,
    ) {
        let mut failures = lock(&self.failures);
        failures.retain(|_, failure| failure.since.elapsed() < KEEP);
        if failures.len() < KEPT {
            let failure = Failure {
                operation: operation.clone(),
                error: error.clone(),
                since: Instant::now(),
            };
            failures.insert((purpose, key.clone()), failure);
        }
    }

    /// The failure of an equal call that nobody has heard of yet; it is told once.
    pub(super) fn take_failure(
        &self,
        purpose: Purpose,
        key: &VolumeKey,
        operation: &Operation,
    ) -> Option<ControllerError> {
        let failure = lock(&self.failures).remove(&(purpose, key.clone()))?;
        let fits = failure.operation == *operation && failure.since.elapsed() < KEEP;
        fits.then_some(failure.error)
    }
}

impl Shares {
    /// Whether a copy that begins on `export` now has to wait for its turn.
    pub(super) fn copies_wait(&self, export: &Export) -> bool {
        (self.config.admission).would_wait(export.server(), Work::Copy)
    }

    /// Does `work`, which copies, when it is its turn, and again while another controller does the same: then it has no turn
    /// in between, so that others need not wait for that one. Its progress is
    /// told as notices about `what`.
    pub(super) async fn copy<T: Send + 'static>(
        self: &Arc<Self>,
        purpose: Purpose,
        key: &VolumeKey,
        (mount_options, expect): (&[String], Expect),
        what: String,
        work: impl Fn(&Share, &Progress) -> Result<T, ShareError> + Send + Sync + 'static,
    ) -> Result<T, ControllerError> {
        let threads = (self.config.admission).extra_threads(key.0.server(), Work::Copy);
        let progress = Arc::new(Progress::with_threads(threads));
        let _running = Running::begin(self, (purpose, key.clone()), Arc::clone(&progress));
        let work = Arc::new(work);
        let began = Instant::now();
        loop {
            let once = {
                let (work, progress) = (Arc::clone(&work), Arc::clone(&progress));
                let work = move |share: &Share| work(share, &progress);
                self.with_share_for(Work::Copy, &key.0, mount_options, expect, work)
            };
            let result = self.told(&key.0, &what, &progress, once).await;
            match &result {
                Err(ControllerError::Share { source, .. })
                    if matches!(**source, ShareError::CopiedElsewhere { .. })
                        && !progress.is_stopped() =>
                {
                    tokio::time::sleep(LOOK).await;
                    continue;
                }
                Ok(_) if progress.files() > 0 => (self.config.notice)(&format!(
                    "{}: {what}: copied {} entries, {} bytes, in {:.1?}",
                    key.0,
                    progress.files(),
                    progress.bytes(),
                    began.elapsed()
                )),
                Ok(_) => {}
                Err(error) => (self.config.notice)(&format!("{what}: not copied: {error}")),
            }
            return result;
        }
    }

    /// Waits for `work`, and tells how far it is now and then.
    async fn told<T>(
        &self,
        export: &Export,
        what: &str,
        progress: &Progress,
        work: impl Future<Output = T>,
    ) -> T {
        tokio::pin!(work);
        loop {
            match tokio::time::timeout(TELL, &mut work).await {
                Ok(result) => return result,
                // It waits for its turn, or for the server.
                Err(_) if progress.files() == 0 => {}
                Err(_) => (self.config.notice)(&format!(
                    "{export}: {what}: {} entries and {} bytes copied so far",
                    progress.files(),
                    progress.bytes()
                )),
            }
        }
    }
}

/// A copy among the running ones, for as long as it runs.
struct Running {
    shares: Arc<Shares>,
    key: Key,
}

impl Running {
    fn begin(shares: &Arc<Shares>, key: Key, progress: Arc<Progress>) -> Self {
        let mut running = lock(&shares.copies.running);
        if shares.copies.ending.load(Ordering::SeqCst) {
            progress.stop();
        }
        running.insert(key.clone(), progress);
        drop(running);
        Self {
            shares: Arc::clone(shares),
            key,
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        lock(&self.shares.copies.running).remove(&self.key);
    }
}
