//! The embedded driver in this very process: with mounts in a namespace of its own, and with symlinks where an ordinary
//! user may not mount. The process is its own helper, so the tests bring their own `main`.
//!
//! Each test runs in a process of its own, started as the kind of user it is about.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

#[path = "../../tests/support/placed.rs"]
mod placed;
#[path = "driver/rig/mod.rs"]
mod rig;

use csi_nfs::mount::helper;
use csi_nfs::process::embedded::Embedded;
use csi_nfs::process::namespace::{self, Entered};
use csi_proto::v1::volume_capability::access_mode::Mode;
use csi_proto::v1::{NodeGetVolumeStatsRequest, NodeGetVolumeStatsResponse, ProbeRequest};
use hyper_util::rt::TokioIo;
use rig::{Client, publish_request};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode};
use tonic::Code;
use tonic::transport::Endpoint;

/// A user who is nobody in particular.
const ORDINARY: u32 = 65_534;

fn main() -> ExitCode {
    if let Some(code) = helper::run_if_child() {
        return code;
    }
    let tests: [(&str, fn()); 4] = [
        (
            "an_ordinary_user_gets_symlinks",
            an_ordinary_user_gets_symlinks,
        ),
        (
            "an_ordinary_user_mounts_in_a_namespace",
            an_ordinary_user_mounts_in_a_namespace,
        ),
        ("root_needs_no_namespace", root_needs_no_namespace),
        (
            "a_process_with_threads_cannot_enter",
            a_process_with_threads_cannot_enter,
        ),
    ];
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.iter().any(|argument| argument == "--list") {
        let ignored = arguments.iter().any(|argument| argument == "--ignored");
        for (name, _) in tests.iter().filter(|_| !ignored) {
            println!("{name}: test");
        }
        return ExitCode::SUCCESS;
    }
    let filter = arguments.iter().find(|argument| !argument.starts_with('-'));
    let chosen: Vec<_> = tests
        .iter()
        .filter(|(name, _)| filter.is_none_or(|filter| name.contains(filter.as_str())))
        .collect();
    if let [(name, test)] = chosen[..] {
        println!("{name}");
        test();
        return ExitCode::SUCCESS;
    }
    // Several in one process would share its namespaces.
    let program = std::env::current_exe().unwrap();
    let failed = chosen
        .iter()
        .filter(|(name, _)| !Command::new(&program).arg(name).status().unwrap().success());
    if failed.count() == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
}

/// Runs this test again as an ordinary user, when it is root that runs it; `true` when that has been done.
fn done_as_ordinary_user(test: &str) -> bool {
    if !rustix::process::geteuid().is_root() {
        return false;
    }
    let dir = tempfile::tempdir().unwrap();
    std::os::unix::fs::chown(dir.path(), Some(ORDINARY), Some(ORDINARY)).unwrap();
    // The checkout may lie below a home folder that is closed to others.
    let program = dir.path().join("test");
    std::fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    let status = Command::new(&program)
        .arg(test)
        .env("TMPDIR", dir.path())
        .uid(ORDINARY)
        .gid(ORDINARY)
        .status()
        .unwrap();
    assert!(status.success());
    true
}

async fn client(embedded: &Embedded) -> Client {
    let stream = std::sync::Mutex::new(Some(TokioIo::new(embedded.connect())));
    let connector = tower::service_fn(move |_| {
        let stream = stream.lock().unwrap().take();
        async move { stream.ok_or_else(|| std::io::Error::other("once only")) }
    });
    let channel = Endpoint::from_static("http://localhost")
        .connect_with_connector(connector)
        .await
        .unwrap();
    Client::over(channel)
}

fn embedded_request(volume: &str, target: &Path) -> csi_proto::v1::NodePublishVolumeRequest {
    let mut request = publish_request(volume, target, Mode::SingleNodeWriter);
    request
        .volume_context
        .insert("server".into(), "embedded".into());
    request
}

async fn stats(client: &Client, path: &Path) -> Result<NodeGetVolumeStatsResponse, tonic::Status> {
    let request = NodeGetVolumeStatsRequest {
        volume_id: "a".into(),
        volume_path: path.display().to_string(),
        ..Default::default()
    };
    client.call(request).await
}

