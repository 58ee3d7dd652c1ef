//! SIGKILL of the driver after each call: what was done stays done. [`crate::killed`] kills in the middle of a call.

use crate::scene::{Scene, Version};
use std::fs;

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
    scene
        .try_publish(&created, "target", &["--read-only"])
        .exits(64 + 6);
    let stats = format!("{}:{}", created.id, mount.display());
    scene.csi.run_args(["node", "stats", &stats]).succeeds();

    let expand = [
        "controller",
        "expand-volume",
        &created.id,
        "--req-bytes",
        "3Gi",
        "-o",
        "name",
    ];
    scene.csi.run_args(expand).succeeds();
    restart(&mut scene);
    scene.csi.run_args(expand).succeeds();
    let get = ["controller", "get-volume", &created.id, "-o", "json"];
    let capacity = scene.csi.run_args(get).succeeds().json()["volume"]["capacityBytes"].clone();
    assert_eq!(capacity, (3_u64 << 30).to_string());

    scene.try_unpublish(&created, "target").succeeds();
    restart(&mut scene);
    scene.try_unpublish(&created, "target").succeeds();
    scene.has_no_mounts();

    scene.try_delete(&created).succeeds();
    restart(&mut scene);
    scene.try_delete(&created).succeeds();
    // The restarted driver has to use the share before it can list or clean it.
    let other = scene.create("pvc-2");
    assert_ne!(other.id, created.id);
    assert_eq!(scene.list(), [other.id.as_str()]);
    scene.try_delete(&other).succeeds();
    scene.share.wait_until_empty("kept.txt");
}
