//! The way down: after failures and signals, in which order, how often it is tried, and what is said of that which stays.

use super::drivers::{called, created, driver, failing, thorough};
use crate::support::PATIENCE;
use crate::support::process::Process;
use crate::support::program::Csi;
use crate::support::scripted::{Reply, ScriptedDriver};
use rustix::process::Signal;
use std::sync::mpsc;
use tonic::Code;

#[test]
fn cleans_up_after_a_failure() {
    let driver = failing();
    let output = Csi::at(driver.endpoint()).run("lifecycle");
    output.exits(64 + 13).says("the mount failed");
    let calls = driver.calls();
    let position = |rpc: &str| calls.iter().position(|call| call == rpc);
    assert!(
        position("NodePublishVolume") < position("DeleteVolume"),
        "{calls:?}"
    );
    // INTERNAL says nothing about what is left, so it is unpublished too.
    assert!(position("NodeUnpublishVolume").is_some(), "{calls:?}");
}

#[test]
fn a_driver_that_makes_no_volumes_has_the_code_of_what_it_lacks() {
    let driver = driver("", "");
    Csi::at(driver.endpoint())
        .run("lifecycle")
        .exits(64 + 12)
        .says("does not advertise CREATE_DELETE_VOLUME")
        .says("--volume-id");
}

#[test]
fn says_what_it_could_not_undo() {
    let driver = failing();
    driver.on(
        "DeleteVolume",
        Reply::error(Code::Internal, "the array is on fire"),
    );
    let command = format!(
        "left: the volume vol-7: csi -e {} controller delete-volume vol-7\n",
        shlex::try_quote(driver.endpoint()).unwrap()
    );
    Csi::at(driver.endpoint())
        .run("lifecycle")
        .exits(64 + 13)
        .says("the array is on fire")
        .says(&command);
}

#[test]
fn cleans_up_after_a_signal() {
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        let driver = failing();
        driver.on("NodePublishVolume", Reply::never());
        let csi = Csi::at(driver.endpoint());
        let process = csi.spawn("lifecycle");
        driver.wait_for_call("NodePublishVolume");
        process.signal(signal);
        let ended = process.wait(PATIENCE).unwrap();
        assert_eq!(ended.code(), 130);
        assert!(called(&driver, "DeleteVolume"), "{:?}", driver.calls());
    }
}

#[test]
fn what_may_still_be_published_is_not_deleted() {
    let unstaged = ["ControllerUnpublishVolume", "DeleteVolume"];
    let cases: [(&str, &[&str], &[&str]); 3] = [
        (
            "NodeUnpublishVolume",
            &["NodeUnstageVolume", unstaged[0], unstaged[1]],
            &[
                "published",
                "staged",
                "at node node-1",
                "the volume vol-7:",
                "folder",
            ],
        ),
        (
            "NodeUnstageVolume",
            &unstaged,
            &["staged", "at node node-1", "the volume vol-7:", "folder"],
        ),
        (
            "ControllerUnpublishVolume",
            &["DeleteVolume"],
            &["at node node-1", "the volume vol-7:"],
        ),
    ];
    for (failing, untouched, left) in cases {
        let driver = thorough();
        driver.on(failing, Reply::error(Code::Internal, "target is busy"));
        let output = Csi::at(driver.endpoint()).run("lifecycle").exits(64 + 13);
        for rpc in untouched {
            assert!(!called(&driver, rpc), "{rpc} in {:?}", driver.calls());
        }
        let said: Vec<&str> = output
            .stderr
            .lines()
            .filter_map(|line| line.strip_prefix("left: "))
            .collect();
        for part in left {
            assert!(
                said.iter().any(|line| line.contains(part)),
                "{part}\n{output}"
            );
        }
        let folders = left.contains(&"folder");
        assert_eq!(said.len(), left.len() + usize::from(folders), "{output}");
    }
}

#[test]
fn what_was_refused_is_not_undone() {
    let driver = thorough();
    driver.on(
        "ControllerPublishVolume",
        Reply::error(Code::FailedPrecondition, "published to node-2"),
    );
    let csi = Csi::at(driver.endpoint());
    csi.run("lifecycle").exits(64 + 9).says("node-2");
    assert!(!called(&driver, "ControllerUnpublishVolume"));
    assert!(called(&driver, "DeleteVolume"));
}

#[test]
fn a_volume_that_was_made_although_its_reply_is_wrong_is_deleted() {
    let driver = thorough();
    // 1 GiB was asked for.
    driver.on(
        "CreateVolume",
        r#"{"volume": {"volumeId": "vol-7", "capacityBytes": 1}}"#,
    );
    Csi::at(driver.endpoint())
        .run("lifecycle --req-bytes 1Gi --with-spec-validation")
        .exits(1)
        .says("capacity_bytes");
    assert!(called(&driver, "DeleteVolume"), "{:?}", driver.calls());
    assert!(!called(&driver, "ControllerPublishVolume"));
}

#[test]
fn a_creation_that_is_refused_in_the_end_leaves_nothing() {
    let driver = failing();
    driver.on_each(
        "CreateVolume",
        [
            Reply::error(Code::DeadlineExceeded, "still copying"),
            Reply::error(Code::OutOfRange, "the source has shrunk"),
        ],
    );
    let run = Csi::at(driver.endpoint()).run("lifecycle").exits(64 + 11);
    let run = run.says("the source has shrunk");
    assert!(!run.stderr.contains("left:"), "{run}");
    assert!(!called(&driver, "DeleteVolume"), "{:?}", driver.calls());
}

