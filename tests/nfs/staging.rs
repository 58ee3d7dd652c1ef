//! Staging over NFS: one mount a volume and node, bind mounts for pods, also when the server forgets the volume or is gone.

use crate::scene::{Scene, Version, Volume, refused, repeated};
use crate::server::{Away, Server};
use crate::support::calls;
use crate::support::driver::binary;
use crate::support::patience::until;
use crate::support::process::children;
use crate::support::program::Csi;
use crate::upstream;
use csi_proto::v1::NodePublishVolumeRequest;
use rustix::process::{Pid, Signal, kill_process};
use std::cell::Cell;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::Command;
use tonic::{Code, Status};

fn scene(name: &str, version: Version) -> Scene {
    Scene::with_driver(name, version, &["--stage"])
}

/// Stages a volume. The staging folder.
fn stage(scene: &Scene, volume: &Volume) -> String {
    scene.try_stage(volume).unwrap();
    scene.staging()
}

/// NodePublishVolume from a staging folder.
fn try_publish(scene: &Scene, volume: &Volume, target: &str, from: &str) -> Result<(), Status> {
    let request = NodePublishVolumeRequest {
        staging_target_path: from.to_owned(),
        ..scene.publishing(volume, target)
    };
    scene.call(request).map(drop)
}

/// The device of the mount at a path, which tells one mount of the server from another.
fn device(path: &Path) -> String {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let mut of_path = mounts
        .lines()
        .filter(|line| line.split(' ').nth(4) == path.to_str());
    let line = of_path.next().unwrap();
    assert_eq!(of_path.next(), None);
    line.split(' ').nth(2).unwrap().to_owned()
}

#[test]
fn whole_life_of_a_staged_volume() {
    for version in [Version::V3, Version::V4_2] {
        let mut scene = scene("staged", version);
        let volume = scene.create("pvc-1");
        let staging = stage(&scene, &volume);
        try_publish(&scene, &volume, "first", &staging).unwrap();
        let read_only = NodePublishVolumeRequest {
            staging_target_path: staging.clone(),
            readonly: true,
            ..scene.publishing(&volume, "second")
        };
        scene.call(read_only).unwrap();
        let (first, second) = (scene.driver.target("first"), scene.driver.target("second"));
        fs::write(first.join("written.txt"), "x").unwrap();
        assert_eq!(fs::read(second.join("written.txt")).unwrap(), b"x");
        assert!(fs::write(second.join("more.txt"), "x").is_err());
        assert_eq!(device(&first), device(Path::new(&staging)));
        assert_eq!(device(&second), device(&first));

        scene.driver.kill();
        scene.driver.restart();
        try_publish(&scene, &volume, "first", &staging).unwrap();
        assert_eq!(stage(&scene, &volume), staging);
        assert_eq!(scene.driver.mounts().len(), 3);
        scene.try_stats(&volume, "staging").unwrap();
        let unstaged = scene.try_publish(&volume, "third");
        refused(unstaged, Code::FailedPrecondition, &[]);

        let in_use = scene.try_unstage(&volume);
        refused(in_use, Code::FailedPrecondition, &[]);
        for target in ["first", "second"] {
            scene.try_unpublish(&volume, target).unwrap();
        }
        for _ in 0..2 {
            scene.try_unstage(&volume).unwrap();
        }
        scene.has_no_mounts();
        scene.try_delete(&volume).unwrap();
    }
}

#[test]
fn csi_lifecycle_stages() {
    let scene = scene("staged-lifecycle", Version::V4_2);
    let params = scene.share.params();
    let csi = Csi::patiently_at(&scene.driver.endpoint());
    let ended = csi.run_args(["lifecycle", "--params", &params]);
    let ended = ended.succeeds();
    let staged = ended
        .stdout
        .lines()
        .find(|line| line.contains("node stage"));
    assert!(!staged.unwrap().contains("skip"), "{ended}");
    scene.has_no_mounts();
    scene.share.wait_until_empty("none");
}

/// A folder that was removed and made anew on the server is another one to NFS, and the orchestrator stages once.
#[test]
fn a_stale_staged_volume_is_mounted_anew() {
    for again in ["stage", "publish"] {
        let scene = scene(&format!("stale-{again}"), Version::V4_2);
        let volume = scene.create("pvc-1");
        let staging = stage(&scene, &volume);
        try_publish(&scene, &volume, "old", &staging).unwrap();
        let folder = scene.share.folder().join(&scene.share.entries()[0]);
        fs::remove_dir_all(&folder).unwrap();
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("new.txt"), "new").unwrap();
        if again == "stage" {
            stage(&scene, &volume);
            assert_eq!(fs::read_dir(&staging).unwrap().count(), 1);
        }
        try_publish(&scene, &volume, "new", &staging).unwrap();
        let new = scene.driver.target("new");
        assert_eq!(fs::read_to_string(new.join("new.txt")).unwrap(), "new");
        for target in ["old", "new"] {
            scene.try_unpublish(&volume, target).unwrap();
        }
        scene.try_unstage(&volume).unwrap();
        scene.has_no_mounts();
    }
}

