//! Texts without end, and with anything in them, in every text field of every request.
//!
//! The fields come from the descriptors. Each text goes into each of them in turn, on a request that is valid without it; into
//! those of the node's service with and without `--stage`. Here is what makes a request valid, and what takes back what it made.

use super::places::{fields, fields_with, places};
use super::*;
use crate::placed::plain;
use crate::rig::patience::Patience;
use crate::rig::{Client, Driver, Rig, publish_request, stage_request};
use csi_nfs::calls::limits::MAX_MAP;
use csi_nfs::calls::parameters::{KNOWN, MUTABLE, OF_SNAPSHOTS};
use csi_proto::schema::Field;
use csi_proto::tables::METHODS;
use serde_json::{Value as Json, json};
use std::collections::BTreeSet;
use std::path::PathBuf;

/// As many bytes as a text may have that is to be answered at all.
const MEGABYTE: usize = 1 << 20;

/// More than any field may hold.
fn long() -> Vec<String> {
    vec![
        "x".repeat(MEGABYTE),
        "../".repeat(MEGABYTE / 3),
        "server#".repeat(MEGABYTE / 7),
        "a=b,".repeat(MEGABYTE / 4),
        (0..150_000).map(|n| format!("o{n},")).collect(),
        "\0".repeat(MAX_MAP + 1),
        "\u{1b}[2J\u{202e}".repeat(1000),
    ]
}

fn odd() -> Vec<String> {
    [
        "\0",
        "a\0b",
        "a\nb\rc",
        "../../../../etc/passwd",
        "server##../../etc##",
        "..",
        "/",
        "-rf",
    ]
    .map(str::to_owned)
    .into()
}

/// The keys of a map that a driver may read.
fn keys(field: &Field) -> Vec<&'static str> {
    let known = match field.name {
        "parameters" | "volume_context" => [&KNOWN[..], &OF_SNAPSHOTS[..]].concat(),
        "mutable_parameters" => MUTABLE.to_vec(),
        "secrets" => vec!["mountOptions"],
        _ => Vec::new(),
    };
    let mut keys: Vec<_> = BTreeSet::from_iter(known).into_iter().collect();
    keys.push("unknown");
    keys
}

/// A driver with a volume and a snapshot of it, which is staged where it can be. All but that is left as it is found.
struct Scene {
    rig: Rig,
    driver: Driver,
    client: Client,
    stage: bool,
    volume: Volume,
    snapshot: String,
}

impl Scene {
    async fn new(stage: bool) -> Self {
        let rig = Rig::new();
        for folder in ["targets", "staging", "other-staging"] {
            std::fs::create_dir(rig.path(folder)).unwrap();
        }
        let mut flags = vec!["--log-level", "debug", "--allow-server", "server"];
        // The driver inside `csi` knows no ids of kubernetes-csi's driver, and its build may lack them here too.
        if cfg!(feature = "upstream") {
            flags.extend(["--driver-name", "nfs.csi.k8s.io"]);
            flags.extend(["--migrate-from", "csi-driver-nfs"]);
        }
        if stage {
            flags.push("--stage");
        }
        let driver = rig.driver_with(&flags);
        let client = Client::connect(&rig).await;
        let volume = create(&client, "kept").await;
        let snapshot = snapshot(&client, "kept", &volume.volume_id).await;
        let scene = Self {
            rig,
            driver,
            client,
            stage,
            volume,
            snapshot,
        };
        if stage {
            scene.client.stage(scene.staged("staging")).await.unwrap();
        }
        scene
    }

    fn path(&self, name: &str) -> String {
        self.rig.path(name).display().to_string()
    }

    fn published(&self, target: &str) -> NodePublishVolumeRequest {
        let target = self.rig.path(target);
        let mut request =
            publish_request(&self.volume.volume_id, &target, Mode::MultiNodeMultiWriter);
        request.volume_context = self.volume.volume_context.clone();
        if self.stage {
            request.staging_target_path = self.path("staging");
        }
        request
    }

    fn staged(&self, staging: &str) -> NodeStageVolumeRequest {
        stage_request(&mut self.published("targets/new"), &self.rig.path(staging))
    }

