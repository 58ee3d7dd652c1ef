//! Requests about snapshots, from their checks to the work on the share.

use super::answer;
use super::copies::Purpose;
use super::error::ControllerError;
use super::outcome::{OperationKey, SnapshotOutcome};
use super::pages;
use super::shares::Shares;
use super::upstream;
use crate::export::Export;
use crate::limits;
use crate::operations::Operation;
use crate::parameters::{OF_SNAPSHOTS, Parameters, secret_options};
use crate::share::database::Expect;
use crate::share::error::ShareError;
use crate::share::record::State;
use crate::share::snapshot::Snapshot;
use crate::share::snapshots;
use crate::share::source::Origin;
use crate::share::store;
use crate::share::token::NameKey;
use crate::volume_id::{Location, SnapshotId, VolumeId};
use csi_proto::v1 as csi;
use prost::Message;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A checked CreateSnapshot.
#[derive(Clone)]
struct Creation {
    export: Export,
    /// The share as it is to stand in the snapshot's id.
    location: Location,
    expect: Expect,
    origin: Origin,
    name: String,
    options: Vec<String>,
}

impl Creation {
    fn check(
        shares: &Shares,
        request: &csi::CreateSnapshotRequest,
    ) -> Result<Self, ControllerError> {
        limits::name("name", &request.name)?;
        limits::map("parameters", &request.parameters)?;
        limits::map("secrets", &request.secrets)?;
        let parameters = Parameters::parse_known(&request.parameters, &OF_SNAPSHOTS)?;
        let (export, location, expect, origin) =
            match shares.upstream_volume(&request.source_volume_id)? {
                Some(id) => {
                    let origin = upstream::volume_origin(shares, &id)?;
                    let location = shares.location_of(&id.export)?;
                    let expect = shares.expect_or(&id.export, Expect::Any);
                    (id.export, location, expect, origin)
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
        let options = if secret.is_empty() {
            parameters.mount_options
        } else {
            secret
        };
        (shares.config.check_mount_options)(&options).map_err(ControllerError::MountOption)?;
        Ok(Self {
            name: request.name.clone(),
            export,
            location,
            expect,
            origin,
            options,
        })
    }

    async fn run(self, shares: Arc<Shares>, operation: Operation) -> SnapshotOutcome {
        let key = (self.export, NameKey::of(&self.name));
        let what = format!("snapshot {:?}", self.name);
        let location = self.location.to_string();
        let expect = self.expect;
        let (name, origin) = (self.name, self.origin);
        // One that is there need not wait for its turn to copy. Without a wait the copy itself looks.
        if shares.copies_wait(&key.0) {
            let (again, of) = (name.clone(), origin.clone());
            let existing = shares
                .with_share(&key.0, &self.options, expect, move |share| {
                    let found = store::find::<Snapshot>(share, NameKey::of(&again))?;
                    Ok(found.map(|found| found.record).filter(|record| {
                        record.state == State::Ready
                            && snapshots::refusal(record, &again, &of).is_none()
                    }))
                })
                .await?;
            if existing.is_some() {
                return Ok(existing);
            }
        }
        let copied = shares
            .copy(
                Purpose::Snapshot,
                &key,
                (&self.options, expect),
                what,
                move |share, progress| {
                    snapshots::create(share, &name, &origin, &location, progress)
                },
            )
            .await;
        if let Err(error) = &copied {
            shares
                .copies
                .keep_failure(Purpose::Snapshot, &key, &operation, error);
            // Room that a failed copy took is wanted back.
            shares.purge_soon(&key.0);
        }
        copied.map(Some)
    }
}

/// Makes a snapshot. Answers only when the copy is complete: at the first answer that is OK an orchestrator lets the application
/// write again.
pub(super) async fn create(
    shares: &Arc<Shares>,
    patience: Duration,
    request: csi::CreateSnapshotRequest,
) -> Result<csi::CreateSnapshotResponse, ControllerError> {
    let creation = Creation::check(shares, &request)?;
    if let Some(id) = shares.upstream_volume(&request.source_volume_id)? {
        // Before the share gets records for a volume that is not there.
        upstream::find_volume(shares, &id, &creation.options).await?;
    }
    let key: OperationKey = (creation.export.clone(), NameKey::of(&creation.name));
    let operation = Operation {
        rpc: "CreateSnapshot",
        arguments: csi::CreateSnapshotRequest {
            secrets: Default::default(),
            ..request
        }
        .encode_to_vec(),
    };
    let copies = &shares.copies;
    if let Some(error) = copies.take_failure(Purpose::Snapshot, &key, &operation) {
        return Err(error);
    }
    let expect = creation.expect;
    let ended = shares
        .snapshot_operations
        .run_anew(
            key.clone(),
            operation.clone(),
            patience,
            |outcome| matches!(outcome, Ok(Some(_))),
            || creation.clone().run(Arc::clone(shares), operation.clone()),
        )
        .await?;
    if ended.is_err() {
        // It is heard now.
        copies.take_failure(Purpose::Snapshot, &key, &operation);
    }
    match (ended?, shares.expect_or(&key.0, expect)) {
        (Some(record), Expect::Known(uuid)) => Ok(csi::CreateSnapshotResponse {
            snapshot: Some(answer::snapshot(&key.0, uuid, &record)),
        }),
        _ => Err(ControllerError::ShuttingDown),
    }
}

/// Deletes a snapshot and starts the purge of what it was.
pub(super) async fn delete(
    shares: &Arc<Shares>,
    patience: Duration,
    request: csi::DeleteSnapshotRequest,
) -> Result<csi::DeleteSnapshotResponse, ControllerError> {
    limits::map("secrets", &request.secrets)?;
    if let Some(id) = shares.upstream_snapshot(&request.snapshot_id)? {
        upstream::delete_snapshot(shares, patience, id, &request.secrets).await?;
        return Ok(csi::DeleteSnapshotResponse {});
    }
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
    let options = secret_options(&request.secrets);
    (shares.config.check_mount_options)(&options).map_err(ControllerError::MountOption)?;
    let key: OperationKey = (export.clone(), id.key);
    let operation = Operation {
        rpc: "DeleteSnapshot",
        arguments: request.snapshot_id.into_bytes(),
    };
    let work = || run_delete(Arc::clone(shares), export.clone(), id.clone(), options);
    shares
        .snapshot_operations
        .run(key, operation, patience, work)
        .await??;
    Ok(csi::DeleteSnapshotResponse {})
}

async fn run_delete(
    shares: Arc<Shares>,
    export: Export,
    id: SnapshotId,
    options: Vec<String>,
) -> SnapshotOutcome {
    let (key, nonce) = (id.key, id.nonce);
    let deleted = shares
        .with_share(&export, &options, Expect::Known(id.uuid), move |share| {
            snapshots::delete(share, key, nonce)
        })
        .await;
    shares.purge_soon(&export);
    deleted.map(|()| None)
}

/// The snapshot of an id. One that is still copied is not there yet.
async fn find(
    shares: &Arc<Shares>,
    id: &SnapshotId,
    options: &[String],
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
    limits::map("secrets", &request.secrets)?;
    let options = secret_options(&request.secrets);
    (shares.config.check_mount_options)(&options).map_err(ControllerError::MountOption)?;
    let snapshot = match shares.upstream_snapshot(&request.snapshot_id)? {
        Some(id) => upstream::find_snapshot(shares, &id, &options).await?,
        None => {
            limits::required("snapshot_id", &request.snapshot_id)?;
            find(shares, &request.snapshot_id.parse()?, &options).await?
        }
    };
    Ok(csi::GetSnapshotResponse {
        snapshot: Some(snapshot),
    })
}

/// ListSnapshots: one, those of a volume, or all.
pub(super) async fn list(
    shares: &Arc<Shares>,
    patience: Duration,
    request: csi::ListSnapshotsRequest,
) -> Result<csi::ListSnapshotsResponse, ControllerError> {
    let max_entries = pages::max_entries(request.max_entries)?;
    let upstream_snapshot = shares.upstream_snapshot(&request.snapshot_id)?;
    let upstream_source = shares.upstream_volume(&request.source_volume_id)?;
    if upstream_snapshot.is_none() {
        limits::optional("snapshot_id", &request.snapshot_id)?;
    }
    if upstream_source.is_none() {
        limits::optional("source_volume_id", &request.source_volume_id)?;
    }
    limits::map("secrets", &request.secrets)?;
    let options = secret_options(&request.secrets);
    (shares.config.check_mount_options)(&options).map_err(ControllerError::MountOption)?;
    let entry = |snapshot| csi::list_snapshots_response::Entry {
        snapshot: Some(snapshot),
    };
    let wanted = &request.source_volume_id;
    if !request.snapshot_id.is_empty() {
        let found = match upstream_snapshot {
            Some(id) => upstream::find_snapshot(shares, &id, &options).await,
            None => {
                let Ok(id) = request.snapshot_id.parse() else {
                    return Ok(csi::ListSnapshotsResponse::default());
                };
                find(shares, &id, &options).await
            }
        };
        return match found {
            Ok(snapshot) if wanted.is_empty() || *wanted == snapshot.source_volume_id => {
                Ok(csi::ListSnapshotsResponse {
                    entries: vec![entry(snapshot)],
                    next_token: String::new(),
                })
            }
            Ok(_) => Ok(csi::ListSnapshotsResponse::default()),
            // The specification wants an empty list, not NOT_FOUND.
            Err(ControllerError::Share { source, .. })
                if matches!(*source, ShareError::NoSnapshot) =>
            {
                Ok(csi::ListSnapshotsResponse::default())
            }
            Err(other) => Err(other),
        };
    }
    let source = match (upstream_source, wanted.as_str()) {
        (Some(id), _) => {
            let origin = upstream::volume_origin(shares, &id)?;
            Some((origin.key, origin.nonce))
        }
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
        let show = move |export: &Export, uuid, _, record: Snapshot| {
            let fits =
                source.is_none_or(|source| source == (record.source.key, record.source.nonce));
            fits.then(|| entry(answer::snapshot(export, uuid, &record)))
        };
        pages::page::<Snapshot, _>(&of, limit, max_entries, token, show)
            .await
            .map(Arc::new)
    };
    let deadline = Instant::now() + patience;
    let listed = (shares.snapshot_lists).join(question.encode_to_vec(), deadline, work);
    let page = listed.await.ok_or(ControllerError::ShuttingDown)??;
    let (entries, next_token) = Arc::unwrap_or_clone(page);
    Ok(csi::ListSnapshotsResponse {
        entries,
        next_token,
    })
}
