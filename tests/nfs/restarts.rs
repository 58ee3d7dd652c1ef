//! SIGKILL of the driver at any point: what was done stays done, and a retry finishes what was begun.

use crate::scene::{Scene, Version, volume};
use std::fs;
use std::time::Duration;

#[test]
fn killed_after_each_call() {
    let mut scene = Scene::new("killed-after", Version::V4_2);
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

/// Kills the driver in the middle of each call, earlier and later, and lets the client try again until it is done.
#[test]
fn killed_in_mid_call() {
    let mut scene = Scene::new("killed-in", Version::V4_2);
    for round in 0..8_u64 {
        let name = format!("pvc-{round}");
        let target = format!("target-{round}");
        let pause = Duration::from_millis(round * 6);

        let created = volume(&killed(&mut scene, pause, |scene| scene.try_create(&name)));
        let listed = scene.list();
        assert_eq!(
            listed,
            [created.id.as_str()],
            "round {round}: pvc-{round} and nothing else"
        );

        killed(&mut scene, pause, |scene| {
            scene.try_publish(&created, &target, &[])
        });
        let mount = scene.driver.target(&target);
        assert_eq!(
            scene.driver.mounts(),
            [mount.as_path()],
            "round {round}: one mount"
        );
        fs::write(mount.join("kept.txt"), name.as_bytes()).unwrap();

        killed(&mut scene, pause, |scene| {
            scene.try_unpublish(&created, &target)
        });
        scene.has_no_mounts();
        assert!(!mount.exists(), "round {round}: {}", mount.display());

        killed(&mut scene, pause, |scene| scene.try_delete(&created));
        assert_eq!(scene.list(), [""; 0], "round {round}");
    }
    scene.share.wait_until_empty("kept.txt");
}

/// Runs a command, kills the driver `pause` after its start, starts the driver again and repeats the command, which must
/// then succeed. The last output.
fn killed(
    scene: &mut Scene,
    pause: Duration,
    run: impl Fn(&Scene) -> crate::support::program::Output + Sync,
) -> crate::support::program::Output {
    let pid = scene.driver.process().pid();
    std::thread::scope(|threads| {
        let first = threads.spawn(|| run(scene));
        std::thread::sleep(pause);
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
        // Whatever it says; it may have been quicker.
        let _ = first.join().unwrap();
    });
    scene.driver.kill();
    scene.driver.restart();
    run(scene).succeeds()
}
