//! Tells what is seen of shares: counts those that the controller knows and reaches, and the work that waits on them, for metrics,
//! and names to calls the one that does not answer. Changes nothing.

use super::Controller;
use super::error::ControllerError;
use super::looks::{SILENT_IN, Silent};
use super::reached::{Tried, reachable};
use super::shares::{Known, Shares};
use crate::calls::export::Export;
use crate::calls::operations::Busy;
use crate::process::metrics::{METRICS, count};
use crate::share::agents::{Capabilities, Quotas};
use crate::share::database::now;
use crate::share::measures::MeasuredShare;
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

    /// Why a call has no result after `patience` that only looks, at any share.
    pub(super) fn no_answer(&self, timeout: Duration) -> ControllerError {
        let silent = self.looks.all_silent(Instant::now());
        let longest = silent.into_iter().next();
        longest.map_or(ControllerError::Slow(timeout), ControllerError::from)
    }

    /// An attempt to open `export`, `begun` then.
    pub(super) fn attempt<'a>(&'a self, export: &'a Export, begun: Instant) -> Attempt<'a> {
        Attempt {
            shares: self,
            export,
            begun,
            opened: None,
        }
    }

    /// What the agent can that lives on the server of `export`, to which purges and copies can be left, if one does.
    pub(super) fn saw_agent(&self, export: &Export, agent: Option<Capabilities>) {
        let before = match lock(&self.known).get_mut(export) {
            Some(share) => std::mem::replace(&mut share.agent, agent.clone()),
            None => return,
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

    /// How many entries a purge of `export` had to leave.
    pub(super) fn saw_trash(&self, export: &Export, left: usize) {
        if let Some(share) = lock(&self.known).get_mut(export) {
            share.trash = left;
        }
    }
}

/// An attempt to open a share. One that is given up when the share counts as silent has failed.
pub(super) struct Attempt<'a> {
    shares: &'a Shares,
    export: &'a Export,
    begun: Instant,
    opened: Option<bool>,
}

impl Attempt<'_> {
    pub(super) fn ended(mut self, opened: bool) {
        self.opened = Some(opened);
    }
}

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        let at = Instant::now();
        let is_silent = at.saturating_duration_since(self.begun) >= SILENT_IN;
        if let Some(opened) = self.opened.or(is_silent.then_some(false))
            && let Some(share) = lock(&self.shares.known).get_mut(self.export)
        {
            share.tried = Some(Tried { at, opened });
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
        self.limits_here || agent == Some(Quotas::Enforced)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calls::controller::ControllerConfig;
    use crate::files::roots::local::LocalRoots;
    use std::sync::Arc;

    #[test]
    fn an_attempt_that_is_given_up_late_has_failed() {
        let export = Export::parse("nas", "/x").unwrap();
        let shares = Shares::new(ControllerConfig {
            other_exports: vec![export.clone()],
            ..ControllerConfig::new(Arc::new(LocalRoots::default()))
        });
        let seen = || lock(&shares.known)[&export].tried.map(|last| last.opened);
        let (now, early) = (Instant::now(), Instant::now().checked_sub(SILENT_IN));
        shares.attempt(&export, now).ended(true);
        assert_eq!(seen(), Some(true));
        // Its caller has not waited for long.
        drop(shares.attempt(&export, now));
        assert_eq!(seen(), Some(true));
        drop(shares.attempt(&export, early.unwrap()));
        assert_eq!(seen(), Some(false));
        shares.attempt(&export, early.unwrap()).ended(true);
        assert_eq!(seen(), Some(true));
    }
}
