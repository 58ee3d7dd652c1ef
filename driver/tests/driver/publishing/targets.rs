//! What is at a target after each call, and what its mount allows.

use super::{code, flags_of, make_volume, stats};
use crate::rig::patience::Patience;
use crate::rig::{Client, Driver, Rig, publish_request, run, stage_request};
use crate::strace::words;
use csi_proto::v1::list_volumes_response::Entry;
use csi_proto::v1::volume_capability::access_mode::Mode;
use csi_proto::v1::{ControllerGetVolumeRequest, CreateVolumeRequest, ListVolumesRequest};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use tonic::Code;

/// A volume of a local share, on a node whose disks are its own: no server is asked, and so nothing may block.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_local_volume_is_published_and_asked_about_without_a_helper() {
    for staging in [false, true] {
        let rig = Rig::new();
        make_volume(&rig, "a");
        let flags: &[&str] = if staging { &["--stage"] } else { &[] };
        let driver = rig.driver_with(&[flags, &["--log-level", "debug"]].concat());
        let client = Client::connect(&rig).await;
        let target = rig.path("target");
        let mut request = publish_request("a", &target, Mode::SingleNodeWriter);
        if staging {
            std::fs::create_dir(rig.path("staging")).unwrap();
            let stage = stage_request(&mut request, &rig.path("staging"));
            client.stage(stage).await.unwrap();
        }
        for _ in 0..2 {
            client.publish(request.clone()).await.unwrap();
        }
        let reply = stats(&client, "a", &target).await.unwrap();
        assert!(reply.usage[0].total > 0);
        // The node does not know which sizes are enforced.
        let said = reply.volume_condition.unwrap().message;
        assert!(
            said.contains("unless the volume's size is enforced"),
            "{said}"
        );
        let flags = flags_of(&rig, "target");
        assert!(
            flags.contains("nosuid") && flags.contains("nodev"),
            "{flags}"
        );
        assert_eq!(driver.children(), Vec::<u32>::new(), "{:#?}", driver.log());
        // An unmount may have to write back, so it has a helper, which the nursery starts.
        client.unpublish("a", &target).await.unwrap();
        assert_eq!(driver.children().len(), 1, "{:#?}", driver.log());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_nursery_of_helpers_that_was_stopped_goes_on() {
    let rig = Rig::new();
    make_volume(&rig, "a");
    let driver = rig.driver();
    let client = Client::connect(&rig).await;
    let target = rig.path("target");
    let request = publish_request("a", &target, Mode::SingleNodeWriter);
    for _ in 0..2 {
        client.publish(request.clone()).await.unwrap();
        // The second time the nursery is stopped.
        client.unpublish("a", &target).await.unwrap();
        let nursery = driver.children()[0];
        stop(nursery);
    }
    assert_eq!(driver.children().len(), 1, "{:#?}", driver.log());
}

/// Stops a process, and waits until it is.
fn stop(pid: u32) {
    let process = rustix::process::Pid::from_raw(pid as i32).unwrap();
    rustix::process::kill_process(process, rustix::process::Signal::STOP).unwrap();
    let mut patience = Patience::default();
    let state = || {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        status.contains("(stopped)")
    };
    while !state() {
        assert!(patience.lasts(), "{pid} does not stop");
        std::thread::yield_now();
    }
}

/// As by somebody who cleans up on the server.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_volume_whose_folder_was_deleted_is_abnormal() {
    let rig = Rig::new();
    let _driver = rig.driver();
    let client = Client::connect(&rig).await;
    let mode = Mode::SingleNodeWriter;
    for (name, is_moved) in [("removed", false), ("moved", true)] {
        let target = rig.path(name);
        let mut request = publish_request(name, &target, mode);
        let capability = request.volume_capability.clone().unwrap();
        let made = client.call(CreateVolumeRequest {
            name: name.to_owned(),
            volume_capabilities: vec![capability],
            ..Default::default()
        });
        let volume = made.await.unwrap().volume.unwrap();
        let id = volume.volume_id;
        request.volume_id.clone_from(&id);
        request.volume_context = volume.volume_context;
        let folder = rig.path("export").join(&request.volume_context["subDir"]);
        client.publish(request).await.unwrap();
        let of_share = async |id: &str| {
            let volume_id = id.to_owned();
            let get = client.call(ControllerGetVolumeRequest { volume_id });
            let one = get.await.unwrap().status.unwrap().volume_condition;
            let list = client.call(ListVolumesRequest::default()).await.unwrap();
            let is_it = |entry: &Entry| entry.volume.as_ref().unwrap().volume_id == id;
            let listed = list.entries.into_iter().find(is_it).unwrap();
            [
                one.unwrap(),
                listed.status.unwrap().volume_condition.unwrap(),
            ]
        };
        let conditions = async |id: &str| {
            let node = stats(&client, id, &target).await.unwrap();
            let [one, listed] = of_share(id).await;
            [node.volume_condition.unwrap(), one, listed]
        };
        for condition in conditions(&id).await {
            assert!(!condition.abnormal, "{condition:?}");
        }
        match is_moved {
            true => std::fs::rename(&folder, rig.path("export/.csi-nfs/trash/x.waiting")).unwrap(),
            false => std::fs::remove_dir_all(&folder).unwrap(),
        }
        for condition in conditions(&id).await {
            assert!(condition.abnormal, "{condition:?}");
            let has = |word| condition.message.contains(word);
            assert!(has("deleted") || has("missing"), "{condition:?}");
        }
        client.unpublish(&id, &target).await.unwrap();
    }
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
    assert_eq!(
        stats(&client, "a", std::path::Path::new("some/path"))
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

/// Somebody has made a read-only mount writable: no repeat says that all is well.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_mount_that_allows_more_is_not_what_was_asked_for() {
    let rig = Rig::new();
    make_volume(&rig, "a");
    let driver = rig.driver();
    let client = Client::connect(&rig).await;
    let target = rig.path("target");
    let mut request = publish_request("a", &target, Mode::MultiNodeMultiWriter);
    request.readonly = true;
    client.publish(request.clone()).await.unwrap();
    let remount = format!("bind,remount,rw {}", target.display());
    let mut command = rig.command("mount");
    assert!(run(command.arg("-o").args(remount.split(' '))).0.success());
    driver.kill();
    let _driver = rig.driver();
    let client = Client::connect(&rig).await;
    let refused = client.publish(request.clone()).await;
    assert_eq!(code(refused), Code::AlreadyExists);
    client.unpublish("a", &target).await.unwrap();
    client.publish(request).await.unwrap();
    assert!(std::fs::write(rig.inside("target/new"), "x").is_err());
}

/// A mount above a target hides what is mounted there: the path leads to something else.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_target_below_a_later_mount_is_another_one() {
    let rig = Rig::new();
    make_volume(&rig, "a");
    std::fs::create_dir(rig.path("pods")).unwrap();
    let _driver = rig.driver();
    let client = Client::connect(&rig).await;
    let target = rig.path("pods/target");
    let request = publish_request("a", &target, Mode::SingleNodeWriter);
    client.publish(request.clone()).await.unwrap();
    let hide = |program: &str, args: &[&str]| {
        let mut command = rig.command(program);
        command.args(args).arg(rig.path("pods"));
        assert!(run(&mut command).0.success(), "{program}");
    };
    hide("mount", &["-t", "tmpfs", "none"]);
    let stats_here = stats(&client, "a", &target).await;
    assert_eq!(stats_here.unwrap_err().code(), Code::NotFound);
    client.publish(request).await.unwrap();
    assert!(rig.inside("pods/target/file").exists());
    client.unpublish("a", &target).await.unwrap();
    assert!(!rig.inside("pods/target").exists());
    // The one below goes as it has come.
    hide("umount", &[]);
    assert!(rig.inside("pods/target/file").exists());
}