/// The folder is away for longer than one publish: the orchestrator will not stage again, so each publish tries.
#[test]
fn a_staged_volume_whose_folder_is_away_comes_back_with_it() {
    let scene = scene("away", Version::V4_2);
    let volume = scene.create("pvc-1");
    let staging = stage(&scene, &volume);
    try_publish(&scene, &volume, "old", &staging).unwrap();
    let folder = scene.share.folder().join(&scene.share.entries()[0]);
    fs::remove_dir(&folder).unwrap();
    let new = scene.driver.target("new");
    for _ in 0..3 {
        let missing = try_publish(&scene, &volume, "new", &staging);
        refused(missing, Code::NotFound, &["has no folder pvc-1"]);
        assert!(!new.exists());
    }
    // Also by a driver that has started since.
    let mut scene = scene;
    scene.driver.kill();
    scene.driver.restart();
    let missing = try_publish(&scene, &volume, "new", &staging);
    refused(missing, Code::NotFound, &[]);
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("back.txt"), "back").unwrap();
    for target in ["new", "old"] {
        try_publish(&scene, &volume, target, &staging).unwrap();
        let back = scene.driver.target(target).join("back.txt");
        assert_eq!(fs::read_to_string(back).unwrap(), "back");
    }
    for target in ["old", "new"] {
        scene.try_unpublish(&volume, target).unwrap();
    }
    scene.try_unstage(&volume).unwrap();
    scene.has_no_mounts();
}

/// The work folder is lost, and with it what was staged where.
#[test]
fn without_a_record_only_the_volumes_own_mount_is_published_from() {
    let mut scene = scene("lost", Version::V4_2);
    let (volume, other) = (scene.create("pvc-1"), scene.create("pvc-2"));
    let staging = stage(&scene, &volume);
    scene.driver.kill();
    let work = scene.driver.plan().with_file_name("work");
    fs::remove_dir_all(work.join("stages")).unwrap();
    scene.driver.restart();
    let foreign = try_publish(&scene, &other, "other", &staging);
    refused(foreign, Code::FailedPrecondition, &["pvc-1"]);
    assert!(!scene.driver.target("other").exists());
    try_publish(&scene, &volume, "own", &staging).unwrap();
    scene.try_unpublish(&volume, "own").unwrap();
    scene.try_unstage(&volume).unwrap();
    scene.has_no_mounts();
}

/// As on a node without a disk.
#[test]
fn a_work_folder_over_nfs_is_as_good() {
    let mut scene = scene("diskless", Version::V4_2);
    let volume = scene.create("pvc-1");
    scene.driver.kill();
    let work = scene.driver.plan().with_file_name("work");
    let mut server = Server::new("diskless");
    server.mount(&work);
    scene.driver.restart();
    let staging = scene.staging();
    repeated(|| scene.try_stage(&volume));
    for _ in 0..2 {
        repeated(|| try_publish(&scene, &volume, "target", &staging));
    }
    repeated(|| scene.try_unpublish(&volume, "target"));
    repeated(|| scene.try_unstage(&volume));
    assert_eq!(scene.driver.mounts(), [work.as_path()]);
    scene.driver.kill();
    rustix::mount::unmount(&work, rustix::mount::UnmountFlags::empty()).unwrap();
}

#[test]
fn a_staging_path_is_no_target() {
    let scene = scene("itself", Version::V4_2);
    let volume = scene.create("pvc-1");
    let staging = stage(&scene, &volume);
    let other = scene.driver.target("other-staging");
    fs::create_dir(&other).unwrap();
    // Named as its own source, and as that of another publish.
    for from in [staging.as_str(), other.to_str().unwrap()] {
        let answer = try_publish(&scene, &volume, "staging", from);
        refused(answer, Code::FailedPrecondition, &["staged there"]);
    }
    assert_eq!(scene.driver.mounts(), [Path::new(&staging)]);
    // Also when the mount is lost, which every publish makes anew before it looks at the rest.
    rustix::mount::unmount(&staging, rustix::mount::UnmountFlags::DETACH).unwrap();
    let answer = try_publish(&scene, &volume, "staging", &staging);
    refused(answer, Code::FailedPrecondition, &["staged there"]);
    try_publish(&scene, &volume, "target", &staging).unwrap();
    assert_eq!(scene.driver.mounts().len(), 2);
    scene.try_unpublish(&volume, "target").unwrap();
    scene.try_unstage(&volume).unwrap();
    scene.has_no_mounts();
}

