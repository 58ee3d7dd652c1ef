//! One driver under load: carries out steps, notes what they make, learns from replies, and counts.
//!
//! Owns the loop of a worker. What a step is stands in `scenario.rs`, when one begins in `pace.rs`.

use super::cleanup;
use super::client::{Client, Outcome};
use super::flags::BenchFlags;
use super::made::{Key, MAKERS, Made, contents, lessons};
use super::pace::{Limits, Pace};
use super::scenario::{Scenario, Step};
use super::tally::Tally;
use super::template::{Filling, Knowledge};
use crate::error::Error;
use crate::rpc::{self, facts::Thing};
use bytes::Bytes;
use csi_proto::schema::Method;
use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::task::JoinSet;
use tonic::Code;

/// A driver, what is done to it, and what is there because of that.
pub struct Side {
    /// Where the calls of Node and Identity go.
    pub node: Arc<Client>,
    /// Where the others go; the same client unless another endpoint was named.
    pub controller: Arc<Client>,
    /// What is done.
    pub scenario: Scenario,
    /// What names all that is made.
    pub run: String,
    /// The seed of `{random}`.
    pub seed: u64,
    /// Whether what failed cycles have made stays.
    keeps: bool,
    /// What is there because of this run.
    pub made: Mutex<Made>,
    /// Staging folders of this run.
    pub folders: Mutex<BTreeSet<PathBuf>>,
    /// What the setup told each worker.
    knowledge: Mutex<Vec<Knowledge>>,
    next: AtomicU64,
}

/// What a cycle has made so far and not taken back.
pub type Open = Vec<Key>;

impl Side {
    /// A side that has done nothing yet.
    pub fn new(
        node: Arc<Client>,
        controller: Arc<Client>,
        scenario: Scenario,
        run: &str,
        flags: &BenchFlags,
    ) -> Self {
        Self {
            node,
            controller,
            scenario,
            run: run.to_owned(),
            seed: flags.seed,
            keeps: flags.keep,
            made: Mutex::default(),
            folders: Mutex::default(),
            knowledge: Mutex::default(),
            next: AtomicU64::new(0),
        }
    }

    /// Which client serves an RPC.
    pub fn client(&self, method: &Method) -> &Client {
        match rpc::is_at_node(method) {
            true => &self.node,
            false => &self.controller,
        }
    }