    /// A request that the driver answers with OK, after what must be there for it has been made; none for an RPC that the
    /// driver has not.
    async fn valid(&self, name: &str) -> Option<Json> {
        let id = &self.volume.volume_id;
        let mount = json!({"accessMode": {"mode": "MULTI_NODE_MULTI_WRITER"}, "mount": {}});
        let parameters = json!({"server": "server", "share": "/"});
        let request = match name {
            "GetPluginInfo"
            | "GetPluginCapabilities"
            | "Probe"
            | "ControllerGetCapabilities"
            | "NodeGetCapabilities"
            | "NodeGetInfo"
            | "ListVolumes"
            | "ListSnapshots" => json!({}),
            "CreateVolume" => {
                json!({"name": "new", "volumeCapabilities": [mount], "parameters": parameters})
            }
            "DeleteVolume" => {
                json!({"volumeId": create(&self.client, "doomed").await.volume_id})
            }
            "ControllerGetVolume" => json!({"volumeId": id}),
            "ControllerExpandVolume" => {
                json!({"volumeId": id, "capacityRange": {"requiredBytes": 1}})
            }
            "ControllerModifyVolume" => {
                json!({"volumeId": id, "mutableParameters": {"onDelete": "delete"}})
            }
            "ValidateVolumeCapabilities" => {
                let context = &self.volume.volume_context;
                json!({"volumeId": id, "volumeCapabilities": [mount], "volumeContext": context})
            }
            "GetCapacity" => json!({"parameters": parameters}),
            "CreateSnapshot" => json!({"name": "new", "sourceVolumeId": id}),
            "DeleteSnapshot" => {
                let doomed = snapshot(&self.client, "doomed", id).await;
                json!({"snapshotId": doomed})
            }
            "GetSnapshot" => json!({"snapshotId": self.snapshot}),
            "NodePublishVolume" => {
                let mut request = json!({
                    "volumeId": id,
                    "targetPath": self.path("targets/new"),
                    "volumeCapability": mount,
                    "volumeContext": self.volume.volume_context,
                });
                if self.stage {
                    request["stagingTargetPath"] = self.path("staging").into();
                }
                request
            }
            "NodeUnpublishVolume" | "NodeGetVolumeStats" => {
                let request = self.published("targets/kept");
                self.client.publish(request).await.unwrap();
                let key = match name {
                    "NodeGetVolumeStats" => "volumePath",
                    _ => "targetPath",
                };
                json!({"volumeId": id, key: self.path("targets/kept")})
            }
            "NodeStageVolume" if self.stage => json!({
                "volumeId": id,
                "stagingTargetPath": self.path("other-staging"),
                "volumeCapability": mount,
                "volumeContext": self.volume.volume_context,
            }),
            "NodeUnstageVolume" if self.stage => {
                let request = self.staged("other-staging");
                self.client.stage(request).await.unwrap();
                json!({"volumeId": id, "stagingTargetPath": self.path("other-staging")})
            }
            _ => return None,
        };
        Some(request)
    }

    /// Takes back what a request has made that was answered with OK.
    async fn undo(&self, (method, bytes): &Case) {
        match method.name {
            "CreateVolume" => {
                for id in self.volumes().await {
                    if id != self.volume.volume_id {
                        delete(&self.client, &id).await;
                    }
                }
            }
            "CreateSnapshot" => {
                for id in self.snapshots().await {
                    if id != self.snapshot {
                        delete_snapshot(&self.client, &id).await;
                    }
                }
            }
            "NodePublishVolume" => {
                let done = NodePublishVolumeRequest::decode(&**bytes).unwrap();
                let target = PathBuf::from(done.target_path);
                self.client
                    .unpublish(&done.volume_id, &target)
                    .await
                    .unwrap();
                // The target goes at the end, whoever made it; this one was a folder before.
                std::fs::create_dir_all(self.rig.path("targets")).unwrap();
            }
            "NodeStageVolume" => {
                let done = NodeStageVolumeRequest::decode(&**bytes).unwrap();
                let staging = PathBuf::from(done.staging_target_path);
                self.client
                    .unstage(&done.volume_id, &staging)
                    .await
                    .unwrap();
                // A staging path is the caller's, before and after.
                if staging != self.rig.path("other-staging") {
                    let _ = std::fs::remove_dir(staging);
                }
            }
            _ => {}
        }
    }

