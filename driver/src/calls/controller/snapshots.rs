//! Requests about snapshots, from their checks to the work on the share.

use super::answer;
use super::copies::Purpose;
use super::error::ControllerError;
use super::options::Options;
use super::outcome::{OperationKey, SnapshotOutcome};
use super::pages;
use super::shares::Shares;
use crate::calls::export::Export;
use crate::calls::limits;
use crate::calls::operations::Operation;
use crate::calls::parameters::{OF_SNAPSHOTS, Parameters, secret_options};
use crate::calls::volume_id::{Location, SnapshotId, VolumeId};
use crate::files::copying::Progress;
use crate::share::database::{Expect, Share};
use crate::share::error::ShareError;
use crate::share::life;
use crate::share::records::origin::Origin;
use crate::share::records::record::{Record, State};
use crate::share::records::snapshot::{Snapshot, Wanted};
use crate::share::records::store;
use crate::share::token::NameKey;
use csi_proto::v1 as csi;
use prost::Message;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The source of a snapshot, and its share.
pub(crate) type GivenOrigin = (Origin, Export);

/// A checked CreateSnapshot.
#[derive(Clone)]
pub(crate) struct Creation {
    export: Export,
    /// The share as it is to stand in the snapshot's id.
    location: Location,
    expect: Expect,
    wanted: Wanted,
    options: Options,
}

impl Creation {
    /// Checks a request. A `given` source counts instead of the one that the request names.
    pub(crate) fn check(
        shares: &Shares,
        request: &csi::CreateSnapshotRequest,
        given: Option<GivenOrigin>,
    ) -> Result<Self, ControllerError> {
        limits::name("name", &request.name)?;
        limits::map("parameters", &request.parameters)?;
        limits::map("secrets", &request.secrets)?;
        let parameters = Parameters::parse_known(&request.parameters, &OF_SNAPSHOTS)?;
        let (export, location, expect, origin) = match given {
            Some((origin, export)) => {
                let location = shares.location_of(&export)?;
                let expect = shares.expect_or(&export, Expect::Any);
                (export, location, expect, origin)
            }
            None => {
                limits::required("source_volume_id", &request.source_volume_id)?;
                let source: VolumeId = request.source_volume_id.parse()?;
                let origin = Origin {
                    id: request.source_volume_id.clone(),
                    key: source.key,
                    nonce: source.nonce,
                    path: None,
                };
                let export = shares.locate(&source.location)?;
                (export, source.location, Expect::Known(source.uuid), origin)
            }
        };
        if parameters.server.is_some() || parameters.share.is_some() {
            let chosen = shares.choose(&parameters)?;
            if chosen.export != export {
                return Err(ControllerError::Invalid(format!(
                    "the parameters name {}, the volume is on {export}: a snapshot is kept on its volume's share, so leave server and share out",
                    chosen.export
                )));
            }
        }
        let secret = secret_options(&request.secrets);
        let options = Options::of_call(parameters.mount_options, secret);
        shares.check_mount_options(options.words())?;
        Ok(Self {
            export,
            location,
            expect,
            wanted: Wanted {
                name: request.name.clone(),
                source: origin,
            },
            options,
        })
    }

    /// The options to open the share with.
    pub(crate) fn options(&self) -> &Options {
        &self.options
    }

    async fn run(self, shares: Arc<Shares>, operation: Operation) -> SnapshotOutcome {
        let wanted = self.wanted;
        let key = (self.export, NameKey::of(&wanted.name));
        let what = format!("snapshot {:?}", wanted.name);
        let location = self.location.to_string();
        let expect = self.expect;
        let how = (&self.options, expect);
        let existing = shares.existing::<Snapshot>(&key.0, how, &wanted).await?;
        if existing.is_some() {
            return Ok(existing);
        }
        let copy = move |share: &Share, progress: &Progress| {
            life::create(share, &wanted, &location, progress)
        };
        let copied = shares.copy((Purpose::Snapshot, key), Some(operation), how, what, copy);
        copied.await.map(Some)
    }
}

/// Makes the snapshot of a checked request. Answers only when the copy is complete: at the first answer that is OK an orchestrator lets the application
/// write again.
pub(crate) async fn create(
    shares: &Arc<Shares>,
    timeout: Duration,
    request: csi::CreateSnapshotRequest,
    creation: Creation,
) -> Result<csi::CreateSnapshotResponse, ControllerError> {
    let key: OperationKey = (creation.export.clone(), NameKey::of(&creation.wanted.name));
    let operation = Operation {
        rpc: "CreateSnapshot",
        arguments: csi::CreateSnapshotRequest {
            secrets: Default::default(),
            ..request
        }
        .encode_to_vec(),
    };
    let (record, uuid) = shares
        .create(
            (Purpose::Snapshot, &shares.snapshot_operations),
            key.clone(),
            operation.clone(),
            timeout,
            creation.expect,
            || creation.clone().run(Arc::clone(shares), operation.clone()),
        )
        .await?;
    Ok(csi::CreateSnapshotResponse {
        snapshot: Some(answer::snapshot(&key.0, uuid, &record)),
    })
}

/// Deletes a snapshot and starts the purge of what it was.
pub(super) async fn delete(
    shares: &Arc<Shares>,
    timeout: Duration,
    request: csi::DeleteSnapshotRequest,
) -> Result<csi::DeleteSnapshotResponse, ControllerError> {
    limits::map("secrets", &request.secrets)?;
    limits::required("snapshot_id", &request.snapshot_id)?;
    let id: SnapshotId = match request.snapshot_id.parse() {
        Ok(id) => id,
        // Why OK: see `status`.
        Err(foreign) => {
            (shares.config.notice)(&format!("DeleteSnapshot: nothing to delete: {foreign}"));
            return Ok(csi::DeleteSnapshotResponse {});
        }
    };
    let export = shares.locate(&id.location)?;
    let options = shares.secret_options(&request.secrets)?;
    let key: OperationKey = (export.clone(), id.key);
    let operation = Operation {
        rpc: "DeleteSnapshot",
        arguments: request.snapshot_id.into_bytes(),
    };
    let work = || run_delete(Arc::clone(shares), export.clone(), id.clone(), options);
    let operations = &shares.snapshot_operations;
    shares
        .run(operations, key, operation, timeout, work)
        .await?;
    Ok(csi::DeleteSnapshotResponse {})
}

