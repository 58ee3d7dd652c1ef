//! Recordings, sent again: to an equal driver without a difference, to another one with each difference named.

use super::{Proxy, plugin_info};
use crate::support::driver::Driver;
use crate::support::program::Csi;
use crate::support::scripted::{Reply, ScriptedDriver};
use rustix::process::Signal;
use serde_json::{Value as Json, json};
use std::path::PathBuf;
use std::time::Duration;
use tonic::Code;

/// The sidecar's pattern: a caller, the proxy, a driver; then the recording and a driver that knows nothing of it.
#[test]
fn a_whole_lifecycle_through_the_proxy_is_the_same_on_a_fresh_driver() {
    let recorded = Driver::with_local_share();
    let proxy = Proxy::with(&recorded.endpoint(), "--record r.jsonl");
    proxy
        .run("lifecycle --params server=localhost,share=/share --req-bytes 1Gi")
        .succeeds();
    proxy
        .run("controller create-volume kept --params server=localhost,share=/share")
        .succeeds();
    proxy.run("controller list-volumes").succeeds();
    proxy
        .run("controller get-volume no-such-volume")
        .exits(64 + 5);
    let path = proxy.csi.home().join("r.jsonl");
    let text = {
        proxy
            .process
            .wait_for_output("ControllerGetVolume NOT_FOUND");
        std::fs::read_to_string(&path).unwrap()
    };
    assert!(text.lines().count() > 12, "{text}");
    let fresh = Driver::with_local_share();
    let csi = Csi::at(&fresh.endpoint());
    let copy = csi.file("r.jsonl", &text);
    let replayed = csi.run(&format!("replay {}", copy.display())).succeeds();
    assert!(
        replayed
            .stdout
            .contains(" 0 different; taken over from the driver: 9\n"),
        "{replayed}"
    );
    assert!(!replayed.stdout.contains("not compared"), "{replayed}");
    // Again with its timing, on one more fresh driver.
    let other = Driver::with_local_share();
    let summary = Csi::at(&other.endpoint())
        .run(&format!(
            "replay {} --timing --speed 10 -o jsonl",
            copy.display()
        ))
        .succeeds();
    let last: Json = serde_json::from_str(summary.stdout.lines().last().unwrap()).unwrap();
    assert_eq!(last["summary"]["different"], 0);
    // The same driver has the kept volume already, and one more in its list would be a difference.
    let twice = csi.run(&format!("replay {}", copy.display()));
    twice.succeeds();
    assert!(recorded.mounts().is_empty() && fresh.mounts().is_empty());
    proxy.ends();
}

/// A recording of these commands against a driver.
fn recording(driver: &ScriptedDriver, commands: &[&str]) -> (Csi, PathBuf) {
    let proxy = Proxy::with(driver.endpoint(), "--record r.jsonl --quiet");
    for command in commands {
        proxy.run(command);
    }
    proxy.process.signal(Signal::TERM);
    proxy.process.wait(crate::support::PATIENCE).unwrap();
    let path = proxy.csi.home().join("r.jsonl");
    (proxy.csi, path)
}

fn volumes(driver: &ScriptedDriver, id: &str, size: i64) {
    let volume = json!({"volume": {"volumeId": id, "capacityBytes": size}});
    driver.on("CreateVolume", volume.clone());
    let listed = json!({"entries": [volume], "nextToken": format!("after-{id}")});
    driver.on("ListVolumes", listed);
    driver.on(
        "DeleteVolume",
        Reply::error(Code::NotFound, format!("no volume {id}")),
    );
}

#[test]
fn names_are_taken_over_and_differences_named() {
    let old = ScriptedDriver::unix();
    volumes(&old, "volume-old", 1 << 30);
    let (csi, path) = recording(
        &old,
        &[
            "controller create-volume a",
            "controller list-volumes",
            "controller list-volumes --starting-token after-volume-old",
            "controller delete-volume volume-old",
        ],
    );
    let new = ScriptedDriver::unix();
    volumes(&new, "volume-new", 1 << 30);
    let replay = |flags: &str| {
        csi.run(&format!(
            "-e {} replay {} {flags}",
            new.endpoint(),
            path.display()
        ))
    };
    replay("--messages").succeeds();
    let requests = new.requests();
    assert_eq!(requests[2].json()["startingToken"], "after-volume-new");
    assert_eq!(requests[3].json()["volumeId"], "volume-new");

    volumes(&new, "volume-new", 2 << 30);
    new.on("DeleteVolume", Reply::error(Code::Aborted, "busy\x1b[31m"));
    let found = replay("")
        .exits(1)
        .says("4 calls were answered otherwise than in the recording");
    for line in [
        "     volume.capacity_bytes: \"1073741824\" -> \"2147483648\"\n",
        "     entries[0].volume.capacity_bytes: \"1073741824\" -> \"2147483648\"\n",
        "     status: \"NOT_FOUND: no volume volume-old\" -> \"ABORTED: busy\\u001b[31m\"\n",
        "4 calls: 0 the same, 4 different;",
    ] {
        assert!(found.stdout.contains(line), "{line}\n{found}");
    }
    replay("--ignore volume.capacityBytes --ignore entries.volume.capacity_bytes --ignore status")
        .succeeds();
    let json = replay("-o json").exits(1);
    let first: Json = serde_json::from_str(json.stdout.lines().next().unwrap()).unwrap();
    assert_eq!(first["outcome"], "different");
    assert_eq!(first["differences"][0]["now"], "2147483648");
    // What is not compared is learned all the same.
    new.on(
        "DeleteVolume",
        Reply::error(Code::NotFound, "no volume volume-new"),
    );
    replay("--ignore volume --ignore entries --messages").succeeds();
    assert_eq!(
        new.requests().pop().unwrap().json()["volumeId"],
        "volume-new"
    );
    replay("--ignore nonsense")
        .exits(2)
        .says("no reply of CSI has a field \"nonsense\"");
}

