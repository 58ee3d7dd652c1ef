//! What is remembered and what is not: records on the share, the work folder, and what others have mounted.

use super::{code, stats};
use crate::rig::{Client, Rig, publish_request, run, stage_request};
use csi_proto::v1::volume_capability::access_mode::Mode;
use csi_proto::v1::{
    CreateVolumeRequest, DeleteVolumeRequest, ListVolumesRequest, NodePublishVolumeRequest,
};
use rustix::fs::{CWD, mkfifoat};
use std::path::PathBuf;
use tonic::{Code, Status};

/// What an orchestrator does with a volume, from nothing to nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_created_volume_is_published_and_deleted() {
    let rig = Rig::new();
    let _driver = rig.driver();
    let client = Client::connect(&rig).await;
    let target = rig.path("target");
    let mut publish = publish_request("", &target, Mode::SingleNodeWriter);
    let volume = create(&client, "pvc/1").await;
    publish.volume_id = volume.volume_id.clone();
    publish.volume_context = volume.volume_context;
    client.publish(publish).await.unwrap();
    std::fs::write(rig.inside("target/file"), "x").unwrap();
    assert!(stats(&client, &volume.volume_id, &target).await.is_ok());
    client.unpublish(&volume.volume_id, &target).await.unwrap();
    let delete = DeleteVolumeRequest {
        volume_id: volume.volume_id,
        ..Default::default()
    };
    client.call(delete).await.unwrap();
    let list = client.call(ListVolumesRequest::default()).await.unwrap();
    assert!(list.entries.is_empty());
}

async fn create(client: &Client, name: &str) -> csi_proto::v1::Volume {
    try_create(client, name).await.unwrap()
}

async fn try_create(client: &Client, name: &str) -> Result<csi_proto::v1::Volume, Status> {
    let publish = publish_request("", std::path::Path::new("/"), Mode::SingleNodeWriter);
    let create = CreateVolumeRequest {
        name: name.to_owned(),
        volume_capabilities: publish.volume_capability.into_iter().collect(),
        parameters: [
            ("server".to_owned(), "server".to_owned()),
            ("share".to_owned(), "/".to_owned()),
        ]
        .into(),
        ..Default::default()
    };
    let created = client.call(create).await?;
    Ok(created.volume.unwrap())
}

