//! Mounts that a tenant plants in a volume while the driver copies or deletes it.

use super::*;
use crate::rig::patience::Patience;
use crate::rig::{Client, Rig};
use std::sync::atomic::AtomicUsize;

async fn create(client: &Client, name: &str) -> Volume {
    let request = CreateVolumeRequest {
        name: name.to_owned(),
        ..creation()
    };
    let reply = client.call(request).await.unwrap();
    reply.volume.unwrap()
}

async fn delete(client: &Client, volume_id: &str) -> Result<(), Status> {
    let request = DeleteVolumeRequest {
        volume_id: volume_id.to_owned(),
        ..Default::default()
    };
    client.call(request).await.map(drop)
}

async fn snapshot(client: &Client, name: &str, volume_id: &str) -> Result<Snapshot, Status> {
    let request = CreateSnapshotRequest {
        name: name.to_owned(),
        source_volume_id: volume_id.to_owned(),
        ..Default::default()
    };
    Ok(client.call(request).await?.snapshot.unwrap())
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
    send(&client, &case(&clone)).await.unwrap();
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
        let reply = client.call(request).await.unwrap();
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
        // Nothing was begun, so it is whole, and goes whole.
        assert!(rig.path("export").join(sub_dir).is_dir());
        snapshot(&client, &format!("t-{name}"), &volume.volume_id)
            .await
            .unwrap();
        delete(&client, &volume.volume_id).await.unwrap();
        assert!(!rig.path("export").join(sub_dir).exists());
    }
    secret_is_safe(&rig);
}

/// As a crash leaves it once the record says deleting.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_deletion_that_goes_on_waits_for_a_mount_on_the_folder() {
    use std::os::unix::fs::MetadataExt;
    let rig = Rig::new();
    secret(&rig);
    let _driver = rig.driver();
    let client = Client::connect(&rig).await;
    let request = CreateVolumeRequest {
        name: "cut".to_owned(),
        parameters: map("subDir", "cut"),
        ..creation()
    };
    let volume = client.call(request).await.unwrap().volume.unwrap();
    let (_, tokens) = volume.volume_id.rsplit_once('#').unwrap();
    let tokens: Vec<&str> = tokens.split('.').collect();
    let record = |generation: u64| {
        let (key, nonce) = (tokens[1], tokens[2]);
        rig.path(&format!(
            "export/.csi-nfs/volumes/{key}/{nonce}.{generation}"
        ))
    };
    let text = std::fs::read(record(2)).unwrap();
    let mut json: serde_json::Value = serde_json::from_slice(&text).unwrap();
    json["state"] = "deleting".into();
    json["generation"] = 3.into();
    let inode = rig.path("export/cut").metadata().unwrap().ino();
    json["leaving"] = serde_json::json!({ "inode": inode });
    std::fs::write(record(3), json.to_string()).unwrap();
    assert!(plant(&rig, "export/cut"));
    let status = delete(&client, &volume.volume_id).await.unwrap_err();
    assert_eq!(status.code(), Code::FailedPrecondition, "{status}");
    uproot(&rig, "export/cut");
    delete(&client, &volume.volume_id).await.unwrap();
    assert!(!rig.path("export/cut").exists());
    secret_is_safe(&rig);
}

/// Ends the attack, also when the test fails.
struct Stopping<'a>(&'a AtomicBool);

impl Drop for Stopping<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_mount_that_comes_and_goes_is_neither_copied_nor_deleted() {
    let rig = Rig::new();
    secret(&rig);
    let _driver = rig.driver();
    let client = Client::connect(&rig).await;
    let stop = AtomicBool::new(false);
    // Each round lets the mount strike at another moment.
    let struck = AtomicUsize::new(0);
    let attack = || {
        while !stop.load(Ordering::Relaxed) {
            struck.fetch_add(usize::from(plant(&rig, "export/v/m")), Ordering::Relaxed);
            uproot(&rig, "export/v/m");
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(attack);
        let stopping = Stopping(&stop);
        let calls = async {
            let mut patience = Patience::default();
            for round in 0.. {
                // On a busy machine a mount may take as long as a round.
                if round >= 12 && struck.load(Ordering::Relaxed) > 0 {
                    break;
                }
                assert!(patience.lasts(), "the attack has never come to pass");
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
        drop(stopping);
    });
    secret_is_safe(&rig);
}
