//! Our driver in the place of kubernetes-csi's: it mounts that driver's volumes, gives them owner and mode, deletes them.

use crate::rig::{Client, Rig, publish_request};
use csi_proto::v1::volume_capability::access_mode::Mode;
use csi_proto::v1::*;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use tonic::Code;

const FLAGS: [&str; 4] = [
    "--driver-name",
    "nfs.csi.k8s.io",
    "--migrate-from",
    "csi-driver-nfs",
];

fn make_volume(rig: &Rig, name: &str) -> std::path::PathBuf {
    let folder = rig.path("export").join(name);
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::set_permissions(&folder, PermissionsExt::from_mode(0o755)).unwrap();
    std::fs::write(folder.join("file"), name).unwrap();
    folder
}

fn mode(path: &std::path::Path) -> u32 {
    path.metadata().unwrap().mode() & 0o7777
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn volumes_are_published_as_their_attributes_say() {
    let rig = Rig::new();
    let folder = make_volume(&rig, "team/data");
    let _driver = rig.driver_with(&FLAGS);
    let client = Client::connect(&rig).await;
    let target = rig.path("target");
    // A static volume: its id is anything, and the attributes carry all.
    let id = &format!("made up by somebody, {}", "long ".repeat(60));
    let mut request = publish_request(id, &target, Mode::MultiNodeMultiWriter);
    request.volume_context = [
        ("server", "server"),
        ("share", "/"),
        ("subdir", "team/${pvc.metadata.name}"),
        ("csi.storage.k8s.io/pvc/name", "data"),
        ("mountPermissions", "0770"),
    ]
    .map(|(key, value)| (key.to_owned(), value.to_owned()))
    .into();
    client.publish(request.clone()).await.unwrap();
    assert_eq!(
        std::fs::read_to_string(rig.inside("target/file")).unwrap(),
        "team/data"
    );
    assert_eq!(mode(&folder), 0o770);
    let mounts = rig.mounts("target");
    assert!(
        !mounts[0].contains("nosuid") && !mounts[0].contains("nodev"),
        "{mounts:?}"
    );
    // A repeat does what the first one could not, or what was undone since.
    std::fs::set_permissions(&folder, PermissionsExt::from_mode(0o700)).unwrap();
    client.publish(request.clone()).await.unwrap();
    assert_eq!(mode(&folder), 0o770);
    let stats = NodeGetVolumeStatsRequest {
        volume_id: id.clone(),
        volume_path: target.display().to_string(),
        ..Default::default()
    };
    let reply = client.call(stats).await.unwrap();
    assert!(!reply.volume_condition.unwrap().abnormal);
    client.unpublish(id, &target).await.unwrap();
    assert!(rig.mounts("target").is_empty());

    // Who may only read changes nothing; nor does anybody change the share's own folder.
    let mut reader = request.clone();
    reader.readonly = true;
    reader
        .volume_context
        .insert("mountPermissions".into(), "0777".into());
    client.publish(reader).await.unwrap();
    assert_eq!(mode(&folder), 0o770);
    client.unpublish(id, &target).await.unwrap();
    let before = mode(&rig.path("export"));
    let mut whole = request.clone();
    whole.volume_context.remove("subdir");
    whole
        .volume_context
        .insert("mountPermissions".into(), "0777".into());
    client.publish(whole).await.unwrap();
    assert_eq!(mode(&rig.path("export")), before);
    client.unpublish(id, &target).await.unwrap();
    for (key, value) in [
        ("subdir", "${pv.metadata.name}"),
        ("subdir", "../etc"),
        ("mountPermissions", "rw"),
    ] {
        let mut wrong = request.clone();
        wrong.volume_context.insert(key.into(), value.into());
        let status = client.publish(wrong).await.unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument, "{status}");
    }
    assert!(rig.mounts("target").is_empty());
}

