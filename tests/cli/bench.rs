//! `csi bench`: counts, what is sent, what is taken back and when, and what a person sees. How fast it is nobody asserts.

use crate::support::PATIENCE;
use crate::support::driver::Driver;
use crate::support::program::{Csi, Output};
use crate::support::scripted::{Reply, ScriptedDriver};
use crate::support::terminal::Terminal;
use csi_proto::v1;
use rustix::process::Signal;
use serde_json::Value as Json;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tonic::Code;

/// A driver that answers what reads, and whose volumes are named as they are asked for.
fn driver() -> ScriptedDriver {
    let driver = ScriptedDriver::unix();
    let info = v1::GetPluginInfoResponse {
        name: "scripted.csi.example".into(),
        ..Default::default()
    };
    driver.on("GetPluginInfo", Reply::message(&info));
    driver.answer("CreateVolume", |request| {
        let request: v1::CreateVolumeRequest = request.decode();
        created(&format!("id-{}", request.name))
    });
    for rpc in ["DeleteVolume", "NodePublishVolume", "NodeUnpublishVolume"] {
        driver.on(rpc, Reply::bytes(Vec::new()));
    }
    driver
}

fn created(id: &str) -> Reply {
    Reply::message(&v1::CreateVolumeResponse {
        volume: Some(v1::Volume {
            volume_id: id.into(),
            volume_context: [("of".to_owned(), id.to_owned())].into(),
            ..Default::default()
        }),
    })
}

/// The ids of what was created and of what was deleted.
fn volumes(driver: &ScriptedDriver) -> (BTreeSet<String>, BTreeSet<String>) {
    let (mut created, mut deleted) = (BTreeSet::new(), BTreeSet::new());
    for request in driver.requests() {
        match request.method().name {
            "CreateVolume" => {
                let request: v1::CreateVolumeRequest = request.decode();
                created.insert(format!("id-{}", request.name));
            }
            "DeleteVolume" => {
                deleted.insert(request.decode::<v1::DeleteVolumeRequest>().volume_id);
            }
            _ => {}
        }
    }
    (created, deleted)
}

fn calls(driver: &ScriptedDriver, rpc: &str) -> usize {
    driver.calls().iter().filter(|call| *call == rpc).count()
}

/// What is in a folder, but for the driver's own records.
fn entries(folder: &Path) -> Vec<String> {
    let names = fs::read_dir(folder).unwrap();
    let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name != ".csi-nfs").collect()
}

/// One row of a result.
fn row<'a>(result: &'a Json, rpc: &str) -> &'a Json {
    let rows = result["drivers"][0]["rpcs"].as_array().unwrap();
    let found = rows.iter().find(|row| row["rpc"] == rpc);
    found.unwrap_or_else(|| panic!("no {rpc} in {result}"))
}

#[test]
fn as_many_calls_as_asked_for_and_the_warm_up_apart() {
    let driver = driver();
    let csi = Csi::at(driver.endpoint());
    let line = "bench identity plugin-info --count 57 --concurrency 5 --connections 3 --warm-up 13 -o json";
    let run = csi.run(line).succeeds();
    let result = run.json();
    let row = row(&result, "GetPluginInfo");
    assert_eq!((&row["calls"], &row["failed"]), (&57.into(), &0.into()));
    let bars = row["histogram"].as_array().unwrap().iter();
    let all: u64 = bars.map(|bar| bar["calls"].as_u64().unwrap()).sum();
    assert_eq!(all, 57, "{run}");
    let latency = |name: &str| row["latencySeconds"][name].as_f64().unwrap();
    assert!(latency("min") <= latency("p50") && latency("p50") <= latency("max"));
    assert_eq!(result["interrupted"], false);
    assert_eq!(driver.calls().len(), 70);
    assert_eq!(driver.connections(), 3);
    // What is said besides is one line, and nothing is drawn where nobody sees it.
    assert!(run.stderr.starts_with("note: run "), "{run}");
    assert_eq!(run.stderr.lines().count(), 1, "{run}");

    // At a rate, and as tables.
    let run = csi.run("bench plugin-info --count 5");
    run.exits(2);
    let run = csi.run("bench get-plugin-info --count 20 --rate 5000");
    let run = run.succeeds();
    for part in ["RPC ", "LATENCY ", "P99.9", "GetPluginInfo UP TO", "█"] {
        assert!(run.stdout.contains(part), "{part}\n{run}");
    }
    assert_eq!(driver.calls().len(), 90);
    let one_line = csi.run("bench i info --count 1 -o jsonl").succeeds();
    assert_eq!(one_line.stdout.lines().count(), 1);
}

