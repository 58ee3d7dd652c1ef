//! Calls at the same time, and calls that come late.

use super::*;
use crate::share::records::removal;

#[test]
fn of_many_creations_of_one_name_one_volume_comes() {
    let trial = Trial::new();
    for round in 0..5 {
        let volume = wanted("v", &format!("team/v{round}"));
        let records: Vec<Record<Volume>> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..32)
                .map(|_| scope.spawn(|| trial.create(&volume).unwrap()))
                .collect();
            threads
                .into_iter()
                .map(|thread| thread.join().unwrap())
                .collect()
        });
        assert!(
            records
                .iter()
                .all(|record| record.nonce == records[0].nonce)
        );
        trial.check();
        assert_eq!(trial.records().len(), 1);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| trial.delete(&records[0]).unwrap());
            }
        });
        trial.check();
        assert_eq!(trial.records().len(), 0);
    }
}

#[test]
fn of_many_overlapping_creations_no_two_come() {
    let trial = Trial::new();
    for _ in 0..10 {
        std::thread::scope(|scope| {
            for (index, path) in ["a", "a/b", "a/b/c", "a/c", "a/b", "b/a", "b"]
                .into_iter()
                .enumerate()
            {
                let trial = &trial;
                scope.spawn(move || {
                    match trial.create(&wanted(&format!("v{index}"), path)) {
                        Ok(_)
                        // A folder that a competitor has made on its way and not claimed is not ours.
                        | Err(ShareError::Overlap { .. } | ShareError::Foreign(_)) => {}
                        Err(other) => panic!("{path}: {other}"),
                    }
                });
            }
        });
        trial.check();
        let records = trial.records();
        for one in &records {
            for other in &records {
                let inside = other
                    .what
                    .path
                    .to_path()
                    .starts_with(one.what.path.to_path());
                assert!(one.nonce == other.nonce || !inside, "{one:?} {other:?}");
            }
        }
        for record in records {
            trial.delete(&record).unwrap();
        }
        for top in ["a", "b"] {
            let _ = std::fs::remove_dir_all(trial.at(top));
        }
        trial.check();
    }
}

#[test]
fn creations_deletions_and_expansions_at_once_leave_a_sound_share() {
    let trial = Trial::new();
    let done = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for thread in 0..8_usize {
            let (trial, done) = (&trial, &done);
            scope.spawn(move || {
                for round in 0..30_usize {
                    let name = format!("v{}", (thread + round * 3) % 4);
                    let volume = wanted(&name, &name);
                    match (thread + round) % 3 {
                        0 => drop(trial.create(&volume).unwrap()),
                        1 => {
                            if let Some(found) =
                                store::find::<Volume>(&trial.share(), NameKey::of(&name)).unwrap()
                            {
                                trial.delete(&found.record).unwrap();
                            }
                        }
                        _ => {
                            let share = trial.share();
                            if let Some(found) =
                                store::find::<Volume>(&share, NameKey::of(&name)).unwrap()
                            {
                                let size = 1 << 31;
                                match change::expand(
                                    &share,
                                    found.record.key(),
                                    found.record.nonce,
                                    size,
                                    0,
                                ) {
                                    Ok(record) => assert!(record.what.capacity_bytes >= size),
                                    Err(ShareError::NoVolume) => {}
                                    Err(other) => panic!("{other}"),
                                }
                            }
                        }
                    }
                    done.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
    assert_eq!(done.load(Ordering::Relaxed), 240);
    trial.check();
}

#[test]
fn a_late_update_does_not_touch_a_newer_volume_of_the_name() {
    let trial = Trial::new();
    let old = trial.create(&wanted("v", "v")).unwrap();
    let share = trial.share();
    let late = store::find::<Volume>(&share, old.key()).unwrap().unwrap();
    trial.delete(&old).unwrap();
    let new = trial.create(&wanted("v", "v")).unwrap();
    let mut next = late.record.next();
    next.what.capacity_bytes = 7;
    assert!(matches!(
        store::update(&share, &late, &next),
        Ok(Claimed::Lost)
    ));
    removal::remove(&share, &late).unwrap();
    trial.delete(&old).unwrap();
    assert_eq!(trial.records(), [new]);
    trial.check();
}

/// Somebody who came late has put something beside the record, so the folder stays when that is removed.
#[test]
fn a_late_update_does_not_bring_a_deleted_volume_back() {
    let trial = Trial::new();
    let volume = trial.create(&wanted("v", "v")).unwrap();
    let share = trial.share();
    let late = store::find::<Volume>(&share, volume.key())
        .unwrap()
        .unwrap();
    let folder = trial.at(&format!(".csi-nfs/volumes/{}", volume.key()));
    std::fs::create_dir(folder.join("late")).unwrap();
    trial.delete(&volume).unwrap();
    assert_eq!(
        trial
            .files(&format!(".csi-nfs/volumes/{}", volume.key()))
            .len(),
        1
    );
    // One for each generation that the deletion made, and the next.
    let mut next = late.record.next();
    for _ in 0..3 {
        assert!(matches!(
            store::update(&share, &late, &next),
            Ok(Claimed::Lost)
        ));
        assert_eq!(trial.records(), []);
        next = next.next();
    }
    trial.recover();
    assert!(!folder.exists());
}

/// The name that it would have met was removed by others who are generations further.
#[test]
fn an_update_that_comes_generations_too_late_is_lost() {
    let trial = Trial::new();
    let volume = trial.create(&wanted("v", "v")).unwrap();
    let share = trial.share();
    let find = || {
        store::find::<Volume>(&share, volume.key())
            .unwrap()
            .unwrap()
    };
    let late = find();
    for _ in 0..3 {
        let found = find();
        let updated = store::update(&share, &found, &found.record.next()).unwrap();
        assert!(matches!(updated, Claimed::Won));
    }
    let newest = find().record;
    let updated = store::update(&share, &late, &late.record.next()).unwrap();
    assert!(matches!(updated, Claimed::Lost));
    assert_eq!(find().record, newest);
    trial.delete(&newest).unwrap();
    trial.check();
}

/// Over NFS a file that is removed while a thread reads it stays under another name, and the folder with it.
#[test]
fn a_record_that_is_still_read_leaves_no_folder() {
    let trial = Trial::new();
    let volume = trial.create(&wanted("v", "v")).unwrap();
    let folder = trial.at(&format!(".csi-nfs/volumes/{}", volume.key()));
    let read = folder.join(".nfs000000000000000100000001");
    std::fs::write(&read, "").unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while std::fs::read_dir(&folder).unwrap().count() > 1 {
                std::thread::yield_now();
            }
            std::fs::remove_file(&read).unwrap();
        });
        trial.delete(&volume).unwrap();
    });
    assert!(!folder.exists());
    trial.check();
}

