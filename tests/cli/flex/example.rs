//! The example that mounts folders, with a real kernel's mounts, where this process may mount.

use super::provisioned::Front;
use super::served::Served;
use crate::support::driver::mounts_below;
use crate::support::program::Csi;
use std::fs;
use std::path::{Path, PathBuf};

fn bind() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/flex/bind")
}

/// A server over the example with a folder for each of these volumes, or nothing where nobody may mount.
fn served(attaches: bool, volumes: &[&str]) -> Option<Served> {
    if !crate::sanity::may_mount() {
        return None;
    }
    let csi = Csi::at("unix:f.sock");
    let root = csi.home().join("volumes");
    for volume in volumes {
        fs::create_dir_all(root.join(volume)).unwrap();
    }
    let csi = csi
        .env("BIND_ROOT", root.to_str().unwrap())
        .env("BIND_ATTACH", attaches.to_string());
    Some(Served::over(csi, &format!("--driver {}", bind().display())))
}

#[test]
fn a_folder_is_mounted_once_read_only_and_taken_down() {
    let Some(mut served) = served(false, &["v-1"]) else {
        return;
    };
    let root = served.csi.home().join("volumes/v-1");
    let (one, other) = (served.target("a"), served.target("b"));
    let publish = |target: &str| format!("node publish v-1 --target-path {target} --cap 5,mount");
    served.run(&publish(&one)).succeeds();
    served.run(&publish(&one)).succeeds();
    served
        .run(&format!("{} --read-only", publish(&other)))
        .succeeds();
    fs::write(format!("{one}/file"), "data").unwrap();
    assert_eq!(fs::read_to_string(format!("{other}/file")).unwrap(), "data");
    assert!(fs::write(format!("{other}/file"), "other").is_err());
    let stats = served
        .run(&format!("node stats v-1:{one} -o json"))
        .succeeds();
    assert!(stats.stdout.contains("INODES"), "{stats}");
    served
        .run(&format!("node stats v-1:{} -o json", served.target("c")))
        .exits(64 + 5);
    assert_eq!(mounts_below(served.csi.home()).len(), 2);
    // As after a restart of the machine: the mount is gone, and what is known of it stays.
    served.kill();
    crate::support::driver::unmount_below(served.csi.home());
    served.restart();
    served.run(&publish(&one)).succeeds();
    assert_eq!(mounts_below(served.csi.home()).len(), 1);
    for target in [&one, &other] {
        served
            .run(&format!("node unpublish v-1 --target-path {target}"))
            .succeeds();
    }
    // Nothing is known there, and something is mounted: the state was lost.
    served.run(&publish(&one)).succeeds();
    served.kill();
    fs::remove_file(served.csi.home().join("kept/state.json")).unwrap();
    served.restart();
    served
        .run(&format!("node unpublish v-1 --target-path {one}"))
        .succeeds();
    assert_eq!(mounts_below(served.csi.home()), [] as [PathBuf; 0]);
    assert!(root.join("file").exists() && !Path::new(&one).exists());
    served
        .run("node publish none --target-path /tmp/none --cap 5,mount")
        .exits(64 + 13)
        .says("mount: Failure: there is no folder");
}

#[test]
fn what_a_driver_leaves_to_the_kubelet_is_done() {
    let Some(served) = served(true, &["v-1"]) else {
        return;
    };
    let (staging, target) = (served.target("staging"), served.target("target"));
    let attached = served
        .run("controller publish v-1 --node-id node-a --cap 1,mount -o json")
        .succeeds();
    let context = served.csi.file("attached.json", &attached.stdout);
    let way = format!(
        "--staging-target-path {staging} --cap 1,mount --publish-context-from {}",
        context.display()
    );
    served.run(&format!("node stage v-1 {way}")).succeeds();
    // The example has no mount of its own then: what is staged is bound.
    served
        .run(&format!(
            "node publish v-1 --target-path {target} {way} --read-only"
        ))
        .succeeds();
    assert!(fs::write(format!("{target}/file"), "").is_err());
    fs::write(format!("{staging}/file"), "").unwrap();
    assert!(Path::new(&format!("{target}/file")).exists());
    served
        .run(&format!("node unpublish v-1 --target-path {target}"))
        .succeeds();
    served
        .run(&format!("node unstage v-1 --staging-target-path {staging}"))
        .succeeds();
    served
        .run("controller unpublish v-1 --node-id node-a")
        .succeeds();
    assert_eq!(mounts_below(served.csi.home()), [] as [PathBuf; 0]);
    served
        .run("controller publish none --node-id node-a --cap 1,mount")
        .exits(64 + 13)
        .says("getvolumename: Failure: there is no folder");
}

/// What no FlexVolume driver can know or say: its `Failure` has no codes, and it asks nobody whether a node exists.
const BEYOND_FLEXVOLUME: &str = "\
node/publish/of-a-deleted-volume
node/stage/of-a-deleted-volume
controller/publish/of-a-deleted-volume
controller/publish/to-an-unknown-node
";

/// The cases of that filter pass, over the example with volumes that a front makes; so many at least.
fn sanity(attaches: bool, filter: &str, least: usize) {
    let Some(served) = served(attaches, &["any"]) else {
        return;
    };
    let home = served.csi.home();
    let front = home.join("front.sock");
    let _front = Front::start(&front, &home.join("f.sock"), &home.join("volumes"));
    served.csi.file("known", BEYOND_FLEXVOLUME);
    let done = served.run(&format!(
        "-e unix://{} sanity --strict --mount-parent {} --known-failures known --other-node-id n-2 {filter}",
        front.display(),
        served.target("")
    ));
    let done = done.succeeds();
    let ran = done.stdout.lines().filter(|line| line.starts_with("ok "));
    assert!(ran.count() >= least, "{done}");
    assert_eq!(mounts_below(home), [] as [PathBuf; 0]);
}

#[test]
fn sanity_finds_nothing_to_blame_in_mounts_where_volumes_are_made_by_others() {
    sanity(
        false,
        "--filter node/ --filter lifecycle/ --filter replies/node",
        40,
    );
}

#[test]
fn sanity_finds_nothing_to_blame_in_attachments_where_volumes_are_made_by_others() {
    let filter = "--filter controller/publish --filter controller/unpublish --filter node/stage --filter node/unstage";
    sanity(true, filter, 15);
}

#[test]
fn sanity_finds_nothing_to_blame() {
    for attaches in [false, true] {
        let Some(served) = served(attaches, &[]) else {
            return;
        };
        let parent = served.target("");
        let done = served
            .run(&format!("sanity --strict --mount-parent {parent}"))
            .succeeds();
        let ran = done
            .stdout
            .lines()
            .filter(|line| line.starts_with("ok "))
            .count();
        assert!(ran > 30, "{done}");
    }
}
