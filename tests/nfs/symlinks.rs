//! Whoever writes to a share must not lead a publish out of it.

use crate::scene::{Scene, Version, Volume};
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
