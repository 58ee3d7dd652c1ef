//! Texts without end, and with anything in them, in every field of every request.

use super::*;
use crate::rig::{Client, Rig, publish_request};
/// Every place of every request that takes a text, with `text` in it.
fn everywhere(text: &str, target: &Path) -> Vec<Case> {
    let id = || text.to_owned();
    let below = || format!("{}/{text}", target.display());
    let publish = publish_request("v", target, Mode::SingleNodeWriter);
    let mut cases = vec![
        case(&CreateVolumeRequest {
            name: id(),
            ..creation()
        }),
        case(&CreateVolumeRequest {
            volume_capabilities: vec![with_flags(text)],
            ..creation()
        }),
        case(&from(Type::Snapshot(SnapshotSource { snapshot_id: id() }))),
        case(&from(Type::Volume(VolumeSource { volume_id: id() }))),
        case(&CreateVolumeRequest {
            parameters: map(text, "x"),
            ..creation()
        }),
        case(&CreateVolumeRequest {
            mutable_parameters: map("uid", text),
            ..creation()
        }),
        case(&DeleteVolumeRequest {
            volume_id: id(),
            ..Default::default()
        }),
        case(&ControllerGetVolumeRequest { volume_id: id() }),
        case(&ControllerExpandVolumeRequest {
            volume_id: id(),
            capacity_range: Some(CapacityRange {
                required_bytes: 1,
                limit_bytes: 0,
            }),
            ..Default::default()
        }),
        case(&ControllerModifyVolumeRequest {
            volume_id: id(),
            mutable_parameters: map("uid", "1"),
            ..Default::default()
        }),
        case(&ValidateVolumeCapabilitiesRequest {
            volume_id: id(),
            volume_capabilities: vec![capability()],
            ..Default::default()
        }),
        case(&CreateSnapshotRequest {
            name: "s".to_owned(),
            source_volume_id: id(),
            ..Default::default()
        }),
        case(&CreateSnapshotRequest {
            name: id(),
            source_volume_id: "x".to_owned(),
            ..Default::default()
        }),
        case(&DeleteSnapshotRequest {
            snapshot_id: id(),
            ..Default::default()
        }),
        case(&GetSnapshotRequest {
            snapshot_id: id(),
            ..Default::default()
        }),
        case(&ListSnapshotsRequest {
            snapshot_id: id(),
            ..Default::default()
        }),
        case(&ListSnapshotsRequest {
            source_volume_id: id(),
            ..Default::default()
        }),
        case(&ListSnapshotsRequest {
            starting_token: id(),
            ..Default::default()
        }),
        case(&ListVolumesRequest {
            starting_token: id(),
            ..Default::default()
        }),
        case(&NodePublishVolumeRequest {
            volume_id: id(),
            ..publish.clone()
        }),
        case(&NodePublishVolumeRequest {
            target_path: below(),
            ..publish.clone()
        }),
        case(&NodePublishVolumeRequest {
            volume_capability: Some(with_flags(text)),
            ..publish.clone()
        }),
        case(&NodeUnpublishVolumeRequest {
            volume_id: id(),
            target_path: target.display().to_string(),
        }),
        case(&NodeUnpublishVolumeRequest {
            volume_id: "v".to_owned(),
            target_path: below(),
        }),
        case(&NodeGetVolumeStatsRequest {
            volume_id: id(),
            volume_path: target.display().to_string(),
            ..Default::default()
        }),
        case(&NodeGetVolumeStatsRequest {
            volume_id: "v".to_owned(),
            volume_path: below(),
            ..Default::default()
        }),
    ];
    for key in [
        "server",
        "share",
        "subDir",
        "onDelete",
        "mountPermissions",
        "uid",
        "mountOptions",
        "adopt",
    ] {
        let parameters = map(key, text);
        cases.push(case(&CreateVolumeRequest {
            parameters,
            ..creation()
        }));
        let parameters = map(key, text);
        cases.push(case(&GetCapacityRequest {
            parameters,
            ..Default::default()
        }));
        let mut publish = publish.clone();
        publish
            .volume_context
            .insert(key.to_owned(), text.to_owned());
        cases.push(case(&publish));
    }
    cases
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn no_text_is_too_long_or_too_odd() {
    let rig = Rig::new();
    std::fs::create_dir(rig.path("export/v")).unwrap();
    let target = rig.path("target");
    let flags = [
        "--driver-name",
        "nfs.csi.k8s.io",
        "--migrate-from",
        "csi-driver-nfs",
        "-v",
    ];
    // The process inside `csi` has no such flag, and its build may lack it here too.
    let flags = if cfg!(feature = "upstream") {
        &flags[..]
    } else {
        &flags[4..]
    };
    let driver = rig.driver_with(flags);
    let client = Client::connect(&rig).await;
    let megabyte = 1 << 20;
    let unique: String = (0..150_000).map(|n| format!("o{n},")).collect();
    for text in [
        "x".repeat(megabyte),
        "../".repeat(megabyte / 3),
        "server#".repeat(megabyte / 7),
        "a=b,".repeat(megabyte / 4),
        unique,
        "\0".repeat(4096),
        "\u{1b}[2J\u{202e}".repeat(500),
        "\0".to_owned(),
        "a\0b".to_owned(),
        "a\nb\rc".to_owned(),
        "../../../../etc/passwd".to_owned(),
        "server##../../etc##".to_owned(),
        "..".to_owned(),
        "/".to_owned(),
        "-rf".to_owned(),
    ] {
        for case in everywhere(&text, &target) {
            let Err(status) = send(&client, &case).await else {
                // Only what may be any text: a volume's name, an id that is not there (any more), what a node passes over.
                let fine = text.len() <= 4096;
                assert!(fine, "{}: {} bytes were fine", case.0.name, text.len());
                if case.0.name == "NodePublishVolume" {
                    let done = NodePublishVolumeRequest::decode(&*case.1).unwrap();
                    let target = Path::new(&done.target_path);
                    client.unpublish(&done.volume_id, target).await.unwrap();
                }
                continue;
            };
            let start: String = text.chars().take(20).collect();
            assert!(
                !matches!(
                    status.code(),
                    Code::Internal | Code::Unknown | Code::Unavailable | Code::Cancelled
                ),
                "{}: {start:?}: {status}",
                case.0.name
            );
            assert!(
                status.message().len() < 16_000,
                "{}: {start:?}",
                case.0.name
            );
        }
        assert!(rig.mounts("target").is_empty());
    }
    for line in driver.log() {
        assert!(
            line.len() < 40_000,
            "{} bytes: {}",
            line.len(),
            &line[..200]
        );
        assert!(!line.chars().any(char::is_control), "{line:?}");
    }
    // What was made of names is below the export, and nothing else is anywhere.
    let left: Vec<_> = std::fs::read_dir(rig.path("."))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| !matches!(name.as_str(), "export" | "work" | "csi.sock"))
        .collect();
    assert!(
        left.iter().all(|name| name.starts_with("csi.sock")),
        "{left:?}"
    );
    send(
        &client,
        &case(&CreateVolumeRequest {
            name: "last".into(),
            ..creation()
        }),
    )
    .await
    .unwrap();
}
