//! Shares with one UUID at several addresses: one share by another name, or a copy of its storage. Owns how the two are told
//! apart, and that of two copies the one that was known first is used.

use super::error::{ControllerError, Twin};
use super::known::Known;
use super::options::Options;
use super::shares::Shares;
use csi_nfs_store::export::Export;
use csi_nfs_store::files::admission::Work;
use csi_nfs_store::files::roots::Root;
use csi_nfs_store::share::token::ShareUuid;
use csi_nfs_store::share::twin;
use csi_proto::lock::lock;
use std::time::{Duration, Instant};

/// How long the share at the other address is waited for.
const REACH: Duration = Duration::from_secs(3);
/// How long an address is not asked again when it did not answer.
const REST: Duration = Duration::from_secs(300);

impl Shares {
    /// The first address at which the share `uuid` was known before `export` was, and with which that must be compared before it
    /// is used.
    pub(super) fn twin(&self, export: &Export, uuid: ShareUuid) -> Option<Export> {
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
        let first = earlier.min_by_key(|(_, share)| share.order);
        first.map(|(other, _)| other.clone())
    }

    /// Compares `root`, the share `uuid` at `export`, with the share at `other`. One that cannot be looked at now decides
    /// nothing: it may be the dead server in whose place this one has come.
    ///
    /// # Errors
    /// [`ControllerError::Twin`] when it is another share.
    pub(super) async fn compare(
        &self,
        export: &Export,
        (root, uuid): (Root, ShareUuid),
        other: Export,
    ) -> Result<(), ControllerError> {
        let options = self.options(&other, &Options::Own);
        let is_one = move |theirs: Root, _| twin::is_one(root, theirs, uuid);
        let comparing = self.with_opened(Work::Call, &other, options, false, is_one);
        let unknown_since = match tokio::time::timeout(REACH, comparing).await {
            Ok(Ok(Some(true))) => None,
            Ok(Ok(Some(false))) => {
                let fresh = ShareUuid::random().ok();
                return Err(ControllerError::Twin(Box::new(Twin {
                    export: export.clone(),
                    other,
                    uuid,
                    fresh: fresh.map_or_else(|| "…".to_owned(), |fresh| fresh.to_string()),
                })));
            }
            Ok(Err(error @ ControllerError::Share { .. })) => return Err(error),
            _ => Some(Instant::now()),
        };
        let this = (export.clone(), uuid);
        self.on_known(&other, |share| share.compared.insert(this, unknown_since));
        Ok(())
    }
}