/// The node and the pod look from outside of the driver's container.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn the_flags_of_mounts_leave_the_container() {
    for stages in [false, true] {
        let rig = Rig::new();
        rig.share_mounts();
        // A disk of the share's own, which forbids nothing itself.
        let mut command = rig.command("mount");
        command
            .args(["-t", "tmpfs", "none"])
            .arg(rig.path("export"));
        assert!(run(&mut command).0.success());
        std::fs::create_dir(rig.inside("export/a")).unwrap();
        std::fs::create_dir(rig.path("staging")).unwrap();
        let _driver = rig.contained_driver(if stages { &["--stage"] } else { &[] });
        let client = Client::connect(&rig).await;
        for (target, read_only) in [("written", false), ("read", true)] {
            let mode = Mode::MultiNodeMultiWriter;
            let mut request = publish_request("a", &rig.path(target), mode);
            if stages {
                let stage = stage_request(&mut request, &rig.path("staging"));
                client.stage(stage).await.unwrap();
                let flags = flags_of(&rig, "staging");
                assert!(flags.starts_with("rw,nosuid,nodev"), "{flags}");
            }
            request.readonly = read_only;
            client.publish(request).await.unwrap();
            let flags = flags_of(&rig, target);
            let expected = if read_only { "ro" } else { "rw" };
            let expected = format!("{expected},nosuid,nodev");
            assert!(flags.starts_with(&expected), "{flags}");
            let written = std::fs::write(rig.inside(&format!("{target}/file")), "x");
            assert_eq!(written.is_err(), read_only, "{written:?}");
        }
        for target in ["written", "read"] {
            client.unpublish("a", &rig.path(target)).await.unwrap();
            assert!(rig.mounts(target).is_empty());
        }
        if stages {
            client.unstage("a", &rig.path("staging")).await.unwrap();
            assert!(rig.mounts("staging").is_empty());
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_publish_that_cannot_be_leaves_nothing() {
    let rig = Rig::new();
    make_volume(&rig, "a");
    std::os::unix::fs::symlink("/", rig.path("export/evil")).unwrap();
    std::fs::create_dir(rig.path("full")).unwrap();
    std::fs::write(rig.path("full/file"), "").unwrap();
    std::fs::write(rig.path("file"), "").unwrap();
    let odd = rig.path("").join(OsStr::from_bytes(b"\xff"));
    std::fs::create_dir(&odd).unwrap();
    std::os::unix::fs::symlink(&odd, rig.path("odd")).unwrap();
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
        ("a", "odd/t", Code::FailedPrecondition),
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
    // The driver's own folder, in any case, since servers may fold it.
    for share in ["/.csi-nfs", "/.CSI-nfs/volumes"] {
        let mut private = publish_request("a", &rig.path("t"), mode);
        private.volume_context.insert("share".into(), share.into());
        private.volume_context.remove("subDir");
        assert_eq!(code(client.publish(private).await), Code::InvalidArgument);
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

/// Unpublishes what nobody has open any more: of what this process had open, a child that another test starts may have a copy.
async fn no_longer_busy(client: &Client, target: &Path) {
    let mut patience = Patience::default();
    while let Err(busy) = client.unpublish("a", target).await {
        assert_eq!(busy.code(), Code::FailedPrecondition, "{busy}");
        assert!(patience.lasts(), "{busy}");
    }
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
    no_longer_busy(&client, &target).await;
}

/// An unmount that takes long is not a lazy one where there is no server that could be gone.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_busy_volume_stays_on_a_machine_that_is_slow() {
    let rig = Rig::new();
    make_volume(&rig, "a");
    let log = rig.path("strace");
    let slow = words(&log, "?umount2", Some("inject=umount2:delay_enter=3000000"));
    let mut command = rig.command(&slow[0]);
    command.args(&slow[1..]).arg(env!("CARGO_BIN_EXE_csi-nfs"));
    rig.add_flags(&mut command);
    let mut driver = Driver::start(&mut command);
    driver.wait_for("serving");
    let client = Client::connect(&rig).await;
    let target = rig.path("target");
    let request = publish_request("a", &target, Mode::SingleNodeWriter);
    client.publish(request).await.unwrap();
    let open = std::fs::File::open(rig.inside("target/file")).unwrap();
    let error = client.unpublish("a", &target).await.unwrap_err();
    assert_eq!(error.code(), Code::FailedPrecondition, "{error}");
    drop(open);
    no_longer_busy(&client, &target).await;
    assert!(!target.exists());
}
