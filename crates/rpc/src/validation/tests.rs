//! Tests every RPC with a valid request and reply, and with each way to break them.

#![allow(clippy::unwrap_used)]

mod every_field;
mod examples;

use super::exchange::Agreement;
use super::rule::Rule;
use super::*;

fn reply(
    method: &'static Method,
    request: &[u8],
    bytes: &[u8],
    checks: &Checks,
) -> Result<(), Violations> {
    Replies::new(method, request, checks).check(bytes)
}

use csi_proto::schema::{Kind, Message};
use csi_proto::tables::METHODS;
use csi_proto::{json, v1, wire};
use examples::{Change, EXAMPLES, Example};
use prost::Message as _;
use serde_json::{Value as Json, json};

/// The declaration of a method.
fn rpc_of(method: &Method) -> &'static crate::Rpc {
    crate::find(method).expect("a declared method")
}

const SPEC: Checks = Checks {
    spec: true,
    credentials: false,
    volume_context: false,
    publish_context: false,
};

fn method(name: &str) -> &'static Method {
    csi_proto::methods::by_name(name).unwrap()
}

fn bytes(message: &'static Message, json: &Json) -> Vec<u8> {
    json::encode(message, json).unwrap()
}

/// `json` with the value at the pointer replaced, inserted, or appended where the pointer ends in `-`.
fn changed(json: &Json, pointer: &str, value: Json) -> Json {
    let mut json = json.clone();
    let (parent, name) = pointer.rsplit_once('/').unwrap();
    let name = name.replace("~1", "/");
    match json.pointer_mut(parent).unwrap() {
        Json::Object(members) => {
            members.insert(name, value);
        }
        Json::Array(list) if name == "-" => list.push(value),
        Json::Array(list) => list[name.parse::<usize>().unwrap()] = value,
        other => panic!("{pointer} leads into {other}"),
    }
    json
}

/// The violations of a message, without the message's name in front; empty when it is valid.
fn problems(result: Result<(), Violations>, message: &'static Message) -> String {
    match result {
        Ok(()) => String::new(),
        Err(violations) => {
            let text = violations.to_string();
            let front = format!("{} is not valid: ", message.short_name());
            text.strip_prefix(&front).unwrap().to_owned()
        }
    }
}

fn request_problems(method: &'static Method, json: &Json, checks: &Checks) -> String {
    let bytes = bytes(method.request, json);
    problems(request(method, &bytes, checks), method.request)
}

fn reply_problems(method: &'static Method, request: &Json, json: &Json, checks: &Checks) -> String {
    let request = bytes(method.request, request);
    let bytes = bytes(method.response, json);
    problems(reply(method, &request, &bytes, checks), method.response)
}

fn examples() -> impl Iterator<Item = (&'static Method, Example)> {
    EXAMPLES
        .iter()
        .map(|(name, example)| (method(name), example()))
}

#[test]
fn every_rpc_has_an_example() {
    for method in METHODS {
        let count = EXAMPLES.iter().filter(|(name, _)| *name == method.name);
        assert_eq!(
            count.count(),
            1,
            "{} needs one exchange in EXAMPLES of validation/tests/examples.rs",
            method.name
        );
    }
}

#[test]
fn valid_messages_pass() {
    for (method, example) in examples() {
        let name = method.name;
        assert_eq!(
            request_problems(method, &example.request, &SPEC),
            "",
            "{name}"
        );
        let reply = reply_problems(method, &example.request, &example.reply, &SPEC);
        assert_eq!(reply, "", "{name}");
    }
}

#[test]
fn each_broken_rule_is_named_with_its_field() {
    for (method, example) in examples() {
        let name = method.name;
        for Change(pointer, value, expected) in example.bad_requests {
            let request = changed(&example.request, pointer, value);
            let problems = request_problems(method, &request, &SPEC);
            assert_eq!(problems, expected, "{name} {pointer}: {request}");
        }
        for Change(pointer, value, expected) in example.bad_replies {
            let reply = changed(&example.reply, pointer, value);
            let problems = reply_problems(method, &example.request, &reply, &SPEC);
            assert_eq!(problems, expected, "{name} {pointer}: {reply}");
        }
    }
}

#[test]
fn each_required_field_of_a_request_and_reply_is_missed() {
    for (method, example) in examples() {
        for field in method.request.required {
            let request = changed(&example.request, &format!("/{field}"), Json::Null);
            let problems = request_problems(method, &request, &SPEC);
            let expected = format!("{field}: required");
            assert!(
                problems.starts_with(&expected),
                "{}: {problems}",
                method.name
            );
        }
        let numbers = rpc_of(method)
            .reply_rules
            .iter()
            .filter_map(|rule| match rule {
                Rule::Required(field) => Some(field),
                _ => None,
            });
        for field in method.response.required.iter().chain(numbers) {
            let reply = changed(&example.reply, &format!("/{field}"), Json::Null);
            let problems = reply_problems(method, &example.request, &reply, &SPEC);
            let expected = format!("{field}: required");
            assert!(
                problems.starts_with(&expected),
                "{}: {problems}",
                method.name
            );
        }
    }
}