/// The disk that the share is on is not mounted when the driver starts: an empty folder is in its place.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_share_whose_uuid_is_told_is_never_made_anew() {
    let rig = Rig::new();
    let driver = rig.driver();
    let client = Client::connect(&rig).await;
    let volume = create(&client, "pvc-1").await;
    let uuid = volume.volume_id.split(['#', '.']).nth(1).unwrap();
    driver.kill();
    std::fs::rename(rig.path("export"), rig.path("disk")).unwrap();
    std::fs::create_dir(rig.path("export")).unwrap();
    let share = format!("home=server:/,uuid={uuid}");
    let _driver = rig.driver_with(&["--share", &share]);
    let client = Client::connect(&rig).await;
    let error = try_create(&client, "pvc-2").await.unwrap_err();
    assert_eq!(error.code(), Code::FailedPrecondition, "{error}");
    assert!(error.message().contains(uuid), "{error}");
    let list = client.call(ListVolumesRequest::default()).await;
    assert_eq!(list.unwrap_err().code(), Code::FailedPrecondition);
    assert_eq!(std::fs::read_dir(rig.path("export")).unwrap().count(), 0);
    std::fs::remove_dir(rig.path("export")).unwrap();
    std::fs::rename(rig.path("disk"), rig.path("export")).unwrap();
    assert_eq!(create(&client, "pvc-1").await, volume);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_lost_work_folder_does_not_keep_a_volume_published() {
    let rig = Rig::new();
    let driver = rig.driver();
    let client = Client::connect(&rig).await;
    let volume = create(&client, "pvc-1").await;
    let target = rig.path("target");
    let mut publish = publish_request(&volume.volume_id, &target, Mode::SingleNodeWriter);
    publish.volume_context = volume.volume_context;
    client.publish(publish).await.unwrap();
    driver.kill();
    std::fs::remove_dir_all(rig.path("work")).unwrap();
    let _driver = rig.driver();
    let client = Client::connect(&rig).await;
    assert_eq!(
        stats(&client, "other", &target).await.unwrap_err().code(),
        Code::NotFound
    );
    assert_eq!(
        code(client.unpublish("other", &target).await),
        Code::FailedPrecondition
    );
    assert_eq!(rig.mounts("target").len(), 1);
    assert!(stats(&client, &volume.volume_id, &target).await.is_ok());
    client.unpublish(&volume.volume_id, &target).await.unwrap();
    assert!(rig.mounts("target").is_empty() && !target.exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_work_folder_that_is_away_for_a_while_keeps_no_volume_published() {
    let rig = Rig::new();
    std::fs::create_dir(rig.path("staging")).unwrap();
    let _driver = rig.driver_with(&["--stage"]);
    let client = Client::connect(&rig).await;
    let volume = create(&client, "pvc-1").await;
    let (id, staging, target) = (&volume.volume_id, rig.path("staging"), rig.path("target"));
    let mut publish = publish_request(id, &target, Mode::SingleNodeWriter);
    publish.volume_context = volume.volume_context.clone();
    let stage = stage_request(&mut publish, &staging);
    client.stage(stage).await.unwrap();
    client.publish(publish.clone()).await.unwrap();
    std::fs::rename(rig.path("work"), rig.path("away")).unwrap();
    client.unpublish(id, &target).await.unwrap();
    assert!(rig.mounts("target").is_empty() && !target.exists());
    assert_eq!(code(client.publish(publish).await), Code::Internal);
    assert_eq!(code(client.unstage(id, &staging).await), Code::Internal);
    std::fs::rename(rig.path("away"), rig.path("work")).unwrap();
    client.unstage(id, &staging).await.unwrap();
    assert!(rig.mounts("staging").is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_publish_is_forgotten_whose_targets_parent_has_gone() {
    let rig = Rig::new();
    let _driver = rig.driver();
    let client = Client::connect(&rig).await;
    let volume = create(&client, "pvc-1").await;
    let target = rig.path("pod/target");
    std::fs::create_dir(rig.path("pod")).unwrap();
    let mut publish = publish_request(&volume.volume_id, &target, Mode::SingleNodeWriter);
    publish.volume_context = volume.volume_context;
    client.publish(publish).await.unwrap();
    run(rig.command("umount").arg(&target));
    std::fs::remove_dir_all(rig.path("pod")).unwrap();
    let records = || {
        std::fs::read_dir(rig.path("work/publishes"))
            .unwrap()
            .count()
    };
    client.unpublish("other", &target).await.unwrap();
    assert_eq!(records(), 1);
    client.unpublish(&volume.volume_id, &target).await.unwrap();
    assert_eq!(records(), 0);
}

/// As by a disk that was full, or a node whose power went; without a content it is a FIFO, which nobody writes to.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_damaged_record_does_not_keep_a_volume_published() {
    for content in [Some(""), Some("{"), Some("\0\0\0"), Some("[]"), None] {
        let rig = Rig::new();
        std::fs::create_dir(rig.path("staging")).unwrap();
        let driver = rig.driver_with(&["--stage"]);
        let client = Client::connect(&rig).await;
        let volume = create(&client, "pvc-1").await;
        let (id, staging, target) = (&volume.volume_id, rig.path("staging"), rig.path("target"));
        let mut publish = publish_request(id, &target, Mode::SingleNodeWriter);
        publish.volume_context = volume.volume_context.clone();
        client
            .stage(stage_request(&mut publish, &staging))
            .await
            .unwrap();
        let records = |kind: &str| -> Vec<_> {
            let entries = std::fs::read_dir(rig.path("work").join(kind)).unwrap();
            entries.map(|entry| entry.unwrap().path()).collect()
        };
        let damage = || {
            for path in records("stages").iter().chain(&records("publishes")) {
                std::fs::remove_file(path).unwrap();
                match content {
                    Some(content) => std::fs::write(path, content).unwrap(),
                    None => mkfifoat(CWD, path, 0o600.into()).unwrap(),
                }
            }
        };
        damage();
        client.publish(publish.clone()).await.unwrap();
        damage();
        for path in [&staging, &target] {
            assert!(stats(&client, id, path).await.is_ok());
            let other = stats(&client, "other", path).await.unwrap_err();
            assert_eq!(other.code(), Code::NotFound);
        }
        driver.kill();
        let mut driver = rig.driver_with(&["--stage"]);
        let client = Client::connect(&rig).await;
        client.publish(publish).await.unwrap();
        damage();
        let other = code(client.unpublish("other", &target).await);
        assert_eq!(other, Code::FailedPrecondition);
        client.unpublish(id, &target).await.unwrap();
        client.unstage(id, &staging).await.unwrap();
        assert!(rig.mounts("target").is_empty() && rig.mounts("staging").is_empty());
        assert_eq!((records("stages"), records("publishes")), (vec![], vec![]));
        driver.wait_for("damaged record");
    }
}

/// A volume is published at `target`: the request, and the file of its record.
async fn published(rig: &Rig, client: &Client) -> (NodePublishVolumeRequest, PathBuf) {
    let volume = create(client, "pvc-1").await;
    let target = rig.path("target");
    let mut publish = publish_request(&volume.volume_id, &target, Mode::SingleNodeWriter);
    publish.volume_context = volume.volume_context;
    client.publish(publish.clone()).await.unwrap();
    let mut records = std::fs::read_dir(rig.path("work/publishes")).unwrap();
    (publish, records.next().unwrap().unwrap().path())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_folder_in_the_place_of_a_record_is_named_and_keeps_no_volume_published() {
    let rig = Rig::new();
    let _driver = rig.driver();
    let client = Client::connect(&rig).await;
    let (publish, record) = published(&rig, &client).await;
    let (id, target) = (&publish.volume_id, rig.path("target"));
    std::fs::remove_file(&record).unwrap();
    std::fs::create_dir(&record).unwrap();
    let refused = client.publish(publish.clone()).await.unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition, "{refused}");
    assert!(
        refused.message().contains("unpublish the volume"),
        "{refused}"
    );
    client.unpublish(id, &target).await.unwrap();
    assert!(rig.mounts("target").is_empty() && !target.exists());
    let refused = client.publish(publish.clone()).await.unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition, "{refused}");
    let remedy = format!(
        "{}: Is a directory (os error 21); move it away",
        record.display()
    );
    assert!(refused.message().contains(&remedy), "{refused}");
    assert!(rig.mounts("target").is_empty() && !target.exists());
    std::fs::remove_dir(&record).unwrap();
    client.publish(publish).await.unwrap();
}

/// What lies where a record is drafted is nothing of the driver's: nobody waits for its other end, and nothing is written through it.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn what_is_in_the_place_of_a_draft_holds_up_no_record() {
    let rig = Rig::new();
    let _driver = rig.driver();
    let client = Client::connect(&rig).await;
    let (publish, record) = published(&rig, &client).await;
    let (id, target) = (&publish.volume_id, rig.path("target"));
    let draft = record.with_extension("new");
    client.unpublish(id, &target).await.unwrap();

    std::fs::create_dir(&draft).unwrap();
    let refused = client.publish(publish.clone()).await.unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition, "{refused}");
    let named = refused.message().contains(draft.to_str().unwrap());
    assert!(named, "{refused}");
    std::fs::remove_dir(&draft).unwrap();

    std::fs::write(rig.path("precious"), "x").unwrap();
    std::os::unix::fs::symlink(rig.path("precious"), &draft).unwrap();
    client.publish(publish.clone()).await.unwrap();
    assert_eq!(std::fs::read(rig.path("precious")).unwrap(), b"x");
    client.unpublish(id, &target).await.unwrap();

    mkfifoat(CWD, &draft, 0o600.into()).unwrap();
    client.publish(publish.clone()).await.unwrap();
    client.unpublish(id, &target).await.unwrap();
    let left = std::fs::read_dir(rig.path("work/publishes")).unwrap();
    assert_eq!(left.count(), 0);
}

