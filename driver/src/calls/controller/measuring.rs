//! Measures in the background the disk usage of volumes whose sizes are not enforced. Owns when that is done, and how it takes turns with
//! other work; what is counted, and who counts, is the share's business.
//!
//! One volume of a server is counted at a time, in parts. Each part waits for its turn as upkeep, and nobody holds a thread while
//! he rests. A server that does not answer has its own volumes wait, and no others.

use super::error::ControllerError;
use super::measured::MeasuredShare;
use super::options::Options;
use super::pace::{PART, Pace};
use super::shares::Shares;
use crate::calls::admission::Work;
use crate::calls::export::Export;
use crate::share::database::Share;
use crate::share::error::ShareError;
use crate::share::measures::{self, Measure};
use crate::share::records::store;
use crate::share::records::volume::Volume;
use crate::share::token::{NameKey, Nonce};
use csi_proto::lock::lock;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{MissedTickBehavior, interval, sleep};

impl Shares {
    /// Measures for as long as the process works, if it is to.
    pub(super) fn measure(self: &Arc<Self>) {
        let Some(pace) = self.config.measure.clone() else {
            return;
        };
        let shares = Arc::clone(self);
        let mut hurry = self.background.hurry.subscribe();
        self.spawn(async move {
            let mut rounds = interval(pace.round());
            rounds.set_missed_tick_behavior(MissedTickBehavior::Delay);
            let mut servers = JoinSet::new();
            let mut last = BTreeMap::<String, AbortHandle>::new();
            loop {
                tokio::select! {
                    _ = rounds.tick() => {}
                    // Whoever waits for the background waits for its end.
                    _ = hurry.wait_for(|count| *count > 0) => return,
                }
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
    pub(super) async fn measure_once(self: &Arc<Self>) {
        let Some(pace) = &self.config.measure else {
            return;
        };
        let mut servers = JoinSet::new();
        for server in self.servers() {
            servers.spawn(Arc::clone(self).measure_server(server, pace.clone()));
        }
        servers.join_all().await;
    }

    /// The servers of the known shares, by names in small letters.
    fn servers(&self) -> BTreeSet<String> {
        let known = self.known();
        let servers = known.iter().map(|it| it.server().to_ascii_lowercase());
        servers.collect()
    }

    async fn measure_server(self: Arc<Self>, server: String, pace: Pace) {
        for export in self.known() {
            if !export.server().eq_ignore_ascii_case(&server) {
                continue;
            }
            let trouble = match self.measure_share(&export, &pace).await {
                Ok((measured, trouble)) => {
                    self.saw_measures(&export, measured);
                    trouble
                }
                Err(error) => Some(error),
            };
            let trouble = trouble.map_or_else(String::new, |error| error.to_string());
            let told = match lock(&self.known).get_mut(&export) {
                Some(share) => std::mem::replace(&mut share.measures.told, trouble.clone()),
                None => continue,
            };
            // Once, though each round meets it again.
            if !trouble.is_empty() && trouble != told {
                (self.config.notice)(&format!("volumes are not measured: {trouble}"));
            }
        }
    }

    /// Measures what is due on one share. Returns what is known then, and why a volume could not be measured.
    async fn measure_share(
        self: &Arc<Self>,
        export: &Export,
        pace: &Pace,
    ) -> Result<(MeasuredShare, Option<ControllerError>), ControllerError> {
        let (mut sum, mut trouble) = (MeasuredShare::default(), None);
        let keys = self.with_records(Work::Upkeep, export, store::keys::<Volume>);
        let mut keys = keys.await?.unwrap_or_default();
        // Each process begins elsewhere, so that few count the same volume at a time.
        if !keys.is_empty() {
            let first = std::process::id() as usize % keys.len();
            keys.rotate_left(first);
        }
        for part in keys.chunks(PART) {
            let (keys, interval) = (part.to_vec(), pace.interval);
            let looked = self.with_records(Work::Upkeep, export, move |share| {
                let look = |key| Ok((key, measures::look(share, key, interval)?));
                keys.into_iter()
                    .map(look)
                    .collect::<Result<Vec<_>, ShareError>>()
            });
            let looked = looked.await?.unwrap_or_default();
            sleep((pace.rest)(looked.len())).await;
            for (key, look) in looked {
                let Some(mut look) = look else { continue };
                if look.is_due {
                    match self.measure_volume(export, (key, look.nonce), pace).await {
                        Ok(measure) => look.measure = measure.or(look.measure),
                        // The others are no worse for that.
                        Err(error @ ControllerError::Share { .. }) => {
                            trouble.get_or_insert(error);
                        }
                        Err(error) => return Err(error),
                    }
                }
                sum.add(&look);
            }
        }
        Ok((sum, trouble))
    }

    /// Measures one volume. Nothing where somebody else has done so, or where it has gone.
    async fn measure_volume(
        self: &Arc<Self>,
        export: &Export,
        volume: (NameKey, Nonce),
        pace: &Pace,
    ) -> Result<Option<Measure>, ControllerError> {
        let interval = pace.interval;
        let begin = move |share: &Share| measures::begin(share, volume, interval);
        let Some(Some(mut measuring)) = self.with_records(Work::Upkeep, export, begin).await?
        else {
            return Ok(None);
        };
        (self.config.debug)(&format!("{export}: measuring volumes/{}", volume.0));
        loop {
            // The folders that are open lead on from where it was: the share itself is not looked at.
            let part = move |_, _| {
                let looked = measuring.go_on(PART)?;
                Ok((measuring, looked))
            };
            let options = self.options(export, &Options::Own);
            let part = self.with_opened(Work::Upkeep, export, options, false, part);
            let looked;
            (measuring, looked) = part.await?;
            sleep((pace.rest)(looked)).await;
            if looked < PART {
                break;
            }
        }
        let finish = move |share: &Share| measuring.finish(share);
        let measured = self
            .with_records(Work::Upkeep, export, finish)
            .await?
            .flatten();
        if let Some(measure) = &measured {
            (self.config.debug)(&format!(
                "{export}: measured volumes/{}: {} bytes in {} files and {} folders, in {} ms",
                volume.0, measure.bytes, measure.files, measure.folders, measure.took_ms
            ));
        }
        Ok(measured)
    }
}