#[test]
fn texts_are_filled_in() {
    let driver = driver();
    let csi = Csi::at(driver.endpoint());
    let line = "bench node-publish v-{i%2} w --count 4 --target-path '/mnt/{i}/{{x}}' --pub-context k=w{worker} \
                --timeout 7s -m tenant=blue";
    csi.run(line).succeeds();
    let requests = driver.requests();
    let published: Vec<_> = requests
        .iter()
        .filter(|request| request.method().name == "NodePublishVolume")
        .collect();
    let seen: Vec<_> = published
        .iter()
        .map(|request| {
            let request: v1::NodePublishVolumeRequest = request.decode();
            assert_eq!(request.publish_context["k"], "w0");
            (request.volume_id, request.target_path)
        })
        .collect();
    let expected = [("v-0", "0"), ("w", "1"), ("v-0", "2"), ("w", "3")];
    let expected = expected.map(|(id, number)| (id.to_owned(), format!("/mnt/{number}/{{x}}")));
    assert_eq!(seen, expected);
    assert_eq!(published[0].header("tenant"), Some("blue"));
    assert_eq!(published[0].header("grpc-timeout"), Some("7000000u"));
    assert_eq!(
        published[0].header("content-type"),
        Some("application/grpc")
    );
    // All four are taken back.
    let unpublished: BTreeSet<String> = requests
        .iter()
        .filter(|request| request.method().name == "NodeUnpublishVolume")
        .map(|request| {
            request
                .decode::<v1::NodeUnpublishVolumeRequest>()
                .target_path
        })
        .collect();
    assert_eq!(
        unpublished,
        seen.into_iter().map(|(_, path)| path).collect()
    );

    let line = "bench create-volume {I} --count 1";
    csi.run(line)
        .exits(2)
        .says("{I} stands for nothing: write {i}");
    let line = "bench create-volume {snapshot_id} --count 1";
    csi.run(line).exits(2).says("an earlier step of a cycle");
}

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
fn every_cycle_leaves_nothing_behind() {
    let csi = Csi::new();
    let folder = csi.home().join("embedded");
    for (cycle, rpc) in [
        ("create-delete", "DeleteVolume"),
        ("publish-unpublish", "NodeUnpublishVolume"),
        ("snapshot", "DeleteSnapshot"),
        ("lifecycle", "NodeGetVolumeStats"),
    ] {
        let line = format!(
            "-e embedded:{} bench {cycle} --count 6 --concurrency 2 -o json",
            folder.display()
        );
        let run = csi.run(&line).succeeds();
        let result = run.json();
        for rpc in [rpc, "cycle"] {
            let row = row(&result, rpc);
            assert_eq!(
                (&row["calls"], &row["failed"]),
                (&6.into(), &0.into()),
                "{run}"
            );
        }
        assert_eq!(entries(&folder.join("share")), [""; 0], "{cycle}");
    }
    let left = entries(csi.home());
    assert!(
        left.iter().all(|name| !name.contains("csi-bench")),
        "{left:?}"
    );
}

