//! What the walk promises beyond canonical JSON: unknown things shown, secrets hidden, broken input named.

#![allow(clippy::unwrap_used)]

use csi_proto::json::{encode, has_secrets};
use csi_proto::path::Path;
use csi_proto::value::{MASK, Secrets, TimestampText, Value, decode};
use csi_proto::{tables, v1, wire};
use prost::Message;
use serde_json::json;

fn shown(
    message: &'static csi_proto::schema::Message,
    bytes: &[u8],
    secrets: Secrets,
) -> serde_json::Value {
    serde_json::to_value(decode(message, bytes, secrets).unwrap()).unwrap()
}

#[test]
fn unknown_fields_and_enum_numbers_are_shown() {
    let mut bytes = v1::VolumeUsage {
        unit: 77,
        ..Default::default()
    }
    .encode_to_vec();
    wire::put_varint(&mut bytes, 99, 5);
    wire::put_bytes(&mut bytes, 100, b"text");
    wire::put_bytes(&mut bytes, 100, &[0xff, 0]);
    wire::put_bytes(&mut bytes, 101, b"a\nb");
    let expected = json!({
        "available": "0", "total": "0", "used": "0", "unit": 77,
        "#99": "5", "#100": ["text", "/wA="], "#101": "YQpi",
    });
    assert_eq!(
        shown(&tables::VOLUME_USAGE, &bytes, Secrets::Mask),
        expected
    );
}

#[test]
fn a_known_field_of_another_wire_type_is_shown_as_unknown() {
    let mut bytes = Vec::new();
    wire::put_bytes(&mut bytes, 1, b"not a number");
    let value = shown(&tables::VOLUME_USAGE, &bytes, Secrets::Mask);
    assert_eq!(value["available"], "0");
    assert_eq!(value["#1"], "not a number");
}

#[test]
fn messages_that_occur_twice_are_merged() {
    let first = v1::CreateVolumeResponse {
        volume: Some(v1::Volume {
            volume_id: "before".to_owned(),
            capacity_bytes: 1,
            ..Default::default()
        }),
    };
    let second = v1::CreateVolumeResponse {
        volume: Some(v1::Volume {
            volume_id: "id".to_owned(),
            capacity_bytes: 7,
            ..Default::default()
        }),
    };
    let bytes = [first.encode_to_vec(), second.encode_to_vec()].concat();
    let value = shown(&tables::CREATE_VOLUME_RESPONSE, &bytes, Secrets::Mask);
    assert_eq!(
        (
            &value["volume"]["volumeId"],
            &value["volume"]["capacityBytes"]
        ),
        (&json!("id"), &json!("7"))
    );
    let path = Path::parse(&tables::CREATE_VOLUME_RESPONSE, "volume.volumeId").unwrap();
    assert_eq!(path.read(&bytes).unwrap(), Value::Text("id".into()));
}

#[test]
fn secrets_are_masked_or_left_out() {
    const TOKENS: &str = "csi.storage.k8s.io/serviceAccount.tokens";
    let request = v1::NodePublishVolumeRequest {
        secrets: [("password".to_owned(), "hunter2".to_owned())].into(),
        volume_context: [
            (TOKENS.to_owned(), "hunter2".to_owned()),
            ("a".to_owned(), "b".to_owned()),
        ]
        .into(),
        ..Default::default()
    };
    let bytes = request.encode_to_vec();
    let masked = shown(&tables::NODE_PUBLISH_VOLUME_REQUEST, &bytes, Secrets::Mask);
    assert_eq!(masked["secrets"], json!({ "password": MASK }));
    assert_eq!(masked["volumeContext"], json!({ "a": "b", TOKENS: MASK }));
    let left_out = shown(&tables::NODE_PUBLISH_VOLUME_REQUEST, &bytes, Secrets::Omit);
    assert_eq!(left_out["volumeContext"], json!({ "a": "b" }));
    assert!(left_out.get("secrets").is_none());
}

#[test]
fn what_does_not_fit_is_refused_with_its_place() {
    let cases = [
        (
            json!([]),
            "the request: expected an object (CreateVolumeRequest)",
        ),
        (
            json!({ "nam": "x" }),
            "the request: CreateVolumeRequest has no field \"nam\"; it has name, capacityRange",
        ),
        (json!({ "name": 1 }), "name: expected text in quotes"),
        (
            json!({ "capacity_range": {}, "capacityRange": {} }),
            "capacityRange: given twice, in two spellings",
        ),
        (
            json!({ "capacityRange": { "requiredBytes": 1.5 } }),
            "capacityRange.requiredBytes: 1.5 is not a whole number of 64 bits",
        ),
        (
            json!({ "volumeCapabilities": [{ "accessMode": { "mode": "RWX" } }] }),
            "volumeCapabilities[0].accessMode.mode: \"RWX\" is none of UNKNOWN, SINGLE_NODE_WRITER",
        ),
        (
            json!({ "volumeCapabilities": [{ "block": {}, "mount": {} }] }),
            "volumeCapabilities[0].mount: excludes block",
        ),
        (
            json!({ "parameters": { "a": 1 } }),
            "parameters.a: expected text in quotes",
        ),
    ];
    for (document, expected) in cases {
        let error = encode(&tables::CREATE_VOLUME_REQUEST, &document)
            .unwrap_err()
            .to_string();
        assert!(error.starts_with(expected), "{document}: {error}");
    }
}

