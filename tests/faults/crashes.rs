//! SIGKILL of the driver's process at each step of each operation, one after the other. Then it is started again, and the
//! call repeated: what is there is whole, what is not left no trace, and nobody else's files have changed.
//!
//! Only debug builds can be told to die, see `driver/store/src/files/crash_points.rs`.

use crate::support::calls::{self, Calls, Map, repeated};
use crate::support::disk::{Disk, Expected};
use crate::support::driver::Driver;
use crate::support::patience::Patience;
use crate::support::placed::of_volume;
use csi_proto::v1::{ControllerModifyVolumeRequest, CreateVolumeRequest, VolumeContentSource};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::runtime::Runtime;
use tonic::Status;

/// A driver with a share that somebody else uses too.
struct Scene {
    driver: Driver,
    runtime: Runtime,
    calls: Calls,
    disk: Disk,
}

/// What stands on the share before the operation.
#[derive(Default)]
struct Before {
    volume: String,
    snapshot: String,
    folders: BTreeSet<String>,
    volumes: usize,
    snapshots: usize,
}

/// What an operation does to the share, besides what was there before.
struct After {
    /// The folder that it makes, or takes away.
    folder: String,
    volumes: isize,
    snapshots: isize,
}

/// An operation that is killed.
struct Operation {
    name: &'static str,
    before: fn(&Scene) -> Before,
    call: fn(&Scene, &Before) -> Result<(), Status>,
    after: fn(&Before) -> After,
}

fn parameters(policy: &str) -> Map {
    calls::map(&[("onDelete", policy)])
}

impl Scene {
    fn new() -> Self {
        let driver = Driver::with_local_share();
        let runtime = calls::runtime();
        let _within = runtime.enter();
        Self {
            calls: Calls::to(&driver.endpoint()),
            disk: Disk::with_foreign_files(&driver.share()),
            driver,
            runtime,
        }
    }

    fn wait<T>(&self, work: impl Future<Output = T>) -> T {
        self.runtime.block_on(work)
    }

    fn create(&self, name: &str, policy: &str) -> String {
        let mut parameters = parameters(policy);
        if policy == "archive" {
            parameters.insert("subDir".to_owned(), name.to_owned());
        }
        let request = calls::volume(name, &parameters);
        self.wait(self.calls.create(request)).unwrap().volume_id
    }

    /// The volumes and snapshots that are listed when the driver has finished what it found.
    async fn settled(&self) -> (usize, usize) {
        let listed = repeated(|| async {
            let volumes = self.calls.volumes().await?;
            let snapshots = self.calls.snapshots().await?;
            // Snapshots that are not finished are not listed.
            if volumes.iter().any(|(_, wrong)| wrong.is_some())
                || snapshots.len() != self.disk.snapshots()
            {
                return Err(Status::aborted("the recovery goes on"));
            }
            Ok((volumes.len(), snapshots.len()))
        });
        listed.await.unwrap()
    }

    fn fill(&self, volume: &str) {
        let folder = of_volume(&self.driver.share(), volume);
        fs::create_dir(folder.join("folder")).unwrap();
        for (path, content) in FILES {
            fs::write(folder.join(path), content).unwrap();
        }
    }
}

const FILES: [(&str, &str); 3] = [("a", "1"), ("folder/b", "2"), ("c", "3")];

fn is_full(folder: &Path) {
    for (path, content) in FILES {
        assert_eq!(fs::read_to_string(folder.join(path)).unwrap(), content);
    }
}

/// A volume `source` with something in it.
fn source(scene: &Scene, policy: &str) -> Before {
    let volume = scene.create("source", policy);
    scene.fill("source");
    Before {
        volume,
        folders: ["source".to_owned()].into(),
        volumes: 1,
        ..Before::default()
    }
}

fn snapshotted(scene: &Scene) -> Before {
    let before = source(scene, "delete");
    let made = scene.wait(scene.calls.ready_snapshot("snapshot", &before.volume));
    Before {
        snapshot: made.unwrap().snapshot_id,
        snapshots: 1,
        ..before
    }
}

fn copy(scene: &Scene, source: Option<VolumeContentSource>) -> Result<(), Status> {
    let mut parameters = parameters("delete");
    if source.is_none() {
        parameters.insert("subDir".to_owned(), "new".to_owned());
    }
    let request = CreateVolumeRequest {
        volume_content_source: source,
        ..calls::volume("new", &parameters)
    };
    scene.wait(scene.calls.create(request)).map(drop)
}

fn one_more(_: &Before) -> After {
    After {
        folder: "new".to_owned(),
        volumes: 1,
        snapshots: 0,
    }
}

