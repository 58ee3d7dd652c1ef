//! NodePublishVolume, NodeUnpublishVolume and NodeGetVolumeStats on a local share, in a mount namespace of the test's own.

#![allow(clippy::unwrap_used)]

mod rig;

use csi_proto::v1::volume_capability::access_mode::Mode;
use csi_proto::v1::{
    CreateVolumeRequest, CreateVolumeResponse, DeleteVolumeRequest, DeleteVolumeResponse,
};
use csi_proto::v1::{
    ListVolumesRequest, ListVolumesResponse, NodeGetVolumeStatsRequest, NodeGetVolumeStatsResponse,
    NodePublishVolumeRequest,
};
use rig::{Client, Rig, publish_request, run};
use tonic::{Code, Status};

fn code(result: Result<(), Status>) -> Code {
    result.map_or_else(|status| status.code(), |()| Code::Ok)
}

fn make_volume(rig: &Rig, name: &str) {
    std::fs::create_dir(rig.path("export").join(name)).unwrap();
    std::fs::write(rig.path("export").join(name).join("file"), name).unwrap();
}

async fn stats(
    client: &Client,
    volume: &str,
    path: &std::path::Path,
) -> Result<NodeGetVolumeStatsResponse, Status> {
    let request = NodeGetVolumeStatsRequest {
        volume_id: volume.to_owned(),
        volume_path: path.display().to_string(),
        ..Default::default()
    };
    client.call("Node/NodeGetVolumeStats", request).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_volume_comes_and_goes() {
    let rig = Rig::new();
    make_volume(&rig, "a");
    let _driver = rig.driver();
    let client = Client::connect(&rig).await;
    let target = rig.path("target");
    let request = publish_request("a", &target, Mode::SingleNodeWriter);
    client.publish(request.clone()).await.unwrap();
    assert_eq!(
        std::fs::read_to_string(rig.inside("target/file")).unwrap(),
        "a"
    );
    std::fs::write(rig.inside("target/new"), "x").unwrap();
    assert!(rig.path("export/a/new").exists());
    client.publish(request).await.unwrap();
    assert_eq!(rig.mounts("target").len(), 1);

    let reply = stats(&client, "a", &target).await.unwrap();
    let condition = reply.volume_condition.unwrap();
    assert!(!condition.abnormal && !condition.message.is_empty());
    assert!(
        reply
            .usage
            .iter()
            .all(|usage| usage.total >= usage.used && usage.total > 0)
    );
    assert_eq!(
        stats(&client, "b", &target).await.unwrap_err().code(),
        Code::NotFound
    );
    assert_eq!(
        stats(&client, "a", &rig.path("other"))
            .await
            .unwrap_err()
            .code(),
        Code::NotFound
    );

    client.unpublish("a", &target).await.unwrap();
    client.unpublish("a", &target).await.unwrap();
    assert!(rig.mounts("target").is_empty());
    assert!(!target.exists());
    assert_eq!(
        stats(&client, "a", &target).await.unwrap_err().code(),
        Code::NotFound
    );
    assert_eq!(
        std::fs::read_dir(rig.path("work/publishes"))
            .unwrap()
            .filter(|entry| { entry.as_ref().unwrap().path().extension().is_some() })
            .count(),
        0
    );
    assert!(rig.path("export/a/new").exists());
}

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

/// The flags of the mount at `target`, as mountinfo has them.
fn flags_of(rig: &Rig, target: &str) -> String {
    let mounts = rig.mounts(target);
    assert_eq!(mounts.len(), 1, "{mounts:?}");
    mounts[0].split(' ').nth(5).unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn programs_and_devices_have_no_power_unless_asked_for() {
    let rig = Rig::new();
    // A disk of the share's own, which forbids nothing itself.
    let mut command = rig.command("mount");
    command
        .args(["-t", "tmpfs", "none"])
        .arg(rig.path("export"));
    assert!(run(&mut command).0.success());
    std::fs::create_dir(rig.inside("export/a")).unwrap();
    let _driver = rig.driver_with(&["--deny-mount-option", "noatime"]);
    let client = Client::connect(&rig).await;
    let mode = Mode::MultiNodeMultiWriter;
    for (number, (options, nosuid, nodev)) in [
        ("", true, true),
        ("suid", false, true),
        ("dev", true, false),
        ("suid,dev", false, false),
    ]
    .into_iter()
    .enumerate()
    {
        let target = format!("t{number}");
        let mut request = publish_request("a", &rig.path(&target), mode);
        let context = &mut request.volume_context;
        context.insert("mountOptions".into(), options.into());
        for _ in 0..2 {
            client.publish(request.clone()).await.unwrap();
            let flags = flags_of(&rig, &target);
            let has = |name: &str| flags.split(',').any(|flag| flag == name);
            assert_eq!((has("nosuid"), has("nodev")), (nosuid, nodev), "{flags:?}");
        }
    }
    let mut request = publish_request("a", &rig.path("refused"), mode);
    let context = &mut request.volume_context;
    context.insert("mountOptions".into(), "noatime".into());
    let refused = client.publish(request).await;
    assert_eq!(code(refused), Code::InvalidArgument);
}

/// A driver killed between the two steps of a read-only bind has left a mount that can be written to.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn an_unfinished_bind_is_finished_by_a_repeat() {
    let rig = Rig::new();
    make_volume(&rig, "a");
    let driver = rig.driver();
    let client = Client::connect(&rig).await;
    let mut request = publish_request("a", &rig.path("target"), Mode::MultiNodeMultiWriter);
    request.readonly = true;
    client.publish(request.clone()).await.unwrap();
    driver.kill();
    for entry in std::fs::read_dir(rig.path("work/publishes")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some() {
            let text = std::fs::read_to_string(&path).unwrap();
            std::fs::write(
                &path,
                text.replace("\"unfinished\":false", "\"unfinished\":true"),
            )
            .unwrap();
        }
    }
    let remount = format!("bind,remount,rw {}", rig.path("target").display());
    let mut command = rig.command("mount");
    assert!(run(command.arg("-o").args(remount.split(' '))).0.success());
    std::fs::write(rig.inside("target/new"), "x").unwrap();
    let _driver = rig.driver();
    Client::connect(&rig).await.publish(request).await.unwrap();
    assert!(std::fs::write(rig.inside("target/new"), "y").is_err());
    assert_eq!(rig.mounts("target").len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_publish_that_cannot_be_leaves_nothing() {
    let rig = Rig::new();
    make_volume(&rig, "a");
    std::os::unix::fs::symlink("/", rig.path("export/evil")).unwrap();
    std::fs::create_dir(rig.path("full")).unwrap();
    std::fs::write(rig.path("full/file"), "").unwrap();
    std::fs::write(rig.path("file"), "").unwrap();
    let _driver = rig.driver();
    let client = Client::connect(&rig).await;
    let mode = Mode::MultiNodeMultiWriter;
    for (volume, target, expected) in [
        ("missing", "t", Code::NotFound),
        ("evil", "t", Code::FailedPrecondition),
        ("evil/etc", "t", Code::FailedPrecondition),
        ("a", "no/parent", Code::FailedPrecondition),
        ("a", "file/below", Code::FailedPrecondition),
        ("a", "file/far/below", Code::FailedPrecondition),
        ("a", "full", Code::FailedPrecondition),
        ("a", "file", Code::FailedPrecondition),
    ] {
        let error = client
            .publish(publish_request(volume, &rig.path(target), mode))
            .await
            .unwrap_err();
        assert_eq!(error.code(), expected, "{volume} at {target}: {error}");
        assert!(!rig.path("t").exists());
    }
    assert_eq!(
        code(client.unpublish("a", &rig.path("full")).await),
        Code::FailedPrecondition
    );
    assert!(rig.path("full/file").exists());
    assert_eq!(
        code(client.unpublish("a", std::path::Path::new("/proc")).await),
        Code::FailedPrecondition
    );
    for nowhere in ["no/parent", "file/below"] {
        assert_eq!(
            code(client.unpublish("a", &rig.path(nowhere)).await),
            Code::Ok
        );
    }
    let mut inline = publish_request("a", &rig.path("t"), mode);
    let key = "csi.storage.k8s.io/ephemeral".to_owned();
    inline.volume_context.insert(key, "true".to_owned());
    assert_eq!(code(client.publish(inline).await), Code::FailedPrecondition);
    let long = std::path::PathBuf::from("/abc".repeat(1500));
    assert_eq!(
        code(client.unpublish("a", &long).await),
        Code::InvalidArgument
    );
}

/// What a kubelet sends for a volume that is written into a pod.
fn inline_request(rig: &Rig, attributes: &[(&str, &str)]) -> NodePublishVolumeRequest {
    let id = format!("csi-{}", "0123456789abcdef".repeat(4));
    let mut request = publish_request(&id, &rig.path("target"), Mode::SingleNodeWriter);
    let told = [
        ("csi.storage.k8s.io/ephemeral", "true"),
        ("csi.storage.k8s.io/pod.name", "p"),
    ];
    request.volume_context = attributes
        .iter()
        .chain(&told)
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect();
    request
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn inline_volumes_show_what_is_allowed_and_leave_it() {
    let rig = Rig::new();
    for folder in ["pub/a", "public", "private"] {
        std::fs::create_dir_all(rig.path("export").join(folder)).unwrap();
    }
    std::fs::write(rig.path("export/pub/a/file"), "x").unwrap();
    std::os::unix::fs::symlink("../private", rig.path("export/pub/link")).unwrap();
    let flags = [
        "--stage",
        "--inline-share",
        "server:/pub",
        "--inline-mount-option",
        "noexec",
    ];
    let driver = rig.driver_with(&flags);
    let client = Client::connect(&rig).await;
    let server = ("server", "server");
    for (attributes, expected, says) in [
        (&[server, ("share", "/pub/b")][..], Code::NotFound, "pub"),
        (
            &[server, ("share", "/pub/link")],
            Code::FailedPrecondition,
            "symlink",
        ),
        (
            &[server, ("share", "/public")],
            Code::PermissionDenied,
            "server:/public",
        ),
        (
            &[server, ("share", "/")],
            Code::PermissionDenied,
            "--inline-share",
        ),
        (
            &[server, ("share", "/pub"), ("subDir", "../private")],
            Code::InvalidArgument,
            "subDir",
        ),
        (
            &[("server", "other"), ("share", "/pub")],
            Code::PermissionDenied,
            "other:/pub",
        ),
        (&[("share", "/pub")], Code::InvalidArgument, "\"server\""),
        (&[server], Code::InvalidArgument, "\"share\""),
        (
            &[server, ("share", "/pub/a"), ("mountOptions", "suid")],
            Code::PermissionDenied,
            "suid",
        ),
    ] {
        let mut request = inline_request(&rig, attributes);
        // Only the pod's own attributes count.
        let context = &mut request.publish_context;
        context.insert("server".into(), "server".into());
        context.insert("share".into(), "/pub/a".into());
        let error = client.publish(request).await.unwrap_err();
        assert_eq!(error.code(), expected, "{attributes:?}: {error}");
        assert!(error.message().contains(says), "{attributes:?}: {error}");
        assert!(!rig.path("target").exists());
    }
    let mut secret = inline_request(&rig, &[server, ("share", "/pub/a")]);
    let options = "password=hunter2".to_owned();
    secret.secrets.insert("mountOptions".into(), options);
    let error = client.publish(secret).await.unwrap_err();
    assert_eq!(error.code(), Code::PermissionDenied, "{error}");
    assert!(!error.message().contains("hunter2"), "{error}");
    assert!(!driver.log().iter().any(|line| line.contains("hunter2")));

    let sub_dir = [
        server,
        ("share", "pub"),
        ("subDir", "a"),
        ("mountOptions", "noexec"),
    ];
    let mut request = inline_request(&rig, &sub_dir);
    client.publish(request.clone()).await.unwrap();
    assert_eq!(std::fs::read(rig.inside("target/file")).unwrap(), b"x");
    assert_eq!(flags_of(&rig, "target"), "rw,nosuid,nodev,noexec,relatime");
    // Without podInfoOnMount, the id alone tells.
    request
        .volume_context
        .remove("csi.storage.k8s.io/ephemeral");
    client.publish(request.clone()).await.unwrap();
    request
        .volume_context
        .insert("share".into(), "/private".into());
    request.volume_context.remove("subDir");
    request.target_path = rig.path("other").display().to_string();
    assert_eq!(
        code(client.publish(request.clone()).await),
        Code::PermissionDenied
    );

    driver.kill();
    let _driver = rig.driver();
    let client = Client::connect(&rig).await;
    client
        .unpublish(&request.volume_id, &rig.path("target"))
        .await
        .unwrap();
    assert!(!rig.path("target").exists());
    assert!(rig.path("export/pub/a/file").exists());
    assert_eq!(
        code(client.publish(request).await),
        Code::FailedPrecondition
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_busy_volume_stays_until_its_user_is_gone() {
    let rig = Rig::new();
    make_volume(&rig, "a");
    let _driver = rig.driver();
    let client = Client::connect(&rig).await;
    let target = rig.path("target");
    client
        .publish(publish_request("a", &target, Mode::SingleNodeWriter))
        .await
        .unwrap();
    let open = std::fs::File::open(rig.inside("target/file")).unwrap();
    let error = client.unpublish("a", &target).await.unwrap_err();
    assert_eq!(error.code(), Code::FailedPrecondition, "{error}");
    drop(open);
    client.unpublish("a", &target).await.unwrap();
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

/// What an orchestrator does with a volume, from nothing to nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_created_volume_is_published_and_deleted() {
    let rig = Rig::new();
    let _driver = rig.driver();
    let client = Client::connect(&rig).await;
    let target = rig.path("target");
    let mut publish = publish_request("", &target, Mode::SingleNodeWriter);
    let volume = create(&client, "pvc/1").await;
    publish.volume_id = volume.volume_id.clone();
    publish.volume_context = volume.volume_context;
    client.publish(publish).await.unwrap();
    std::fs::write(rig.inside("target/file"), "x").unwrap();
    assert!(stats(&client, &volume.volume_id, &target).await.is_ok());
    client.unpublish(&volume.volume_id, &target).await.unwrap();
    let delete = DeleteVolumeRequest {
        volume_id: volume.volume_id,
        ..Default::default()
    };
    let _: DeleteVolumeResponse = client
        .call("Controller/DeleteVolume", delete)
        .await
        .unwrap();
    let list: ListVolumesResponse = client
        .call("Controller/ListVolumes", ListVolumesRequest::default())
        .await
        .unwrap();
    assert!(list.entries.is_empty());
}

async fn create(client: &Client, name: &str) -> csi_proto::v1::Volume {
    try_create(client, name).await.unwrap()
}

async fn try_create(client: &Client, name: &str) -> Result<csi_proto::v1::Volume, Status> {
    let publish = publish_request("", std::path::Path::new("/"), Mode::SingleNodeWriter);
    let create = CreateVolumeRequest {
        name: name.to_owned(),
        volume_capabilities: publish.volume_capability.into_iter().collect(),
        parameters: [
            ("server".to_owned(), "server".to_owned()),
            ("share".to_owned(), "/".to_owned()),
        ]
        .into(),
        ..Default::default()
    };
    let created: CreateVolumeResponse = client.call("Controller/CreateVolume", create).await?;
    Ok(created.volume.unwrap())
}

/// The disk that the share is on is not mounted when the driver starts: an empty folder is in its place.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_share_whose_uuid_is_told_is_never_made_anew() {
    let rig = Rig::new();
    let driver = rig.driver();
    let client = Client::connect(&rig).await;
    let volume = create(&client, "pvc-1").await;
    let uuid = volume.volume_id.split(['#', '.']).nth(1).unwrap();
    driver.kill();
    std::fs::rename(rig.path("export"), rig.path("disk")).unwrap();
    std::fs::create_dir(rig.path("export")).unwrap();
    let share = format!("home=server:/,uuid={uuid}");
    let _driver = rig.driver_with(&["--share", &share]);
    let client = Client::connect(&rig).await;
    let error = try_create(&client, "pvc-2").await.unwrap_err();
    assert_eq!(error.code(), Code::FailedPrecondition, "{error}");
    assert!(error.message().contains(uuid), "{error}");
    let list: Result<ListVolumesResponse, _> = client
        .call("Controller/ListVolumes", ListVolumesRequest::default())
        .await;
    assert_eq!(list.unwrap_err().code(), Code::FailedPrecondition);
    assert_eq!(std::fs::read_dir(rig.path("export")).unwrap().count(), 0);
    std::fs::remove_dir(rig.path("export")).unwrap();
    std::fs::rename(rig.path("disk"), rig.path("export")).unwrap();
    assert_eq!(create(&client, "pvc-1").await, volume);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_lost_work_folder_does_not_keep_a_volume_published() {
    let rig = Rig::new();
    let driver = rig.driver();
    let client = Client::connect(&rig).await;
    let volume = create(&client, "pvc-1").await;
    let target = rig.path("target");
    let mut publish = publish_request(&volume.volume_id, &target, Mode::SingleNodeWriter);
    publish.volume_context = volume.volume_context;
    client.publish(publish).await.unwrap();
    driver.kill();
    std::fs::remove_dir_all(rig.path("work")).unwrap();
    let _driver = rig.driver();
    let client = Client::connect(&rig).await;
    assert_eq!(
        stats(&client, "other", &target).await.unwrap_err().code(),
        Code::NotFound
    );
    assert_eq!(
        code(client.unpublish("other", &target).await),
        Code::FailedPrecondition
    );
    assert_eq!(rig.mounts("target").len(), 1);
    assert!(stats(&client, &volume.volume_id, &target).await.is_ok());
    client.unpublish(&volume.volume_id, &target).await.unwrap();
    assert!(rig.mounts("target").is_empty() && !target.exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn mounts_and_folders_of_others_are_left_alone() {
    let rig = Rig::new();
    std::fs::create_dir(rig.path("other")).unwrap();
    std::fs::create_dir(rig.path("empty")).unwrap();
    // The share's own disk, and a folder beside the share on the same disk.
    for (from, at) in [("export", "export"), ("other", "other")] {
        let mut command = rig.command("mount");
        command.arg("--bind").arg(rig.path(from)).arg(rig.path(at));
        assert!(run(&mut command).0.success());
    }
    let _driver = rig.driver();
    let client = Client::connect(&rig).await;
    let volume = create(&client, "pvc-1").await.volume_id;
    for id in ["a", volume.as_str()] {
        for place in ["export", "other"] {
            let refused = code(client.unpublish(id, &rig.path(place)).await);
            assert_eq!(refused, Code::FailedPrecondition, "{id} at {place}");
            assert_eq!(rig.mounts(place).len(), 1);
        }
        client.unpublish(id, &rig.path("empty")).await.unwrap();
        assert!(rig.path("empty").exists());
    }
}
