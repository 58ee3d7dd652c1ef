//! Runs calls that change or delete a volume or snapshot with a record, as operations that equal calls join. Must not check requests.

use super::error::ControllerError;
use super::options::Options;
use super::outcome::{OperationKey, Outcome, SnapshotOutcome, VolumeOutcome};
use super::shares::Shares;
use crate::calls::operations::{Operation, Operations};
use crate::calls::volume_id::Id;
use csi_nfs_store::share::database::{Expect, Share};
use csi_nfs_store::share::error::ShareError;
use csi_nfs_store::share::life::{self, Life};
use csi_nfs_store::share::records::record::Record;
use csi_nfs_store::share::records::snapshot::Snapshot;
use csi_nfs_store::share::records::volume::Volume;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// A kind of record that calls make, change and delete.
pub(crate) trait Operated: Life {
    /// What it is about.
    const WORD: &'static str;
    /// The operations that run on records of this kind.
    fn operations(shares: &Shares) -> &Operations<OperationKey, Outcome<Self>>;
}

impl Operated for Volume {
    const WORD: &'static str = "volume";

    fn operations(shares: &Shares) -> &Operations<OperationKey, VolumeOutcome> {
        &shares.operations
    }
}

impl Operated for Snapshot {
    const WORD: &'static str = "snapshot";

    fn operations(shares: &Shares) -> &Operations<OperationKey, SnapshotOutcome> {
        &shares.snapshot_operations
    }
}

impl Shares {
    /// Runs the operation of a call on the volume or snapshot `key`, or joins an equal one.
    pub(super) async fn run<K: Operated, W>(
        &self,
        key: OperationKey,
        operation: Operation,
        timeout: Duration,
        work: impl FnOnce() -> W,
    ) -> Outcome<K>
    where
        W: Future<Output = Outcome<K>> + Send + 'static,
    {
        let export = key.0.clone();
        let done = K::operations(self).run(key, operation, timeout, work);
        done.await.map_err(|busy| self.busy(&export, busy))?
    }

    /// Runs the operation of a call that changes what `id` means, or joins an equal one. What is gone then, or may be, is purged.
    pub(super) async fn change<K: Operated, const MARK: char>(
        self: &Arc<Self>,
        (operation, timeout): (Operation, Duration),
        id: Id<MARK>,
        options: Options,
        work: impl FnOnce(&Share) -> Result<Option<Record<K>>, ShareError> + Send + 'static,
    ) -> Outcome<K> {
        let export = self.locate(&id.location)?;
        let (shares, address) = (Arc::clone(self), export.clone());
        let changing = || async move {
            let expect = Expect::Known(id.uuid);
            let changed = shares.with_share(&address, &options, expect, work).await;
            let changed = shares.taught(&address, changed);
            if !matches!(changed, Ok(Some(_))) {
                shares.purge_soon(&address);
            }
            changed
        };
        let key = (export, id.key);
        self.run(key, operation, timeout, changing).await
    }
}

/// Deletes what the id `text` means, for a call of `rpc`.
pub(super) async fn delete<K: Operated, const MARK: char>(
    shares: &Arc<Shares>,
    timeout: Duration,
    rpc: &'static str,
    text: String,
    secrets: &BTreeMap<String, String>,
) -> Result<(), ControllerError> {
    let id: Id<MARK> = match text.parse() {
        Ok(id) => id,
        // Why OK: see `status`.
        Err(foreign) => {
            (shares.config.notice)(&format!("{rpc}: nothing to delete: {foreign}"));
            return Ok(());
        }
    };
    let options = shares.secret_options(secrets)?;
    let arguments = text.into_bytes();
    let operation = Operation { rpc, arguments };
    let (key, nonce) = (id.key, id.nonce);
    let delete = move |share: &Share| life::delete::<K>(share, key, nonce).map(|()| None);
    let deleted = shares.change::<K, MARK>((operation, timeout), id, options, delete);
    deleted.await.map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calls::controller::ControllerConfig;
    use crate::calls::operations::Busy;
    use csi_nfs_store::export::Export;
    use csi_nfs_store::files::roots::local::LocalRoots;
    use csi_nfs_store::share::token::NameKey;

    /// How many operations begin on shares of `server` that hang from then on.
    async fn fill<K: Operated>(shares: &Shares, server: &str) -> usize {
        for number in 0.. {
            let export = Export::parse(server, &format!("/{}", number % 3)).unwrap();
            let key = (export, NameKey::of(&number.to_string()));
            let operation = Operation {
                rpc: "A",
                arguments: Vec::new(),
            };
            let hang = || std::future::pending();
            let running = K::operations(shares).run(key, operation, Duration::ZERO, hang);
            match running.await {
                Err(Busy::RunningOperation { .. }) => {}
                Err(Busy::Crowded) => return number,
                other => panic!("{other:?}"),
            }
        }
        unreachable!()
    }

    /// As many as the workers of a sidecar.
    const MANY: usize = 100;

    async fn dead_servers_leave_room<K: Operated>() {
        let roots = LocalRoots::new(std::iter::empty());
        let shares = Shares::new(ControllerConfig::new(Arc::new(roots)));
        for server in ["dead", "too", "alive"] {
            let begun = fill::<K>(&shares, server).await;
            assert!(begun > MANY, "{begun} on {server}");
        }
    }

    #[tokio::test]
    async fn changes_that_hang_on_dead_servers_leave_room_for_those_elsewhere() {
        dead_servers_leave_room::<Volume>().await;
        dead_servers_leave_room::<Snapshot>().await;
    }
}
