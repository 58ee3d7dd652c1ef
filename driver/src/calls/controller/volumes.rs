//! The calls about volumes, from their checks to their answers, but for CreateVolume, which is in `creation`.

use super::creation::check_range;
use super::error::ControllerError;
use super::options::Options;
use super::shares::Shares;
use super::{answer, changing, lists, upstream, validation};
use crate::calls::capability::{self, CapabilityError};
use crate::calls::limits;
use crate::calls::operations::Operation;
use crate::calls::parameters::{MUTABLE, Parameters};
use crate::calls::volume_id::{VOLUME, VolumeId};
use csi_nfs_store::export::Export;
use csi_nfs_store::share::database::{Expect, Share};
use csi_nfs_store::share::error::ShareError;
use csi_nfs_store::share::listing::{List, ListedVolume};
use csi_nfs_store::share::quotas;
use csi_nfs_store::share::records::record::Record;
use csi_nfs_store::share::records::volume::{Changes, Volume};
use csi_nfs_store::share::token::ShareUuid;
use csi_nfs_store::share::volume::change;
use csi_proto::v1 as csi;
use prost::Message;
use std::sync::Arc;
use std::time::Duration;

/// DeleteVolume.
pub(super) async fn delete(
    shares: &Arc<Shares>,
    timeout: Duration,
    request: csi::DeleteVolumeRequest,
) -> Result<csi::DeleteVolumeResponse, ControllerError> {
    let (id, secrets) = (request.volume_id, &request.secrets);
    limits::map("secrets", secrets)?;
    match shares.config.upstream.volume(&id)? {
        Some(id) => upstream::delete_volume(shares, timeout, id, secrets).await?,
        None => {
            limits::required("volume_id", &id)?;
            changing::delete::<Volume, VOLUME>(shares, timeout, "DeleteVolume", id, secrets)
                .await?;
        }
    }
    Ok(csi::DeleteVolumeResponse {})
}

/// ValidateVolumeCapabilities.
pub(super) async fn validate(
    shares: &Arc<Shares>,
    _timeout: Duration,
    request: csi::ValidateVolumeCapabilitiesRequest,
) -> Result<csi::ValidateVolumeCapabilitiesResponse, ControllerError> {
    validation::check_fields(&request)?;
    let upstream_id = shares.config.upstream.volume(&request.volume_id)?;
    if upstream_id.is_none() {
        limits::required("volume_id", &request.volume_id)?;
    }
    if request.volume_capabilities.is_empty() {
        return Err(CapabilityError::NoneGiven.into());
    }
    let described = match upstream_id {
        Some(id) => {
            upstream::find_volume(shares, &id, &Options::None).await?;
            upstream::check(shares, &id, &request)
        }
        None => {
            let found = find(shares, &request.volume_id, |_, _| Ok(())).await?;
            let (export, _, listed, ()) = found;
            validation::check(shares, &export, &listed.record, &request)
        }
    };
    Ok(validation::answer(described, request))
}

/// ListVolumes.
pub(super) async fn list(
    shares: &Arc<Shares>,
    timeout: Duration,
    request: csi::ListVolumesRequest,
) -> Result<csi::ListVolumesResponse, ControllerError> {
    let max_entries = lists::max_entries(request.max_entries)?;
    let arguments = request.encode_to_vec();
    let teller = Arc::clone(shares);
    let show = move |export: &Export, uuid, key, it| {
        let entry = answer::entry(&teller, export, uuid, key, it);
        entry.map_err(|odd| teller.tell_once(export, odd)).ok()
    };
    // A token that is too long is not one of ours, and that has a code of its own.
    let page = lists::page::<Volume, _>(
        (shares, &shares.volume_lists),
        ("ListVolumes", arguments),
        timeout,
        (max_entries, request.starting_token),
        show,
    );
    let (entries, next_token) = page.await?;
    Ok(csi::ListVolumesResponse {
        entries,
        next_token,
    })
}

/// ControllerGetVolume.
pub(super) async fn get(
    shares: &Arc<Shares>,
    _timeout: Duration,
    request: csi::ControllerGetVolumeRequest,
) -> Result<csi::ControllerGetVolumeResponse, ControllerError> {
    if let Some(id) = shares.config.upstream.volume(&request.volume_id)? {
        upstream::find_volume(shares, &id, &Options::None).await?;
        return Ok(answer::one_volume(
            upstream::volume(&id),
            answer::is_there(),
        ));
    }
    limits::required("volume_id", &request.volume_id)?;
    let found = find(shares, &request.volume_id, quotas::obstacle);
    let (export, uuid, listed, obstacle) = found.await?;
    let volume = answer::volume(shares, &export, uuid, &listed.record);
    let condition = answer::condition(listed, obstacle);
    Ok(answer::one_volume(volume, condition))
}

