//! Two operations of two controllers, cut into each other at each pair of their steps: the first goes on to one of its steps,
//! the second to one of its own, then the first to its end, then the second. What storms find by chance, this finds each time.

use super::copies::{assert_full, copy_of, full_volume, origin};
use super::*;
use crate::files::crash_points::{Gate, waiting};
use crate::share::attempt::process;
use crate::share::records::origin::Source;
use crate::share::records::volume::Changes;

/// An operation on what was made before it. What it answers is met again by whoever repeats it.
pub(super) type Operation<'a, B> = &'a (dyn Fn(&Trial, &B) + Sync);

/// Cuts the operations into each other at each pair of steps, each on a trial of its own, and looks at what follows with
/// `after`. For the second one, who copies at the cut of the first one has been silent for long, when `takes_over`. At least
/// `least` pairs must be hit.
pub(super) fn interleave<B: Sync>(
    least: usize,
    takes_over: bool,
    before: impl Fn(&Trial) -> B + Sync,
    operations: [Operation<'_, B>; 2],
    after: impl Fn(&Trial, &B) + Sync,
) {
    let next = AtomicUsize::new(0);
    let last = AtomicUsize::new(usize::MAX);
    let pairs = AtomicUsize::new(0);
    let cuts = || {
        while let cut = next.fetch_add(1, Ordering::Relaxed)
            && cut <= last.load(Ordering::Relaxed)
        {
            for other_cut in 0.. {
                let trial = Trial::in_memory();
                let made = before(&trial);
                let at = Cut(cut_at(
                    [cut, other_cut],
                    &trial,
                    &made,
                    takes_over,
                    operations,
                ));
                after(&trial, &made);
                pairs.fetch_add(1, Ordering::Relaxed);
                if at.0[0].is_none() {
                    last.fetch_min(cut, Ordering::Relaxed);
                }
                if at.0[1].is_none() {
                    break;
                }
            }
        }
    };
    // Most of the time is waiting: for the disk, for others, for better times.
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(cuts);
        }
    });
    let pairs = pairs.into_inner();
    assert!(pairs >= least, "only {pairs} pairs");
}

/// Says where the operations were cut when the test fails.
struct Cut([Option<&'static str>; 2]);

impl Drop for Cut {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("cut at {:?}", self.0);
        }
    }
}