#[test]
fn a_driver_with_every_step_is_led_through_all_of_them() {
    let driver = super::lifecycle::thorough_driver();
    let csi = Csi::at(driver.endpoint());
    csi.run("bench lifecycle --count 2 --vol-context a=b")
        .succeeds();
    let cycle = [
        "CreateVolume",
        "ControllerPublishVolume",
        "NodeStageVolume",
        "NodePublishVolume",
        "NodeUnpublishVolume",
        "NodeUnstageVolume",
        "ControllerUnpublishVolume",
        "DeleteVolume",
    ];
    let begin = [
        "NodeGetCapabilities",
        "ControllerGetCapabilities",
        "NodeGetInfo",
    ];
    let expected: Vec<_> = begin.iter().chain(&cycle).chain(&cycle).copied().collect();
    assert_eq!(driver.calls(), expected);
    for request in driver.requests() {
        if request.method().name == "ControllerPublishVolume" {
            let request: v1::ControllerPublishVolumeRequest = request.decode();
            assert_eq!(
                (&*request.node_id, &*request.volume_id),
                ("node-1", "vol-7")
            );
            assert_eq!(request.volume_context["a"], "b");
        }
    }
    assert_eq!(entries(csi.home()), [""; 0], "staging folders");

    // The folder to stage in is there, also when what fails is kept.
    let driver = super::lifecycle::thorough_driver();
    driver.answer("NodeStageVolume", |request| {
        let request: v1::NodeStageVolumeRequest = request.decode();
        match Path::new(&request.staging_target_path).is_dir() {
            true => Reply::bytes(Vec::new()),
            false => Reply::error(Code::FailedPrecondition, "no such folder"),
        }
    });
    driver.on("NodePublishVolume", Reply::error(Code::Internal, "on fire"));
    let csi = Csi::at(driver.endpoint());
    csi.run("bench lifecycle --count 2 --keep").exits(64 + 13);
    assert_eq!(calls(&driver, "NodePublishVolume"), 2);
    assert_eq!(calls(&driver, "NodeUnpublishVolume"), 0);

    // Attached and staged once, and taken back in reverse.
    let driver = super::lifecycle::thorough_driver();
    let csi = Csi::at(driver.endpoint());
    csi.run("bench publish-unpublish --count 3").succeeds();
    let names = driver.calls();
    assert_eq!(
        names[3..6],
        ["CreateVolume", "ControllerPublishVolume", "NodeStageVolume"]
    );
    assert_eq!(
        names[names.len() - 3..],
        [
            "NodeUnstageVolume",
            "ControllerUnpublishVolume",
            "DeleteVolume"
        ]
    );
    assert_eq!(calls(&driver, "NodePublishVolume"), 3);
    assert_eq!(calls(&driver, "NodeStageVolume"), 1);
    // Whoever uses it here would lose it.
    let line = "bench publish-unpublish --volume-id vol-7 --count 1";
    csi.run(line)
        .exits(2)
        .says("detached from this node")
        .says("--yes");
    csi.run(&format!("{line} --yes")).succeeds();
}

#[test]
fn a_real_driver_in_a_process_of_its_own() {
    let driver = Driver::with_local_share();
    let csi = Csi::at(&driver.endpoint());
    let line = "bench create-delete --count 20 --concurrency 4 --params server=localhost,share=/share -o json";
    let result = csi.run(line).succeeds().json();
    assert_eq!(row(&result, "cycle")["calls"], 20);
    assert_eq!(entries(&driver.share()), [""; 0]);
}

