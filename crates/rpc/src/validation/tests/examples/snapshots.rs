//! Examples of snapshots, groups of snapshots, and their metadata.

use super::{Example, example};
use serde_json::{Value as Json, json};

pub fn snapshot() -> Json {
    json!({
        "size_bytes": 5,
        "snapshot_id": "s1",
        "source_volume_id": "v1",
        "creation_time": "2024-05-06T07:08:09Z",
        "ready_to_use": true
    })
}

pub fn group() -> Json {
    let mut first = snapshot();
    first["group_snapshot_id"] = json!("g1");
    let mut second = first.clone();
    second["snapshot_id"] = json!("s2");
    second["source_volume_id"] = json!("v2");
    json!({
        "group_snapshot_id": "g1",
        "snapshots": [first, second],
        "creation_time": "2024-05-06T07:08:09Z",
        "ready_to_use": true
    })
}

pub fn create_snapshot() -> Example {
    let request = json!({"source_volume_id": "v1", "name": "snap"});
    example(request, json!({"snapshot": snapshot()}))
        .bad_request(
            "/name",
            json!("\u{85}"),
            "name: \"\\u{85}\" has a control character that is not a tab, line feed or carriage return",
        )
        .bad_reply(
            "/snapshot/source_volume_id",
            json!("v2"),
            "snapshot.source_volume_id: \"v2\" is not the request's source_volume_id, \"v1\"",
        )
        .bad_reply(
            "/snapshot/source_volume_id",
            json!(""),
            "snapshot.source_volume_id: required",
        )
        .bad_reply(
            "/snapshot/snapshot_id",
            json!(""),
            "snapshot.snapshot_id: required",
        )
        .bad_reply(
            "/snapshot/creation_time",
            Json::Null,
            "snapshot.creation_time: required",
        )
}

pub fn delete_snapshot() -> Example {
    example(json!({"snapshot_id": "s1"}), json!({}))
}

pub fn list_snapshots() -> Example {
    let entry = json!({"snapshot": snapshot()});
    let request = json!({
        "max_entries": 1,
        "starting_token": "a",
        "source_volume_id": "v1",
        "snapshot_id": "s1"
    });
    example(request, json!({"entries": [entry.clone()]}))
        .bad_reply(
            "/entries/-",
            entry,
            "entries: has 2 elements, the request's max_entries is 1",
        )
        .bad_reply(
            "/next_token",
            json!("a"),
            "next_token: \"a\" is the request's starting_token",
        )
        .bad_reply(
            "/entries/0/snapshot",
            Json::Null,
            "entries[0].snapshot: required",
        )
        .bad_reply("/entries/0/snapshot/source_volume_id", json!("v2"), "")
        .bad_reply(
            "/entries/0/snapshot/snapshot_id",
            json!("s2"),
            "entries[0].snapshot.snapshot_id: \"s2\" is not the request's snapshot_id, \"s1\"",
        )
}

pub fn get_snapshot() -> Example {
    let reply = json!({"snapshot": snapshot()});
    example(json!({"snapshot_id": "s1"}), reply).bad_reply(
        "/snapshot/snapshot_id",
        json!("s2"),
        "snapshot.snapshot_id: \"s2\" is not the request's snapshot_id, \"s1\"",
    )
}

pub fn create_volume_group_snapshot() -> Example {
    let request = json!({"name": "group", "source_volume_ids": ["v1", "v2"]});
    let mut unfinished = group();
    unfinished["ready_to_use"] = json!(false);
    unfinished["snapshots"][1]["ready_to_use"] = json!(false);
    example(request, json!({"group_snapshot": group()}))
        .bad_request(
            "/source_volume_ids/1",
            json!(""),
            "source_volume_ids[1]: is empty",
        )
        .bad_reply(
            "/group_snapshot/group_snapshot_id",
            json!("g2"),
            "group_snapshot.snapshots[0].group_snapshot_id: \"g1\" is not the group's id; \
             group_snapshot.snapshots[1].group_snapshot_id: \"g1\" is not the group's id",
        )
        .bad_reply(
            "/group_snapshot/snapshots",
            json!([]),
            "group_snapshot.snapshots: required, at least one; \
             group_snapshot.snapshots: none is of the request's volume \"v1\"; \
             group_snapshot.snapshots: none is of the request's volume \"v2\"",
        )
        .bad_reply(
            "/group_snapshot/creation_time",
            Json::Null,
            "group_snapshot.creation_time: required",
        )
        .bad_reply(
            "/group_snapshot/snapshots/1/ready_to_use",
            json!(false),
            "group_snapshot.ready_to_use: is true, though one of the snapshots is not ready",
        )
        .bad_reply("/group_snapshot", unfinished, "")
        .bad_reply(
            "/group_snapshot/snapshots/1/group_snapshot_id",
            Json::Null,
            "",
        )
        .bad_reply(
            "/group_snapshot/snapshots/1/source_volume_id",
            json!("v3"),
            "group_snapshot.snapshots: none is of the request's volume \"v2\"",
        )
}

pub fn delete_volume_group_snapshot() -> Example {
    let request = json!({"group_snapshot_id": "g1", "snapshot_ids": ["s1"]});
    let problems = "snapshot_ids[0]: is empty";
    example(request, json!({})).bad_request("/snapshot_ids/0", json!(""), problems)
}

pub fn get_volume_group_snapshot() -> Example {
    let request = json!({"group_snapshot_id": "g1", "snapshot_ids": ["s1", "s2"]});
    let mut other = group();
    other["group_snapshot_id"] = json!("g2");
    for index in 0..2 {
        other["snapshots"][index]["group_snapshot_id"] = json!("g2");
    }
    example(request, json!({"group_snapshot": group()})).bad_reply(
        "/group_snapshot",
        other,
        "group_snapshot.group_snapshot_id: \"g2\" is not the request's group_snapshot_id, \"g1\"",
    )
}

pub fn ranges(request: Json) -> Example {
    let reply = json!({
        "block_metadata_type": "FIXED_LENGTH",
        "volume_capacity_bytes": 100,
        "block_metadata": [
            {"byte_offset": 10, "size_bytes": 10},
            {"byte_offset": 30, "size_bytes": 10}
        ]
    });
    example(request, reply)
        .bad_reply(
            "/block_metadata/0/byte_offset",
            json!(5),
            "block_metadata[0]: ends at 15, not after the request's starting_offset, 15",
        )
        .bad_reply(
            "/block_metadata/1/byte_offset",
            json!(19),
            "block_metadata[1].byte_offset: 19 is less than 20, where the range before ends",
        )
        .bad_reply(
            "/block_metadata/1/size_bytes",
            json!(11),
            "block_metadata[1].size_bytes: 11 is not that of the first range, 10, as FIXED_LENGTH says",
        )
        .bad_reply(
            "/block_metadata/-",
            json!({"byte_offset": 50, "size_bytes": 10}),
            "block_metadata: has 3 elements, the request's max_results is 2",
        )
        .bad_reply(
            "/block_metadata",
            json!([{"byte_offset": 20}]),
            "block_metadata[0].size_bytes: required, greater than 0",
        )
}

pub fn get_metadata_allocated() -> Example {
    ranges(json!({"snapshot_id": "s1", "starting_offset": 15, "max_results": 2}))
}

pub fn get_metadata_delta() -> Example {
    ranges(json!({
        "base_snapshot_id": "s1",
        "target_snapshot_id": "s2",
        "starting_offset": 15,
        "max_results": 2
    }))
}
