//! Drivers that no test suite of a driver would pass: old ones, newer ones, enormous ones, broken ones, dead ones. Each
//! gets a decent answer: an error that says what happened in one line, the right exit code, and no wait without end.

use crate::support::patience::up_to_a_limit;
use crate::support::program::{Csi, Output};
use crate::support::scripted::{Reply, ScriptedDriver};
use crate::support::unserved;
use csi_proto::duration;
use csi_proto::v1::{CreateVolumeResponse, Volume};
use prost::Message as _;
use prost::encoding::{WireType, encode_key, encode_varint, string};
use serde_json::{Value as Json, json};
use std::time::Duration;
use tonic::Code;

#[test]
fn predates_the_rpc() {
    let driver = ScriptedDriver::unix();
    Csi::at(driver.endpoint())
        .run("controller get-volume vol-1")
        .exits(64 + 12)
        .prints("")
        .says(
            "error: controller get-volume vol-1: UNIMPLEMENTED: unknown method ControllerGetVolume",
        )
        .says("hint: ");
}

#[test]
fn is_newer_than_this_client() {
    let volume = Volume {
        volume_id: "vol-1".into(),
        ..Volume::default()
    };
    let volume = Some(volume);
    let mut reply = CreateVolumeResponse { volume }.encode_to_vec();
    // Fields of a later CSI: one with text, one with a number.
    string::encode(77, &"from the future".to_owned(), &mut reply);
    encode_key(78, WireType::Varint, &mut reply);
    encode_varint(42, &mut reply);
    let driver = ScriptedDriver::unix();
    driver.on("CreateVolume", Reply::bytes(reply));
    let csi = Csi::at(driver.endpoint());
    let json = csi
        .run("controller create-volume pvc-1 -o json")
        .succeeds()
        .json();
    assert_eq!(json["#77"], "from the future");
    assert_eq!(json["#78"], "42");
    assert_eq!(json["volume"]["volumeId"], "vol-1");
    csi.run("controller create-volume pvc-1 -o name")
        .succeeds()
        .prints("vol-1\n");
}

#[test]
fn has_a_hundred_thousand_volumes() {
    let driver = ScriptedDriver::unix();
    let ids = (0..100_000).map(|number| format!("vol-{number:06}"));
    driver.on("ListVolumes", Reply::volumes(ids, ""));
    let output = Csi::at(driver.endpoint())
        .run("controller list-volumes -o name")
        .succeeds();
    assert_eq!(output.stdout.lines().count(), 100_000);
    assert_eq!(output.stdout.lines().last(), Some("vol-099999"));
}

#[test]
fn has_its_volumes_on_a_hundred_pages() {
    let driver = ScriptedDriver::unix();
    driver.answer("ListVolumes", |request| {
        let request: csi_proto::v1::ListVolumesRequest = request.decode();
        let page: u32 = request.starting_token.parse().unwrap_or(0);
        let ids = (0..100).map(|row| format!("vol-{:05}", page * 100 + row));
        let next_token = if page < 99 {
            (page + 1).to_string()
        } else {
            String::new()
        };
        Reply::volumes(ids, next_token)
    });
    let csi = Csi::at(driver.endpoint());
    let output = csi.run("controller list-volumes --all -o name").succeeds();
    let expected: Vec<String> = (0..10_000).map(|row| format!("vol-{row:05}")).collect();
    assert_eq!(output.stdout.lines().collect::<Vec<_>>(), expected);
    // One page, and a word on how to get the others.
    let first = csi.run("controller list-volumes").succeeds();
    assert_eq!(first.stdout.lines().count(), 101);
    assert!(first.stderr.contains("--all"), "{first}");
}

#[test]
fn complains_at_length() {
    let driver = ScriptedDriver::unix();
    let complaint = "mount failed because of this and that; ".repeat(2_700);
    assert!(complaint.len() > 100 * 1024);
    driver.on(
        "NodePublishVolume",
        Reply::error(Code::Internal, &complaint),
    );
    Csi::at(driver.endpoint())
        .run("node publish vol-1 --target-path /mnt/vol-1")
        .exits(64 + 13)
        .says(complaint.trim_end());
}

