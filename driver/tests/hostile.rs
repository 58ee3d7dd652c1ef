//! Callers and tenants that mean harm, against the driver as a process: texts without end, secrets that must not be told, and
//! mounts that are planted in a volume while the driver copies or deletes it.

#![allow(clippy::unwrap_used)]

mod rig;

use csi_proto::v1::volume_capability::access_mode::Mode;
use csi_proto::v1::volume_capability::{AccessMode, AccessType, MountVolume};
use csi_proto::v1::volume_content_source::{SnapshotSource, Type, VolumeSource};
use csi_proto::v1::*;
use prost::Message;
use rig::{Client, Rig, publish_request};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use tonic::{Code, Status};

/// A method, and a request that is right but for one text in it.
type Case = (&'static str, Vec<u8>);

fn case<M: Message>(method: &'static str, message: &M) -> Case {
    (method, message.encode_to_vec())
}

/// Bytes as a message: what is sent is what was encoded.
#[derive(Clone, Default, Debug)]
struct Raw(Vec<u8>);

impl Message for Raw {
    fn encode_raw(&self, buffer: &mut impl bytes::BufMut) {
        buffer.put_slice(&self.0);
    }

    fn merge_field(
        &mut self,
        tag: u32,
        wire_type: prost::encoding::WireType,
        buffer: &mut impl bytes::Buf,
        context: prost::encoding::DecodeContext,
    ) -> Result<(), prost::DecodeError> {
        prost::encoding::skip_field(wire_type, tag, buffer, context)
    }

    fn encoded_len(&self) -> usize {
        self.0.len()
    }

    fn clear(&mut self) {
        self.0.clear();
    }
}

async fn send(client: &Client, (method, bytes): &Case) -> Result<(), Status> {
    let answer: Result<Raw, _> = client.call(method, Raw(bytes.clone())).await;
    answer.map(drop)
}

fn map(key: &str, value: &str) -> BTreeMap<String, String> {
    BTreeMap::from([(key.to_owned(), value.to_owned())])
}

fn capability() -> VolumeCapability {
    VolumeCapability {
        access_mode: Some(AccessMode { mode: 1 }),
        access_type: Some(AccessType::Mount(MountVolume::default())),
    }
}

fn with_flags(text: &str) -> VolumeCapability {
    VolumeCapability {
        access_type: Some(AccessType::Mount(MountVolume {
            mount_flags: vec![text.to_owned()],
            ..Default::default()
        })),
        ..capability()
    }
}

fn creation() -> CreateVolumeRequest {
    CreateVolumeRequest {
        name: "v".to_owned(),
        volume_capabilities: vec![capability()],
        ..Default::default()
    }
}

fn from(kind: Type) -> CreateVolumeRequest {
    CreateVolumeRequest {
        volume_content_source: Some(VolumeContentSource { r#type: Some(kind) }),
        ..creation()
    }
}

/// Every place of every request that takes a text, with `text` in it.
fn everywhere(text: &str, target: &Path) -> Vec<Case> {
    let id = || text.to_owned();
    let below = || format!("{}/{text}", target.display());
    let publish = publish_request("v", target, Mode::SingleNodeWriter);
    let mut cases = vec![
        case(
            "Controller/CreateVolume",
            &CreateVolumeRequest {
                name: id(),
                ..creation()
            },
        ),
        case(
            "Controller/CreateVolume",
            &CreateVolumeRequest {
                volume_capabilities: vec![with_flags(text)],
                ..creation()
            },
        ),
        case(
            "Controller/CreateVolume",
            &from(Type::Snapshot(SnapshotSource { snapshot_id: id() })),
        ),
        case(
            "Controller/CreateVolume",
            &from(Type::Volume(VolumeSource { volume_id: id() })),
        ),
        case(
            "Controller/CreateVolume",
            &CreateVolumeRequest {
                parameters: map(text, "x"),
                ..creation()
            },
        ),
        case(
            "Controller/CreateVolume",
            &CreateVolumeRequest {
                mutable_parameters: map("uid", text),
                ..creation()
            },
        ),
        case(
            "Controller/DeleteVolume",
            &DeleteVolumeRequest {
                volume_id: id(),
                ..Default::default()
            },
        ),
        case(
            "Controller/ControllerGetVolume",
            &ControllerGetVolumeRequest { volume_id: id() },
        ),
        case(
            "Controller/ControllerExpandVolume",
            &ControllerExpandVolumeRequest {
                volume_id: id(),
                capacity_range: Some(CapacityRange {
                    required_bytes: 1,
                    limit_bytes: 0,
                }),
                ..Default::default()
            },
        ),
        case(
            "Controller/ControllerModifyVolume",
            &ControllerModifyVolumeRequest {
                volume_id: id(),
                mutable_parameters: map("uid", "1"),
                ..Default::default()
            },
        ),
        case(
            "Controller/ValidateVolumeCapabilities",
            &ValidateVolumeCapabilitiesRequest {
                volume_id: id(),
                volume_capabilities: vec![capability()],
                ..Default::default()
            },
        ),
        case(
            "Controller/CreateSnapshot",
            &CreateSnapshotRequest {
                name: "s".to_owned(),
                source_volume_id: id(),
                ..Default::default()
            },
        ),
        case(
            "Controller/CreateSnapshot",
            &CreateSnapshotRequest {
                name: id(),
                source_volume_id: "x".to_owned(),
                ..Default::default()
            },
        ),
        case(
            "Controller/DeleteSnapshot",
            &DeleteSnapshotRequest {
                snapshot_id: id(),
                ..Default::default()
            },
        ),
        case(
            "Controller/GetSnapshot",
            &GetSnapshotRequest {
                snapshot_id: id(),
                ..Default::default()
            },
        ),
        case(
            "Controller/ListSnapshots",
            &ListSnapshotsRequest {
                snapshot_id: id(),
                ..Default::default()
            },
        ),
        case(
            "Controller/ListSnapshots",
            &ListSnapshotsRequest {
                source_volume_id: id(),
                ..Default::default()
            },
        ),
        case(
            "Controller/ListSnapshots",
            &ListSnapshotsRequest {
                starting_token: id(),
                ..Default::default()
            },
        ),
        case(
            "Controller/ListVolumes",
            &ListVolumesRequest {
                starting_token: id(),
                ..Default::default()
            },
        ),
        case(
            "Node/NodePublishVolume",
            &NodePublishVolumeRequest {
                volume_id: id(),
                ..publish.clone()
            },
        ),
        case(
            "Node/NodePublishVolume",
            &NodePublishVolumeRequest {
                target_path: below(),
                ..publish.clone()
            },
        ),
        case(
            "Node/NodePublishVolume",
            &NodePublishVolumeRequest {
                volume_capability: Some(with_flags(text)),
                ..publish.clone()
            },
        ),
        case(
            "Node/NodeUnpublishVolume",
            &NodeUnpublishVolumeRequest {
                volume_id: id(),
                target_path: target.display().to_string(),
            },
        ),
        case(
            "Node/NodeUnpublishVolume",
            &NodeUnpublishVolumeRequest {
                volume_id: "v".to_owned(),
                target_path: below(),
            },
        ),
        case(
            "Node/NodeGetVolumeStats",
            &NodeGetVolumeStatsRequest {
                volume_id: id(),
                volume_path: target.display().to_string(),
                ..Default::default()
            },
        ),
        case(
            "Node/NodeGetVolumeStats",
            &NodeGetVolumeStatsRequest {
                volume_id: "v".to_owned(),
                volume_path: below(),
                ..Default::default()
            },
        ),
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
        cases.push(case(
            "Controller/CreateVolume",
            &CreateVolumeRequest {
                parameters,
                ..creation()
            },
        ));
        let parameters = map(key, text);
        cases.push(case(
            "Controller/GetCapacity",
            &GetCapacityRequest {
                parameters,
                ..Default::default()
            },
        ));
        let mut publish = publish.clone();
        publish
            .volume_context
            .insert(key.to_owned(), text.to_owned());
        cases.push(case("Node/NodePublishVolume", &publish));
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
    let flags = if cfg!(feature = "migration") {
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
                assert!(fine, "{}: {} bytes were fine", case.0, text.len());
                if case.0 == "Node/NodePublishVolume" {
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
                case.0
            );
            assert!(status.message().len() < 16_000, "{}: {start:?}", case.0);
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
        &case(
            "Controller/CreateVolume",
            &CreateVolumeRequest {
                name: "last".into(),
                ..creation()
            },
        ),
    )
    .await
    .unwrap();
}

/// In every secret, token and option value here.
const SECRET: &str = "hunter2";

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
        let driver = rig.driver_with(&["-v", "--log-format", format]);
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
            case(
                "Controller/CreateVolume",
                &CreateVolumeRequest {
                    secrets: secrets(),
                    ..creation()
                },
            ),
            case(
                "Controller/CreateVolume",
                &CreateVolumeRequest {
                    name: "new".into(),
                    secrets: map("other", SECRET),
                    ..creation()
                },
            ),
            case(
                "Controller/DeleteVolume",
                &DeleteVolumeRequest {
                    volume_id: volume_id(),
                    secrets: secrets(),
                },
            ),
            case(
                "Controller/ControllerExpandVolume",
                &ControllerExpandVolumeRequest {
                    volume_id: volume_id(),
                    capacity_range: Some(CapacityRange {
                        required_bytes: 1,
                        limit_bytes: 0,
                    }),
                    secrets: secrets(),
                    ..Default::default()
                },
            ),
            case(
                "Controller/ControllerModifyVolume",
                &ControllerModifyVolumeRequest {
                    volume_id: volume_id(),
                    secrets: secrets(),
                    mutable_parameters: map("uid", "1"),
                },
            ),
            case(
                "Controller/ValidateVolumeCapabilities",
                &ValidateVolumeCapabilitiesRequest {
                    volume_id: volume_id(),
                    volume_capabilities: vec![capability()],
                    secrets: secrets(),
                    ..Default::default()
                },
            ),
            case(
                "Controller/CreateSnapshot",
                &CreateSnapshotRequest {
                    name: "s".into(),
                    source_volume_id: volume_id(),
                    secrets: secrets(),
                    ..Default::default()
                },
            ),
            case(
                "Controller/DeleteSnapshot",
                &DeleteSnapshotRequest {
                    snapshot_id: snapshot_id(),
                    secrets: secrets(),
                },
            ),
            case(
                "Controller/GetSnapshot",
                &GetSnapshotRequest {
                    snapshot_id: snapshot_id(),
                    secrets: secrets(),
                },
            ),
            case(
                "Controller/ListSnapshots",
                &ListSnapshotsRequest {
                    secrets: secrets(),
                    ..Default::default()
                },
            ),
            case(
                "Controller/ControllerPublishVolume",
                &ControllerPublishVolumeRequest {
                    volume_id: volume_id(),
                    secrets: secrets(),
                    ..Default::default()
                },
            ),
            case(
                "Controller/ControllerUnpublishVolume",
                &ControllerUnpublishVolumeRequest {
                    volume_id: volume_id(),
                    secrets: secrets(),
                    ..Default::default()
                },
            ),
            case(
                "Node/NodeStageVolume",
                &NodeStageVolumeRequest {
                    volume_id: volume_id(),
                    staging_target_path: target.display().to_string(),
                    volume_capability: Some(capability()),
                    secrets: secrets(),
                    volume_context: odd.volume_context.clone(),
                    ..Default::default()
                },
            ),
            case(
                "Node/NodeExpandVolume",
                &NodeExpandVolumeRequest {
                    volume_id: volume_id(),
                    volume_path: target.display().to_string(),
                    secrets: secrets(),
                    ..Default::default()
                },
            ),
            case("Node/NodePublishVolume", &odd),
            case("Node/NodePublishVolume", &publish),
        ];
        let mut fine = 0;
        for case in &cases {
            match send(&client, case).await {
                Ok(()) => fine += 1,
                Err(status) => {
                    let told = format!("{status:?}");
                    assert!(!told.contains(SECRET), "{}: {told}", case.0);
                }
            }
        }
        assert!(
            fine >= 2,
            "a call that works tells nothing either: {:#?}",
            driver.log()
        );
        client.unpublish("v", &target).await.unwrap();
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

async fn create(client: &Client, name: &str) -> Volume {
    let request = CreateVolumeRequest {
        name: name.to_owned(),
        ..creation()
    };
    let reply: CreateVolumeResponse = client
        .call("Controller/CreateVolume", request)
        .await
        .unwrap();
    reply.volume.unwrap()
}

async fn delete(client: &Client, volume_id: &str) -> Result<(), Status> {
    let request = DeleteVolumeRequest {
        volume_id: volume_id.to_owned(),
        ..Default::default()
    };
    let reply: Result<DeleteVolumeResponse, _> =
        client.call("Controller/DeleteVolume", request).await;
    reply.map(drop)
}

async fn snapshot(client: &Client, name: &str, volume_id: &str) -> Result<Snapshot, Status> {
    let request = CreateSnapshotRequest {
        name: name.to_owned(),
        source_volume_id: volume_id.to_owned(),
        ..Default::default()
    };
    loop {
        let reply: CreateSnapshotResponse = client
            .call("Controller/CreateSnapshot", request.clone())
            .await?;
        match reply.snapshot.unwrap() {
            made if made.ready_to_use => return Ok(made),
            _ => {}
        }
    }
}

/// Mounts the folder of the secret at `path` where the driver is.
fn plant(rig: &Rig, path: &str) -> bool {
    let mut mount = rig.command("mount");
    mount
        .arg("--bind")
        .arg(rig.path("secrets"))
        .arg(rig.path(path));
    mount.output().unwrap().status.success()
}

fn uproot(rig: &Rig, path: &str) {
    let _ = rig.command("umount").arg(rig.path(path)).output();
}

fn secret_is_safe(rig: &Rig) {
    assert_eq!(
        std::fs::read(rig.path("secrets/deep/secret")).unwrap(),
        SECRET.as_bytes()
    );
    let copied = std::process::Command::new("grep")
        .args(["-rl", SECRET])
        .arg(rig.path("export"))
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&copied.stdout), "", "it was copied");
}

fn secret(rig: &Rig) {
    std::fs::create_dir_all(rig.path("secrets/deep")).unwrap();
    std::fs::write(rig.path("secrets/deep/secret"), SECRET).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn what_is_mounted_in_a_volume_is_neither_copied_nor_deleted() {
    let rig = Rig::new();
    secret(&rig);
    let _driver = rig.driver();
    let client = Client::connect(&rig).await;
    let volume = create(&client, "v").await;
    std::fs::create_dir_all(rig.path("export/v/a/mounted")).unwrap();
    std::fs::write(rig.path("export/v/a/file"), "").unwrap();
    assert!(plant(&rig, "export/v/a/mounted"));
    assert!(rig.inside("export/v/a/mounted/deep/secret").exists());
    snapshot(&client, "s", &volume.volume_id).await.unwrap();
    let source = Type::Volume(VolumeSource {
        volume_id: volume.volume_id.clone(),
    });
    let clone = CreateVolumeRequest {
        name: "clone".into(),
        ..from(source)
    };
    send(&client, &case("Controller/CreateVolume", &clone))
        .await
        .unwrap();
    assert!(rig.path("export/clone/a/file").exists());
    assert_eq!(
        std::fs::read_dir(rig.path("export/clone/a/mounted"))
            .unwrap()
            .count(),
        0
    );
    secret_is_safe(&rig);
    delete(&client, &volume.volume_id).await.unwrap();
    assert!(!rig.path("export/v").exists());
    // The volume's own folder, and one above it.
    for (name, sub_dir, planted) in [
        ("own", "own", "export/own"),
        ("above", "team/above", "export/team"),
    ] {
        let request = CreateVolumeRequest {
            name: name.to_owned(),
            parameters: map("subDir", sub_dir),
            ..creation()
        };
        let reply: CreateVolumeResponse = client
            .call("Controller/CreateVolume", request)
            .await
            .unwrap();
        let volume = reply.volume.unwrap();
        assert!(plant(&rig, planted));
        let status = delete(&client, &volume.volume_id).await.unwrap_err();
        assert!(
            matches!(status.code(), Code::FailedPrecondition | Code::Unavailable),
            "{status}"
        );
        assert!(
            snapshot(&client, &format!("s-{name}"), &volume.volume_id)
                .await
                .is_err()
        );
        secret_is_safe(&rig);
        uproot(&rig, planted);
        delete(&client, &volume.volume_id).await.unwrap();
    }
    secret_is_safe(&rig);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_mount_that_comes_and_goes_is_neither_copied_nor_deleted() {
    let rig = Rig::new();
    secret(&rig);
    let _driver = rig.driver();
    let client = Client::connect(&rig).await;
    let stop = AtomicBool::new(false);
    // As many rounds as there is time for in a test; each lets the mount strike at another moment.
    let attack = || {
        let mut count = 0;
        while !stop.load(Ordering::Relaxed) {
            count += usize::from(plant(&rig, "export/v/m"));
            uproot(&rig, "export/v/m");
        }
        count
    };
    let struck = std::thread::scope(|scope| {
        let attacker = scope.spawn(attack);
        let calls = async {
            for round in 0..12 {
                let volume = create(&client, "v").await;
                std::fs::create_dir_all(rig.path("export/v/m/x")).ok();
                for n in 0..200 {
                    std::fs::write(rig.path(&format!("export/v/{n}")), "").unwrap();
                }
                // Refused, or made without what is mounted.
                let _ = snapshot(&client, &format!("s{round}"), &volume.volume_id).await;
                while let Err(status) = delete(&client, &volume.volume_id).await {
                    assert!(
                        matches!(
                            status.code(),
                            Code::FailedPrecondition | Code::Unavailable | Code::Aborted
                        ),
                        "{status}"
                    );
                }
            }
        };
        tokio::task::block_in_place(|| tokio::runtime::Handle::current().block_on(calls));
        stop.store(true, Ordering::Relaxed);
        attacker.join().unwrap()
    });
    assert!(struck > 0, "the attack has never come to pass");
    secret_is_safe(&rig);
}
