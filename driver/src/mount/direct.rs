//! Tasks that ask no server, done by a thread of this process: to start a process takes longer than they do. Owns that thread and
//! its bound; must not decide which tasks ask no server.

use crate::mount::helper::{HelperError, Helpers};
use crate::mount::perform::perform;
use crate::mount::task::{Done, Task};
use crate::process::log::{Level, Log};
use crate::process::privileges;
use csi_proto::lock::lock;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};

/// What a thread does now.
type Step = Arc<Mutex<String>>;

impl Helpers {
    /// Does `task` for at most `bound`: in a helper, or in a thread of this process where no server is asked. `guard` is dropped
    /// when it has really ended.
    ///
    /// # Errors
    /// When the task fails or does not end in time.
    pub async fn run_where_it_fits(
        &self,
        task: Task,
        asks_no_server: bool,
        bound: Duration,
        guard: impl Send + 'static,
    ) -> Result<Done, HelperError> {
        match asks_no_server {
            true => self.run_here(task, bound, guard).await,
            false => self.run_holding(&task, bound, guard).await,
        }
    }

    /// Does `task`, which asks no server, in a thread of this process, for at most `bound`. The thread goes on after that, and
    /// drops `guard` when it ends.
    ///
    /// # Errors
    /// When the task fails or does not end in time.
    async fn run_here(
        &self,
        task: Task,
        bound: Duration,
        guard: impl Send + 'static,
    ) -> Result<Done, HelperError> {
        let deadline = Instant::now() + bound;
        let step: Step = Arc::new(Mutex::new("waiting for other tasks to end".to_owned()));
        let turn = timeout_at(deadline, Arc::clone(&self.threads).acquire_owned()).await;
        let hangs = || HelperError::Hangs {
            step: lock(&step).clone(),
            after: bound,
        };
        let turn = turn.map_err(|_| hangs())?;
        let (told, ended) = oneshot::channel();
        let (now, log) = (Arc::clone(&step), self.log);
        // Of its own: it changes its privileges and its mount namespace, and nobody else may get it after that.
        let thread = std::thread::Builder::new().name("mounting".to_owned());
        let started = thread.spawn(move || {
            let done = perform_here(&task, &now, log);
            drop((guard, turn));
            // Whoever does not wait any more does not need to know.
            let _ = told.send(done);
        });
        started.map_err(HelperError::Start)?;
        match timeout_at(deadline, ended).await {
            Ok(Ok(done)) => done,
            Ok(Err(_)) => Err(HelperError::Lost {
                step: lock(&step).clone(),
                detail: "its thread has panicked".to_owned(),
            }),
            Err(_) => Err(hangs()),
        }
    }
}

fn perform_here(task: &Task, now: &Step, log: Log) -> Result<Done, HelperError> {
    // Capabilities are a thread's: the others of this process stay without those that mounting takes.
    privileges::keep_for_mounting().map_err(HelperError::Start)?;
    let mut say = |step: String| {
        log.event(Level::Debug, "task", &[("step", step.clone().into())]);
        *lock(now) = step;
    };
    perform(task, &mut say).map_err(HelperError::Failed)
}
