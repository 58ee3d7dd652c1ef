//! What a load makes is taken back: when, in which order, also after errors and signals; and what is said of the rest.

use super::{calls, created, driver, entries, row, volumes};
use crate::support::PATIENCE;
use crate::support::driver::Driver;
use crate::support::patience::{until, up_to_a_limit};
use crate::support::program::{BINARY, Csi};
use crate::support::scripted::{Reply, ScriptedDriver};
use csi_proto::v1;
use rustix::process::Signal;
use serde_json::Value as Json;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use tonic::Code;

#[test]
fn what_is_made_has_the_run_s_name_and_is_taken_back() {
    let driver = driver();
    let csi = Csi::at(driver.endpoint());
    let run = csi.run("bench create-volume 'a-{i}' b --count 10 --concurrency 3");
    let run = run
        .succeeds()
        .says("what it makes is taken back at the end");
    run.clone().says("note: taking back 6 volumes");
    let (created, deleted) = volumes(&driver);
    assert_eq!(created, deleted);
    assert_eq!(created.len(), 6, "five of a and one b");
    assert!(
        created.iter().all(|id| id.starts_with("id-csi-bench-")),
        "{created:?}"
    );
    let id = run
        .stderr
        .split_whitespace()
        .nth(2)
        .unwrap()
        .trim_end_matches(':');
    assert!(
        created.iter().all(|name| name.contains(id)),
        "{id}: {created:?}"
    );

    let before = deleted.len();
    let kept = csi
        .run("bench create-volume '{i}' --count 2 --keep")
        .succeeds();
    kept.says("--keep: what it makes stays, named csi-bench-");
    assert_eq!(calls(&driver, "DeleteVolume"), before);
}

#[test]
fn a_limit_of_calls_in_a_time_leaves_nothing() {
    let driver = driver();
    let mut refused = BTreeSet::new();
    driver.answer("DeleteVolume", move |request| {
        let id = request.decode::<v1::DeleteVolumeRequest>().volume_id;
        match refused.insert(id) {
            true => Reply::error(Code::ResourceExhausted, "too many calls"),
            false => Reply::json("{}"),
        }
    });
    let csi = Csi::at(driver.endpoint());
    let run = csi.run("bench create-volume '{i}' --count 3").succeeds();
    assert!(!run.stderr.contains("left:"), "{run}");
    assert_eq!(calls(&driver, "DeleteVolume"), 6);
}

#[test]
fn a_volume_for_each_worker_stands_ready() {
    let driver = driver();
    let csi = Csi::at(driver.endpoint());
    let line = "bench node-publish {volume_id} --target-path '/mnt/{run}-{i}' --count 6 --concurrency 2 \
                --volume-request '{\"parameters\": {\"a\": \"b\"}}'";
    csi.run(line).succeeds();
    let (created, deleted) = volumes(&driver);
    assert_eq!((created.len(), &created), (2, &deleted));
    let requests = driver.requests();
    for request in &requests {
        match request.method().name {
            "CreateVolume" => {
                let request: v1::CreateVolumeRequest = request.decode();
                assert_eq!(request.parameters["a"], "b");
            }
            "NodePublishVolume" => {
                let request: v1::NodePublishVolumeRequest = request.decode();
                assert!(created.contains(&request.volume_id));
                assert_eq!(request.volume_context["of"], request.volume_id);
            }
            _ => {}
        }
    }
    // Not before nothing is published any more.
    let names = driver.calls();
    let last = names.iter().rposition(|name| name == "NodeUnpublishVolume");
    let first = names.iter().position(|name| name == "DeleteVolume");
    assert!(last < first, "{names:?}");
    assert_eq!(calls(&driver, "NodeUnpublishVolume"), 6);

    // Made for what is done with it.
    csi.run("bench node-publish {volume_id} --target-path '/mnt/{run}' --cap 5,block --count 1")
        .succeeds();
    let requests = driver.requests();
    let last = requests
        .iter()
        .rfind(|request| request.method().name == "CreateVolume");
    let last: v1::CreateVolumeRequest = last.unwrap().decode();
    let capability = capability_of(&last);
    assert_eq!(capability, (5, true));
}

