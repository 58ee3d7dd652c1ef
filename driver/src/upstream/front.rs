//! The Controller service in front of the controller's own: answers calls about volumes and snapshots of kubernetes-csi's
//! driver, and hands all others on. Owns which calls these are; what each does is in `calls`.

use super::calls;
use super::ids::{self, UpstreamIdError, UpstreamSnapshotId, UpstreamVolumeId};
use crate::calls::capability::CapabilityError;
use crate::calls::controller::error::ControllerError;
use crate::calls::controller::options::Options;
use crate::calls::controller::snapshots::{self, Creation};
use crate::calls::controller::volumes::{GivenSource, SourceShare, check_expansion};
use crate::calls::controller::{Answer, Controller, answer, answer_with, pages, validation};
use crate::calls::limits;
use crate::calls::volume_id::{SnapshotId, VolumeId};
use crate::share::records::origin::Source;
use csi_proto::v1 as csi;
use csi_proto::v1::controller_server;
use csi_proto::v1::volume_content_source::Type;
use std::collections::BTreeMap;
use tonic::{Request, Status};

/// The Controller service of a driver that may be sent ids of kubernetes-csi's driver. Cheap to clone.
#[derive(Clone)]
pub struct UpstreamFront {
    controller: Controller,
    serves: bool,
}

impl UpstreamFront {
    /// The service in front of `controller`. Unless it `serves` such ids it refuses them, since nobody else would know them.
    pub fn new(controller: Controller, serves: bool) -> Self {
        Self { controller, serves }
    }

    /// The controller behind it.
    pub fn controller(&self) -> &Controller {
        &self.controller
    }

    /// The volume of kubernetes-csi's driver that `id` means; nothing when `id` is none of its ids.
    fn volume(&self, id: &str) -> Result<Option<UpstreamVolumeId>, UpstreamIdError> {
        if !ids::may_be_volume(id) || id.parse::<VolumeId>().is_ok() {
            return Ok(None);
        }
        self.check_served(id)?;
        Ok(Some(UpstreamVolumeId::parse(id)?))
    }

    /// As [`UpstreamFront::volume`], for a snapshot.
    fn snapshot(&self, id: &str) -> Result<Option<UpstreamSnapshotId>, UpstreamIdError> {
        if !ids::may_be_snapshot(id) || id.parse::<SnapshotId>().is_ok() {
            return Ok(None);
        }
        self.check_served(id)?;
        Ok(Some(UpstreamSnapshotId::parse(id)?))
    }

    fn check_served(&self, id: &str) -> Result<(), UpstreamIdError> {
        match self.serves {
            true => Ok(()),
            false => Err(UpstreamIdError::NotServed(id.chars().take(256).collect())),
        }
    }

    /// The source of a copy, where kubernetes-csi's driver has made it.
    fn source(&self, request: &csi::CreateVolumeRequest) -> Result<Option<GivenSource>, Status> {
        let shares = &self.controller.shares;
        let source = request.volume_content_source.as_ref();
        Ok(match source.and_then(|source| source.r#type.as_ref()) {
            None => None,
            Some(Type::Volume(volume)) => match self.volume(&volume.volume_id)? {
                None => None,
                Some(id) => {
                    let origin = calls::volume_origin(shares, &id)?;
                    Some((Source::Volume(origin), SourceShare::At(id.export)))
                }
            },
            Some(Type::Snapshot(snapshot)) => match self.snapshot(&snapshot.snapshot_id)? {
                None => None,
                Some(id) => {
                    let origin = calls::archive_origin(shares, &id)?;
                    Some((Source::Archive(origin), SourceShare::At(id.export)))
                }
            },
        })
    }

    async fn validate(
        &self,
        id: UpstreamVolumeId,
        request: csi::ValidateVolumeCapabilitiesRequest,
    ) -> Result<csi::ValidateVolumeCapabilitiesResponse, ControllerError> {
        let shares = &self.controller.shares;
        validation::check_fields(&request)?;
        if request.volume_capabilities.is_empty() {
            return Err(CapabilityError::NoneGiven.into());
        }
        calls::find_volume(shares, &id, &Options::None).await?;
        let objection = calls::objection(shares, &id, &request);
        Ok(validation::answer(objection, request))
    }

