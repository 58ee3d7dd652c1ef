//! Servers and shares that are not there: the error comes in time and names what is wrong, and nothing stays mounted.

use crate::scene::{Scene, Version, Volume, refused};
use crate::support::calls::{self, Map};
use crate::support::patience::until;
use crate::support::unserved;
use csi_proto::v1::{CreateVolumeRequest, NodePublishVolumeRequest};
use std::fs;
use std::net::TcpListener;
use tonic::{Code, Status};

/// The time that the driver has for a mount in these tests; the kernel's own is some minutes.
const MOUNT_TIMEOUT: &str = "3s";

fn scene(name: &str) -> Scene {
    Scene::with_driver(name, Version::V4_2, &["--mount-timeout", MOUNT_TIMEOUT])
}

/// A volume that was made by hand, with these options of mount.
fn by_hand(server: &str, share: &str, options: &str) -> Volume {
    let (id, options) = ("by-hand".to_owned(), ("mountOptions", options));
    let context = calls::map(&[("server", server), ("share", share), options]);
    Volume { id, context }
}

/// Creating and publishing from there fail with messages of the driver's that contain `named`.
fn fails_naming(scene: &Scene, server: &str, share: &str, options: &str, named: &str) {
    let fails = |status: Status| {
        assert!(status.message().contains(named), "{status}");
    };
    let volume = by_hand(server, share, options);
    fails(scene.try_publish(&volume, "target").unwrap_err());
    scene.has_no_mounts();
    // The helper that was to mount may be on its way to its end still, on a busy machine.
    until("it is unpublished", || {
        let answer = scene.try_unpublish(&volume, "target");
        if let Err(status) = &answer {
            assert_eq!(status.code(), Code::Aborted, "{status}");
        }
        answer.is_ok()
    });
    let request = calls::volume("pvc-1", &volume.context);
    fails(scene.call(request).unwrap_err());
}

#[test]
fn a_name_that_does_not_resolve() {
    fails_naming(
        &scene("no-name"),
        "nas.invalid",
        "/share",
        "vers=4.2",
        "nas.invalid",
    );
}

#[test]
fn a_server_that_refuses_connections() {
    let scene = scene("refusing");
    let (_kept, port) = unserved::port();
    let options = format!("port={port}");
    fails_naming(
        &scene,
        "127.0.0.1",
        scene.share.path(),
        &options,
        "127.0.0.1",
    );
}

#[test]
fn a_server_that_never_answers() {
    let scene = scene("silent");
    // The kernel accepts connections up to the backlog; nobody ever reads.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let options = format!("port={}", silent.local_addr().unwrap().port());
    fails_naming(
        &scene,
        "127.0.0.1",
        scene.share.path(),
        &options,
        "127.0.0.1",
    );
}

#[test]
fn a_share_that_is_not_exported() {
    for version in ["vers=3", "vers=4.0", "vers=4.2"] {
        let scene = scene(&format!("no-share-{}", version.replace('=', "-")));
        fails_naming(
            &scene,
            "127.0.0.1",
            "/no/such/share",
            version,
            "/no/such/share",
        );
    }
}

/// The controller keeps its mount of a share, here one of a folder that the server has no more.
#[test]
fn an_export_whose_folder_was_made_anew() {
    let scene = Scene::new("export-anew", Version::V4_2);
    let volume = scene.create("pvc-1");
    let folder = scene.share.folder();
    // What follows a share's first use may make something there meanwhile.
    until("it is gone", || fs::remove_dir_all(folder).is_ok());
    fs::create_dir(folder).unwrap();
    // What is there now is seen at once: a share without records, where there were some.
    let missing = scene.try_delete(&volume);
    refused(missing, Code::FailedPrecondition, &["missing on the share"]);
    assert!(scene.share.entries().is_empty());
}

/// Kerberos without its daemon, and with one that has no key. One test, because all see the same daemon.
#[test]
fn kerberos_that_does_not_work_here() {
    let is_refused = |scene: &Scene, option: &str, says: &[&str]| {
        let options = format!("vers=4.2,sec={option}");
        let volume = by_hand("127.0.0.1", scene.share.path(), &options);
        let published = scene.try_publish(&volume, "target");
        refused(published, Code::FailedPrecondition, says);
        scene.has_no_mounts();
        let created = scene.call(calls::volume("pvc-1", &volume.context));
        refused(created, Code::FailedPrecondition, &says[..1]);
    };
    // The kernel asks for the daemon before it refuses, which takes a busy machine longer than a server that is not there.
    let scene = Scene::new("kerberos", Version::V4_2);
    for option in ["krb5", "krb5i", "krb5p"] {
        is_refused(
            &scene,
            option,
            &["rpc.gssd, which does not run", "nfs-common"],
        );
    }
    let daemon = Daemon::start();
    is_refused(&scene, "krb5", &["rpc.gssd", "/etc/krb5.keytab"]);
    drop(daemon);
    is_refused(&scene, "krb5", &["rpc.gssd, which does not run"]);
}

