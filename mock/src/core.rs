//! What all services share: options, state, locks and the pace of changes. Knows no RPC.

use crate::settings::{Rules, SettingsFile};
use crate::storage::{Held, Storage};
use crate::{Defect, Options};
use csi_proto::faults::Faults;
use csi_proto::lock::lock;
use std::collections::{BTreeMap, HashSet};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use tonic::Status;

/// The driver as each service sees it. Clones are the same driver.
#[derive(Clone)]
pub(crate) struct Core(Arc<Shared>);

struct Shared {
    rules: RwLock<Behaviour>,
    /// Where the rules come from while the driver runs.
    file: Option<Mutex<SettingsFile>>,
    storage: Storage,
    /// What calls are working on: `volume ID`, `name NAME` and the like.
    busy: Mutex<HashSet<String>>,
    calls: AtomicU32,
}

/// What the driver is to be now.
#[derive(Clone)]
struct Behaviour {
    options: Arc<Options>,
    faults: Arc<Faults>,
}

impl From<Rules> for Behaviour {
    fn from(rules: Rules) -> Self {
        Self {
            options: Arc::new(rules.options),
            faults: Arc::new(Faults::new(rules.faults)),
        }
    }
}

impl Core {
    pub(crate) fn new(rules: Rules, storage: Storage, file: Option<SettingsFile>) -> Self {
        Self(Arc::new(Shared {
            rules: RwLock::new(rules.into()),
            file: file.map(Mutex::new),
            storage,
            busy: Mutex::default(),
            calls: AtomicU32::new(0),
        }))
    }

    fn behaviour(&self) -> Behaviour {
        let rules = self.0.rules.read();
        rules.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Becomes what the file of the settings says, where that has changed. One that cannot be used changes nothing.
    pub(crate) fn look_at_settings(&self) {
        let Some(file) = &self.0.file else {
            return;
        };
        if let Some(rules) = lock(file).changed() {
            let mut now = self.0.rules.write().unwrap_or_else(PoisonError::into_inner);
            *now = rules.into();
        }
    }

    pub(crate) fn faults(&self) -> Arc<Faults> {
        self.behaviour().faults
    }

    pub(crate) fn storage(&self) -> &Storage {
        &self.0.storage
    }

    pub(crate) fn options(&self) -> Arc<Options> {
        self.behaviour().options
    }

    /// Whether the driver makes this mistake.
    pub(crate) fn has(&self, defect: Defect) -> bool {
        self.options().defect == Some(defect)
    }

    /// The state. Never held across an await.
    pub(crate) fn state(&self) -> Held<'_> {
        self.0.storage.state()
    }

    /// Where the data of the volume or snapshot with this id is.
    pub(crate) fn data(&self, id: &str) -> PathBuf {
        self.0.storage.data(id)
    }

    /// Whether the driver does otherwise what the specification leaves open.
    pub(crate) fn is_at_liberty(&self) -> bool {
        self.options().at_liberty
    }

    /// Where the driver takes that liberty: refuses a call that only asks, while another one asks about the same thing.
    pub(crate) async fn one_at_a_time(&self, id: &str) -> Result<(), Status> {
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
    pub(crate) fn advertised<T: Clone>(&self, all: &[T], changes: Defect) -> Vec<T> {
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
    pub(crate) fn count(&self) -> u32 {
        self.0.calls.fetch_add(1, Ordering::Relaxed)
    }

    /// Takes the time that a change takes.
    pub(crate) async fn pace(&self) {
        tokio::time::sleep(self.options().pace).await;
    }

    /// Does `work` while no other call works on any of `what`; such a call is ABORTED.
    pub(crate) async fn alone<T>(
        &self,
        what: impl IntoIterator<Item = String>,
        work: impl Future<Output = Result<T, Status>>,
    ) -> Result<T, Status> {
        let what: Vec<String> = what.into_iter().collect();
        let taken = {
            let mut busy = lock(&self.0.busy);
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
        let mut held = Alone {
            core: self,
            what,
            finished: false,
        };
        let result = work.await;
        held.finished = true;
        result
    }

    /// Takes locks and never gives them back.
    pub(crate) fn keep(&self, what: Option<String>) {
        lock(&self.0.busy).extend(what);
    }

    /// Refuses calls without the right secrets.
    pub(crate) fn authenticate(&self, secrets: &BTreeMap<String, String>) -> Result<(), Status> {
        let wanted = &self.options().secrets;
        if !wanted.is_empty() && wanted != secrets {
            if self.has(Defect::MissingSecretsAreInternal) {
                return Err(Status::internal("login failed"));
            }
            return Err(Status::unauthenticated("the secrets are not right"));
        }
        Ok(())
    }

    /// An error as the driver words it.
    pub(crate) fn worded(&self, status: Status, secrets: &BTreeMap<String, String>) -> Status {
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
struct Alone<'a> {
    core: &'a Core,
    what: Vec<String>,
    finished: bool,
}

impl Drop for Alone<'_> {
    fn drop(&mut self) {
        if self.finished || !self.core.has(Defect::CancelledCallKeepsLock) {
            let mut busy = lock(&self.core.0.busy);
            for what in &self.what {
                busy.remove(what);
            }
        }
    }
}
