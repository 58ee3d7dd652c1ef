//! The calls about snapshots, from their checks to their answers.

use super::copying::Creation;
use super::error::ControllerError;
use super::options::Options;
use super::outcome::SnapshotOutcome;
use super::shares::Shares;
use super::{answer, changing, lists, upstream};
use crate::calls::limits;
use crate::calls::operations::Operation;
use crate::calls::parameters::{OF_SNAPSHOTS, Parameters, secret_options};
use crate::calls::volume_id::{Location, SNAPSHOT, SnapshotId, VolumeId};
use crate::upstream::ids::UpstreamVolumeId;
use csi_nfs_store::export::Export;
use csi_nfs_store::share::database::Expect;
use csi_nfs_store::share::error::ShareError;
use csi_nfs_store::share::records::origin::Origin;
use csi_nfs_store::share::records::record::Record;
use csi_nfs_store::share::records::snapshot::{Snapshot, Wanted};
use csi_nfs_store::share::records::store;
use csi_nfs_store::share::snapshots;
use csi_nfs_store::share::token::ShareUuid;
use csi_proto::v1 as csi;
use prost::Message;
use std::sync::Arc;
use std::time::Duration;

/// CreateSnapshot. Answers only when the copy is complete: at the first answer that is OK an orchestrator lets the application
/// write again.
pub(super) async fn create(
    shares: &Arc<Shares>,
    timeout: Duration,
    request: csi::CreateSnapshotRequest,
) -> Result<csi::CreateSnapshotResponse, ControllerError> {
    let (creation, upstream) = check(shares, request)?;
    let work = || run(Arc::clone(shares), creation.clone(), upstream.clone());
    let (record, uuid) = shares.create(&creation, timeout, work).await?;
    Ok(csi::CreateSnapshotResponse {
        snapshot: Some(answer::snapshot(shares, &creation.export, uuid, &record)),
    })
}

