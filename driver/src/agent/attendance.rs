//! The attendance of an agent on one share: it waits until the share is there, announces itself, and from then on takes up what
//! appears. Owns when that is looked for; what is done about it is a controller's upkeep.
//!
//! A share without records is left without: a folder may be empty because its disk is not mounted, and a controller knows
//! better whether it has seen the share before.

use super::watch::Watch;
use crate::calls::controller::Controller;
use crate::calls::controller::options::Options;
use crate::calls::controller::sizes::WALK;
use crate::process::log::{Level, Log};
use csi_nfs_store::export::Export;
use csi_nfs_store::share::agents::Presence;
use csi_nfs_store::share::attempt::heartbeat::BEAT;
use csi_nfs_store::share::database::{Expect, Share};
use csi_nfs_store::share::limits;
use csi_nfs_store::share::recovery::Appeared;
use csi_proto::lock::lock;
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::{MissedTickBehavior, interval};

/// Until a share is looked for again that is not there.
const ABSENT: Duration = Duration::from_secs(2);

/// Until a walk is begun that was called for while another one went on.
const AGAIN: Duration = Duration::from_secs(1);

/// One share that is attended.
pub(super) struct ShareSession {
    controller: Controller,
    export: Export,
    log: Log,
    /// Why the share cannot be attended, as was told last.
    told: String,
}

/// Why an attendance ends, which begins anew then.
type Obstacle = String;

impl ShareSession {
    pub(super) fn new(controller: Controller, export: Export, log: Log) -> Self {
        Self {
            controller,
            export,
            log,
            told: String::new(),
        }
    }

    /// Attends the share for as long as it is polled.
    pub(super) async fn go_on(mut self) {
        loop {
            let obstacle = match Watch::new() {
                Ok(watch) => self.serve(Arc::new(watch)).await,
                Err(error) => error.to_string(),
            };
            if obstacle != self.told {
                self.event(Level::Warn, "not attended", &obstacle);
                self.told = obstacle;
            }
            tokio::time::sleep(ABSENT).await;
        }
    }

    fn event(&self, level: Level, what: &str, detail: &str) {
        let fields = [
            ("export", self.export.to_string().into()),
            ("detail", detail.into()),
        ];
        self.log.event(level, what, &fields);
    }

    /// Takes up what appears, until the presence or the share is gone.
    async fn serve(&mut self, watch: Arc<Watch>) -> Obstacle {
        let presence = Arc::default();
        let mut beats = interval(BEAT);
        beats.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // They find what no event tells of: copies whose holders have died, and what came while nobody watched.
        let mut walks = interval(WALK);
        let mut walk: Option<JoinHandle<bool>> = None;
        let mut told = match signal(SignalKind::hangup()) {
            Ok(told) => told,
            Err(error) => return error.to_string(),
        };
        let compare_now = Arc::new(Notify::new());
        // One batch at a time: what appears meanwhile makes up the next, for which the share is opened once.
        let batches = Arc::new(Semaphore::new(1));
        let mut batch = Appeared::default();
        loop {
            tokio::select! {
                appeared = watch.appeared() => match appeared {
                    Ok(appeared) => {
                        if appeared.missed {
                            walks.reset_immediately();
                        }
                        if appeared.trash {
                            self.controller.shares.purge_soon(&self.export);
                        }
                        batch.join(appeared);
                    }
                    Err(error) => return error.to_string(),
                },
                turn = Arc::clone(&batches).acquire_owned(), if !batch.is_empty() => {
                    self.take_up(std::mem::take(&mut batch), turn.ok(), &compare_now);
                }
                _ = beats.tick() => match beat(&presence).await {
                    Ok(true) => {}
                    Ok(false) => return "somebody has taken this agent for dead".to_owned(),
                    Err(error) => self.event(Level::Warn, "no sign of life", &error.to_string()),
                },
                _ = told.recv() => walks.reset_immediately(),
                () = compare_now.notified() => walks.reset_immediately(),
                _ = walks.tick() => {
                    if let Err(obstacle) = self.look(&presence, &watch).await {
                        return obstacle;
                    }
                    // One at a time: a large share may take its time.
                    if walk.as_ref().is_some_and(|walk| !walk.is_finished()) {
                        walks.reset_after(AGAIN);
                    } else {
                        let shares = Arc::clone(&self.controller.shares);
                        let export = self.export.clone();
                        walk = Some(tokio::spawn(async move {
                            shares.keep_limits(&export).await;
                            shares.take_up(&export).await
                        }));
                    }
                }
            }
        }
    }

    /// Watches what there is to watch now, and says what this process can now: quotas may be switched on and off, and the share
    /// exported otherwise. The first time it announces itself.
    async fn look(
        &mut self,
        presence: &Arc<Mutex<Option<Presence>>>,
        watch: &Arc<Watch>,
    ) -> Result<(), Obstacle> {
        let (watch, presence) = (Arc::clone(watch), Arc::clone(presence));
        let look = move |share: &Share| {
            limits::prepare(share)?;
            watch.add(share)?;
            let mut presence = lock(&presence);
            let is_new = match &mut *presence {
                Some(there) => there.renew(share)?,
                none => {
                    *none = Some(Presence::announce(share)?);
                    true
                }
            };
            let can = presence.as_ref().map(|it| it.capabilities().to_string());
            Ok(can.filter(|_| is_new))
        };
        let shares = &self.controller.shares;
        let expect = shares.expect_or(&self.export, Expect::Initialised);
        // The share has to be the one that was there before.
        let looked = shares.with_share(&self.export, &Options::Own, expect, look);
        if let Some(can) = looked.await.map_err(|error| error.to_string())? {
            self.event(Level::Info, "attended", &can);
            self.told.clear();
        }
        Ok(())
    }

    /// Takes up what has appeared, and ends its `turn` then. What is refused is a reason to compare now.
    fn take_up(
        &self,
        appeared: Appeared,
        turn: Option<OwnedSemaphorePermit>,
        compare_now: &Arc<Notify>,
    ) {
        let (shares, export) = (Arc::clone(&self.controller.shares), self.export.clone());
        let compare_now = Arc::clone(compare_now);
        self.controller.shares.spawn(async move {
            if shares.take_up_appeared(&export, appeared).await {
                compare_now.notify_one();
            }
            drop(turn);
        });
    }
}

/// Says that this process lives, in a thread that may block.
async fn beat(presence: &Arc<Mutex<Option<Presence>>>) -> io::Result<bool> {
    let presence = Arc::clone(presence);
    let beat = spawn_blocking(move || lock(&presence).as_ref().map_or(Ok(true), Presence::beat));
    beat.await.map_err(io::Error::other)?
}
