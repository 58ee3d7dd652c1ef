//! Examples of the Controller service without snapshots.

use super::{Example, example, mounted};
use serde_json::{Value as Json, json};

pub fn create_volume() -> Example {
    let request = json!({
        "name": "pvc-1",
        "capacity_range": {"required_bytes": 10, "limit_bytes": 20},
        "volume_capabilities": [mounted(), {"block": {}, "access_mode": {"mode": 1}}],
        "parameters": {"server": "nfs.example"},
        "secrets": {"user.name": "x"},
        "volume_content_source": {"snapshot": {"snapshot_id": "s1"}},
        "accessibility_requirements": {
            "requisite": [
                {"segments": {"example.com/zone": "z1"}},
                {"segments": {"example.com/zone": "z2"}}
            ],
            "preferred": [{"segments": {"example.com/zone": "z2"}}]
        }
    });
    let reply = json!({"volume": {
        "capacity_bytes": 10,
        "volume_id": "v1",
        "volume_context": {"server": "nfs.example"},
        "content_source": {"snapshot": {"snapshot_id": "s1"}},
        "accessible_topology": [{"segments": {"example.com/zone": "z1", "example.com/rack": "r1"}}]
    }});
    example(request, reply)
        .bad_request(
            "/name",
            json!("a\u{0}"),
            "name: \"a\\0\" has a control character that is not a tab, line feed or carriage return",
        )
        .bad_request(
            "/volume_capabilities/0/mount",
            Json::Null,
            "volume_capabilities[0].access_type: required: block or mount",
        )
        .bad_request(
            "/volume_capabilities/0/access_mode",
            Json::Null,
            "volume_capabilities[0].access_mode: required",
        )
        .bad_request(
            "/volume_capabilities/1/access_mode/mode",
            json!("UNKNOWN"),
            "volume_capabilities[1].access_mode.mode: required",
        )
        .bad_request(
            "/volume_capabilities/0/mount/mount_flags",
            json!(["secret".repeat(400), "secret".repeat(400)]),
            "volume_capabilities[0].mount.mount_flags: have 4800 bytes, at most 4096 are allowed",
        )
        .bad_request(
            "/capacity_range",
            json!({}),
            "capacity_range: required_bytes or limit_bytes must be set",
        )
        .bad_request("/capacity_range/required_bytes", Json::Null, "")
        .bad_request("/capacity_range/limit_bytes", Json::Null, "")
        .bad_request(
            "/capacity_range",
            json!({"required_bytes": 2, "limit_bytes": 1}),
            "capacity_range.limit_bytes: 1 is less than required_bytes, 2",
        )
        .bad_request(
            "/volume_content_source",
            json!({}),
            "volume_content_source.type: required: snapshot or volume",
        )
        .bad_request(
            "/volume_content_source",
            json!({"snapshot": {}}),
            "volume_content_source.snapshot.snapshot_id: required",
        )
        .bad_request(
            "/volume_content_source",
            json!({"volume": {}}),
            "volume_content_source.volume.volume_id: required",
        )
        .bad_request(
            "/accessibility_requirements",
            json!({}),
            "accessibility_requirements: requisite or preferred must be set",
        )
        .bad_request("/accessibility_requirements/requisite", Json::Null, "")
        .bad_request("/accessibility_requirements/preferred", Json::Null, "")
        .bad_request(
            "/accessibility_requirements/preferred/-",
            json!({"segments": {"example.com/zone": "z3"}}),
            "accessibility_requirements.preferred[1]: is not in requisite",
        )
        .bad_reply(
            "/volume/volume_id",
            Json::Null,
            "volume.volume_id: required",
        )
        .bad_reply(
            "/volume/capacity_bytes",
            json!(9),
            "volume.capacity_bytes: 9 is less than the request's required_bytes, 10",
        )
        .bad_reply(
            "/volume/capacity_bytes",
            json!(21),
            "volume.capacity_bytes: 21 is more than the request's limit_bytes, 20",
        )
        .bad_reply("/volume/capacity_bytes", json!(0), "")
        .bad_reply("/volume/content_source", Json::Null, "")
        .bad_reply(
            "/volume/content_source",
            json!({"volume": {"volume_id": "s1"}}),
            "volume.content_source: is not the request's volume_content_source",
        )
        .bad_reply(
            "/volume/accessible_topology/0/segments/example.com~1zone",
            json!("z3"),
            "volume.accessible_topology: has no place that the request's \
             accessibility_requirements.requisite has",
        )
        .bad_reply("/volume/accessible_topology", json!([]), "")
        .bad_reply(
            "/volume/accessible_topology/-",
            json!({"segments": {"example.com/zone": "z3"}}),
            "",
        )
}

pub fn delete_volume() -> Example {
    example(json!({"volume_id": "v1"}), json!({}))
}

