//! `csi lifecycle`: embedded, as whoever runs the tests, and against scripted drivers.

mod data;
mod drivers;
mod further;
mod way_down;

use crate::support::program::Csi;
use crate::support::scripted::Reply;
use csi_proto::v1;
use drivers::{called, driver, thorough};
pub use drivers::{driver as driver_with, thorough as thorough_driver};
use std::fs;
use tonic::Code;

#[test]
fn embedded() {
    let csi = Csi::new();
    let folder = csi.home().join("embedded");
    let run = csi
        .run(&format!("-e embedded:{} lifecycle", folder.display()))
        .succeeds();
    for step in ["create", "publish", "write", "stats", "unpublish", "delete"] {
        assert!(run.stdout.contains(step), "{step}\n{run}");
    }
    for line in run.stdout.lines() {
        assert_eq!(line, line.trim_end(), "{run}");
    }
    let left: Vec<_> = fs::read_dir(folder.join("share"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(left, [".csi-nfs"]);
    // Without a folder: in the state folder of this user.
    csi.run("-e embedded: lifecycle").succeeds();
}

#[test]
fn kept_on_request() {
    let csi = Csi::new();
    let share = csi.home().join("share");
    fs::create_dir(&share).unwrap();
    let endpoint = format!("embedded:{}", share.display());
    csi.run(&format!("-e {endpoint} lifecycle --keep"))
        .succeeds();
    let listed = csi
        .run(&format!("-e {endpoint} controller list-volumes -o name"))
        .succeeds();
    assert_eq!(listed.stdout.lines().count(), 1, "{listed}");
}

#[test]
fn logs_and_checks_are_those_of_every_call() {
    let driver = thorough();
    let csi = Csi::at(driver.endpoint());
    let log = csi.run("-vvv -m tenant=blue lifecycle").succeeds();
    let log = log.says("connected to").says("request metadata: tenant: ");
    let log = log.says(r#"request: {"name":"csi-lifecycle-"#);
    let log = log.says(r#"reply: {"name":"half.example.org""#);
    log.says("controller delete-volume: OK in ");
    let quiet = csi.run("lifecycle").succeeds();
    assert_eq!(quiet.stderr, "");

    for (flag, problem) in [
        ("--with-requires-creds", "secrets"),
        ("--with-requires-vol-context", "volume_context"),
        ("--with-requires-pub-context", "publish_context"),
    ] {
        let output = csi.run(&format!("lifecycle {flag}"));
        assert_ne!(output.code, 0, "{output}");
        output.says(problem);
    }
    for flag in ["--columns NAME", "--sort-by NAME", "-o wide", "-o name"] {
        csi.run(&format!("lifecycle {flag}"))
            .exits(2)
            .says("has no meaning here");
    }
}

#[test]
fn a_parent_that_is_no_folder_is_an_error_of_the_command_line() {
    let csi = Csi::at("mock:m");
    csi.file("file", "");
    for tool in ["lifecycle", "sanity --filter identity/probe"] {
        for parent in ["file", "none"] {
            csi.run(&format!("{tool} --mount-parent {parent}")).exits(2);
        }
    }
}

#[test]
fn the_controller_may_be_in_another_process() {
    let driver = driver("", "");
    let elsewhere = Reply::error(Code::Unimplemented, "only the node is served here");
    driver.on("ControllerGetCapabilities", elsewhere);
    let csi = Csi::at(driver.endpoint());
    let done = csi.run("lifecycle --volume-id vol-1").succeeds();
    let told = "this process serves no Controller: --controller-endpoint";
    assert!(done.stdout.contains(told), "{done}");
}

#[test]
fn a_driver_that_knows_the_volume_is_asked_for_its_context() {
    let driver = driver("GET_VOLUME", "");
    let volume = r#"{"volume": {"volumeId": "vol-1", "volumeContext": {"share": "a"}}}"#;
    driver.on("ControllerGetVolume", volume);
    let csi = Csi::at(driver.endpoint());
    let context = || {
        let requests = driver.requests();
        let mut published = requests
            .iter()
            .filter(|request| request.method().name == "NodePublishVolume");
        let request: v1::NodePublishVolumeRequest = published.next_back().unwrap().decode();
        request.volume_context
    };
    csi.run("lifecycle --vol-context share=b")
        .exits(2)
        .says("--vol-context has no effect without --volume-id");
    csi.run("lifecycle --volume-id vol-1").succeeds();
    assert_eq!(context()["share"], "a");
    csi.run("lifecycle --volume-id vol-1 --vol-context share=b")
        .succeeds();
    assert_eq!(context()["share"], "b");
    let asked = driver
        .calls()
        .iter()
        .filter(|call| *call == "ControllerGetVolume")
        .count();
    assert_eq!(asked, 1);
    assert!(!called(&driver, "DeleteVolume"));
}

#[test]
fn a_call_that_the_driver_says_goes_on_is_made_again() {
    let driver = thorough();
    for rpc in ["ControllerPublishVolume", "NodePublishVolume"] {
        let goes_on = || Reply::error(Code::Aborted, "it goes on");
        driver.on_each(rpc, [goes_on(), goes_on(), Reply::json("{}")]);
    }
    let run = Csi::at(driver.endpoint()).run("lifecycle").succeeds();
    let told = "note: node publish: ABORTED, trying again\n";
    assert_eq!(run.stderr.matches(told).count(), 1, "{run}");
    assert_eq!(drivers::times_called(&driver, "NodePublishVolume"), 3);
}