    /// What is there because of this run.
    pub fn made(&self) -> MutexGuard<'_, Made> {
        lock(&self.made)
    }

    /// What has to be there before, for so many workers.
    ///
    /// # Errors
    /// The first call that fails.
    pub async fn set_up(&self, workers: usize) -> Result<(), Error> {
        for worker in 0..workers {
            let mut known = Knowledge::default();
            for step in &self.scenario.setup {
                let outcome = self
                    .step(step, worker as u64, worker, &mut known, &mut Vec::new())
                    .await;
                if outcome.code != Code::Ok {
                    return Err(Error::rpc(outcome.code, outcome.message)
                        .doing(format!("bench: {} before the load", step.method.name)));
                }
            }
            lock(&self.knowledge).push(known);
        }
        Ok(())
    }

    /// One stretch: so many workers go on until the limits end it. Counts into `tally`.
    ///
    /// # Errors
    /// When the system has no timer left.
    pub async fn stretch(
        self: &Arc<Self>,
        workers: usize,
        limits: Limits,
        tally: &Arc<Mutex<Tally>>,
        running: &Mutex<Option<Arc<Pace>>>,
    ) -> Result<(), Error> {
        let pace = Pace::start(limits)
            .map_err(|error| Error::because("there is no timer to be had", &error))?;
        let pace = Arc::new(pace);
        *lock(running) = Some(Arc::clone(&pace));
        lock(tally).start(pace.started());
        let mut all = JoinSet::new();
        // When the workers have ended, whoever cleans up behind them stops: what is left is taken back at the end.
        let mut behind = JoinSet::new();
        for worker in 0..workers {
            let (side, pace, tally) = (Arc::clone(self), Arc::clone(&pace), Arc::clone(tally));
            let (failed, left) = unbounded_channel();
            behind.spawn(cleanup::behind(Arc::clone(self), worker, left));
            all.spawn(async move { side.work(worker, &pace, &tally, &failed).await });
        }
        while all.join_next().await.is_some() {}
        behind.shutdown().await;
        lock(tally).unsent = pace.overdue();
        Ok(())
    }

    async fn work(
        &self,
        worker: usize,
        pace: &Pace,
        tally: &Mutex<Tally>,
        failed: &UnboundedSender<Open>,
    ) {
        let base = lock(&self.knowledge)
            .get(worker)
            .cloned()
            .unwrap_or_default();
        while let Some(due) = pace.next().await {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            let mut known = base.clone();
            let left = self.cycle(worker, number, due, &mut known, tally).await;
            if !left.is_empty() {
                // Nobody listens any more only when the load is being stopped.
                let _ = failed.send(left);
            }
        }
    }

    /// One cycle; returns what a failed one of several steps has left. What a single RPC makes stays until the end: it is
    /// what the load is for, and other calls may ask for the same.
    async fn cycle(
        &self,
        worker: usize,
        number: u64,
        due: Instant,
        known: &mut Knowledge,
        tally: &Mutex<Tally>,
    ) -> Open {
        let mut since = due;
        let mut open = Open::new();
        let mut succeeded = true;
        for (index, step) in self.scenario.cycle.iter().enumerate() {
            let outcome = self.step(step, number, worker, known, &mut open).await;
            lock(tally).call(index, since, &outcome);
            if outcome.code != Code::Ok {
                succeeded = false;
                break;
            }
            since = Instant::now();
        }
        if self.scenario.cycle.len() < 2 {
            return Open::new();
        }
        lock(tally).cycle(due, succeeded);
        match self.keeps {
            true => Open::new(),
            false => open,
        }
    }

    async fn step(
        &self,
        step: &Step,
        number: u64,
        worker: usize,
        known: &mut Knowledge,
        open: &mut Open,
    ) -> Outcome {
        let request = step.request(number).fill(&Filling {
            number,
            worker,
            run: &self.run,
            seed: self.seed,
            known,
        });
        let key = step.makes.filter(|_| step.undone);
        let key = key.map(|maker| (maker, request.clone()));
        if let Some(key) = &key {
            self.made().asked(key.clone());
            self.make_staging_folder(step.method, &key.1);
        }
        let outcome = self
            .client(step.method)
            .call(worker, step.method, request)
            .await;
        if let Some(key) = key {
            self.made().answered(&key, outcome.code, &outcome.reply);
            open.push(key);
        }
        if outcome.code == Code::Ok {
            for (what, path) in lessons(step.method) {
                known.set(*what, contents(step.method.response, &outcome.reply, path));
            }
            if let Some(maker) = step.undoes
                && let Some(at) = open.iter().rposition(|(of, _)| *of == maker)
            {
                let key = open.remove(at);
                self.gone(&key);
            }
        }
        outcome
    }

    /// Notes that a thing is no more.
    pub fn gone(&self, key: &Key) {
        self.made().gone(key);
        let method = MAKERS[key.0].method;
        if let Some(folder) = staging_folder(method, &key.1)
            && lock(&self.folders).remove(&folder)
        {
            // Only when it is empty: something may still be mounted below it.
            let _ = fs::remove_dir(folder);
        }
    }

    /// Staging paths are made by who calls. Where the driver sees other folders this does no harm.
    fn make_staging_folder(&self, method: &'static Method, request: &Bytes) {
        if let Some(folder) = staging_folder(method, request)
            && fs::create_dir(&folder).is_ok()
        {
            lock(&self.folders).insert(folder);
        }
    }
}

fn staging_folder(method: &'static Method, request: &Bytes) -> Option<PathBuf> {
    if rpc::making(method)?.thing != Thing::StagedVolume {
        return None;
    }
    let path = contents(method.request, request, "staging_target_path");
    let path = std::str::from_utf8(path.first()?).ok()?;
    Some(PathBuf::from(path))
}

/// A value that tasks share. What one of them left half-done when it panicked is still the best there is.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
