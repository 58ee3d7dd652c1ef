// Generated from csi.proto by tests/generated.rs; not to be edited.

/// Fields of `csi.v1.GetPluginInfoResponse`.
pub mod get_plugin_info_response {
    /// `name`.
    pub const NAME: &str = "";
    /// `vendor_version`.
    pub const VENDOR_VERSION: &str = "";
    /// `manifest`.
    pub const MANIFEST: &str = "";
}
/// Fields of `csi.v1.GetPluginCapabilitiesResponse`.
pub mod get_plugin_capabilities_response {
    /// `capabilities`.
    pub const CAPABILITIES: &str = "";
}
/// Fields of `csi.v1.PluginCapability`.
pub mod plugin_capability {
    /// `service`.
    pub const SERVICE: &str = "";
    /// `volume_expansion`.
    pub const VOLUME_EXPANSION: &str = "";
}
/// Fields of `csi.v1.PluginCapability.Service`.
pub mod plugin_capability_service {
    /// `type`.
    pub const TYPE: &str = "";
}
/// Fields of `csi.v1.PluginCapability.VolumeExpansion`.
pub mod plugin_capability_volume_expansion {
    /// `type`.
    pub const TYPE: &str = "";
}
/// Fields of `csi.v1.ProbeResponse`.
pub mod probe_response {
    /// `ready`.
    pub const READY: &str = "";
}
/// Fields of `csi.v1.CreateVolumeRequest`.
pub mod create_volume_request {
    /// `name`.
    pub const NAME: &str = "";
    /// `capacity_range`.
    pub const CAPACITY_RANGE: &str = "";
    /// `volume_capabilities`.
    pub const VOLUME_CAPABILITIES: &str = "";
    /// `parameters`.
    pub const PARAMETERS: &str = "";
    /// `secrets`.
    pub const SECRETS: &str = "";
    /// `volume_content_source`.
    pub const VOLUME_CONTENT_SOURCE: &str = "";
    /// `accessibility_requirements`.
    pub const ACCESSIBILITY_REQUIREMENTS: &str = "";
    /// `mutable_parameters`.
    pub const MUTABLE_PARAMETERS: &str = "";
}
/// Fields of `csi.v1.VolumeContentSource`.
pub mod volume_content_source {
    /// `snapshot`.
    pub const SNAPSHOT: &str = "";
    /// `volume`.
    pub const VOLUME: &str = "";
}
/// Fields of `csi.v1.VolumeContentSource.SnapshotSource`.
pub mod volume_content_source_snapshot_source {
    /// `snapshot_id`.
    pub const SNAPSHOT_ID: &str = "";
}
/// Fields of `csi.v1.VolumeContentSource.VolumeSource`.
pub mod volume_content_source_volume_source {
    /// `volume_id`.
    pub const VOLUME_ID: &str = "";
}
/// Fields of `csi.v1.CreateVolumeResponse`.
pub mod create_volume_response {
    /// `volume`.
    pub const VOLUME: &str = "";
}
/// Fields of `csi.v1.VolumeCapability`.
pub mod volume_capability {
    /// `block`.
    pub const BLOCK: &str = "";
    /// `mount`.
    pub const MOUNT: &str = "";
    /// `access_mode`.
    pub const ACCESS_MODE: &str = "";
}
/// Fields of `csi.v1.VolumeCapability.MountVolume`.
pub mod volume_capability_mount_volume {
    /// `fs_type`.
    pub const FS_TYPE: &str = "";
    /// `mount_flags`.
    pub const MOUNT_FLAGS: &str = "";
    /// `volume_mount_group`.
    pub const VOLUME_MOUNT_GROUP: &str = "";
}
/// Fields of `csi.v1.VolumeCapability.AccessMode`.
pub mod volume_capability_access_mode {
    /// `mode`.
    pub const MODE: &str = "";
}
/// Fields of `csi.v1.CapacityRange`.
pub mod capacity_range {
    /// `required_bytes`.
    pub const REQUIRED_BYTES: &str = "";
    /// `limit_bytes`.
    pub const LIMIT_BYTES: &str = "";
}
/// Fields of `csi.v1.Volume`.
pub mod volume {
    /// `capacity_bytes`.
    pub const CAPACITY_BYTES: &str = "";
    /// `volume_id`.
    pub const VOLUME_ID: &str = "";
    /// `volume_context`.
    pub const VOLUME_CONTEXT: &str = "";
    /// `content_source`.
    pub const CONTENT_SOURCE: &str = "";
    /// `accessible_topology`.
    pub const ACCESSIBLE_TOPOLOGY: &str = "";
}
/// Fields of `csi.v1.TopologyRequirement`.
pub mod topology_requirement {
    /// `requisite`.
    pub const REQUISITE: &str = "";
    /// `preferred`.
    pub const PREFERRED: &str = "";
}
/// Fields of `csi.v1.Topology`.
pub mod topology {
    /// `segments`.
    pub const SEGMENTS: &str = "";
}
/// Fields of `csi.v1.DeleteVolumeRequest`.
pub mod delete_volume_request {
    /// `volume_id`.
    pub const VOLUME_ID: &str = "";
    /// `secrets`.
    pub const SECRETS: &str = "";
}
/// Fields of `csi.v1.ControllerPublishVolumeRequest`.
pub mod controller_publish_volume_request {
    /// `volume_id`.
    pub const VOLUME_ID: &str = "";
    /// `node_id`.
    pub const NODE_ID: &str = "";
    /// `volume_capability`.
    pub const VOLUME_CAPABILITY: &str = "";
    /// `readonly`.
    pub const READONLY: &str = "";
    /// `secrets`.
    pub const SECRETS: &str = "";
    /// `volume_context`.
    pub const VOLUME_CONTEXT: &str = "";
}
/// Fields of `csi.v1.ControllerPublishVolumeResponse`.
pub mod controller_publish_volume_response {
    /// `publish_context`.
    pub const PUBLISH_CONTEXT: &str = "";
}
/// Fields of `csi.v1.ControllerUnpublishVolumeRequest`.
pub mod controller_unpublish_volume_request {
    /// `volume_id`.
    pub const VOLUME_ID: &str = "";
    /// `node_id`.
    pub const NODE_ID: &str = "";
    /// `secrets`.
    pub const SECRETS: &str = "";
}
/// Fields of `csi.v1.ValidateVolumeCapabilitiesRequest`.
pub mod validate_volume_capabilities_request {
    /// `volume_id`.
    pub const VOLUME_ID: &str = "";
    /// `volume_context`.
    pub const VOLUME_CONTEXT: &str = "";
    /// `volume_capabilities`.
    pub const VOLUME_CAPABILITIES: &str = "";
    /// `parameters`.
    pub const PARAMETERS: &str = "";
    /// `secrets`.
    pub const SECRETS: &str = "";
    /// `mutable_parameters`.
    pub const MUTABLE_PARAMETERS: &str = "";
}
/// Fields of `csi.v1.ValidateVolumeCapabilitiesResponse`.
pub mod validate_volume_capabilities_response {
    /// `confirmed`.
    pub const CONFIRMED: &str = "";
    /// `message`.
    pub const MESSAGE: &str = "";
}
/// Fields of `csi.v1.ValidateVolumeCapabilitiesResponse.Confirmed`.
pub mod validate_volume_capabilities_response_confirmed {
    /// `volume_context`.
    pub const VOLUME_CONTEXT: &str = "";
    /// `volume_capabilities`.
    pub const VOLUME_CAPABILITIES: &str = "";
    /// `parameters`.
    pub const PARAMETERS: &str = "";
    /// `mutable_parameters`.
    pub const MUTABLE_PARAMETERS: &str = "";
}
/// Fields of `csi.v1.ListVolumesRequest`.
pub mod list_volumes_request {
    /// `max_entries`.
    pub const MAX_ENTRIES: &str = "";
    /// `starting_token`.
    pub const STARTING_TOKEN: &str = "";
}
/// Fields of `csi.v1.ListVolumesResponse`.
pub mod list_volumes_response {
    /// `entries`.
    pub const ENTRIES: &str = "";
    /// `next_token`.
    pub const NEXT_TOKEN: &str = "";
}
/// Fields of `csi.v1.ListVolumesResponse.VolumeStatus`.
pub mod list_volumes_response_volume_status {
    /// `published_node_ids`.
    pub const PUBLISHED_NODE_IDS: &str = "";
    /// `volume_condition`.
    pub const VOLUME_CONDITION: &str = "";
}
/// Fields of `csi.v1.ListVolumesResponse.Entry`.
pub mod list_volumes_response_entry {
    /// `volume`.
    pub const VOLUME: &str = "";
    /// `status`.
    pub const STATUS: &str = "";
}
/// Fields of `csi.v1.ControllerGetVolumeRequest`.
pub mod controller_get_volume_request {
    /// `volume_id`.
    pub const VOLUME_ID: &str = "";
}
/// Fields of `csi.v1.ControllerGetVolumeResponse`.
pub mod controller_get_volume_response {
    /// `volume`.
    pub const VOLUME: &str = "";
    /// `status`.
    pub const STATUS: &str = "";
}
/// Fields of `csi.v1.ControllerGetVolumeResponse.VolumeStatus`.
pub mod controller_get_volume_response_volume_status {
    /// `published_node_ids`.
    pub const PUBLISHED_NODE_IDS: &str = "";
    /// `volume_condition`.
    pub const VOLUME_CONDITION: &str = "";
}
/// Fields of `csi.v1.ControllerModifyVolumeRequest`.
pub mod controller_modify_volume_request {
    /// `volume_id`.
    pub const VOLUME_ID: &str = "";
    /// `secrets`.
    pub const SECRETS: &str = "";
    /// `mutable_parameters`.
    pub const MUTABLE_PARAMETERS: &str = "";
}
/// Fields of `csi.v1.GetCapacityRequest`.
pub mod get_capacity_request {
    /// `volume_capabilities`.
    pub const VOLUME_CAPABILITIES: &str = "";
    /// `parameters`.
    pub const PARAMETERS: &str = "";
    /// `accessible_topology`.
    pub const ACCESSIBLE_TOPOLOGY: &str = "";
}
/// Fields of `csi.v1.GetCapacityResponse`.
pub mod get_capacity_response {
    /// `available_capacity`.
    pub const AVAILABLE_CAPACITY: &str = "";
    /// `maximum_volume_size`.
    pub const MAXIMUM_VOLUME_SIZE: &str = "";
    /// `minimum_volume_size`.
    pub const MINIMUM_VOLUME_SIZE: &str = "";
}
/// Fields of `csi.v1.ControllerGetCapabilitiesResponse`.
pub mod controller_get_capabilities_response {
    /// `capabilities`.
    pub const CAPABILITIES: &str = "";
}
/// Fields of `csi.v1.ControllerServiceCapability`.
pub mod controller_service_capability {
    /// `rpc`.
    pub const RPC: &str = "";
}
/// Fields of `csi.v1.ControllerServiceCapability.RPC`.
pub mod controller_service_capability_rpc {
    /// `type`.
    pub const TYPE: &str = "";
}
/// Fields of `csi.v1.CreateSnapshotRequest`.
pub mod create_snapshot_request {
    /// `source_volume_id`.
    pub const SOURCE_VOLUME_ID: &str = "";
    /// `name`.
    pub const NAME: &str = "";
    /// `secrets`.
    pub const SECRETS: &str = "";
    /// `parameters`.
    pub const PARAMETERS: &str = "";
}
/// Fields of `csi.v1.CreateSnapshotResponse`.
pub mod create_snapshot_response {
    /// `snapshot`.
    pub const SNAPSHOT: &str = "";
}
/// Fields of `csi.v1.Snapshot`.
pub mod snapshot {
    /// `size_bytes`.
    pub const SIZE_BYTES: &str = "";
    /// `snapshot_id`.
    pub const SNAPSHOT_ID: &str = "";
    /// `source_volume_id`.
    pub const SOURCE_VOLUME_ID: &str = "";
    /// `creation_time`.
    pub const CREATION_TIME: &str = "";
    /// `ready_to_use`.
    pub const READY_TO_USE: &str = "";
    /// `group_snapshot_id`.
    pub const GROUP_SNAPSHOT_ID: &str = "";
}
/// Fields of `csi.v1.DeleteSnapshotRequest`.
pub mod delete_snapshot_request {
    /// `snapshot_id`.
    pub const SNAPSHOT_ID: &str = "";
    /// `secrets`.
    pub const SECRETS: &str = "";
}
/// Fields of `csi.v1.ListSnapshotsRequest`.
pub mod list_snapshots_request {
    /// `max_entries`.
    pub const MAX_ENTRIES: &str = "";
    /// `starting_token`.
    pub const STARTING_TOKEN: &str = "";
    /// `source_volume_id`.
    pub const SOURCE_VOLUME_ID: &str = "";
    /// `snapshot_id`.
    pub const SNAPSHOT_ID: &str = "";
    /// `secrets`.
    pub const SECRETS: &str = "";
}
/// Fields of `csi.v1.ListSnapshotsResponse`.
pub mod list_snapshots_response {
    /// `entries`.
    pub const ENTRIES: &str = "";
    /// `next_token`.
    pub const NEXT_TOKEN: &str = "";
}
/// Fields of `csi.v1.ListSnapshotsResponse.Entry`.
pub mod list_snapshots_response_entry {
    /// `snapshot`.
    pub const SNAPSHOT: &str = "";
}
/// Fields of `csi.v1.GetSnapshotRequest`.
pub mod get_snapshot_request {
    /// `snapshot_id`.
    pub const SNAPSHOT_ID: &str = "";
    /// `secrets`.
    pub const SECRETS: &str = "";
}
/// Fields of `csi.v1.GetSnapshotResponse`.
pub mod get_snapshot_response {
    /// `snapshot`.
    pub const SNAPSHOT: &str = "";
}
/// Fields of `csi.v1.ControllerExpandVolumeRequest`.
pub mod controller_expand_volume_request {
    /// `volume_id`.
    pub const VOLUME_ID: &str = "";
    /// `capacity_range`.
    pub const CAPACITY_RANGE: &str = "";
    /// `secrets`.
    pub const SECRETS: &str = "";
    /// `volume_capability`.
    pub const VOLUME_CAPABILITY: &str = "";
}
/// Fields of `csi.v1.ControllerExpandVolumeResponse`.
pub mod controller_expand_volume_response {
    /// `capacity_bytes`.
    pub const CAPACITY_BYTES: &str = "";
    /// `node_expansion_required`.
    pub const NODE_EXPANSION_REQUIRED: &str = "";
}
/// Fields of `csi.v1.NodeStageVolumeRequest`.
pub mod node_stage_volume_request {
    /// `volume_id`.
    pub const VOLUME_ID: &str = "";
    /// `publish_context`.
    pub const PUBLISH_CONTEXT: &str = "";
    /// `staging_target_path`.
    pub const STAGING_TARGET_PATH: &str = "";
    /// `volume_capability`.
    pub const VOLUME_CAPABILITY: &str = "";
    /// `secrets`.
    pub const SECRETS: &str = "";
    /// `volume_context`.
    pub const VOLUME_CONTEXT: &str = "";
}
/// Fields of `csi.v1.NodeUnstageVolumeRequest`.
pub mod node_unstage_volume_request {
    /// `volume_id`.
    pub const VOLUME_ID: &str = "";
    /// `staging_target_path`.
    pub const STAGING_TARGET_PATH: &str = "";
}
/// Fields of `csi.v1.NodePublishVolumeRequest`.
pub mod node_publish_volume_request {
    /// `volume_id`.
    pub const VOLUME_ID: &str = "";
    /// `publish_context`.
    pub const PUBLISH_CONTEXT: &str = "";
    /// `staging_target_path`.
    pub const STAGING_TARGET_PATH: &str = "";
    /// `target_path`.
    pub const TARGET_PATH: &str = "";
    /// `volume_capability`.
    pub const VOLUME_CAPABILITY: &str = "";
    /// `readonly`.
    pub const READONLY: &str = "";
    /// `secrets`.
    pub const SECRETS: &str = "";
    /// `volume_context`.
    pub const VOLUME_CONTEXT: &str = "";
}
/// Fields of `csi.v1.NodeUnpublishVolumeRequest`.
pub mod node_unpublish_volume_request {
    /// `volume_id`.
    pub const VOLUME_ID: &str = "";
    /// `target_path`.
    pub const TARGET_PATH: &str = "";
}
/// Fields of `csi.v1.NodeGetVolumeStatsRequest`.
pub mod node_get_volume_stats_request {
    /// `volume_id`.
    pub const VOLUME_ID: &str = "";
    /// `volume_path`.
    pub const VOLUME_PATH: &str = "";
    /// `staging_target_path`.
    pub const STAGING_TARGET_PATH: &str = "";
}
/// Fields of `csi.v1.NodeGetVolumeStatsResponse`.
pub mod node_get_volume_stats_response {
    /// `usage`.
    pub const USAGE: &str = "";
    /// `volume_condition`.
    pub const VOLUME_CONDITION: &str = "";
}
/// Fields of `csi.v1.VolumeUsage`.
pub mod volume_usage {
    /// `available`.
    pub const AVAILABLE: &str = "";
    /// `total`.
    pub const TOTAL: &str = "";
    /// `used`.
    pub const USED: &str = "";
    /// `unit`.
    pub const UNIT: &str = "";
}
/// Fields of `csi.v1.VolumeCondition`.
pub mod volume_condition {
    /// `abnormal`.
    pub const ABNORMAL: &str = "";
    /// `message`.
    pub const MESSAGE: &str = "";
}
/// Fields of `csi.v1.NodeGetCapabilitiesResponse`.
pub mod node_get_capabilities_response {
    /// `capabilities`.
    pub const CAPABILITIES: &str = "";
}
/// Fields of `csi.v1.NodeServiceCapability`.
pub mod node_service_capability {
    /// `rpc`.
    pub const RPC: &str = "";
}
/// Fields of `csi.v1.NodeServiceCapability.RPC`.
pub mod node_service_capability_rpc {
    /// `type`.
    pub const TYPE: &str = "";
}
/// Fields of `csi.v1.NodeGetInfoResponse`.
pub mod node_get_info_response {
    /// `node_id`.
    pub const NODE_ID: &str = "";
    /// `max_volumes_per_node`.
    pub const MAX_VOLUMES_PER_NODE: &str = "";
    /// `accessible_topology`.
    pub const ACCESSIBLE_TOPOLOGY: &str = "";
}
/// Fields of `csi.v1.NodeExpandVolumeRequest`.
pub mod node_expand_volume_request {
    /// `volume_id`.
    pub const VOLUME_ID: &str = "";
    /// `volume_path`.
    pub const VOLUME_PATH: &str = "";
    /// `capacity_range`.
    pub const CAPACITY_RANGE: &str = "";
    /// `staging_target_path`.
    pub const STAGING_TARGET_PATH: &str = "";
    /// `volume_capability`.
    pub const VOLUME_CAPABILITY: &str = "";
    /// `secrets`.
    pub const SECRETS: &str = "";
}
/// Fields of `csi.v1.NodeExpandVolumeResponse`.
pub mod node_expand_volume_response {
    /// `capacity_bytes`.
    pub const CAPACITY_BYTES: &str = "";
}
/// Fields of `csi.v1.GroupControllerGetCapabilitiesResponse`.
pub mod group_controller_get_capabilities_response {
    /// `capabilities`.
    pub const CAPABILITIES: &str = "";
}
/// Fields of `csi.v1.GroupControllerServiceCapability`.
pub mod group_controller_service_capability {
    /// `rpc`.
    pub const RPC: &str = "";
}
/// Fields of `csi.v1.GroupControllerServiceCapability.RPC`.
pub mod group_controller_service_capability_rpc {
    /// `type`.
    pub const TYPE: &str = "";
}
/// Fields of `csi.v1.CreateVolumeGroupSnapshotRequest`.
pub mod create_volume_group_snapshot_request {
    /// `name`.
    pub const NAME: &str = "";
    /// `source_volume_ids`.
    pub const SOURCE_VOLUME_IDS: &str = "";
    /// `secrets`.
    pub const SECRETS: &str = "";
    /// `parameters`.
    pub const PARAMETERS: &str = "";
}
/// Fields of `csi.v1.CreateVolumeGroupSnapshotResponse`.
pub mod create_volume_group_snapshot_response {
    /// `group_snapshot`.
    pub const GROUP_SNAPSHOT: &str = "";
}
/// Fields of `csi.v1.VolumeGroupSnapshot`.
pub mod volume_group_snapshot {
    /// `group_snapshot_id`.
    pub const GROUP_SNAPSHOT_ID: &str = "";
    /// `snapshots`.
    pub const SNAPSHOTS: &str = "";
    /// `creation_time`.
    pub const CREATION_TIME: &str = "";
    /// `ready_to_use`.
    pub const READY_TO_USE: &str = "";
}
/// Fields of `csi.v1.DeleteVolumeGroupSnapshotRequest`.
pub mod delete_volume_group_snapshot_request {
    /// `group_snapshot_id`.
    pub const GROUP_SNAPSHOT_ID: &str = "";
    /// `snapshot_ids`.
    pub const SNAPSHOT_IDS: &str = "";
    /// `secrets`.
    pub const SECRETS: &str = "";
}
/// Fields of `csi.v1.GetVolumeGroupSnapshotRequest`.
pub mod get_volume_group_snapshot_request {
    /// `group_snapshot_id`.
    pub const GROUP_SNAPSHOT_ID: &str = "";
    /// `snapshot_ids`.
    pub const SNAPSHOT_IDS: &str = "";
    /// `secrets`.
    pub const SECRETS: &str = "";
}
/// Fields of `csi.v1.GetVolumeGroupSnapshotResponse`.
pub mod get_volume_group_snapshot_response {
    /// `group_snapshot`.
    pub const GROUP_SNAPSHOT: &str = "";
}
/// Fields of `csi.v1.BlockMetadata`.
pub mod block_metadata {
    /// `byte_offset`.
    pub const BYTE_OFFSET: &str = "";
    /// `size_bytes`.
    pub const SIZE_BYTES: &str = "";
}
/// Fields of `csi.v1.GetMetadataAllocatedRequest`.
pub mod get_metadata_allocated_request {
    /// `snapshot_id`.
    pub const SNAPSHOT_ID: &str = "";
    /// `starting_offset`.
    pub const STARTING_OFFSET: &str = "";
    /// `max_results`.
    pub const MAX_RESULTS: &str = "";
    /// `secrets`.
    pub const SECRETS: &str = "";
}
/// Fields of `csi.v1.GetMetadataAllocatedResponse`.
pub mod get_metadata_allocated_response {
    /// `block_metadata_type`.
    pub const BLOCK_METADATA_TYPE: &str = "";
    /// `volume_capacity_bytes`.
    pub const VOLUME_CAPACITY_BYTES: &str = "";
    /// `block_metadata`.
    pub const BLOCK_METADATA: &str = "";
}
/// Fields of `csi.v1.GetMetadataDeltaRequest`.
pub mod get_metadata_delta_request {
    /// `base_snapshot_id`.
    pub const BASE_SNAPSHOT_ID: &str = "";
    /// `target_snapshot_id`.
    pub const TARGET_SNAPSHOT_ID: &str = "";
    /// `starting_offset`.
    pub const STARTING_OFFSET: &str = "";
    /// `max_results`.
    pub const MAX_RESULTS: &str = "";
    /// `secrets`.
    pub const SECRETS: &str = "";
}
/// Fields of `csi.v1.GetMetadataDeltaResponse`.
pub mod get_metadata_delta_response {
    /// `block_metadata_type`.
    pub const BLOCK_METADATA_TYPE: &str = "";
    /// `volume_capacity_bytes`.
    pub const VOLUME_CAPACITY_BYTES: &str = "";
    /// `block_metadata`.
    pub const BLOCK_METADATA: &str = "";
}
