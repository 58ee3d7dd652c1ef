//! Our driver in the place of kubernetes-csi's, over NFS: volumes, mounts and snapshots as that driver leaves them.

use crate::scene::{Scene, Share, Version, Volume, refused, try_create_with};
use crate::support::calls::{self, Map};
use crate::support::placed::of_volume;
use crate::support::strace::words;
use csi_proto::v1::DeleteSnapshotRequest;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;
use std::process::Command;
use tonic::Code;

/// Those of a driver in the place of kubernetes-csi's.
pub const FLAGS: [&str; 4] = [
    "--driver-name",
    "nfs.csi.k8s.io",
    "--migrate-from",
    "csi-driver-nfs",
];

/// The context of a volume of that driver, in the folder `pvc-1`.
pub fn context(share: &Share) -> Map {
    let mut context = share.parameters();
    context.extend(calls::map(&[
        ("subDir", "pvc-1"),
        ("mountPermissions", "0750"),
    ]));
    context
}

#[test]
fn volumes_go_on_over_v3() {
    volumes_go_on(Version::V3);
}

#[test]
fn volumes_go_on_over_v4_2() {
    volumes_go_on(Version::V4_2);
}

/// The kernel has mounted, and the helper is killed before it can say so.
#[test]
fn a_helper_that_is_killed_after_its_mount_leaves_no_wrong_mode() {
    let mut scene = Scene::with_driver("upstream-killed", Version::V4_2, &FLAGS);
    let folder = scene.share.folder().join("pvc-1");
    fs::create_dir(&folder).unwrap();
    fs::set_permissions(&folder, PermissionsExt::from_mode(0o777)).unwrap();
    let share = scene.share.path().trim_start_matches('/');
    let volume = Volume {
        id: format!("127.0.0.1#{share}#pvc-1##"),
        context: context(&scene.share),
    };
    scene.driver.kill();
    let log = scene.driver.target("strace");
    // The second call is the one to the target. Other than SIGKILL, the signal ends a traced process when the call is over.
    let kill = "inject=move_mount:signal=SIGTERM:when=2";
    scene
        .driver
        .restart_under(&words(&log, "?move_mount", Some(kill)));
    scene.publish(&volume, "new");
    let said = fs::read_to_string(&log).unwrap();
    assert!(said.contains("+++ killed by SIGTERM"), "{said}");
    assert_eq!(folder.metadata().unwrap().mode() & 0o7777, 0o750);
    scene.try_unpublish(&volume, "new").unwrap();
}

fn run(command: &mut Command) {
    let done = command.output().unwrap();
    assert!(
        done.status.success(),
        "{command:?}: {}",
        String::from_utf8_lossy(&done.stderr)
    );
}

/// The flags of the mount at `target`, in the kernel's own words.
fn mount_flags(target: &Path) -> String {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    let of_target = format!(" {} ", target.display());
    let line = mounts.lines().find(|line| line.contains(&of_target));
    line.unwrap().to_owned()
}

fn volumes_go_on(version: Version) {
    let scene = Scene::with_driver("upstream", version, &FLAGS);
    let folder = scene.share.folder().join("pvc-1");
    fs::create_dir_all(folder.join("deep")).unwrap();
    fs::write(folder.join("deep/file"), "kept").unwrap();
    chown(folder.join("deep"), Some(1234), Some(4321)).unwrap();
    let share = scene.share.path().trim_start_matches('/').to_owned();
    let mut volume = Volume {
        id: format!("127.0.0.1#{share}#pvc-1##"),
        context: context(&scene.share),
    };
    let added = "storage.kubernetes.io/csiProvisionerIdentity";
    volume.context.insert(added.to_owned(), "x".to_owned());
    let mount = scene.publish(&volume, "new");
    assert_eq!(fs::read_to_string(mount.join("deep/file")).unwrap(), "kept");
    assert_eq!(folder.metadata().unwrap().mode() & 0o7777, 0o750);
    let flags = mount_flags(&mount);
    assert!(
        !flags.contains("nosuid") && !flags.contains("nodev"),
        "{flags}"
    );
    scene.try_unpublish(&volume, "new").unwrap();

    // A mount that the other driver has made is published again, and taken away, by this one.
    let old = scene.driver.target("old");
    fs::create_dir(&old).unwrap();
    let mut mount = Command::new("mount");
    mount.args(["-t", "nfs", "-o"]);
    mount.arg(match version {
        Version::V3 => "vers=3,nolock",
        _ => "vers=4.2",
    });
    mount.arg(format!("127.0.0.1:{}/pvc-1", scene.share.path()));
    run(mount.arg(&old));
    scene.publish(&volume, "old");
    assert_eq!(scene.driver.mounts().len(), 1);
    scene.try_unpublish(&volume, "old").unwrap();
    assert!(!old.exists());
    scene.has_no_mounts();

    // Its snapshot is restored over NFS, with all that an archive tells.
    let snapshot = scene.share.folder().join("snapshot-1");
    fs::create_dir(&snapshot).unwrap();
    fs::write(folder.join("program"), "x").unwrap();
    fs::set_permissions(folder.join("program"), PermissionsExt::from_mode(0o4755)).unwrap();
    fs::hard_link(folder.join("program"), folder.join("deep/same")).unwrap();
    let mut tar = Command::new("tar");
    run(tar
        .arg("-C")
        .arg(&folder)
        .arg("-czf")
        .arg(snapshot.join("pvc-1.tar.gz"))
        .arg("."));
    let snapshot_id = format!("127.0.0.1#{share}#snapshot-1#snapshot-1#pvc-1");
    let mut request = calls::volume("restored", &scene.share.parameters());
    request.capacity_range = None;
    request.volume_content_source = calls::of_snapshot(&snapshot_id);
    try_create_with(&scene.driver, request).unwrap();
    let restored = of_volume(scene.share.folder(), "restored");
    let seen = |root: &Path, path: &str| {
        let meta = root.join(path).symlink_metadata().unwrap();
        (
            meta.mode(),
            meta.uid(),
            meta.gid(),
            meta.mtime(),
            meta.nlink(),
        )
    };
    for path in [".", "deep", "deep/file", "deep/same", "program"] {
        assert_eq!(seen(&restored, path), seen(&folder, path), "{path}");
    }
    let gone = DeleteSnapshotRequest {
        snapshot_id,
        ..Default::default()
    };
    scene.call(gone).unwrap();
    assert!(!snapshot.exists());

    // By nothing but its id, by a driver that has seen no option of this share.
    let knowing_nothing = Scene::with_driver("upstream-late", version, &FLAGS);
    knowing_nothing.try_delete(&volume).unwrap();
    knowing_nothing.try_delete(&volume).unwrap();
    assert!(!folder.exists());
    refused(scene.try_get(&volume), Code::NotFound, &[]);
    assert_eq!(scene.list().len(), 1);
}
