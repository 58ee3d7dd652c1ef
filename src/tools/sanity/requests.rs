//! Every request with its method and its reply, so that a call needs no more than its request.

use csi_proto::schema::Method;
use csi_proto::{tables, v1};
use prost::Message;

/// A request of an RPC.
pub trait Request: Message {
    /// What the RPC answers; of a stream, each of its messages.
    type Reply: Message + Default;
    /// The RPC.
    const METHOD: &'static Method;
}

macro_rules! requests {
    ($($method:ident: $request:ident => $reply:ident),* $(,)?) => {
        $(impl Request for v1::$request {
            type Reply = v1::$reply;
            const METHOD: &'static Method = &tables::$method;
        })*

        #[cfg(test)]
        const DECLARED: &[&str] = &[$(tables::$method.name),*];
    };
}

requests! {
    IDENTITY_GET_PLUGIN_INFO: GetPluginInfoRequest => GetPluginInfoResponse,
    IDENTITY_GET_PLUGIN_CAPABILITIES: GetPluginCapabilitiesRequest => GetPluginCapabilitiesResponse,
    IDENTITY_PROBE: ProbeRequest => ProbeResponse,
    CONTROLLER_CREATE_VOLUME: CreateVolumeRequest => CreateVolumeResponse,
    CONTROLLER_DELETE_VOLUME: DeleteVolumeRequest => DeleteVolumeResponse,
    CONTROLLER_CONTROLLER_PUBLISH_VOLUME: ControllerPublishVolumeRequest => ControllerPublishVolumeResponse,
    CONTROLLER_CONTROLLER_UNPUBLISH_VOLUME: ControllerUnpublishVolumeRequest => ControllerUnpublishVolumeResponse,
    CONTROLLER_VALIDATE_VOLUME_CAPABILITIES: ValidateVolumeCapabilitiesRequest => ValidateVolumeCapabilitiesResponse,
    CONTROLLER_LIST_VOLUMES: ListVolumesRequest => ListVolumesResponse,
    CONTROLLER_GET_CAPACITY: GetCapacityRequest => GetCapacityResponse,
    CONTROLLER_CONTROLLER_GET_CAPABILITIES: ControllerGetCapabilitiesRequest => ControllerGetCapabilitiesResponse,
    CONTROLLER_CREATE_SNAPSHOT: CreateSnapshotRequest => CreateSnapshotResponse,
    CONTROLLER_DELETE_SNAPSHOT: DeleteSnapshotRequest => DeleteSnapshotResponse,
    CONTROLLER_LIST_SNAPSHOTS: ListSnapshotsRequest => ListSnapshotsResponse,
    CONTROLLER_GET_SNAPSHOT: GetSnapshotRequest => GetSnapshotResponse,
    CONTROLLER_CONTROLLER_EXPAND_VOLUME: ControllerExpandVolumeRequest => ControllerExpandVolumeResponse,
    CONTROLLER_CONTROLLER_GET_VOLUME: ControllerGetVolumeRequest => ControllerGetVolumeResponse,
    CONTROLLER_CONTROLLER_MODIFY_VOLUME: ControllerModifyVolumeRequest => ControllerModifyVolumeResponse,
    GROUP_CONTROLLER_GROUP_CONTROLLER_GET_CAPABILITIES: GroupControllerGetCapabilitiesRequest => GroupControllerGetCapabilitiesResponse,
    GROUP_CONTROLLER_CREATE_VOLUME_GROUP_SNAPSHOT: CreateVolumeGroupSnapshotRequest => CreateVolumeGroupSnapshotResponse,
    GROUP_CONTROLLER_DELETE_VOLUME_GROUP_SNAPSHOT: DeleteVolumeGroupSnapshotRequest => DeleteVolumeGroupSnapshotResponse,
    GROUP_CONTROLLER_GET_VOLUME_GROUP_SNAPSHOT: GetVolumeGroupSnapshotRequest => GetVolumeGroupSnapshotResponse,
    SNAPSHOT_METADATA_GET_METADATA_ALLOCATED: GetMetadataAllocatedRequest => GetMetadataAllocatedResponse,
    SNAPSHOT_METADATA_GET_METADATA_DELTA: GetMetadataDeltaRequest => GetMetadataDeltaResponse,
    NODE_NODE_STAGE_VOLUME: NodeStageVolumeRequest => NodeStageVolumeResponse,
    NODE_NODE_UNSTAGE_VOLUME: NodeUnstageVolumeRequest => NodeUnstageVolumeResponse,
    NODE_NODE_PUBLISH_VOLUME: NodePublishVolumeRequest => NodePublishVolumeResponse,
    NODE_NODE_UNPUBLISH_VOLUME: NodeUnpublishVolumeRequest => NodeUnpublishVolumeResponse,
    NODE_NODE_GET_VOLUME_STATS: NodeGetVolumeStatsRequest => NodeGetVolumeStatsResponse,
    NODE_NODE_EXPAND_VOLUME: NodeExpandVolumeRequest => NodeExpandVolumeResponse,
    NODE_NODE_GET_CAPABILITIES: NodeGetCapabilitiesRequest => NodeGetCapabilitiesResponse,
    NODE_NODE_GET_INFO: NodeGetInfoRequest => NodeGetInfoResponse,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rpc_has_its_request() {
        let mut declared = DECLARED.to_vec();
        declared.sort_unstable();
        declared.dedup();
        assert_eq!(declared.len(), tables::METHODS.len());
    }
}
