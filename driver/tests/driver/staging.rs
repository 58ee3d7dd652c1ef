//! NodeStageVolume and NodeUnstageVolume, and publishes from what they staged, on a local share.

use crate::rig::{Client, Driver, Rig, publish_request, run, stage_request};
use csi_proto::v1::node_service_capability::{Type, rpc::Type as Capability};
use csi_proto::v1::volume_capability::access_mode::Mode;
use csi_proto::v1::{
    NodeGetCapabilitiesRequest, NodeGetVolumeStatsRequest, NodePublishVolumeRequest,
    NodeStageVolumeRequest,
};
use std::path::Path;
use tonic::{Code, Status};

const MODE: Mode = Mode::MultiNodeMultiWriter;

fn code(result: Result<(), Status>) -> Code {
    result.map_or_else(|status| status.code(), |()| Code::Ok)
}

/// A folder for volume `name`, and the folder that an orchestrator makes to stage it at.
fn make_volume(rig: &Rig, name: &str) {
    std::fs::create_dir(rig.path("export").join(name)).unwrap();
    std::fs::write(rig.path("export").join(name).join("file"), name).unwrap();
    std::fs::create_dir(rig.path(&format!("{name}-staging"))).unwrap();
}

/// How volume `name` is staged, and published at `target`.
fn requests(
    rig: &Rig,
    name: &str,
    target: &str,
) -> (NodeStageVolumeRequest, NodePublishVolumeRequest) {
    let mut publish = publish_request(name, &rig.path(target), MODE);
    let staging = rig.path(&format!("{name}-staging"));
    (stage_request(&mut publish, &staging), publish)
}

fn records(rig: &Rig, kind: &str) -> usize {
    let entries = std::fs::read_dir(rig.path("work").join(kind)).unwrap();
    let files = entries.filter(|entry| entry.as_ref().unwrap().path().extension().is_some());
    files.count()
}

