//! `csi bench`: what is sent, and what is refused; and what its tests share. The rest stands by subject beneath.

mod counted;
mod cycles;
mod taken_back;

use crate::support::program::{Csi, Output};
use crate::support::scripted::{Reply, ScriptedDriver};
use csi_proto::v1;
use serde_json::Value as Json;
use serde_json::json;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// A driver that answers what reads, and whose volumes are named as they are asked for.
fn driver() -> ScriptedDriver {
    let driver = ScriptedDriver::unix();
    driver.on("GetPluginInfo", r#"{"name": "scripted.csi.example"}"#);
    driver.answer("CreateVolume", |request| {
        let request: v1::CreateVolumeRequest = request.decode();
        created(&format!("id-{}", request.name))
    });
    for rpc in ["DeleteVolume", "NodePublishVolume", "NodeUnpublishVolume"] {
        driver.on(rpc, "{}");
    }
    driver
}

fn created(id: &str) -> Reply {
    Reply::json(json!({"volume": {"volumeId": id, "volumeContext": {"of": id}}}))
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
    for load in ["identity probe", "create-delete"] {
        let line = format!("bench {load} --count 1 --volume-request {{}}");
        csi.run(&line)
            .exits(2)
            .says("--volume-request has no effect here");
    }
}

#[test]
fn a_connection_that_is_lost_is_made_again() {
    let driver = driver();
    let ok = || Reply::json("{}");
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
        ("get-plugin-info -o wide", "-o wide has no meaning here"),
        (
            "create-delete -o csc",
            "the formats here are table, json, jsonl",
        ),
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