/// A FIFO that nobody writes to, where the options of shares are kept.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn what_is_in_the_place_of_the_kept_options_holds_up_no_start() {
    let rig = Rig::new();
    let driver = rig.driver();
    driver.kill();
    for name in ["share-options.json", "share-options.draft"] {
        mkfifoat(CWD, rig.path("work").join(name), 0o600.into()).unwrap();
    }
    let _driver = rig.driver();
    let client = Client::connect(&rig).await;
    create(&client, "pvc-1").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn mounts_and_folders_of_others_are_left_alone() {
    let rig = Rig::new();
    std::fs::create_dir(rig.path("other")).unwrap();
    std::fs::create_dir(rig.path("empty")).unwrap();
    // The share's own disk, and a folder beside the share on the same disk.
    for (from, at) in [("export", "export"), ("other", "other")] {
        let mut command = rig.command("mount");
        command.arg("--bind").arg(rig.path(from)).arg(rig.path(at));
        assert!(run(&mut command).0.success());
    }
    let _driver = rig.driver();
    let client = Client::connect(&rig).await;
    let volume = create(&client, "pvc-1").await.volume_id;
    for id in ["a", volume.as_str()] {
        for place in ["export", "other"] {
            let refused = code(client.unpublish(id, &rig.path(place)).await);
            assert_eq!(refused, Code::FailedPrecondition, "{id} at {place}");
            assert_eq!(rig.mounts(place).len(), 1);
        }
        client.unpublish(id, &rig.path("empty")).await.unwrap();
        assert!(rig.path("empty").exists());
    }
}
