//! The steps beyond those of every volume, several volumes at once, and that nothing of either stays.

use super::drivers::{called, created, driver, times_called};
use crate::support::PATIENCE;
use crate::support::program::Csi;
use crate::support::reference::ReferenceDriver;
use crate::support::scripted::{Reply, ScriptedDriver};
use csi_mock::Options;
use rustix::process::Signal;
use serde_json::json;
use std::fs;
use tonic::Code;

/// A driver that makes volumes and clones, and does what else is needed for that.
fn cloning() -> ScriptedDriver {
    driver("CREATE_DELETE_VOLUME CLONE_VOLUME", "")
}

fn count(text: &str, part: &str) -> usize {
    text.lines().filter(|line| line.contains(part)).count()
}

#[test]
fn every_step_is_done_as_far_as_it_is_advertised() {
    let reference = ReferenceDriver::start(Options::default());
    let csi = Csi::at(&reference.endpoint());
    let done = csi.run("lifecycle").succeeds();
    for (part, times) in [
        ("ok controller expand-volume ", 1),
        ("ok node expand-volume ", 1),
        ("ok controller create-snapshot ", 1),
        ("ok controller create-volume ", 3),
        ("ok node publish ", 3),
        ("ok find the data ", 2),
        ("ok node stats ", 2),
        ("ok controller get-volume ", 3),
        ("ok controller delete-volume ", 3),
        ("ok controller delete-snapshot ", 1),
    ] {
        assert_eq!(count(&done.stdout, part), times, "{part}\n{done}");
    }
    assert_eq!(reference.left_behind(), [""; 0]);
    let only = csi.run("lifecycle --only clone,stats").succeeds();
    assert_eq!(count(&only.stdout, "controller create-volume"), 2, "{only}");
    assert!(
        !only.stdout.contains("snapshot") && !only.stdout.contains("expand"),
        "{only}"
    );
    let without = csi.run("lifecycle --skip snapshot,expand").succeeds();
    assert!(without.stdout.contains("-- restore "), "{without}");
    assert!(without.stdout.contains("there is no snapshot"), "{without}");
    csi.run("lifecycle --skip snapshot --only clone").exits(2);
    assert_eq!(reference.left_behind(), [""; 0]);
    // The NFS driver copies too.
    let embedded = Csi::at("embedded:");
    let run = embedded.run("lifecycle").succeeds();
    assert_eq!(count(&run.stdout, "ok find the data"), 2, "{run}");
    let listed = embedded.run("controller list-volumes -o name").succeeds();
    assert_eq!(listed.stdout, "", "{run}");
}

#[test]
fn a_driver_that_does_not_say_when_expands_what_is_not_published() {
    let csi = Csi::at("mock:m");
    fs::create_dir(csi.home().join("m")).unwrap();
    let settings = "capability = [\"-plugin/ONLINE\", \"-plugin/OFFLINE\"]";
    csi.file("m/settings.toml", settings);
    let run = csi.run("lifecycle --only expand").succeeds();
    let place = |step: &str| {
        run.stdout
            .find(step)
            .unwrap_or_else(|| panic!("{step}\n{run}"))
    };
    assert!(
        place("ok controller expand-volume") < place("ok node publish"),
        "{run}"
    );
    // Nor does that contradict anything.
    csi.run("doctor --kubelet /nowhere").succeeds();
}

#[test]
fn a_node_expands_alone_where_the_controller_does_not() {
    let csi = Csi::at("mock:m");
    fs::create_dir(csi.home().join("m")).unwrap();
    csi.file(
        "m/settings.toml",
        "capability = '-controller/EXPAND_VOLUME'",
    );
    let run = csi.run("lifecycle --only expand").succeeds();
    let expanded = "ok node expand-volume ";
    assert!(run.stdout.contains(expanded), "{run}");
    // Nor does what one end alone advertises contradict anything.
    let settings = "capability = ['-node/SINGLE_NODE_MULTI_WRITER', '-PUBLISH_UNPUBLISH_VOLUME', \
                    '-LIST_VOLUMES_PUBLISHED_NODES']";
    csi.file("m/settings.toml", settings);
    csi.run("doctor --kubelet /nowhere").succeeds();
}

#[test]
fn a_snapshot_that_is_not_ready_in_time_is_late() {
    let csi = Csi::at("mock:m");
    fs::create_dir(csi.home().join("m")).unwrap();
    csi.file("m/settings.toml", "looks-until-ready = 1000000");
    let run = csi.run("lifecycle --only snapshot -t 5s").exits(64 + 4);
    assert!(
        run.stdout.contains("\n!! controller create-snapshot"),
        "{run}"
    );
    run.says("the snapshot is not ready to use within --timeout");
}

