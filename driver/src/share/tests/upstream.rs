//! Volumes and snapshots of kubernetes-csi's driver that are taken away: crashes, and races with volumes of our own.

use super::super::upstream;
use super::*;
#[cfg(feature = "upstream")]
use crate::share::origin::{Origin, Source};

const ID: &str = "s#a#team/v##";

fn place(trial: &Trial) {
    std::fs::create_dir_all(trial.at("team/v/in")).unwrap();
    std::fs::write(trial.at("team/v/in/file"), "x").unwrap();
    std::fs::write(trial.at("team/foreign"), "x").unwrap();
}

fn delete(trial: &Trial, archive: bool) -> Result<(), ShareError> {
    let path = SubPath::parse("team/v").unwrap();
    upstream::delete_volume(&trial.share(), ID, &path, archive)
}

#[test]
fn a_crash_at_any_step_of_a_deletion_is_made_good() {
    for archive in [false, true] {
        for by_recovery in [false, true] {
            at_each_step(
                8,
                place,
                |trial, ()| delete(trial, archive),
                |trial, ()| {
                    if by_recovery {
                        trial.recover();
                    }
                    delete(trial, archive).unwrap();
                    delete(trial, archive).unwrap();
                    let mut left = trial.files("team");
                    assert!(left.remove("foreign"));
                    match archive {
                        false => assert_eq!(left, BTreeSet::new()),
                        true => {
                            assert_eq!(left.len(), 1, "{left:?}");
                            let kept = format!("team/{}/in/file", left.first().unwrap());
                            assert!(trial.at(&kept).exists());
                        }
                    }
                    trial.recover();
                    trial.check();
                    assert_eq!(trial.records(), []);
                },
            );
        }
    }
}

#[test]
fn a_crash_alone_takes_nothing_half() {
    // What recovery finds without a repeat of the call is there as it was, or gone.
    at_each_step(
        8,
        place,
        |trial, ()| delete(trial, false),
        |trial, ()| {
            trial.recover();
            trial.check();
            assert!(trial.at("team/v/in/file").exists() || !trial.at("team/v").exists());
        },
    );
}

#[test]
fn a_volume_that_comes_to_the_place_meanwhile_is_not_touched() {
    for _ in 0..40 {
        let trial = Trial::in_memory();
        place(&trial);
        let (deleted, created) = std::thread::scope(|scope| {
            let deleting = scope.spawn(|| delete(&trial, false));
            let creating = scope.spawn(|| trial.create(&wanted("v", "team/v")));
            (deleting.join().unwrap(), creating.join().unwrap())
        });
        if let Err(error) = &deleted {
            assert!(matches!(error, ShareError::Overlap { .. }), "{error}");
        }
        match created {
            // Made after the old folder had gone.
            Ok(record) => {
                assert!(!trial.at("team/v/in").exists());
                trial.delete(&record).unwrap();
            }
            Err(error) => assert!(
                matches!(
                    error,
                    ShareError::Foreign { .. } | ShareError::Overlap { .. }
                ),
                "{error}"
            ),
        }
        trial.recover();
        trial.check();
    }
}

#[test]
fn a_planted_symlink_leads_no_deletion_away() {
    let trial = Trial::new();
    let outside = tempfile::tempdir().unwrap();
    std::fs::create_dir(outside.path().join("v")).unwrap();
    std::fs::write(outside.path().join("v/file"), "x").unwrap();
    place(&trial);
    // Over and over in the place of the folder above, and of the folder itself.
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                let _ = std::fs::rename(trial.at("team"), trial.at("aside"));
                let _ = std::os::unix::fs::symlink(outside.path(), trial.at("team"));
                let _ = std::fs::remove_file(trial.at("team"));
                let _ = std::fs::rename(trial.at("aside"), trial.at("team"));
            }
        });
        for _ in 0..200 {
            let _ = delete(&trial, false);
            let _ = std::fs::create_dir_all(trial.at("team/v"));
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert!(outside.path().join("v/file").exists());
}

#[cfg(feature = "upstream")]
#[test]
fn a_crash_at_any_step_of_a_restore_is_made_good() {
    let wanted_of_archive = || {
        let path = SubPath::parse("snapshot-1/v").unwrap();
        let mut wanted = wanted("restored", "restored");
        wanted.source = Some(Source::Archive(Origin::upstream(
            "s#a#snapshot-1#snapshot-1#v",
            path,
        )));
        wanted
    };
    at_each_step(
        10,
        |trial| {
            place(trial);
            std::fs::create_dir(trial.at("snapshot-1")).unwrap();
            let mut tar = std::process::Command::new("tar");
            tar.arg("-C").arg(trial.at("team/v")).arg("-czf");
            let packed = tar.arg(trial.at("snapshot-1/v.tar.gz")).arg(".").status();
            assert!(packed.unwrap().success());
        },
        |trial, ()| trial.create(&wanted_of_archive()).map(drop),
        |trial, ()| {
            trial.recover();
            trial.create(&wanted_of_archive()).unwrap();
            assert_eq!(std::fs::read(trial.at("restored/in/file")).unwrap(), b"x");
            trial.check();
        },
    );
}