/// The kernel repeats pieces of what it does not understand, and options come from secrets too.
#[test]
fn no_part_of_an_options_value_is_told() {
    let scene = Scene::with_driver("values", Version::V4_2, &["--log-level", "debug"]);
    let (_kept, port) = unserved::port();
    let port = port.to_string();
    let shapes = [
        ("sec=krb5:hunter2", "hunter2"),
        ("sec=hunter2:sys:hunter2", "hunter2"),
        ("proto=hunter2", "hunter2"),
        ("xprtsec=hunter2", "hunter2"),
        ("rsize=77777777777777", "77777777777777"),
        ("hunter1=hunter2", "hunter"),
        ("hunter2", "hunter2"),
        (&format!("port={port}"), port.as_str()),
    ];
    let place = [("server", "127.0.0.1"), ("share", scene.share.path())];
    let volume = Volume {
        id: "by-hand".to_owned(),
        context: calls::map(&place),
    };
    let secret = |option: &str| -> Map {
        let options = format!("vers=4.2,{option}");
        calls::map(&[("mountOptions", &options)])
    };
    let creating = |secrets: Map| CreateVolumeRequest {
        secrets,
        ..calls::volume("v", &volume.context)
    };
    for (option, value) in shapes {
        // A name that no client knows may be a word of a secret too.
        let name = option.split('=').next().unwrap();
        let told = if name.starts_with("hunter") {
            "number 2"
        } else {
            name
        };
        let secret = secret(option);
        let publishing = NodePublishVolumeRequest {
            secrets: secret.clone(),
            ..scene.publishing(&volume, "target")
        };
        let creating = creating(secret);
        for failed in [
            scene.call(publishing).unwrap_err(),
            scene.call(creating).unwrap_err(),
        ] {
            let said = failed.message();
            assert!(!tells(said, value), "{option}: {said}");
            assert!(said.contains(told), "{option}: {said}");
        }
    }
    // One that the kernel takes, and shows.
    scene.call(creating(secret("rsize=77824"))).unwrap();
    // Lines are written behind the answers, one after the other.
    scene.driver.process().wait_for_error_output("rsize=");
    let log = scene.driver.log();
    for value in ["hunter2", "77777777777777", &format!(":{port}"), "77824"] {
        let told = log.lines().find(|line| {
            // A line begins with its time, which has digits by chance.
            let (_time, said) = line.split_once(' ').unwrap_or(("", line));
            tells(said, value)
        });
        assert_eq!(told, None);
    }
}

/// Whether a text has `value`. Digits that are a part of a longer number, or of a random name, are not it.
fn tells(text: &str, value: &str) -> bool {
    let is_number = value.bytes().all(|byte| byte.is_ascii_digit());
    let is_part = |next: Option<char>| is_number && next.is_some_and(char::is_alphanumeric);
    text.match_indices(value).any(|(at, _)| {
        let (before, after) = (&text[..at], &text[at + value.len()..]);
        !is_part(before.chars().next_back()) && !is_part(after.chars().next())
    })
}

/// A running rpc.gssd.
struct Daemon(std::process::Child);

const PIPES: &str = "/run/rpc_pipefs";

impl Daemon {
    fn start() -> Self {
        fs::create_dir_all(PIPES).unwrap();
        let flags = rustix::mount::MountFlags::empty();
        rustix::mount::mount("rpc_pipefs", PIPES, "rpc_pipefs", flags, None).unwrap();
        let daemon = std::process::Command::new("rpc.gssd")
            .args(["-f", "-p", PIPES])
            .stdin(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .spawn()
            .unwrap();
        let daemon = Self(daemon);
        // It listens when it has the kernel's pipe open, which it tells nobody: its descriptors are looked at.
        let listens = || {
            let open = fs::read_dir(format!("/proc/{}/fd", daemon.0.id())).unwrap();
            open.flatten().any(|entry| {
                fs::read_link(entry.path()).is_ok_and(|to| to.ends_with("gssd/clntXX/gssd"))
            })
        };
        until("rpc.gssd listens", listens);
        daemon
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
        let _ = rustix::mount::unmount(PIPES, rustix::mount::UnmountFlags::DETACH);
    }
}
