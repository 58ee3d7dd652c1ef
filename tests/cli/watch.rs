//! `--watch`: what is printed when something changes, and how it ends.

use crate::support::program::Csi;
use crate::support::scripted::{Reply, ScriptedDriver};
use rustix::process::Signal;
use serde_json::{Value as Json, json};
use tonic::Code;

fn volume(id: &str, bytes: i64) -> Json {
    let context = json!({"a": "x", "b": "x", "c": "x", "d": "x", "e": "x"});
    json!({"volume": {"volumeId": id, "capacityBytes": bytes, "volumeContext": context}})
}

fn list(volumes: &[(&str, i64)]) -> Reply {
    let entries = volumes.iter().map(|(id, bytes)| volume(id, *bytes));
    Reply::json(json!({"entries": entries.collect::<Vec<_>>()}))
}

/// The first volumes, then other ones; each list is answered at least three times.
const BEFORE: &[(&str, i64)] = &[("vol-1", 1 << 30), ("vol-2", 1 << 30)];
const AFTER: &[(&str, i64)] = &[("vol-1", 2 << 30), ("vol-3", 1 << 30)];

/// What a watch of the list prints until `last`, while the volumes change.
fn watched(flags: &str, first: &str, last: &str) -> String {
    let driver = ScriptedDriver::unix();
    driver.on("ListVolumes", list(BEFORE));
    let line = format!("controller list-volumes --watch --watch-interval 10ms {flags}");
    let process = Csi::at(driver.endpoint()).spawn(&line);
    process.wait_for_output(first);
    driver.wait_for_requests(3);
    driver.on("ListVolumes", list(AFTER));
    let printed = process.wait_for_output(last);
    process.signal(Signal::INT);
    let ended = process.wait(crate::support::PATIENCE);
    let ended = ended.unwrap_or_else(|so_far| panic!("{so_far}"));
    assert_eq!(ended.code(), 130, "{printed}");
    printed
}

#[test]
fn what_changes_is_printed_in_every_format() {
    let columns = "--columns volume.volume_id,CAPACITY";
    let expected = "\
EVENT      VOLUME.VOLUME_ID   CAPACITY
ADDED      vol-1              1Gi
ADDED      vol-2              1Gi
MODIFIED   vol-1              2Gi
ADDED      vol-3              1Gi
DELETED    vol-2              1Gi
";
    assert_eq!(
        watched(columns, "vol-2", "DELETED    vol-2              1Gi\n"),
        expected
    );
    let ids = "vol-1\nvol-2\nvol-1\nvol-3\nvol-2\n";
    assert_eq!(watched("-o name", "vol-2", "vol-3\nvol-2\n"), ids);
    let sizes = "-o jsonpath={.volume.capacityBytes};";
    let found = watched(sizes, ";1073741824;", ";2147483648;1073741824;1073741824;");
    assert_eq!(
        found,
        "1073741824;1073741824;2147483648;1073741824;1073741824;"
    );
    let json = watched(
        "-o json",
        "vol-2",
        "\"DELETED\",\"object\":{\"volume\":{\"capacityBytes\":\"1073741824\",\"volumeId\":\"vol-2\"",
    );
    let first = json.lines().next().expect("a line");
    let first: serde_json::Value = serde_json::from_str(first).expect("JSON");
    assert_eq!(first["type"], "ADDED");
    assert_eq!(first["object"]["volume"]["volumeId"], "vol-1");
    let yaml = watched("-o yaml", "vol-2", "type: DELETED\n");
    assert!(
        yaml.starts_with("type: ADDED\nobject:\n  volume:\n    capacityBytes: \"1073741824\"\n"),
        "{yaml}"
    );
    assert_eq!(yaml.matches("---\n").count(), 4, "{yaml}");
}

#[test]
fn a_thing_that_is_gone_has_changed_and_other_failures_end_the_watch() {
    let driver = ScriptedDriver::unix();
    let get = |bytes| volume("vol-1", bytes);
    let csi = Csi::at(driver.endpoint());
    let line = "controller get-volume vol-1 -w --watch-interval 10ms -o jsonl";
    driver.on(
        "ControllerGetVolume",
        Reply::error(Code::NotFound, "never seen"),
    );
    csi.run(line).exits(64 + 5).prints("");
    driver.on("ControllerGetVolume", get(1));
    let process = csi.spawn(line);
    process.wait_for_output("\"ADDED\"");
    driver.on("ControllerGetVolume", Reply::error(Code::NotFound, "gone"));
    process.wait_for_output("\"DELETED\"");
    // It stays gone for more than one round.
    driver.wait_for_requests(driver.requests().len() + 3);
    driver.on("ControllerGetVolume", get(2));
    process.wait_for_output("\"capacityBytes\":\"2\"");
    driver.on(
        "ControllerGetVolume",
        Reply::error(Code::Internal, "broken"),
    );
    let ended = process.wait(crate::support::PATIENCE);
    let ended = ended.unwrap_or_else(|so_far| panic!("{so_far}"));
    assert_eq!(ended.code(), 64 + 13);
}

#[test]
fn of_several_things_one_that_fails_ends_the_watch_unless_it_is_to_go_on() {
    let csi = Csi::at("unix:m.sock");
    let mut driver = csi.spawn("mock --endpoint unix:m.sock --volumes 1");
    csi.run("--wait 1m identity probe").succeeds();
    let get = "controller get-volume -w --watch-interval 10ms -o name";
    let run = csi.run(&format!("{get} vol-00000001 zzz")).exits(64 + 5);
    run.prints("vol-00000001\n");
    let process = csi.spawn(&format!("{get} zzz vol-00000001 --keep-going"));
    process.wait_for_output("vol-00000001\n");
    csi.run("controller delete-volume vol-00000001").succeeds();
    process.wait_for_output("vol-00000001\nvol-00000001\n");
    process.signal(Signal::INT);
    let ended = process.wait(crate::support::PATIENCE).unwrap();
    assert_eq!(ended.code(), 130);
    // A failure that stays is told once.
    let said = String::from_utf8(ended.stderr).unwrap();
    assert_eq!(said.matches("zzz: NOT_FOUND").count(), 1, "{said}");
    driver.kill();
}

#[test]
fn what_a_watch_cannot_do_is_refused() {
    let csi = Csi::at("/nowhere/csi.sock");
    for (line, problem) in [
        (
            "controller delete-volume v --watch",
            "unexpected argument '--watch'",
        ),
        ("controller list-volumes --watch-interval 1s", "--watch"),
        ("bench list-volumes --watch", "--watch has no meaning here"),
    ] {
        csi.run(line).exits(2).says(problem);
    }
    let driver = ScriptedDriver::unix();
    let csi = Csi::at(driver.endpoint());
    for (flags, problem) in [
        ("-o csc", "no events"),
        ("--sort-by CAPACITY", "does not end"),
    ] {
        let line = format!("controller list-volumes -w {flags}");
        csi.run(&line).exits(2).says(problem);
    }
}