/// The access mode that a volume is created for, and whether as a device.
fn capability_of(request: &v1::CreateVolumeRequest) -> (i32, bool) {
    use v1::volume_capability::AccessType;
    assert_eq!(request.volume_capabilities.len(), 1);
    let one = &request.volume_capabilities[0];
    let mode = one.access_mode.as_ref().unwrap().mode;
    (mode, matches!(one.access_type, Some(AccessType::Block(_))))
}

#[test]
fn a_signal_ends_the_load_and_leaves_nothing() {
    let driver = Driver::with_local_share();
    let csi = Csi::at(&driver.endpoint());
    let line = "bench create-volume '{i}' --duration 1h --concurrency 4 --params server=localhost,share=/share -o json";
    let process = csi.spawn(line);
    let share = driver.share();
    until("twenty volumes", || entries(&share).len() >= 20);
    process.signal(Signal::INT);
    let ended = process.wait(PATIENCE).unwrap();
    assert_eq!(ended.code(), 130);
    let result: Json = serde_json::from_slice(&ended.stdout).unwrap();
    assert_eq!(result["interrupted"], true);
    assert!(row(&result, "CreateVolume")["calls"].as_u64().unwrap() >= 19);
    let said = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert!(
        said.contains("note: stopping") && said.contains("note: taking back "),
        "{said}"
    );
    assert_eq!(entries(&share), [""; 0], "{said}");
}

#[test]
fn calls_that_are_cut_off_by_a_signal_are_taken_back_too() {
    let driver = driver();
    let first = Arc::new(Mutex::new(true));
    driver.answer("CreateVolume", {
        let first = Arc::clone(&first);
        move |request| {
            let name = request.decode::<v1::CreateVolumeRequest>().name;
            match std::mem::take(&mut *first.lock().unwrap()) {
                true => Reply::never(),
                false => created(&format!("id-{name}")),
            }
        }
    });
    let csi = Csi::at(driver.endpoint());
    let process = csi.spawn("bench create-volume '{i}' --count 1");
    driver.wait_for_call("CreateVolume");
    process.signal(Signal::TERM);
    assert_eq!(process.wait(PATIENCE).unwrap().code(), 130);
    let (created, deleted) = volumes(&driver);
    assert_eq!((created.len(), &created), (1, &deleted));
    assert_eq!(calls(&driver, "CreateVolume"), 2);
}

#[test]
fn a_lost_answer_is_asked_for_again_with_the_same_request() {
    let (driver, run) = up_to_a_limit("each call comes to the driver once", |limit| {
        let driver = driver();
        driver.on_each("CreateVolume", [Reply::never(), created("vol-9")]);
        let run = Csi::at(driver.endpoint()).run(&format!(
            "bench create-volume '{{i}}' --count 1 --timeout {limit} --req-bytes 1Gi -o json"
        ));
        (driver.requests().len() == 3).then_some((driver, run))
    });
    let run = run.exits(64 + 4).says("1 of 1 calls failed");
    let error = &run.json()["drivers"][0]["errors"][0];
    assert_eq!(
        (&error["code"], &error["calls"]),
        (&"DEADLINE_EXCEEDED".into(), &1.into())
    );
    let requests = driver.requests();
    let names: Vec<_> = requests
        .iter()
        .map(|request| request.method().name)
        .collect();
    assert_eq!(names, ["CreateVolume", "CreateVolume", "DeleteVolume"]);
    assert_eq!(requests[0].message, requests[1].message);
    assert_eq!(
        requests[2].decode::<v1::DeleteVolumeRequest>().volume_id,
        "vol-9"
    );
}

#[test]
fn a_call_that_no_driver_heard_has_made_nothing() {
    let driver = driver();
    driver.on_each("CreateVolume", [created("vol-1"), Reply::never()]);
    let csi = Csi::at(driver.endpoint());
    let process = csi.spawn("bench create-volume '{i}' --count 20 --cleanup-timeout 300ms");
    driver.wait_for_requests(2);
    drop(driver);
    let ended = process.wait(PATIENCE).unwrap();
    let said = String::from_utf8_lossy(&ended.stderr).into_owned();
    let left = said.lines().filter(|line| line.starts_with("left: "));
    assert_eq!(left.count(), 2, "{said}");
}

