//! `csi wait`: how the waiting ends, and what it is refused for.

use crate::support::PATIENCE;
use crate::support::patience::up_to_a_limit;
use crate::support::program::Csi;
use crate::support::scripted::{Reply, ScriptedDriver};
use csi_proto::duration;
use csi_proto::v1::controller_get_volume_response::VolumeStatus;
use csi_proto::v1::controller_service_capability::{self, Rpc, rpc::Type};
use csi_proto::v1::list_volumes_response::Entry;
use csi_proto::v1::{
    ControllerGetCapabilitiesResponse, ControllerGetVolumeRequest, ControllerGetVolumeResponse,
    ControllerServiceCapability, GetSnapshotResponse, ListVolumesResponse, Snapshot, Volume,
    VolumeCondition,
};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tonic::Code;

fn capability(one: Type) -> ControllerServiceCapability {
    ControllerServiceCapability {
        r#type: Some(controller_service_capability::Type::Rpc(Rpc {
            r#type: one.into(),
        })),
    }
}

fn driver(capabilities: &[Type]) -> ScriptedDriver {
    let reply = ControllerGetCapabilitiesResponse {
        capabilities: capabilities.iter().copied().map(capability).collect(),
    };
    let driver = ScriptedDriver::unix();
    driver.on("ControllerGetCapabilities", Reply::message(&reply));
    driver
}

fn volume(abnormal: bool) -> Reply {
    let condition = VolumeCondition {
        abnormal,
        message: "the folder is missing".into(),
    };
    Reply::message(&ControllerGetVolumeResponse {
        volume: Some(Volume {
            volume_id: "vol-1".into(),
            ..Default::default()
        }),
        status: Some(VolumeStatus {
            volume_condition: Some(condition),
            ..Default::default()
        }),
    })
}

#[test]
fn waiting_ends_when_it_is_so() {
    let driver = driver(&[Type::GetVolume, Type::VolumeCondition, Type::GetSnapshot]);
    let csi = Csi::at(driver.endpoint());
    driver.on("ControllerGetVolume", volume(true));
    // Without --for it is ready that is waited for.
    csi.run("wait volume vol-1")
        .succeeds()
        .prints("volume vol-1 is ready\n");
    csi.run("wait volume vol-1 --for abnormal")
        .succeeds()
        .prints("volume vol-1 is abnormal\n");
    let healthy = csi.spawn("wait volume vol-1 --for healthy -o json");
    // The capabilities, and a volume, three times; then it is asked for again.
    driver.wait_for_requests(7);
    driver.on("ControllerGetVolume", volume(false));
    let ended = healthy
        .wait(PATIENCE)
        .unwrap_or_else(|so_far| panic!("{so_far}"));
    assert_eq!(ended.code(), 0);
    let said = String::from_utf8_lossy(&ended.stdout).into_owned();
    assert_eq!(
        said,
        "{\"kind\":\"volume\",\"id\":\"vol-1\",\"condition\":\"healthy\"}\n"
    );
    // A driver that restarts has not failed.
    let unavailable = Reply::error(Code::Unavailable, "restarting");
    let gone = Reply::error(Code::NotFound, "no such volume");
    driver.on_each("ControllerGetVolume", [volume(false), unavailable, gone]);
    csi.run("wait volume vol-1 --for gone")
        .succeeds()
        .prints("volume vol-1 is gone\n");
    let snapshot = |ready_to_use| {
        let snapshot = Snapshot {
            snapshot_id: "snap-1".into(),
            ready_to_use,
            ..Default::default()
        };
        Reply::message(&GetSnapshotResponse {
            snapshot: Some(snapshot),
        })
    };
    driver.on_each("GetSnapshot", [snapshot(false), snapshot(true)]);
    csi.run("wait snapshot snap-1 --for ready").succeeds();
}

#[test]
fn a_driver_that_only_lists_is_asked_for_all_pages() {
    let driver = driver(&[Type::ListVolumes]);
    let page = |id: &str, next: &str| {
        let volume = Volume {
            volume_id: id.into(),
            ..Default::default()
        };
        Reply::message(&ListVolumesResponse {
            entries: vec![Entry {
                volume: Some(volume),
                status: None,
            }],
            next_token: next.into(),
        })
    };
    driver.on_each("ListVolumes", [page("other", "2"), page("vol-1", "")]);
    let csi = Csi::at(driver.endpoint());
    csi.run("wait volume vol-1 --for ready").succeeds();
    csi.run("wait volume nobody --for gone").succeeds();
    csi.run("wait volume nobody --for ready")
        .exits(64 + 5)
        .says("there is no such volume");
}

