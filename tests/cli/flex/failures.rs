//! Drivers that fail in every way there is, servers that are killed, and calls that meet.

use super::served::Served;
use super::{KEEPS, MOUNTS};
use crate::support::PATIENCE;
use crate::support::patience::until;
use std::fs;
use std::path::Path;

const UNIMPLEMENTED: i32 = 64 + 12;
const INTERNAL: i32 = 64 + 13;
const LATE: i32 = 64 + 4;
const ABORTED: i32 = 64 + 10;

/// A driver whose mount does what the volume is called.
const FAILS: &str = "\
mount) case $3 in
  *v-garbage*) echo 'mounting ...';;
  *v-exit*) echo no disk >&2; exit 3;;
  *v-nothing*) ;;
  *v-failure*) echo '{\"status\":\"Failure\",\"message\":\"no disk\"}'; exit 1;;
  *v-repeats*) printf '{\"status\":\"Failure\",\"message\":\"-o pass=hunter2 %s\"}' \"$(echo $3 | tr -d '\"')\";;
  *v-noise*) echo $3 >&2; exit 5;;
  *v-unsupported*) echo '{\"status\":\"Not supported\"}'; exit 1;;
  *v-signal*) kill -9 $$;;
  *v-huge*) head -c 200000 /dev/zero;;
  *v-lies*) ok; exit 1;;
  *v-hangs*) sleep 600 & echo $! >child-v-hangs; wait;;
  *v-stubborn*) trap '' TERM; sleep 600 & echo $! >child-v-stubborn; wait; sleep 600;;
  *) ok;;
esac;;
unmount) ok;;";

/// Whether a process runs; one that is dead and not reaped does not.
fn lives(pid: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
    let state = stat
        .rsplit_once(") ")
        .map(|(_, fields)| fields.starts_with(['Z', 'X']));
    state == Some(false)
}

#[test]
fn every_failure_has_its_code_and_its_words_and_shows_no_secret() {
    let served = Served::new(&[MOUNTS, FAILS], "");
    let secrets = served.csi.file("secrets", "password=hunter2");
    let publish = |volume: &str| {
        let target = served.target(volume);
        let secrets = secrets.display();
        served.run(&format!(
            "-vvv node publish {volume} --target-path {target} --cap 1,mount --secrets-file {secrets}"
        ))
    };
    for (volume, code, part) in [
        (
            "v-garbage",
            INTERNAL,
            "mount: exit code 0, and no answer in JSON",
        ),
        ("v-garbage", INTERNAL, "it wrote: mounting ..."),
        (
            "v-exit",
            INTERNAL,
            "mount: exit code 3, and no answer in JSON (its standard output is empty); it wrote: no disk",
        ),
        ("v-nothing", INTERNAL, "it wrote nothing"),
        ("v-failure", INTERNAL, "mount: Failure: no disk"),
        ("v-repeats", INTERNAL, "-o pass=***stripped***"),
        ("v-noise", INTERNAL, "mount: exit code 5"),
        ("v-unsupported", UNIMPLEMENTED, "mount: Not supported"),
        ("v-signal", INTERNAL, "mount: signal 9 ended it"),
        (
            "v-huge",
            INTERNAL,
            "mount: it wrote more than 65536 bytes and was killed",
        ),
        (
            "v-lies",
            INTERNAL,
            "mount: it answered Success and ended with exit code 1",
        ),
    ] {
        let failed = publish(volume);
        let all = format!("{}{}", failed.stdout, failed.stderr);
        assert!(
            !all.contains("hunter2") && !all.contains("aHVudGVyMg"),
            "{all}"
        );
        failed.exits(code).says(part);
        // Whether or not it has done something, it can be taken down.
        let target = served.target(volume);
        served
            .run(&format!("node unpublish {volume} --target-path {target}"))
            .succeeds();
        assert!(!Path::new(&target).exists());
    }
    // What has surely done nothing leaves nothing to undo.
    let undone = served
        .call_outs()
        .iter()
        .filter(|one| *one == "unmount")
        .count();
    assert_eq!(undone, 8, "{:?}", served.call_outs());
    fs::remove_file(served.csi.home().join("driver")).unwrap();
    publish("v-1").exits(INTERNAL).says("mount: cannot run ");
    served
        .run("identity probe")
        .exits(64 + 9)
        .says("cannot run ");
    let said = served.ends();
    assert!(
        !said.contains("hunter2") && !said.contains("aHVudGVyMg"),
        "{said}"
    );
}

#[test]
fn a_call_out_that_hangs_is_ended_with_its_children_and_can_be_undone() {
    // Long enough for a call-out that does not hang, also on a busy machine.
    let served = Served::new(&[MOUNTS, FAILS], "--call-timeout 10s");
    let publish = |volume: &str| {
        let target = served.target(volume);
        format!("node publish {volume} --target-path {target} --cap 1,mount")
    };
    let volumes = ["v-hangs", "v-stubborn"];
    let calls = volumes.map(|volume| served.csi.spawn(&publish(volume)));
    for (volume, call) in volumes.into_iter().zip(calls) {
        let late = call.wait(PATIENCE).unwrap();
        let said = String::from_utf8(late.stderr).unwrap();
        assert_eq!(late.status.code(), Some(LATE), "{said}");
        assert!(said.contains("mount: it had no answer after "), "{said}");
        let child = served.csi.home().join(format!("child-{volume}"));
        let child = fs::read_to_string(child).unwrap();
        until("its child has ended", || !lives(&child));
        // Whether or not it has done something, it can be taken down.
        let target = served.target(volume);
        served
            .run(&format!("node unpublish {volume} --target-path {target}"))
            .succeeds();
        assert!(!Path::new(&target).exists());
    }
}