    async fn get(
        &self,
        id: UpstreamVolumeId,
    ) -> Result<csi::ControllerGetVolumeResponse, ControllerError> {
        calls::find_volume(&self.controller.shares, &id, &Options::None).await?;
        Ok(answer::one_volume(calls::volume(&id), answer::is_there()))
    }

    /// Advisory as ever; there is no record to write it to.
    async fn expand(
        &self,
        id: UpstreamVolumeId,
        request: csi::ControllerExpandVolumeRequest,
    ) -> Result<csi::ControllerExpandVolumeResponse, ControllerError> {
        limits::map("secrets", &request.secrets)?;
        let range = check_expansion(&request)?;
        calls::find_volume(&self.controller.shares, &id, &Options::None).await?;
        Ok(csi::ControllerExpandVolumeResponse {
            capacity_bytes: match range.required_bytes {
                0 => range.limit_bytes,
                required => required,
            },
            node_expansion_required: false,
        })
    }

    async fn get_one_snapshot(
        &self,
        id: &UpstreamSnapshotId,
        secrets: &BTreeMap<String, String>,
    ) -> Result<csi::Snapshot, ControllerError> {
        let options = self.controller.shares.secret_options(secrets)?;
        calls::find_snapshot(&self.controller.shares, id, &options).await
    }
}

#[tonic::async_trait]
impl controller_server::Controller for UpstreamFront {
    async fn create_volume(
        &self,
        request: Request<csi::CreateVolumeRequest>,
    ) -> Answer<csi::CreateVolumeResponse> {
        let timeout = self.controller.timeout(&request);
        let given = self.source(request.get_ref())?;
        let request = request.into_inner();
        answer_with(self.controller.create(timeout, request, given).await)
    }

    async fn delete_volume(
        &self,
        request: Request<csi::DeleteVolumeRequest>,
    ) -> Answer<csi::DeleteVolumeResponse> {
        let Some(id) = self.volume(&request.get_ref().volume_id)? else {
            return self.controller.delete_volume(request).await;
        };
        let timeout = self.controller.timeout(&request);
        let secrets = &request.get_ref().secrets;
        limits::map("secrets", secrets).map_err(ControllerError::from)?;
        let shares = &self.controller.shares;
        let otherwise = shares.config.defaults.on_delete;
        let deleted = calls::delete_volume(shares, timeout, id, secrets, otherwise).await;
        answer_with(deleted.map(|()| csi::DeleteVolumeResponse {}))
    }

    async fn validate_volume_capabilities(
        &self,
        request: Request<csi::ValidateVolumeCapabilitiesRequest>,
    ) -> Answer<csi::ValidateVolumeCapabilitiesResponse> {
        let Some(id) = self.volume(&request.get_ref().volume_id)? else {
            return self.controller.validate_volume_capabilities(request).await;
        };
        let timeout = self.controller.timeout(&request);
        answer_with(
            self.controller
                .bounded(timeout, self.validate(id, request.into_inner()))
                .await,
        )
    }

    async fn list_volumes(
        &self,
        request: Request<csi::ListVolumesRequest>,
    ) -> Answer<csi::ListVolumesResponse> {
        self.controller.list_volumes(request).await
    }

    async fn controller_get_volume(
        &self,
        request: Request<csi::ControllerGetVolumeRequest>,
    ) -> Answer<csi::ControllerGetVolumeResponse> {
        let Some(id) = self.volume(&request.get_ref().volume_id)? else {
            return self.controller.controller_get_volume(request).await;
        };
        let timeout = self.controller.timeout(&request);
        answer_with(self.controller.bounded(timeout, self.get(id)).await)
    }

    async fn get_capacity(
        &self,
        request: Request<csi::GetCapacityRequest>,
    ) -> Answer<csi::GetCapacityResponse> {
        self.controller.get_capacity(request).await
    }

    async fn controller_expand_volume(
        &self,
        request: Request<csi::ControllerExpandVolumeRequest>,
    ) -> Answer<csi::ControllerExpandVolumeResponse> {
        let Some(id) = self.volume(&request.get_ref().volume_id)? else {
            return self.controller.controller_expand_volume(request).await;
        };
        let timeout = self.controller.timeout(&request);
        answer_with(
            self.controller
                .bounded(timeout, self.expand(id, request.into_inner()))
                .await,
        )
    }