fn nothing(_: &Before) -> After {
    After {
        folder: String::new(),
        volumes: 0,
        snapshots: 0,
    }
}

fn delete(scene: &Scene, before: &Before) -> Result<(), Status> {
    scene.wait(scene.calls.delete(&before.volume))
}

const OPERATIONS: [Operation; 10] = [
    Operation {
        name: "create on a new share",
        before: |_| Before::default(),
        call: |scene, _| copy(scene, None),
        after: one_more,
    },
    Operation {
        name: "create",
        before: |scene| source(scene, "delete"),
        call: |scene, _| copy(scene, None),
        after: one_more,
    },
    Operation {
        name: "clone",
        before: |scene| source(scene, "delete"),
        call: |scene, before| copy(scene, calls::of_volume(&before.volume)),
        after: one_more,
    },
    Operation {
        name: "restore",
        before: snapshotted,
        call: |scene, before| copy(scene, calls::of_snapshot(&before.snapshot)),
        after: one_more,
    },
    Operation {
        name: "snapshot",
        before: |scene| source(scene, "delete"),
        call: |scene, before| {
            // One call: a repeat would find the driver dead.
            let made = scene.wait(scene.calls.snapshot("new", &before.volume))?;
            assert!(made.ready_to_use);
            Ok(())
        },
        after: |_| After {
            folder: String::new(),
            volumes: 0,
            snapshots: 1,
        },
    },
    Operation {
        name: "delete a snapshot",
        before: snapshotted,
        call: |scene, before| scene.wait(scene.calls.delete_snapshot(&before.snapshot)),
        after: |_| After {
            folder: String::new(),
            volumes: 0,
            snapshots: -1,
        },
    },
    Operation {
        name: "delete",
        before: |scene| source(scene, "delete"),
        call: delete,
        after: |_| After {
            folder: "source".to_owned(),
            volumes: -1,
            snapshots: 0,
        },
    },
    Operation {
        name: "archive",
        before: |scene| source(scene, "archive"),
        call: delete,
        after: |before| After {
            folder: archived(before),
            volumes: -1,
            snapshots: 0,
        },
    },
    Operation {
        name: "expand",
        before: |scene| source(scene, "delete"),
        call: |scene, before| {
            scene
                .wait(scene.calls.expand(&before.volume, 2 << 30))
                .map(drop)
        },
        after: nothing,
    },
    Operation {
        name: "modify",
        before: |scene| source(scene, "delete"),
        call: |scene, before| {
            let request = ControllerModifyVolumeRequest {
                volume_id: before.volume.clone(),
                mutable_parameters: calls::map(&[("mountPermissions", "0700")]),
                ..Default::default()
            };
            scene.wait(scene.calls.call(request)).map(drop)
        },
        after: nothing,
    },
];

/// Where the volume's folder goes.
fn archived(before: &Before) -> String {
    let (_, nonce) = before.volume.rsplit_once('.').unwrap();
    format!("archived-source-{nonce}")
}

impl Operation {
    /// What must be on the share when the operation has happened, or has not.
    fn expected(&self, before: &Before, happened: bool) -> Expected {
        let mut expected = Expected {
            folders: before.folders.clone(),
            volumes: before.volumes,
            snapshots: before.snapshots,
        };
        if happened {
            let after = (self.after)(before);
            if after.volumes < 0 {
                expected.folders.remove("source");
            }
            if self.name == "archive" || after.volumes > 0 {
                expected.folders.insert(after.folder);
            }
            expected.volumes = expected.volumes.saturating_add_signed(after.volumes);
            expected.snapshots = expected.snapshots.saturating_add_signed(after.snapshots);
        }
        expected
    }

    /// The steps of the operation in order, when nobody dies.
    fn steps(&self) -> Vec<String> {
        let scene = Scene::new();
        let before = (self.before)(&scene);
        let plan = scene.driver.plan();
        fs::write(&plan, "trace").unwrap();
        (self.call)(&scene, &before).unwrap();
        fs::remove_file(&plan).unwrap();
        scene.disk.settles_with(&self.expected(&before, true));
        let steps = fs::read_to_string(plan.with_extension("steps")).unwrap();
        steps.lines().map(str::to_owned).collect()
    }