#[test]
fn a_signal_ends_the_load_and_leaves_nothing() {
    let driver = Driver::with_local_share();
    let csi = Csi::at(&driver.endpoint());
    let line = "bench create-volume '{i}' --duration 1h --concurrency 4 --params server=localhost,share=/share -o json";
    let process = csi.spawn(line);
    let share = driver.share();
    let end = std::time::Instant::now() + PATIENCE;
    while entries(&share).len() < 20 {
        assert!(std::time::Instant::now() < end, "{}", process.so_far());
        std::thread::yield_now();
    }
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
    let driver = driver();
    driver.on_each("CreateVolume", [Reply::never(), created("vol-9")]);
    let csi = Csi::at(driver.endpoint());
    let line = "bench create-volume '{i}' --count 1 --timeout 200ms --req-bytes 1Gi -o json";
    let run = csi.run(line).exits(64 + 4).says("1 of 1 calls failed");
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
fn failures_are_counted_by_code_with_the_driver_s_words() {
    let driver = driver();
    let number = Mutex::new(0);
    driver.answer("GetPluginInfo", move |_| {
        let mut number = number.lock().unwrap();
        *number += 1;
        match *number % 5 {
            1 => Reply::error(Code::Aborted, "busy \x1b[31m"),
            2 => Reply::error(Code::Internal, "größe 100%"),
            3 => Reply::error(Code::Aborted, "still busy"),
            _ => Reply::message(&v1::GetPluginInfoResponse::default()),
        }
    });
    let csi = Csi::at(driver.endpoint());
    let run = csi.run("bench identity plugin-info --count 20");
    let run = run
        .exits(64 + 10)
        .says("error: bench: ABORTED: 12 of 20 calls failed, 8 of them so: busy \\u{1b}[31m");
    let run = run.says("--max-errors says how many may fail; it was 0");
    for line in [
        "ABORTED   8      GetPluginInfo  busy \\u{1b}[31m",
        "INTERNAL  4      GetPluginInfo  größe 100%",
    ] {
        assert!(run.stdout.contains(line), "{line}\n{run}");
    }
    for allowed in ["12", "60%"] {
        csi.run(&format!(
            "bench identity plugin-info --count 20 --max-errors {allowed}"
        ))
        .succeeds();
    }
    for allowed in ["11", "59.9%"] {
        csi.run(&format!(
            "bench identity plugin-info --count 20 --max-errors {allowed}"
        ))
        .exits(64 + 10);
    }
    // A driver that is not there at all is no load.
    Csi::at("/nowhere/csi.sock")
        .run("bench identity probe --count 1")
        .exits(64 + 14)
        .says("no connection to /nowhere/csi.sock");
}

#[test]
fn a_connection_that_is_lost_is_made_again() {
    let driver = driver();
    let ok = || Reply::message(&v1::GetPluginInfoResponse::default());
    driver.on_each("GetPluginInfo", [ok(), Reply::disconnect(), ok()]);
    let csi = Csi::at(driver.endpoint());
    let line = "bench identity plugin-info --count 10 --max-errors 1 -o json";
    let result = csi.run(line).succeeds().json();
    let error = &result["drivers"][0]["errors"][0];
    assert_eq!(
        (&error["code"], &error["calls"]),
        (&"UNAVAILABLE".into(), &1.into()),
        "{result}"
    );
    assert_eq!(driver.connections(), 2);
}

/// Latencies are what the driver's pause makes them at least; nothing is said of how long they are at most.
#[test]
fn at_a_fixed_rate_a_stall_is_seen_by_every_call_that_was_due() {
    let driver = driver();
    let ok = || Reply::message(&v1::GetPluginInfoResponse::default());
    driver.on_each(
        "GetPluginInfo",
        [ok().after(Duration::from_millis(600)), ok()],
    );
    let csi = Csi::at(driver.endpoint());
    // The last of them is due after 190 ms.
    let line = "bench identity plugin-info --rate 100 --count 20 --concurrency 1 -o json";
    let result = csi.run(line).succeeds().json();
    let row = row(&result, "GetPluginInfo");
    assert_eq!(row["calls"], 20);
    let shortest = row["latencySeconds"]["min"].as_f64().unwrap();
    assert!(shortest >= 0.4, "{shortest}");

    // What could not even begin is said.
    driver.on(
        "GetPluginInfo",
        Reply::message(&v1::GetPluginInfoResponse::default()).after(Duration::from_millis(400)),
    );
    let line = "bench identity plugin-info --rate 100 --duration 300ms --concurrency 1";
    let run = csi.run(line).succeeds();
    let told = run
        .stdout
        .contains("29 calls were due and never begun: all 1 workers waited");
    assert!(told, "{run}");
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
        .says("2 things that this run made could not be taken back");
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
    let run = run.says("left: perhaps a volume: csi -e ");
    let run = run.says("controller create-volume --request '{\"name\":\"csi-bench-");
    run.says(" tells its id, csi -e ");
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
    let driver = super::lifecycle::thorough_driver();
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
                _ => Reply::bytes(Vec::new()),
            }
        }
    });
    let csi = Csi::at(driver.endpoint());
    let process = csi.spawn("bench lifecycle --rate 20 --duration 1h --max-errors 1 -o json");
    let end = std::time::Instant::now() + PATIENCE;
    let first = loop {
        assert!(std::time::Instant::now() < end, "{}", process.so_far());
        std::thread::yield_now();
        let first = failed.lock().unwrap().clone();
        if let Some(first) = first.filter(|first| volumes(&driver).1.contains(first)) {
            break first;
        }
    };
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
fn a_driver_that_is_frozen_holds_the_clean_up_for_so_long_and_the_commands_are_said() {
    let driver = driver();
    driver.on("DeleteVolume", Reply::never());
    let csi = Csi::at(driver.endpoint());
    let run = csi.run("bench create-volume '{i}' --count 3 --cleanup-timeout 300ms");
    let run = run
        .exits(1)
        .says("nothing could be taken back at unix://")
        .says(" for 300ms\n")
        .says("3 things that this run made could not be taken back");
    driver.on("DeleteVolume", Reply::bytes(Vec::new()));
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
fn what_could_hurt_is_refused() {
    let driver = driver();
    let csi = Csi::at(driver.endpoint());
    for (line, said) in [
        ("controller delete-volume pvc-1", "say --yes"),
        ("controller delete-volume 'pvc-{i}'", "say --yes"),
        ("node unpublish v --target-path '/mnt/{i}'", "say --yes"),
        ("controller expand-volume v --req-bytes 2Gi", "say --yes"),
        (
            "node-publish v --target-path /mnt/v",
            "Put {run} or {i} into --target-path",
        ),
        (
            "node-stage v --staging-target-path /mnt/v",
            "into --staging-target-path",
        ),
        ("controller-publish v --node-id n", "detached at the end"),
        ("list-volumes --all", "--all has no meaning here"),
        (
            "get-plugin-info --columns NAME",
            "--columns has no meaning here",
        ),
        ("get-plugin-info -o name", "-o name has no meaning here"),
        (
            "get-plugin-info --with-spec-validation",
            "has no meaning here",
        ),
        ("create-delete --volume-id v", "creates its volumes"),
        ("get-plugin-info --turns 3", "--compare"),
        ("get-plugin-info --concurrency 0", "1..=10000"),
    ] {
        let refused = csi.run(&format!("bench {line} --count 1")).exits(2);
        refused.says(said);
    }
    let names = driver.calls();
    let asked = ["NodeGetCapabilities", "ControllerGetCapabilities"];
    assert!(
        names.iter().all(|name| asked.contains(&&**name)),
        "{names:?}"
    );
    csi.run("bench controller delete-volume pvc-1 --yes --count 2")
        .succeeds();
    assert_eq!(calls(&driver, "DeleteVolume"), 2);
    csi.run("bench node-publish v --target-path /mnt/v --keep --count 1")
        .succeeds();
    assert_eq!(calls(&driver, "NodeUnpublishVolume"), 0);
    let shown = csi
        .run("bench create-volume 'x-{i}' --count 5 --dry-run")
        .succeeds();
    assert_eq!(shown.json()["name"], "x-{i}");
}

#[test]
fn two_drivers_take_turns_and_are_compared() {
    let (a, b) = (driver(), driver());
    let order = Arc::new(Mutex::new(String::new()));
    for (driver, letter) in [(&a, 'A'), (&b, 'B')] {
        let order = Arc::clone(&order);
        driver.answer("GetPluginInfo", move |_| {
            order.lock().unwrap().push(letter);
            Reply::message(&v1::GetPluginInfoResponse::default())
        });
    }
    let csi = Csi::at(a.endpoint());
    let line = format!(
        "bench identity plugin-info --compare {} --count 8 --turns 4",
        b.endpoint()
    );
    let result = csi.run(&format!("{line} -o json")).succeeds().json();
    assert_eq!(*order.lock().unwrap(), "AABBBBAAAABBBBAA");
    for side in 0..2 {
        assert_eq!(result["drivers"][side]["rpcs"][0]["calls"], 8);
    }
    assert_eq!(result["drivers"][1]["endpoint"], b.endpoint());
    let ratios = result["ratios"].as_array().unwrap();
    let measures: Vec<_> = ratios
        .iter()
        .map(|ratio| ratio["measure"].as_str().unwrap())
        .collect();
    assert_eq!(measures, ["per second", "mean", "p50", "p99"]);
    for ratio in ratios {
        let of = |name: &str| ratio[name].as_f64().unwrap();
        assert!(
            of("lowest") <= of("ratio") && of("ratio") <= of("highest"),
            "{ratio}"
        );
        assert_eq!(ratio["pairs"], 4);
    }
    let tables = csi.run(&line).succeeds().stdout;
    for part in ["A: unix://", "B: unix://", "B TO A ", "LOWEST", "B IS", "×"] {
        assert!(tables.contains(part), "{part}\n{tables}");
    }
}

#[test]
fn on_a_terminal_the_load_is_seen_while_it_runs() {
    let driver = driver();
    let csi = Csi::at(driver.endpoint());
    let mut command = csi.command();
    command.env("TERM", "xterm");
    command.args([
        "bench",
        "identity",
        "plugin-info",
        "--duration",
        "1h",
        "--concurrency",
        "2",
    ]);
    let mut terminal = Terminal::start(&command, 80, 24);
    terminal.expect(" calls, ");
    terminal.expect("/s, 0 failed, ");
    terminal.press("\x03");
    terminal.expect("note: stopping");
    terminal.expect("LATENCY ");
    assert_eq!(terminal.ends().code(), Some(130));
}

#[test]
fn the_shell_runs_loads_too() {
    let driver = driver();
    let csi = Csi::at(driver.endpoint());
    let run: Output = csi.run_args([
        "shell",
        "-c",
        "bench identity plugin-info --count 3 -o json",
    ]);
    let result = run.succeeds().json();
    assert_eq!(row(&result, "GetPluginInfo")["calls"], 3);
}
