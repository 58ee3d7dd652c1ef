//! Snapshots and copies of volumes: crashes between any two steps, races of controllers, sources that go away. Who takes over what
//! another has begun is the subject of `takeovers`.

use super::hazards::forget_deletion;
use super::*;
use crate::files::crash_points::{Gate, waiting};
use crate::share::attempt::heartbeat::PERIOD;
use crate::share::records::origin::{Origin, Source};
use crate::share::records::text;
use std::time::{Duration, Instant};

pub(super) fn origin(record: &Record<Volume>) -> Origin {
    Origin::new("v-id", record.key(), record.nonce)
}

fn snapshot_source(snapshot: &Record<Snapshot>) -> Source {
    Source::Snapshot(Origin::new("s-id", snapshot.key(), snapshot.nonce))
}

/// A volume with something in it.
pub(super) fn full_volume(trial: &Trial, name: &str) -> Record<Volume> {
    let record = trial.create(&wanted(name, name)).unwrap();
    for (path, content) in [("a", "1"), ("folder/b", "2"), ("folder/deep/c", "3")] {
        let path = trial.at(name).join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }
    std::fs::hard_link(trial.at(name).join("a"), trial.at(name).join("folder/a")).unwrap();
    record
}

pub(super) fn assert_full(path: &Path) {
    for (file, content) in [
        ("a", "1"),
        ("folder/a", "1"),
        ("folder/b", "2"),
        ("folder/deep/c", "3"),
    ] {
        assert_eq!(
            std::fs::read_to_string(path.join(file)).unwrap(),
            content,
            "{path:?}/{file}"
        );
    }
}

impl Trial {
    pub(super) fn snapshot(
        &self,
        name: &str,
        volume: &Record<Volume>,
    ) -> Result<Record<Snapshot>, ShareError> {
        self.snapshot_of(name, origin(volume), &Progress::default())
    }

    pub(super) fn snapshot_of(
        &self,
        name: &str,
        source: Origin,
        progress: &Progress,
    ) -> Result<Record<Snapshot>, ShareError> {
        let name = name.to_owned();
        let wanted = snapshot::Wanted { name, source };
        life::create(&self.share(), &wanted, "s:/a", progress)
    }

    pub(super) fn snapshots(&self) -> Vec<Record<Snapshot>> {
        let share = self.share();
        let keys = store::keys::<Snapshot>(&share).unwrap();
        keys.into_iter()
            .filter_map(|key| store::find::<Snapshot>(&share, key).unwrap())
            .map(|found| found.record)
            .collect()
    }

    pub(super) fn data(&self, snapshot: &Record<Snapshot>) -> PathBuf {
        let folder = self.at(&format!(".csi-nfs/snapshots/{}", snapshot.key()));
        folder.join(text::data_name(snapshot.copy))
    }

    /// What holds of snapshots whenever nothing runs.
    pub(super) fn check_snapshots(&self) {
        let snapshots = self.snapshots();
        // A crash may leave a folder without a record, and then there is nothing in it.
        let folders = self.files(".csi-nfs/snapshots");
        let used = folders.iter().filter(|folder| {
            !self
                .files(&format!(".csi-nfs/snapshots/{folder}"))
                .is_empty()
        });
        assert_eq!(used.count(), snapshots.len());
        for snapshot in snapshots {
            assert_eq!(snapshot.state, State::Ready, "{snapshot:?}");
            assert_full(&self.data(&snapshot));
            let beside = self.files(&format!(".csi-nfs/snapshots/{}", snapshot.key()));
            let data = text::data_name(snapshot.copy);
            let odd: Vec<_> = beside
                .iter()
                .filter(|name| **name != data && !name.starts_with(&snapshot.nonce.to_string()))
                .collect();
            assert!(odd.is_empty(), "{beside:?}");
        }
        for record in self.records() {
            let mut beside = self.files(&format!(".csi-nfs/volumes/{}", record.key()));
            // The way out is there for whom it is needed, and empty.
            let is_chosen = record.what.wanted.sub_dir.is_some() && !record.what.wanted.adopt;
            assert_eq!(beside.remove("leaving"), is_chosen);
            beside.retain(|name| !name.starts_with(&record.nonce.to_string()));
            assert_eq!(beside, BTreeSet::new());
        }
        self.check();
    }
}

#[test]
fn a_deletion_that_a_full_share_kept_from_the_record_leaves_no_ready_snapshot() {
    let taken = AtomicUsize::new(0);
    at_each_step(
        5,
        |trial| {
            let volume = full_volume(trial, "v");
            let snapshot = trial.snapshot("s", &volume).unwrap();
            (volume, snapshot)
        },
        |trial, (_, snapshot)| {
            life::delete::<Snapshot>(&trial.share(), snapshot.key(), snapshot.nonce)
        },
        |trial, (volume, snapshot)| {
            forget_deletion(trial, snapshot);
            let (share, key) = (trial.share(), snapshot.key());
            let on_record = store::find::<Snapshot>(&share, key).unwrap().is_some();
            if on_record && !trial.data(snapshot).exists() {
                taken.fetch_add(1, Ordering::Relaxed);
                let listed = Snapshot::read(&share, key).unwrap();
                assert!(
                    matches!(listed, Some(Err(ShareError::DataGone))),
                    "{listed:?}"
                );
                let again = trial.snapshot("s", volume);
                assert!(matches!(again, Err(ShareError::DataGone)), "{again:?}");
            }
            life::delete::<Snapshot>(&share, key, snapshot.nonce).unwrap();
            assert_eq!(trial.snapshots(), []);
            trial.check_snapshots();
        },
    );
    assert!(taken.into_inner() >= 2);
}