/// A rename that hung on a dead server, or that its client sends again, arrives when the volume is long gone and another one
/// has come to its path.
#[test]
fn a_late_rename_takes_no_newer_volume() {
    use crate::files::beneath;
    let trial = Trial::new();
    let old = trial.create(&wanted("old", "team/v")).unwrap();
    let share = trial.share();
    let late = store::find::<Volume>(&share, old.key()).unwrap().unwrap();
    let leaving = beneath::folder(&late.folder, "leaving").unwrap();
    let parent = beneath::folder(&share.root, "team").unwrap();
    trial.delete(&old).unwrap();
    // Neither what was open then, nor what has that name now.
    let renamed = || beneath::rename(&parent, "v", &leaving, "placed");
    assert!(renamed().is_err());
    let new = trial.create(&wanted("new", "team/v")).unwrap();
    std::fs::write(trial.at("team/v/file"), "data").unwrap();
    assert!(renamed().is_err());
    assert!(!life::finish_deletion(&share, &late).unwrap_or(false));
    assert_eq!(std::fs::read(trial.at("team/v/file")).unwrap(), b"data");
    assert_eq!(trial.records(), [new]);
    trial.check();
}

#[test]
fn a_path_that_the_driver_names_is_never_used_twice() {
    let trial = Trial::new();
    let old = trial.create(&wanted("v", "")).unwrap();
    let share = trial.share();
    let late = store::find::<Volume>(&share, old.key()).unwrap().unwrap();
    trial.delete(&old).unwrap();
    let new = trial.create(&wanted("v", "")).unwrap();
    assert_ne!(old.what.path, new.what.path);
    assert_eq!(trial.create(&wanted("v", "")).unwrap(), new);
    assert!(!life::finish_deletion(&share, &late).unwrap_or(false));
    assert!(trial.at(&new.what.path.to_string()).is_dir());
    assert_eq!(trial.records(), [new]);
    trial.check();
}

#[test]
fn two_purges_at_once_are_fine() {
    let trial = Trial::new();
    let record = trial.create(&wanted("v", "v")).unwrap();
    for n in 0..50 {
        std::fs::create_dir_all(trial.at(&format!("v/{n}/x/y"))).unwrap();
        std::fs::write(trial.at(&format!("v/{n}/x/y/file")), "").unwrap();
    }
    trial.delete(&record).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                trash::purge(&trial.share(), &Default::default(), &mut Default::default()).unwrap()
            });
        }
    });
    trial.check();
}