#[test]
fn requests_that_cannot_be_meant_reach_no_driver() {
    let served = Served::new(&[MOUNTS, KEEPS], "");
    let target = served.target("a");
    for (line, part) in [
        (
            format!("node publish a/b --target-path {target} --cap 1,mount"),
            "volume_id is no name",
        ),
        (
            format!("node publish '$(id)' --target-path {target} --cap 1,mount"),
            "volume_id is no name",
        ),
        (
            "node publish v --target-path a --cap 1,mount".to_owned(),
            "no absolute path",
        ),
        (
            format!("node publish v --target-path {target} --cap 1,block"),
            "access type block",
        ),
        (
            format!("node publish v --target-path {target} --cap 1,mount,ext4,noatime"),
            "mount_flags",
        ),
    ] {
        served.run(&line).exits(64 + 3).says(part);
    }
    let nowhere = served.target("none/a");
    served
        .run(&format!(
            "node publish v --target-path {nowhere} --cap 1,mount"
        ))
        .exits(INTERNAL)
        .says("cannot make");
    assert_eq!(served.call_outs(), ["init"]);
}

#[test]
fn one_call_at_a_time_has_a_volume() {
    let waits = "mount) while [ ! -e go-$(basename $2) ]; do sleep 0.02; done; ok;;\nunmount) ok;;";
    let served = Served::new(&[MOUNTS, waits], "");
    let publish = |volume: &str, name: &str| {
        format!(
            "node publish {volume} --target-path {} --cap 5,mount",
            served.target(name)
        )
    };
    let first = served.csi.spawn(&publish("v-1", "a"));
    served.wait_for_call_out("mount");
    for line in [
        publish("v-1", "a"),
        publish("v-1", "b"),
        format!("node unpublish v-1 --target-path {}", served.target("a")),
    ] {
        served
            .run(&line)
            .exits(ABORTED)
            .says("NodePublishVolume of this volume has been running for");
    }
    // Another volume is not kept waiting.
    served.csi.file("go-c", "");
    served.run(&publish("v-2", "c")).succeeds();
    served.csi.file("go-a", "");
    assert_eq!(first.wait(PATIENCE).unwrap().code(), 0);
    served.run(&publish("v-1", "a")).succeeds();
    assert_eq!(served.call_outs(), ["init", "mount", "mount"]);
}

#[test]
fn a_caller_that_waits_less_is_answered_in_time_and_one_that_leaves_ends_nothing() {
    let waits = "mount) while [ ! -e go ]; do sleep 0.02; done; ok;;\nunmount) ok;;";
    let served = Served::new(&[MOUNTS, waits], "");
    let publish = format!(
        "node publish v-1 --target-path {} --cap 5,mount",
        served.target("a")
    );
    served.run(&format!("-t 300ms {publish}")).exits(LATE);
    // The call-out is killed at the caller's deadline, and then the volume is free.
    until("the volume is free", || {
        let left = served.run(&format!("-t 300ms {publish}"));
        left.code == LATE
    });
    let mut leaves = served.csi.spawn(&publish);
    let begun = served.call_outs().len();
    until("a call-out, or the end", || {
        served.call_outs().len() > begun || !leaves.is_running()
    });
    leaves.kill();
    served.csi.file("go", "");
    until("it is published", || served.run(&publish).code == 0);
}

#[test]
fn a_killed_server_knows_what_it_has_published() {
    let mut served = Served::new(&[MOUNTS, KEEPS], "");
    let target = served.target("a");
    let publish = format!("node publish v-1 --target-path {target} --cap 5,mount");
    served.run(&publish).succeeds();
    served.kill();
    served.restart();
    served.run(&publish).succeeds();
    served.run(&publish.replace("v-1", "v-2")).exits(64 + 6);
    served
        .run(&format!("node unpublish v-1 --target-path {target}"))
        .succeeds();
    assert!(!Path::new(&target).exists());
    assert_eq!(served.call_outs(), ["init", "mount", "init", "unmount"]);
}

#[test]
fn call_outs_of_a_killed_server_end_before_the_next_one_serves() {
    let waits =
        "mount) echo $$ >child; while [ ! -e go ]; do sleep 0.02; done; ok;;\nunmount) ok;;";
    let mut served = Served::new(&[MOUNTS, waits], "");
    let target = served.target("a");
    let call = served.csi.spawn(&format!(
        "node publish v-1 --target-path {target} --cap 5,mount"
    ));
    served.wait_for_call_out("mount");
    let path = served.csi.home().join("child");
    until("the call-out has noted its process", || {
        fs::read_to_string(&path).is_ok_and(|text| text.ends_with('\n'))
    });
    let child = fs::read_to_string(&path).unwrap();
    served.kill();
    assert_ne!(call.wait(PATIENCE).unwrap().code(), 0);
    assert!(lives(&child));
    served.restart();
    assert!(!lives(&child));
    assert!(
        served
            .said()
            .contains("what call-outs of a killed server have left"),
        "{}",
        served.said()
    );
    // It may have mounted before it was killed.
    served
        .run(&format!("node unpublish v-1 --target-path {target}"))
        .succeeds();
    assert_eq!(served.call_outs(), ["init", "mount", "init", "unmount"]);
}