#[test]
fn the_rules_of_rpcs_name_fields_that_exist() {
    let exists = |message: &'static Message, path: &str| {
        assert!(
            csi_proto::path::Path::parse(message, path).is_ok(),
            "{path}"
        );
    };
    for method in METHODS {
        let (request, reply) = (method.request, method.response);
        let replies = rpc_of(method).reply_rules.iter().copied();
        for (message, rule) in rpc_of(method)
            .request_rules
            .iter()
            .copied()
            .map(|rule| (request, rule))
            .chain(replies.map(|rule| (reply, rule)))
        {
            if let Rule::Required(field) | Rule::Text(field, ..) = rule {
                exists(message, field);
            }
        }
        for agreement in rpc_of(method).agreements {
            match agreement {
                Agreement::AtMost(list, limit) => {
                    exists(reply, list);
                    exists(request, limit);
                }
                Agreement::Same(asked, got) => {
                    exists(request, asked);
                    exists(reply, got);
                }
                Agreement::EveryEntry(asked, _) => {
                    exists(request, asked);
                    exists(reply, "entries");
                }
                Agreement::InCapacityRange(path) | Agreement::NotBelowRequired(path) => {
                    exists(request, "capacity_range.required_bytes");
                    exists(reply, path);
                }
                Agreement::NewToken => {
                    exists(request, "starting_token");
                    exists(reply, "next_token");
                }
                Agreement::Check(_) => {}
            }
        }
    }
}

#[test]
fn demands_of_secrets_and_contexts_meet_only_messages_that_have_them() {
    let all = Checks {
        spec: false,
        credentials: true,
        volume_context: true,
        publish_context: true,
    };
    let mut demanded = 0;
    for method in METHODS {
        let names = ["secrets", "volume_context", "publish_context"];
        let has = |name: &&str| method.request.field(name).is_some();
        let expected: Vec<String> = names
            .into_iter()
            .filter(has)
            .map(|name| format!("{name}: required by the checks that were asked for"))
            .collect();
        demanded += expected.len();
        let empty = request_problems(method, &json!({}), &all);
        assert_eq!(empty, expected.join("; "), "{}", method.name);
        let full: serde_json::Map<String, Json> = names
            .into_iter()
            .filter(has)
            .map(|name| (name.to_owned(), json!({"k": "v"})))
            .collect();
        assert_eq!(request_problems(method, &Json::Object(full), &all), "");
        assert_eq!(request_problems(method, &json!({}), &Checks::default()), "");
    }
    assert!(demanded > 15, "{demanded}");
}

#[test]
fn replies_that_give_contexts_are_asked_for_them() {
    let volume_context = Checks {
        volume_context: true,
        ..Checks::default()
    };
    let publish_context = Checks {
        publish_context: true,
        ..Checks::default()
    };
    for method in METHODS {
        let problems = |checks| reply_problems(method, &json!({}), &json!({}), checks);
        let volume = match method.name {
            "CreateVolume" => "volume.volume_context: required by the checks that were asked for",
            _ => "",
        };
        let publish = match method.name {
            "ControllerPublishVolume" => {
                "publish_context: required by the checks that were asked for"
            }
            _ => "",
        };
        assert_eq!(problems(&volume_context), volume, "{}", method.name);
        assert_eq!(problems(&publish_context), publish, "{}", method.name);
    }
    let context = json!({"volume": {"volume_context": {"a": "b"}}});
    let create = method("CreateVolume");
    assert_eq!(
        reply_problems(create, &json!({}), &context, &volume_context),
        ""
    );
}

#[test]
fn nothing_is_checked_unless_asked_for() {
    for method in METHODS {
        let broken = [0xff, 0xff];
        assert!(request(method, &broken, &Checks::default()).is_ok());
        assert!(reply(method, &broken, &broken, &Checks::default()).is_ok());
    }
}