#[test]
fn a_staged_volume_goes_when_its_server_is_gone() {
    // As long as the server lives, a busy machine has time.
    let mut scene = scene("staged-dead", Version::V4_2);
    let mut server = Server::new("staged-dead");
    let volume = Volume {
        id: "by-hand".to_owned(),
        context: server.share().parameters(),
    };
    let staging = stage(&scene, &volume);
    try_publish(&scene, &volume, "target", &staging).unwrap();
    let short = ["--unmount-timeout", "6s", "--stats-timeout", "3s"];
    scene
        .driver
        .restart_with(&[&["--stage"], &short[..]].concat());
    server.leave(Away::CutOff);
    let late = try_publish(&scene, &volume, "second", &staging);
    refused(late, Code::DeadlineExceeded, &[]);
    assert!(!scene.driver.target("second").exists());
    // An unmount that waits for the server never ends, however often it is tried: its deadline would come each time.
    let at_last = |what: &str, call: &dyn Fn() -> Result<(), Status>| {
        until(what, || {
            let answer = call();
            if let Err(late) = &answer {
                assert!(calls::may_be_repeated(late), "{late}");
            }
            answer.is_ok()
        });
    };
    at_last("it is unpublished", &|| {
        scene.try_unpublish(&volume, "target")
    });
    at_last("it is unstaged", &|| scene.try_unstage(&volume));
    scene.has_no_mounts();
    assert!(!scene.driver.target("target").exists());
    // So that the kernel can finish, and the server end.
    server.come_back(Away::CutOff);
}

/// How many helper processes the driver has started.
fn helpers_started(http: &str) -> u64 {
    let mut asked = Command::new(binary());
    let asked = asked.args(["get", http, "/metrics"]).output().unwrap();
    let metrics = String::from_utf8(asked.stdout).unwrap();
    let mut lines = metrics.lines();
    let count = lines.find_map(|line| line.strip_prefix("csi_nfs_helpers_started_total "));
    count.unwrap().parse().unwrap()
}

/// Also a publish that asks the server whether it knows what is staged, and gives the folder a mode.
#[test]
fn a_call_on_a_volume_starts_one_helper() {
    let folder = tempfile::tempdir().unwrap();
    let http = format!("unix://{}", folder.path().join("http.sock").display());
    let flags = [["--stage", "--http", &http].as_slice(), &upstream::FLAGS].concat();
    let scene = Scene::with_driver("helpers", Version::V4_2, &flags);
    let folder = scene.share.folder().join("pvc-1");
    fs::create_dir(&folder).unwrap();
    fs::set_permissions(&folder, PermissionsExt::from_mode(0o700)).unwrap();
    let share = scene.share.path().trim_start_matches('/');
    let volume = Volume {
        id: format!("127.0.0.1#{share}#pvc-1##"),
        context: upstream::context(&scene.share),
    };
    let before = Cell::new(helpers_started(&http));
    let starts_one = |call: &str, answer: Result<(), Status>| {
        answer.unwrap();
        let started = helpers_started(&http);
        assert_eq!(started - before.replace(started), 1, "{call}");
    };
    starts_one("stage", scene.try_stage(&volume));
    let staging = scene.staging();
    assert_eq!(folder.metadata().unwrap().mode() & 0o7777, 0o750);
    for publish in ["publish", "the same publish"] {
        starts_one(publish, try_publish(&scene, &volume, "target", &staging));
    }
    let ask = || scene.try_stats(&volume, "target").map(drop);
    starts_one("stats", ask());
    // A helper that has answered waits for more questions, for a while.
    // On a busy machine that may be over before the next one.
    let starts_none = |_| {
        ask().unwrap();
        let started = helpers_started(&http);
        started == before.replace(started)
    };
    assert!((0..200).any(starts_none), "each has its own");
    // Where somebody has killed what waits, another one asks.
    let nursery = children(scene.driver.process().pid().as_raw_pid());
    for waits in nursery.into_iter().flat_map(children) {
        kill_process(Pid::from_raw(waits).unwrap(), Signal::KILL).unwrap();
    }
    starts_one("stats", ask());
    // On a busy machine an unmount may take seconds: then another helper makes it a lazy one.
    let lazy = || scene.driver.log().matches(" lazy unmount ").count();
    let takes_away = |call: &str, unmount: &dyn Fn() -> Result<(), Status>| {
        let lazy_before = lazy();
        unmount().unwrap();
        let started = helpers_started(&http);
        let more = started - before.replace(started);
        until(call, || more == 1 + (lazy() - lazy_before) as u64);
    };
    takes_away("unpublish", &|| scene.try_unpublish(&volume, "target"));
    takes_away("unstage", &|| scene.try_unstage(&volume));
    scene.has_no_mounts();
}
