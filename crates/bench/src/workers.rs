//! The workers of a load: each does one cycle after the other and counts it.
//!
//! When a cycle begins stands in `pace.rs`, what a step does in `side.rs`.

use super::pace::{Limits, Pace};
use super::side::{ItemNumbers, Side};
use super::taking_back;
use super::tally::Tally;
use super::template::Knowledge;
use csi_error::{Error, OrError};
use csi_proto::lock;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Instant;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::task::JoinSet;
use tonic::Code;

impl Side {
    /// Makes the fixtures that the given number of workers needs.
    ///
    /// # Errors
    /// The first call that fails.
    pub(crate) async fn set_up(&self, workers: usize) -> Result<(), Error> {
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
        let pace = Pace::start(limits).or_because("there is no timer to be had")?;
        let pace = Arc::new(pace);
        *lock(running) = Some(Arc::clone(&pace));
        lock(tally).start(pace.started());
        let mut all = JoinSet::new();
        // When the workers have ended, whoever cleans up behind them stops: what is left is taken back at the end.
        let mut behind = JoinSet::new();
        for worker in 0..workers {
            let (side, pace, tally) = (Arc::clone(self), Arc::clone(&pace), Arc::clone(tally));
            let (failed, left) = unbounded_channel();
            behind.spawn(taking_back::behind(Arc::clone(self), left));
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
        failed: &UnboundedSender<ItemNumbers>,
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

    /// Does one cycle; returns the items that a failed cycle of several steps has left. What a single RPC makes stays until
    /// the end: it is what the load is for, and other calls may ask for the same.
    async fn cycle(
        &self,
        worker: usize,
        number: u64,
        due: Instant,
        known: &mut Knowledge,
        tally: &Mutex<Tally>,
    ) -> ItemNumbers {
        let mut since = due;
        let mut open = ItemNumbers::new();
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
            return ItemNumbers::new();
        }
        lock(tally).cycle(due, succeeded);
        if self.keeps {
            return ItemNumbers::new();
        }
        let made = self.made();
        open.retain(|number| made.get(*number).is_some());
        open
    }
}