#[test]
fn a_whole_number_may_have_an_exponent_or_zeros_behind_its_point() {
    let bytes = |text: &str| {
        let document = serde_json::from_str(&format!("{{\"requiredBytes\":{text}}}")).unwrap();
        encode(&tables::CAPACITY_RANGE, &document)
    };
    for text in ["1e3", "1000.0", "\"1e3\"", "\"1000.0\"", "0.1E4"] {
        assert_eq!(bytes(text), bytes("1000"), "{text}");
    }
    // Of these nobody knows what was written.
    for text in ["1e-1", "1e19", "9007199254740993.0", "\"nan\"", "\"inf\""] {
        assert!(bytes(text).is_err(), "{text}");
    }
}

#[test]
fn enums_have_any_case_and_null_excludes_nothing() {
    let capability = |json| encode(&tables::VOLUME_CAPABILITY, &json).unwrap();
    assert_eq!(
        capability(
            json!({ "accessMode": { "mode": "multi_node_reader_only" }, "block": {}, "mount": null })
        ),
        capability(json!({ "access_mode": { "mode": "MULTI_NODE_READER_ONLY" }, "block": {} }))
    );
}

#[test]
fn a_time_that_has_no_text_is_shown_by_its_numbers() {
    for (seconds, nanos, expected) in [
        (-62_135_596_800, 0, "0001-01-01T00:00:00Z"),
        (-62_135_596_801, 0, "seconds:-62135596801 nanos:0"),
        (
            253_402_300_799,
            999_999_999,
            "9999-12-31T23:59:59.999999999Z",
        ),
        (253_402_300_800, 0, "seconds:253402300800 nanos:0"),
        (0, -1, "seconds:0 nanos:-1"),
        (0, 1_000_000_000, "seconds:0 nanos:1000000000"),
    ] {
        let time = TimestampText(prost_types::Timestamp { seconds, nanos });
        assert_eq!(time.to_string(), expected);
    }
}

#[test]
fn a_path_reads_what_the_walk_shows() {
    let snapshot = v1::volume_content_source::SnapshotSource {
        snapshot_id: "s".to_owned(),
    };
    let volume = v1::Volume {
        volume_id: "id".to_owned(),
        capacity_bytes: 7,
        content_source: Some(v1::VolumeContentSource {
            r#type: Some(v1::volume_content_source::Type::Snapshot(snapshot)),
        }),
        ..Default::default()
    };
    let mut volume = volume.encode_to_vec();
    // No number, though a field of numbers has this one.
    wire::put_bytes(&mut volume, 1, b"none");
    let mut bytes = Vec::new();
    wire::put_bytes(&mut bytes, 1, &volume);
    for (path, expected) in [
        ("volume.volume_id", json!("id")),
        ("volume.capacityBytes", json!("7")),
        ("volume.volume_context", json!({})),
        (
            "volume.content_source",
            json!({ "snapshot": { "snapshotId": "s" } }),
        ),
        ("volume.content_source.snapshot.snapshot_id", json!("s")),
        ("volume.content_source.volume", json!(null)),
        ("volume.content_source.volume.volume_id", json!(null)),
    ] {
        let read = Path::parse(&tables::CREATE_VOLUME_RESPONSE, path).unwrap();
        let value = read.read(&bytes).unwrap();
        assert_eq!(serde_json::to_value(value).unwrap(), expected, "{path}");
    }
}

#[test]
fn secrets_in_a_document_are_found() {
    for (document, expected) in [
        (json!({ "secrets": { "a": "b" } }), true),
        (json!({ "secrets": {} }), false),
        (json!({ "secrets": "b" }), true),
        (json!({ "name": "secrets" }), false),
    ] {
        assert_eq!(
            has_secrets(&tables::CREATE_VOLUME_REQUEST, &document),
            expected,
            "{document}"
        );
    }
}

#[test]
fn a_path_that_is_none_names_what_there_is() {
    let error = Path::parse(&tables::CREATE_VOLUME_RESPONSE, "volume.size").unwrap_err();
    let expected = "Volume has no field \"size\"; it has capacity_bytes, volume_id, volume_context, content_source, accessible_topology";
    assert_eq!(error.to_string(), expected);
}
