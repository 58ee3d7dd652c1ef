//! Shares with one UUID at several addresses: one share by another name, or a copy of its storage. Owns how the two are told
//! apart, that of two copies the one that was known first is used, and which address the ids of a copy have.

use super::error::{ControllerError, Twin};
use super::known::Known;
use super::options::Options;
use super::shares::Shares;
use crate::calls::volume_id::Location;
use csi_nfs_store::export::Export;
use csi_nfs_store::files::admission::Work;
use csi_nfs_store::files::roots::Root;
use csi_nfs_store::share::database::{Expect, Share};
use csi_nfs_store::share::token::ShareUuid;
use csi_nfs_store::share::twin;
use csi_proto::lock::lock;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

/// How long the share at the other address is waited for.
const REACH: Duration = Duration::from_secs(3);
/// How long an address is not asked again when it did not answer.
const REST: Duration = Duration::from_secs(300);

impl Shares {
    /// Learns which shares were named at the start, once, before `first` or another one is used: whichever that is, those that were
    /// named before it are known. One that does not answer in time is known from its use on.
    pub(super) async fn look_at_configured(self: &Arc<Self>, first: &Export) {
        let configured = self.configured();
        // Its use tells as much, and waits for nothing before.
        if configured.iter().all(|export| export == first) {
            return;
        }
        let looking = async {
            let looks = configured.into_iter();
            let looks = looks.map(|export| Arc::clone(self).look_at(export));
            looks.collect::<JoinSet<_>>().join_all().await;
        };
        self.looked_at.get_or_init(|| looking).await;
    }

    async fn look_at(self: Arc<Self>, export: Export) {
        let expect = self.expect_or(&export, Expect::Initialised);
        let options = self.options(&export, &Options::Own);
        let read = move |root, _| Share::open(root, expect).map(|share| share.uuid());
        let reading = self.with_opened(Work::Call, &export, options, false, read);
        if let Ok(Ok(uuid)) = tokio::time::timeout(REACH, reading).await {
            self.saw(&export, uuid);
        }
    }

    /// Where the share `uuid` is, which was opened at `export`, as ids say it: where a record on it says, unless that is the address
    /// of another share, of whose storage this one is a copy.
    pub(super) fn location(&self, export: &Export, uuid: ShareUuid, recorded: &str) -> Location {
        let recorded = recorded.parse().ok().filter(|location| {
            let there = match location {
                Location::Export(there) => Some(there),
                Location::Named(name) => self.named(name).map(|named| &named.export),
            };
            let found = there.and_then(|there| self.on_known(there, |share| share.uuid));
            found.flatten().is_none_or(|found| found == uuid)
        });
        let here = || Location::Export(export.clone());
        recorded.unwrap_or_else(|| self.name_of(export).unwrap_or_else(here))
    }

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
