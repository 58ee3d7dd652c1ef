//! The Controller service of gRPC: which function answers which RPC. Must not know what they do.

use super::error::ControllerError;
use super::shares::Shares;
use super::{Controller, capacity, creation, deadline, snapshots, volumes};
use crate::calls::operations::reading;
use crate::calls::parameters::Parameters;
use crate::calls::volume_id::{SnapshotId, VolumeId};
use csi_nfs_store::export::Export;
use csi_proto::v1::controller_server;
use csi_proto::v1::controller_service_capability::rpc;
use csi_proto::v1::{self as csi};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tonic::{Request, Response, Status};

/// Each RPC, with its messages, whether it only reads, the function that answers it, and by which one it is known what share a call
/// is about that only reads, unless that is all of them.
macro_rules! service {
    ($($rpc:ident($request:ident) -> $response:ident
        = $kind:ident $answer:path $(, about $field:ident by $about:path)?;)*) => {
        #[tonic::async_trait]
        impl controller_server::Controller for Controller {
            $(async fn $rpc(
                &self,
                request: Request<csi::$request>,
            ) -> Result<Response<csi::$response>, Status> {
                let timeout = deadline::timeout(request.metadata(), self.shares.config.timeout);
                let request = request.into_inner();
                let about = None$(.or($about(&self.shares, &request.$field)))?;
                let answering = $answer(&self.shares, timeout, request);
                Ok(Response::new(self.shares.$kind(timeout, about, answering).await?))
            })*
        }
    };
}

service! {
    create_volume(CreateVolumeRequest) -> CreateVolumeResponse = changing creation::create;
    delete_volume(DeleteVolumeRequest) -> DeleteVolumeResponse = changing volumes::delete;
    controller_expand_volume(ControllerExpandVolumeRequest) -> ControllerExpandVolumeResponse
        = changing volumes::expand;
    controller_modify_volume(ControllerModifyVolumeRequest) -> ControllerModifyVolumeResponse
        = changing volumes::modify;
    validate_volume_capabilities(ValidateVolumeCapabilitiesRequest)
        -> ValidateVolumeCapabilitiesResponse = reading volumes::validate, about volume_id by Shares::of_volume;
    list_volumes(ListVolumesRequest) -> ListVolumesResponse = reading volumes::list;
    controller_get_volume(ControllerGetVolumeRequest) -> ControllerGetVolumeResponse
        = reading volumes::get, about volume_id by Shares::of_volume;
    get_capacity(GetCapacityRequest) -> GetCapacityResponse
        = reading capacity::get, about parameters by Shares::of_class;
    create_snapshot(CreateSnapshotRequest) -> CreateSnapshotResponse = changing snapshots::create;
    delete_snapshot(DeleteSnapshotRequest) -> DeleteSnapshotResponse = changing snapshots::delete;
    list_snapshots(ListSnapshotsRequest) -> ListSnapshotsResponse
        = reading snapshots::list, about snapshot_id by Shares::of_snapshot;
    get_snapshot(GetSnapshotRequest) -> GetSnapshotResponse
        = reading snapshots::get, about snapshot_id by Shares::of_snapshot;
    controller_get_capabilities(ControllerGetCapabilitiesRequest)
        -> ControllerGetCapabilitiesResponse = changing capabilities;
}

/// What this controller can do, and no more.
const CAPABILITIES: [rpc::Type; 12] = [
    rpc::Type::CreateDeleteVolume,
    rpc::Type::ListVolumes,
    rpc::Type::GetCapacity,
    rpc::Type::ExpandVolume,
    rpc::Type::VolumeCondition,
    rpc::Type::GetVolume,
    rpc::Type::SingleNodeMultiWriter,
    rpc::Type::CreateDeleteSnapshot,
    rpc::Type::ListSnapshots,
    rpc::Type::GetSnapshot,
    rpc::Type::CloneVolume,
    rpc::Type::ModifyVolume,
];

async fn capabilities(
    _: &Arc<Shares>,
    _: Duration,
    _: csi::ControllerGetCapabilitiesRequest,
) -> Result<csi::ControllerGetCapabilitiesResponse, ControllerError> {
    let capabilities = CAPABILITIES.into_iter().map(Into::into).collect();
    Ok(csi::ControllerGetCapabilitiesResponse { capabilities })
}

impl Shares {
    /// For calls that change nothing, and so need no table of what runs. A dead server must not hold them for ever.
    pub(super) async fn reading<T>(
        &self,
        timeout: Duration,
        about: Option<Export>,
        call: impl Future<Output = Result<T, ControllerError>>,
    ) -> Result<T, ControllerError> {
        let _turn = reading()?;
        let bounded = tokio::time::timeout(timeout, call).await;
        bounded.unwrap_or_else(|_| Err(self.no_answer(about.as_ref(), timeout)))
    }

    /// For all others: they bound themselves, by their operation.
    async fn changing<T>(
        &self,
        _: Duration,
        _: Option<Export>,
        call: impl Future<Output = Result<T, ControllerError>>,
    ) -> Result<T, ControllerError> {
        call.await
    }
}

/// The share that a call is about, as far as its request says that.
impl Shares {
    fn of_volume(&self, id: &str) -> Option<Export> {
        match self.config.upstream.volume(id).ok()? {
            Some(id) => Some(id.export),
            None => self.locate(&id.parse::<VolumeId>().ok()?.location).ok(),
        }
    }

    fn of_snapshot(&self, id: &str) -> Option<Export> {
        match self.config.upstream.snapshot(id).ok()? {
            Some(id) => Some(id.export),
            None => self.locate(&id.parse::<SnapshotId>().ok()?.location).ok(),
        }
    }

    fn of_class(&self, parameters: &BTreeMap<String, String>) -> Option<Export> {
        let parameters = Parameters::of_class(parameters).ok()?;
        Some(self.choose(&parameters).ok()?.export)
    }
}
