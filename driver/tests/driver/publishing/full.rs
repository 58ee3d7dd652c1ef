//! What frees something needs no free space: a node evicts pods because its disk is full, and volumes are deleted because
//! their share is.

use super::{code, make_volume};
use crate::rig::{Client, Driver, Rig, publish_request, run, stage_request};
use csi_proto::v1::volume_capability::access_mode::Mode;
use csi_proto::v1::*;
use std::path::Path;
use tonic::{Code, Status};

/// A disk on `folder` that has room for some files, or some bytes.
fn small_disk(rig: &Rig, folder: &str, options: &str) {
    let mut mount = rig.command("mount");
    mount
        .args(["-t", "tmpfs", "-o", options, "none"])
        .arg(rig.path(folder));
    assert!(run(&mut mount).0.success());
}

/// Fills the disk of `folder` until not even an empty file has room, or no byte.
fn fill(folder: &Path, options: &str) {
    let is_of_bytes = options.contains("size");
    let mut full = false;
    for index in 0..10_000 {
        let path = folder.join(format!("filler-{index}"));
        let size = if is_of_bytes { 4096 } else { 0 };
        full = std::fs::write(path, vec![1; size]).is_err();
        if full {
            break;
        }
    }
    assert!(full, "the disk is not full");
}

const SIZES: [&str; 2] = ["mode=0700,size=256k", "mode=0700,nr_inodes=60"];