    /// Takes back what [`Scene::valid`] has made for other requests.
    async fn undo_preparations(&self) {
        delete(
            &self.client,
            &create(&self.client, "doomed").await.volume_id,
        )
        .await;
        let id = &self.volume.volume_id;
        delete_snapshot(&self.client, &snapshot(&self.client, "doomed", id).await).await;
        let kept = self.rig.path("targets/kept");
        self.client.unpublish(id, &kept).await.unwrap();
        if self.stage {
            let staging = self.rig.path("other-staging");
            self.client.unstage(id, &staging).await.unwrap();
        }
    }

    async fn volumes(&self) -> Vec<String> {
        let reply = self
            .client
            .call(ListVolumesRequest::default())
            .await
            .unwrap();
        let volumes = reply.entries.into_iter().filter_map(|entry| entry.volume);
        volumes.map(|volume| volume.volume_id).collect()
    }

    async fn snapshots(&self) -> Vec<String> {
        let request = ListSnapshotsRequest::default();
        let reply = self.client.call(request).await.unwrap();
        let snapshots = reply.entries.into_iter().filter_map(|entry| entry.snapshot);
        snapshots.map(|snapshot| snapshot.snapshot_id).collect()
    }

    /// Demands that nothing is there but what [`Scene::new`] has made.
    async fn is_as_before(&self, after: &str) {
        self.undo_preparations().await;
        assert!(
            self.volumes().await.iter().eq([&self.volume.volume_id]),
            "{after}"
        );
        assert!(
            self.snapshots().await.iter().eq([&self.snapshot]),
            "{after}"
        );
        let mounted = if self.stage {
            vec![self.path("staging")]
        } else {
            vec![]
        };
        assert_eq!(self.rig.mount_points(), mounted, "{after}");
        for (folder, expected) in [
            ("export", &[".csi-nfs", "kept"][..]),
            ("targets", &[]),
            ("staging", &[]),
            ("other-staging", &[]),
        ] {
            let names: Vec<String> = names(&self.rig.path(folder))
                .iter()
                .map(|it| plain(it))
                .collect();
            assert_eq!(names, expected, "{folder} {after}");
        }
        let mut left = names(&self.rig.path("."));
        left.retain(|name| !name.starts_with("csi.sock"));
        let made = ["export", "other-staging", "staging", "targets", "work"];
        assert_eq!(left, made, "{after}");
        for (folder, expected) in [("publishes", 0), ("stages", usize::from(self.stage))] {
            let Ok(entries) = std::fs::read_dir(self.rig.path("work").join(folder)) else {
                continue;
            };
            let files = entries.map(|entry| entry.unwrap().path());
            let records = files.filter(|path| path.extension().is_some()).count();
            assert_eq!(records, expected, "{folder} {after}");
        }
    }
}

fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<_> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

async fn create(client: &Client, name: &str) -> Volume {
    let request = CreateVolumeRequest {
        name: name.to_owned(),
        ..creation()
    };
    client.call(request).await.unwrap().volume.unwrap()
}

async fn delete(client: &Client, volume_id: &str) {
    let request = DeleteVolumeRequest {
        volume_id: volume_id.to_owned(),
        ..Default::default()
    };
    client.call(request).await.unwrap();
}

async fn snapshot(client: &Client, name: &str, source_volume_id: &str) -> String {
    let request = CreateSnapshotRequest {
        name: name.to_owned(),
        source_volume_id: source_volume_id.to_owned(),
        ..Default::default()
    };
    let reply = client.call(request).await.unwrap();
    reply.snapshot.unwrap().snapshot_id
}

