//! Whoever writes to a share must not lead a publish out of it.

use crate::scene::{Scene, Version, Volume};
use crate::support::driver::Driver;
use crate::support::program::Csi;
use std::fs;
use std::os::unix::fs::symlink;

#[test]
fn no_symlink_is_followed_over_v3() {
    no_symlink_is_followed(Version::V3);
}

#[test]
fn no_symlink_is_followed_over_v4_2() {
    no_symlink_is_followed(Version::V4_2);
}

fn no_symlink_is_followed(version: Version) {
    let scene = Scene::new("symlinks", version);
    let root = scene.share.folder();
    fs::create_dir_all(root.join("tenant/volume/deep")).unwrap();
    fs::create_dir_all(root.join("other/secret")).unwrap();
    for (link, to) in [
        ("relative", "../other"),
        ("absolute", "/"),
        ("inside", "volume"),
    ] {
        symlink(to, root.join("tenant").join(link)).unwrap();
    }
    let volume = |sub_dir: &str| Volume {
        id: "by-hand".to_owned(),
        context: vec![format!("{},subDir={sub_dir}", scene.share.params())],
    };
    for sub_dir in [
        "relative",
        "relative/secret",
        "absolute",
        "inside",
        "inside/deep",
    ] {
        let volume = volume(&format!("tenant/{sub_dir}"));
        scene
            .try_publish(&volume, "refused", &[])
            .exits(64 + 9)
            .says("symlink");
        assert!(!scene.driver.target("refused").exists(), "{sub_dir}");
    }
    let deep = volume("tenant/volume");
    let mount = scene.publish(&deep, "deep");
    assert!(mount.join("deep").is_dir());
    // Nothing but the volume is there, under its whole name.
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    let source = format!("127.0.0.1:{}/tenant/volume ", scene.share.path());
    let of_share = mounts
        .lines()
        .filter(|line| line.contains(scene.share.path()));
    for line in of_share {
        assert!(line.starts_with(&source), "{line}");
    }
    scene.try_unpublish(&deep, "deep").succeeds();
    scene.has_no_mounts();
}

/// The author of a pod chooses the path, and whoever writes to the share what is there.
#[test]
fn inline_volumes_stay_in_what_is_allowed() {
    let mut scene = Scene::new("inline", Version::V4_2);
    let root = scene.share.folder();
    fs::create_dir_all(root.join("allowed/volume")).unwrap();
    fs::create_dir_all(root.join("other/secret")).unwrap();
    fs::write(root.join("allowed/volume/here.txt"), "").unwrap();
    symlink("../other", root.join("allowed/link")).unwrap();
    let path = format!("{}/allowed", scene.share.path());
    scene.driver = Driver::with_args(&[
        "--inline-share",
        &format!("127.0.0.1:{path}"),
        "--inline-mount-option",
        "vers",
    ]);
    scene.csi = Csi::patiently_at(&scene.driver.endpoint());
    let inline = |below: &str| {
        let options = scene.share.options();
        Volume {
            id: format!("csi-{}", "0123456789abcdef".repeat(4)),
            context: vec![
                "csi.storage.k8s.io/ephemeral=true".to_owned(),
                format!("server=127.0.0.1,share={path}{below},\"mountOptions={options}\""),
            ],
        }
    };
    for (below, exit, says) in [
        ("/link", 9, "symlink"),
        ("/link/secret", 9, "symlink"),
        ("/missing", 5, "missing"),
        ("2", 7, "--inline-share"),
    ] {
        let refused = scene.try_publish(&inline(below), "target", &[]);
        refused.exits(64 + exit).says(says);
    }
    let volume = inline("/volume");
    assert!(scene.publish(&volume, "target").join("here.txt").exists());
    scene.try_unpublish(&volume, "target").succeeds();
    scene.has_no_mounts();
    assert!(root.join("allowed/volume/here.txt").exists());
    assert!(!root.join(".csi-nfs").exists());
}
