//! SIGKILL before each system call by which an operation on an NFS share mounts or unmounts: of the driver, or of the helper that does it
//! for it. The call is repeated then, and what it has left is looked at. The changes of files between are the same on any share:
//! `driver/tests/driver/killed.rs` kills before each of those on a local one, and `torture` at random over NFS. To stage mounts and
//! unmounts as to publish does.
//!
//! strace kills, by name and number of the call. An undisturbed run tells both. Which of its threads makes a call differs from run
//! to run, so no thread may come to the last numbers.

use crate::scene::{Scene, Version, Volume, repeated};
use crate::support::patience::until;
use crate::support::strace::{Kills, TRIES, counts, has_killed, kill_before, numbers, words};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use tonic::Status;

/// System calls that mount and unmount, and that remove what was mounted on. Those that a processor does not have are left out
/// by strace.
const MOUNTING: &str = "?mount,?umount2,?move_mount,?fsmount,?unshare,?setns,?rmdir,?unlinkat";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operation {
    Create,
    Publish,
    Unpublish,
}

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
        if let (Operation::Unpublish, Some(volume)) = (operation, &volume) {
            scene.publish(volume, "target");
        }
        scene.driver.kill();
        Self {
            scene,
            operation,
            name,
            volume,
        }
    }

    /// The volume that there is, or is made.
    fn call(&self) -> Result<Volume, Status> {
        match (self.operation, &self.volume) {
            (Operation::Publish, Some(volume)) => {
                let published = self.scene.try_publish(volume, "target");
                published.map(|()| volume.clone())
            }
            (Operation::Unpublish, Some(volume)) => {
                let unpublished = self.scene.try_unpublish(volume, "target");
                unpublished.map(|()| volume.clone())
            }
            _ => self.scene.try_create(&self.name),
        }
    }

    /// Repeats the call, looks at what is there, and takes it back.
    fn finish(self) {
        let volume = repeated(|| self.call());
        // A driver that has only mounted a share since its start has no list of it.
        if self.operation == Operation::Create {
            assert_eq!(self.scene.list().len(), 1);
        }
        assert_eq!(self.scene.share.entries().len(), 1);
        let is_published = self.operation == Operation::Publish;
        let mounts = self.scene.driver.mounts();
        assert_eq!(mounts.len(), usize::from(is_published), "{mounts:?}");
        let target = self.scene.driver.target("target");
        assert_eq!(target.exists(), is_published);
        self.scene.try_unpublish(&volume, "target").unwrap();
        self.scene.try_delete(&volume).unwrap();
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
        .restart_under(&words(log, MOUNTING, None));
    let before = counts(log);
    let log_of_driver = || undisturbed.scene.driver.log();
    let called = undisturbed.call();
    called.unwrap_or_else(|status| panic!("{status}\n{}", log_of_driver()));
    undisturbed.scene.driver.kill();
    until("the end of the tracer", || has_killed(log));
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
        .restart_under(&words(&log, MOUNTING, Some(&kill)));
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
    let scene = &mut Scene::new(&name, Version::V4_2);
    let log = scene.driver.target("strace");
    // Then the share has its records folder, in the undisturbed run as in all others.
    let first = scene.create("first");
    scene.try_delete(&first).unwrap();
    let calls = calls_of(scene, operation, &log);
    assert!(!calls.is_empty());
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
    assert!(!hit.is_empty());
    scene.has_no_mounts();
}

#[test]
fn a_driver_or_helper_killed_before_any_mount_of_a_creation() {
    survives_every_kill(Operation::Create);
}

#[test]
fn a_driver_or_helper_killed_before_any_mount_of_a_publish() {
    survives_every_kill(Operation::Publish);
}

#[test]
fn a_driver_or_helper_killed_before_any_mount_of_an_unpublish() {
    survives_every_kill(Operation::Unpublish);
}
