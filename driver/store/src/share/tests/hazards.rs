//! Volumes in a share with other volumes, foreign folders, symlinks and damage.

use super::*;
use crate::share::records::record::Kind;
use crate::share::records::text;
use crate::share::records::volume::Changes;

#[test]
fn a_volume_lives_and_dies() {
    use std::os::unix::fs::MetadataExt;
    let trial = Trial::new();
    let record = trial.create(&wanted("v", "team/v")).unwrap();
    assert_eq!(
        (record.state, record.what.capacity_bytes),
        (State::Ready, 1 << 30)
    );
    let metadata = std::fs::metadata(trial.at("team/v")).unwrap();
    assert_eq!(metadata.mode() & 0o7777, 0o750);
    assert_eq!(trial.create(&wanted("v", "team/v")).unwrap(), record);
    trial.check();
    std::fs::create_dir_all(trial.at("team/v/a/b")).unwrap();
    std::fs::write(trial.at("team/v/a/b/c"), "x").unwrap();
    std::fs::write(trial.at("team/foreign"), "x").unwrap();
    trial.delete(&record).unwrap();
    assert_eq!(trial.files("team"), BTreeSet::from(["foreign".to_owned()]));
    trial.delete(&record).unwrap();
    trial.check();
    assert_eq!(trial.records(), []);
}

#[test]
fn overlapping_folders_are_refused_with_the_other_volume_named() {
    let trial = Trial::new();
    let first = trial.create(&wanted("first", "a/b")).unwrap();
    for (path, relation) in [
        ("a/b", "is the folder of"),
        ("a/b/c", "is inside"),
        ("a/b/c/d", "is inside"),
        ("a", "contains"),
    ] {
        let error = trial.create(&wanted("second", path)).unwrap_err();
        assert!(
            matches!(error, ShareError::Overlap { .. }),
            "{path}: {error}"
        );
        let text = error.to_string();
        assert!(
            text.contains(relation) && text.contains("\"first\""),
            "{path}: {text}"
        );
        trial.check();
    }
    trial.create(&wanted("second", "a/c")).unwrap();
    trial.delete(&first).unwrap();
    trial.create(&wanted("third", "a/b/c")).unwrap();
    trial.check();
}

#[test]
fn a_leftover_claim_blocks_nobody() {
    let trial = Trial::new();
    // What a creation leaves that was overtaken by the deletion of its volume and died after its claim.
    let other = Trial::new().create(&wanted("gone", "a/b")).unwrap();
    let owner = format!("@{}.{}", other.key(), other.nonce);
    for path in ["a", "a/b", "a/b/c"] {
        let claim = trial.at(".csi-nfs/folders/+a/+b");
        std::fs::create_dir_all(&claim).unwrap();
        std::fs::write(claim.join(&owner), "").unwrap();
        let record = trial.create(&wanted("v", path)).unwrap();
        trial.delete(&record).unwrap();
        let _ = std::fs::remove_dir_all(trial.at("a"));
        trial.check();
    }
}

#[test]
fn symlinks_above_a_volume_are_refused_when_created_and_deleted() {
    let trial = Trial::new();
    let outside = tempfile::tempdir().unwrap();
    std::fs::create_dir(outside.path().join("v")).unwrap();
    std::fs::write(outside.path().join("v/file"), "x").unwrap();
    std::os::unix::fs::symlink(outside.path(), trial.at("link")).unwrap();
    let error = trial.create(&wanted("v", "link/v")).unwrap_err();
    assert!(matches!(error, ShareError::Blocked { .. }), "{error}");
    let error = trial.create(&wanted("v", "link/new")).unwrap_err();
    assert!(matches!(error, ShareError::Blocked { .. }), "{error}");
    let error = trial.create(&wanted("v", "link")).unwrap_err();
    assert!(matches!(error, ShareError::Foreign(_)), "{error}");
    trial.check();

    let record = trial.create(&wanted("v", "team/v")).unwrap();
    std::fs::rename(trial.at("team"), trial.at("moved")).unwrap();
    std::os::unix::fs::symlink(outside.path(), trial.at("team")).unwrap();
    let error = trial.delete(&record).unwrap_err();
    assert!(matches!(error, ShareError::Blocked { .. }), "{error}");
    assert!(outside.path().join("v/file").exists());
    std::fs::remove_file(trial.at("team")).unwrap();
    std::fs::rename(trial.at("moved"), trial.at("team")).unwrap();
    trial.delete(&record).unwrap();
    trial.check();
}

