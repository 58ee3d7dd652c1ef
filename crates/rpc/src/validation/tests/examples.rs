//! A valid request and reply of every RPC, and changes that break one rule each. Fields that are missing are left to the
//! tests that walk the rules.

mod node;
pub mod snapshots;
pub mod volumes;

use serde_json::{Value as Json, json};

/// A JSON pointer, the value to put there (`null` removes the field), and the violation that follows.
pub(crate) struct Change(pub &'static str, pub Json, pub String);

/// An RPC's messages.
pub struct Example {
    pub request: Json,
    pub reply: Json,
    pub bad_requests: Vec<Change>,
    pub bad_replies: Vec<Change>,
}

/// Makes an example.
type Make = fn() -> Example;

/// The example of each RPC.
pub const EXAMPLES: &[(&str, Make)] = &[
    ("GetPluginInfo", get_plugin_info),
    ("GetPluginCapabilities", get_plugin_capabilities),
    ("Probe", probe),
    ("CreateVolume", volumes::create_volume),
    ("DeleteVolume", volumes::delete_volume),
    (
        "ControllerPublishVolume",
        volumes::controller_publish_volume,
    ),
    (
        "ControllerUnpublishVolume",
        volumes::controller_unpublish_volume,
    ),
    (
        "ValidateVolumeCapabilities",
        volumes::validate_volume_capabilities,
    ),
    ("ListVolumes", volumes::list_volumes),
    ("GetCapacity", volumes::get_capacity),
    ("ControllerGetCapabilities", get_capabilities),
    ("CreateSnapshot", snapshots::create_snapshot),
    ("DeleteSnapshot", snapshots::delete_snapshot),
    ("ListSnapshots", snapshots::list_snapshots),
    ("GetSnapshot", snapshots::get_snapshot),
    ("ControllerExpandVolume", volumes::controller_expand_volume),
    ("ControllerGetVolume", volumes::controller_get_volume),
    ("ControllerModifyVolume", volumes::controller_modify_volume),
    ("GroupControllerGetCapabilities", get_capabilities_of_group),
    (
        "CreateVolumeGroupSnapshot",
        snapshots::create_volume_group_snapshot,
    ),
    (
        "DeleteVolumeGroupSnapshot",
        snapshots::delete_volume_group_snapshot,
    ),
    (
        "GetVolumeGroupSnapshot",
        snapshots::get_volume_group_snapshot,
    ),
    ("GetMetadataAllocated", snapshots::get_metadata_allocated),
    ("GetMetadataDelta", snapshots::get_metadata_delta),
    ("NodeStageVolume", node::node_stage_volume),
    ("NodeUnstageVolume", node::node_unstage_volume),
    ("NodePublishVolume", node::node_publish_volume),
    ("NodeUnpublishVolume", node::node_unpublish_volume),
    ("NodeGetVolumeStats", node::node_get_volume_stats),
    ("NodeExpandVolume", node::node_expand_volume),
    ("NodeGetCapabilities", get_capabilities),
    ("NodeGetInfo", node::node_get_info),
];

fn example(request: Json, reply: Json) -> Example {
    Example {
        request,
        reply,
        bad_requests: Vec::new(),
        bad_replies: Vec::new(),
    }
}

impl Example {
    fn bad_request(mut self, at: &'static str, value: Json, problems: impl Into<String>) -> Self {
        self.bad_requests.push(Change(at, value, problems.into()));
        self
    }

    fn bad_reply(mut self, at: &'static str, value: Json, problems: impl Into<String>) -> Self {
        self.bad_replies.push(Change(at, value, problems.into()));
        self
    }
}

fn mounted() -> Json {
    json!({
        "mount": {"fs_type": "nfs", "mount_flags": ["ro", "vers=4.2"], "volume_mount_group": "1000"},
        "access_mode": {"mode": "MULTI_NODE_MULTI_WRITER"}
    })
}

fn get_plugin_info() -> Example {
    let name = "is not a domain name of at most 63 letters, digits, '-' and '.'";
    let problems = format!("name: \"a_b\" {name}");
    let reply = json!({"name": "nfs.csi.example", "vendor_version": "1.0", "manifest": {"k": "v"}});
    example(json!({}), reply).bad_reply("/name", json!("a_b"), problems)
}

fn get_plugin_capabilities() -> Example {
    let reply = json!({"capabilities": [
        {"service": {"type": "CONTROLLER_SERVICE"}},
        {"volume_expansion": {"type": "ONLINE"}},
        {"service": {}}
    ]});
    let problems = "capabilities[1].type: required: service or volume_expansion";
    example(json!({}), reply).bad_reply("/capabilities/1", json!({}), problems)
}

fn probe() -> Example {
    example(json!({}), json!({"ready": false}))
}

fn get_capabilities() -> Example {
    let reply = json!({"capabilities": [{"rpc": {"type": 1}}, {"rpc": {"type": 99}}, {"rpc": {}}]});
    let problems = "capabilities[0].type: required: rpc";
    example(json!({}), reply).bad_reply("/capabilities/0", json!({}), problems)
}

fn get_capabilities_of_group() -> Example {
    get_capabilities()
}