pub fn controller_publish_volume() -> Example {
    let request = json!({
        "volume_id": "v1",
        "node_id": "n".repeat(256),
        "volume_capability": mounted(),
        "volume_context": {"a": "b"}
    });
    example(request, json!({"publish_context": {"a": "b"}})).bad_request(
        "/volume_capability/access_mode/mode",
        json!(0),
        "volume_capability.access_mode.mode: required",
    )
}

pub fn controller_unpublish_volume() -> Example {
    example(json!({"volume_id": "v1", "node_id": "n1"}), json!({}))
}

pub fn validate_volume_capabilities() -> Example {
    let request = json!({"volume_id": "v1", "volume_capabilities": [mounted()]});
    let reply = json!({"confirmed": {"volume_capabilities": [
        {"block": {}, "access_mode": {"mode": 1}},
        mounted()
    ]}});
    example(request, reply)
        .bad_reply("/confirmed", Json::Null, "")
        .bad_reply(
            "/confirmed/volume_capabilities",
            json!([]),
            "confirmed.volume_capabilities: required, at least one",
        )
        .bad_reply(
            "/confirmed/volume_capabilities/1/mount/volume_mount_group",
            json!(""),
            "confirmed.volume_capabilities: lacks the request's volume_capabilities[0]",
        )
}

pub fn list_volumes() -> Example {
    let entry = |id: &str| {
        json!({
            "volume": {"volume_id": id},
            "status": {
                "published_node_ids": ["n".repeat(256)],
                "volume_condition": {"abnormal": true, "message": "slow"}
            }
        })
    };
    let request = json!({"max_entries": 2, "starting_token": "a"});
    let reply = json!({"entries": [entry("v1"), entry("v2")], "next_token": "b"});
    example(request, reply)
        .bad_reply(
            "/entries/-",
            entry("v3"),
            "entries: has 3 elements, the request's max_entries is 2",
        )
        .bad_reply(
            "/next_token",
            json!("a"),
            "next_token: \"a\" is the request's starting_token",
        )
        .bad_reply(
            "/entries/1/volume",
            Json::Null,
            "entries[1].volume: required",
        )
        .bad_reply(
            "/entries/1/status/volume_condition/message",
            json!(""),
            "entries[1].status.volume_condition.message: required",
        )
}

pub fn get_capacity() -> Example {
    let request = json!({
        "volume_capabilities": [mounted()],
        "accessible_topology": {"segments": {"zone": "z1", "example.com/rack": "r1"}}
    });
    let value =
        "must have 1 to 63 letters, digits, '-', '_' and '.', with a letter or digit at both ends";
    let value = format!("accessible_topology.segments: the value of \"zone\", \"-\", {value}");
    let key = "is not a key: write a name, or a lower-case domain, a slash and a name, each of at most 63 characters";
    let key = format!("accessible_topology.segments: \"a b\" {key}");
    example(request, json!({"maximum_volume_size": 0}))
        .bad_request(
            "/accessible_topology/segments/zone",
            json!("-"),
            value,
        )
        .bad_request(
            "/accessible_topology/segments/a b",
            json!("x"),
            key,
        )
        .bad_request(
            "/accessible_topology/segments/Zone",
            json!("z1"),
            "accessible_topology.segments: \"Zone\" and \"zone\" differ only in case",
        )
        .bad_request(
            "/accessible_topology/segments/example.org~1row",
            json!("r1"),
            "accessible_topology.segments: the prefix of \"example.org/row\" is not that of the keys before",
        )
}

pub fn controller_expand_volume() -> Example {
    let request = json!({
        "volume_id": "v1",
        "capacity_range": {"required_bytes": 10, "limit_bytes": 20},
        "volume_capability": mounted()
    });
    example(
        request,
        json!({"capacity_bytes": 20, "node_expansion_required": true}),
    )
    .bad_reply(
        "/capacity_bytes",
        json!(0),
        "capacity_bytes: required, greater than 0",
    )
    .bad_reply(
        "/capacity_bytes",
        json!(9),
        "capacity_bytes: 9 is less than the request's required_bytes, 10",
    )
    // It may have been larger before.
    .bad_reply("/capacity_bytes", json!(21), "")
}

pub fn controller_get_volume() -> Example {
    let reply = json!({"volume": {"volume_id": "v1"}, "status": {}});
    example(json!({"volume_id": "v1"}), reply).bad_reply(
        "/volume/volume_id",
        json!("v2"),
        "volume.volume_id: \"v2\" is not the request's volume_id, \"v1\"",
    )
}

pub fn controller_modify_volume() -> Example {
    let request = json!({"volume_id": "v1", "mutable_parameters": {"iops": "1"}});
    example(request, json!({}))
}
