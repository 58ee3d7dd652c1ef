//! `csi doctor` names the cause that it knows: a driver that fails calls, one that starts late, one whose socket is elsewhere.

use super::check;
use crate::support::PATIENCE;
use crate::support::program::Csi;
use crate::support::scripted::{Reply, ScriptedDriver};
use crate::support::unserved;
use serde_json::Value as Json;
use tonic::Code;

#[test]
fn a_driver_that_fails_calls_is_not_said_to_be_silent() {
    let driver = ScriptedDriver::unix();
    driver.on(
        "GetPluginInfo",
        Reply::error(Code::DeadlineExceeded, "the array is slow"),
    );
    driver.on(
        "GetPluginCapabilities",
        Reply::error(Code::Internal, "no such table"),
    );
    let csi = Csi::new();
    let run = csi
        .run(&format!(
            "doctor {} --kubelet /nowhere -o json",
            driver.endpoint()
        ))
        .exits(3);
    for (name, text) in [
        ("plugin", "DEADLINE_EXCEEDED: the array is slow"),
        ("probe", "UNIMPLEMENTED"),
        ("capabilities", "INTERNAL: no such table"),
        ("conditions", "not asked: the capabilities are not known"),
    ] {
        let found = check(&run, name);
        let found = found["text"].as_str().unwrap();
        assert!(found.contains(text), "{name}: {run}");
    }
}

#[test]
fn a_socket_that_a_proxy_has_moved_aside_is_found() {
    let csi = Csi::new();
    for name in ["z.sock", "z.sock.driver"] {
        unserved::socket_file(csi.home().join(name));
    }
    let run = csi
        .run("doctor unix:z.sock --kubelet /nowhere -o json")
        .exits(3);
    let advice = check(&run, "socket")["advice"].to_string();
    assert!(advice.contains("mv z.sock.driver z.sock"), "{run}");
    let run = csi.run("-e unix:z.sock identity probe").exits(64 + 14);
    assert!(!run.stderr.contains("the driver has ended"), "{run}");
    run.says("mv z.sock.driver z.sock");
}

#[test]
fn a_driver_that_starts_is_waited_for() {
    let csi = Csi::new();
    let looking = csi.spawn("--wait 2m doctor unix:late.sock --kubelet /nowhere -o json");
    let mut driver = csi.spawn("mock --endpoint unix:late.sock");
    let ended = looking.wait(PATIENCE).unwrap();
    let page = String::from_utf8_lossy(&ended.stdout).into_owned();
    let page: Json = serde_json::from_str(&page).unwrap();
    let checks = page["checks"].as_array().unwrap();
    let probe = checks.iter().find(|one| one["check"] == "probe");
    assert_eq!(probe.unwrap()["state"], "ok", "{page}");
    driver.kill();
}