#[test]
fn a_deletion_that_cannot_tell_what_it_takes_away_is_not_begun() {
    use std::os::unix::fs::symlink;
    for sub_dir in ["team/v", ""] {
        let trial = Trial::new();
        let record = trial.create(&wanted("v", sub_dir)).unwrap();
        let path = record.what.path.to_string();
        std::fs::write(trial.at(&path).join("ours"), "x").unwrap();
        let (first, _) = path.split_once('/').unwrap_or((&path, ""));
        let places = BTreeSet::from([first, &path]);
        for place in places {
            for is_link in [true, false] {
                std::fs::rename(trial.at(place), trial.at("moved")).unwrap();
                match is_link {
                    true => symlink("moved", trial.at(place)).unwrap(),
                    false => std::fs::write(trial.at(place), "").unwrap(),
                }
                let error = trial.delete(&record).unwrap_err();
                assert!(matches!(error, ShareError::Blocked { .. }), "{error}");
                // So a repeat takes the volume's folder, wherever the administrator has put it.
                assert_eq!(trial.records(), std::slice::from_ref(&record));
                std::fs::remove_file(trial.at(place)).unwrap();
                std::fs::rename(trial.at("moved"), trial.at(place)).unwrap();
                trial.check();
            }
        }
        assert!(trial.at(&path).join("ours").exists());
        trial.delete(&record).unwrap();
        assert!(!trial.at(&path).exists());
        trial.check();
    }
}

#[test]
fn what_is_in_the_way_of_a_folder_that_stays_keeps_no_deletion() {
    let trial = Trial::new();
    let mut wanted = wanted("v", "team/v");
    wanted.on_delete = OnDelete::Retain;
    let record = trial.create(&wanted).unwrap();
    std::fs::rename(trial.at("team"), trial.at("moved")).unwrap();
    std::os::unix::fs::symlink("moved", trial.at("team")).unwrap();
    trial.delete(&record).unwrap();
    assert_eq!(trial.records(), []);
    assert!(trial.at("moved/v").is_dir());
}

#[test]
fn a_purge_follows_no_symlink_and_clears_any_tree() {
    use std::os::unix::fs::PermissionsExt;
    let trial = Trial::new();
    let outside = tempfile::tempdir().unwrap();
    std::fs::write(outside.path().join("file"), "x").unwrap();
    let record = trial.create(&wanted("v", "v")).unwrap();
    std::os::unix::fs::symlink(outside.path(), trial.at("v/link")).unwrap();
    std::os::unix::fs::symlink("/", trial.at("v/root")).unwrap();
    // Deeper than any stack or path allows.
    let mut deep = rustix::fs::open(
        trial.at("v"),
        rustix::fs::OFlags::DIRECTORY,
        rustix::fs::Mode::empty(),
    )
    .unwrap();
    for _ in 0..3000 {
        rustix::fs::mkdirat(&deep, "deeper", rustix::fs::Mode::RWXU).unwrap();
        deep = rustix::fs::openat(
            &deep,
            "deeper",
            rustix::fs::OFlags::DIRECTORY,
            rustix::fs::Mode::empty(),
        )
        .unwrap();
    }
    std::fs::create_dir(trial.at("v/wide")).unwrap();
    for n in 0..2000 {
        std::fs::write(trial.at(&format!("v/wide/{n}")), "").unwrap();
    }
    std::fs::create_dir_all(trial.at("v/locked/in")).unwrap();
    std::fs::write(trial.at("v/locked/in/file"), "").unwrap();
    std::fs::set_permissions(trial.at("v/locked"), PermissionsExt::from_mode(0o000)).unwrap();
    trial.delete(&record).unwrap();
    trial.check();
    assert!(outside.path().join("file").exists());
}

