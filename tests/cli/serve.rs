//! `csi serve`: the answers of a recording, without the driver.

use crate::support::PATIENCE;
use crate::support::program::Csi;
use rustix::process::Signal;

const RECORDING: &str = r##"{"recording":1,"csi":"0.1.0","spec":"1.0.0","target":"unix:///s","started":"2026-01-31T12:00:00Z"}
{"call":1,"at":0.1,"method":"/csi.v1.Identity/Probe","request":{},"reply":{"ready":false},"status":{"code":"OK"},"seconds":0.01}
{"call":2,"at":0.2,"method":"/csi.v1.Identity/Probe","request":{},"reply":{"ready":true,"#9":"later"},"status":{"code":"OK"},"seconds":0.01}
{"call":3,"at":0.3,"method":"/csi.v1.Controller/DeleteVolume","request":{"volumeId":"v","secrets":{"user":"***stripped***"}},"status":{"code":"FAILED_PRECONDITION","message":"in use"},"seconds":0.01}
{"call":4,"at":0.4,"method":"/csi.v1.Controller/DeleteVolume","request":{"volumeId":"w"},"reply":{},"status":{"code":"OK"},"seconds":0.01}
{"call":5,"at":0.5,"method":"/csi.v1.Controller/DeleteVolume","request":{"volumeId":"x"},"status":{"by":"caller"},"seconds":0.01}
{"call":6,"at":0.6,"method":"/csi.v1.SnapshotMetadata/GetMetadataAllocated","request":{"snapshotId":"s"},"replies":[{"blockMetadataType":"FIXED_LENGTH","volumeCapacityBytes":"8192","blockMetadata":[{"byteOffset":"0","sizeBytes":"4096"}]},{"blockMetadataType":"FIXED_LENGTH","volumeCapacityBytes":"8192","blockMetadata":[{"byteOffset":"4096","sizeBytes":"4096"}]}],"status":{"code":"DATA_LOSS","message":"gone"},"seconds":0.01}
{"call":7,"at":0.7,"method":"/csi.v1.Identity/GetPluginInfo","request":{},"reply":null,"status":{"code":"OK"},"seconds":0.01}
"##;

#[test]
fn a_recording_answers_in_its_order_and_says_what_it_does_not_have() {
    let csi = Csi::at("unix:s.sock").env("X_CSI_SECRETS", "user=other");
    csi.file("calls.jsonl", RECORDING);
    let server = csi.spawn("serve calls.jsonl");
    server.wait_for_error_output("note: the recording serves on");
    for ready in [false, true, true] {
        let probe = csi.run("identity probe -o json").succeeds().json();
        assert_eq!(probe["ready"], ready);
    }
    // Whatever the secret is.
    csi.run("controller delete-volume v")
        .exits(64 + 9)
        .says("in use");
    let plain = Csi::at(&format!("unix://{}", csi.home().join("s.sock").display()));
    plain.run("controller delete-volume w").succeeds();
    plain
        .run("controller delete-volume other")
        .exits(64 + 9)
        .says("the recording has no such DeleteVolume: the nearest one has another volumeId");
    plain
        .run("controller list-volumes")
        .exits(64 + 12)
        .says("the recording has no ListVolumes");
    let stream = plain.run("sm get-metadata-allocated s -o jsonl");
    assert_eq!(stream.stdout.lines().count(), 2, "{stream}");
    stream.exits(64 + 15).says("gone");
    server.signal(Signal::TERM);
    let ended = server.wait(PATIENCE).unwrap();
    assert_eq!(ended.code(), 0);
    let said = String::from_utf8(ended.stderr).unwrap();
    assert!(
        said.contains("note: call 5 of the recording has no answer to give"),
        "{said}"
    );
    let none = "call 7 of the recording has no answer to give: its reply: expected an object";
    assert!(said.contains(none), "{said}");
    assert!(
        said.contains("note: /csi.v1.Controller/DeleteVolume: the recording has no such"),
        "{said}"
    );
}

#[test]
fn what_is_no_recording_is_not_served() {
    let csi = Csi::at("unix:s.sock");
    csi.file("other.jsonl", "{}\n");
    csi.run("serve other.jsonl")
        .exits(2)
        .says("is not a recording");
    csi.run("serve missing.jsonl")
        .exits(2)
        .says("cannot read the recording");
}

#[test]
fn a_conversation_is_repeated_without_its_driver() {
    let csi = Csi::at("unix:p.sock");
    let proxy = csi.spawn("proxy --listen unix:p.sock --to mock: --record calls.jsonl");
    proxy.wait_for_error_output("note: calls to");
    let said = |csi: &Csi| {
        let lines = [
            "identity plugin-info -o json",
            "controller create-volume pvc-1 -o json",
            "controller list-volumes -o json",
            "controller delete-volume vol-00000001",
        ];
        lines.map(|line| csi.run(line).succeeds().stdout)
    };
    let first = said(&csi);
    proxy.signal(Signal::TERM);
    assert_eq!(proxy.wait(PATIENCE).unwrap().code(), 0);
    let server = csi.spawn("serve calls.jsonl");
    server.wait_for_error_output("note: the recording serves on");
    assert_eq!(said(&csi), first);
}