#[test]
fn broken_bytes_are_violations() {
    let create = method("CreateVolume");
    let name = [0x0a, 5, b'a'];
    let problems = |bytes: &[u8]| problems(request(create, bytes, &SPEC), create.request);
    assert_eq!(
        problems(&name),
        "the bytes are not a CreateVolumeRequest: the message ends in the middle of a field"
    );
    let mut bytes = bytes(create.request, &examples::volumes::create_volume().request);
    let valid = bytes.len();
    // capacity_range as a number.
    wire::put_varint(&mut bytes, 2, 7);
    assert_eq!(
        problems(&bytes),
        "capacity_range: not encoded as the CapacityRange that the specification says"
    );
    bytes.truncate(valid);
    wire::put_bytes(&mut bytes, 1, b"\xff");
    assert_eq!(problems(&bytes), "name: not valid UTF-8; name: required");
    bytes.truncate(valid);
    wire::put_bytes(&mut bytes, 4, &[0x0a, 1, 0xff]);
    let text = "parameters: has a key or value that is not valid UTF-8";
    assert_eq!(problems(&bytes), text);
    bytes.truncate(valid);
    wire::put_bytes(&mut bytes, 4, &[0x12, 1, 0xff]);
    assert_eq!(problems(&bytes), text);
    bytes.truncate(valid);
    wire::put_bytes(&mut bytes, 4, &[0x0a, 9]);
    let text = "parameters: has a broken entry: the message ends in the middle of a field";
    assert_eq!(problems(&bytes), text);
}

#[test]
fn one_member_of_a_oneof_is_set() {
    let create = method("CreateVolume");
    let mut source = Vec::new();
    wire::put_bytes(&mut source, 1, &[0x0a, 1, b's']);
    wire::put_bytes(&mut source, 2, &[0x0a, 1, b'v']);
    let mut bytes = bytes(create.request, &examples::volumes::create_volume().request);
    wire::put_bytes(&mut bytes, 6, &source);
    let text = "volume_content_source.type: only one of snapshot, volume may be set";
    assert_eq!(
        problems(request(create, &bytes, &SPEC), create.request),
        text
    );

    // Field 9 may be a source of a newer specification.
    let mut newer = Vec::new();
    wire::put_bytes(&mut newer, 9, b"x");
    let without = changed(
        &examples::volumes::create_volume().request,
        "/volume_content_source",
        Json::Null,
    );
    let mut newer_only = self::bytes(create.request, &without);
    wire::put_bytes(&mut newer_only, 6, &newer);
    let problems = problems(request(create, &newer_only, &SPEC), create.request);
    assert_eq!(problems, "");
}

#[test]
fn what_is_newer_than_the_descriptors_passes() {
    let stats = method("NodeGetVolumeStats");
    let reply_json = json!({"usage": [{"total": 1, "unit": 77}]});
    let request_json = json!({"volume_id": "v", "volume_path": "/m"});
    assert_eq!(reply_problems(stats, &request_json, &reply_json, &SPEC), "");
    let mut bytes = bytes(stats.response, &reply_json);
    wire::put_bytes(&mut bytes, 99, b"new");
    assert!(reply(stats, b"", &bytes, &SPEC).is_ok());

    // A confirmed capability may carry fields that the request's cannot have.
    let validate = method("ValidateVolumeCapabilities");
    let example = examples::volumes::validate_volume_capabilities();
    let field = validate.request.field("volume_capabilities").unwrap();
    let Kind::Message(of) = field.kind else {
        panic!("{field}");
    };
    let mut capability = self::bytes(of, &example.request["volume_capabilities"][0]);
    wire::put_bytes(&mut capability, 99, b"new");
    let (mut confirmed, mut answer) = (Vec::new(), Vec::new());
    wire::put_bytes(&mut confirmed, 2, &capability);
    wire::put_bytes(&mut answer, 1, &confirmed);
    let request = self::bytes(validate.request, &example.request);
    assert_eq!(
        problems(reply(validate, &request, &answer, &SPEC), validate.response),
        ""
    );
}

#[test]
fn a_repetition_may_leave_out_the_source() {
    let create = method("CreateVolume");
    let example = examples::volumes::create_volume();
    let request = changed(&example.request, "/volume_content_source", Json::Null);
    assert_eq!(reply_problems(create, &request, &example.reply, &SPEC), "");
}

#[test]
fn a_reply_may_choose_what_the_request_leaves_open() {
    let create = method("CreateVolume");
    let mut example = examples::volumes::create_volume();
    example.reply["volume"]["capacity_bytes"] = json!(1000);
    example.reply["volume"]["accessible_topology"] = json!([{"segments": {"zone": "z9"}}]);
    let left_open = ["/capacity_range/limit_bytes", "/accessibility_requirements"];
    for pointer in left_open {
        example.request = changed(&example.request, pointer, Json::Null);
    }
    let (request, reply) = (&example.request, &example.reply);
    assert_eq!(reply_problems(create, request, reply, &SPEC), "");
}