#[test]
fn an_answer_that_ends_a_run_is_marked_as_a_failure() {
    for (defect, step) in [
        ("ProbeNeverReady", "identity probe"),
        ("VolumeIdMissing", "controller create-volume"),
    ] {
        let csi = Csi::at("mock:m");
        fs::create_dir(csi.home().join("m")).unwrap();
        csi.file("m/settings.toml", format!("defect = '{defect}'"));
        let run = csi.run("lifecycle --only expand");
        assert!(run.code != 0, "{run}");
        let marked = run.stdout.lines().find(|line| line.contains(step));
        assert!(marked.is_some_and(|line| line.starts_with("!! ")), "{run}");
    }
}

#[test]
fn what_a_driver_leaves_at_its_target_is_said_with_the_command() {
    let csi = Csi::at("mock:m");
    fs::create_dir(csi.home().join("m")).unwrap();
    csi.file("m/settings.toml", "defect = 'UnpublishLeavesTarget'");
    let parent = csi.home().join("targets");
    fs::create_dir(&parent).unwrap();
    let run = csi.run("lifecycle --only clone --mount-parent targets");
    let left = run.stderr.lines().filter(|line| line.starts_with("left: "));
    let commands: Vec<&str> = left.filter_map(|line| line.rsplit(": ").next()).collect();
    assert!(commands.len() > 2, "{run}");
    let mut shell = std::process::Command::new("sh");
    let ended = shell.arg("-ec").arg(commands.join("\n")).status().unwrap();
    assert!(ended.success(), "{run}");
    assert_eq!(fs::read_dir(parent).unwrap().count(), 0, "{run}");
}

#[test]
fn a_volume_that_exists_is_left_as_it_is() {
    let reference = ReferenceDriver::start(Options::default());
    let csi = Csi::at(&reference.endpoint());
    let made = csi
        .run("controller create-volume pvc-1 --req-bytes 1Mi -o name")
        .succeeds();
    let volume = made.value();
    let run = csi
        .run(&format!("lifecycle --volume-id {volume}"))
        .succeeds();
    for step in ["expand", "snapshot", "restore", "clone"] {
        assert!(run.stdout.contains(&format!("-- {step} ")), "{step}\n{run}");
    }
    let run = csi
        .run(&format!(
            "lifecycle --volume-id {volume} --only restore,clone"
        ))
        .succeeds();
    assert_eq!(count(&run.stdout, "ok find the data"), 2, "{run}");
    // What was written for the copies is gone: a clone has nothing but what was there before.
    let run = csi
        .run(&format!("lifecycle --volume-id {volume} --only clone"))
        .succeeds();
    assert_eq!(count(&run.stdout, "ok find the data"), 1, "{run}");
    csi.run(&format!("controller delete-volume {volume}"))
        .succeeds();
    assert_eq!(reference.left_behind(), [""; 0]);
    csi.run("lifecycle --volume-id v --count 2")
        .exits(2)
        .says("--count");
}

