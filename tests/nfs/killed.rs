//! SIGKILL before each system call by which an operation on an NFS share changes something: of the driver, or of the helper that mounts
//! for it. The call is repeated then, and what it has left is looked at. On a local share `driver/tests/driver/killed.rs` does the same.
//!
//! strace kills, by name and number of the call. An undisturbed run tells both. Which of its threads makes a call differs from run
//! to run, so no thread may come to the last numbers.

use crate::scene::{Scene, Version, Volume, find};
use crate::support::PATIENCE;
use crate::support::placed::of_volume;
use crate::support::program::Output;
use crate::support::strace::{Kills, TRIES, counts, has_killed, kill_before, numbers, words};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// System calls that change something. Those that a processor does not have are left out by strace.
const CHANGING: &str = "?mkdir,?mkdirat,?rename,?renameat,?renameat2,?link,?linkat,?unlink,?unlinkat,?rmdir,\
    ?fchmod,?fchmodat,?fchownat,?mount,?umount2,?move_mount,?fsmount,?unshare,?setns";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operation {
    Create,
    Delete,
    Publish,
    Unpublish,
    Stage,
    Unstage,
    Snapshot,
}

impl Operation {
    /// The arguments of a driver that does it.
    fn driver(self) -> &'static [&'static str] {
        match self {
            Self::Stage | Self::Unstage => &["--stage"],
            _ => &[],
        }
    }
}

/// What is in a volume of which a snapshot is made.
const CONTENT: &str = "content";

/// One try, with a volume of its own.
struct Try<'a> {
    scene: &'a mut Scene,
    operation: Operation,
    name: String,
    volume: Option<Volume>,
}

impl<'a> Try<'a> {
    /// What the operation needs is there, and no driver runs.
    fn prepare(scene: &'a mut Scene, operation: Operation, number: usize) -> Self {
        let name = format!("pvc-{number}");
        let volume = (operation != Operation::Create).then(|| scene.create(&name));
        match (operation, &volume) {
            (Operation::Unpublish, Some(volume)) => drop(scene.publish(volume, "target")),
            (Operation::Unstage, Some(volume)) => drop(scene.try_stage(volume).succeeds()),
            (Operation::Snapshot, Some(_)) => {
                let file = of_volume(scene.share.folder(), &name).join("file");
                fs::write(file, CONTENT).unwrap();
            }
            _ => {}
        }
        scene.driver.kill();
        Self {
            scene,
            operation,
            name,
            volume,
        }
    }

    fn call(&self) -> Output {
        match (self.operation, &self.volume) {
            (Operation::Delete, Some(volume)) => self.scene.try_delete(volume),
            (Operation::Publish, Some(volume)) => self.scene.try_publish(volume, "target", &[]),
            (Operation::Unpublish, Some(volume)) => self.scene.try_unpublish(volume, "target"),
            (Operation::Stage, Some(volume)) => self.scene.try_stage(volume),
            (Operation::Unstage, Some(volume)) => self.scene.try_unstage(volume),
            (Operation::Snapshot, Some(volume)) => self.snapshot(volume),
            _ => self.scene.try_create(&self.name),
        }
    }

    fn snapshot(&self, volume: &Volume) -> Output {
        let controller = ["controller", "create-snapshot", &self.name];
        let source = ["--source-volume", &volume.id, "-o", "name"];
        let args = controller.into_iter().chain(source);
        self.scene.csi.run_args(args)
    }

    /// The snapshot that was answered is whole, and the only one; and it goes.
    fn finish_snapshot(&self, id: &str) {
        let records = self.scene.share.folder().join(".csi-nfs/snapshots");
        let files = find(&records, "file");
        assert_eq!(files.len(), 1, "{files:?}");
        assert_eq!(fs::read_to_string(&files[0]).unwrap(), CONTENT);
        let delete = ["controller", "delete-snapshot", id];
        self.scene.csi.run_args(delete).succeeds();
    }

