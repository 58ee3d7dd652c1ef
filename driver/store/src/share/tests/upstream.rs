//! Volumes and snapshots of kubernetes-csi's driver that are taken away: crashes, and races with volumes of our own.

use super::hazards::make_anothers;
use super::*;
#[cfg(feature = "upstream")]
use crate::share::records::origin::{Origin, Source};
use crate::upstream::folders;
use crate::upstream::other_shares::ShareSearch;

const ID: &str = "s#a#team/v##";

fn place(trial: &Trial) {
    std::fs::create_dir_all(trial.at("team/v/in")).unwrap();
    std::fs::write(trial.at("team/v/in/file"), "x").unwrap();
    std::fs::write(trial.at("team/foreign"), "x").unwrap();
}

fn delete(trial: &Trial, on_delete: OnDelete) -> Result<(), ShareError> {
    let path = SubPath::parse("team/v").unwrap();
    let mut search = ShareSearch::default();
    while !folders::delete_volume(&trial.share(), ID, &path, on_delete, &mut search)? {}
    Ok(())
}

#[test]
fn a_crash_at_any_step_of_a_deletion_is_made_good() {
    for on_delete in [OnDelete::Delete, OnDelete::Archive] {
        for by_recovery in [false, true] {
            at_each_step(
                8,
                place,
                |trial, ()| delete(trial, on_delete),
                |trial, ()| {
                    if by_recovery {
                        trial.recover();
                    }
                    delete(trial, on_delete).unwrap();
                    delete(trial, on_delete).unwrap();
                    let mut left = trial.files("team");
                    assert!(left.remove("foreign"));
                    if on_delete == OnDelete::Archive {
                        assert_eq!(left.len(), 1, "{left:?}");
                        let kept = format!("team/{}/in/file", left.first().unwrap());
                        assert!(trial.at(&kept).exists());
                    } else {
                        assert_eq!(left, BTreeSet::new());
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
        |trial, ()| delete(trial, OnDelete::Delete),
        |trial, ()| {
            trial.recover();
            trial.check();
            assert!(trial.at("team/v/in/file").exists() || !trial.at("team/v").exists());
        },
    );
}

#[test]
fn what_its_driver_makes_at_the_path_of_an_interrupted_deletion_stays() {
    at_each_step(
        8,
        place,
        |trial, ()| delete(trial, OnDelete::Delete),
        |trial, ()| {
            // Without a record nothing tells two of its folders apart.
            let was_begun = trial
                .records()
                .iter()
                .any(|record| record.state == State::Deleting);
            make_anothers(trial, "team/v");
            delete(trial, OnDelete::Delete).unwrap();
            assert_eq!(trial.at("team/v/theirs").exists(), was_begun);
            assert_eq!(trial.records(), []);
            trial.check();
        },
    );
}

#[test]
fn a_volume_that_comes_to_the_place_meanwhile_is_not_touched() {
    for _ in 0..40 {
        let trial = Trial::in_memory();
        place(&trial);
        let (deleted, created) = std::thread::scope(|scope| {
            let deleting = scope.spawn(|| delete(&trial, OnDelete::Delete));
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
                matches!(error, ShareError::Foreign(_) | ShareError::Overlap { .. }),
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
            let _ = delete(&trial, OnDelete::Delete);
            let _ = std::fs::create_dir_all(trial.at("team/v"));
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert!(outside.path().join("v/file").exists());
}

#[test]
fn a_users_folder_named_like_the_records_keeps_no_volume() {
    let (plant, owner) = (Trial::new(), 65534);
    for (label, by_owner, is_share) in [
        (None, false, false),
        (None, true, false),
        (Some("share.json"), false, false),
        (Some("share.json"), true, true),
        (Some("volumes"), true, true),
    ] {
        place(&plant);
        let records = plant.at("team/v/.csi-nfs");
        std::fs::create_dir(&records).unwrap();
        std::fs::write(records.join("mine"), "x").unwrap();
        if let Some(label) = label {
            std::fs::write(records.join(label), "{}").unwrap();
        }
        if !by_owner && std::os::unix::fs::chown(&records, Some(owner), None).is_err() {
            // Only root gives folders away.
            std::fs::remove_dir_all(plant.at("team")).unwrap();
            continue;
        }
        let deleted = delete(&plant, OnDelete::Delete);
        match is_share {
            false => deleted.unwrap(),
            true => assert!(
                matches!(deleted, Err(ShareError::NotPlain { .. })),
                "{label:?}: {deleted:?}"
            ),
        }
        assert_eq!(plant.at("team/v/in/file").exists(), is_share, "{label:?}");
        std::fs::remove_dir_all(plant.at("team")).unwrap();
    }
    // A link and a file are no folder.
    for plant_it in [
        (|path| std::os::unix::fs::symlink("/", path)) as fn(PathBuf) -> std::io::Result<()>,
        |path| std::fs::write(path, "x"),
    ] {
        place(&plant);
        plant_it(plant.at("team/v/.csi-nfs")).unwrap();
        delete(&plant, OnDelete::Delete).unwrap();
        assert!(!plant.at("team/v").exists());
    }
}

/// The source is deleted at each step of a copy, and another one with its name comes to its place.
#[cfg(feature = "upstream")]
#[test]
fn a_source_that_is_made_anew_is_never_copied_in_part() {
    use crate::files::crash_points::{Gate, waiting};
    const FILES: u32 = 4;
    let make = |trial: &Trial, content: &str| {
        std::fs::create_dir_all(trial.at("team/v/in")).unwrap();
        for file in 0..FILES {
            std::fs::write(trial.at(&format!("team/v/in/{file}")), content).unwrap();
        }
    };
    let mut wanted = wanted("copy", "copy");
    let path = SubPath::parse("team/v").unwrap();
    wanted.source = Some(Source::Volume(Origin::upstream(ID, path)));
    let (mut old, mut refused) = (0, 0);
    for cut in 0.. {
        let trial = Trial::in_memory();
        make(&trial, "old");
        let gate = Arc::new(Gate::default());
        let (at, copied) = std::thread::scope(|scope| {
            let copying = scope.spawn(|| waiting(cut, &gate, || trial.create(&wanted)));
            let at = gate.reached();
            if at.is_some() {
                std::fs::remove_dir_all(trial.at("team/v")).unwrap();
                make(&trial, "new");
            }
            gate.open();
            (at, copying.join().unwrap())
        });
        match copied {
            Ok(_) => {
                let read = |file| std::fs::read(trial.at(&format!("copy/in/{file}")));
                let files: Vec<_> = (0..FILES).map(|file| read(file).ok()).collect();
                let first = files[0].clone();
                assert!(first.is_some(), "{at:?}: {files:?}");
                assert!(files.iter().all(|file| *file == first), "{at:?}: {files:?}");
                old += usize::from(first.as_deref() == Some(b"old"));
            }
            Err(ShareError::NoSource(_)) => refused += 1,
            Err(other) => panic!("{at:?}: {other}"),
        }
        if at.is_none() {
            break;
        }
        // The new one can be copied.
        trial.recover();
        trial.create(&wanted).unwrap();
        trial.check();
    }
    assert!(old > 0 && refused > FILES as usize, "{old} {refused}");
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
