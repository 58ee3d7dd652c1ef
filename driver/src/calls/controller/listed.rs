//! Which shares a list goes through: those that are known, each once, but none that is known from use alone and whose server may
//! be gone for good.

use super::error::ControllerError;
use super::shares::Shares;
use crate::calls::admission::Work;
use crate::calls::export::Export;
use csi_proto::lock::lock;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;

/// How long a share is waited for that has not been used for long.
const REACH: Duration = Duration::from_secs(5);

impl Shares {
    /// All shares that a list goes through. One that was not named at the start, has not been used for long, and cannot be
    /// reached now is forgotten, until a call uses it again: else one server that was taken away would fail all lists for ever.
    ///
    /// # Errors
    /// When a share cannot be opened for the first time, or is a copy of another one, of which the list would hide one.
    pub(super) async fn listed(self: &Arc<Self>) -> Result<Vec<Export>, ControllerError> {
        // Of two addresses the share at each tells whether they are of one share.
        let mut opened = JoinSet::new();
        for export in self.unopened() {
            let shares = Arc::clone(self);
            opened.spawn(async move { shares.reach(&export).await });
        }
        for done in opened.join_all().await {
            done?;
        }
        for export in self.doubles() {
            self.reach(&export).await?;
        }
        loop {
            let all = self.known();
            let mut asked = JoinSet::new();
            for export in all.iter().filter(|export| self.is_doubtful(export)) {
                let (shares, export) = (Arc::clone(self), export.clone());
                asked.spawn(async move { shares.is_forgotten(&export).await });
            }
            // Another address of the same share may come in the place of one that is forgotten.
            if !asked.join_all().await.contains(&true) {
                return Ok(all);
            }
        }
    }

    /// Opens the share, if it has records.
    async fn reach(self: &Arc<Self>, export: &Export) -> Result<(), ControllerError> {
        let reached = self.with_records(Work::List, export, |_| Ok(()));
        reached.await.map(drop)
    }

    /// Shares of which it is not known yet whether they are others than the rest.
    fn unopened(&self) -> Vec<Export> {
        let known = lock(&self.known);
        let is_alone = known.len() < 2;
        let unopened = known
            .iter()
            .filter(|(_, share)| share.uuid.is_none() && !is_alone);
        unopened.map(|(export, _)| export.clone()).collect()
    }

    /// Shares that are still to be compared with one that was known before.
    fn doubles(&self) -> Vec<Export> {
        let known = lock(&self.known);
        let opened = known
            .iter()
            .filter_map(|(export, share)| Some((export.clone(), share.uuid?)));
        let opened: Vec<_> = opened.collect();
        drop(known);
        let doubles = opened
            .into_iter()
            .filter(|(export, uuid)| !self.twins(export, *uuid).is_empty());
        doubles.map(|(export, _)| export).collect()
    }

    fn is_doubtful(&self, export: &Export) -> bool {
        let limit = self.config.forget_after;
        let known = lock(&self.known);
        let share = known.get(export);
        share.is_some_and(|share| share.used.is_some_and(|used| used.elapsed() >= limit))
            && !self.configured().contains(export)
    }

    async fn is_forgotten(self: &Arc<Self>, export: &Export) -> bool {
        let why = match tokio::time::timeout(REACH, self.reach(export)).await {
            Ok(Ok(())) => return false,
            Ok(Err(error)) => error.to_string(),
            Err(_) => format!("{export}: no answer for {REACH:?}"),
        };
        // Unless a call has used it in this very moment.
        let gone = self.is_doubtful(export) && lock(&self.known).remove(export).is_some();
        if gone {
            (self.config.notice)(&format!(
                "lists go on without {export} until a call uses it again: {why}"
            ));
        }
        gone
    }
}