#[test]
fn secrets_come_from_where_they_always_do() {
    let driver = ScriptedDriver::unix();
    volumes(&driver, "volume-1", 1);
    let csi = Csi::new();
    csi.file("s.json", r#"{"user": "hunter2", "password": "hunter3"}"#);
    let proxy = Proxy::of(csi, driver.endpoint(), "--record r.jsonl");
    proxy
        .run("controller create-volume a --secrets-file s.json")
        .succeeds();
    proxy.has_recorded(1);
    let text = std::fs::read_to_string(proxy.csi.home().join("r.jsonl")).unwrap();
    assert!(!text.contains("hunter"), "{text}");
    let replay = |flags: &str| {
        proxy
            .csi
            .run(&format!("-e {} replay r.jsonl {flags}", driver.endpoint()))
    };
    replay("")
        .exits(2)
        .says("the calls carried secrets, which are not in the recording: password, user")
        .says("hint: --secrets-file");
    assert_eq!(driver.requests().len(), 1, "nothing is sent without them");
    replay("--secrets-file s.json").succeeds();
    let sent = driver.requests().pop().unwrap();
    let request = sent.decode::<csi_proto::v1::CreateVolumeRequest>();
    assert_eq!(request.secrets["password"], "hunter3");
    proxy.ends();
}

#[test]
fn what_the_driver_never_answered_is_not_compared() {
    let driver = ScriptedDriver::unix();
    plugin_info(&driver);
    driver.on("Probe", Reply::never());
    let proxy = Proxy::with(
        driver.endpoint(),
        "--record r.jsonl --fail GetPluginInfo=UNAVAILABLE:1",
    );
    proxy.run("identity plugin-info").exits(64 + 14);
    let mut caller = proxy
        .csi
        .spawn(&format!("-e {} identity probe", proxy.endpoint()));
    driver.wait_for_call("Probe");
    caller.kill();
    driver.wait_for_cancellation("Probe");
    proxy.run("identity plugin-info").succeeds();
    proxy.has_recorded(3);
    let fresh = ScriptedDriver::unix();
    plugin_info(&fresh);
    fresh.on("Probe", "{}");
    let replayed = proxy
        .csi
        .run(&format!("-e {} replay r.jsonl", fresh.endpoint()))
        .succeeds();
    assert_eq!(fresh.calls(), ["Probe", "GetPluginInfo"]);
    for part in [
        "not sent: the driver did not get it then either (fail UNAVAILABLE)",
        "not compared: the caller gave it up then",
        "3 calls: 1 the same, 0 different, 1 not compared, 1 not sent;",
    ] {
        assert!(replayed.stdout.contains(part), "{part}\n{replayed}");
    }
    proxy.ends();
}

#[test]
fn with_timing_as_many_run_at_once_as_in_the_recording() {
    // On a busy machine a second call may begin late: beside one that is slow enough it begins in time.
    let is_so = |slow| calls_beside_each_other(Duration::from_millis(slow));
    assert!([400, 2_000, 8_000].into_iter().any(is_so));
}

/// Whether a call that began while another took so long begins, with `--timing`, while that takes twice as long.
fn calls_beside_each_other(slow: Duration) -> bool {
    let driver = ScriptedDriver::unix();
    plugin_info(&driver);
    let probed = Reply::json("{}");
    driver.on("Probe", probed.after(slow));
    let proxy = Proxy::with(driver.endpoint(), "--record r.jsonl --quiet");
    let first = proxy
        .csi
        .spawn(&format!("-e {} identity probe", proxy.endpoint()));
    driver.wait_for_call("Probe");
    proxy.run("identity plugin-info").succeeds();
    first.wait(crate::support::PATIENCE).unwrap();
    proxy.has_recorded(2);
    let fresh = ScriptedDriver::unix();
    plugin_info(&fresh);
    let probed = Reply::json("{}");
    fresh.on("Probe", probed.after(2 * slow));
    let order = |flags: &str| {
        let out = proxy
            .csi
            .run(&format!("-e {} replay r.jsonl {flags}", fresh.endpoint()))
            .succeeds();
        let numbers = out
            .stdout
            .lines()
            .filter_map(|line| line.split_whitespace().nth(1));
        numbers.map(str::to_owned).take(2).collect::<Vec<_>>()
    };
    assert_eq!(order(""), ["#1", "#2"]);
    let timed = order("--timing");
    proxy.ends();
    timed == ["#2", "#1"]
}

#[test]
fn files_that_are_no_recordings_and_drivers_that_are_not_there() {
    let driver = ScriptedDriver::unix();
    plugin_info(&driver);
    let (csi, path) = recording(&driver, &["identity plugin-info", "identity plugin-info"]);
    let text = std::fs::read_to_string(&path).unwrap();
    let run = |name: &str| csi.run(&format!("-e {} replay {name}", driver.endpoint()));
    csi.file("cut.jsonl", &text[..text.len() - 20]);
    run("cut.jsonl")
        .succeeds()
        .says("note: the last call of the recording is cut off and left out");
    csi.file("empty.jsonl", text.lines().next().unwrap());
    run("empty.jsonl")
        .exits(1)
        .says("no call of the recording was compared");
    csi.file(
        "future.jsonl",
        text.replacen("\"recording\":1", "\"recording\":9", 1),
    );
    run("future.jsonl")
        .exits(2)
        .says("is a recording of version 9, and this csi reads version 1");
    csi.file("other.txt", "hello\n");
    run("other.txt")
        .exits(2)
        .says("other.txt is not a recording of `csi proxy --record`");
    run("none.jsonl")
        .exits(2)
        .says("cannot read the recording none.jsonl");
    csi.run(&format!("-e ./none.sock replay {}", path.display()))
        .exits(64 + 14)
        .says("the socket ./none.sock does not exist");
    csi.run(&format!(
        "-e {} replay {} -o name",
        driver.endpoint(),
        path.display()
    ))
    .exits(2)
    .says("a replay shows a line a call");
    // A driver that dies on the way ends it with the reason, not with a list of differences.
    let dying = ScriptedDriver::unix();
    dying.on("GetPluginInfo", Reply::disconnect());
    csi.run(&format!(
        "-e {} replay {}",
        dying.endpoint(),
        path.display()
    ))
    .exits(64 + 14)
    .says("error: replay of #1 GetPluginInfo: UNAVAILABLE");
}

/// Makes the recording `r.jsonl` of a Probe that was answered with this code.
fn record_probe(csi: &Csi, code: &str) {
    let call = format!(
        r#"{{"call":1,"at":0,"method":"/csi.v1.Identity/Probe","request":{{}},"status":{{"code":"{code}"}},"seconds":0}}"#
    );
    csi.file("r.jsonl", format!("{{\"recording\":1}}\n{call}\n"));
}

#[test]
fn a_lost_connection_is_not_the_answer_that_a_driver_gave_by_the_same_code() {
    let dying = ScriptedDriver::unix();
    dying.on("Probe", Reply::disconnect());
    let csi = Csi::at(dying.endpoint());
    record_probe(&csi, "UNAVAILABLE");
    let run = csi.run("replay r.jsonl --html page.html").exits(64 + 14);
    let told = "error: replay of #1 Probe: UNAVAILABLE";
    assert!(run.stderr.contains(told), "{run}");
    assert!(run.stdout.starts_with("0 calls: 0 the same"), "{run}");
    assert!(csi.home().join("page.html").exists());
}

#[test]
fn no_answer_in_time_is_not_the_answer_that_a_driver_gave_by_the_same_code() {
    let silent = ScriptedDriver::unix();
    silent.on("Probe", Reply::never());
    let csi = Csi::at(silent.endpoint());
    record_probe(&csi, "DEADLINE_EXCEEDED");
    let run = csi.run("-t 300ms replay r.jsonl").exits(1);
    let told = "status: \"DEADLINE_EXCEEDED\" -> \"no answer within 300ms: see --timeout\"";
    assert!(run.stdout.contains(told), "{run}");
    // One that the driver gives is the same.
    silent.on("Probe", Reply::error(Code::DeadlineExceeded, "late"));
    csi.run("replay r.jsonl").succeeds();
}

#[test]
fn paths_of_another_machine() {
    let driver = ScriptedDriver::unix();
    driver.on("NodeUnpublishVolume", "{}");
    let (csi, path) = recording(
        &driver,
        &["node unpublish v --target-path /var/lib/kubelet/pods/x"],
    );
    csi.run(&format!(
        "-e {} replay {} --map-path /var/lib/kubelet=/tmp/k/",
        driver.endpoint(),
        path.display()
    ))
    .succeeds();
    let sent = driver.requests().pop().unwrap();
    assert_eq!(sent.json()["targetPath"], "/tmp/k/pods/x");
}