async fn run_delete(
    shares: Arc<Shares>,
    export: Export,
    id: SnapshotId,
    options: Options,
) -> SnapshotOutcome {
    let (key, nonce) = (id.key, id.nonce);
    let deleted = shares
        .with_share(&export, &options, Expect::Known(id.uuid), move |share| {
            life::delete::<Snapshot>(share, key, nonce)
        })
        .await;
    shares.purge_soon(&export);
    deleted.map(|()| None)
}

/// The snapshot of an id. One that is still copied is not there yet.
async fn find(
    shares: &Arc<Shares>,
    id: &SnapshotId,
    options: &Options,
) -> Result<csi::Snapshot, ControllerError> {
    let export = shares.locate(&id.location)?;
    let (key, nonce) = (id.key, id.nonce);
    let record = shares
        .with_share(&export, options, Expect::Known(id.uuid), move |share| {
            // A record that cannot be used must not look as if the snapshot were gone.
            let found = store::find::<Snapshot>(share, key)?;
            match found.map(|found| found.record) {
                Some(record) if record.nonce == nonce && record.state == State::Ready => Ok(record),
                _ => Err(ShareError::NoSnapshot),
            }
        })
        .await?;
    Ok(answer::snapshot(&export, id.uuid, &record))
}

/// GetSnapshot.
pub(super) async fn get(
    shares: &Arc<Shares>,
    request: csi::GetSnapshotRequest,
) -> Result<csi::GetSnapshotResponse, ControllerError> {
    let options = shares.secret_options(&request.secrets)?;
    limits::required("snapshot_id", &request.snapshot_id)?;
    let snapshot = find(shares, &request.snapshot_id.parse()?, &options).await?;
    Ok(csi::GetSnapshotResponse {
        snapshot: Some(snapshot),
    })
}

/// ListSnapshots: one, those of a volume, or all. A `given` volume counts instead of the one that the request names.
pub(crate) async fn list(
    shares: &Arc<Shares>,
    timeout: Duration,
    request: csi::ListSnapshotsRequest,
    given: Option<Origin>,
) -> Result<csi::ListSnapshotsResponse, ControllerError> {
    let max_entries = pages::max_entries(request.max_entries)?;
    limits::optional("snapshot_id", &request.snapshot_id)?;
    if given.is_none() {
        limits::optional("source_volume_id", &request.source_volume_id)?;
    }
    let options = shares.secret_options(&request.secrets)?;
    let wanted = &request.source_volume_id;
    if !request.snapshot_id.is_empty() {
        let Ok(id) = request.snapshot_id.parse() else {
            return Ok(csi::ListSnapshotsResponse::default());
        };
        return list_of_one(find(shares, &id, &options).await, wanted);
    }
    let source = match (given, wanted.as_str()) {
        (Some(origin), _) => Some((origin.key, origin.nonce)),
        (None, "") => None,
        (None, id) => match id.parse::<VolumeId>() {
            Ok(id) => Some((id.key, id.nonce)),
            Err(_) => return Ok(csi::ListSnapshotsResponse::default()),
        },
    };
    let question = csi::ListSnapshotsRequest {
        secrets: Default::default(),
        ..request.clone()
    };
    let of = Arc::clone(shares);
    let work = move |limit| async move {
        let token = &request.starting_token;
        let show = move |export: &Export, uuid, _, record: Record<Snapshot>| {
            let of = &record.what.wanted.source;
            let fits = source.is_none_or(|source| source == (of.key, of.nonce));
            fits.then(|| as_entry(answer::snapshot(export, uuid, &record)))
        };
        pages::page::<Snapshot, _>(&of, limit, max_entries, token, show)
            .await
            .map(Arc::new)
    };
    let deadline = Instant::now() + timeout;
    let listed = (shares.snapshot_lists).join(question.encode_to_vec(), deadline, work);
    let page = listed.await.ok_or(ControllerError::ShuttingDown)??;
    let (entries, next_token) = Arc::unwrap_or_clone(page);
    Ok(csi::ListSnapshotsResponse {
        entries,
        next_token,
    })
}

/// The list of the one snapshot that was asked for, if it is of the volume `wanted`.
pub(crate) fn list_of_one(
    found: Result<csi::Snapshot, ControllerError>,
    wanted: &str,
) -> Result<csi::ListSnapshotsResponse, ControllerError> {
    match found {
        Ok(snapshot) if wanted.is_empty() || wanted == snapshot.source_volume_id => {
            Ok(csi::ListSnapshotsResponse {
                entries: vec![as_entry(snapshot)],
                next_token: String::new(),
            })
        }
        Ok(_) => Ok(csi::ListSnapshotsResponse::default()),
        // The specification wants an empty list, not NOT_FOUND.
        Err(ControllerError::Share { source, .. }) if matches!(*source, ShareError::NoSnapshot) => {
            Ok(csi::ListSnapshotsResponse::default())
        }
        Err(other) => Err(other),
    }
}

fn as_entry(snapshot: csi::Snapshot) -> csi::list_snapshots_response::Entry {
    csi::list_snapshots_response::Entry {
        snapshot: Some(snapshot),
    }
}
