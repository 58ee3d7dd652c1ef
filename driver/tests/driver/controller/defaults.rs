//! What holds for volumes where neither their ids nor their classes say: nobody's data is deleted that was to be kept.

use super::calls::*;
use super::snapshots::{from_snapshot, from_volume, ready};
use super::upstream::{UPSTREAM, archived, in_front, made};
use csi_nfs::calls::controller::Controller;
use csi_nfs_store::share::records::volume::OnDelete;
use csi_proto::v1::ControllerModifyVolumeRequest;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use tonic::Request;

/// Whether the data of a volume whose folder was this is still there, as the policy says.
fn is_left(folder: &Path, policy: OnDelete) -> bool {
    match policy {
        OnDelete::Delete => false,
        OnDelete::Retain => folder.join("file").exists(),
        OnDelete::Archive => {
            let name = folder.file_name().unwrap().to_str().unwrap();
            let archives = format!("archived-{name}-");
            let beside = std::fs::read_dir(folder.parent().unwrap()).unwrap();
            let beside = beside.map(|entry| entry.unwrap());
            let is_archive = |entry: &std::fs::DirEntry| {
                entry.file_name().to_str().unwrap().starts_with(&archives)
            };
            !folder.exists()
                && beside
                    .filter(is_archive)
                    .any(|it| it.path().join("file").exists())
        }
    }
}

#[tokio::test]
async fn data_is_kept_where_neither_id_nor_class_says() {
    for policy in [OnDelete::Retain, OnDelete::Archive] {
        let host = Host::new();
        let c = &in_front(host.config(), Some(policy));
        let at = |path: &str| -> PathBuf { host.folder.path().join(path) };
        made(&host, "pvc-1");
        std::fs::write(at("pvc-1/file"), "old").unwrap();
        let of_others = &archived(&host, "snapshot-1", "pvc-1", "tar.gz");

        let plain = create(c, request("plain")).await.unwrap();
        let folder_of = |volume: &csi_proto::v1::Volume| at(&volume.volume_context["subDir"]);
        std::fs::write(folder_of(&plain).join("file"), "new").unwrap();
        let own = ready(c, "own", &plain.volume_id).await.snapshot_id;
        let mut volumes = vec![plain.clone()];
        for request in [
            with_parameters("empty", &[("onDelete", "")]),
            from_volume("clone", &plain.volume_id),
            from_snapshot("restored", &own),
            from_volume("clone-of-others", UPSTREAM),
            from_snapshot("restored-from-others", of_others),
        ] {
            let volume = create(c, request).await.unwrap();
            std::fs::write(folder_of(&volume).join("file"), "new").unwrap();
            volumes.push(volume);
        }
        // A change of something else is none of this.
        let change = ControllerModifyVolumeRequest {
            volume_id: plain.volume_id.clone(),
            mutable_parameters: map(&[("mountPermissions", "0750")]),
            ..Default::default()
        };
        c.controller_modify_volume(Request::new(change))
            .await
            .unwrap();
        let spoken = with_parameters("spoken", &[("onDelete", "delete")]);
        let spoken = create(c, spoken).await.unwrap();

        delete(c, UPSTREAM).await.unwrap();
        assert!(is_left(&at("pvc-1"), policy), "{policy}: by its id");
        // What a volume was made with is recorded: a driver that was started otherwise does the same.
        let otherwise = Controller::new(host.config());
        for volume in &volumes[1..] {
            delete(c, &volume.volume_id).await.unwrap();
        }
        delete(&otherwise, &plain.volume_id).await.unwrap();
        for volume in &volumes {
            let folder = folder_of(volume);
            assert!(is_left(&folder, policy), "{policy}: {}", folder.display());
        }
        delete(c, &spoken.volume_id).await.unwrap();
        assert!(!folder_of(&spoken).exists(), "its class has spoken");
        c.settle().await;
        otherwise.settle().await;
        for volume in &volumes {
            assert!(is_left(&folder_of(volume), policy), "after the purge");
        }
    }
}

#[tokio::test]
async fn folders_have_the_mode_that_the_driver_was_started_with() {
    let host = Host::new();
    let mut config = host.config();
    config.defaults.mode = Some(0o2770);
    let c = &Controller::new(config);
    std::fs::create_dir(host.folder.path().join("adopted")).unwrap();
    let mode = |path: &str| {
        let metadata = std::fs::metadata(host.folder.path().join(path)).unwrap();
        metadata.mode() & 0o7777
    };
    let before = mode("adopted");
    for (name, pairs, expected) in [
        ("silent", &[][..], 0o2770),
        ("none", &[("mountPermissions", "0")], 0o755),
        ("own", &[("mountPermissions", "0711")], 0o711),
        (
            "adopted",
            &[("adopt", "true"), ("subDir", "adopted")],
            before,
        ),
    ] {
        let request = with_parameters(name, pairs);
        let volume = create(c, request.clone()).await.unwrap();
        assert_eq!(mode(&volume.volume_context["subDir"]), expected, "{name}");
        assert_eq!(create(c, request).await.unwrap(), volume);
    }
}
