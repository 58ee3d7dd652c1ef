//! Measures in the background the disk usage of volumes whose sizes are not enforced. Owns when that is done, how fast, and how it takes
//! turns with other work; what is counted, and who counts, is the share's business.
//!
//! One volume of a server is counted at a time, in parts. Each part waits for its turn as upkeep, and nobody holds a thread while
//! he rests. A server that does not answer has its own volumes wait, and no others.

use super::Controller;
use super::config::Pace;
use super::error::ControllerError;
use super::shares::Shares;
use csi_nfs_store::export::Export;
use csi_nfs_store::files::admission::Work;
use csi_nfs_store::share::database::Share;
use csi_nfs_store::share::measures::Round;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{MissedTickBehavior, interval, sleep};

/// How many records, files and folders are looked at in one go.
const PART: usize = 250;

impl Controller {
    /// Measures volumes in the background from now on, if it is to.
    pub fn measure(&self) {
        let Some(pace) = self.shares.config.measure.clone() else {
            return;
        };
        let shares = Arc::clone(&self.shares);
        self.shares.spawn(async move {
            let mut rounds = interval((pace.interval / 4).max(Duration::from_millis(1)));
            rounds.set_missed_tick_behavior(MissedTickBehavior::Delay);
            let mut servers = JoinSet::new();
            let mut last = BTreeMap::<String, AbortHandle>::new();
            while shares.unhurried(rounds.tick()).await.is_some() {
                while servers.try_join_next().is_some() {}
                for server in shares.servers() {
                    if last.get(&server).is_none_or(AbortHandle::is_finished) {
                        let work = Arc::clone(&shares).measure_server(server.clone(), pace.clone());
                        last.insert(server, servers.spawn(work));
                    }
                }
            }
        });
    }

    /// Measures once what is due, if it is to measure at all.
    pub async fn measure_once(&self) {
        let Some(pace) = &self.shares.config.measure else {
            return;
        };
        let mut servers = JoinSet::new();
        for server in self.shares.servers() {
            servers.spawn(Arc::clone(&self.shares).measure_server(server, pace.clone()));
        }
        servers.join_all().await;
    }
}

impl Shares {
    /// The servers of the known shares, by names in small letters.
    fn servers(&self) -> BTreeSet<String> {
        let known = self.known();
        let servers = known.iter().map(|it| it.server().to_ascii_lowercase());
        servers.collect()
    }

    async fn measure_server(self: Arc<Self>, server: String, pace: Pace) {
        for export in self.known() {
            if !export.is_on(&server) {
                continue;
            }
            let (sum, trouble) = match self.measure_share(&export, &pace).await {
                Ok(round) => {
                    let sum = round.as_ref().map(Round::sum).unwrap_or_default();
                    let trouble = round.and_then(|round| round.trouble);
                    (Some(sum), trouble.map(|it| format!("{export}: {it}")))
                }
                Err(error) => (None, Some(error.to_string())),
            };
            self.on_known(&export, |share| {
                share.measured = sum.map(|sum| (Instant::now(), sum)).or(share.measured);
            });
            let trouble = trouble.map(|it| format!("volumes are not measured: {it}"));
            self.tell(&export, "measures", trouble.into_iter().collect());
        }
    }

    /// Measures what is due on one share, part by part. Returns the round at its end; nothing where there are no records.
    async fn measure_share(
        self: &Arc<Self>,
        export: &Export,
        pace: &Pace,
    ) -> Result<Option<Round>, ControllerError> {
        let mut begun: Option<Round> = None;
        loop {
            let (interval, debug) = (pace.interval, Arc::clone(&self.config.debug));
            let tell = {
                let export = export.clone();
                move |what: &str| debug(&format!("{export}: {what}"))
            };
            let part = move |share: &Share| {
                let mut round = match begun {
                    Some(round) => round,
                    None => Round::begin(share, interval)?,
                };
                let looked = round.go_on(share, PART, tell);
                Ok((round, looked))
            };
            let part = self.with_records(Work::Upkeep, export, part).await?;
            let Some((round, looked)) = part else {
                return Ok(None);
            };
            sleep((pace.rest)(looked)).await;
            if looked < PART {
                return Ok(Some(round));
            }
            begun = Some(round);
        }
    }
}