fn an_ordinary_user_gets_symlinks() {
    if done_as_ordinary_user("an_ordinary_user_gets_symlinks") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let target = dir.path().canonicalize().unwrap().join("target");
    runtime().block_on(async {
        let embedded = Embedded::open(dir.path()).unwrap();
        std::fs::create_dir(dir.path().join("share/a")).unwrap();
        let client = client(&embedded).await;
        let probe = client.call(ProbeRequest {}).await.unwrap();
        assert_eq!(probe.ready, Some(true));
        // An empty folder in the target's place is no obstacle.
        std::fs::create_dir(&target).unwrap();
        let note = client
            .publish_with_note(embedded_request("a", &target))
            .await
            .unwrap();
        assert!(note.unwrap().contains("symlink"));
        let note = client
            .publish_with_note(embedded_request("a", &target))
            .await
            .unwrap();
        assert!(note.unwrap().contains("symlink"));
        std::fs::write(target.join("file"), "x").unwrap();
        assert!(dir.path().join("share/a/file").exists());
        assert!(!stats(&client, &target).await.unwrap().usage.is_empty());
        let mut read_only = embedded_request("a", &target.with_extension("ro"));
        read_only.volume_capability.as_mut().unwrap().access_mode =
            Some(csi_proto::v1::volume_capability::AccessMode {
                mode: Mode::MultiNodeReaderOnly.into(),
            });
        read_only.volume_id = "b".into();
        let error = client.publish(read_only).await.unwrap_err();
        assert_eq!(error.code(), Code::FailedPrecondition, "{error}");
        assert!(!target.with_extension("ro").exists());
        client.unpublish("a", &target).await.unwrap();
        client.unpublish("a", &target).await.unwrap();
        assert!(target.symlink_metadata().is_err());
        assert!(dir.path().join("share/a/file").exists());
        assert_eq!(
            stats(&client, &target).await.unwrap_err().code(),
            Code::NotFound
        );
        // What is gone, or a link, is no folder of a volume.
        std::fs::rename(dir.path().join("share/a"), dir.path().join("share/b")).unwrap();
        let publish = || client.publish(embedded_request("a", &target));
        let error = publish().await.unwrap_err();
        assert_eq!(error.code(), Code::NotFound, "{error}");
        std::os::unix::fs::symlink("b", dir.path().join("share/a")).unwrap();
        let error = publish().await.unwrap_err();
        assert_eq!(error.code(), Code::FailedPrecondition, "{error}");
        assert!(target.symlink_metadata().is_err());
        std::fs::remove_file(dir.path().join("share/a")).unwrap();
        std::fs::create_dir(dir.path().join("share/a")).unwrap();
        publish().await.unwrap();
        client.unpublish("a", &target).await.unwrap();
        assert!(target.symlink_metadata().is_err());
    });
}

fn an_ordinary_user_mounts_in_a_namespace() {
    if done_as_ordinary_user("an_ordinary_user_mounts_in_a_namespace") {
        return;
    }
    let before = rustix::process::geteuid();
    match namespace::enter_private().unwrap() {
        Entered::Private => {}
        Entered::Refused(why) => {
            // Such a system is covered by the test of symlinks; nothing may have changed.
            println!("not tested, because namespaces are refused here: {why}");
            assert_eq!(rustix::process::geteuid(), before);
            return;
        }
        Entered::NotNeeded => panic!("an ordinary user may mount"),
    }
    let dir = tempfile::tempdir().unwrap();
    let target = dir.path().canonicalize().unwrap().join("target");
    runtime().block_on(async {
        let embedded = Embedded::open(dir.path()).unwrap();
        std::fs::create_dir(dir.path().join("share/a")).unwrap();
        let client = client(&embedded).await;
        let note = client
            .publish_with_note(embedded_request("a", &target))
            .await
            .unwrap();
        assert_eq!(note, None);
        std::fs::write(target.join("file"), "x").unwrap();
        let file = dir.path().join("share/a/file").metadata().unwrap();
        assert!(target.symlink_metadata().unwrap().is_dir());
        assert_eq!(file.uid(), 0);
        client.unpublish("a", &target).await.unwrap();
        let mut read_only = embedded_request("a", &target);
        read_only.readonly = true;
        client.publish(read_only).await.unwrap();
        assert!(std::fs::write(target.join("new"), "x").is_err());
        client.unpublish("a", &target).await.unwrap();
        assert!(!target.exists());
    });
}

fn root_needs_no_namespace() {
    let before = std::fs::read_link("/proc/self/ns/mnt").unwrap();
    if namespace::may_mount() {
        assert_eq!(namespace::enter_private().unwrap(), Entered::NotNeeded);
        assert_eq!(std::fs::read_link("/proc/self/ns/mnt").unwrap(), before);
    }
}

fn a_process_with_threads_cannot_enter() {
    if done_as_ordinary_user("a_process_with_threads_cannot_enter") {
        return;
    }
    let (stop, stopped) = std::sync::mpsc::channel::<()>();
    let thread = std::thread::spawn(move || stopped.recv());
    let entered = namespace::enter_private();
    drop(stop);
    assert!(thread.join().unwrap().is_err());
    assert!(!matches!(entered, Ok(Entered::Private)), "{entered:?}");
}