async fn stats(client: &Client, volume: &str, path: &Path) -> Result<(), Status> {
    let request = NodeGetVolumeStatsRequest {
        volume_id: volume.to_owned(),
        volume_path: path.display().to_string(),
        ..Default::default()
    };
    let reply = client.call(request).await;
    reply.map(drop)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn staging_is_there_when_it_is_asked_for() {
    for on in [false, true] {
        let rig = Rig::new();
        make_volume(&rig, "a");
        let _driver = rig.driver_with(if on { &["--stage"] } else { &[] });
        let client = Client::connect(&rig).await;
        let reply = client
            .call(NodeGetCapabilitiesRequest::default())
            .await
            .unwrap();
        let advertised = reply.capabilities.iter().any(|one| {
            matches!(&one.r#type, Some(Type::Rpc(rpc)) if rpc.r#type() == Capability::StageUnstageVolume)
        });
        assert_eq!(advertised, on);
        let (stage, publish) = requests(&rig, "a", "target");
        let expected = if on { Code::Ok } else { Code::Unimplemented };
        assert_eq!(code(client.stage(stage).await), expected);
        // What an orchestrator says of staging means nothing to a driver that does not stage.
        assert_eq!(code(client.publish(publish).await), Code::Ok);
        assert_eq!(rig.mounts("a-staging").len(), usize::from(on));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_volume_is_mounted_once_and_bound_for_each_pod() {
    let rig = Rig::new();
    make_volume(&rig, "a");
    let _driver = rig.driver_with(&["--stage"]);
    let client = Client::connect(&rig).await;
    let staging = rig.path("a-staging");
    let (stage, first) = requests(&rig, "a", "first");
    for _ in 0..2 {
        client.stage(stage.clone()).await.unwrap();
        assert_eq!(rig.mounts("a-staging").len(), 1);
    }
    let (_, mut second) = requests(&rig, "a", "second");
    second.readonly = true;
    for request in [&first, &second, &first, &second] {
        client.publish(request.clone()).await.unwrap();
    }
    for (target, flags) in [("first", "rw,nosuid,nodev"), ("second", "ro,nosuid,nodev")] {
        let mounts = rig.mounts(target);
        assert_eq!(mounts.len(), 1);
        assert!(mounts[0].contains(flags), "{mounts:?}");
    }
    std::fs::write(rig.inside("first/new"), "x").unwrap();
    assert_eq!(std::fs::read(rig.inside("second/new")).unwrap(), b"x");
    assert!(std::fs::write(rig.inside("second/more"), "x").is_err());

    for path in [&staging, &rig.path("first")] {
        stats(&client, "a", path).await.unwrap();
        assert_eq!(code(stats(&client, "b", path).await), Code::NotFound);
    }
    for target in ["first", "second"] {
        let refused = client.unstage("a", &staging).await.unwrap_err();
        assert_eq!(refused.code(), Code::FailedPrecondition, "{refused}");
        assert!(refused.message().contains(target), "{refused}");
        client.unpublish("a", &rig.path(target)).await.unwrap();
    }
    assert_eq!(rig.mounts("a-staging").len(), 1);
    for _ in 0..2 {
        client.unstage("a", &staging).await.unwrap();
        assert!(rig.mounts("a-staging").is_empty());
        // The folder is the orchestrator's.
        assert!(staging.exists());
    }
    assert_eq!(
        (records(&rig, "stages"), records(&rig, "publishes")),
        (0, 0)
    );
    assert_eq!(code(stats(&client, "a", &staging).await), Code::NotFound);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn what_does_not_fit_is_refused() {
    let rig = Rig::new();
    for name in ["a", "b"] {
        make_volume(&rig, name);
    }
    let _driver = rig.driver_with(&["--stage"]);
    let client = Client::connect(&rig).await;
    let (stage, publish) = requests(&rig, "a", "target");
    // Not staged yet, no path, a path that is not there, and another volume's.
    assert_eq!(
        code(client.publish(publish.clone()).await),
        Code::FailedPrecondition
    );
    client.stage(stage.clone()).await.unwrap();
    let with_staging = |path: &str| {
        let mut request = publish.clone();
        request.staging_target_path = path.to_owned();
        request
    };
    let elsewhere = rig.path("b-staging").display().to_string();
    for (path, expected) in [
        ("", Code::FailedPrecondition),
        ("relative", Code::InvalidArgument),
        ("/nonexistent/staging", Code::FailedPrecondition),
        (elsewhere.as_str(), Code::FailedPrecondition),
    ] {
        let refused = client.publish(with_staging(path)).await;
        assert_eq!(code(refused), expected, "{path:?}");
    }
    let mut other = requests(&rig, "b", "target").1;
    other
        .staging_target_path
        .clone_from(&stage.staging_target_path);
    assert_eq!(code(client.publish(other).await), Code::FailedPrecondition);
    let mut moved = publish.clone();
    moved.volume_context.insert("subDir".into(), "b".into());
    assert_eq!(code(client.publish(moved).await), Code::AlreadyExists);
    assert!(!rig.path("target").exists());
    assert_eq!(records(&rig, "publishes"), 0);

    // Staged there in another way.
    let mut mode = stage.clone();
    mode.volume_capability =
        publish_request("a", Path::new("/"), Mode::SingleNodeWriter).volume_capability;
    assert_eq!(code(client.stage(mode).await), Code::AlreadyExists);
    let mut foreign = stage.clone();
    foreign.volume_id = "b".into();
    assert_eq!(code(client.stage(foreign).await), Code::AlreadyExists);
    let staging = rig.path("a-staging");
    assert_eq!(code(client.unstage("b", &staging).await), Code::NotFound);

    // Read-only for all.
    let (mut stage, publish) = requests(&rig, "b", "target");
    let context = &mut stage.volume_context;
    context.insert("mountOptions".into(), "ro".into());
    client.stage(stage).await.unwrap();
    assert_eq!(code(client.publish(publish).await), Code::AlreadyExists);

    let mut missing = requests(&rig, "a", "x").0;
    missing.volume_context.insert("subDir".into(), "c".into());
    missing.staging_target_path = rig.path("c-staging").display().to_string();
    assert_eq!(code(client.stage(missing).await), Code::NotFound);
    assert!(!rig.path("c-staging").exists());
    assert_eq!(
        code(client.unstage("a", Path::new("/proc")).await),
        Code::FailedPrecondition
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_driver_may_be_killed_at_any_step() {
    let rig = Rig::new();
    make_volume(&rig, "a");
    let restart = |driver: Driver| {
        driver.kill();
        rig.driver_with(&["--stage"])
    };
    let (stage, publish) = requests(&rig, "a", "target");
    let staging = rig.path("a-staging");
    let mut driver = rig.driver_with(&["--stage"]);
    Client::connect(&rig)
        .await
        .stage(stage.clone())
        .await
        .unwrap();
    driver = restart(driver);
    let client = Client::connect(&rig).await;
    client.stage(stage.clone()).await.unwrap();
    client.publish(publish.clone()).await.unwrap();
    driver = restart(driver);
    let client = Client::connect(&rig).await;
    assert_eq!(
        code(client.unstage("a", &staging).await),
        Code::FailedPrecondition
    );
    client.publish(publish.clone()).await.unwrap();
    client.unpublish("a", &rig.path("target")).await.unwrap();
    driver.kill();

    // With the work folder lost, it is the volume's own id that tells, which this one has not.
    std::fs::remove_dir_all(rig.path("work")).unwrap();
    let _driver = rig.driver_with(&["--stage"]);
    let client = Client::connect(&rig).await;
    assert_eq!(
        code(client.unstage("a", &staging).await),
        Code::FailedPrecondition
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn staging_may_be_switched_while_volumes_are_published() {
    let rig = Rig::new();
    for name in ["a", "b", "c"] {
        make_volume(&rig, name);
    }
    let driver = rig.driver_with(&["--stage"]);
    let client = Client::connect(&rig).await;
    let (stage_a, publish_a) = requests(&rig, "a", "target-a");
    let (stage_b, _) = requests(&rig, "b", "target-b");
    client.stage(stage_a).await.unwrap();
    client.stage(stage_b).await.unwrap();
    client.publish(publish_a.clone()).await.unwrap();
    driver.kill();

    // Off: what nothing is published from goes at once, the rest with its last publish.
    let mut driver = rig.driver();
    driver.wait_for("unstaged what was left");
    assert!(rig.mounts("b-staging").is_empty());
    assert_eq!(rig.mounts("a-staging").len(), 1);
    let client = Client::connect(&rig).await;
    client.publish(publish_a.clone()).await.unwrap();
    assert_eq!(
        code(client.unstage("a", &rig.path("a-staging")).await),
        Code::FailedPrecondition
    );
    stats(&client, "a", &rig.path("target-a")).await.unwrap();
    client.unpublish("a", &rig.path("target-a")).await.unwrap();
    assert!(rig.mounts("a-staging").is_empty());
    assert_eq!(
        code(client.unstage("a", &rig.path("a-staging")).await),
        Code::Unimplemented
    );
    let (_, mut publish_c) = requests(&rig, "c", "target-c");
    client.publish(publish_c.clone()).await.unwrap();
    driver.kill();

    // On: what was published by itself stays so.
    let _driver = rig.driver_with(&["--stage"]);
    let client = Client::connect(&rig).await;
    client.publish(publish_c.clone()).await.unwrap();
    publish_c.staging_target_path.clear();
    client.publish(publish_c).await.unwrap();
    client.unstage("c", &rig.path("c-staging")).await.unwrap();
    client.unpublish("c", &rig.path("target-c")).await.unwrap();
    assert!(rig.mounts("target-c").is_empty());
}

/// Publishes and the end of staging at once: never is something published from what is not staged.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_publish_and_an_unstage_do_not_both_win() {
    let rig = Rig::new();
    make_volume(&rig, "a");
    let _driver = rig.driver_with(&["--stage"]);
    let client = Client::connect(&rig).await;
    let (stage, publish) = requests(&rig, "a", "target");
    for _ in 0..8 {
        client.stage(stage.clone()).await.unwrap();
        let publishing = {
            let (client, publish) = (client.clone(), publish.clone());
            tokio::spawn(async move { client.publish(publish).await })
        };
        let unstaged = client.unstage("a", &rig.path("a-staging")).await;
        let published = publishing.await.unwrap();
        assert_ne!(
            published.is_ok(),
            unstaged.is_ok(),
            "{published:?} {unstaged:?}"
        );
        assert_eq!(rig.mounts("target").len(), usize::from(published.is_ok()));
        for error in [published.err(), unstaged.err()].into_iter().flatten() {
            // ABORTED, where one came while the other ran.
            let codes = [Code::FailedPrecondition, Code::Aborted];
            assert!(codes.contains(&error.code()), "{error}");
        }
        client.unpublish("a", &rig.path("target")).await.unwrap();
    }
}

/// As when a volume's folder was put back from a backup on the very machine that has the share.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_folder_that_was_made_anew_is_mounted_again() {
    for flags in [&["--stage"][..], &[]] {
        let rig = Rig::new();
        make_volume(&rig, "a");
        let _driver = rig.driver_with(flags);
        let client = Client::connect(&rig).await;
        let (stage, publish) = requests(&rig, "a", "target");
        let (_, second) = requests(&rig, "a", "second");
        let is_staging = !flags.is_empty();
        if is_staging {
            client.stage(stage.clone()).await.unwrap();
        }
        client.publish(publish.clone()).await.unwrap();
        std::fs::remove_dir_all(rig.path("export/a")).unwrap();
        for request in [&publish, &second] {
            let refused = client.publish(request.clone()).await;
            assert_eq!(code(refused), Code::NotFound);
        }
        std::fs::create_dir(rig.path("export/a")).unwrap();
        std::fs::write(rig.path("export/a/file"), "anew").unwrap();
        if is_staging {
            client.stage(stage).await.unwrap();
        }
        for request in [publish, second] {
            client.publish(request).await.unwrap();
        }
        for target in ["target", "second"] {
            let file = rig.inside(target).join("file");
            assert_eq!(std::fs::read(file).unwrap(), b"anew", "{target}");
            assert_eq!(rig.mounts(target).len(), 1);
            client.unpublish("a", &rig.path(target)).await.unwrap();
        }
        if is_staging {
            client.unstage("a", &rig.path("a-staging")).await.unwrap();
        }
    }
}

/// The orchestrator stages once, and what is published next finds what has become of that.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_publish_renews_what_is_staged_of_a_folder_that_was_made_anew() {
    let rig = Rig::new();
    make_volume(&rig, "a");
    let _driver = rig.driver_with(&["--stage"]);
    let client = Client::connect(&rig).await;
    let (stage, publish) = requests(&rig, "a", "target");
    client.stage(stage).await.unwrap();
    std::fs::remove_dir_all(rig.path("export/a")).unwrap();
    std::fs::create_dir(rig.path("export/a")).unwrap();
    client.publish(publish).await.unwrap();
    std::fs::write(rig.inside("target/file"), "x").unwrap();
    assert!(rig.path("export/a/file").exists());
    assert_eq!(rig.mounts("a-staging").len(), 1);
}

/// What is staged is no publish and the other way round: a call about the wrong path, or of another volume, takes nothing away.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_publish_and_a_stage_are_not_taken_for_each_other() {
    let rig = Rig::new();
    for name in ["a", "b"] {
        make_volume(&rig, name);
    }
    let _driver = rig.driver_with(&["--stage"]);
    let client = Client::connect(&rig).await;
    // Ids that name the share, so that the share of a mount would prove whose it is.
    let id = |name: &str| {
        format!("server/#00000000000000000000000000.0000000000000000.000000000000000{name}")
    };
    let (a, b) = (id("a"), id("b"));
    let (mut stage, mut publish) = requests(&rig, "a", "target");
    stage.volume_id.clone_from(&a);
    publish.volume_id.clone_from(&a);
    let (staging, target) = (rig.path("a-staging"), rig.path("target"));
    client.stage(stage.clone()).await.unwrap();
    client.publish(publish.clone()).await.unwrap();
    for (volume, expected) in [(&b, Code::NotFound), (&a, Code::FailedPrecondition)] {
        let refused = client.unpublish(volume, &staging).await.unwrap_err();
        assert_eq!(refused.code(), expected, "{refused}");
        assert!(refused.message().contains("staged there"), "{refused}");
        let refused = client.unstage(volume, &target).await.unwrap_err();
        assert_eq!(refused.code(), expected, "{refused}");
        assert!(refused.message().contains("published there"), "{refused}");
    }
    assert_eq!(rig.mounts("a-staging").len(), 1);
    assert_eq!(rig.mounts("target").len(), 1);

    // Where what was published has been unmounted by hand, its record still has the place.
    assert!(run(rig.command("umount").arg(&target)).0.success());
    let mut other = requests(&rig, "b", "target").0;
    other.staging_target_path = target.display().to_string();
    stage
        .staging_target_path
        .clone_from(&other.staging_target_path);
    for request in [other, stage] {
        assert_eq!(code(client.stage(request).await), Code::FailedPrecondition);
    }
    assert!(rig.mounts("target").is_empty());
    client.unpublish(&a, &target).await.unwrap();
    assert!(run(rig.command("umount").arg(&staging)).0.success());
    let (stage, mut publish) = requests(&rig, "b", "target");
    client.stage(stage).await.unwrap();
    publish.target_path = staging.display().to_string();
    let refused = code(client.publish(publish).await);
    assert_eq!(refused, Code::FailedPrecondition);
    assert!(rig.mounts("a-staging").is_empty());
    client.unstage(&a, &staging).await.unwrap();
}

/// Staging is off and the work folder lost, so that only the mount tells of what was staged.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn what_was_staged_goes_without_a_record_and_without_the_flag() {
    let rig = Rig::new();
    make_volume(&rig, "a");
    let driver = rig.driver_with(&["--stage"]);
    let client = Client::connect(&rig).await;
    let (mut stage, _) = requests(&rig, "a", "target");
    stage.volume_id = "server/#00000000000000000000000000.0000000000000000.0000000000000000".into();
    let (id, staging) = (stage.volume_id.clone(), rig.path("a-staging"));
    client.stage(stage).await.unwrap();
    driver.kill();
    std::fs::remove_dir_all(rig.path("work")).unwrap();
    let _driver = rig.driver();
    let client = Client::connect(&rig).await;
    let other = code(client.unstage("other", &staging).await);
    assert_eq!(other, Code::FailedPrecondition);
    assert_eq!(rig.mounts("a-staging").len(), 1);
    client.unstage(&id, &staging).await.unwrap();
    assert!(rig.mounts("a-staging").is_empty());
    let gone = code(client.unstage(&id, &staging).await);
    assert_eq!(gone, Code::Unimplemented);
}
