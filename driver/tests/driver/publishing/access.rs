//! Who may have a volume at the same time, and how.

use super::{code, make_volume};
use crate::rig::{Client, Rig, publish_request};
use csi_proto::v1::volume_capability::access_mode::Mode;
use tonic::Code;

/// Both tables of the specification for a second publish, before and after the driver was killed.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_second_publish_follows_the_tables() {
    let rig = Rig::new();
    for volume in ["single", "strict", "many", "nodes"] {
        make_volume(&rig, volume);
    }
    let mut driver = rig.driver();
    let cases = [
        ("single", Mode::SingleNodeWriter, Code::FailedPrecondition),
        (
            "strict",
            Mode::SingleNodeSingleWriter,
            Code::FailedPrecondition,
        ),
        ("many", Mode::SingleNodeMultiWriter, Code::Ok),
        ("nodes", Mode::MultiNodeMultiWriter, Code::Ok),
    ];
    let client = Client::connect(&rig).await;
    for (volume, mode, _) in cases {
        let first = publish_request(volume, &rig.path(&format!("{volume}-1")), mode);
        client.publish(first).await.unwrap();
    }
    for restart in [false, true] {
        if restart {
            driver.kill();
            driver = rig.driver();
        }
        let client = Client::connect(&rig).await;
        for (volume, mode, elsewhere) in cases {
            let target = rig.path(&format!("{volume}-1"));
            let same = publish_request(volume, &target, mode);
            assert_eq!(
                code(client.publish(same.clone()).await),
                Code::Ok,
                "{volume}"
            );
            let mut other = same.clone();
            other.readonly = true;
            assert_eq!(
                code(client.publish(other.clone()).await),
                Code::AlreadyExists,
                "{volume}"
            );
            let mut flags = same.clone();
            flags
                .volume_context
                .insert("mountOptions".into(), "noatime".into());
            assert_eq!(
                code(client.publish(flags).await),
                Code::AlreadyExists,
                "{volume}"
            );
            let second = rig.path(&format!("{volume}-{restart}"));
            for mut request in [same.clone(), other.clone()] {
                request.target_path = second.display().to_string();
                assert_eq!(code(client.publish(request).await), elsewhere, "{volume}");
                client.unpublish(volume, &second).await.unwrap();
            }
            let mut foreign = same.clone();
            foreign.volume_id = "other".into();
            assert_eq!(
                code(client.publish(foreign).await),
                Code::AlreadyExists,
                "{volume}"
            );
            assert_eq!(
                code(client.unpublish("other", &target).await),
                Code::NotFound,
                "{volume}"
            );
        }
    }
    // Free again once it is unpublished.
    client_moves("strict", &rig).await;
    drop(driver);
}

async fn client_moves(volume: &str, rig: &Rig) {
    let client = Client::connect(rig).await;
    client
        .unpublish(volume, &rig.path(&format!("{volume}-1")))
        .await
        .unwrap();
    let next = publish_request(volume, &rig.path("next"), Mode::SingleNodeSingleWriter);
    client.publish(next).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn read_only_is_refused_to_writers() {
    let rig = Rig::new();
    make_volume(&rig, "a");
    let _driver = rig.driver();
    let client = Client::connect(&rig).await;
    let mut by_request = publish_request("a", &rig.path("t1"), Mode::MultiNodeMultiWriter);
    by_request.readonly = true;
    let by_mode = publish_request("a", &rig.path("t2"), Mode::MultiNodeReaderOnly);
    let mut by_option = publish_request("a", &rig.path("t3"), Mode::MultiNodeMultiWriter);
    by_option
        .volume_context
        .insert("mountOptions".into(), "ro".into());
    for (request, target) in [(by_request, "t1"), (by_mode, "t2"), (by_option, "t3")] {
        client.publish(request).await.unwrap();
        let error = std::fs::write(rig.inside(&format!("{target}/new")), "x").unwrap_err();
        assert_eq!(
            error.kind(),
            std::io::ErrorKind::ReadOnlyFilesystem,
            "{target}"
        );
        assert_eq!(
            std::fs::read_to_string(rig.inside(&format!("{target}/file"))).unwrap(),
            "a"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn parallel_repeats_of_one_publish_make_one_mount() {
    let rig = Rig::new();
    make_volume(&rig, "a");
    let _driver = rig.driver();
    let client = Client::connect(&rig).await;
    let target = rig.path("target");
    let request = publish_request("a", &target, Mode::SingleNodeSingleWriter);
    let calls: Vec<_> = (0..16)
        .map(|_| {
            let (client, request) = (client.clone(), request.clone());
            tokio::spawn(async move { client.publish(request).await })
        })
        .collect();
    for call in calls {
        call.await.unwrap().unwrap();
    }
    assert_eq!(rig.mounts("target").len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn one_of_many_targets_wins_when_one_is_allowed() {
    let rig = Rig::new();
    make_volume(&rig, "a");
    let _driver = rig.driver();
    let client = Client::connect(&rig).await;
    let calls: Vec<_> = (0..16)
        .map(|number| {
            let target = rig.path(&format!("t{number}"));
            let request = publish_request("a", &target, Mode::SingleNodeSingleWriter);
            let client = client.clone();
            tokio::spawn(async move { client.publish(request).await })
        })
        .collect();
    let mut published = 0;
    for call in calls {
        match call.await.unwrap() {
            Ok(()) => published += 1,
            Err(error) => assert_eq!(error.code(), Code::FailedPrecondition, "{error}"),
        }
    }
    assert_eq!(published, 1);
}