/// Runs the operations as [`interleave`] does, once. Returns the steps that they were cut at; nothing for one that has ended
/// before.
fn cut_at<B: Sync>(
    [cut, other_cut]: [usize; 2],
    trial: &Trial,
    made: &B,
    takes_over: bool,
    [first, second]: [Operation<'_, B>; 2],
) -> [Option<&'static str>; 2] {
    let [gate, other_gate] = [(); 2].map(|()| Arc::new(Gate::default()));
    std::thread::scope(|scope| {
        let one = scope.spawn(|| waiting(cut, &gate, || first(trial, made)));
        let at = gate.reached();
        if takes_over {
            trial.silence_copies();
        }
        let other = scope.spawn(|| waiting(other_cut, &other_gate, || second(trial, made)));
        let at = [at, other_gate.reached()];
        gate.open();
        one.join()
            .unwrap_or_else(|_| panic!("the first one, cut at {at:?}"));
        other_gate.open();
        other
            .join()
            .unwrap_or_else(|_| panic!("the second one, cut at {at:?}"));
        at
    })
}

impl Trial {
    /// Makes whoever copies a process that is dead.
    fn silence_copies(&self) {
        for shelf in ["volumes", "snapshots"] {
            let shelf = self.at(&format!(".csi-nfs/{shelf}"));
            for folder in std::fs::read_dir(shelf).unwrap() {
                for file in std::fs::read_dir(folder.unwrap().path()).unwrap() {
                    let path = file.unwrap().path();
                    if path.is_dir() {
                        continue;
                    }
                    let text = std::fs::read(&path).unwrap();
                    let Ok(mut record) = serde_json::from_slice::<serde_json::Value>(&text) else {
                        continue;
                    };
                    if let Some(copying) = record.get_mut("copying") {
                        copying["process"] = process::dead().into();
                        std::fs::write(&path, record.to_string()).unwrap();
                    }
                }
            }
        }
    }

    /// The volume that `wanted` describes, made by as many repeats as an orchestrator would make.
    fn made(&self, wanted: &Wanted) -> Record<Volume> {
        self.silence_copies();
        match self.create(wanted) {
            Err(ShareError::CopiedElsewhere(_) | ShareError::Unfinished { .. }) => {
                self.create(wanted).unwrap()
            }
            other => other.unwrap(),
        }
    }

    /// Demands that nothing is left of the volume.
    pub(super) fn is_without(&self, volume: &Record<Volume>) {
        let name = &volume.what.wanted.name;
        assert!(!self.at(&volume.what.path.to_string()).exists());
        let of_name = |record: &&Record<Volume>| record.what.wanted.name == *name;
        assert_eq!(self.records().iter().find(of_name), None);
        // Neither this one's nor that of another of the name.
        let folders = self.files(".");
        assert!(
            !folders.iter().any(|it| it.starts_with("v~")),
            "{folders:?}"
        );
        let folder = self.at(&format!(".csi-nfs/volumes/{}", volume.key()));
        assert!(!folder.exists(), "{folder:?}");
        assert_eq!(self.files(".csi-nfs/drafts"), BTreeSet::new());
        self.check_snapshots();
    }
}

/// Ends all operations of a volume, whoever has begun them; then makes it and deletes it.
fn can_be_made_and_deleted(trial: &Trial, wanted: &Wanted) {
    let record = trial.made(wanted);
    if wanted.source.is_some() {
        assert_full(&trial.at(&record.what.path.to_string()));
    }
    trial.check_snapshots();
    trial.delete(&record).unwrap();
    trial.is_without(&record);
}

fn create(trial: &Trial, wanted: &Wanted) {
    let _ = trial.create(wanted);
}

fn create_and_delete(trial: &Trial, wanted: &Wanted) {
    if let Ok(record) = trial.create(wanted) {
        let _ = trial.delete(&record);
    }
}

fn create_and_expand(trial: &Trial, wanted: &Wanted) {
    if let Ok(record) = trial.create(wanted) {
        let _ = change::expand(&trial.share(), record.key(), record.nonce, 2 << 30, 0);
    }
}

#[test]
fn copies_that_are_taken_over_leave_one_volume() {
    let operations: [[Operation<'_, Wanted>; 2]; 3] = [
        [&create, &create],
        [&create, &create_and_delete],
        [&create_and_delete, &create],
    ];
    for operations in operations {
        interleave(
            200,
            true,
            |trial| copy_of(Source::Volume(origin(&full_volume(trial, "v")))),
            operations,
            can_be_made_and_deleted,
        );
    }
}

#[test]
fn creations_and_deletions_leave_one_volume_or_none() {
    let operations: [[Operation<'_, Wanted>; 2]; 4] = [
        [&create, &create_and_delete],
        [&create_and_delete, &create],
        [&create_and_delete, &create_and_delete],
        [&create_and_delete, &create_and_expand],
    ];
    for operations in operations {
        for sub_dir in ["team/v", ""] {
            let before = |_: &Trial| wanted("v", sub_dir);
            interleave(70, false, before, operations, can_be_made_and_deleted);
        }
    }
}

/// The first one goes on when the volume is gone and another one is at its path.
#[test]
fn a_late_deletion_leaves_a_newer_volume_at_the_path_alone() {
    let delete = |trial: &Trial, record: &Record<Volume>| drop(trial.delete(record));
    let expand = |trial: &Trial, record: &Record<Volume>| {
        let _ = change::expand(&trial.share(), record.key(), record.nonce, 2 << 30, 0);
    };
    let make_another = |trial: &Trial, record: &Record<Volume>| {
        let _ = trial.delete(record);
        let other = Wanted {
            name: "other".to_owned(),
            ..record.what.wanted.clone()
        };
        if trial.create(&other).is_ok() {
            std::fs::write(trial.at("team/v/file"), "other").unwrap();
        }
    };
    let firsts: [Operation<'_, Record<Volume>>; 2] = [&delete, &expand];
    for policy in [OnDelete::Delete, OnDelete::Archive, OnDelete::Retain] {
        for first in firsts {
            interleave(
                10,
                false,
                |trial| {
                    let volume = Wanted {
                        on_delete: policy,
                        ..wanted("v", "team/v")
                    };
                    trial.create(&volume).unwrap()
                },
                [first, &make_another],
                |trial, record| {
                    trial.delete(record).unwrap();
                    for other in trial.records() {
                        assert_eq!(other.what.wanted.name, "other");
                        let file = std::fs::read(trial.at("team/v/file")).unwrap();
                        assert_eq!(file, b"other");
                        trial.delete(&other).unwrap();
                    }
                    trial.check();
                },
            );
        }
    }
}

#[test]
fn deletions_and_changes_leave_nothing_of_a_volume() {
    let delete = |trial: &Trial, record: &Record<Volume>| drop(trial.delete(record));
    let delete_and_create = |trial: &Trial, record: &Record<Volume>| {
        let _ = trial.delete(record);
        let _ = trial.create(&record.what.wanted);
    };
    let expand_twice = |trial: &Trial, record: &Record<Volume>| {
        for size in [2 << 30, 3 << 30] {
            let _ = change::expand(&trial.share(), record.key(), record.nonce, size, 0);
        }
    };
    let modify = |trial: &Trial, record: &Record<Volume>| {
        let changes = Changes {
            mode: Some(0o700),
            ..Changes::default()
        };
        let _ = change::modify(&trial.share(), record.key(), record.nonce, &changes);
    };
    let recover = |trial: &Trial, _: &Record<Volume>| {
        // What others finish meanwhile it may find half done.
        let _ = recovery::recover(&trial.share(), |_| Some(()));
    };
    let deletions: [[Operation<'_, Record<Volume>>; 2]; 3] = [
        [&delete, &delete],
        [&delete, &delete_and_create],
        [&delete_and_create, &delete_and_create],
    ];
    let changes: [[Operation<'_, Record<Volume>>; 2]; 6] = [
        [&delete_and_create, &expand_twice],
        [&expand_twice, &delete_and_create],
        [&modify, &delete_and_create],
        [&delete_and_create, &modify],
        [&recover, &delete_and_create],
        [&delete_and_create, &recover],
    ];
    for (policy, all) in [
        (OnDelete::Delete, [&deletions[..], &changes].concat()),
        (OnDelete::Archive, deletions.to_vec()),
    ] {
        let volume = Wanted {
            on_delete: policy,
            ..wanted("v", "team/v")
        };
        for operations in all {
            interleave(
                10,
                false,
                |trial| {
                    let record = trial.create(&volume).unwrap();
                    std::fs::write(trial.at("team/v/file"), "data").unwrap();
                    record
                },
                operations,
                |trial, record| {
                    trial.delete(record).unwrap();
                    let archived = format!("team/archived-v-{}/file", record.nonce);
                    assert_eq!(trial.at(&archived).exists(), policy == OnDelete::Archive);
                    can_be_made_and_deleted(trial, &record.what.wanted);
                },
            );
        }
    }
}

#[test]
fn snapshots_that_are_taken_over_and_deleted_are_whole_or_gone() {
    let make = |trial: &Trial, volume: &Record<Volume>| drop(trial.snapshot("s", volume));
    let make_and_delete = |trial: &Trial, volume: &Record<Volume>| {
        if let Ok(snapshot) = trial.snapshot("s", volume) {
            let _ = life::delete::<Snapshot>(&trial.share(), snapshot.key(), snapshot.nonce);
        }
    };
    let delete = |trial: &Trial, _: &Record<Volume>| {
        for snapshot in trial.snapshots() {
            let _ = life::delete::<Snapshot>(&trial.share(), snapshot.key(), snapshot.nonce);
        }
    };
    let lose_the_volume = |trial: &Trial, volume: &Record<Volume>| drop(trial.delete(volume));
    let operations: [[Operation<'_, Record<Volume>>; 2]; 6] = [
        [&make, &make],
        [&make, &make_and_delete],
        [&make_and_delete, &make],
        [&make_and_delete, &make_and_delete],
        [&make, &delete],
        [&make, &lose_the_volume],
    ];
    for operations in operations {
        interleave(
            20,
            true,
            |trial| full_volume(trial, "v"),
            operations,
            |trial, volume| {
                trial.silence_copies();
                let snapshot = match trial.snapshot("s", volume) {
                    Err(ShareError::NoSource(_)) => None,
                    other => Some(other.unwrap()),
                };
                trial.check_snapshots();
                if let Some(snapshot) = snapshot {
                    life::delete::<Snapshot>(&trial.share(), snapshot.key(), snapshot.nonce)
                        .unwrap();
                }
                assert_eq!(trial.files(".csi-nfs/snapshots"), BTreeSet::new());
                assert_eq!(trial.files(".csi-nfs/drafts"), BTreeSet::new());
                trial.check_snapshots();
            },
        );
    }
}
