//! Crashes between any two steps, and things that happen meanwhile.

use super::copies::full_volume;
use super::hazards::forget_deletion;
use super::*;
use crate::files::crash_points::panicking;
use std::panic::AssertUnwindSafe;
use std::sync::mpsc;
use std::time::Duration;

const LONG: Duration = Duration::from_secs(60);

#[test]
fn a_crash_in_a_creation_is_made_good_by_a_retry_the_recovery_or_a_deletion() {
    let retry: fn(&Trial, &Wanted) = |trial, volume| {
        trial.create(volume).unwrap();
        trial.check();
        assert_eq!(trial.records().len(), 1);
    };
    let recovery: fn(&Trial, &Wanted) = |trial, _| {
        trial.recover();
        trial.check();
        assert!(trial.records().len() <= 1);
    };
    let deletion: fn(&Trial, &Wanted) = |trial, _| {
        for record in trial.records() {
            trial.delete(&record).unwrap();
        }
        trial.check();
        assert_eq!(trial.files("."), BTreeSet::from([".csi-nfs".to_owned()]));
    };
    for (sub_dir, then) in [
        ("team/v", retry),
        ("", retry),
        ("team/v", recovery),
        ("", recovery),
        ("v", deletion),
        ("", deletion),
    ] {
        let volume = wanted("v", sub_dir);
        at_each_step(
            7,
            |_| (),
            |trial, ()| trial.create(&volume).map(drop),
            |trial, ()| then(trial, &volume),
        );
    }
}

#[test]
fn a_crash_in_a_deletion_is_finished_by_a_retry_or_the_recovery() {
    for policy in [OnDelete::Delete, OnDelete::Retain, OnDelete::Archive] {
        for (recover, sub_dir) in [(false, "team/v"), (true, "team/v"), (false, ""), (true, "")] {
            let mut volume = wanted("v", sub_dir);
            volume.on_delete = policy;
            at_each_step(
                if policy == OnDelete::Retain { 5 } else { 6 },
                |trial| {
                    let record = trial.create(&volume).unwrap();
                    let file = trial.at(&record.what.path.to_string()).join("file");
                    std::fs::write(file, "data").unwrap();
                    record
                },
                |trial, record| trial.delete(record),
                |trial, record| {
                    if recover {
                        trial.recover();
                    } else {
                        trial.delete(record).unwrap();
                    }
                    // The recovery has nothing to do when the crash came before the deletion was on record.
                    if trial.records().is_empty() {
                        let above = if sub_dir.is_empty() { "." } else { "team" };
                        let mut left = trial.files(above);
                        left.remove(".csi-nfs");
                        let leaf = record.what.path.leaf();
                        let expected = match policy {
                            OnDelete::Delete => BTreeSet::new(),
                            OnDelete::Retain => BTreeSet::from([leaf.to_owned()]),
                            OnDelete::Archive => {
                                BTreeSet::from([format!("archived-{leaf}-{}", record.nonce)])
                            }
                        };
                        assert_eq!(left, expected);
                        for folder in left {
                            let file = trial.at(above).join(folder).join("file");
                            assert_eq!(std::fs::read(file).unwrap(), b"data");
                        }
                    } else {
                        assert!(recover);
                    }
                    trial.check();
                },
            );
        }
    }
}

#[test]
fn a_crash_in_an_expansion_leaves_the_old_size_or_the_new() {
    let volume = wanted("v", "v");
    let expand = |trial: &Trial, record: &Record<Volume>| {
        change::expand(&trial.share(), record.key(), record.nonce, 2 << 30, 0)
    };
    at_each_step(
        2,
        |trial| trial.create(&volume).unwrap(),
        |trial, record| expand(trial, record).map(drop),
        |trial, record| {
            let size = trial.records()[0].what.capacity_bytes;
            assert!(size == 1 << 30 || size == 2 << 30);
            assert_eq!(expand(trial, record).unwrap().what.capacity_bytes, 2 << 30);
            assert_eq!(trial.create(&volume).unwrap().what.capacity_bytes, 2 << 30);
            trial.check();
        },
    );
}

/// A foreign folder comes to the volume's path between two steps of its creation.
#[test]
fn a_foreign_folder_is_never_taken_for_ours() {
    for empty in [true, false] {
        let volume = wanted("v", "v");
        at_each_step(
            9,
            |_| (),
            |trial, ()| trial.create(&volume).map(drop),
            |trial, ()| {
                let placed = trial.at("v").exists();
                if !placed {
                    std::fs::create_dir(trial.at("v")).unwrap();
                    if !empty {
                        std::fs::write(trial.at("v/file"), "foreign").unwrap();
                    }
                }
                let again = trial.create(&volume);
                if placed {
                    again.unwrap();
                } else {
                    assert!(matches!(again, Err(ShareError::Foreign(_))), "{again:?}");
                    assert_eq!(trial.records(), []);
                    assert_eq!(trial.files("v").len(), usize::from(!empty));
                }
                trial.check();
            },
        );
    }
}

#[test]
fn a_crash_while_a_creation_is_taken_back_is_made_good() {
    let volume = wanted("v", "v");
    for is_full in [false, true] {
        at_each_step(
            5,
            |trial| {
                // Published and not placed: the state that a crash leaves.
                for count in 0.. {
                    let _ = crashing(count, || trial.create(&volume));
                    if !trial.records().is_empty() {
                        break;
                    }
                }
                std::fs::create_dir(trial.at("v")).unwrap();
                trial.records().remove(0)
            },
            |trial, _| trial.create(&volume).map(drop),
            |trial, record| {
                if is_full {
                    forget_deletion(trial, record);
                }
                let again = trial.create(&volume);
                assert!(matches!(again, Err(ShareError::Foreign(_))), "{again:?}");
                assert_eq!(trial.records(), []);
                trial.check();
            },
        );
    }
}

#[test]
fn a_folder_removed_by_hand_in_mid_creation_is_made_again() {
    let volume = wanted("v", "v");
    at_each_step(
        9,
        |_| (),
        |trial, ()| trial.create(&volume).map(drop),
        |trial, ()| {
            let unfinished = trial
                .records()
                .iter()
                .any(|record| record.state == State::Creating);
            if unfinished && trial.at("v").exists() {
                std::fs::remove_dir(trial.at("v")).unwrap();
            }
            trial.create(&volume).unwrap();
            trial.check();
        },
    );
}

/// In a release a panic ends the process. Elsewhere whoever waits for the thread is to learn of it.
#[test]
fn a_panic_in_a_copy_is_not_waited_for() {
    let (ended, end) = mpsc::channel();
    std::thread::spawn(move || {
        let trial = Trial::new();
        let volume = full_volume(&trial, "v");
        let mut panics = 0;
        while let Err(_panic) = std::panic::catch_unwind(AssertUnwindSafe(|| {
            panicking(panics, || trial.snapshot("s", &volume))
        })) {
            panics += 1;
        }
        trial.snapshot("s", &volume).unwrap();
        trial.check_snapshots();
        ended.send(panics).unwrap();
    });
    let panics = end.recv_timeout(LONG).unwrap();
    assert!(panics > 10, "only {panics}");
}