#[test]
fn sends_escape_codes() {
    let evil = "\u{1b}[2J\u{1b}]0;owned\u{7}\r\nvol\u{202e}gpj";
    let driver = ScriptedDriver::unix();
    driver.on("CreateVolume", json!({"volume": {"volumeId": evil}}));
    driver.on("DeleteVolume", Reply::error(Code::NotFound, evil));
    let csi = Csi::at(driver.endpoint());
    for line in [
        "controller create-volume pvc-1",
        "controller create-volume pvc-1 -o wide",
        "controller delete-volume x",
    ] {
        let output = csi.run(line);
        let shown = format!("{}{}", output.stdout, output.stderr);
        let control = shown
            .chars()
            .find(|c| (c.is_control() && *c != '\n') || *c == '\u{202e}');
        assert_eq!(control, None, "{output:?}");
        assert!(shown.contains("owned"), "{output}");
    }
    // A script gets what the driver said.
    let json = csi
        .run("controller create-volume pvc-1 -o json")
        .succeeds()
        .json();
    assert_eq!(json["volume"]["volumeId"], evil);
}

/// A driver that was asked with a limit, which the call ran into after it had come to the driver; and the limit.
fn asked_to_the_limit(
    reply: &Reply,
    shows: impl Fn(&str, Output),
) -> (ScriptedDriver, &'static str) {
    up_to_a_limit("the driver is asked", |limit| {
        let driver = ScriptedDriver::unix();
        driver.on("Probe", reply.clone());
        let run = Csi::at(driver.endpoint()).run(&format!("identity probe --timeout {limit}"));
        shows(limit, run.exits(64 + 4));
        (!driver.calls().is_empty()).then_some((driver, limit))
    })
}

#[test]
fn never_answers() {
    let (driver, limit) = asked_to_the_limit(&Reply::never(), |limit, run| {
        run.says("error: identity probe: DEADLINE_EXCEEDED: ")
            .says(&format!("it had {limit}: see --timeout"));
    });
    driver.wait_for_cancellation("Probe");
    // The driver is told as well how long it has.
    let told = format!("{}u", duration::parse(limit).unwrap().as_micros());
    assert_eq!(driver.request().header("grpc-timeout"), Some(&*told));
}

#[test]
fn accepts_connections_and_never_speaks() {
    let driver = ScriptedDriver::silent();
    Csi::at(driver.endpoint())
        .run("identity probe --timeout 300ms")
        .exits(64 + 4)
        .says("DEADLINE_EXCEEDED");
}

#[test]
fn begins_an_answer_and_never_ends_it() {
    let begun = Reply::json("{}").then_hang();
    let (driver, _) = asked_to_the_limit(&begun, |_, run| drop(run.says("DEADLINE_EXCEEDED")));
    driver.wait_for_cancellation("Probe");
}

#[test]
fn dies_in_mid_call() {
    let driver = ScriptedDriver::unix();
    driver.on("CreateVolume", Reply::disconnect());
    let output = Csi::at(driver.endpoint()).run("controller create-volume pvc-1");
    output
        .exits(64 + 14)
        .says("error: controller create-volume pvc-1: UNAVAILABLE: ")
        .says("a call that was under way may have taken effect: repeat it");
}

/// A message of a stream, about one block.
fn block(kind: &str, offset: i64) -> Json {
    let blocks = json!([{"byteOffset": offset, "sizeBytes": 512}]);
    json!({"blockMetadataType": kind, "volumeCapacityBytes": 1 << 30, "blockMetadata": blocks})
}