async fn probe(client: &Client) -> Result<ProbeResponse, Status> {
    client.call(ProbeRequest::default()).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_full_work_folder_keeps_no_volume() {
    for size in SIZES {
        let rig = Rig::new();
        std::fs::create_dir(rig.path("work")).unwrap();
        small_disk(&rig, "work", size);
        for name in ["staged", "again"] {
            make_volume(&rig, name);
            std::fs::create_dir(rig.path(&format!("{name}-at"))).unwrap();
        }
        let staging = |name: &str| rig.path(&format!("{name}-at"));
        let driver = rig.driver_with(&["--stage"]);
        let client = Client::connect(&rig).await;
        let requests = ["staged", "again"].map(|name| {
            let target = rig.path(&format!("{name}-target"));
            let mut publish = publish_request(name, &target, Mode::MultiNodeMultiWriter);
            (stage_request(&mut publish, &staging(name)), publish)
        });
        for (stage, publish) in &requests {
            client.stage(stage.clone()).await.unwrap();
            client.publish(publish.clone()).await.unwrap();
        }
        let work = rig.inside("work");
        fill(&work, size);
        let names = |folder: &str| {
            let entries = std::fs::read_dir(work.join(folder)).unwrap();
            entries.count()
        };
        let before = names("publishes");
        let (_, mut third) = requests[0].clone();
        third.target_path = rig.path("third").display().to_string();
        let refused = client.publish(third).await.unwrap_err();
        assert!(refused.message().contains("No space"), "{refused}");
        assert_eq!(names("publishes"), before, "a draft is left");
        // A repeat asks for nothing new.
        client.publish(requests[1].1.clone()).await.unwrap();
        probe(&client).await.unwrap();
        let free = async |client: &Client, name: &str| {
            let target = rig.path(&format!("{name}-target"));
            client.unpublish(name, &target).await.unwrap();
            fill(&work, size);
            client.unstage(name, &staging(name)).await.unwrap();
            assert!(rig.mounts(&format!("{name}-at")).is_empty());
            fill(&work, size);
        };
        free(&client, "staged").await;
        driver.kill();
        let _driver: Driver = rig.driver_with(&["--stage"]);
        free(&Client::connect(&rig).await, "again").await;
        assert_eq!((names("publishes"), names("stages")), (0, 0));
    }
}

/// As after an error of its disk. What is gone is gone, though its record stays, and a record of nothing is in nobody's way.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_work_folder_that_has_become_read_only_keeps_no_volume() {
    let rig = Rig::new();
    std::fs::create_dir(rig.path("work")).unwrap();
    small_disk(&rig, "work", "mode=0700");
    make_volume(&rig, "a");
    std::fs::create_dir(rig.path("staging")).unwrap();
    let _driver = rig.driver_with(&["--stage"]);
    let client = Client::connect(&rig).await;
    let (staging, target) = (rig.path("staging"), rig.path("target"));
    let mut publish = publish_request("a", &target, Mode::SingleNodeWriter);
    let stage = stage_request(&mut publish, &staging);
    let mut elsewhere = publish.clone();
    elsewhere.target_path = rig.path("elsewhere").display().to_string();
    let remount = |how: &str| {
        let mut mount = rig.command("mount");
        let mount = mount.args(["-o", &format!("remount,{how}")]);
        assert!(run(mount.arg(rig.path("work"))).0.success());
    };
    client.stage(stage.clone()).await.unwrap();
    client.publish(publish.clone()).await.unwrap();
    remount("ro");
    client.publish(publish.clone()).await.unwrap();
    for _ in 0..2 {
        client.unpublish("a", &target).await.unwrap();
        assert!(rig.mounts("target").is_empty() && !target.exists());
    }
    assert_eq!(code(client.publish(publish).await), Code::Internal);
    let ready = probe(&client).await.map(drop);
    assert_eq!(code(ready), Code::FailedPrecondition);
    for _ in 0..2 {
        client.unstage("a", &staging).await.unwrap();
        assert!(rig.mounts("staging").is_empty());
    }
    remount("rw");
    client.stage(stage).await.unwrap();
    client.publish(elsewhere).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_full_share_gives_its_volumes_back() {
    for size in SIZES {
        let rig = Rig::new();
        small_disk(&rig, "export", size);
        let driver = rig.driver();
        let client = Client::connect(&rig).await;
        let policies = ["delete", "archive", "retain", "delete"];
        let mut volumes = Vec::new();
        for (index, policy) in policies.into_iter().enumerate() {
            let capability = publish_request("x", Path::new("/x"), Mode::SingleNodeWriter);
            let request = CreateVolumeRequest {
                name: format!("v{index}"),
                volume_capabilities: capability.volume_capability.into_iter().collect(),
                parameters: [("onDelete".to_owned(), policy.to_owned())].into(),
                ..Default::default()
            };
            let made: CreateVolumeResponse = client.call(request).await.unwrap();
            std::fs::write(rig.inside(&format!("export/v{index}/file")), "x").unwrap();
            volumes.push(made.volume.unwrap().volume_id);
        }
        let request = CreateSnapshotRequest {
            name: "s".to_owned(),
            source_volume_id: volumes[0].clone(),
            ..Default::default()
        };
        let made: CreateSnapshotResponse = client.call(request).await.unwrap();
        let snapshot = made.snapshot.unwrap().snapshot_id;
        let export = rig.inside("export");
        let mut client = client;
        let mut driver = driver;
        for (index, volume) in volumes.iter().enumerate() {
            fill(&export, size);
            let request = DeleteVolumeRequest {
                volume_id: volume.clone(),
                ..Default::default()
            };
            let reply: Result<DeleteVolumeResponse, _> = client.call(request).await;
            assert_eq!(code(reply.map(drop)), Code::Ok, "{size} {index}");
            if index == 1 {
                // The next one finds the share full at its first use.
                fill(&export, size);
                driver.kill();
                driver = rig.driver();
                client = Client::connect(&rig).await;
            }
        }
        fill(&export, size);
        let request = DeleteSnapshotRequest {
            snapshot_id: snapshot,
            ..Default::default()
        };
        let reply: Result<DeleteSnapshotResponse, _> = client.call(request).await;
        assert_eq!(code(reply.map(drop)), Code::Ok, "{size}");
        assert!(rig.inside("export/v2/file").exists(), "retained");
        drop(driver);
    }
}
