//! One share at several addresses, and a copy of its storage, as an NFS client sees them: each mount has a device number of its
//! own, and attributes that it believes for a while.

use crate::scene::{Scene, Version, refused, try_create_with};
use crate::support::calls;
use crate::support::patience::until;
use std::process::Command;
use tonic::Code;

fn a_copy_is_told_from_an_alias(name: &str, version: Version) {
    let scene = Scene::with_driver(name, version, &["--mode", "controller"]);
    scene.create("first");
    let create = |server: &str, path: &str| {
        let mut parameters = scene.share.parameters();
        parameters.extend(calls::map(&[("server", server), ("share", path)]));
        try_create_with(&scene.driver, calls::volume("v", &parameters))
    };
    let alias = create("localhost", scene.share.path()).unwrap();
    assert!(alias.id.starts_with("localhost/"), "{}", alias.id);
    assert_eq!(scene.list().len(), 2);

    let folder = scene.share.folder();
    let copy = folder.with_file_name(format!("{name}-copy"));
    // What a first use is followed by may take away a file that is being copied.
    until("the share is copied", || {
        let _ = std::fs::remove_dir_all(&copy);
        let mut cp = Command::new("cp");
        cp.arg("-a")
            .arg(folder)
            .arg(&copy)
            .status()
            .unwrap()
            .success()
    });
    let (above, _) = scene.share.path().rsplit_once('/').unwrap();
    let twin = create("127.0.0.1", &format!("{above}/{name}-copy"));
    refused(twin, Code::FailedPrecondition, &["share.json"]);
    assert_eq!(scene.list().len(), 2);
}

#[test]
fn a_copy_is_told_from_an_alias_over_v3() {
    a_copy_is_told_from_an_alias("twins-v3", Version::V3);
}

#[test]
fn a_copy_is_told_from_an_alias_over_v4_2() {
    a_copy_is_told_from_an_alias("twins-v4", Version::V4_2);
}