async fn delete_snapshot(client: &Client, snapshot_id: &str) {
    let request = DeleteSnapshotRequest {
        snapshot_id: snapshot_id.to_owned(),
        ..Default::default()
    };
    client.call(request).await.unwrap();
}

/// Sends each text in each text field of `method`. Returns the fields that were reached.
async fn try_each(scene: &Scene, method: &'static Method) -> BTreeSet<String> {
    let encode = |request: &Json| {
        let bytes = csi_proto::json::encode(method.request, request).unwrap();
        (method, bytes)
    };
    let mut valid = scene.valid(method.name).await;
    let served = valid.is_some();
    let without = encode(valid.as_ref().unwrap_or(&json!({})));
    let answer = send(&scene.client, &without).await;
    let code = answer.map_or_else(|status| status.code(), |()| Code::Ok);
    let expected = if served {
        Code::Ok
    } else {
        Code::Unimplemented
    };
    assert_eq!(
        code, expected,
        "{} without a hostile text: Scene::valid makes a request for each RPC that the driver has",
        method.name
    );
    if served {
        scene.undo(&without).await;
    }
    let mut stale = true;
    let mut reached = BTreeSet::new();
    let (long, odd) = (long(), odd());
    for place in places(method.request, keys) {
        for text in long.iter().chain(&odd) {
            // In the place of what is valid, and behind it.
            for continued in [false, true] {
                if stale {
                    valid = scene.valid(method.name).await;
                    stale = false;
                }
                let mut request = valid.clone().unwrap_or(json!({}));
                let before = place.text(&request);
                let put = match (&before, continued) {
                    (_, false) => text.clone(),
                    (None, true) => break,
                    (Some(before), true) if place.is_path() => {
                        let parent = Path::new(before).parent().unwrap();
                        format!("{}/{text}", parent.display())
                    }
                    (Some(before), true) => format!("{before}{text}"),
                };
                place.put(method.request, &mut request, &put);
                let case = encode(&request);
                if put == ".." {
                    reached.extend(fields_with(method.request, &case.1, &put));
                }
                let start: String = put.chars().take(120).collect();
                let about = format!("{}: {place}: {start:?}, {} bytes", method.name, put.len());
                match send(&scene.client, &case).await {
                    Ok(()) => {
                        assert!(served && put.len() <= MAX_MAP, "{about}: it was fine");
                        scene.undo(&case).await;
                        // It may have ended what the request is about.
                        stale = true;
                    }
                    Err(status) => check(&status, served, &about),
                }
            }
        }
    }
    scene.is_as_before(method.name).await;
    reached
}

/// Demands an answer that a caller can act on.
fn check(status: &Status, served: bool, about: &str) {
    let vague = matches!(
        status.code(),
        Code::Internal | Code::Unknown | Code::Unavailable | Code::Cancelled
    );
    assert!(!vague, "{about}: {status}");
    let is_missing = status.code() == Code::Unimplemented;
    assert_eq!(is_missing, !served, "{about}: {status}");
    assert!(status.message().len() < 16_000, "{about}");
}

async fn no_text_is_too_long_or_too_odd(stage: bool) {
    let scene = Scene::new(stage).await;
    // Whether volumes are staged is the node's business alone.
    let concerned = |method: &&Method| stage || method.service == "Node";
    for method in METHODS.iter().copied().filter(concerned) {
        let reached = try_each(&scene, method).await;
        assert_eq!(reached, fields(method.request), "{}", method.name);
    }
    for line in scene.driver.log() {
        let start: String = line.chars().take(200).collect();
        assert!(line.len() < 40_000, "{} bytes: {start}", line.len());
        assert!(!line.chars().any(char::is_control), "{line:?}");
    }
    // What was deleted is really gone.
    let trash = scene.rig.path("export/.csi-nfs/trash");
    let mut patience = Patience::default();
    while !names(&trash).is_empty() {
        assert!(patience.lasts(), "the trash is not purged");
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn no_text_is_too_long_or_too_odd_without_staging() {
    no_text_is_too_long_or_too_odd(false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn no_text_is_too_long_or_too_odd_with_staging() {
    no_text_is_too_long_or_too_odd(true).await;
}