/// ControllerExpandVolume.
pub(super) async fn expand(
    shares: &Arc<Shares>,
    timeout: Duration,
    mut request: csi::ControllerExpandVolumeRequest,
) -> Result<csi::ControllerExpandVolumeResponse, ControllerError> {
    limits::map("secrets", &request.secrets)?;
    let upstream_id = shares.config.upstream.volume(&request.volume_id)?;
    if upstream_id.is_none() {
        limits::required("volume_id", &request.volume_id)?;
    }
    let (required, limit) = check_expansion(&request)?;
    let capacity_bytes = match upstream_id {
        // Advisory as ever; there is no record to write it to.
        Some(id) => {
            let found = upstream::find_volume(shares, &id, &Options::None);
            let about = Some(id.export.clone());
            shares.reading(timeout, about, found).await?;
            if required == 0 { limit } else { required }
        }
        None => {
            let id: VolumeId = request.volume_id.parse()?;
            request.secrets.clear();
            let operation = Operation::of("ControllerExpandVolume", &request);
            let (key, nonce) = (id.key, id.nonce);
            let expand =
                move |share: &Share| change::expand(share, key, nonce, required, limit).map(Some);
            let how = (operation, timeout);
            let changed = shares.change(how, id, Options::None, expand).await?;
            let record = changed.ok_or(ControllerError::ShuttingDown)?;
            record.what.capacity_bytes
        }
    };
    Ok(csi::ControllerExpandVolumeResponse {
        capacity_bytes,
        node_expansion_required: false,
    })
}

/// ControllerModifyVolume.
pub(super) async fn modify(
    shares: &Arc<Shares>,
    timeout: Duration,
    mut request: csi::ControllerModifyVolumeRequest,
) -> Result<csi::ControllerModifyVolumeResponse, ControllerError> {
    if shares.config.upstream.volume(&request.volume_id)?.is_some() {
        return Err(ControllerError::Invalid(
            "a volume of kubernetes-csi's driver cannot be modified: it has no record here"
                .to_owned(),
        ));
    }
    limits::required("volume_id", &request.volume_id)?;
    limits::map("secrets", &request.secrets)?;
    limits::map("mutable_parameters", &request.mutable_parameters)?;
    // None at all are no change: what an orchestrator's empty class of attributes asks for.
    let asked = Parameters::parse_known(&request.mutable_parameters, &MUTABLE)?;
    let options = shares.secret_options(&request.secrets)?;
    let id: VolumeId = request.volume_id.parse()?;
    request.secrets.clear();
    let operation = Operation::of("ControllerModifyVolume", &request);
    let changes = Changes {
        on_delete: asked.on_delete,
        mode: asked.mode,
        uid: asked.uid,
        gid: asked.gid,
    };
    let (key, nonce) = (id.key, id.nonce);
    let modify = move |share: &Share| change::modify(share, key, nonce, &changes).map(Some);
    shares
        .change((operation, timeout), id, options, modify)
        .await?;
    Ok(csi::ControllerModifyVolumeResponse {})
}

/// Checks the fields of an expansion beside the id. Returns its range, which has to name a size.
fn check_expansion(
    request: &csi::ControllerExpandVolumeRequest,
) -> Result<(i64, i64), ControllerError> {
    let missing = limits::LimitError::Missing("capacity_range");
    let range = request.capacity_range.ok_or(missing)?;
    let range = check_range(Some(&range))?;
    if range == (0, 0) {
        return Err(ControllerError::Invalid(
            "capacity_range has no size: give required_bytes or limit_bytes".to_owned(),
        ));
    }
    if let Some(one) = &request.volume_capability {
        capability::check(Some(one))?;
    }
    Ok(range)
}

/// The volume of an id, and what `more` finds of it on its share.
async fn find<T: Send + 'static>(
    shares: &Arc<Shares>,
    volume_id: &str,
    more: impl FnOnce(&Share, &Record<Volume>) -> Result<T, ShareError> + Send + 'static,
) -> Result<(Export, ShareUuid, ListedVolume, T), ControllerError> {
    let id: VolumeId = volume_id.parse()?;
    let export = shares.locate(&id.location)?;
    let (key, nonce) = (id.key, id.nonce);
    let (listed, more) = shares
        .with_share(
            &export,
            &Options::None,
            Expect::Known(id.uuid),
            move |share| match Volume::read(share, key)? {
                Some(Ok(listed)) if listed.record.nonce == nonce => {
                    let more = more(share, &listed.record)?;
                    Ok((listed, more))
                }
                Some(Err(record)) if record.nonce.is_none_or(|of| of == nonce) => {
                    Err(ShareError::Damaged {
                        what: format!("the volume with the record volumes/{key}"),
                        detail: record.detail,
                    })
                }
                _ => Err(ShareError::NoVolume),
            },
        )
        .await?;
    Ok((export, id.uuid, listed, more))
}
