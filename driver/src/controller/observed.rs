//! Counts the shares that the controller knows and reaches, and the work that waits on them, for metrics. Changes nothing.

use super::Controller;
use super::shares::Shares;
use crate::export::Export;
use crate::metrics::{METRICS, count};
use csi_proto::lock::lock;

impl Shares {
    /// Whether `export` could be opened.
    pub(super) fn saw(&self, export: &Export, reached: bool) {
        if let Some(share) = lock(&self.known).get_mut(export) {
            share.reached = Some(reached);
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
        let seen = || distinct.iter().filter_map(|export| known.get(export));
        let reached = seen().filter(|share| share.reached == Some(true));
        METRICS.shares.set(count(distinct.len()));
        METRICS.shares_reachable.set(count(reached.count()));
        let trash = seen().map(|share| share.trash).sum();
        METRICS.trash_entries.set(count(trash));
        METRICS
            .copies_in_progress
            .set(count(self.shares.copies.count()));
    }
}
