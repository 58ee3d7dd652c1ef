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
    let (warm_up, mut create) = timed(|| scene.create("pvc"));
    let (_, mut publish) = timed(|| scene.publish(&warm_up, "target"));
    let (_, mut unpublish) = timed(|| scene.try_unpublish(&warm_up, "target").succeeds());
    let (_, mut delete) = timed(|| scene.try_delete(&warm_up).succeeds());

    for round in 0.. {
        let name = format!("pvc-{round}");
        let target = format!("target-{round}");
        let created = killed(&mut scene, &mut create, |scene| scene.try_create(&name));
        let created = volume(&created);
        assert_eq!(scene.list(), [created.id.as_str()], "round {round}");

        killed(&mut scene, &mut publish, |scene| {
            scene.try_publish(&created, &target, &[])
        });
        let mount = scene.driver.target(&target);
        assert_eq!(
            scene.driver.mounts(),
            [mount.as_path()],
            "round {round}: one mount"
        );
        fs::write(mount.join("kept.txt"), name.as_bytes()).unwrap();

        killed(&mut scene, &mut unpublish, |scene| {
            scene.try_unpublish(&created, &target)
        });
        scene.has_no_mounts();
        assert!(!mount.exists(), "round {round}: {}", mount.display());

        killed(&mut scene, &mut delete, |scene| scene.try_delete(&created));
        assert_eq!(scene.list(), [""; 0], "round {round}");
        let commands = [&create, &publish, &unpublish, &delete];
        if round + 1 >= ROUNDS && commands.iter().all(|it| it.interrupted > 0) {
            break;
        }
        let interrupted = commands.map(|it| it.interrupted);
        assert!(round < MOST_ROUNDS, "killed in mid-call: {interrupted:?}");
    }
    scene.share.wait_until_empty("kept.txt");
}

/// At least, and until each command was killed before it had answered.
const ROUNDS: u32 = 4;
/// More than it takes to find the moment.
const MOST_ROUNDS: u32 = 60;

/// What the client says where the driver went while a call was under way.
const LOST: &str = "a call that was under way may have taken effect";

/// When the driver is killed in a command.
struct Moment {
    pause: Duration,
    /// The part of it by which the next pause differs: a call may take much less time than the start of its command.
    step: f64,
    was_late: bool,
    interrupted: u32,
}

fn timed<T>(run: impl FnOnce() -> T) -> (T, Moment) {
    let started = Instant::now();
    let result = run();
    let moment = Moment {
        pause: started.elapsed() * 2 / 3,
        step: 0.5,
        was_late: true,
        interrupted: 0,
    };
    (result, moment)
}

/// Runs a command, kills the driver some time after its start, starts the driver again and repeats the command, which must
/// then succeed. Returns its output. The kill comes earlier next time when it came too late, and later otherwise: by less each time
/// that this turns.
fn killed(scene: &mut Scene, moment: &mut Moment, run: impl Fn(&Scene) -> Output + Sync) -> Output {
    let pid = scene.driver.process().pid();
    std::thread::scope(|threads| {
        let first = threads.spawn(|| run(scene));
        // Another moment in each round, whatever the driver does then.
        std::thread::sleep(moment.pause);
        kill_process(pid, Signal::KILL).unwrap();
        let first = first.join().unwrap();
        // A driver that was dead before the call has reached it interrupts nothing.
        moment.interrupted += u32::from(first.stderr.contains(LOST));
        let is_late = first.code == 0;
        if is_late != std::mem::replace(&mut moment.was_late, is_late) {
            moment.step = (moment.step / 2.0).max(1.0 / 32.0);
        }
        let step = if is_late { -moment.step } else { moment.step };
        moment.pause = moment.pause.mul_f64(1.0 + step);
    });
    scene.driver.kill();
    scene.driver.restart();
    run(scene).succeeds()
}
