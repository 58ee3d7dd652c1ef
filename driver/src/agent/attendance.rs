//! The attendance of an agent on one share: it waits until the share is there, announces itself, and from then on takes up what
//! appears. Owns when that is looked for; what is done about it is a controller's upkeep.
//!
//! A share without records is left without: a folder may be empty because its disk is not mounted, and a controller knows
//! better whether it has seen the share before.

use super::watch::{Appeared, Watch};
use crate::calls::controller::Controller;
use crate::calls::controller::options::Options;
use crate::calls::controller::sizes::WALK;
use crate::calls::export::Export;
use crate::process::log::{Level, Log};
use crate::share::agents::Presence;
use crate::share::attempt::heartbeat::BEAT;
use crate::share::database::{Expect, Share};
use crate::share::limits;
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
            let obstacle = match self.begin().await {
                Ok((presence, watch)) => self.serve(presence, watch).await,
                Err(obstacle) => obstacle,
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

    /// Does `work` with the share, which has to be the one that was there before.
    async fn with_share<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Share) -> Result<T, crate::share::error::ShareError> + Send + 'static,
    ) -> Result<T, Obstacle> {
        let shares = &self.controller.shares;
        let expect = shares.expect_or(&self.export, Expect::Initialised);
        let done = shares.with_share(&self.export, &Options::Own, expect, work);
        done.await.map_err(|error| error.to_string())
    }

    /// Announces this process. The first use of the share takes up what is there.
    async fn begin(&mut self) -> Result<(Presence, Watch), Obstacle> {
        let watch = Watch::new().map_err(|error| error.to_string())?;
        let watching = watch.watching();
        let announce = move |share: &Share| {
            limits::prepare(share)?;
            watching.add(share)?;
            Presence::announce(share)
        };
        let presence = self.with_share(announce).await?;
        self.event(
            Level::Info,
            "attended",
            &presence.capabilities().to_string(),
        );
        self.told.clear();
        Ok((presence, watch))
    }

    /// Takes up what appears, until the presence or the share is gone.
    async fn serve(&self, presence: Presence, watch: Watch) -> Obstacle {
        let presence = Arc::new(Mutex::new(presence));
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
                    if let Err(obstacle) = self.look_again(&presence, &watch).await {
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
    /// exported otherwise.
    async fn look_again(
        &self,
        presence: &Arc<Mutex<Presence>>,
        watch: &Watch,
    ) -> Result<(), Obstacle> {
        let (watching, presence) = (watch.watching(), Arc::clone(presence));
        let look = move |share: &Share| {
            limits::prepare(share)?;
            watching.add(share)?;
            let mut presence = lock(&presence);
            let is_new = presence.renew(share)?;
            Ok(is_new.then(|| presence.capabilities().to_string()))
        };
        if let Some(can) = self.with_share(look).await? {
            self.event(Level::Info, "attended", &can);
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
        let Appeared {
            volumes,
            snapshots,
            requests,
            trash: _,
            missed: _,
        } = appeared;
        let (shares, export) = (Arc::clone(&self.controller.shares), self.export.clone());
        let background = Arc::clone(&shares);
        let compare_now = Arc::clone(compare_now);
        background.spawn(async move {
            let records = (volumes, snapshots);
            if shares.take_up_appeared(&export, records, requests).await {
                compare_now.notify_one();
            }
            drop(turn);
        });
    }
}

/// Says that this process lives, in a thread that may block.
async fn beat(presence: &Arc<Mutex<Presence>>) -> io::Result<bool> {
    let presence = Arc::clone(presence);
    let beat = spawn_blocking(move || lock(&presence).beat());
    beat.await.map_err(io::Error::other)?
}