/// Checks a CreateSnapshot. Returns what it wants, and the source, where kubernetes-csi's driver has made it.
fn check(
    shares: &Shares,
    mut request: csi::CreateSnapshotRequest,
) -> Result<(Creation<Snapshot>, Option<UpstreamVolumeId>), ControllerError> {
    limits::name("name", &request.name)?;
    limits::map("parameters", &request.parameters)?;
    limits::map("secrets", &request.secrets)?;
    let parameters = Parameters::parse_known(&request.parameters, &OF_SNAPSHOTS)?;
    let upstream = shares.config.upstream.volume(&request.source_volume_id)?;
    let (export, location, expect, origin) = match &upstream {
        Some(id) => {
            let export = shares.locate(&Location::Export(id.export.clone()))?;
            let location = shares.at(export.clone())?.location;
            (export, location, Expect::Any, id.origin())
        }
        None => {
            let text = &request.source_volume_id;
            limits::required("source_volume_id", text)?;
            let source: VolumeId = text.parse()?;
            let origin = Origin::new(text, source.key, source.nonce);
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
    let secret = secret_options(&std::mem::take(&mut request.secrets));
    let options = Options::of_call(parameters.mount_options, secret);
    shares.check_mount_options(options.words())?;
    let operation = Operation::of("CreateSnapshot", &request);
    let creation = Creation {
        export,
        location,
        expect,
        options,
        wanted: Wanted {
            name: request.name,
            source: origin,
        },
        operation,
    };
    Ok((creation, upstream))
}

async fn run(
    shares: Arc<Shares>,
    creation: Creation<Snapshot>,
    upstream: Option<UpstreamVolumeId>,
) -> SnapshotOutcome {
    if let Some(id) = &upstream {
        // Before the share gets records for a volume that is not there.
        let found = upstream::find_volume(&shares, id, &creation.options).await;
        if let Err(refused) = found {
            return shares.made_before(&creation, None, refused).await;
        }
    }
    shares.create_copy(creation, None).await
}

/// DeleteSnapshot.
pub(super) async fn delete(
    shares: &Arc<Shares>,
    timeout: Duration,
    request: csi::DeleteSnapshotRequest,
) -> Result<csi::DeleteSnapshotResponse, ControllerError> {
    let (id, secrets) = (request.snapshot_id, &request.secrets);
    limits::map("secrets", secrets)?;
    match shares.config.upstream.snapshot(&id)? {
        Some(id) => upstream::delete_snapshot(shares, timeout, id, secrets).await?,
        None => {
            limits::required("snapshot_id", &id)?;
            changing::delete::<Snapshot, SNAPSHOT>(shares, timeout, "DeleteSnapshot", id, secrets)
                .await?;
        }
    }
    Ok(csi::DeleteSnapshotResponse {})
}

/// The snapshot of an id, and where its share is. One that is still copied is not there yet.
async fn find(
    shares: &Arc<Shares>,
    id: &SnapshotId,
    options: &Options,
) -> Result<(Export, Record<Snapshot>), ControllerError> {
    let export = shares.locate(&id.location)?;
    let (key, nonce) = (id.key, id.nonce);
    let record = shares
        .with_share(&export, options, Expect::Known(id.uuid), move |share| {
            // A record that cannot be used must not look as if the snapshot were gone.
            let found = store::find::<Snapshot>(share, key)?;
            let found = found.filter(|found| found.record.nonce == nonce);
            let finished = found.map(|found| snapshots::finished(share, found));
            let finished = finished.transpose()?.flatten();
            finished.ok_or(ShareError::NoSnapshot)
        })
        .await?;
    Ok((export, record))
}

/// GetSnapshot.
pub(super) async fn get(
    shares: &Arc<Shares>,
    _: Duration,
    request: csi::GetSnapshotRequest,
) -> Result<csi::GetSnapshotResponse, ControllerError> {
    let options = shares.secret_options(&request.secrets)?;
    let snapshot = match shares.config.upstream.snapshot(&request.snapshot_id)? {
        Some(id) => upstream::find_snapshot(shares, &id, &options).await?,
        None => {
            limits::required("snapshot_id", &request.snapshot_id)?;
            let id: SnapshotId = request.snapshot_id.parse()?;
            let (export, record) = find(shares, &id, &options).await?;
            answer::snapshot(shares, &export, id.uuid, &record)
        }
    };
    Ok(csi::GetSnapshotResponse {
        snapshot: Some(snapshot),
    })
}

/// The volume whose snapshots are asked for.
#[derive(Clone)]
enum SourceWanted {
    Any,
    Of(VolumeId),
    /// One that kubernetes-csi's driver has made. Its id has no UUID.
    Upstream(UpstreamVolumeId),
}

impl SourceWanted {
    /// Whether a snapshot of `origin` on the share `uuid` is one of that volume. Neither the id's text counts, since a share may have
    /// several names, nor do key and nonce alone, which are the same on a copy of the share.
    fn fits(&self, uuid: ShareUuid, origin: &Origin) -> bool {
        match self {
            Self::Any => true,
            Self::Of(id) => (id.uuid, id.key, id.nonce) == (uuid, origin.key, origin.nonce),
            Self::Upstream(id) => id.origin().is_same(origin),
        }
    }

    /// The same of a snapshot that kubernetes-csi's driver has made of the volume `told`.
    fn fits_upstream(&self, told: &str) -> bool {
        match self {
            Self::Any => true,
            Self::Of(_) => false,
            // What else an id says, as what becomes of the folder, makes no other volume.
            Self::Upstream(id) => UpstreamVolumeId::parse(told)
                .is_ok_and(|told| told.export == id.export && told.path == id.path),
        }
    }
}

/// ListSnapshots: one, those of a volume, or all.
pub(super) async fn list(
    shares: &Arc<Shares>,
    timeout: Duration,
    request: csi::ListSnapshotsRequest,
) -> Result<csi::ListSnapshotsResponse, ControllerError> {
    let max_entries = lists::max_entries(request.max_entries)?;
    let wanted = &request.source_volume_id;
    let upstream_ids = shares.config.upstream;
    let upstream_snapshot = upstream_ids.snapshot(&request.snapshot_id)?;
    let upstream_volume = upstream_ids.volume(wanted)?;
    if upstream_snapshot.is_none() {
        limits::optional("snapshot_id", &request.snapshot_id)?;
    }
    if upstream_volume.is_none() {
        limits::optional("source_volume_id", wanted)?;
    }
    let options = shares.secret_options(&request.secrets)?;
    let source = match (upstream_volume, wanted.as_str()) {
        (Some(id), _) => SourceWanted::Upstream(id),
        (None, "") => SourceWanted::Any,
        (None, id) => match id.parse() {
            Ok(id) => SourceWanted::Of(id),
            Err(_) => return Ok(csi::ListSnapshotsResponse::default()),
        },
    };
    if let Some(id) = upstream_snapshot {
        let found = upstream::find_snapshot(shares, &id, &options).await;
        let fits = |found: &csi::Snapshot| source.fits_upstream(&found.source_volume_id);
        return list_of_one(found.map(|found| Some(found).filter(fits)));
    }
    if !request.snapshot_id.is_empty() {
        let Ok(id) = request.snapshot_id.parse::<SnapshotId>() else {
            return Ok(csi::ListSnapshotsResponse::default());
        };
        let found = find(shares, &id, &options).await;
        return list_of_one(found.map(|(export, record)| {
            let fits = source.fits(id.uuid, &record.what.wanted.source);
            fits.then(|| answer::snapshot(shares, &export, id.uuid, &record))
        }));
    }
    if let SourceWanted::Upstream(id) = &source {
        shares.locate(&Location::Export(id.export.clone()))?;
    }
    let token = request.starting_token.clone();
    let arguments = csi::ListSnapshotsRequest {
        secrets: Default::default(),
        ..request
    }
    .encode_to_vec();
    let teller = Arc::clone(shares);
    let show = move |export: &Export, uuid, _, listed: Result<Record<Snapshot>, ShareError>| {
        let told = |damaged: ShareError| teller.tell_once(export, damaged.to_string());
        let record = listed.map_err(told).ok()?;
        let fits = source.fits(uuid, &record.what.wanted.source);
        fits.then(|| as_entry(answer::snapshot(&teller, export, uuid, &record)))
    };
    let page = lists::page::<Snapshot, _>(
        (shares, &shares.snapshot_lists),
        ("ListSnapshots", arguments),
        timeout,
        (max_entries, token),
        show,
    );
    let (entries, next_token) = page.await?;
    Ok(csi::ListSnapshotsResponse {
        entries,
        next_token,
    })
}

/// The list of the one snapshot that was asked for; nothing where it is of another volume than the one that was.
fn list_of_one(
    found: Result<Option<csi::Snapshot>, ControllerError>,
) -> Result<csi::ListSnapshotsResponse, ControllerError> {
    match found {
        Ok(snapshot) => Ok(csi::ListSnapshotsResponse {
            entries: snapshot.map(as_entry).into_iter().collect(),
            next_token: String::new(),
        }),
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
