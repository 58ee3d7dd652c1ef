//! Snapshots and clones by a driver process: on a share that is full, and when the process is killed.

use crate::rig::patience::Patience;
use crate::rig::{Client, Rig, publish_request};
use csi_proto::v1::volume_content_source::{Type, VolumeSource};
use csi_proto::v1::*;
use std::path::Path;
use std::time::Duration;
use tonic::{Code, Status};

fn volume_request(name: &str, source: Option<&str>) -> CreateVolumeRequest {
    let publish = publish_request(
        "x",
        Path::new("/x"),
        volume_capability::access_mode::Mode::SingleNodeWriter,
    );
    CreateVolumeRequest {
        name: name.to_owned(),
        volume_capabilities: publish.volume_capability.into_iter().collect(),
        volume_content_source: source.map(|id| VolumeContentSource {
            r#type: Some(Type::Volume(VolumeSource {
                volume_id: id.to_owned(),
            })),
        }),
        ..Default::default()
    }
}

async fn create(client: &Client, name: &str, source: Option<&str>) -> Result<Volume, Status> {
    let request = volume_request(name, source);
    let answer = client.call(request).await?;
    Ok(answer.volume.unwrap())
}

async fn snapshot(client: &Client, name: &str, source: &str) -> Result<Snapshot, Status> {
    let request = CreateSnapshotRequest {
        name: name.to_owned(),
        source_volume_id: source.to_owned(),
        ..Default::default()
    };
    let answer = client.call(request).await?;
    Ok(answer.snapshot.unwrap())
}

async fn snapshots(client: &Client) -> Vec<Snapshot> {
    let request = ListSnapshotsRequest::default();
    let answer = client.call(request).await.unwrap();
    answer
        .entries
        .into_iter()
        .filter_map(|entry| entry.snapshot)
        .collect()
}

fn entries(folder: &Path) -> usize {
    std::fs::read_dir(folder).unwrap().count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_full_share_is_said_and_nothing_is_left() {
    for options in ["size=6m", "nr_inodes=400"] {
        let rig = Rig::new();
        let mounted = rig
            .command("mount")
            .args(["-t", "tmpfs", "-o", options, "none"])
            .arg(rig.path("export"))
            .status()
            .unwrap();
        assert!(mounted.success());
        let _driver = rig.driver();
        let client = Client::connect(&rig).await;
        let volume = create(&client, "v", None).await.unwrap().volume_id;
        if options.starts_with("size") {
            std::fs::write(rig.inside("export/v/large"), vec![1; 4 << 20]).unwrap();
        } else {
            for index in 0..300 {
                std::fs::write(rig.inside(&format!("export/v/{index}")), "").unwrap();
            }
        }
        for _ in 0..2 {
            let error = snapshot(&client, "s", &volume).await.unwrap_err();
            assert_eq!(error.code(), Code::ResourceExhausted, "{error}");
            // Whichever step meets it: what the attempt before took may not be purged yet.
            assert!(error.message().contains("No space left"), "{error}");
            let error = create(&client, "c", Some(&volume)).await.unwrap_err();
            assert_eq!(error.code(), Code::ResourceExhausted, "{error}");
        }
        assert_eq!(snapshots(&client).await, []);
        assert_eq!(
            entries(&rig.inside("export")),
            2,
            "the volume and the records"
        );
        for part in ["snapshots", "drafts"] {
            let left = rig.inside(&format!("export/.csi-nfs/{part}"));
            assert_eq!(entries(&left), 0, "{part}");
        }
        // The room comes back, and with it everything else.
        let trash = rig.inside("export/.csi-nfs/trash");
        let mut patience = Patience::default();
        while entries(&trash) > 0 {
            assert!(patience.lasts(), "the trash is not purged");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        for entry in std::fs::read_dir(rig.inside("export/v")).unwrap().skip(1) {
            std::fs::remove_file(entry.unwrap().path()).unwrap();
        }
        std::fs::write(rig.inside("export/v/large"), "small").unwrap();
        assert!(snapshot(&client, "s", &volume).await.unwrap().ready_to_use);
        create(&client, "c", Some(&volume)).await.unwrap();
    }
}

/// Killed at many moments of a copy, it is finished by the next process, whoever asks.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_killed_copy_is_finished_by_the_next_start() {
    let rig = Rig::new();
    let mut driver = rig.driver();
    let mut client = Client::connect(&rig).await;
    let volume = create(&client, "v", None).await.unwrap().volume_id;
    for index in 0..1500 {
        std::fs::write(rig.path(&format!("export/v/{index}")), "x").unwrap();
    }
    for round in 0..8_u64 {
        let name = format!("s{round}");
        let calls = async {
            let _ = snapshot(&client, &name, &volume).await;
            let _ = create(&client, &format!("c{round}"), Some(&volume)).await;
        };
        let _ = tokio::time::timeout(Duration::from_millis(10 + 25 * round), calls).await;
        drop(driver);
        driver = rig.driver();
        client = Client::connect(&rig).await;
        let mut patience = Patience::default();
        let made = loop {
            assert!(patience.lasts(), "the snapshot is not made");
            match snapshot(&client, &name, &volume).await {
                Ok(made) => break made,
                Err(status) => assert_eq!(status.code(), Code::Aborted, "{status}"),
            }
        };
        assert!(made.ready_to_use);
        let listed = snapshots(&client).await;
        assert_eq!(listed.len() as u64, round + 1);
        assert!(listed.contains(&made));
        let clone = format!("c{round}");
        while let Err(status) = create(&client, &clone, Some(&volume)).await {
            assert_eq!(status.code(), Code::Aborted, "{status}");
            assert!(patience.lasts(), "the clone is not made");
        }
        assert_eq!(entries(&rig.path(&format!("export/{clone}"))), 1500);
    }
    let shelf = rig.path("export/.csi-nfs/snapshots");
    for folder in std::fs::read_dir(shelf).unwrap() {
        let folder = folder.unwrap().path();
        let inside = std::fs::read_dir(&folder).unwrap().map(Result::unwrap);
        let mut data = inside.filter(|entry| entry.file_type().unwrap().is_dir());
        assert_eq!(entries(&data.next().unwrap().path()), 1500);
        // The data, and the last two generations of the record.
        assert_eq!(entries(&folder), 3, "{folder:?}");
    }
}