#[test]
fn a_damaged_record_is_said_and_not_touched() {
    let trial = Trial::new();
    let record = trial.create(&wanted("v", "v")).unwrap();
    let file = trial.at(&format!(
        ".csi-nfs/volumes/{}/{}.2",
        record.key(),
        record.nonce
    ));
    for content in ["", "{", "{}"] {
        std::fs::write(&file, content).unwrap();
        assert!(
            matches!(trial.delete(&record), Err(ShareError::Damaged { .. })),
            "{content:?}"
        );
        assert!(matches!(
            trial.create(&wanted("v", "v")),
            Err(ShareError::Damaged { .. })
        ));
    }
    assert!(trial.at("v").exists());
}

#[test]
fn a_volume_without_its_claim_is_said_to_be_damaged_and_not_touched() {
    for (on_delete, keeps_data) in [(OnDelete::Delete, false), (OnDelete::Retain, true)] {
        let trial = Trial::new();
        let mut wanted = wanted("v", "team/v");
        wanted.on_delete = on_delete;
        let record = trial.create(&wanted).unwrap();
        std::fs::write(trial.at("team/v/file"), "x").unwrap();
        let (key, nonce) = (record.key(), record.nonce);
        let claim = format!(".csi-nfs/folders/+team/+v/@{key}.{nonce}");
        std::fs::remove_file(trial.at(&claim)).unwrap();
        let changes = Changes {
            mode: Some(0o700),
            ..Changes::default()
        };
        let modify = || change::modify(&trial.share(), key, nonce, &changes);
        let refused = [
            trial.create(&wanted).map(drop),
            modify().map(drop),
            trial.snapshot("s", &record).map(drop),
            match keeps_data {
                true => modify().map(drop),
                false => trial.delete(&record),
            },
        ];
        for answer in refused {
            let error = answer.unwrap_err();
            assert!(matches!(error, ShareError::Damaged { .. }), "{error}");
            assert!(error.to_string().contains(&claim), "{error}");
            assert_eq!(trial.trouble(&record), Some(error.to_string()));
        }
        assert!(trial.at("team/v/file").exists());
        assert_eq!(trial.records(), std::slice::from_ref(&record));
        if keeps_data {
            trial.delete(&record).unwrap();
            assert!(trial.at("team/v/file").exists());
        } else {
            std::fs::create_dir_all(trial.at(&claim).parent().unwrap()).unwrap();
            std::fs::write(trial.at(&claim), "").unwrap();
            assert_eq!(trial.trouble(&record), None);
            modify().unwrap();
            trial.snapshot("s", &record).unwrap();
            trial.delete(&record).unwrap();
        }
        trial.check();
    }
}

#[test]
fn what_comes_to_the_place_of_a_folder_that_is_taken_away_stays() {
    for file in [None, Some("file")] {
        let mut times = 0;
        for count in 0.. {
            let trial = Trial::new();
            let record = trial.create(&wanted("v", "team/v")).unwrap();
            if let Some(file) = file {
                std::fs::write(trial.at("team/v").join(file), "x").unwrap();
            }
            if crashing(count, || trial.delete(&record)).is_ok() {
                break;
            }
            if trial.at("team/v").exists() {
                continue;
            }
            times += 1;
            std::fs::create_dir(trial.at("team/v")).unwrap();
            std::fs::write(trial.at("team/v/foreign"), "x").unwrap();
            trial.delete(&record).unwrap();
            assert_eq!(trial.records(), []);
            trial.check();
            let there = BTreeSet::from(["foreign".to_owned()]);
            assert_eq!(trial.files("team/v"), there);
        }
        assert!(times > 5, "only {times} steps");
    }
}