#[test]
fn waiting_in_vain_and_for_what_cannot_be_known_has_codes_of_its_own() {
    let waiting = driver(&[Type::GetVolume, Type::VolumeCondition]);
    waiting.on("ControllerGetVolume", volume(true));
    let csi = Csi::at(waiting.endpoint());
    up_to_a_limit("what the driver says is told", |limit| {
        let waited = csi.run(&format!(
            "wait volume vol-1 --for healthy --timeout {limit}"
        ));
        let waited = waited
            .exits(64 + 4)
            .says("DEADLINE_EXCEEDED: not healthy within");
        let told = waited.stderr.contains("abnormal: the folder is missing");
        told.then_some(())
    });
    csi.run("wait snapshot snap-1 --for ready")
        .exits(64 + 12)
        .says("the driver does not advertise GET_SNAPSHOT or LIST_SNAPSHOTS");
    csi.run("wait snapshot snap-1 --for healthy")
        .exits(2)
        .says("only volumes are healthy");
    let without = driver(&[Type::GetVolume]);
    let csi = Csi::at(without.endpoint());
    csi.run("wait volume vol-1 --for healthy")
        .exits(64 + 12)
        .says("the driver does not advertise VOLUME_CONDITION");
}

#[test]
fn a_driver_that_has_every_volume_is_asked_for_its_list() {
    let credulous = driver(&[Type::GetVolume, Type::ListVolumes]);
    credulous.on("ControllerGetVolume", volume(false));
    credulous.on(
        "ListVolumes",
        Reply::message(&ListVolumesResponse::default()),
    );
    let csi = Csi::at(credulous.endpoint());
    csi.run("wait volume vol-1 --for gone --timeout 10m")
        .succeeds()
        .prints("volume vol-1 is gone\n");
    csi.run("wait volume vol-1 --for ready")
        .exits(64 + 5)
        .says("there is no such volume");
    // One that knows its volumes is not asked for all of them.
    let knowing = driver(&[Type::GetVolume, Type::ListVolumes]);
    knowing.answer("ControllerGetVolume", |request| {
        let request: ControllerGetVolumeRequest = request.decode();
        match request.volume_id == "vol-1" {
            true => volume(false),
            false => Reply::error(Code::NotFound, "no such volume"),
        }
    });
    Csi::at(knowing.endpoint())
        .run("wait volume vol-1 --for ready")
        .succeeds();
    let calls = knowing.calls();
    assert!(calls.iter().all(|call| call != "ListVolumes"), "{calls:?}");
}

#[test]
fn what_may_pass_is_asked_again_from_the_first_call_on() {
    let busy = || Reply::error(Code::Aborted, "busy with it");
    let driver = driver(&[Type::GetVolume, Type::ListVolumes]);
    let capabilities = [Type::GetVolume, Type::ListVolumes].map(capability);
    let capabilities = ControllerGetCapabilitiesResponse {
        capabilities: capabilities.into(),
    };
    driver.on_each(
        "ControllerGetCapabilities",
        [
            Reply::error(Code::Unavailable, "restarting"),
            Reply::message(&capabilities),
        ],
    );
    // It has every volume, and is busy when it is asked for one that nobody has.
    let tried = AtomicBool::new(false);
    driver.answer("ControllerGetVolume", move |request| {
        let request: ControllerGetVolumeRequest = request.decode();
        match request.volume_id == "vol-1" || tried.swap(true, Ordering::Relaxed) {
            true => volume(false),
            false => busy(),
        }
    });
    driver.on(
        "ListVolumes",
        Reply::message(&ListVolumesResponse::default()),
    );
    Csi::at(driver.endpoint())
        .run("wait volume vol-1 --for gone --timeout 10m")
        .succeeds()
        .prints("volume vol-1 is gone\n");
    // The time is for all of it, and what was waited for is said.
    driver.on("ControllerGetCapabilities", Reply::never());
    Csi::at(driver.endpoint())
        .run("wait volume vol-1 --for gone --timeout 300ms")
        .exits(64 + 4)
        .says("not gone within 300ms: ");
}

#[test]
fn a_list_without_an_end_says_of_no_volume_that_it_is_gone() {
    let endless = driver(&[Type::ListVolumes]);
    let page = ListVolumesResponse {
        next_token: "again".into(),
        ..Default::default()
    };
    endless.on("ListVolumes", Reply::message(&page));
    Csi::at(endless.endpoint())
        .run("wait volume vol-1 --for gone")
        .exits(64 + 13)
        .says("its list has no end");
}

#[test]
fn waiting_lasts_to_its_deadline() {
    let stays = driver(&[Type::GetVolume]);
    stays.on("ControllerGetVolume", volume(false));
    up_to_a_limit("the driver says that it has it", |limit| {
        let began = Instant::now();
        let waited = Csi::at(stays.endpoint())
            .run(&format!("wait volume vol-1 --for gone --timeout {limit}"))
            .exits(64 + 4);
        assert!(began.elapsed() >= duration::parse(limit).unwrap());
        let told = format!("not gone within {limit}: the driver still has it");
        waited.stderr.contains(&told).then_some(())
    });
    let began = Instant::now();
    Csi::at("unix:nowhere.sock")
        .run("--wait 1s identity probe")
        .exits(64 + 14)
        .says("waiting 1s for the driver");
    assert!(began.elapsed() >= Duration::from_secs(1));
}
