// Generated from csi.proto by tests/generated.rs; not to be edited.

/// Fields of `csi.v1.GetPluginInfoResponse`.
pub mod get_plugin_info_response {
    /// `name`.
    pub const NAME: &str = "Name of the driver, in domain name notation";
    /// `vendor_version`.
    pub const VENDOR_VERSION: &str = "Version of the driver, in its vendor's own notation";
    /// `manifest`.
    pub const MANIFEST: &str = "Further facts about the driver, as key and value pairs";
}
/// Fields of `csi.v1.GetPluginCapabilitiesResponse`.
pub mod get_plugin_capabilities_response {
    /// `capabilities`.
    pub const CAPABILITIES: &str = "What the driver offers, one entry for each capability";
}
/// Fields of `csi.v1.PluginCapability`.
pub mod plugin_capability {
    /// `service`.
    pub const SERVICE: &str = "Service or trait that the driver has";
    /// `volume_expansion`.
    pub const VOLUME_EXPANSION: &str = "State in which the driver expands volumes";
}
/// Fields of `csi.v1.PluginCapability.Service`.
pub mod plugin_capability_service {
    /// `type`.
    pub const TYPE: &str = "Service or trait";
}
/// Fields of `csi.v1.PluginCapability.VolumeExpansion`.
pub mod plugin_capability_volume_expansion {
    /// `type`.
    pub const TYPE: &str = "Expansion mode";
}
/// Fields of `csi.v1.ProbeResponse`.
pub mod probe_response {
    /// `ready`.
    pub const READY: &str = "Whether the driver can serve now";
}
/// Fields of `csi.v1.CreateVolumeRequest`.
pub mod create_volume_request {
    /// `name`.
    pub const NAME: &str = "Name of the volume; the same name always means the same volume";
    /// `capacity_range`.
    pub const CAPACITY_RANGE: &str = "Size that the volume must have, in bytes";
    /// `volume_capabilities`.
    pub const VOLUME_CAPABILITIES: &str = "Ways in which the volume will be used, one entry for each";
    /// `parameters`.
    pub const PARAMETERS: &str = "Settings for the new volume, as key and value pairs";
    /// `secrets`.
    pub const SECRETS: &str = "Secrets that the driver needs for this call, as key and value pairs";
    /// `volume_content_source`.
    pub const VOLUME_CONTENT_SOURCE: &str = "Snapshot or volume whose data the new volume starts with";
    /// `accessibility_requirements`.
    pub const ACCESSIBILITY_REQUIREMENTS: &str = "Places from which the volume must or should be reachable";
    /// `mutable_parameters`.
    pub const MUTABLE_PARAMETERS: &str = "Settings that can be changed later, as key and value pairs";
}
/// Fields of `csi.v1.VolumeContentSource`.
pub mod volume_content_source {
    /// `snapshot`.
    pub const SNAPSHOT: &str = "Snapshot to copy from";
    /// `volume`.
    pub const VOLUME: &str = "Volume to clone";
}
/// Fields of `csi.v1.VolumeContentSource.SnapshotSource`.
pub mod volume_content_source_snapshot_source {
    /// `snapshot_id`.
    pub const SNAPSHOT_ID: &str = "Snapshot to copy from, as CreateSnapshot returned its id";
}
/// Fields of `csi.v1.VolumeContentSource.VolumeSource`.
pub mod volume_content_source_volume_source {
    /// `volume_id`.
    pub const VOLUME_ID: &str = "Volume to copy from, as CreateVolume returned its id";
}
/// Fields of `csi.v1.CreateVolumeResponse`.
pub mod create_volume_response {
    /// `volume`.
    pub const VOLUME: &str = "The volume, new or found";
}
/// Fields of `csi.v1.VolumeCapability`.
pub mod volume_capability {
    /// `block`.
    pub const BLOCK: &str = "Raw block device";
    /// `mount`.
    pub const MOUNT: &str = "Mounted file system";
    /// `access_mode`.
    pub const ACCESS_MODE: &str = "How many nodes and workloads may use the volume";
}
/// Fields of `csi.v1.VolumeCapability.MountVolume`.
pub mod volume_capability_mount_volume {
    /// `fs_type`.
    pub const FS_TYPE: &str = "File system type, such as ext4, xfs or nfs";
    /// `mount_flags`.
    pub const MOUNT_FLAGS: &str = "Mount options, one entry for each";
    /// `volume_mount_group`.
    pub const VOLUME_MOUNT_GROUP: &str = "Group id that the mount is to give access to";
}
/// Fields of `csi.v1.VolumeCapability.AccessMode`.
pub mod volume_capability_access_mode {
    /// `mode`.
    pub const MODE: &str = "Access mode";
}
/// Fields of `csi.v1.CapacityRange`.
pub mod capacity_range {
    /// `required_bytes`.
    pub const REQUIRED_BYTES: &str = "Smallest acceptable size, in bytes";
    /// `limit_bytes`.
    pub const LIMIT_BYTES: &str = "Largest acceptable size, in bytes";
}
/// Fields of `csi.v1.Volume`.
pub mod volume {
    /// `capacity_bytes`.
    pub const CAPACITY_BYTES: &str = "Size of the volume, in bytes";
    /// `volume_id`.
    pub const VOLUME_ID: &str = "Id of the volume, chosen by the driver; all later calls use it";
    /// `volume_context`.
    pub const VOLUME_CONTEXT: &str = "Context of the volume, to be handed to later calls unchanged";
    /// `content_source`.
    pub const CONTENT_SOURCE: &str = "Snapshot or volume that the data came from";
    /// `accessible_topology`.
    pub const ACCESSIBLE_TOPOLOGY: &str = "Places that can reach the volume; a node matches any one of them";
}
/// Fields of `csi.v1.TopologyRequirement`.
pub mod topology_requirement {
    /// `requisite`.
    pub const REQUISITE: &str = "Places of which at least one must reach the volume";
    /// `preferred`.
    pub const PREFERRED: &str = "Places to try first, the best one in front";
}
/// Fields of `csi.v1.Topology`.
pub mod topology {
    /// `segments`.
    pub const SEGMENTS: &str = "Domains and their values that name the place, such as zone=z1";
}
/// Fields of `csi.v1.DeleteVolumeRequest`.
pub mod delete_volume_request {
    /// `volume_id`.
    pub const VOLUME_ID: &str = "Volume to delete, as CreateVolume returned its id";
    /// `secrets`.
    pub const SECRETS: &str = "Secrets that the driver needs for this call, as key and value pairs";
}
/// Fields of `csi.v1.ControllerPublishVolumeRequest`.
pub mod controller_publish_volume_request {
    /// `volume_id`.
    pub const VOLUME_ID: &str = "Volume to attach, as CreateVolume returned its id";
    /// `node_id`.
    pub const NODE_ID: &str = "Node to attach it to, as NodeGetInfo returned its id";
    /// `volume_capability`.
    pub const VOLUME_CAPABILITY: &str = "Way in which the volume will be used on the node";
    /// `readonly`.
    pub const READONLY: &str = "Whether the node may only read";
    /// `secrets`.
    pub const SECRETS: &str = "Secrets that the driver needs for this call, as key and value pairs";
    /// `volume_context`.
    pub const VOLUME_CONTEXT: &str = "Context of the volume, exactly as CreateVolume returned it";
}
/// Fields of `csi.v1.ControllerPublishVolumeResponse`.
pub mod controller_publish_volume_response {
    /// `publish_context`.
    pub const PUBLISH_CONTEXT: &str = "Context to hand to NodeStageVolume and NodePublishVolume";
}
/// Fields of `csi.v1.ControllerUnpublishVolumeRequest`.
pub mod controller_unpublish_volume_request {
    /// `volume_id`.
    pub const VOLUME_ID: &str = "Volume to detach, as CreateVolume returned its id";
    /// `node_id`.
    pub const NODE_ID: &str = "Node to detach it from, as NodeGetInfo returned its id";
    /// `secrets`.
    pub const SECRETS: &str = "Secrets that the driver needs for this call, as key and value pairs";
}
/// Fields of `csi.v1.ValidateVolumeCapabilitiesRequest`.
pub mod validate_volume_capabilities_request {
    /// `volume_id`.
    pub const VOLUME_ID: &str = "Volume to check";
    /// `volume_context`.
    pub const VOLUME_CONTEXT: &str = "Context of the volume, exactly as CreateVolume returned it";
    /// `volume_capabilities`.
    pub const VOLUME_CAPABILITIES: &str = "Ways of use to check, one entry for each";
    /// `parameters`.
    pub const PARAMETERS: &str = "Settings to check, as given to CreateVolume";
    /// `secrets`.
    pub const SECRETS: &str = "Secrets that the driver needs for this call, as key and value pairs";
    /// `mutable_parameters`.
    pub const MUTABLE_PARAMETERS: &str = "Mutable settings to check, as given to CreateVolume";
}
/// Fields of `csi.v1.ValidateVolumeCapabilitiesResponse`.
pub mod validate_volume_capabilities_response {
    /// `confirmed`.
    pub const CONFIRMED: &str = "What was confirmed; missing when anything asked for is not supported";
    /// `message`.
    pub const MESSAGE: &str = "Why nothing was confirmed, for people to read";
}
/// Fields of `csi.v1.ValidateVolumeCapabilitiesResponse.Confirmed`.
pub mod validate_volume_capabilities_response_confirmed {
    /// `volume_context`.
    pub const VOLUME_CONTEXT: &str = "Volume context that was checked";
    /// `volume_capabilities`.
    pub const VOLUME_CAPABILITIES: &str = "Ways of use that the volume supports";
    /// `parameters`.
    pub const PARAMETERS: &str = "Settings that were checked";
    /// `mutable_parameters`.
    pub const MUTABLE_PARAMETERS: &str = "Mutable settings that were checked";
}
/// Fields of `csi.v1.ListVolumesRequest`.
pub mod list_volumes_request {
    /// `max_entries`.
    pub const MAX_ENTRIES: &str = "Largest number of entries in one page";
    /// `starting_token`.
    pub const STARTING_TOKEN: &str = "Where to go on: next_token of the page before";
}
/// Fields of `csi.v1.ListVolumesResponse`.
pub mod list_volumes_response {
    /// `entries`.
    pub const ENTRIES: &str = "Volumes of this page";
    /// `next_token`.
    pub const NEXT_TOKEN: &str = "Token of the next page, for starting_token";
}
/// Fields of `csi.v1.ListVolumesResponse.VolumeStatus`.
pub mod list_volumes_response_volume_status {
    /// `published_node_ids`.
    pub const PUBLISHED_NODE_IDS: &str = "Nodes that the volume is attached to, one id for each";
    /// `volume_condition`.
    pub const VOLUME_CONDITION: &str = "Whether the volume is healthy";
}
/// Fields of `csi.v1.ListVolumesResponse.Entry`.
pub mod list_volumes_response_entry {
    /// `volume`.
    pub const VOLUME: &str = "The volume";
    /// `status`.
    pub const STATUS: &str = "Its state";
}
/// Fields of `csi.v1.ControllerGetVolumeRequest`.
pub mod controller_get_volume_request {
    /// `volume_id`.
    pub const VOLUME_ID: &str = "Volume to show";
}
/// Fields of `csi.v1.ControllerGetVolumeResponse`.
pub mod controller_get_volume_response {
    /// `volume`.
    pub const VOLUME: &str = "The volume";
    /// `status`.
    pub const STATUS: &str = "Its state";
}
/// Fields of `csi.v1.ControllerGetVolumeResponse.VolumeStatus`.
pub mod controller_get_volume_response_volume_status {
    /// `published_node_ids`.
    pub const PUBLISHED_NODE_IDS: &str = "Nodes that the volume is attached to, one id for each";
    /// `volume_condition`.
    pub const VOLUME_CONDITION: &str = "Whether the volume is healthy";
}
/// Fields of `csi.v1.ControllerModifyVolumeRequest`.
pub mod controller_modify_volume_request {
    /// `volume_id`.
    pub const VOLUME_ID: &str = "Volume to change";
    /// `secrets`.
    pub const SECRETS: &str = "Secrets that the driver needs for this call, as key and value pairs";
    /// `mutable_parameters`.
    pub const MUTABLE_PARAMETERS: &str = "Settings to change, as key and value pairs";
}
/// Fields of `csi.v1.GetCapacityRequest`.
pub mod get_capacity_request {
    /// `volume_capabilities`.
    pub const VOLUME_CAPABILITIES: &str = "Count only space for volumes that can be used in all these ways";
    /// `parameters`.
    pub const PARAMETERS: &str = "Count only space for volumes with these settings";
    /// `accessible_topology`.
    pub const ACCESSIBLE_TOPOLOGY: &str = "Count only space that can be reached from this place";
}
/// Fields of `csi.v1.GetCapacityResponse`.
pub mod get_capacity_response {
    /// `available_capacity`.
    pub const AVAILABLE_CAPACITY: &str = "Space left for new volumes that fit the request, in bytes";
    /// `maximum_volume_size`.
    pub const MAXIMUM_VOLUME_SIZE: &str = "Largest size that one new volume can have, in bytes";
    /// `minimum_volume_size`.
    pub const MINIMUM_VOLUME_SIZE: &str = "Smallest size that one new volume can have, in bytes";
}
/// Fields of `csi.v1.ControllerGetCapabilitiesResponse`.
pub mod controller_get_capabilities_response {
    /// `capabilities`.
    pub const CAPABILITIES: &str = "What the controller offers, one entry for each capability";
}
/// Fields of `csi.v1.ControllerServiceCapability`.
pub mod controller_service_capability {
    /// `rpc`.
    pub const RPC: &str = "RPC or feature that the controller has";
}
/// Fields of `csi.v1.ControllerServiceCapability.RPC`.
pub mod controller_service_capability_rpc {
    /// `type`.
    pub const TYPE: &str = "RPC or feature";
}
/// Fields of `csi.v1.CreateSnapshotRequest`.
pub mod create_snapshot_request {
    /// `source_volume_id`.
    pub const SOURCE_VOLUME_ID: &str = "Volume to take a snapshot of";
    /// `name`.
    pub const NAME: &str = "Name of the snapshot; the same name always means the same snapshot";
    /// `secrets`.
    pub const SECRETS: &str = "Secrets that the driver needs for this call, as key and value pairs";
    /// `parameters`.
    pub const PARAMETERS: &str = "Settings for the new snapshot, as key and value pairs";
}
/// Fields of `csi.v1.CreateSnapshotResponse`.
pub mod create_snapshot_response {
    /// `snapshot`.
    pub const SNAPSHOT: &str = "The snapshot, new or found";
}
/// Fields of `csi.v1.Snapshot`.
pub mod snapshot {
    /// `size_bytes`.
    pub const SIZE_BYTES: &str = "Smallest size of a volume made from the snapshot, in bytes";
    /// `snapshot_id`.
    pub const SNAPSHOT_ID: &str = "Id of the snapshot, chosen by the driver; all later calls use it";
    /// `source_volume_id`.
    pub const SOURCE_VOLUME_ID: &str = "Volume that the snapshot was taken of";
    /// `creation_time`.
    pub const CREATION_TIME: &str = "When the snapshot was taken: its point in time";
    /// `ready_to_use`.
    pub const READY_TO_USE: &str = "Whether a volume can be made from the snapshot now";
    /// `group_snapshot_id`.
    pub const GROUP_SNAPSHOT_ID: &str = "Group that the snapshot belongs to and is deleted with";
}
/// Fields of `csi.v1.DeleteSnapshotRequest`.
pub mod delete_snapshot_request {
    /// `snapshot_id`.
    pub const SNAPSHOT_ID: &str = "Snapshot to delete, as CreateSnapshot returned its id";
    /// `secrets`.
    pub const SECRETS: &str = "Secrets that the driver needs for this call, as key and value pairs";
}
/// Fields of `csi.v1.ListSnapshotsRequest`.
pub mod list_snapshots_request {
    /// `max_entries`.
    pub const MAX_ENTRIES: &str = "Largest number of entries in one page";
    /// `starting_token`.
    pub const STARTING_TOKEN: &str = "Where to go on: next_token of the page before";
    /// `source_volume_id`.
    pub const SOURCE_VOLUME_ID: &str = "List only the snapshots of this volume";
    /// `snapshot_id`.
    pub const SNAPSHOT_ID: &str = "List only this snapshot";
    /// `secrets`.
    pub const SECRETS: &str = "Secrets that the driver needs for this call, as key and value pairs";
}
/// Fields of `csi.v1.ListSnapshotsResponse`.
pub mod list_snapshots_response {
    /// `entries`.
    pub const ENTRIES: &str = "Snapshots of this page";
    /// `next_token`.
    pub const NEXT_TOKEN: &str = "Token of the next page, for starting_token";
}
/// Fields of `csi.v1.ListSnapshotsResponse.Entry`.
pub mod list_snapshots_response_entry {
    /// `snapshot`.
    pub const SNAPSHOT: &str = "The snapshot";
}
/// Fields of `csi.v1.GetSnapshotRequest`.
pub mod get_snapshot_request {
    /// `snapshot_id`.
    pub const SNAPSHOT_ID: &str = "Snapshot to show";
    /// `secrets`.
    pub const SECRETS: &str = "Secrets that the driver needs for this call, as key and value pairs";
}
/// Fields of `csi.v1.GetSnapshotResponse`.
pub mod get_snapshot_response {
    /// `snapshot`.
    pub const SNAPSHOT: &str = "The snapshot";
}
/// Fields of `csi.v1.ControllerExpandVolumeRequest`.
pub mod controller_expand_volume_request {
    /// `volume_id`.
    pub const VOLUME_ID: &str = "Volume to expand";
    /// `capacity_range`.
    pub const CAPACITY_RANGE: &str = "Size that the volume must have afterwards, in bytes";
    /// `secrets`.
    pub const SECRETS: &str = "Secrets that the driver needs for this call, as key and value pairs";
    /// `volume_capability`.
    pub const VOLUME_CAPABILITY: &str = "Way in which the volume is used";
}
/// Fields of `csi.v1.ControllerExpandVolumeResponse`.
pub mod controller_expand_volume_response {
    /// `capacity_bytes`.
    pub const CAPACITY_BYTES: &str = "Size of the volume now, in bytes";
    /// `node_expansion_required`.
    pub const NODE_EXPANSION_REQUIRED: &str = "Whether NodeExpandVolume has to follow on the node";
}
/// Fields of `csi.v1.NodeStageVolumeRequest`.
pub mod node_stage_volume_request {
    /// `volume_id`.
    pub const VOLUME_ID: &str = "Volume to stage";
    /// `publish_context`.
    pub const PUBLISH_CONTEXT: &str = "Context that ControllerPublishVolume returned for this node";
    /// `staging_target_path`.
    pub const STAGING_TARGET_PATH: &str = "Folder in which to prepare the volume, an absolute path";
    /// `volume_capability`.
    pub const VOLUME_CAPABILITY: &str = "Way in which the volume will be used on this node";
    /// `secrets`.
    pub const SECRETS: &str = "Secrets that the driver needs for this call, as key and value pairs";
    /// `volume_context`.
    pub const VOLUME_CONTEXT: &str = "Context of the volume, exactly as CreateVolume returned it";
}
/// Fields of `csi.v1.NodeUnstageVolumeRequest`.
pub mod node_unstage_volume_request {
    /// `volume_id`.
    pub const VOLUME_ID: &str = "Volume to unstage";
    /// `staging_target_path`.
    pub const STAGING_TARGET_PATH: &str = "Folder in which the volume was staged, an absolute path";
}
/// Fields of `csi.v1.NodePublishVolumeRequest`.
pub mod node_publish_volume_request {
    /// `volume_id`.
    pub const VOLUME_ID: &str = "Volume to publish";
    /// `publish_context`.
    pub const PUBLISH_CONTEXT: &str = "Context that ControllerPublishVolume returned for this node";
    /// `staging_target_path`.
    pub const STAGING_TARGET_PATH: &str = "Folder in which the volume was staged, an absolute path";
    /// `target_path`.
    pub const TARGET_PATH: &str = "Path at which the volume is to appear, an absolute path";
    /// `volume_capability`.
    pub const VOLUME_CAPABILITY: &str = "Way in which the volume will be used at this path";
    /// `readonly`.
    pub const READONLY: &str = "Whether the workload may only read";
    /// `secrets`.
    pub const SECRETS: &str = "Secrets that the driver needs for this call, as key and value pairs";
    /// `volume_context`.
    pub const VOLUME_CONTEXT: &str = "Context of the volume, exactly as CreateVolume returned it";
}
/// Fields of `csi.v1.NodeUnpublishVolumeRequest`.
pub mod node_unpublish_volume_request {
    /// `volume_id`.
    pub const VOLUME_ID: &str = "Volume to unpublish";
    /// `target_path`.
    pub const TARGET_PATH: &str = "Path at which the volume was published, an absolute path";
}
/// Fields of `csi.v1.NodeGetVolumeStatsRequest`.
pub mod node_get_volume_stats_request {
    /// `volume_id`.
    pub const VOLUME_ID: &str = "Volume to measure";
    /// `volume_path`.
    pub const VOLUME_PATH: &str = "Path where the volume is published or staged, an absolute path";
    /// `staging_target_path`.
    pub const STAGING_TARGET_PATH: &str = "Folder in which the volume is staged, an absolute path";
}
/// Fields of `csi.v1.NodeGetVolumeStatsResponse`.
pub mod node_get_volume_stats_response {
    /// `usage`.
    pub const USAGE: &str = "How full the volume is, one entry for each unit";
    /// `volume_condition`.
    pub const VOLUME_CONDITION: &str = "Whether the volume is healthy, as seen from this node";
}
/// Fields of `csi.v1.VolumeUsage`.
pub mod volume_usage {
    /// `available`.
    pub const AVAILABLE: &str = "Amount that is still free, in this entry's unit";
    /// `total`.
    pub const TOTAL: &str = "Amount in all, in this entry's unit";
    /// `used`.
    pub const USED: &str = "Amount that is taken, in this entry's unit";
    /// `unit`.
    pub const UNIT: &str = "Unit in which this entry counts";
}
/// Fields of `csi.v1.VolumeCondition`.
pub mod volume_condition {
    /// `abnormal`.
    pub const ABNORMAL: &str = "Whether something is wrong with the volume";
    /// `message`.
    pub const MESSAGE: &str = "What the condition is, for people to read";
}
/// Fields of `csi.v1.NodeGetCapabilitiesResponse`.
pub mod node_get_capabilities_response {
    /// `capabilities`.
    pub const CAPABILITIES: &str = "What the node offers, one entry for each capability";
}
/// Fields of `csi.v1.NodeServiceCapability`.
pub mod node_service_capability {
    /// `rpc`.
    pub const RPC: &str = "RPC or feature that the node has";
}
/// Fields of `csi.v1.NodeServiceCapability.RPC`.
pub mod node_service_capability_rpc {
    /// `type`.
    pub const TYPE: &str = "RPC or feature";
}
/// Fields of `csi.v1.NodeGetInfoResponse`.
pub mod node_get_info_response {
    /// `node_id`.
    pub const NODE_ID: &str = "Id of this node, chosen by the driver";
    /// `max_volumes_per_node`.
    pub const MAX_VOLUMES_PER_NODE: &str = "Largest number of volumes that can be attached to this node";
    /// `accessible_topology`.
    pub const ACCESSIBLE_TOPOLOGY: &str = "Place in the cluster where this node is";
}
/// Fields of `csi.v1.NodeExpandVolumeRequest`.
pub mod node_expand_volume_request {
    /// `volume_id`.
    pub const VOLUME_ID: &str = "Volume to expand";
    /// `volume_path`.
    pub const VOLUME_PATH: &str = "Path where the volume is published or staged, an absolute path";
    /// `capacity_range`.
    pub const CAPACITY_RANGE: &str = "Size that the volume must have afterwards, in bytes";
    /// `staging_target_path`.
    pub const STAGING_TARGET_PATH: &str = "Folder in which the volume is staged, an absolute path";
    /// `volume_capability`.
    pub const VOLUME_CAPABILITY: &str = "Way in which the volume is used";
    /// `secrets`.
    pub const SECRETS: &str = "Secrets that the driver needs for this call, as key and value pairs";
}
/// Fields of `csi.v1.NodeExpandVolumeResponse`.
pub mod node_expand_volume_response {
    /// `capacity_bytes`.
    pub const CAPACITY_BYTES: &str = "Size of the volume now, in bytes";
}
/// Fields of `csi.v1.GroupControllerGetCapabilitiesResponse`.
pub mod group_controller_get_capabilities_response {
    /// `capabilities`.
    pub const CAPABILITIES: &str = "What the group controller offers, one entry for each capability";
}
/// Fields of `csi.v1.GroupControllerServiceCapability`.
pub mod group_controller_service_capability {
    /// `rpc`.
    pub const RPC: &str = "RPC or feature that the group controller has";
}
/// Fields of `csi.v1.GroupControllerServiceCapability.RPC`.
pub mod group_controller_service_capability_rpc {
    /// `type`.
    pub const TYPE: &str = "RPC or feature";
}
/// Fields of `csi.v1.CreateVolumeGroupSnapshotRequest`.
pub mod create_volume_group_snapshot_request {
    /// `name`.
    pub const NAME: &str = "Name of the group; the same name always means the same group";
    /// `source_volume_ids`.
    pub const SOURCE_VOLUME_IDS: &str = "Volumes to take a snapshot of together, one id for each";
    /// `secrets`.
    pub const SECRETS: &str = "Secrets that the driver needs for this call, as key and value pairs";
    /// `parameters`.
    pub const PARAMETERS: &str = "Settings for the new group snapshot, as key and value pairs";
}
/// Fields of `csi.v1.CreateVolumeGroupSnapshotResponse`.
pub mod create_volume_group_snapshot_response {
    /// `group_snapshot`.
    pub const GROUP_SNAPSHOT: &str = "The group snapshot, new or found";
}
/// Fields of `csi.v1.VolumeGroupSnapshot`.
pub mod volume_group_snapshot {
    /// `group_snapshot_id`.
    pub const GROUP_SNAPSHOT_ID: &str = "Id of the group, chosen by the driver; all later calls use it";
    /// `snapshots`.
    pub const SNAPSHOTS: &str = "Snapshots of the group, one for each source volume";
    /// `creation_time`.
    pub const CREATION_TIME: &str = "When the snapshots were taken: their common point in time";
    /// `ready_to_use`.
    pub const READY_TO_USE: &str = "Whether volumes can be made from all snapshots of the group now";
}
/// Fields of `csi.v1.DeleteVolumeGroupSnapshotRequest`.
pub mod delete_volume_group_snapshot_request {
    /// `group_snapshot_id`.
    pub const GROUP_SNAPSHOT_ID: &str = "Group to delete, as CreateVolumeGroupSnapshot returned its id";
    /// `snapshot_ids`.
    pub const SNAPSHOT_IDS: &str = "Snapshots of the group, one id for each";
    /// `secrets`.
    pub const SECRETS: &str = "Secrets that the driver needs for this call, as key and value pairs";
}
/// Fields of `csi.v1.GetVolumeGroupSnapshotRequest`.
pub mod get_volume_group_snapshot_request {
    /// `group_snapshot_id`.
    pub const GROUP_SNAPSHOT_ID: &str = "Group to show, as CreateVolumeGroupSnapshot returned its id";
    /// `snapshot_ids`.
    pub const SNAPSHOT_IDS: &str = "Snapshots of the group, one id for each";
    /// `secrets`.
    pub const SECRETS: &str = "Secrets that the driver needs for this call, as key and value pairs";
}
/// Fields of `csi.v1.GetVolumeGroupSnapshotResponse`.
pub mod get_volume_group_snapshot_response {
    /// `group_snapshot`.
    pub const GROUP_SNAPSHOT: &str = "The group snapshot";
}
/// Fields of `csi.v1.BlockMetadata`.
pub mod block_metadata {
    /// `byte_offset`.
    pub const BYTE_OFFSET: &str = "Where the range begins, in bytes from the start of the snapshot";
    /// `size_bytes`.
    pub const SIZE_BYTES: &str = "Length of the range, in bytes";
}
/// Fields of `csi.v1.GetMetadataAllocatedRequest`.
pub mod get_metadata_allocated_request {
    /// `snapshot_id`.
    pub const SNAPSHOT_ID: &str = "Snapshot to describe";
    /// `starting_offset`.
    pub const STARTING_OFFSET: &str = "Offset in the snapshot at which to begin, in bytes";
    /// `max_results`.
    pub const MAX_RESULTS: &str = "Largest number of ranges in one message of the stream";
    /// `secrets`.
    pub const SECRETS: &str = "Secrets that the driver needs for this call, as key and value pairs";
}
/// Fields of `csi.v1.GetMetadataAllocatedResponse`.
pub mod get_metadata_allocated_response {
    /// `block_metadata_type`.
    pub const BLOCK_METADATA_TYPE: &str = "How the ranges are cut";
    /// `volume_capacity_bytes`.
    pub const VOLUME_CAPACITY_BYTES: &str = "Size of the volume behind the snapshot, in bytes";
    /// `block_metadata`.
    pub const BLOCK_METADATA: &str = "Ranges that hold data";
}
/// Fields of `csi.v1.GetMetadataDeltaRequest`.
pub mod get_metadata_delta_request {
    /// `base_snapshot_id`.
    pub const BASE_SNAPSHOT_ID: &str = "Older snapshot, the one to compare with";
    /// `target_snapshot_id`.
    pub const TARGET_SNAPSHOT_ID: &str = "Newer snapshot of the same volume, the one to describe";
    /// `starting_offset`.
    pub const STARTING_OFFSET: &str = "Offset in the snapshot at which to begin, in bytes";
    /// `max_results`.
    pub const MAX_RESULTS: &str = "Largest number of ranges in one message of the stream";
    /// `secrets`.
    pub const SECRETS: &str = "Secrets that the driver needs for this call, as key and value pairs";
}
/// Fields of `csi.v1.GetMetadataDeltaResponse`.
pub mod get_metadata_delta_response {
    /// `block_metadata_type`.
    pub const BLOCK_METADATA_TYPE: &str = "How the ranges are cut";
    /// `volume_capacity_bytes`.
    pub const VOLUME_CAPACITY_BYTES: &str = "Size of the volume behind the snapshot, in bytes";
    /// `block_metadata`.
    pub const BLOCK_METADATA: &str = "Ranges that differ between the two snapshots";
}
