//! `csi wait`: how the waiting ends, and what it is refused for.

use crate::support::PATIENCE;
use crate::support::patience::up_to_a_limit;
use crate::support::program::Csi;
use crate::support::scripted::{Reply, ScriptedDriver};
use csi_proto::duration;
use csi_proto::v1::ControllerGetVolumeRequest;
use serde_json::json;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tonic::Code;

fn driver(capabilities: &str) -> ScriptedDriver {
    let driver = ScriptedDriver::unix();
    let capabilities = Reply::capabilities(capabilities);
    driver.on("ControllerGetCapabilities", capabilities);
    driver
}

fn volume(abnormal: bool) -> Reply {
    let condition = json!({"abnormal": abnormal, "message": "the folder is missing"});
    let volume = json!({"volumeId": "vol-1"});
    Reply::json(json!({"volume": volume, "status": {"volumeCondition": condition}}))
}

#[test]
fn waiting_ends_when_it_is_so() {
    let driver = driver("GET_VOLUME VOLUME_CONDITION GET_SNAPSHOT");
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
    let snapshot = |ready: bool| json!({"snapshot": {"snapshotId": "snap-1", "readyToUse": ready}});
    driver.on_each("GetSnapshot", [snapshot(false), snapshot(true)]);
    csi.run("wait snapshot snap-1 --for ready").succeeds();
}

#[test]
fn a_driver_that_only_lists_is_asked_for_all_pages() {
    let driver = driver("LIST_VOLUMES");
    let pages = [Reply::volumes(["other"], 2), Reply::volumes(["vol-1"], "")];
    driver.on_each("ListVolumes", pages);
    let csi = Csi::at(driver.endpoint());
    csi.run("wait volume vol-1 --for ready").succeeds();
    csi.run("wait volume nobody --for gone").succeeds();
    csi.run("wait volume nobody --for ready")
        .exits(64 + 5)
        .says("there is no such volume");
}

#[test]
fn waiting_in_vain_and_for_what_cannot_be_known_has_codes_of_its_own() {
    let waiting = driver("GET_VOLUME VOLUME_CONDITION");
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
    let without = driver("GET_VOLUME");
    let csi = Csi::at(without.endpoint());
    csi.run("wait volume vol-1 --for healthy")
        .exits(64 + 12)
        .says("the driver does not advertise VOLUME_CONDITION");
}

#[test]
fn a_driver_that_has_every_volume_is_asked_for_its_list() {
    let credulous = driver("GET_VOLUME LIST_VOLUMES");
    credulous.on("ControllerGetVolume", volume(false));
    credulous.on("ListVolumes", "{}");
    let csi = Csi::at(credulous.endpoint());
    csi.run("wait volume vol-1 --for gone --timeout 10m")
        .succeeds()
        .prints("volume vol-1 is gone\n");
    csi.run("wait volume vol-1 --for ready")
        .exits(64 + 5)
        .says("there is no such volume");
    // One that knows its volumes is not asked for all of them.
    let knowing = driver("GET_VOLUME LIST_VOLUMES");
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
    let driver = driver("GET_VOLUME LIST_VOLUMES");
    driver.on_each(
        "ControllerGetCapabilities",
        [
            Reply::error(Code::Unavailable, "restarting"),
            Reply::capabilities("GET_VOLUME LIST_VOLUMES"),
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
    driver.on("ListVolumes", "{}");
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
    let endless = driver("LIST_VOLUMES");
    endless.on("ListVolumes", r#"{"nextToken": "again"}"#);
    Csi::at(endless.endpoint())
        .run("wait volume vol-1 --for gone")
        .exits(64 + 13)
        .says("its list has no end");
}

#[test]
fn waiting_lasts_to_its_deadline() {
    let stays = driver("GET_VOLUME");
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
