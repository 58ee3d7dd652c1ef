//! Whoever writes to a share must not lead a publish out of it.

use crate::scene::{Scene, Version, Volume, refused};
use crate::support::calls;
use crate::support::driver::Driver;
use std::fs;
use std::os::unix::fs::symlink;
use tonic::Code;

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
    let volume = |sub_dir: &str| {
        let mut context = scene.share.parameters();
        context.insert("subDir".to_owned(), sub_dir.to_owned());
        let id = "by-hand".to_owned();
        Volume { id, context }
    };
    for sub_dir in [
        "relative",
        "relative/secret",
        "absolute",
        "inside",
        "inside/deep",
    ] {
        let volume = volume(&format!("tenant/{sub_dir}"));
        let answer = scene.try_publish(&volume, "refused");
        refused(answer, Code::FailedPrecondition, &["symlink"]);
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
    scene.try_unpublish(&deep, "deep").unwrap();
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
    let inline = |below: &str| {
        let mut context = scene.share.parameters();
        context.insert("share".to_owned(), format!("{path}{below}"));
        context.extend(calls::map(&[("csi.storage.k8s.io/ephemeral", "true")]));
        Volume {
            id: format!("csi-{}", "0123456789abcdef".repeat(4)),
            context,
        }
    };
    for (below, code, says) in [
        ("/link", Code::FailedPrecondition, "symlink"),
        ("/link/secret", Code::FailedPrecondition, "symlink"),
        ("/missing", Code::NotFound, "missing"),
        ("2", Code::PermissionDenied, "--inline-share"),
    ] {
        let answer = scene.try_publish(&inline(below), "target");
        refused(answer, code, &[says]);
    }
    let volume = inline("/volume");
    assert!(scene.publish(&volume, "target").join("here.txt").exists());
    scene.try_unpublish(&volume, "target").unwrap();
    scene.has_no_mounts();
    assert!(root.join("allowed/volume/here.txt").exists());
    assert!(!root.join(".csi-nfs").exists());
}