#[test]
fn dies_in_mid_stream() {
    let block = || Reply::json(block("VARIABLE_LENGTH", 7_777));
    let driver = ScriptedDriver::unix();
    let csi = Csi::at(driver.endpoint());
    for (reply, code) in [
        (block().then_disconnect(), Code::Unavailable),
        (
            block().then_error(Code::DataLoss, "the map is damaged"),
            Code::DataLoss,
        ),
    ] {
        driver.on("GetMetadataAllocated", reply);
        let output = csi.run("snapshot-metadata get-metadata-allocated snap-1 -o json");
        // What had arrived is shown all the same.
        assert!(output.stdout.contains("7777"), "{output}");
        output.exits(64 + i32::from(code));
    }
}

#[test]
fn streams_as_slowly_as_it_likes() {
    let driver = ScriptedDriver::unix();
    let block = Reply::json(block("VARIABLE_LENGTH", 1_111));
    driver.on("GetMetadataAllocated", block.then_hang());
    let csi = Csi::at(driver.endpoint());
    let process = csi.spawn("snapshot-metadata get-metadata-allocated snap-1 -o jsonl");
    // Rows are printed as they arrive.
    process.wait_for_output("1111");
    process.signal(rustix::process::Signal::INT);
    let ended = process.wait(crate::support::PATIENCE).unwrap();
    assert_eq!(ended.code(), 130);
    driver.wait_for_cancellation("GetMetadataAllocated");
}

#[test]
fn is_interrupted() {
    let driver = ScriptedDriver::unix();
    driver.on("CreateVolume", Reply::never());
    let csi = Csi::at(driver.endpoint());
    let process = csi.spawn("controller create-volume pvc-1");
    driver.wait_for_call("CreateVolume");
    process.signal(rustix::process::Signal::INT);
    let ended = process.wait(crate::support::PATIENCE).unwrap();
    assert_eq!(ended.code(), 130);
    driver.wait_for_cancellation("CreateVolume");
}

#[test]
fn is_no_driver_but_a_web_server() {
    let driver = ScriptedDriver::tcp();
    driver.on("Probe", Reply::http(502, "<html>Bad Gateway</html>"));
    for asked in ["GetPluginCapabilities", "ControllerGetCapabilities"] {
        driver.on(asked, Reply::http(404, "<html>Not Found"));
    }
    let csi = Csi::at(driver.endpoint());
    let output = csi.run("identity probe");
    assert!(output.code > 64, "{output}");
    output.says("502");
    // Nobody takes it for the driver's word that it has no capabilities.
    for line in [
        "identity plugin-capabilities",
        "wait volume vol-1 --timeout 10s",
    ] {
        csi.run(line)
            .exits(64 + 12)
            .says("HTTP status 404")
            .says("hint: something else answers in the driver's place");
    }
}

#[test]
fn sends_bytes_that_are_no_message() {
    let driver = ScriptedDriver::unix();
    driver.on("GetPluginInfo", Reply::bytes(vec![0x0a, 0xff, 0xff]));
    let csi = Csi::at(driver.endpoint());
    for format in ["table", "json", "name", "csc"] {
        let output = csi.run(&format!("identity plugin-info -o {format}"));
        assert_ne!(output.code, 0, "{output}");
        assert!(!output.stderr.contains("panicked"), "{output}");
        assert!(output.stderr.contains("identity plugin-info"), "{output}");
    }
    // Text that is not UTF-8.
    driver.on("GetPluginInfo", Reply::bytes(vec![0x0a, 0x01, 0xff]));
    csi.run("identity plugin-info").exits(1).says("UTF-8");
}

#[test]
fn sends_nothing_and_says_ok() {
    let driver = ScriptedDriver::unix();
    driver.on("Probe", Reply::messages([""; 0]));
    Csi::at(driver.endpoint())
        .run("identity probe")
        .exits(1)
        .says("the reply is not valid: ");
}

#[test]
fn answers_twice() {
    let driver = ScriptedDriver::unix();
    let probes = [true, false].map(|ready| json!({ "ready": ready }));
    driver.on("Probe", Reply::messages(probes));
    Csi::at(driver.endpoint())
        .run("identity probe")
        .exits(1)
        .says("the reply is not valid: it has more than one message");
}