#[test]
fn what_cannot_be_taken_back_is_said_with_the_command() {
    let driver = driver();
    driver
        .on("NodeUnpublishVolume", Reply::error(Code::Internal, "busy"))
        .on("CreateVolume", created("it's 1"));
    let csi = Csi::at(driver.endpoint()).env("X_CSI_SECRETS", "password=hunter2");
    let run = csi.run("bench node-publish {volume_id} --target-path '/mnt/{run}' --count 1");
    let run = run
        .exits(1)
        .says("2 things that this run made, or asked for, could not be taken back");
    let id = run
        .stderr
        .split_whitespace()
        .nth(2)
        .unwrap()
        .trim_end_matches(':');
    let endpoint = shlex::try_quote(driver.endpoint()).unwrap();
    let unpublish = format!(
        "left: a published volume: csi -e {endpoint} node unpublish --target-path /mnt/{id} \"it's 1\"; \
         NodeUnpublishVolume: INTERNAL: busy\n"
    );
    let delete = format!(
        "left: a volume: csi -e {endpoint} controller delete-volume \"it's 1\"; not tried: it may still be published\n"
    );
    let run = run.says(&unpublish).says(&delete);
    assert!(!run.stderr.contains("hunter2"), "{run}");
    assert_eq!(calls(&driver, "DeleteVolume"), 0);

    // Of which not even the id is known.
    driver.on("CreateVolume", Reply::error(Code::Internal, "on fire"));
    let run = csi.run("bench create-volume x --count 1 -o json").exits(1);
    let left = run.stderr.lines();
    let mut left = left.filter_map(|line| line.strip_prefix("left: perhaps a volume: "));
    let (command, reason) = left.next().unwrap().rsplit_once("; ").unwrap();
    assert_eq!(reason, "CreateVolume: INTERNAL: on fire");
    // A shell takes the command as it is.
    driver.on("CreateVolume", created("it's 2"));
    let command = command.replace("csi -e ", &format!("{BINARY} -e "));
    let ran = std::process::Command::new("sh")
        .args(["-c", &command])
        .output();
    assert!(ran.unwrap().status.success(), "{command}");
    let deleted = volumes(&driver).1;
    assert_eq!(deleted, BTreeSet::from(["it's 2".to_owned()]));
}

/// Of each RPC of one volume, the first call's place.
fn order(driver: &ScriptedDriver, volume: &str, rpcs: &[&str]) -> Vec<usize> {
    let requests = driver.requests();
    let places = rpcs.iter().map(|rpc| {
        let mut all = requests.iter();
        all.position(|request| {
            request.method().name == *rpc && request.json()["volumeId"] == volume
        })
    });
    places.map(Option::unwrap).collect()
}

#[test]
fn what_a_failed_cycle_has_made_is_taken_back_while_the_load_goes_on() {
    let driver = crate::lifecycle::thorough_driver();
    driver.answer("CreateVolume", |request| {
        created(&request.decode::<v1::CreateVolumeRequest>().name)
    });
    let failed = Arc::new(Mutex::new(None));
    driver.answer("NodePublishVolume", {
        let failed = Arc::clone(&failed);
        move |request| {
            let id = request.decode::<v1::NodePublishVolumeRequest>().volume_id;
            match failed.lock().unwrap().get_or_insert(id.clone()) {
                // It may be published all the same.
                first if *first == id => Reply::error(Code::Internal, "on fire"),
                _ => Reply::json("{}"),
            }
        }
    });
    let csi = Csi::at(driver.endpoint());
    let process = csi.spawn("bench lifecycle --rate 20 --duration 1h --max-errors 1 -o json");
    until("the volume that failed is deleted", || {
        let first = failed.lock().unwrap();
        first
            .as_ref()
            .is_some_and(|first| volumes(&driver).1.contains(first))
    });
    let first = failed.lock().unwrap().clone().unwrap();
    let steps = [
        "NodePublishVolume",
        "NodeUnpublishVolume",
        "NodeUnstageVolume",
        "ControllerUnpublishVolume",
        "DeleteVolume",
    ];
    let places = order(&driver, &first, &steps);
    assert!(places.is_sorted(), "{places:?}");
    // The load goes on and counts one failure.
    driver.wait_for_requests(driver.requests().len() + 20);
    process.signal(Signal::INT);
    let ended = process.wait(PATIENCE).unwrap();
    let result: Json = serde_json::from_slice(&ended.stdout).unwrap();
    assert_eq!(row(&result, "NodePublishVolume")["failed"], 1, "{result}");
    assert_eq!(row(&result, "cycle")["failed"], 1, "{result}");
    let deleted = volumes(&driver).1;
    let requests = driver.requests();
    let created = requests
        .iter()
        .filter(|request| request.method().name == "CreateVolume");
    for request in created {
        let name = request.decode::<v1::CreateVolumeRequest>().name;
        assert!(deleted.contains(&name), "{name}");
    }
    assert_eq!(entries(csi.home()), [""; 0], "staging folders");
}