#[test]
fn several_volumes_go_their_ways_at_once() {
    let reference = ReferenceDriver::start(Options::default());
    let csi = Csi::at(&reference.endpoint());
    let done = csi.run("lifecycle --count 4 --name v").succeeds();
    for number in 1..=4 {
        let line = format!("ok [{number}] node publish ");
        assert_eq!(count(&done.stdout, &line), 3, "{done}");
    }
    assert_eq!(
        count(&done.stdout, "ok controller delete-volume "),
        12,
        "{done}"
    );
    assert_eq!(reference.left_behind(), [""; 0]);
    let lines = csi
        .run("lifecycle --count 2 --only stats -o json")
        .succeeds();
    assert_eq!(
        count(&lines.stdout, r#""of":2"#),
        count(&lines.stdout, r#""of":1"#),
        "{lines}"
    );
    assert_eq!(reference.left_behind(), [""; 0]);
}

/// The driver was asked to delete two volumes.
fn two_are_deleted(driver: &ScriptedDriver) {
    let calls = driver.calls();
    let deleted = calls.iter().filter(|call| *call == "DeleteVolume");
    assert_eq!(deleted.count(), 2, "{calls:?}");
}

#[test]
fn the_first_failure_ends_all_ways_and_leaves_nothing() {
    let driver = cloning();
    let refused = Reply::error(Code::ResourceExhausted, "no room for a clone");
    let volumes = ["vol-1", "vol-2"].map(created);
    driver.on_each("CreateVolume", volumes.into_iter().chain([refused]));
    let run = Csi::at(driver.endpoint())
        .run("lifecycle --count 2")
        .exits(64 + 8);
    let run = run.says("no room for a clone");
    assert!(
        run.stderr.contains("--skip clone leaves this step out"),
        "{run}"
    );
    assert!(!run.stderr.contains("left:"), "{run}");
    two_are_deleted(&driver);
}

#[test]
fn ctrl_c_in_a_further_step_leaves_nothing() {
    let driver = cloning();
    driver.on_each(
        "CreateVolume",
        [created("vol-1"), Reply::never(), created("vol-2")],
    );
    let csi = Csi::at(driver.endpoint());
    let process = csi.spawn("lifecycle");
    // Five questions, a volume, its publishing, and the clone.
    driver.wait_for_requests(8);
    process.signal(Signal::INT);
    let ended = process.wait(PATIENCE).unwrap();
    assert_eq!(ended.code(), 130);
    let said = String::from_utf8(ended.stderr).unwrap();
    assert!(!said.contains("left:"), "{said}");
    two_are_deleted(&driver);
}

/// A driver whose volume is abnormal, as its controller says.
fn abnormal() -> ScriptedDriver {
    let driver = driver(
        "CREATE_DELETE_VOLUME GET_VOLUME VOLUME_CONDITION CLONE_VOLUME",
        "",
    );
    let condition = json!({"abnormal": true, "message": "the folder is missing"});
    let volume = json!({"volume": {"volumeId": "vol-7"}, "status": {"volumeCondition": condition}});
    driver.on("ControllerGetVolume", volume);
    driver
}

#[test]
fn an_abnormal_volume_is_brought_and_taken_back_and_nothing_else() {
    let driver = abnormal();
    let run = Csi::at(driver.endpoint()).run("lifecycle").exits(3);
    let run = run.says("the volume vol-7 is abnormal: the folder is missing");
    assert_eq!(
        count(&run.stderr, "what does not depend on that"),
        1,
        "{run}"
    );
    assert!(run.stderr.contains("--skip stats does not ask"), "{run}");
    for step in ["write and read back", "clone"] {
        let line = run
            .stdout
            .lines()
            .find(|line| line.starts_with(&format!("-- {step} ")));
        let line = line.unwrap_or_else(|| panic!("{step}\n{run}"));
        assert!(line.ends_with("the volume is abnormal"), "{line}");
    }
    for call in ["NodePublishVolume", "NodeUnpublishVolume", "DeleteVolume"] {
        assert!(called(&driver, call), "{call}: {:?}", driver.calls());
    }
    assert_eq!(times_called(&driver, "CreateVolume"), 1, "{run}");
}

#[test]
fn the_condition_counts_also_where_only_some_steps_are_named() {
    let driver = abnormal();
    let run = Csi::at(driver.endpoint())
        .run("lifecycle --only clone")
        .exits(3);
    let run = run.says("instead of --only, --skip stats does not ask");
    for step in ["write and read back", "clone"] {
        let line = format!("-- {step} ");
        assert_eq!(count(&run.stdout, &line), 1, "{run}");
    }
}

#[test]
fn a_hint_names_no_flag_that_is_not_taken_or_does_not_help() {
    let driver = cloning();
    let refused = Reply::error(Code::ResourceExhausted, "no clone");
    driver.on_each("CreateVolume", [created("vol-1"), refused]);
    let run = Csi::at(driver.endpoint()).run("lifecycle --only clone");
    let run = run.says("no clone");
    assert!(!run.stderr.contains("--skip"), "{run}");
}

#[test]
fn a_condition_that_is_not_asked_for_keeps_nothing_from_being_done() {
    let driver = abnormal();
    let run = Csi::at(driver.endpoint())
        .run("lifecycle --skip stats")
        .succeeds();
    assert!(!called(&driver, "ControllerGetVolume"), "{run}");
    assert_eq!(times_called(&driver, "CreateVolume"), 2, "{run}");
}

#[test]
fn what_fails_at_an_abnormal_volume_follows_from_that() {
    let driver = abnormal();
    driver.on(
        "NodePublishVolume",
        Reply::error(Code::NotFound, "there is no such folder"),
    );
    let run = Csi::at(driver.endpoint()).run("lifecycle").exits(3);
    let place = |text: &str| {
        let found = run.stderr.find(text);
        found.unwrap_or_else(|| panic!("{text}\n{run}"))
    };
    assert!(
        place("error: node publish: NOT_FOUND: there is no such folder")
            < place("error: the volume vol-7 is abnormal"),
        "{run}"
    );
    assert!(called(&driver, "DeleteVolume"), "{:?}", driver.calls());
}
