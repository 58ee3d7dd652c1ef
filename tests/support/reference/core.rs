//! What all services share: options, state, locks and the pace of changes. Knows no RPC.

use super::state::State;
use super::{Defect, Options};
use std::collections::{BTreeMap, HashSet};
use std::future::Future;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tonic::Status;

/// The driver as each service sees it. Clones are the same driver.
#[derive(Clone)]
pub(super) struct Core(Arc<Shared>);

struct Shared {
    options: Options,
    state: Arc<Mutex<State>>,
    /// What calls are working on: `volume ID`, `name NAME` and the like.
    busy: Mutex<HashSet<String>>,
    /// Where the data of volumes and snapshots is.
    data: PathBuf,
    calls: AtomicU32,
}

/// A handler that panics leaves nothing half-done behind that lock: changes are made in one go.
pub(super) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Core {
    pub(super) fn new(options: Options, state: Arc<Mutex<State>>, data: PathBuf) -> Self {
        Self(Arc::new(Shared {
            options,
            state,
            busy: Mutex::default(),
            data,
            calls: AtomicU32::new(0),
        }))
    }

    pub(super) fn options(&self) -> &Options {
        &self.0.options
    }

    /// Whether the driver makes this mistake.
    pub(super) fn has(&self, defect: Defect) -> bool {
        self.0.options.defect == Some(defect)
    }

    /// The state. Never held across an await.
    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        locked(&self.0.state)
    }

    /// Where the data of the volume or snapshot with this id is.
    pub(super) fn data(&self, id: &str) -> PathBuf {
        self.0.data.join(id)
    }

    /// Whether the driver does otherwise what the specification leaves open.
    pub(super) fn is_at_liberty(&self) -> bool {
        self.0.options.at_liberty
    }

    /// Where the driver takes that liberty: refuses a call that only asks, while another one asks about the same thing.
    pub(super) async fn one_at_a_time(&self, id: &str) -> Result<(), Status> {
        match self.is_at_liberty() {
            true => {
                let asks = async {
                    self.pace().await;
                    Ok(())
                };
                self.alone([format!("questions about {id}")], asks).await
            }
            false => Ok(()),
        }
    }

    /// What is advertised, which in a driver with that defect is not the same every time.
    pub(super) fn advertised<T: Clone>(&self, all: &[T], changes: Defect) -> Vec<T> {
        let mut all = all.to_vec();
        if self.has(changes) && self.count() % 2 == 1 {
            all.pop();
        }
        if self.is_at_liberty() && !all.is_empty() {
            let first = self.count() as usize % all.len();
            all.rotate_left(first);
        }
        all
    }

    /// A number that is another one in every call.
    pub(super) fn count(&self) -> u32 {
        self.0.calls.fetch_add(1, Ordering::Relaxed)
    }

    /// Takes the time that a change takes.
    pub(super) async fn pace(&self) {
        tokio::time::sleep(self.0.options.pace).await;
    }

    /// Does `work` while no other call works on any of `what`; such a call is ABORTED.
    pub(super) async fn alone<T>(
        &self,
        what: impl IntoIterator<Item = String>,
        work: impl Future<Output = Result<T, Status>>,
    ) -> Result<T, Status> {
        let what: Vec<String> = what.into_iter().collect();
        let taken = {
            let mut busy = locked(&self.0.busy);
            let taken = what.iter().find(|what| busy.contains(*what)).cloned();
            if taken.is_none() {
                busy.extend(what.iter().cloned());
            }
            taken
        };
        if let Some(taken) = taken {
            if self.has(Defect::ParallelCallsHang) {
                std::future::pending::<()>().await;
            }
            return Err(Status::aborted(format!(
                "another call works on {taken}: try again"
            )));
        }
        let mut held = Held {
            core: self,
            what,
            finished: false,
        };
        let result = work.await;
        held.finished = true;
        result
    }

    /// Refuses calls without the right secrets.
    pub(super) fn authenticate(&self, secrets: &BTreeMap<String, String>) -> Result<(), Status> {
        let wanted = &self.0.options.secrets;
        if !wanted.is_empty() && wanted != secrets {
            if self.has(Defect::MissingSecretsAreInternal) {
                return Err(Status::internal("login failed"));
            }
            return Err(Status::unauthenticated("the secrets are not right"));
        }
        Ok(())
    }

    /// An error as the driver words it.
    pub(super) fn worded(&self, status: Status, secrets: &BTreeMap<String, String>) -> Status {
        if self.has(Defect::ErrorsEchoSecrets) {
            let message = format!("{} (secrets {secrets:?})", status.message());
            return Status::new(status.code(), message);
        }
        if self.has(Defect::ErrorsWithoutMessages) {
            return Status::new(status.code(), "");
        }
        status
    }
}

/// Gives the lock back, also when the handler is dropped because its caller has gone.
struct Held<'a> {
    core: &'a Core,
    what: Vec<String>,
    finished: bool,
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        if self.finished || !self.core.has(Defect::CancelledCallKeepsLock) {
            let mut busy = locked(&self.core.0.busy);
            for what in &self.what {
                busy.remove(what);
            }
        }
    }
}