#[test]
fn a_refused_stage_leaves_no_folder() {
    let driver = crate::lifecycle::thorough_driver();
    let refused = Reply::error(Code::InvalidArgument, "no such file system");
    driver.on("NodeStageVolume", refused);
    let csi = Csi::at(driver.endpoint());
    csi.run("bench lifecycle --count 3").exits(67);
    assert!(calls(&driver, "NodeStageVolume") > 0);
    assert_eq!(entries(csi.home()), [""; 0], "staging folders");
}

#[test]
fn a_driver_that_is_frozen_holds_the_clean_up_for_so_long_and_the_commands_are_said() {
    let driver = driver();
    driver.on("DeleteVolume", Reply::never());
    let csi = Csi::at(driver.endpoint());
    let run = csi.run("bench create-volume '{i}' --count 3 --cleanup-timeout 300ms");
    let run = run
        .exits(1)
        .says("nothing could be taken back at unix://")
        .says(" for 300ms\n")
        .says("3 things that this run made, or asked for, could not be taken back");
    driver.on("DeleteVolume", "{}");
    let commands = run.stderr.lines();
    let commands = commands.filter_map(|line| line.strip_prefix("left: a volume: csi "));
    let commands: Vec<_> = commands.collect();
    assert_eq!(commands.len(), 3, "{run}");
    for command in commands {
        csi.run(command).succeeds();
    }
    let (created, deleted) = volumes(&driver);
    assert_eq!(created, deleted);
}

#[test]
fn a_second_signal_ends_at_once_and_says_what_stays() {
    let driver = driver();
    driver.on("DeleteVolume", Reply::never());
    let csi = Csi::at(driver.endpoint());
    let process = csi.spawn("bench create-volume '{i}' --duration 1h");
    driver.wait_for_requests(3);
    process.signal(Signal::INT);
    driver.wait_for_call("DeleteVolume");
    process.signal(Signal::INT);
    let ended = process.wait(PATIENCE).unwrap();
    assert_eq!(ended.code(), 130);
    let said = String::from_utf8_lossy(&ended.stderr).into_owned();
    let left = said
        .lines()
        .filter(|line| line.starts_with("left: a volume: csi -e "));
    let (created, _) = volumes(&driver);
    assert_eq!(left.count(), created.len(), "{said}");
}

#[test]
fn a_second_signal_ends_at_once_also_while_calls_end() {
    let driver = driver();
    driver
        .on_each("CreateVolume", [created("vol-1"), Reply::never()])
        .on("DeleteVolume", Reply::never());
    let csi = Csi::at(driver.endpoint());
    let process = csi.spawn("bench create-volume '{i}' --duration 1h");
    driver.wait_for_requests(2);
    process.signal(Signal::INT);
    process.wait_for_error_output("note: stopping");
    process.signal(Signal::INT);
    let ended = process.wait(PATIENCE).unwrap();
    assert_eq!(ended.code(), 130);
    let said = String::from_utf8_lossy(&ended.stderr).into_owned();
    let left = said.lines().filter(|line| line.starts_with("left: "));
    assert_eq!(left.count(), 2, "{said}");
    assert!(!said.contains("given up"), "{said}");
}
