//! Secrets and tokens, which no log and no message tells.

use super::*;
use crate::rig::{Client, Rig, publish_request};

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn secrets_and_tokens_are_told_nowhere() {
    let secrets: BTreeMap<String, String> = [
        (
            "mountOptions",
            format!("password={SECRET} two,vers={SECRET}"),
        ),
        ("other", SECRET.to_owned()),
    ]
    .map(|(key, value)| (key.to_owned(), value))
    .into();
    let tokens = format!("{{\"aud\":{{\"token\":\"{SECRET}\"}}}}");
    for format in ["text", "json"] {
        let rig = Rig::new();
        std::fs::create_dir(rig.path("export/v")).unwrap();
        let target = rig.path("target");
        let mut driver = rig.driver_with(&["--log-level", "debug", "--log-format", format]);
        let client = Client::connect(&rig).await;
        let mut publish = publish_request("v", &target, Mode::SingleNodeWriter);
        publish.volume_context.insert(
            "csi.storage.k8s.io/serviceAccount.tokens".into(),
            tokens.clone(),
        );
        publish.secrets = map("other", SECRET);
        let mut odd = publish.clone();
        odd.secrets = secrets.clone();
        let secrets = || secrets.clone();
        let volume_id = || {
            format!(
                "server/#{}.{}.{}",
                "0".repeat(26),
                "0".repeat(16),
                "0".repeat(16)
            )
        };
        let snapshot_id = || volume_id().replace('#', "@");
        let cases = [
            case(&CreateVolumeRequest {
                secrets: secrets(),
                ..creation()
            }),
            case(&CreateVolumeRequest {
                name: "new".into(),
                secrets: map("other", SECRET),
                ..creation()
            }),
            case(&DeleteVolumeRequest {
                volume_id: volume_id(),
                secrets: secrets(),
            }),
            case(&ControllerExpandVolumeRequest {
                volume_id: volume_id(),
                capacity_range: Some(CapacityRange {
                    required_bytes: 1,
                    limit_bytes: 0,
                }),
                secrets: secrets(),
                ..Default::default()
            }),
            case(&ControllerModifyVolumeRequest {
                volume_id: volume_id(),
                secrets: secrets(),
                mutable_parameters: map("uid", "1"),
            }),
            case(&ValidateVolumeCapabilitiesRequest {
                volume_id: volume_id(),
                volume_capabilities: vec![capability()],
                secrets: secrets(),
                ..Default::default()
            }),
            case(&CreateSnapshotRequest {
                name: "s".into(),
                source_volume_id: volume_id(),
                secrets: secrets(),
                ..Default::default()
            }),
            case(&DeleteSnapshotRequest {
                snapshot_id: snapshot_id(),
                secrets: secrets(),
            }),
            case(&GetSnapshotRequest {
                snapshot_id: snapshot_id(),
                secrets: secrets(),
            }),
            case(&ListSnapshotsRequest {
                secrets: secrets(),
                ..Default::default()
            }),
            case(&ControllerPublishVolumeRequest {
                volume_id: volume_id(),
                secrets: secrets(),
                ..Default::default()
            }),
            case(&ControllerUnpublishVolumeRequest {
                volume_id: volume_id(),
                secrets: secrets(),
                ..Default::default()
            }),
            case(&NodeStageVolumeRequest {
                volume_id: volume_id(),
                staging_target_path: target.display().to_string(),
                volume_capability: Some(capability()),
                secrets: secrets(),
                volume_context: odd.volume_context.clone(),
                ..Default::default()
            }),
            case(&NodeExpandVolumeRequest {
                volume_id: volume_id(),
                volume_path: target.display().to_string(),
                secrets: secrets(),
                ..Default::default()
            }),
            case(&odd),
            case(&publish),
        ];
        let mut fine = 0;
        for case in &cases {
            match send(&client, case).await {
                Ok(()) => fine += 1,
                Err(status) => {
                    let told = format!("{status:?}");
                    assert!(!told.contains(SECRET), "{}: {told}", case.0.name);
                }
            }
        }
        assert!(
            fine >= 2,
            "a call that works tells nothing either: {:#?}",
            driver.log()
        );
        client.unpublish("v", &target).await.unwrap();
        // Lines are written behind the answers, one after the other.
        driver.wait_for("NodeUnpublishVolume");
        let log = driver.log();
        assert!(log.len() >= cases.len(), "{log:#?}");
        for line in log {
            assert!(!line.contains(SECRET), "{line}");
        }
        // Nor is it kept anywhere.
        driver.kill();
        for folder in ["work", "export"] {
            let found = std::process::Command::new("grep")
                .args(["-rl", SECRET])
                .arg(rig.path(folder))
                .output()
                .unwrap();
            assert_eq!(String::from_utf8_lossy(&found.stdout), "", "{folder}");
        }
    }
}
