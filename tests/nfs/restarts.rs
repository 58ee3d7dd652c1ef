//! SIGKILL of the driver after each call: what was done stays done. [`crate::killed`] kills in the middle of a call.

use crate::scene::{Scene, Version, refused};
use std::fs;
use tonic::Code;

/// Its volumes have `vers=3` in their mount options, without which the server's export has another path.
#[test]
fn killed_after_each_call() {
    let mut scene = Scene::new("killed-after", Version::V3);
    let restart = |scene: &mut Scene| {
        scene.driver.kill();
        scene.driver.restart();
    };

    let created = scene.create("pvc-1");
    restart(&mut scene);
    assert_eq!(scene.create("pvc-1"), created);
    assert_eq!(scene.list(), [created.id.as_str()]);

    let mount = scene.publish(&created, "target");
    fs::write(mount.join("kept.txt"), "kept").unwrap();
    restart(&mut scene);
    assert_eq!(fs::read_to_string(mount.join("kept.txt")).unwrap(), "kept");
    scene.publish(&created, "target");
    assert_eq!(scene.driver.mounts(), [mount.as_path()]);
    // What a second publish may differ in is remembered too.
    let read_only = scene.try_publish_read_only(&created, "target");
    refused(read_only, Code::AlreadyExists, &[]);
    scene.try_stats(&created, "target").unwrap();

    scene.try_expand(&created, 3 << 30).unwrap();
    restart(&mut scene);
    scene.try_expand(&created, 3 << 30).unwrap();
    let found = scene.try_get(&created).unwrap().volume.unwrap();
    assert_eq!(found.capacity_bytes, 3 << 30);

    scene.try_unpublish(&created, "target").unwrap();
    restart(&mut scene);
    scene.try_unpublish(&created, "target").unwrap();
    scene.has_no_mounts();

    scene.try_delete(&created).unwrap();
    restart(&mut scene);
    scene.try_delete(&created).unwrap();
    // The restarted driver has to use the share before it can list or clean it.
    let other = scene.create("pvc-2");
    assert_ne!(other.id, created.id);
    assert_eq!(scene.list(), [other.id.as_str()]);
    scene.try_delete(&other).unwrap();
    scene.share.wait_until_empty("kept.txt");
}
