//! SIGKILL of the driver at any point: what was done stays done, and a retry finishes what was begun.

use crate::scene::{Scene, Version, volume};
use crate::support::program::Output;
use rustix::process::{Signal, kill_process};
use std::fs;
use std::time::{Duration, Instant};

#[test]
fn killed_after_each_call() {
    kill_after_each_call(Version::V4_2);
}

/// Its volumes have `vers=3` in their mount options, without which the server's export has another path.
#[test]
fn killed_after_each_call_with_mount_options() {
    kill_after_each_call(Version::V3);
}

fn kill_after_each_call(version: Version) {
    let mut scene = Scene::new("killed-after", version);
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
    // How long each command takes when nobody interferes.
    let (warm_up, create) = timed(|| scene.create("pvc"));
    let (_, publish) = timed(|| scene.publish(&warm_up, "target"));
    let (_, unpublish) = timed(|| scene.try_unpublish(&warm_up, "target").succeeds());
    let (_, delete) = timed(|| scene.try_delete(&warm_up).succeeds());

    let mut interrupted = 0;
    for round in 0..ROUNDS {
        let name = format!("pvc-{round}");
        let target = format!("target-{round}");
        // The first half of a command's time is spent before the driver hears of it.
        let part = |whole: Duration| whole * (ROUNDS + round) / (2 * ROUNDS);

        let created = killed(&mut scene, part(create), &mut interrupted, |scene| {
            scene.try_create(&name)
        });
        let created = volume(&created);
        assert_eq!(scene.list(), [created.id.as_str()], "round {round}");

        killed(&mut scene, part(publish), &mut interrupted, |scene| {
            scene.try_publish(&created, &target, &[])
        });
        let mount = scene.driver.target(&target);
        assert_eq!(
            scene.driver.mounts(),
            [mount.as_path()],
            "round {round}: one mount"
        );
        fs::write(mount.join("kept.txt"), name.as_bytes()).unwrap();

        killed(&mut scene, part(unpublish), &mut interrupted, |scene| {
            scene.try_unpublish(&created, &target)
        });
        scene.has_no_mounts();
        assert!(!mount.exists(), "round {round}: {}", mount.display());

        killed(&mut scene, part(delete), &mut interrupted, |scene| {
            scene.try_delete(&created)
        });
        assert_eq!(scene.list(), [""; 0], "round {round}");
    }
    assert!(
        interrupted > 0,
        "the driver was never killed before it had answered"
    );
    scene.share.wait_until_empty("kept.txt");
}

const ROUNDS: u32 = 5;

fn timed<T>(run: impl FnOnce() -> T) -> (T, Duration) {
    let started = Instant::now();
    let result = run();
    (result, started.elapsed())
}

/// Runs a command, kills the driver `pause` after its start, starts the driver again and repeats the command, which must
/// then succeed. Returns its output; counts in `interrupted` when the first try failed.
fn killed(
    scene: &mut Scene,
    pause: Duration,
    interrupted: &mut u32,
    run: impl Fn(&Scene) -> Output + Sync,
) -> Output {
    let pid = scene.driver.process().pid();
    std::thread::scope(|threads| {
        let first = threads.spawn(|| run(scene));
        // Another moment in each round, whatever the driver does then.
        std::thread::sleep(pause);
        kill_process(pid, Signal::KILL).unwrap();
        if first.join().unwrap().code != 0 {
            *interrupted += 1;
        }
    });
    scene.driver.kill();
    scene.driver.restart();
    run(scene).succeeds()
}