/// Lets the RPC hang until something is sent.
fn held(driver: &ScriptedDriver, rpc: &str) -> mpsc::Sender<()> {
    let (release, released) = mpsc::channel();
    driver.answer(rpc, move |_| {
        // A test that has failed sends nothing any more.
        let _ = released.recv();
        Reply::json("{}")
    });
    release
}

#[test]
fn the_first_signal_on_the_way_down_does_not_end_it() {
    let driver = thorough();
    let release = held(&driver, "NodeUnpublishVolume");
    let csi = Csi::at(driver.endpoint());
    let process = csi.spawn("lifecycle");
    driver.wait_for_call("NodeUnpublishVolume");
    process.signal(Signal::INT);
    process.wait_for_error_output("note: still undoing");
    release.send(()).unwrap();
    let ended = process.wait(PATIENCE).unwrap();
    assert_eq!(ended.code(), 130);
    let said = String::from_utf8(ended.stderr).unwrap();
    assert!(!said.contains("left:"), "{said}");
    assert!(called(&driver, "DeleteVolume"), "{:?}", driver.calls());
}

#[test]
fn the_second_signal_ends_the_way_down_and_says_what_is_left() {
    let driver = thorough();
    let release = held(&driver, "NodeUnpublishVolume");
    let csi = Csi::at(driver.endpoint());
    let process = csi.spawn("lifecycle");
    driver.wait_for_call("NodeUnpublishVolume");
    process.signal(Signal::INT);
    process.wait_for_error_output("note: still undoing");
    process.signal(Signal::TERM);
    let ended = process.wait(PATIENCE).unwrap();
    drop(release);
    assert_eq!(ended.code(), 130);
    let said = String::from_utf8(ended.stderr).unwrap();
    assert_eq!(said.matches("left: ").count(), 6, "{said}");
    assert!(!called(&driver, "DeleteVolume"), "{:?}", driver.calls());
}

#[test]
fn a_volume_of_unknown_id_is_left_with_what_it_was_created_with() {
    let driver = failing();
    driver.on("CreateVolume", Reply::never());
    let csi = Csi::at(driver.endpoint());
    let process = csi.spawn("lifecycle --name mine --cap 5,mount --params 'size=very big'");
    driver.wait_for_call("CreateVolume");
    process.signal(Signal::INT);
    process.wait_for_error_output("note: undoing");
    process.signal(Signal::INT);
    let ended = process.wait(PATIENCE).unwrap();
    let said = String::from_utf8(ended.stderr).unwrap();
    let repeat = "controller create-volume --cap 'mode=5,type=mount' --params 'size=very big' mine";
    assert!(said.contains(repeat), "{said}");
}

#[test]
fn undoing_is_tried_again_and_has_time_of_its_own() {
    let driver = failing();
    driver.on_each(
        "DeleteVolume",
        [
            Reply::error(Code::Aborted, "busy"),
            Reply::error(Code::Unavailable, "starting"),
            Reply::json("{}"),
        ],
    );
    let output = Csi::at(driver.endpoint())
        .run("-t 9s lifecycle")
        .exits(64 + 13)
        .says("controller delete-volume: ABORTED, trying again");
    assert!(!output.stderr.contains("left:"), "{output}");
    let timeouts: Vec<(String, u64)> = driver
        .requests()
        .iter()
        .map(|request| {
            let timeout = request.header("grpc-timeout").unwrap();
            let microseconds = timeout.strip_suffix('u').unwrap().parse().unwrap();
            (request.method().name.to_owned(), microseconds)
        })
        .collect();
    for (rpc, microseconds) in timeouts {
        let undoing = rpc == "NodeUnpublishVolume" || rpc == "DeleteVolume";
        assert_eq!(
            microseconds,
            if undoing { 10_000_000 } else { 9_000_000 },
            "{rpc}"
        );
    }
}

#[test]
fn ids_reach_neither_terminal_nor_shell_raw() {
    let driver = failing();
    driver
        .on("CreateVolume", created("\x1b[31m;reboot '"))
        .on("DeleteVolume", Reply::error(Code::Internal, "no"));
    let output = Csi::at(driver.endpoint()).run("lifecycle").exits(64 + 13);
    let output = output.says(r"the volume \u{1b}[31m;reboot ': csi -e ");
    let output = output.says(r"controller delete-volume $'\x1b[31m;reboot \''");
    assert!(!output.stderr.contains('\x1b'), "{output}");
    let kept = Csi::at(driver.endpoint()).run("lifecycle --keep");
    let kept = kept.says(r"note: --keep: the volume \u{1b}[31m;reboot ' stays");
    assert!(!kept.stderr.contains('\x1b'), "{kept}");
}

/// As nohup starts it.
#[test]
fn a_signal_that_is_ignored_stays_so() {
    let driver = thorough();
    let release = held(&driver, "NodePublishVolume");
    let csi = Csi::at(driver.endpoint());
    let mut command = csi.command();
    let program = command.get_program().to_owned();
    let environment: Vec<_> = command
        .get_envs()
        .map(|(name, value)| (name.to_owned(), value.unwrap_or_default().to_owned()))
        .collect();
    command = std::process::Command::new("/bin/sh");
    command
        .args(["-c", "trap '' HUP; exec \"$0\" lifecycle"])
        .arg(program)
        .env_clear()
        .envs(environment)
        .current_dir(csi.home());
    let process = Process::start(&mut command);
    driver.wait_for_call("NodePublishVolume");
    process.signal(Signal::HUP);
    release.send(()).unwrap();
    let ended = process.wait(PATIENCE).unwrap();
    assert_eq!(
        ended.code(),
        0,
        "{:?}",
        String::from_utf8_lossy(&ended.stderr)
    );
}
