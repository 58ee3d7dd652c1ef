//! Counts the shares that the controller knows and reaches, and the work that waits on them, for metrics. Changes nothing.

use super::Controller;
use super::shares::Shares;
use crate::export::Export;
use crate::metrics::{METRICS, count};
use csi_proto::lock::lock;
use std::time::{Duration, Instant};

/// How an attempt to open a share ended, and when.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tried {
    at: Instant,
    opened: bool,
}

/// Whether a share counts as reachable; nothing when it does not count at all, for it could not be opened and nobody has asked for
/// it since: it may be gone for good, or another controller leads by now, and an old failure would sound an alarm for ever.
fn reachable(tried: Option<Tried>, now: Instant, forget_after: Duration) -> Option<bool> {
    match tried {
        Some(last) if !last.opened && now.duration_since(last.at) >= forget_after => None,
        Some(last) => Some(last.opened),
        None => Some(false),
    }
}

impl Shares {
    /// Whether `export` could be opened.
    pub(super) fn saw(&self, export: &Export, opened: bool) {
        if let Some(share) = lock(&self.known).get_mut(export) {
            let at = Instant::now();
            share.tried = Some(Tried { at, opened });
        }
    }

    /// How many entries a purge of `export` had to leave.
    pub(super) fn saw_trash(&self, export: &Export, left: usize) {
        if let Some(share) = lock(&self.known).get_mut(export) {
            share.trash = left;
        }
    }
}

impl Controller {
    /// Tells the metrics what there is now.
    pub fn observe(&self) {
        let distinct = self.shares.known();
        let known = lock(&self.shares.known);
        let seen: Vec<_> = distinct.iter().filter_map(|it| known.get(it)).collect();
        let (now, limit) = (Instant::now(), self.shares.config.forget_after);
        let states = seen.iter().map(|it| reachable(it.tried, now, limit));
        let counted: Vec<bool> = states.flatten().collect();
        METRICS.shares.set(count(counted.len()));
        let reached = counted.iter().filter(|reached| **reached);
        METRICS.shares_reachable.set(count(reached.count()));
        let trash = seen.iter().map(|share| share.trash).sum();
        METRICS.trash_entries.set(count(trash));
        METRICS
            .copies_in_progress
            .set(count(self.shares.copies.count()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_failure_counts_no_more() {
        let limit = Duration::from_secs(600);
        let at = Instant::now();
        for (opened, seconds, expected) in [
            (true, 0, Some(true)),
            (true, 601, Some(true)),
            (false, 0, Some(false)),
            (false, 599, Some(false)),
            (false, 600, None),
        ] {
            let now = at + Duration::from_secs(seconds);
            let tried = Some(Tried { at, opened });
            assert_eq!(reachable(tried, now, limit), expected, "{opened} {seconds}");
        }
        assert_eq!(reachable(None, at, limit), Some(false));
    }
}
