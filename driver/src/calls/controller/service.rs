//! The Controller service of gRPC: which function answers which RPC. Must not know what they do.

use super::error::ControllerError;
use super::shares::Shares;
use super::{Controller, capacity, creation, deadline, snapshots, volumes};
use crate::calls::operations::reading;
use csi_proto::v1::controller_server;
use csi_proto::v1::controller_service_capability::rpc;
use csi_proto::v1::{self as csi};
use std::sync::Arc;
use std::time::Duration;
use tonic::{Request, Response, Status};

/// Each RPC, with its messages, whether it only reads, and the function that answers it.
macro_rules! service {
    ($($rpc:ident($request:ident) -> $response:ident = $kind:ident $answer:path;)*) => {
        #[tonic::async_trait]
        impl controller_server::Controller for Controller {
            $(async fn $rpc(
                &self,
                request: Request<csi::$request>,
            ) -> Result<Response<csi::$response>, Status> {
                let timeout = deadline::timeout(request.metadata(), self.shares.config.timeout);
                let answering = $answer(&self.shares, timeout, request.into_inner());
                Ok(Response::new(self.shares.$kind(timeout, answering).await?))
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
        -> ValidateVolumeCapabilitiesResponse = reading volumes::validate;
    list_volumes(ListVolumesRequest) -> ListVolumesResponse = reading volumes::list;
    controller_get_volume(ControllerGetVolumeRequest) -> ControllerGetVolumeResponse
        = reading volumes::get;
    get_capacity(GetCapacityRequest) -> GetCapacityResponse = reading capacity::get;
    create_snapshot(CreateSnapshotRequest) -> CreateSnapshotResponse = changing snapshots::create;
    delete_snapshot(DeleteSnapshotRequest) -> DeleteSnapshotResponse = changing snapshots::delete;
    list_snapshots(ListSnapshotsRequest) -> ListSnapshotsResponse = reading snapshots::list;
    get_snapshot(GetSnapshotRequest) -> GetSnapshotResponse = reading snapshots::get;
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
        call: impl Future<Output = Result<T, ControllerError>>,
    ) -> Result<T, ControllerError> {
        let _turn = reading()?;
        let bounded = tokio::time::timeout(timeout, call).await;
        bounded.unwrap_or_else(|_| Err(self.no_answer(timeout)))
    }

    /// For all others: they bound themselves, by their operation.
    async fn changing<T>(
        &self,
        _: Duration,
        call: impl Future<Output = Result<T, ControllerError>>,
    ) -> Result<T, ControllerError> {
        call.await
    }
}