fn new_volume(name: &str, parameters: &[(&str, &str)]) -> CreateVolumeRequest {
    let given = [("server", "server"), ("share", "/")];
    let given = given.iter().chain(parameters);
    let given = given.map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
    let publish = publish_request("v", std::path::Path::new("/t"), Mode::MultiNodeMultiWriter);
    CreateVolumeRequest {
        name: name.to_owned(),
        volume_capabilities: publish.volume_capability.into_iter().collect(),
        parameters: given.collect(),
        ..Default::default()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn the_mode_of_the_whole_driver_counts_last() {
    let rig = Rig::new();
    let folder = make_volume(&rig, "data");
    let mut flags = FLAGS.to_vec();
    flags.extend(["--mount-permissions", "0770"]);
    let _driver = rig.driver_with(&flags);
    let client = Client::connect(&rig).await;
    let target = rig.path("target");
    let mut request = publish_request("static", &target, Mode::MultiNodeMultiWriter);
    for (attribute, expected) in [(None, 0o770), (Some("0"), 0o755), (Some("0711"), 0o711)] {
        std::fs::set_permissions(&folder, PermissionsExt::from_mode(0o755)).unwrap();
        let given = [("server", "server"), ("share", "/"), ("subdir", "data")];
        let given = given
            .into_iter()
            .chain(attribute.map(|it| ("mountPermissions", it)));
        let given = given.map(|(key, value)| (key.to_owned(), value.to_owned()));
        request.volume_context = given.collect();
        client.publish(request.clone()).await.unwrap();
        assert_eq!(mode(&folder), expected, "{attribute:?}");
        client.unpublish("static", &target).await.unwrap();
    }
    // A volume of this driver has what it was made with, also when it is published.
    for (name, parameters, expected) in [
        ("silent", &[][..], 0o770),
        ("own", &[("mountPermissions", "0700")], 0o700),
    ] {
        let made = client.call(new_volume(name, parameters)).await.unwrap();
        let volume = made.volume.unwrap();
        let folder = rig.path("export").join(&volume.volume_context["subDir"]);
        let id = &volume.volume_id;
        let mut request = publish_request(id, &target, Mode::MultiNodeMultiWriter);
        request.volume_context = volume.volume_context.clone();
        client.publish(request).await.unwrap();
        assert_eq!(mode(&folder), expected, "{name}");
        client.unpublish(id, &target).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn volumes_are_deleted_by_their_ids_and_not_without_the_flag() {
    let rig = Rig::new();
    let folder = make_volume(&rig, "pvc-1");
    let delete = |id: &str| DeleteVolumeRequest {
        volume_id: id.to_owned(),
        ..Default::default()
    };
    let call =
        |client: Client, id: &'static str| async move { client.call(delete(id)).await.map(drop) };
    let driver = rig.driver_with(&FLAGS[..2]);
    let status = call(Client::connect(&rig).await, "server##pvc-1##")
        .await
        .unwrap_err();
    assert_eq!(status.code(), Code::FailedPrecondition);
    assert!(
        status.message().contains("--migrate-from csi-driver-nfs"),
        "{status}"
    );
    assert!(folder.exists());
    driver.kill();

    let mut flags = FLAGS.to_vec();
    // The second is what the first was called.
    for flag in ["--default-ondelete-policy", "--migrate-on-delete"] {
        flags.truncate(FLAGS.len());
        flags.extend([flag, "retain"]);
        let driver = rig.driver_with(&flags);
        let client = Client::connect(&rig).await;
        call(client.clone(), "server##pvc-1##").await.unwrap();
        assert!(folder.exists(), "the default that the flag says");
        let status = call(client.clone(), "server##../../etc##delete").await;
        let status = status.unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument, "{status}");
        // So are new volumes whose class does not say.
        let made = client.call(new_volume(flag, &[])).await.unwrap();
        let volume = made.volume.unwrap();
        let kept = rig.path("export").join(&volume.volume_context["subDir"]);
        let request = DeleteVolumeRequest {
            volume_id: volume.volume_id,
            ..Default::default()
        };
        client.call(request).await.unwrap();
        assert!(kept.exists(), "{flag}");
        driver.kill();
    }

    let _driver = rig.driver_with(&FLAGS);
    call(Client::connect(&rig).await, "server##pvc-1##")
        .await
        .unwrap();
    assert!(!folder.exists());
}

/// What is mounted in it may be a share, and would go with it from its place.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_folder_in_which_something_is_mounted_stays() {
    let rig = Rig::new();
    let folder = make_volume(&rig, "pvc-1");
    std::fs::create_dir_all(folder.join("a/mounted")).unwrap();
    let _driver = rig.driver_with(&FLAGS);
    let client = Client::connect(&rig).await;
    let delete = || {
        client.call(DeleteVolumeRequest {
            volume_id: "server##pvc-1##".to_owned(),
            ..Default::default()
        })
    };
    let mounted = rig.path("export/pvc-1/a/mounted");
    let mut mount = rig.command("mount");
    mount.args(["-t", "tmpfs", "none"]).arg(&mounted);
    assert!(mount.status().unwrap().success());
    let status = delete().await.unwrap_err();
    assert_eq!(status.code(), Code::FailedPrecondition, "{status}");
    assert!(status.message().contains("a/mounted"), "{status}");
    assert!(folder.join("file").exists());
    let unmounted = rig.command("umount").arg(&mounted).status();
    assert!(unmounted.unwrap().success());
    delete().await.unwrap();
    assert!(!folder.exists());
}