#[test]
fn snapshots_are_of_the_volume_that_is_asked_for_alone() {
    let list = method("ListSnapshots");
    let example = examples::snapshots::list_snapshots();
    let request = changed(&example.request, "/snapshot_id", Json::Null);
    let reply = changed(
        &example.reply,
        "/entries/0/snapshot/source_volume_id",
        json!("v2"),
    );
    assert_eq!(
        reply_problems(list, &request, &reply, &SPEC),
        "entries[0].snapshot.source_volume_id: \"v2\" is not the request's source_volume_id, \"v1\""
    );
}

#[test]
fn a_stream_is_checked_from_message_to_message() {
    let allocated = method("GetMetadataAllocated");
    let request = bytes(allocated.request, &json!({"snapshot_id": "s"}));
    let message = |kind: &str, capacity: i64, ranges: &[(i64, i64)]| {
        let ranges: Vec<Json> = ranges
            .iter()
            .map(|(offset, size)| json!({"byte_offset": offset, "size_bytes": size}))
            .collect();
        let json = json!({
            "block_metadata_type": kind,
            "volume_capacity_bytes": capacity,
            "block_metadata": ranges,
        });
        bytes(allocated.response, &json)
    };
    let check = |messages: &[Vec<u8>]| {
        let mut replies = Replies::new(allocated, &request, &SPEC);
        let problems = messages
            .iter()
            .map(|bytes| problems(replies.check(bytes), allocated.response));
        problems.collect::<Vec<_>>()
    };
    let first = message("FIXED_LENGTH", 100, &[(0, 10), (10, 10)]);
    let empty = message("FIXED_LENGTH", 100, &[]);
    let third = message("FIXED_LENGTH", 100, &[(20, 10)]);
    assert_eq!(check(&[first.clone(), empty.clone(), third]), ["", "", ""]);
    let overlap = message("FIXED_LENGTH", 100, &[(19, 10)]);
    assert_eq!(
        check(&[first.clone(), empty, overlap])[2],
        "block_metadata[0].byte_offset: 19 is less than 20, where the range before ends"
    );
    let other = message("VARIABLE_LENGTH", 101, &[(20, 5)]);
    assert_eq!(
        check(&[first.clone(), other])[1],
        "block_metadata_type: is not that of the first message; \
         volume_capacity_bytes: 101 is not that of the first message, 100"
    );
    let size = message("FIXED_LENGTH", 100, &[(20, 5)]);
    assert_eq!(
        check(&[first, size])[1],
        "block_metadata[0].size_bytes: 5 is not that of the first range, 10, as FIXED_LENGTH says"
    );
}

#[test]
fn many_violations_are_counted_and_text_of_a_driver_is_escaped_and_cut() {
    let list = method("ListVolumes");
    let entries: Vec<Json> = (0..1000).map(|_| json!({"volume": {}})).collect();
    let problems = reply_problems(list, &json!({}), &json!({ "entries": entries }), &SPEC);
    assert!(problems.starts_with("entries[0].volume.volume_id: required; entries[1]."));
    assert!(problems.ends_with("entries[19].volume.volume_id: required; and 980 more"));

    let info = method("GetPluginInfo");
    let name = format!("\u{1b}[2J{}", "x".repeat(100_000));
    let answer = json!({"name": name, "vendor_version": "1"});
    let problems = reply_problems(info, &json!({}), &answer, &SPEC);
    assert!(problems.contains(r#""\u{1b}[2Jxxx"#), "{problems}");
    assert!(
        !problems.contains('\u{1b}') && problems.len() < 500,
        "{problems}"
    );
}

#[test]
fn a_time_that_no_calendar_has_is_refused() {
    let create = method("CreateSnapshot");
    let request = json!({"source_volume_id": "v", "name": "s"});
    let request = bytes(create.request, &request);
    for (seconds, nanos, is_valid) in [
        (-62_135_596_800, 0, true),
        (253_402_300_799, 999_999_999, true),
        (-62_135_596_801, 0, false),
        (253_402_300_800, 0, false),
        (0, -1, false),
        (0, 1_000_000_000, false),
    ] {
        let mut snapshot = v1::Snapshot {
            snapshot_id: "s".to_owned(),
            source_volume_id: "v".to_owned(),
            creation_time: Some(Default::default()),
            ..Default::default()
        };
        let time = snapshot.creation_time.as_mut().unwrap();
        (time.seconds, time.nanos) = (seconds, nanos);
        let snapshot = Some(snapshot);
        let answer = v1::CreateSnapshotResponse { snapshot }.encode_to_vec();
        let problems = problems(reply(create, &request, &answer, &SPEC), create.response);
        let expected = match is_valid {
            true => "",
            false => "snapshot.creation_time: not a time between the years 1 and 9999",
        };
        assert_eq!(problems, expected, "{seconds} {nanos}");
    }
}
