//! Tells what is seen of shares: counts those that the controller knows and reaches, and the work that waits on them, for metrics,
//! and names to calls the one that does not answer. Changes nothing.

use super::Controller;
use super::error::ControllerError;
use super::known::{Known, Tried, reachable};
use super::looks::Silent;
use super::shares::Shares;
use crate::calls::operations::Busy;
use csi_nfs_store::export::Export;
use csi_nfs_store::metrics::{METRICS, count};
use csi_nfs_store::share::agents::{Capabilities, Quotas};
use csi_nfs_store::share::database::now;
use csi_nfs_store::share::measures::MeasuredShare;
use csi_proto::lock::lock;
use std::time::{Duration, Instant};

impl Shares {
    /// Why a call has no result yet that waits for an operation on `export`: the share, where that does not answer.
    pub(crate) fn busy(&self, export: &Export, busy: Busy) -> ControllerError {
        match self.looks.silent_with(export, Instant::now()) {
            Some(silent) => silent.into(),
            None => busy.into(),
        }
    }

    /// Why a call has no result after `timeout` that only looks: at the share `about`, or at all of them.
    pub(super) fn no_answer(&self, about: Option<&Export>, timeout: Duration) -> ControllerError {
        let now = Instant::now();
        let silent = match about {
            Some(export) => self.looks.silent_with(export, now),
            None => self.looks.all_silent(now).into_iter().next(),
        };
        silent.map_or(ControllerError::Slow(timeout), ControllerError::from)
    }

    /// What the agent can that lives on the server of `export`, to which purges and copies can be left, if one does.
    pub(super) fn saw_agent(&self, export: &Export, agent: Option<Capabilities>) {
        let replace = |share: &mut Known| std::mem::replace(&mut share.agent, agent.clone());
        let Some(before) = self.on_known(export, replace) else {
            return;
        };
        match (before, agent) {
            (before, Some(can)) if before.as_ref() != Some(&can) => {
                (self.config.notice)(&format!("{export}: an agent lives on its server: {can}"));
            }
            (Some(_), None) => {
                (self.config.notice)(&format!("{export}: no agent lives on its server any more"));
            }
            _ => {}
        }
    }

    /// Tells what was found of a `subject`: each thing once, though each look finds it again.
    pub(super) fn tell(&self, export: &Export, subject: &'static str, found: Vec<String>) {
        let told = self.on_known(export, |share| share.told.insert(subject, found.clone()));
        let told = told.flatten().unwrap_or_default();
        for text in found.iter().filter(|it| !told.contains(it)) {
            (self.config.notice)(text);
        }
    }
}

impl From<Silent> for ControllerError {
    fn from(silent: Silent) -> Self {
        Self::NoAnswer {
            export: silent.export,
            silent_for: silent.since.elapsed(),
        }
    }
}

impl Known {
    /// Whether somebody enforces the sizes of its volumes: this process, or an agent.
    fn sets_limits(&self) -> bool {
        let agent = self.agent.as_ref().map(|can| can.quotas);
        self.limits.sets_limits || agent == Some(Quotas::Enforced)
    }
}

impl Controller {
    /// Tells the metrics what there is now.
    pub fn observe(&self) {
        let distinct = self.shares.known();
        let known = lock(&self.shares.known);
        let seen: Vec<_> = distinct.iter().filter_map(|it| known.get(it)).collect();
        let (now, limit) = (Instant::now(), self.shares.config.forget_after);
        let silent = self.shares.looks.all_silent(now);
        let states = distinct.iter().filter_map(|export| {
            let silent = silent.iter().find(|it| it.export == *export);
            let silent = silent.map(|it| Tried {
                at: it.needed,
                opened: false,
            });
            Some(reachable(silent.or(known.get(export)?.tried), now, limit))
        });
        let counted: Vec<bool> = states.flatten().collect();
        METRICS.shares.set(count(counted.len()));
        let reached = counted.iter().filter(|reached| **reached);
        METRICS.shares_reachable.set(count(reached.count()));
        let attended = seen.iter().filter(|share| share.agent.is_some());
        METRICS.shares_attended.set(count(attended.count()));
        let limited = seen.iter().filter(|share| share.sets_limits());
        METRICS.shares_limited.set(count(limited.count()));
        let not_held = self.shares.agent_memory.not_held();
        METRICS.volumes_not_held.set(count(not_held));
        let trash = seen.iter().map(|share| share.trash).sum();
        METRICS.trash_entries.set(count(trash));
        let measured = seen.iter().map(|share| share.measured);
        tell(measured.fold(MeasuredShare::default(), MeasuredShare::and));
        METRICS
            .copies_in_progress
            .set(count(self.shares.copies.count()));
    }
}

fn tell(measured: MeasuredShare) {
    METRICS.volumes_measured.set(count(measured.volumes));
    let bytes = i64::try_from(measured.bytes).unwrap_or(i64::MAX);
    METRICS.measured_bytes.set(bytes);
    METRICS.volumes_beyond_size.set(count(measured.beyond));
    let age = measured.oldest.map(|oldest| now().saturating_sub(oldest));
    let age = i64::try_from(age.unwrap_or_default()).unwrap_or(i64::MAX);
    METRICS.oldest_measure_seconds.set(age);
}
