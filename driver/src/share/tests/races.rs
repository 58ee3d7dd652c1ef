//! Calls at the same time, and calls that come late.

use super::super::removal;
use super::*;

#[test]
fn of_many_creations_of_one_name_one_volume_comes() {
    let trial = Trial::new();
    for round in 0..5 {
        let volume = wanted("v", &format!("team/v{round}"));
        let records: Vec<Record> = std::thread::scope(|scope| {
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
                        | Err(ShareError::Overlap { .. } | ShareError::Foreign { .. }) => {}
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
                    .wanted
                    .sub_dir
                    .to_path()
                    .starts_with(one.wanted.sub_dir.to_path());
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
                                store::find::<Record>(&trial.share(), NameKey::of(&name)).unwrap()
                            {
                                trial.delete(&found.record).unwrap();
                            }
                        }
                        _ => {
                            let share = trial.share();
                            if let Some(found) =
                                store::find::<Record>(&share, NameKey::of(&name)).unwrap()
                            {
                                let size = 1 << 31;
                                match changes::expand(
                                    &share,
                                    found.record.key(),
                                    found.record.nonce,
                                    size,
                                    0,
                                ) {
                                    Ok(record) => assert!(record.capacity_bytes >= size),
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
    let late = store::find::<Record>(&share, old.key()).unwrap().unwrap();
    trial.delete(&old).unwrap();
    let new = trial.create(&wanted("v", "v")).unwrap();
    let mut next = late.record.next();
    next.capacity_bytes = 7;
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
    let late = store::find::<Record>(&share, volume.key())
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
        store::find::<Record>(&share, volume.key())
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

/// The late deleter's move took the folder of a volume that came later to the same path.
#[test]
fn a_folder_moved_by_a_late_deletion_comes_back() {
    for recover in [false, true] {
        let trial = Trial::new();
        let old = trial.create(&wanted("old", "v")).unwrap();
        let share = trial.share();
        let late = store::find::<Record>(&share, old.key()).unwrap().unwrap();
        trial.delete(&old).unwrap();
        let new = trial.create(&wanted("new", "v")).unwrap();
        std::fs::write(trial.at("v/file"), "data").unwrap();
        std::fs::rename(
            trial.at("v"),
            trial.at(&format!(".csi-nfs/trash/{}.waiting", old.nonce)),
        )
        .unwrap();
        assert_eq!(
            trash::purge(&trial.share(), &Default::default()).unwrap(),
            trash::Purged::ButFor(0)
        );
        if recover {
            trial.recover();
        } else {
            deletion::take_away(&share, &late.record).unwrap();
        }
        assert_eq!(std::fs::read(trial.at("v/file")).unwrap(), b"data");
        assert_eq!(trial.records(), [new]);
        trial.check();
    }
}

/// Before it is given back, the volume whose folder was moved is deleted itself.
#[test]
fn a_folder_moved_by_a_late_deletion_goes_with_its_volume() {
    for policy in [OnDelete::Delete, OnDelete::Retain, OnDelete::Archive] {
        let trial = Trial::new();
        let late = trial.create(&wanted("old", "v")).unwrap();
        trial.delete(&late).unwrap();
        let volume = Wanted {
            on_delete: policy,
            ..wanted("new", "v")
        };
        let new = trial.create(&volume).unwrap();
        std::fs::write(trial.at("v/file"), "data").unwrap();
        let waiting = trial.at(&format!(".csi-nfs/trash/{}.waiting", late.nonce));
        std::fs::rename(trial.at("v"), &waiting).unwrap();
        trial.delete(&new).unwrap();
        assert!(!waiting.exists(), "{policy}");
        let kept = match policy {
            OnDelete::Delete => None,
            OnDelete::Retain => Some("v".to_owned()),
            OnDelete::Archive => Some(format!("archived-v-{}", new.nonce)),
        };
        if let Some(kept) = kept {
            assert_eq!(
                std::fs::read(trial.at(&kept).join("file")).unwrap(),
                b"data"
            );
        } else {
            assert!(!trial.at("v").exists());
        }
        trial.check();
    }
}

/// What a late deletion moved was no volume's at all: it is not purged, and told.
#[test]
fn a_foreign_folder_in_the_trash_is_kept_and_told() {
    let trial = Trial::new();
    let late = trial.create(&wanted("old", "v")).unwrap();
    trial.delete(&late).unwrap();
    let waiting = trial.at(&format!(".csi-nfs/trash/{}.waiting", late.nonce));
    std::fs::create_dir(&waiting).unwrap();
    std::fs::write(waiting.join("file"), "foreign").unwrap();
    trial.create(&wanted("other", "other")).unwrap();
    let recovered = recovery::recover(&trial.share(), |_| Some(())).unwrap();
    assert!(
        matches!(recovered.failures.as_slice(), [ShareError::Astray { .. }]),
        "{recovered:?}"
    );
    assert_eq!(
        trash::purge(&trial.share(), &Default::default()).unwrap(),
        trash::Purged::ButFor(0)
    );
    assert_eq!(std::fs::read(waiting.join("file")).unwrap(), b"foreign");
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
            scope.spawn(|| trash::purge(&trial.share(), &Default::default()).unwrap());
        }
    });
    trial.check();
}
