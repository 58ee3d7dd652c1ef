//! `csi lifecycle`: embedded, as whoever runs the tests, and against drivers that fail on the way.

use crate::support::program::Csi;
use crate::support::scripted::{Reply, ScriptedDriver};
use csi_proto::v1::controller_service_capability::{Rpc, Type, rpc};
use csi_proto::v1::{
    ControllerGetCapabilitiesResponse, ControllerServiceCapability, CreateVolumeResponse,
    DeleteVolumeResponse, GetPluginCapabilitiesResponse, GetPluginInfoResponse,
    NodeGetCapabilitiesResponse, NodeGetInfoResponse, NodeUnpublishVolumeResponse,
    PluginCapability, ProbeResponse, Volume, plugin_capability,
};
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

/// A driver that has a controller and a node without staging, and that publishes nothing.
fn failing() -> ScriptedDriver {
    let driver = ScriptedDriver::unix();
    let service = plugin_capability::Service {
        r#type: plugin_capability::service::Type::ControllerService.into(),
    };
    let create = Rpc {
        r#type: rpc::Type::CreateDeleteVolume.into(),
    };
    driver
        .on(
            "GetPluginInfo",
            Reply::message(&GetPluginInfoResponse {
                name: "half".into(),
                ..Default::default()
            }),
        )
        .on(
            "GetPluginCapabilities",
            Reply::message(&GetPluginCapabilitiesResponse {
                capabilities: vec![PluginCapability {
                    r#type: Some(plugin_capability::Type::Service(service)),
                }],
            }),
        )
        .on("Probe", Reply::message(&ProbeResponse::default()))
        .on(
            "ControllerGetCapabilities",
            Reply::message(&ControllerGetCapabilitiesResponse {
                capabilities: vec![ControllerServiceCapability {
                    r#type: Some(Type::Rpc(create)),
                }],
            }),
        )
        .on(
            "NodeGetCapabilities",
            Reply::message(&NodeGetCapabilitiesResponse::default()),
        )
        .on(
            "NodeGetInfo",
            Reply::message(&NodeGetInfoResponse {
                node_id: "n".into(),
                ..Default::default()
            }),
        )
        .on(
            "CreateVolume",
            Reply::message(&CreateVolumeResponse {
                volume: Some(Volume {
                    volume_id: "vol-7".into(),
                    ..Volume::default()
                }),
            }),
        )
        .on(
            "NodePublishVolume",
            Reply::error(Code::Internal, "the mount failed"),
        )
        .on(
            "NodeUnpublishVolume",
            Reply::message(&NodeUnpublishVolumeResponse {}),
        )
        .on("DeleteVolume", Reply::message(&DeleteVolumeResponse {}));
    driver
}

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
fn says_what_it_could_not_undo() {
    let driver = failing();
    driver.on(
        "DeleteVolume",
        Reply::error(Code::Unavailable, "the array is on fire"),
    );
    Csi::at(driver.endpoint())
        .run("lifecycle")
        .exits(64 + 13)
        .says("vol-7")
        .says("the array is on fire");
}

#[test]
fn cleans_up_after_ctrl_c() {
    let driver = failing();
    driver.on("NodePublishVolume", Reply::never());
    let csi = Csi::at(driver.endpoint());
    let process = csi.spawn("lifecycle");
    driver.wait_for_call("NodePublishVolume");
    process.signal(rustix::process::Signal::INT);
    let ended = process.wait(crate::support::PATIENCE).unwrap();
    assert_eq!(ended.code(), 130);
    assert!(
        driver.calls().contains(&"DeleteVolume".to_owned()),
        "{:?}",
        driver.calls()
    );
}