/// Another driver, which knows no claims, has made its own folder at the path.
pub(super) fn make_anothers(trial: &Trial, path: &str) {
    let _ = std::fs::remove_dir_all(trial.at(path));
    std::fs::create_dir_all(trial.at(path)).unwrap();
    std::fs::write(trial.at(path).join("theirs"), "x").unwrap();
}

/// Puts `record` back in the place of the generation that says deleting, for which a full share would have had no room.
pub(super) fn forget_deletion<K: Kind>(trial: &Trial, record: &Record<K>) {
    let (kind, key, nonce) = (K::FOLDER, record.key(), record.nonce);
    let file = |generation| trial.at(&format!(".csi-nfs/{kind}/{key}/{nonce}.{generation}"));
    // The last generation goes last.
    if std::fs::remove_file(file(record.generation + 1)).is_ok() {
        let text = text::write(record, None).unwrap();
        std::fs::write(file(record.generation), text).unwrap();
    }
}

/// What others make at the path of a deletion that a crash has cut short stays, when that goes on.
fn theirs_stay(trial: &Trial, record: &Record<Volume>) {
    let states: Vec<_> = trial.records().iter().map(|record| record.state).collect();
    make_anothers(trial, "team/v");
    trial.delete(record).unwrap();
    // Before a deletion is on record, what is at a claimed path is the volume's.
    let was_begun = states != [State::Ready];
    assert_eq!(trial.at("team/v/theirs").exists(), was_begun, "{states:?}");
    assert_eq!(trial.records(), []);
    trial.check();
}

#[test]
fn what_others_make_at_the_path_of_an_interrupted_deletion_stays() {
    at_each_step(
        8,
        |trial| trial.create(&wanted("v", "team/v")).unwrap(),
        |trial, record| trial.delete(record),
        theirs_stay,
    );
}

#[test]
fn what_others_make_where_a_deletion_found_nothing_stays() {
    at_each_step(
        4,
        |trial| {
            let record = trial.create(&wanted("v", "team/v")).unwrap();
            std::fs::remove_dir_all(trial.at("team")).unwrap();
            record
        },
        |trial, record| trial.delete(record),
        theirs_stay,
    );
}

/// A volume whose folder is placed, as a crash has left it before the record said so.
fn placed(trial: &Trial) -> Record<Volume> {
    let is_placed = |trial: &Trial| {
        let records = trial.records();
        let is_creating = |it: &Record<Volume>| it.state == State::Creating;
        trial.at("team/v").exists() && records.iter().all(is_creating)
    };
    for count in 0.. {
        let ended = crashing(count, || trial.create(&wanted("v", "team/v")));
        assert!(ended.is_err(), "it is never placed");
        if is_placed(trial) {
            break;
        }
        trial.recover();
        for record in trial.records() {
            trial.delete(&record).unwrap();
        }
    }
    trial.records().remove(0)
}

#[test]
fn a_creation_whose_folder_cannot_be_told_is_not_taken_back() {
    let trial = Trial::new();
    let record = placed(&trial);
    std::fs::write(trial.at("team/v/ours"), "x").unwrap();
    std::fs::rename(trial.at("team"), trial.at("moved")).unwrap();
    std::os::unix::fs::symlink("moved", trial.at("team")).unwrap();
    let error = trial.create(&record.what.wanted).unwrap_err();
    assert!(matches!(error, ShareError::Blocked { .. }), "{error}");
    assert_eq!(trial.records(), std::slice::from_ref(&record));
    std::fs::remove_file(trial.at("team")).unwrap();
    std::fs::rename(trial.at("moved"), trial.at("team")).unwrap();
    let made = trial.create(&record.what.wanted).unwrap();
    assert_eq!(made.nonce, record.nonce);
    assert!(trial.at("team/v/ours").exists());
    trial.check();
}

#[test]
fn what_others_make_where_a_creation_is_taken_back_stays() {
    at_each_step(
        4,
        |trial| {
            let record = placed(trial);
            std::fs::remove_dir_all(trial.at("team")).unwrap();
            record
        },
        |trial, _| recovery::recover(&trial.share(), |_| Some(())).map(drop),
        |trial, _| {
            let is_going = |it: &Record<Volume>| it.state == State::Deleting;
            if trial.records().iter().any(is_going) {
                make_anothers(trial, "team/v");
                trial.recover();
                assert!(trial.at("team/v/theirs").exists());
            }
            trial.recover();
            assert_eq!(trial.records(), []);
            trial.check();
        },
    );
}

