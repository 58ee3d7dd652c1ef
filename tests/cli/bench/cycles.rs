//! The named cycles: their steps, and that they leave nothing.

use super::{calls, entries, row};
use crate::support::driver::Driver;
use crate::support::program::Csi;
use crate::support::scripted::Reply;
use csi_proto::v1;
use std::path::Path;
use tonic::Code;

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
    let driver = crate::lifecycle::thorough_driver();
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
    let driver = crate::lifecycle::thorough_driver();
    driver.answer("NodeStageVolume", |request| {
        let request: v1::NodeStageVolumeRequest = request.decode();
        match Path::new(&request.staging_target_path).is_dir() {
            true => Reply::json("{}"),
            false => Reply::error(Code::FailedPrecondition, "no such folder"),
        }
    });
    driver.on("NodePublishVolume", Reply::error(Code::Internal, "on fire"));
    let csi = Csi::at(driver.endpoint());
    csi.run("bench lifecycle --count 2 --keep").exits(64 + 13);
    assert_eq!(calls(&driver, "NodePublishVolume"), 2);
    assert_eq!(calls(&driver, "NodeUnpublishVolume"), 0);

    // Attached and staged once, and taken back in reverse.
    let driver = crate::lifecycle::thorough_driver();
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