    /// Repeats the call for as long as an orchestrator would, looks at what is there, and takes it back.
    fn finish(self) {
        let end = Instant::now() + PATIENCE;
        let mut output = self.call();
        while output.code != 0 {
            assert!(Instant::now() < end, "{output}");
            std::thread::sleep(Duration::from_millis(20));
            output = self.call();
        }
        let is_there = self.operation != Operation::Delete;
        // A driver that has only mounted a share since its start has no list of it.
        if matches!(self.operation, Operation::Create | Operation::Delete) {
            assert_eq!(self.scene.list().len(), usize::from(is_there));
        }
        assert_eq!(self.scene.share.entries().len(), usize::from(is_there));
        let is_published = self.operation == Operation::Publish;
        let is_mounted = is_published || self.operation == Operation::Stage;
        let mounts = self.scene.driver.mounts();
        assert_eq!(mounts.len(), usize::from(is_mounted), "{mounts:?}");
        let target = self.scene.driver.target("target");
        assert_eq!(target.exists(), is_published);
        let volume = match self.operation {
            Operation::Create => crate::scene::volume(&output),
            _ => self.volume.clone().unwrap(),
        };
        match self.operation {
            Operation::Stage => drop(self.scene.try_unstage(&volume).succeeds()),
            Operation::Snapshot => self.finish_snapshot(output.stdout.trim()),
            _ => drop(self.scene.try_unpublish(&volume, "target").succeeds()),
        }
        self.scene.try_delete(&volume).succeeds();
        assert!(!target.exists());
        assert_eq!(self.scene.driver.mounts(), [] as [PathBuf; 0]);
        assert_eq!(self.scene.list(), [] as [String; 0]);
        for folder in ["volumes", "folders", "snapshots"] {
            let folder = self.scene.share.folder().join(".csi-nfs").join(folder);
            let left = fs::read_dir(&folder).unwrap().count();
            assert_eq!(left, 0, "{}", folder.display());
        }
        self.scene.share.wait_until_empty("file");
    }
}

/// The calls that the operation makes undisturbed: their names, and their numbers in their threads.
fn calls_of(
    scene: &mut Scene,
    operation: Operation,
    log: &Path,
) -> BTreeMap<String, RangeInclusive<u32>> {
    let undisturbed = Try::prepare(scene, operation, 0);
    undisturbed
        .scene
        .driver
        .restart_under(&words(log, CHANGING, None));
    let before = counts(log);
    undisturbed.call().succeeds();
    undisturbed.scene.driver.kill();
    let end = Instant::now() + PATIENCE;
    while !has_killed(log) {
        assert!(Instant::now() < end, "the tracer goes on");
        std::thread::sleep(Duration::from_millis(5));
    }
    undisturbed.scene.driver.restart();
    undisturbed.finish();
    numbers(&before, &counts(log))
}

/// Kills before one call, repeats the operation, and looks. Returns whether something was killed.
fn survive(it: Try<'_>, call: &str, number: u32) -> bool {
    let log = it.scene.driver.target("strace");
    let kill = kill_before(call, number);
    it.scene
        .driver
        .restart_under(&words(&log, CHANGING, Some(&kill)));
    // Its answer does not count: it may have gone with the driver.
    let _ = it.call();
    let was_hit = !it.scene.driver.is_running() || has_killed(&log);
    it.scene.driver.kill();
    it.scene.driver.restart();
    it.finish();
    was_hit
}

fn survives_every_kill(operation: Operation) {
    let name = format!("killed-{operation:?}").to_lowercase();
    let scene = &mut Scene::with_driver(&name, Version::V4_2, operation.driver());
    let log = scene.driver.target("strace");
    // Then the share has its records folder, in the undisturbed run as in all others.
    let first = scene.create("first");
    scene.try_delete(&first).succeeds();
    let calls = calls_of(scene, operation, &log);
    assert!(calls.len() > 1, "{calls:?}");
    let mut tries = 0;
    let mut hit = BTreeSet::new();
    for (call, numbers) in calls {
        let mut kills = Kills::new(numbers.clone());
        while let Some(number) = kills.number() {
            kills.was_hit((0..TRIES).any(|_| {
                tries += 1;
                survive(Try::prepare(scene, operation, tries), &call, number)
            }));
        }
        eprintln!(
            "{operation:?}: {} kills before {call}, of {numbers:?}",
            kills.hits
        );
        hit.extend((kills.hits > 0).then_some(call));
    }
    // Some calls are made in some runs only.
    assert!(hit.len() > 1, "{hit:?}");
    scene.has_no_mounts();
}

#[test]
fn a_driver_killed_before_any_change_of_a_creation() {
    survives_every_kill(Operation::Create);
}

#[test]
fn a_driver_killed_before_any_change_of_a_deletion() {
    survives_every_kill(Operation::Delete);
}

#[test]
fn a_driver_or_helper_killed_before_any_change_of_a_publish() {
    survives_every_kill(Operation::Publish);
}

#[test]
fn a_driver_or_helper_killed_before_any_change_of_an_unpublish() {
    survives_every_kill(Operation::Unpublish);
}

#[test]
fn a_driver_or_helper_killed_before_any_change_of_a_stage() {
    survives_every_kill(Operation::Stage);
}

#[test]
fn a_driver_or_helper_killed_before_any_change_of_an_unstage() {
    survives_every_kill(Operation::Unstage);
}

#[test]
fn a_driver_killed_before_any_change_of_a_snapshot() {
    survives_every_kill(Operation::Snapshot);
}