    /// Dies at `step` when that was passed `count` times. Returns false when it was not reached.
    fn killed_at(&self, step: &str, count: usize) -> bool {
        let mut scene = Scene::new();
        let before = (self.before)(&scene);
        let plan = scene.driver.plan();
        fs::write(&plan, format!("{count} {step}")).unwrap();
        if (self.call)(&scene, &before).is_ok() {
            return false;
        }
        scene.driver.wait_for_death();
        fs::remove_file(&plan).unwrap();
        scene.driver.restart();

        // What the start alone makes of it: all, or nothing.
        let listed = scene.wait(scene.settled());
        let (all, none) = (self.expected(&before, true), self.expected(&before, false));
        let happened = listed == (all.volumes, all.snapshots);
        assert!(
            happened || listed == (none.volumes, none.snapshots),
            "volumes and snapshots: {listed:?}"
        );
        scene.disk.settles_with(if happened { &all } else { &none });

        let mut patience = Patience::default();
        while let Err(status) = (self.call)(&scene, &before) {
            assert!(
                calls::may_be_repeated(&status) && patience.lasts(),
                "{status}"
            );
        }
        scene.disk.settles_with(&all);
        for folder in &all.folders {
            let copied = matches!(self.name, "clone" | "restore") || folder.contains("source");
            if copied {
                is_full(&of_volume(&scene.driver.share(), folder));
            }
        }

        // What was being written is swept by a later start.
        scene.disk.age_drafts();
        scene.driver.kill();
        scene.driver.restart();
        scene.disk.has_no_drafts();
        scene.disk.settles_with(&all);
        true
    }
}

/// Trials at a time; each waits more than it works.
const AT_A_TIME: usize = 6;

#[test]
fn killed_at_every_step() {
    let traces: Vec<Vec<String>> = OPERATIONS.iter().map(Operation::steps).collect();
    let mut trials = Vec::new();
    for (operation, steps) in OPERATIONS.iter().zip(&traces) {
        let mut passed = BTreeMap::<&str, usize>::new();
        for step in steps {
            let count = passed.entry(step).or_default();
            trials.push((operation, step.as_str(), *count));
            *count += 1;
        }
    }
    let hit = Mutex::new(BTreeSet::new());
    let next = AtomicUsize::new(0);
    std::thread::scope(|threads| {
        for _ in 0..AT_A_TIME {
            threads.spawn(|| {
                while let Some((operation, step, count)) =
                    trials.get(next.fetch_add(1, Ordering::Relaxed))
                {
                    let trial = || operation.killed_at(step, *count);
                    let died = catch_unwind(AssertUnwindSafe(trial)).unwrap_or_else(|panic| {
                        eprintln!(
                            "{}: killed after {step:?}, passed {count} times",
                            operation.name
                        );
                        resume_unwind(panic)
                    });
                    assert!(died, "{}: {step:?} {count} was not reached", operation.name);
                    hit.lock().unwrap().insert(*step);
                }
            });
        }
    });
    let hit = hit.into_inner().unwrap();
    let missed: Vec<_> = steps_in_the_source()
        .into_iter()
        .filter(|step| !hit.contains(step.as_str()) && !NOT_HERE.contains(&step.as_str()))
        .collect();
    assert!(missed.is_empty(), "no operation was killed at {missed:?}");
    eprintln!(
        "killed {} times, at {} different steps",
        trials.len(),
        hit.len()
    );
}

/// Steps that one controller alone never comes to, or only after another death, or with a file that is too large for hundreds
/// of trials; or that only an agent comes to, on a file system with quotas, or who measures volumes or counts what is promised.
/// The driver's own tests come there (`share/tests`, `copying/tests.rs`, `driver/tests/quota`).
const NOT_HERE: [&str; 14] = [
    "a file is drafted",
    "a measure is beside its record",
    "a part of a file is copied",
    "a volume that is taken in is limited",
    "all of a volume is in its project",
    "it is given back",
    "other attempts are discarded",
    "the copy is claimed",
    "the folder is limited",
    "the folder of a volume is a project",
    "the prepared folder is leaving",
    "the records are listed",
    "the request is done",
    "the request is understood",
];

/// All steps that the driver has.
fn steps_in_the_source() -> BTreeSet<String> {
    fn look(folder: &Path, steps: &mut BTreeSet<String>) {
        for entry in fs::read_dir(folder).unwrap().flatten() {
            let path = entry.path();
            if path.is_dir() {
                look(&path, steps);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(&path).unwrap();
                let calls = text.split("step(\"").skip(1);
                steps.extend(calls.filter_map(|call| Some(call.split_once('"')?.0.to_owned())));
            }
        }
    }
    let mut steps = BTreeSet::new();
    look(
        &Path::new(env!("CARGO_MANIFEST_DIR")).join("driver/store/src/share"),
        &mut steps,
    );
    assert!(steps.len() > 25, "{steps:?}");
    steps
}
