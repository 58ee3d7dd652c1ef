//! Controller and node as two processes, each with the capabilities of its mode: all of it works, and no helper has more.

use crate::scene::{Scene, Share, Version, Volume, call, try_create_with, try_delete};
use crate::support::calls;
use crate::support::driver::Driver;
use csi_proto::v1::{CreateSnapshotRequest, DeleteSnapshotRequest, VolumeContentSource};
use rustix::fs::{FileType, Mode, makedev, mknodat};
use rustix::process::Signal;
use std::fs::{self, Permissions};
use std::net::TcpListener;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _, chown};
use std::path::Path;

const DAC_OVERRIDE: u64 = 1 << 1;
const FOWNER: u64 = 1 << 3;
const SYS_CHROOT: u64 = 1 << 18;
const SYS_ADMIN: u64 = 1 << 21;
const MKNOD: u64 = 1 << 27;

/// A line of /proc/PID/status, as far as it is there.
fn status(pid: i32, name: &str) -> Option<String> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find(|line| line.starts_with(name))?;
    line.split_whitespace().nth(1).map(str::to_owned)
}

fn set(pid: i32, name: &str) -> u64 {
    u64::from_str_radix(&status(pid, name).unwrap(), 16).unwrap()
}

#[test]
fn two_processes_do_all_with_little() {
    for version in [Version::V3, Version::V4_2] {
        let controller = Driver::with_args(&["--mode", "controller"]);
        let node = Scene {
            share: Share::new("privileges", version),
            driver: Driver::with_args(&["--mode", "node"]),
        };
        let (its, own) = (controller.process().pid(), node.driver.process().pid());
        let (its, own) = (its.as_raw_pid(), own.as_raw_pid());
        assert_eq!(set(its, "CapEff"), FOWNER | MKNOD);
        assert_eq!(set(its, "CapBnd"), FOWNER | MKNOD | SYS_ADMIN);
        assert_eq!(set(own, "CapEff"), 0);
        assert_eq!(set(own, "CapBnd"), SYS_CHROOT | SYS_ADMIN);

        let mut parameters = node.share.parameters();
        let owned = [
            ("uid", "1000"),
            ("gid", "1001"),
            ("mountPermissions", "2770"),
        ];
        parameters.extend(calls::map(&owned));
        let create = |name: &str, source: Option<VolumeContentSource>| {
            let mut request = calls::volume(name, &parameters);
            request.volume_content_source = source;
            try_create_with(&controller, request).unwrap()
        };
        let volume = create("pvc-1", None);
        let mount = node.publish(&volume, "target");
        let folder = mount.metadata().unwrap();
        assert_eq!((folder.uid(), folder.gid()), (1000, 1001));
        assert_eq!(folder.mode() & 0o7777, 0o2770);
        fill(&mount);

        let made = CreateSnapshotRequest {
            name: "snap".to_owned(),
            source_volume_id: volume.id.clone(),
            ..Default::default()
        };
        let snapshot = call(&controller, made).unwrap().snapshot.unwrap();
        assert!(snapshot.ready_to_use, "{snapshot:?}");
        let copy = create("pvc-2", calls::of_snapshot(&snapshot.snapshot_id));
        let restored = node.publish(&copy, "restored");
        is_filled(&restored);
        for (volume, target) in [(&volume, "target"), (&copy, "restored")] {
            node.try_unpublish(volume, target).unwrap();
        }
        node.has_no_mounts();
        let gone = DeleteSnapshotRequest {
            snapshot_id: snapshot.snapshot_id,
            ..Default::default()
        };
        call(&controller, gone).unwrap();
        for volume in [&volume, &copy] {
            try_delete(&controller, volume).unwrap();
        }
        node.share.wait_until_empty("theirs");
    }
}

/// Files and folders that only their owners may touch, or root: unreadable, sticky, linked, a device.
fn fill(volume: &Path) {
    let sticky = volume.join("sticky");
    fs::create_dir(&sticky).unwrap();
    let theirs = sticky.join("theirs");
    fs::write(&theirs, "x").unwrap();
    fs::hard_link(&theirs, sticky.join("linked")).unwrap();
    fs::set_permissions(&theirs, Permissions::from_mode(0o6700)).unwrap();
    chown(&theirs, Some(2000), Some(2000)).unwrap();
    fs::set_permissions(&theirs, Permissions::from_mode(0o6700)).unwrap();
    let device = (FileType::CharacterDevice, Mode::from(0o600), makedev(1, 3));
    let at = rustix::fs::CWD;
    mknodat(at, volume.join("null"), device.0, device.1, device.2).unwrap();
    fs::set_permissions(&sticky, Permissions::from_mode(0o1700)).unwrap();
    chown(&sticky, Some(3000), Some(3000)).unwrap();
}

fn is_filled(volume: &Path) {
    let theirs = volume.join("sticky/theirs").metadata().unwrap();
    assert_eq!(
        (theirs.uid(), theirs.gid(), theirs.nlink()),
        (2000, 2000, 2)
    );
    assert_eq!(theirs.mode() & 0o7777, 0o6700);
    let sticky = volume.join("sticky").metadata().unwrap();
    assert_eq!((sticky.uid(), sticky.mode() & 0o7777), (3000, 0o1700));
    let device = volume.join("null").symlink_metadata().unwrap();
    assert!(device.file_type().is_char_device());
}

/// Kills a driver in the end, also when the test fails: nobody waits for the answer to a call then.
struct Ending<'a>(&'a Driver);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.process().signal(Signal::KILL);
    }
}

/// A helper that waits for a server that never answers.
#[test]
fn a_helper_has_what_mounting_takes() {
    for (mode, expected) in [
        ("node", SYS_ADMIN | SYS_CHROOT),
        ("all", SYS_ADMIN | SYS_CHROOT | DAC_OVERRIDE),
    ] {
        let flags = ["--mode", mode, "--mount-timeout", "10m"];
        let name = format!("helper-{mode}");
        let scene = Scene::with_driver(&name, Version::V4_2, &flags);
        let silent = TcpListener::bind("127.0.0.1:0").unwrap();
        let options = format!("vers=4.2,port={}", silent.local_addr().unwrap().port());
        let mut volume = Volume {
            id: "somewhere".into(),
            context: scene.share.parameters(),
        };
        volume.context.insert("mountOptions".into(), options);
        std::thread::scope(|threads| {
            threads.spawn(|| scene.try_publish(&volume, "target"));
            let ending = Ending(&scene.driver);
            // It has knocked, and mounts now.
            drop(silent.accept().unwrap());
            drop(silent.accept().unwrap());
            // The driver starts one process, which starts the helpers.
            let nursery = child_of(scene.driver.process().pid().as_raw_pid());
            for (name, set_of_nursery) in [("CapEff", 0), ("CapPrm", expected)] {
                assert_eq!(set(nursery, name), set_of_nursery, "{name}");
            }
            let helper = child_of(nursery);
            for name in ["CapEff", "CapPrm"] {
                assert_eq!(set(helper, name), expected, "{name}");
            }
            for name in ["CapInh", "CapAmb"] {
                assert_eq!(set(helper, name), 0, "{name}");
            }
            drop(ending);
        });
    }
}

/// The only child of a process.
fn child_of(parent: i32) -> i32 {
    let parent = parent.to_string();
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let mut children = processes.filter_map(|entry| {
        let pid: i32 = entry.file_name().to_str()?.parse().ok()?;
        (status(pid, "PPid")? == parent).then_some(pid)
    });
    let child = children.next().unwrap();
    assert_eq!(children.next(), None);
    child
}