    async fn controller_get_capabilities(
        &self,
        request: Request<csi::ControllerGetCapabilitiesRequest>,
    ) -> Answer<csi::ControllerGetCapabilitiesResponse> {
        self.controller.controller_get_capabilities(request).await
    }

    async fn create_snapshot(
        &self,
        request: Request<csi::CreateSnapshotRequest>,
    ) -> Answer<csi::CreateSnapshotResponse> {
        let Some(id) = self.volume(&request.get_ref().source_volume_id)? else {
            return self.controller.create_snapshot(request).await;
        };
        let timeout = self.controller.timeout(&request);
        let request = request.into_inner();
        let shares = &self.controller.shares;
        let origin = calls::volume_origin(shares, &id)?;
        let creation = Creation::check(shares, &request, Some((origin, id.export.clone())))?;
        // Before the share gets records for a volume that is not there.
        calls::find_volume(shares, &id, creation.options()).await?;
        answer_with(snapshots::create(shares, timeout, request, creation).await)
    }

    async fn delete_snapshot(
        &self,
        request: Request<csi::DeleteSnapshotRequest>,
    ) -> Answer<csi::DeleteSnapshotResponse> {
        let Some(id) = self.snapshot(&request.get_ref().snapshot_id)? else {
            return self.controller.delete_snapshot(request).await;
        };
        let timeout = self.controller.timeout(&request);
        let secrets = &request.get_ref().secrets;
        limits::map("secrets", secrets).map_err(ControllerError::from)?;
        let shares = &self.controller.shares;
        let deleted = calls::delete_snapshot(shares, timeout, id, secrets).await;
        answer_with(deleted.map(|()| csi::DeleteSnapshotResponse {}))
    }

    async fn list_snapshots(
        &self,
        request: Request<csi::ListSnapshotsRequest>,
    ) -> Answer<csi::ListSnapshotsResponse> {
        let snapshot = self.snapshot(&request.get_ref().snapshot_id)?;
        let source = self.volume(&request.get_ref().source_volume_id)?;
        let timeout = self.controller.timeout(&request);
        let request = request.into_inner();
        let shares = &self.controller.shares;
        match (snapshot, source) {
            (None, None) => self.controller.list_snapshots(Request::new(request)).await,
            (None, Some(volume)) => {
                let origin = calls::volume_origin(shares, &volume)?;
                let listing = snapshots::list(shares, timeout, request, Some(origin));
                answer_with(self.controller.bounded(timeout, listing).await)
            }
            (Some(snapshot), source) => {
                let checked = match source {
                    Some(_) => Ok(()),
                    None => limits::optional("source_volume_id", &request.source_volume_id),
                };
                checked.map_err(ControllerError::from)?;
                pages::max_entries(request.max_entries)?;
                let finding = async {
                    let found = self.get_one_snapshot(&snapshot, &request.secrets).await;
                    snapshots::list_of_one(found, &request.source_volume_id)
                };
                answer_with(self.controller.bounded(timeout, finding).await)
            }
        }
    }

    async fn get_snapshot(
        &self,
        request: Request<csi::GetSnapshotRequest>,
    ) -> Answer<csi::GetSnapshotResponse> {
        let Some(id) = self.snapshot(&request.get_ref().snapshot_id)? else {
            return self.controller.get_snapshot(request).await;
        };
        let timeout = self.controller.timeout(&request);
        let finding = self.get_one_snapshot(&id, &request.get_ref().secrets);
        let found = self.controller.bounded(timeout, finding).await;
        answer_with(found.map(|snapshot| csi::GetSnapshotResponse {
            snapshot: Some(snapshot),
        }))
    }

    async fn controller_modify_volume(
        &self,
        request: Request<csi::ControllerModifyVolumeRequest>,
    ) -> Answer<csi::ControllerModifyVolumeResponse> {
        if self.volume(&request.get_ref().volume_id)?.is_some() {
            let problem =
                "a volume of kubernetes-csi's driver cannot be modified: it has no record here";
            return Err(ControllerError::Invalid(problem.to_owned()).into());
        }
        self.controller.controller_modify_volume(request).await
    }
}