#[test]
fn what_others_make_stays_where_a_full_share_kept_a_deletion_from_the_record() {
    let taken = AtomicUsize::new(0);
    for (on_delete, is_empty) in [
        (OnDelete::Delete, true),
        (OnDelete::Delete, false),
        (OnDelete::Archive, false),
    ] {
        at_each_step(
            8,
            |trial| {
                let mut wanted = wanted("v", "team/v");
                wanted.on_delete = on_delete;
                let record = trial.create(&wanted).unwrap();
                std::fs::write(trial.at("team/v/ours"), "x").unwrap();
                record
            },
            |trial, record| trial.delete(record),
            |trial, record| {
                let has_left = !trial.at("team/v").exists();
                forget_deletion(trial, record);
                if has_left {
                    taken.fetch_add(1, Ordering::Relaxed);
                    make_anothers(trial, "team/v");
                    if is_empty {
                        std::fs::remove_file(trial.at("team/v/theirs")).unwrap();
                    }
                }
                trial.delete(record).unwrap();
                assert_eq!(trial.records(), []);
                assert_eq!(trial.at("team/v").exists(), has_left);
                if has_left {
                    assert_eq!(trial.at("team/v/theirs").exists(), !is_empty);
                    assert!(!trial.at("team/v/ours").exists());
                }
                trial.check();
            },
        );
    }
    assert!(taken.into_inner() > 10);
}

#[test]
fn what_a_late_rename_takes_from_others_is_given_back() {
    let late = AtomicUsize::new(0);
    for on_delete in [OnDelete::Delete, OnDelete::Archive] {
        at_each_step(
            8,
            |trial| {
                let mut wanted = wanted("v", "team/v");
                wanted.on_delete = on_delete;
                trial.create(&wanted).unwrap()
            },
            |trial, record| trial.delete(record),
            |trial, record| {
                let left = format!(".csi-nfs/volumes/{}/left", record.key());
                let is_empty = trial.at(&left).exists() && trial.files(&left).is_empty();
                if is_empty {
                    make_anothers(trial, "team/v");
                    std::fs::rename(trial.at("team/v"), trial.at(&left).join("placed")).unwrap();
                    late.fetch_add(1, Ordering::Relaxed);
                }
                trial.delete(record).unwrap();
                assert_eq!(trial.at("team/v/theirs").exists(), is_empty);
                assert_eq!(trial.records(), []);
                trial.check();
            },
        );
    }
    assert!(late.into_inner() >= 2);
}

#[test]
fn what_is_in_the_place_of_an_archive_is_named() {
    for sub_dir in ["", "team/v"] {
        for is_folder in [true, false] {
            let trial = Trial::new();
            let mut wanted = wanted("v", sub_dir);
            wanted.on_delete = OnDelete::Archive;
            let record = trial.create(&wanted).unwrap();
            let path = &record.what.path;
            std::fs::write(trial.at(&format!("{path}/ours")), "x").unwrap();
            let name = format!("archived-{}-{}", path.leaf(), record.nonce);
            let archive = trial.folder.path().join(path.parent()).join(&name);
            match is_folder {
                true => std::fs::create_dir_all(archive.join("theirs")).unwrap(),
                false => std::fs::write(&archive, "theirs").unwrap(),
            }
            let error = trial.delete(&record).unwrap_err();
            assert!(matches!(error, ShareError::NotPlain { .. }), "{error}");
            assert!(error.to_string().contains(&name), "{error}");

            std::fs::rename(&archive, trial.at("theirs")).unwrap();
            trial.delete(&record).unwrap();
            assert!(archive.join("ours").exists());
            assert_eq!(trial.records(), []);
            trial.check();
        }
    }
}