#[test]
fn is_not_there() {
    let csi = Csi::new();
    let missing = csi.home().join("csi.sock");
    csi.run(&format!("identity probe -e unix://{}", missing.display()))
        .exits(64 + 14)
        .says("csi.sock")
        .says("hint: ");
    // A socket file that a dead driver left.
    unserved::socket_file(&missing);
    csi.run(&format!("identity probe -e {}", missing.display()))
        .exits(64 + 14)
        .says("csi.sock")
        .says("hint: ");
    csi.run("identity probe").exits(2).says("CSI_ENDPOINT");
}

#[test]
fn answers_a_little_later() {
    let driver = ScriptedDriver::unix();
    driver.on_each(
        "Probe",
        [
            Reply::error(Code::Unavailable, "starting"),
            Reply::json(r#"{"ready": false}"#),
            Reply::json("{}"),
        ],
    );
    driver.on("GetPluginInfo", r#"{"name": "late"}"#);
    let csi = Csi::at(driver.endpoint());
    csi.run("identity plugin-info --wait 10m -o name")
        .succeeds()
        .prints("late\n");
    assert_eq!(driver.calls(), ["Probe", "Probe", "Probe", "GetPluginInfo"]);
}

#[test]
fn never_ends_its_stream() {
    let ranges: Vec<_> = (0..2_000)
        .map(|number| block("FIXED_LENGTH", number << 9))
        .collect();
    let driver = ScriptedDriver::unix();
    // Each message comes in time, and all of them do not.
    let pause = Duration::from_millis(50);
    let stream = Reply::messages(&ranges).spaced(pause);
    driver.on("GetMetadataAllocated", stream);
    let run = Csi::at(driver.endpoint())
        .run("snapshot-metadata get-metadata-allocated snap-1 --timeout 1s --no-headers")
        .exits(64 + 4)
        .says("no answer within the deadline")
        .says("it had 1s: see --timeout");
    assert!(run.stdout.lines().count() < ranges.len(), "{run}");
}

#[test]
fn never_ends_its_pages() {
    let circle = ScriptedDriver::unix();
    let mut asked = 0;
    circle.answer("ListVolumes", move |_| {
        asked += 1;
        Reply::volumes(["vol-1"], ["a", "b", "c"][asked % 3])
    });
    let csi = Csi::at(circle.endpoint());
    for line in ["list-volumes --all", "list-volumes --watch"] {
        csi.run(&format!("controller {line}"))
            .exits(64 + 13)
            .says("the driver answered twice with the next_token")
            .says("its list has no end");
    }
    let new = ScriptedDriver::unix();
    let mut asked = 0;
    new.answer("ListVolumes", move |_| {
        asked += 1;
        Reply::volumes(["vol-1"], asked)
    });
    let run = Csi::at(new.endpoint())
        .run("controller list-volumes --all -o name")
        .exits(64 + 13)
        .says("no end after 10000 pages; if it has one, --starting-token 10000 goes on there");
    assert_eq!(run.stdout.lines().count(), 10_000, "what came is shown");
}

#[test]
fn leaves_out_what_it_has_to_say() {
    let driver = ScriptedDriver::unix();
    driver.on("NodeGetInfo", "{}");
    let list = r#"{"entries": [{"volume": {}, "status": {"publishedNodeIds": [""]}}]}"#;
    driver.on("ListVolumes", list);
    driver.on("GetCapacity", "{}");
    let csi = Csi::at(driver.endpoint());
    for (line, expected) in [
        (
            "node get-info",
            "NODE ID   MAX VOLUMES   TOPOLOGY\n\"\"        <unset>       <none>\n",
        ),
        (
            "controller list-volumes --columns volume_id,capacity,nodes,source",
            "VOLUME ID   CAPACITY   NODES   SOURCE\n\"\"          <unset>    \"\"      <none>\n",
        ),
        // No space left is a number like others.
        (
            "controller get-capacity --columns available",
            "AVAILABLE\n0\n",
        ),
    ] {
        csi.run(line).succeeds().prints(expected);
    }
}
