//! Two controllers of one share that are killed at random, six workers who go on all the same, and a model that must agree
//! with the share in the end.
//!
//! A seed draws what is done; when things happen is the machine's choice, so a seed leads to the same calls and not to the
//! same moments. A failure shows the seed, the history of the volume or snapshot that it is about, and the ends of both logs.

mod asking;
mod content;
mod controllers;
mod model;
mod worker;

use crate::support::calls::{self, Calls, Map};
use crate::support::dice::Dice;
use crate::support::disk::{Disk, Expected};
use crate::support::driver::Driver;
use crate::support::storm::Extent;
use controllers::Controllers;
use model::Violation;
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;
use worker::Worker;

const WORKERS: u64 = 6;

/// A torture.
pub struct Torture<'a> {
    /// The parameters of volumes.
    pub parameters: Map,
    /// The share's folder on disk.
    pub folder: &'a Path,
    /// Until when the controllers are killed: its work is the steps of the workers.
    pub extent: Extent,
    /// The seed, unless `CSI_TEST_SEED` says otherwise.
    pub seed: u64,
}

/// What was done.
#[derive(Clone, Copy, Debug)]
pub struct Done {
    /// Calls to the controllers.
    pub calls: usize,
    /// Those of them that a death has cut off.
    pub cut_off: usize,
    /// Deaths.
    pub kills: usize,
    /// Times that a controller was stopped for so long that it was taken for dead.
    pub stops: usize,
    /// Times that a copy was compared with what it is of.
    pub copies: usize,
    /// Times that a list was compared with the model.
    pub lists: usize,
}

impl Torture<'_> {
    /// Tortures two controllers of the share.
    pub fn of(mut self, drivers: [Driver; 2]) -> Done {
        if let Ok(seed) = std::env::var("CSI_TEST_SEED") {
            self.seed = seed.parse().expect("CSI_TEST_SEED: a number");
        }
        let disk = Disk::with_foreign_files(self.folder);
        let mut controllers = Controllers::new(drivers);
        let endpoints = controllers.endpoints();
        let worker =
            |number| Worker::new(number, self.seed, &endpoints, &self.parameters, self.folder);
        let mut workers: Vec<Worker<'_>> = (0..WORKERS).map(worker).collect();
        let run = || -> Result<(), Violation> {
            self.kill_and_work(&mut controllers, &mut workers)?;
            at_once(&mut workers, Worker::settle)?;
            compare(&controllers, &workers)?;
            let there =
                |snapshots: bool| workers.iter().flat_map(move |it| it.model.there(snapshots));
            disk.settles_with(&Expected {
                folders: there(false).map(|(name, _)| name).collect(),
                volumes: there(false).count(),
                snapshots: there(true).count(),
            });
            at_once(&mut workers, Worker::clear)?;
            disk.settles_with(&Expected::default());
            // What was being written is swept by a later start.
            disk.age_drafts();
            controllers.restart();
            disk.has_no_drafts();
            Ok(())
        };
        let ended = catch_unwind(AssertUnwindSafe(run));
        let what = match ended {
            Ok(Ok(())) => controllers.panic.clone(),
            Ok(Err(Violation {
                name,
                what,
                history,
            })) => Some(format!(
                "{name}: {what}\n--- the history of {name}\n{history}"
            )),
            Err(panic) => {
                let last: String = workers.iter().map(|it| it.model.last()).collect();
                eprintln!("seed {}\n{last}{}", self.seed, controllers.logs());
                std::panic::resume_unwind(panic)
            }
        };
        let done = self.done(&controllers, &workers);
        if let Some(what) = what {
            let logs = controllers.logs();
            panic!("seed {}: {what}\n{logs}\n{done:?}", self.seed);
        }
        eprintln!("seed {}: {done:?}", self.seed);
        done
    }

    fn kill_and_work(
        &self,
        controllers: &mut Controllers,
        workers: &mut [Worker<'_>],
    ) -> Result<(), Violation> {
        let (extent, steps) = (self.extent, AtomicUsize::new(0));
        let failed = AtomicBool::new(false);
        let (done, work) = mpsc::channel();
        std::thread::scope(|threads| {
            let dice = Dice::of(self.seed, WORKERS);
            threads.spawn(move || controllers.kill_during(&work, dice, extent));
            let (failed, steps, done) = (&failed, &steps, done);
            at_once(workers, |worker| {
                let over = || {
                    let before = steps.fetch_add(1, Ordering::Relaxed);
                    extent.is_over(before) || failed.load(Ordering::Relaxed)
                };
                let result = worker.work(over, &done);
                failed.fetch_or(result.is_err(), Ordering::Relaxed);
                result
            })
        })
    }

    fn done(&self, controllers: &Controllers, workers: &[Worker<'_>]) -> Done {
        let mut done = Done {
            calls: 0,
            cut_off: 0,
            kills: controllers.kills,
            stops: controllers.stops,
            copies: 0,
            lists: 0,
        };
        for worker in workers {
            done.calls += worker.tally.calls;
            done.cut_off += worker.tally.cut_off;
            done.copies += worker.tally.copies;
            done.lists += worker.tally.lists;
        }
        done
    }
}

/// Lets all workers do something, each in a thread of its own. The first violation.
fn at_once<'a>(
    workers: &mut [Worker<'a>],
    what: impl Fn(&mut Worker<'a>) -> Result<(), Violation> + Sync,
) -> Result<(), Violation> {
    std::thread::scope(|threads| {
        let what = &what;
        let threads: Vec<_> = workers
            .iter_mut()
            .map(|worker| threads.spawn(move || what(worker)))
            .collect();
        let ended = threads.into_iter().map(|thread| {
            let panicked = |panic| std::panic::resume_unwind(panic);
            thread.join().unwrap_or_else(panicked)
        });
        ended.collect::<Vec<_>>().into_iter().collect()
    })
}

/// Compares the lists of both controllers with what the workers know.
fn compare(controllers: &Controllers, workers: &[Worker<'_>]) -> Result<(), Violation> {
    let wrong = |what: String| Violation {
        name: "lists".to_owned(),
        what,
        history: String::new(),
    };
    let there = |snapshots: bool| -> BTreeSet<String> {
        let all = workers.iter().flat_map(|it| it.model.there(snapshots));
        all.map(|(_, id)| id).collect()
    };
    for endpoint in controllers.endpoints() {
        let (volumes, snapshots) = calls::runtime().block_on(async {
            let calls = Calls::to(&endpoint);
            (calls.volumes().await, calls.snapshots().await)
        });
        let failed = |status| wrong(format!("{endpoint}: {status}"));
        let (volumes, snapshots) = (volumes.map_err(failed)?, snapshots.map_err(failed)?);
        if let Some((volume, trouble)) = volumes.iter().find(|(_, trouble)| trouble.is_some()) {
            return Err(wrong(format!("{}: {trouble:?}", volume.volume_id)));
        }
        if let Some(snapshot) = snapshots.iter().find(|it| !it.ready_to_use) {
            return Err(wrong(format!("{} is not ready", snapshot.snapshot_id)));
        }
        let volumes: BTreeSet<String> = volumes.into_iter().map(|(it, _)| it.volume_id).collect();
        let snapshots: BTreeSet<String> = snapshots.into_iter().map(|it| it.snapshot_id).collect();
        for (listed, known) in [(volumes, there(false)), (snapshots, there(true))] {
            if listed != known {
                return Err(wrong(format!(
                    "{endpoint}: {listed:?} instead of {known:?}"
                )));
            }
        }
    }
    Ok(())
}
