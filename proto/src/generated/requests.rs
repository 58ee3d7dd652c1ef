// Generated from csi.proto by tests/generated.rs; not to be edited.

use crate::{tables, v1};
impl Request for v1::GetPluginInfoRequest {
    type Reply = v1::GetPluginInfoResponse;
    const METHOD: &'static Method = &tables::IDENTITY_GET_PLUGIN_INFO;
}
impl Request for v1::GetPluginCapabilitiesRequest {
    type Reply = v1::GetPluginCapabilitiesResponse;
    const METHOD: &'static Method = &tables::IDENTITY_GET_PLUGIN_CAPABILITIES;
}
impl Request for v1::ProbeRequest {
    type Reply = v1::ProbeResponse;
    const METHOD: &'static Method = &tables::IDENTITY_PROBE;
}
impl Request for v1::CreateVolumeRequest {
    type Reply = v1::CreateVolumeResponse;
    const METHOD: &'static Method = &tables::CONTROLLER_CREATE_VOLUME;
}
impl Request for v1::DeleteVolumeRequest {
    type Reply = v1::DeleteVolumeResponse;
    const METHOD: &'static Method = &tables::CONTROLLER_DELETE_VOLUME;
}
impl Request for v1::ControllerPublishVolumeRequest {
    type Reply = v1::ControllerPublishVolumeResponse;
    const METHOD: &'static Method = &tables::CONTROLLER_CONTROLLER_PUBLISH_VOLUME;
}
impl Request for v1::ControllerUnpublishVolumeRequest {
    type Reply = v1::ControllerUnpublishVolumeResponse;
    const METHOD: &'static Method = &tables::CONTROLLER_CONTROLLER_UNPUBLISH_VOLUME;
}
impl Request for v1::ValidateVolumeCapabilitiesRequest {
    type Reply = v1::ValidateVolumeCapabilitiesResponse;
    const METHOD: &'static Method = &tables::CONTROLLER_VALIDATE_VOLUME_CAPABILITIES;
}
impl Request for v1::ListVolumesRequest {
    type Reply = v1::ListVolumesResponse;
    const METHOD: &'static Method = &tables::CONTROLLER_LIST_VOLUMES;
}
impl Request for v1::GetCapacityRequest {
    type Reply = v1::GetCapacityResponse;
    const METHOD: &'static Method = &tables::CONTROLLER_GET_CAPACITY;
}
impl Request for v1::ControllerGetCapabilitiesRequest {
    type Reply = v1::ControllerGetCapabilitiesResponse;
    const METHOD: &'static Method = &tables::CONTROLLER_CONTROLLER_GET_CAPABILITIES;
}
impl Request for v1::CreateSnapshotRequest {
    type Reply = v1::CreateSnapshotResponse;
    const METHOD: &'static Method = &tables::CONTROLLER_CREATE_SNAPSHOT;
}
impl Request for v1::DeleteSnapshotRequest {
    type Reply = v1::DeleteSnapshotResponse;
    const METHOD: &'static Method = &tables::CONTROLLER_DELETE_SNAPSHOT;
}
impl Request for v1::ListSnapshotsRequest {
    type Reply = v1::ListSnapshotsResponse;
    const METHOD: &'static Method = &tables::CONTROLLER_LIST_SNAPSHOTS;
}
impl Request for v1::GetSnapshotRequest {
    type Reply = v1::GetSnapshotResponse;
    const METHOD: &'static Method = &tables::CONTROLLER_GET_SNAPSHOT;
}
impl Request for v1::ControllerExpandVolumeRequest {
    type Reply = v1::ControllerExpandVolumeResponse;
    const METHOD: &'static Method = &tables::CONTROLLER_CONTROLLER_EXPAND_VOLUME;
}
impl Request for v1::ControllerGetVolumeRequest {
    type Reply = v1::ControllerGetVolumeResponse;
    const METHOD: &'static Method = &tables::CONTROLLER_CONTROLLER_GET_VOLUME;
}
impl Request for v1::ControllerModifyVolumeRequest {
    type Reply = v1::ControllerModifyVolumeResponse;
    const METHOD: &'static Method = &tables::CONTROLLER_CONTROLLER_MODIFY_VOLUME;
}
impl Request for v1::GroupControllerGetCapabilitiesRequest {
    type Reply = v1::GroupControllerGetCapabilitiesResponse;
    const METHOD: &'static Method = &tables::GROUP_CONTROLLER_GROUP_CONTROLLER_GET_CAPABILITIES;
}
impl Request for v1::CreateVolumeGroupSnapshotRequest {
    type Reply = v1::CreateVolumeGroupSnapshotResponse;
    const METHOD: &'static Method = &tables::GROUP_CONTROLLER_CREATE_VOLUME_GROUP_SNAPSHOT;
}
impl Request for v1::DeleteVolumeGroupSnapshotRequest {
    type Reply = v1::DeleteVolumeGroupSnapshotResponse;
    const METHOD: &'static Method = &tables::GROUP_CONTROLLER_DELETE_VOLUME_GROUP_SNAPSHOT;
}
impl Request for v1::GetVolumeGroupSnapshotRequest {
    type Reply = v1::GetVolumeGroupSnapshotResponse;
    const METHOD: &'static Method = &tables::GROUP_CONTROLLER_GET_VOLUME_GROUP_SNAPSHOT;
}
impl Request for v1::GetMetadataAllocatedRequest {
    type Reply = v1::GetMetadataAllocatedResponse;
    const METHOD: &'static Method = &tables::SNAPSHOT_METADATA_GET_METADATA_ALLOCATED;
}
impl Request for v1::GetMetadataDeltaRequest {
    type Reply = v1::GetMetadataDeltaResponse;
    const METHOD: &'static Method = &tables::SNAPSHOT_METADATA_GET_METADATA_DELTA;
}
impl Request for v1::NodeStageVolumeRequest {
    type Reply = v1::NodeStageVolumeResponse;
    const METHOD: &'static Method = &tables::NODE_NODE_STAGE_VOLUME;
}
impl Request for v1::NodeUnstageVolumeRequest {
    type Reply = v1::NodeUnstageVolumeResponse;
    const METHOD: &'static Method = &tables::NODE_NODE_UNSTAGE_VOLUME;
}
impl Request for v1::NodePublishVolumeRequest {
    type Reply = v1::NodePublishVolumeResponse;
    const METHOD: &'static Method = &tables::NODE_NODE_PUBLISH_VOLUME;
}
impl Request for v1::NodeUnpublishVolumeRequest {
    type Reply = v1::NodeUnpublishVolumeResponse;
    const METHOD: &'static Method = &tables::NODE_NODE_UNPUBLISH_VOLUME;
}
impl Request for v1::NodeGetVolumeStatsRequest {
    type Reply = v1::NodeGetVolumeStatsResponse;
    const METHOD: &'static Method = &tables::NODE_NODE_GET_VOLUME_STATS;
}
impl Request for v1::NodeExpandVolumeRequest {
    type Reply = v1::NodeExpandVolumeResponse;
    const METHOD: &'static Method = &tables::NODE_NODE_EXPAND_VOLUME;
}
impl Request for v1::NodeGetCapabilitiesRequest {
    type Reply = v1::NodeGetCapabilitiesResponse;
    const METHOD: &'static Method = &tables::NODE_NODE_GET_CAPABILITIES;
}
impl Request for v1::NodeGetInfoRequest {
    type Reply = v1::NodeGetInfoResponse;
    const METHOD: &'static Method = &tables::NODE_NODE_GET_INFO;
}
