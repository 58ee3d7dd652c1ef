//! Examples of the Node service.

use super::{Example, example, mounted};
use serde_json::json;

pub fn node_stage_volume() -> Example {
    let request = json!({
        "volume_id": "v1",
        "staging_target_path": format!("/{}", "x".repeat(1000)),
        "volume_capability": mounted()
    });
    example(request, json!({})).bad_request(
        "/staging_target_path",
        json!("stage"),
        "staging_target_path: \"stage\" is not an absolute path",
    )
}

pub fn node_unstage_volume() -> Example {
    let request = json!({"volume_id": "v1", "staging_target_path": "/s"});
    example(request, json!({}))
}

pub fn node_publish_volume() -> Example {
    let request = json!({
        "volume_id": "v1",
        "staging_target_path": "/s",
        "target_path": "/t",
        "volume_capability": mounted()
    });
    example(request, json!({}))
        .bad_request(
            "/target_path",
            json!("t"),
            "target_path: \"t\" is not an absolute path",
        )
        .bad_request("/staging_target_path", json!(""), "")
}

pub fn node_unpublish_volume() -> Example {
    let request = json!({"volume_id": "v1", "target_path": r"C:\kubelet\t"});
    example(request, json!({}))
}

pub fn node_get_volume_stats() -> Example {
    let request = json!({"volume_id": "v1", "volume_path": "/t"});
    let reply = json!({
        "usage": [{"available": 1, "total": 2, "used": 1, "unit": "BYTES"}, {"unit": "INODES"}],
        "volume_condition": {"message": "fine"}
    });
    example(request, reply)
        .bad_reply("/usage/0/unit", json!(0), "usage[0].unit: required")
        .bad_reply(
            "/usage/0/total",
            json!(-2),
            "usage[0].total: -2 is negative",
        )
        .bad_reply(
            "/volume_condition",
            json!({}),
            "volume_condition.message: required",
        )
}

pub fn node_expand_volume() -> Example {
    let request = json!({
        "volume_id": "v1",
        "volume_path": "/t",
        "capacity_range": {"required_bytes": 10, "limit_bytes": 10}
    });
    example(request, json!({"capacity_bytes": 10}))
        .bad_reply("/capacity_bytes", json!(0), "")
        .bad_reply(
            "/capacity_bytes",
            json!(11),
            "capacity_bytes: 11 is more than the request's limit_bytes, 10",
        )
}

pub fn node_get_info() -> Example {
    let reply = json!({
        "node_id": "n".repeat(256),
        "max_volumes_per_node": 8,
        "accessible_topology": {"segments": {"zone": "z1"}}
    });
    example(json!({}), reply)
        .bad_reply(
            "/max_volumes_per_node",
            json!(-1),
            "max_volumes_per_node: -1 is negative",
        )
        .bad_reply(
            "/node_id",
            json!("n".repeat(257)),
            "node_id: has 257 bytes, at most 256 are allowed",
        )
}
