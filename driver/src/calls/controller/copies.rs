//! The copies that run in this process, and the failures that no caller was there to hear. Must not know what is copied.

use super::error::ControllerError;
use super::outcome::OperationKey;
use crate::calls::operations::Operation;
use csi_nfs_store::files::admission::ExtraThreads;
use csi_nfs_store::files::copying::Progress;
use csi_proto::lock::lock;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

/// How long a failure is kept for the retry.
const KEEP: Duration = Duration::from_secs(600);
/// How many failures are kept.
const KEPT: usize = 256;

/// A copy in these tables: whether it is for a volume or a snapshot, and for which.
pub(super) type CopyKey = (&'static str, OperationKey);

struct UnheardFailure {
    operation: Operation,
    error: ControllerError,
    since: Instant,
}

/// The copies of this process.
#[derive(Default)]
pub(super) struct Copies {
    running: Mutex<Vec<Weak<Progress>>>,
    /// Whether the process ends.
    ending: AtomicBool,
    failures: Mutex<HashMap<CopyKey, UnheardFailure>>,
}

impl Copies {
    /// Begins one, which counts for as long as somebody has its progress.
    pub(super) fn begin(&self, threads: ExtraThreads) -> Arc<Progress> {
        let progress = Arc::new(Progress::with_threads(threads));
        let mut running = lock(&self.running);
        if self.ending.load(Ordering::SeqCst) {
            progress.stop();
        }
        running.retain(|it| it.strong_count() > 0);
        running.push(Arc::downgrade(&progress));
        progress
    }

    /// Ends all copies soon, and those that come.
    pub(super) fn stop_all(&self) {
        let running = lock(&self.running);
        self.ending.store(true, Ordering::SeqCst);
        for progress in running.iter().filter_map(Weak::upgrade) {
            progress.stop();
        }
    }

    /// How many copies run or wait for their turn.
    pub(super) fn count(&self) -> usize {
        let running = lock(&self.running);
        running.iter().filter(|it| it.strong_count() > 0).count()
    }

    /// Keeps a failure for the retry, which would otherwise begin anew and never hear of it.
    pub(super) fn keep_failure(&self, of: CopyKey, operation: Operation, error: &ControllerError) {
        let mut failures = lock(&self.failures);
        failures.retain(|_, failure| failure.since.elapsed() < KEEP);
        if failures.len() < KEPT {
            let failure = UnheardFailure {
                operation,
                error: error.clone(),
                since: Instant::now(),
            };
            failures.insert(of, failure);
        }
    }

    /// The failure of an equal call that nobody has heard of yet; it is told once.
    pub(super) fn take_failure(
        &self,
        of: &CopyKey,
        operation: &Operation,
    ) -> Option<ControllerError> {
        let failure = lock(&self.failures).remove(of)?;
        let fits = failure.operation == *operation && failure.since.elapsed() < KEEP;
        fits.then_some(failure.error)
    }
}
