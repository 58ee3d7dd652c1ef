//! Compares the limits of volumes with their records, in a process that enforces the sizes of volumes: an agent, or a controller that
//! has the share's folder itself. Owns when that is done, and what is told of it and of who could do it.

use super::Controller;
use super::config::Role;
use super::shares::Shares;
use csi_nfs_store::export::Export;
use csi_nfs_store::files::admission::Work;
use csi_nfs_store::quota::ability::{FileSystem, Unable};
use csi_nfs_store::share::comparison::{self, Comparison};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{MissedTickBehavior, interval};

/// Between two walks through a share that no event calls for.
pub(crate) const WALK: Duration = Duration::from_secs(60);

impl Controller {
    /// Compares the limits on the local folders that were named at the start, now and from time to time, where this controller
    /// enforces the sizes of volumes.
    pub(super) fn keep_sizes(&self) {
        let config = &self.shares.config;
        if !config.quotas || config.role != Role::Controller {
            return;
        }
        let exports = self.shares.configured().into_iter();
        for export in exports.filter(|export| config.roots.is_local(export)) {
            let shares = Arc::clone(&self.shares);
            self.shares.spawn(async move {
                let mut walks = interval(WALK);
                walks.set_missed_tick_behavior(MissedTickBehavior::Delay);
                while shares.unhurried(walks.tick()).await.is_some() {
                    shares.keep_limits(&export).await;
                }
            });
        }
    }
}

impl Shares {
    /// Compares the limits of all volumes with the records, and tells what an administrator should know.
    pub(crate) async fn keep_limits(self: &Arc<Self>, export: &Export) {
        let role = self.config.role;
        let kept = self.with_records(Work::Call, export, move |share| {
            let mut compared = comparison::keep_up(share)?;
            // An agent says so when it announces itself.
            if role == Role::Controller {
                compared.told.extend(share.quotas().map(ability));
            }
            Ok(compared)
        });
        let mut compared = match kept.await {
            Ok(None) => return,
            Ok(Some(compared)) => compared,
            Err(error) => Comparison {
                told: vec![format!("limits are not compared: {error}")],
                ..Comparison::default()
            },
        };
        let troubles = compared.told.iter().map(|it| format!("{export}: {it}"));
        let troubles = troubles.collect();
        self.on_known(export, |share| {
            compared.report = compared.report.take().or(share.limits.report.take());
            share.limits = compared;
        });
        self.tell(export, "limits", troubles);
    }
}

/// What this process makes of the sizes of volumes, in words.
fn ability(quotas: &Result<FileSystem, Unable>) -> String {
    match quotas {
        Ok(_) => "sizes are enforced, by project quotas".to_owned(),
        Err(why) => format!("sizes stay advisory: {why}"),
    }
}