#[test]
fn a_crash_in_a_snapshot_is_finished_by_a_retry_or_the_recovery() {
    for recover in [false, true] {
        at_each_step(
            12,
            |trial| full_volume(trial, "v"),
            |trial, volume| trial.snapshot("s", volume).map(drop),
            |trial, volume| {
                // Nothing looks whole before it is.
                for snapshot in trial.snapshots() {
                    if snapshot.state == State::Ready {
                        assert_full(&trial.data(&snapshot));
                    }
                }
                if recover {
                    trial.recover();
                } else {
                    trial.snapshot("s", volume).unwrap();
                    assert_eq!(trial.snapshots().len(), 1);
                }
                trial.check_snapshots();
            },
        );
    }
}

#[test]
fn a_crash_in_the_deletion_of_a_snapshot_is_finished() {
    for recover in [false, true] {
        at_each_step(
            5,
            |trial| {
                let volume = full_volume(trial, "v");
                trial.snapshot("s", &volume).unwrap()
            },
            |trial, snapshot| {
                life::delete::<Snapshot>(&trial.share(), snapshot.key(), snapshot.nonce)
            },
            |trial, snapshot| {
                if recover {
                    trial.recover();
                } else {
                    life::delete::<Snapshot>(&trial.share(), snapshot.key(), snapshot.nonce)
                        .unwrap();
                    assert_eq!(trial.snapshots(), []);
                }
                trial.check_snapshots();
            },
        );
    }
}

#[test]
fn a_crash_in_a_snapshot_can_be_deleted() {
    at_each_step(
        12,
        |trial| full_volume(trial, "v"),
        |trial, volume| trial.snapshot("s", volume).map(drop),
        |trial, _| {
            for snapshot in trial.snapshots() {
                life::delete::<Snapshot>(&trial.share(), snapshot.key(), snapshot.nonce).unwrap();
            }
            assert_eq!(trial.snapshots(), []);
            trial.check_snapshots();
        },
    );
}

pub(super) fn copy_of(source: Source) -> Wanted {
    Wanted {
        source: Some(source),
        mode: None,
        ..wanted("copy", "team/copy")
    }
}

#[test]
fn a_crash_in_a_clone_or_restore_is_finished() {
    for (restore, recover) in [(false, true), (true, false)] {
        at_each_step(
            18,
            |trial| {
                let volume = full_volume(trial, "v");
                copy_of(if restore {
                    let snapshot = trial.snapshot("s", &volume).unwrap();
                    snapshot_source(&snapshot)
                } else {
                    Source::Volume(origin(&volume))
                })
            },
            |trial, wanted| trial.create(wanted).map(drop),
            |trial, wanted| {
                if recover {
                    trial.recover();
                } else {
                    let record = trial.create(wanted).unwrap();
                    assert_eq!(record.what.capacity_bytes, 1 << 30);
                }
                let made = trial.records().len() == 2;
                assert!(made || recover);
                assert_eq!(trial.at("team/copy").exists(), made);
                if made {
                    assert_full(&trial.at("team/copy"));
                }
                trial.check_snapshots();
            },
        );
    }
}

/// The second death comes to whoever takes up what the first has left.
#[test]
fn a_crash_in_a_copy_that_was_taken_up_is_finished() {
    at_each_step(
        15,
        |trial| {
            let wanted = copy_of(Source::Volume(origin(&full_volume(trial, "v"))));
            for count in 0.. {
                let _ = crashing(count, || trial.create(&wanted));
                let begun = |record: &Record<Volume>| record.copying.is_some();
                if trial.records().iter().any(begun) {
                    break;
                }
            }
            wanted
        },
        |trial, wanted| trial.create(wanted).map(drop),
        |trial, wanted| {
            trial.create(wanted).unwrap();
            assert_full(&trial.at("team/copy"));
            trial.check_snapshots();
        },
    );
}

#[test]
fn of_many_that_make_one_snapshot_all_get_the_same() {
    for _ in 0..10 {
        let trial = Trial::new();
        let volume = full_volume(&trial, "v");
        let made: Vec<Record<Snapshot>> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8)
                .map(|_| {
                    scope.spawn(|| {
                        loop {
                            match trial.snapshot("s", &volume) {
                                Ok(made) => return made,
                                Err(ShareError::CopiedElsewhere(_)) => {
                                    std::thread::yield_now();
                                }
                                Err(other) => panic!("{other}"),
                            }
                        }
                    })
                })
                .collect();
            threads.into_iter().map(|t| t.join().unwrap()).collect()
        });
        assert!(made.iter().all(|one| *one == made[0]));
        trial.check_snapshots();
    }
}

