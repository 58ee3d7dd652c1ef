//! Shares with one UUID at several addresses: one share by another name, or a copy of its storage. Owns how the two are told
//! apart, and that of two copies the one that was known first is used.

use super::error::{ControllerError, Twin};
use super::known::Known;
use super::options::Options;
use super::shares::Shares;
use crate::calls::admission::Work;
use crate::calls::export::Export;
use crate::files::roots::Root;
use crate::share::token::ShareUuid;
use crate::share::twin;
use csi_proto::lock::lock;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::task::spawn_blocking;

/// How long the share at the other address is waited for.
const REACH: Duration = Duration::from_secs(3);
/// How long an address is not asked again when it did not answer.
const REST: Duration = Duration::from_secs(300);

impl Shares {
    /// Addresses at which the share `uuid` was known before `export` was, the first one first, and with which that must be compared
    /// before it is used.
    pub(super) fn twins(&self, export: &Export, uuid: ShareUuid) -> Vec<Export> {
        let known = lock(&self.known);
        let order = known.get(export).map_or(usize::MAX, |share| share.order);
        let this = (export.clone(), uuid);
        let is_open = |share: &Known| match share.compared.get(&this) {
            None => true,
            Some(unknown) => unknown.is_some_and(|since| since.elapsed() >= REST),
        };
        let earlier = known.iter().filter(|(other, share)| {
            let is_earlier = *other != export && share.uuid == Some(uuid) && share.order < order;
            is_earlier && is_open(share)
        });
        let mut earlier: Vec<_> = earlier.collect();
        earlier.sort_by_key(|(_, share)| share.order);
        let others = earlier.into_iter();
        others.map(|(other, _)| other.clone()).collect()
    }

    /// Compares `root`, the share `uuid` at `export`, with the shares at `others`. One that cannot be looked at now decides
    /// nothing: it may be the dead server in whose place this one has come.
    ///
    /// # Errors
    /// [`ControllerError::Twin`] when one of them is another share.
    pub(super) async fn compare(
        &self,
        export: &Export,
        (root, uuid): (Root, ShareUuid),
        others: Vec<Export>,
    ) -> Result<(), ControllerError> {
        for other in others {
            let root = Arc::clone(&root);
            let looking = async {
                let options = self.options(&other, &Options::Own);
                let theirs = self.config.roots.open(&other, &options).await.ok()?;
                let turn = self
                    .config
                    .admission
                    .enter(other.server(), Work::Call)
                    .await;
                let comparing = spawn_blocking(move || {
                    let compared = twin::is_one(root, theirs, uuid);
                    drop(turn);
                    compared
                });
                comparing.await.ok()
            };
            let compared = match tokio::time::timeout(REACH, looking).await {
                Ok(Some(Ok(Some(false)))) => {
                    let (export, other) = (export.clone(), other);
                    let fresh = ShareUuid::random().ok();
                    return Err(ControllerError::Twin(Box::new(Twin {
                        export,
                        other,
                        uuid,
                        fresh: fresh.map_or_else(|| "…".to_owned(), |fresh| fresh.to_string()),
                    })));
                }
                Ok(Some(Ok(Some(true)))) => None,
                Ok(Some(Err(source))) => {
                    return Err(ControllerError::Share {
                        export: other,
                        source: Arc::new(source),
                    });
                }
                _ => Some(Instant::now()),
            };
            let this = (export.clone(), uuid);
            self.on_known(&other, |share| share.compared.insert(this, compared));
        }
        Ok(())
    }
}