#[test]
fn a_source_that_goes_away_takes_the_copy_with_it() {
    let trial = Trial::new();
    let volume = full_volume(&trial, "v");
    for count in 0.. {
        let _ = crashing(count, || trial.snapshot("s", &volume));
        if !trial.snapshots().is_empty() {
            break;
        }
    }
    trial.delete(&volume).unwrap();
    let answer = trial.snapshot("s", &volume);
    assert!(matches!(answer, Err(ShareError::NoSource(_))), "{answer:?}");
    assert_eq!(trial.snapshots(), []);
    let answer = trial.create(&copy_of(Source::Volume(origin(&volume))));
    assert!(matches!(answer, Err(ShareError::NoSource(_))), "{answer:?}");
    assert_eq!(trial.records(), []);
    trial.check_snapshots();
}

#[test]
fn a_copy_that_is_stopped_can_be_resumed() {
    let trial = Trial::new();
    let volume = full_volume(&trial, "v");
    let progress = Progress::default();
    progress.stop();
    let stopped = trial.snapshot_of("s", origin(&volume), &progress);
    assert!(matches!(stopped, Err(ShareError::Copy(_))), "{stopped:?}");
    assert_eq!(trial.snapshots()[0].state, State::Creating);
    trial.snapshot("s", &volume).unwrap();
    trial.check_snapshots();
}

#[test]
fn a_copy_that_would_never_end_ends_when_its_source_is_deleted() {
    for cut in 0.. {
        let trial = Trial::new();
        let volume = full_volume(&trial, "v");
        let (gate, progress) = (Arc::new(Gate::default()), Progress::default());
        let copy = || trial.snapshot_of("s", origin(&volume), &progress);
        let copied = std::thread::scope(|scope| {
            let copying = scope.spawn(|| waiting(cut, &gate, copy));
            if gate.reached() != Some("an entry is copied") {
                gate.open();
                return None;
            }
            trial.delete(&volume).unwrap();
            let begun = Instant::now();
            while !progress.is_stopped() && begun.elapsed() < 3 * PERIOD {
                std::thread::sleep(Duration::from_millis(10));
            }
            let is_stopped = progress.is_stopped();
            gate.open();
            let copied = copying.join().unwrap();
            assert!(is_stopped, "{copied:?}");
            Some(copied)
        });
        let Some(copied) = copied else { continue };
        assert!(matches!(copied, Err(ShareError::NoSource(_))), "{copied:?}");
        assert_eq!(trial.snapshots(), []);
        return;
    }
}

#[test]
fn a_snapshot_stays_as_it_is_while_its_volume_changes() {
    let trial = Trial::new();
    let volume = full_volume(&trial, "v");
    let snapshot = trial.snapshot("s", &volume).unwrap();
    std::fs::write(trial.at("v/a"), "changed").unwrap();
    trial.delete(&volume).unwrap();
    assert_eq!(trial.snapshots(), std::slice::from_ref(&snapshot));
    assert_full(&trial.data(&snapshot));
    trial.create(&copy_of(snapshot_source(&snapshot))).unwrap();
    assert_full(&trial.at("team/copy"));
    std::fs::write(trial.at("team/copy/a"), "changed").unwrap();
    assert_full(&trial.data(&snapshot));
    trial.check_snapshots();
}

#[test]
fn an_adopted_folder_outlives_its_volume() {
    let adopting = Wanted {
        adopt: true,
        on_delete: OnDelete::Retain,
        ..wanted("v", "team/old")
    };
    let trial = Trial::new();
    let answer = trial.create(&adopting);
    assert!(
        matches!(answer, Err(ShareError::NothingToAdopt(_))),
        "{answer:?}"
    );
    assert_eq!(trial.records(), []);
    assert!(!trial.at("team").exists());
    // A share of which nothing is known: whoever has the volume could write in the records.
    std::fs::create_dir_all(trial.at("team/old/.csi-nfs/volumes")).unwrap();
    let answer = trial.create(&adopting);
    assert!(
        matches!(answer, Err(ShareError::NotPlain { .. })),
        "{answer:?}"
    );
    assert_eq!(trial.records(), []);
    at_each_step(
        6,
        |trial| {
            std::fs::create_dir_all(trial.at("team/old")).unwrap();
            std::fs::write(trial.at("team/old/file"), "own").unwrap();
        },
        |trial, ()| {
            let record = trial.create(&adopting)?;
            trial.delete(&record)
        },
        |trial, ()| {
            let record = trial.create(&adopting).unwrap();
            trial.check();
            trial.delete(&record).unwrap();
            trial.check();
            assert_eq!(trial.files("team/old"), BTreeSet::from(["file".to_owned()]));
        },
    );
}
