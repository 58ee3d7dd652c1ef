//! Trials of the share as a database: crashes between any two steps, races, and hostile folders. Only for tests.
//!
//! They run on a local folder. With `TRIAL_EXPORT`, a folder that a server exports, and `TRIAL_MOUNTS`, mounts of it
//! separated by colons, they run over NFS: each operation takes another mount, as if it were another controller's.

use super::crash::crashing;
use super::database::{Expect, Share};
use super::error::ShareError;
use super::record::{OnDelete, Record, State, Wanted};
use super::store::{self, Claimed, Kept};
use super::sub_path::SubPath;
use super::token::NameKey;
use super::{lifecycle, recovery, trash};
use std::collections::BTreeSet;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

struct Trial {
    folder: tempfile::TempDir,
}

impl Trial {
    fn new() -> Self {
        let trial = Self {
            folder: match std::env::var_os("TRIAL_EXPORT") {
                Some(export) => tempfile::tempdir_in(export).unwrap(),
                None => tempfile::tempdir().unwrap(),
            },
        };
        trial.share();
        trial
    }

    /// The share as an operation sees it that begins now, in any controller.
    fn share(&self) -> Share {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let root = match std::env::var("TRIAL_MOUNTS") {
            Err(_) => self.folder.path().to_owned(),
            Ok(mounts) => {
                let mounts: Vec<&str> = mounts.split(':').collect();
                let turn = NEXT.fetch_add(1, Ordering::Relaxed) % mounts.len();
                Path::new(mounts[turn]).join(self.folder.path().file_name().unwrap())
            }
        };
        let root = Arc::new(File::open(root).unwrap().into());
        Share::open(root, Expect::Any).unwrap()
    }

    fn at(&self, path: &str) -> PathBuf {
        self.folder.path().join(path)
    }

    fn create(&self, wanted: &Wanted) -> Result<Record, ShareError> {
        lifecycle::create(&self.share(), wanted, "s:/a")
    }

    fn delete(&self, record: &Record) -> Result<(), ShareError> {
        lifecycle::delete(&self.share(), record.key(), record.nonce)
    }

    fn recover(&self) {
        let failures = recovery::recover(&self.share(), |_| Some(())).unwrap();
        assert!(failures.is_empty(), "{failures:?}");
    }

    fn records(&self) -> Vec<Record> {
        let share = self.share();
        let keys = store::keys(&share).unwrap();
        let records = keys
            .into_iter()
            .filter_map(|key| match store::look(&share, key).unwrap() {
                Kept::Nothing => None,
                Kept::Found(found) => Some(found.record),
                Kept::Unreadable(record) => panic!("{record:?}"),
            });
        records.collect()
    }

    fn files(&self, path: &str) -> BTreeSet<String> {
        std::fs::read_dir(self.at(path))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect()
    }

    /// What holds whenever nothing runs: the claims and the folders are those of the ready volumes, and no others.
    fn check(&self) {
        let records = self.records();
        let mut claims = BTreeSet::new();
        collect_claims(&self.at(".csi-nfs/folders"), &mut Vec::new(), &mut claims);
        let mut expected = BTreeSet::new();
        for record in &records {
            assert_eq!(record.state, State::Ready, "{record:?}");
            let path = record.wanted.sub_dir.to_string();
            assert!(self.at(&path).is_dir(), "{path} is missing");
            expected.insert((path, format!("@{}.{}", record.key(), record.nonce)));
        }
        assert_eq!(claims, expected);
        assert_eq!(trash::purge(&self.share()).unwrap(), 0);
        assert_eq!(self.files(".csi-nfs/trash"), BTreeSet::new());
    }
}

fn collect_claims(at: &Path, path: &mut Vec<String>, claims: &mut BTreeSet<(String, String)>) {
    let mut empty = true;
    for entry in std::fs::read_dir(at).unwrap() {
        empty = false;
        let name = entry.unwrap().file_name().into_string().unwrap();
        match name.strip_prefix('+') {
            None => drop(claims.insert((path.join("/"), name))),
            Some(component) => {
                path.push(component.to_owned());
                collect_claims(&at.join(&name), path, claims);
                path.pop();
            }
        }
    }
    assert!(
        !empty || path.is_empty(),
        "the claims have an empty folder at {path:?}"
    );
}

fn wanted(name: &str, sub_dir: &str) -> Wanted {
    Wanted {
        name: name.to_owned(),
        required_bytes: 1 << 30,
        limit_bytes: 0,
        sub_dir: SubPath::parse(sub_dir).unwrap(),
        on_delete: OnDelete::Delete,
        mode: 0o750,
        uid: None,
        gid: None,
        mount_options: vec![],
    }
}

/// Lets `work` crash at each of its steps in turn, each time on a share made by `before`, and looks at what follows with
/// `after`. At least `least` steps must be hit.
fn at_each_step<B>(
    least: usize,
    before: impl Fn(&Trial) -> B,
    work: impl Fn(&Trial, &B) -> Result<(), ShareError>,
    after: impl Fn(&Trial, &B),
) {
    for count in 0.. {
        let trial = Trial::new();
        let made = before(&trial);
        let ended = crashing(count, || work(&trial, &made));
        after(&trial, &made);
        match ended {
            Err(ShareError::Crash(_)) => {}
            _ => {
                assert!(count >= least, "only {count} steps");
                return;
            }
        }
    }
}

#[test]
fn a_volume_lives_and_dies() {
    use std::os::unix::fs::MetadataExt;
    let trial = Trial::new();
    let record = trial.create(&wanted("v", "team/v")).unwrap();
    assert_eq!(
        (record.state, record.capacity_bytes),
        (State::Ready, 1 << 30)
    );
    let metadata = std::fs::metadata(trial.at("team/v")).unwrap();
    assert_eq!(metadata.mode() & 0o7777, 0o750);
    assert_eq!(metadata.ino(), record.inode);
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
fn a_crash_in_a_creation_is_finished_by_a_retry() {
    let volume = wanted("v", "team/v");
    at_each_step(
        9,
        |_| (),
        |trial, ()| trial.create(&volume).map(drop),
        |trial, ()| {
            trial.create(&volume).unwrap();
            trial.check();
            assert_eq!(trial.records().len(), 1);
        },
    );
}

#[test]
fn a_crash_in_a_creation_is_finished_by_the_recovery() {
    let volume = wanted("v", "team/v");
    at_each_step(
        9,
        |_| (),
        |trial, ()| trial.create(&volume).map(drop),
        |trial, ()| {
            trial.recover();
            trial.check();
            assert!(trial.records().len() <= 1);
        },
    );
}

#[test]
fn a_crash_in_a_deletion_is_finished_by_a_retry_or_the_recovery() {
    for policy in [OnDelete::Delete, OnDelete::Retain, OnDelete::Archive] {
        for recover in [false, true] {
            let mut volume = wanted("v", "team/v");
            volume.on_delete = policy;
            at_each_step(
                6,
                |trial| {
                    let record = trial.create(&volume).unwrap();
                    std::fs::write(trial.at("team/v/file"), "data").unwrap();
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
                        let left = trial.files("team");
                        let expected = match policy {
                            OnDelete::Delete => BTreeSet::new(),
                            OnDelete::Retain => BTreeSet::from(["v".to_owned()]),
                            OnDelete::Archive => {
                                BTreeSet::from([format!("archived-v-{}", record.nonce)])
                            }
                        };
                        assert_eq!(left, expected);
                        for folder in left {
                            let file = trial.at("team").join(folder).join("file");
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
fn a_crash_in_a_creation_can_be_deleted() {
    let volume = wanted("v", "v");
    at_each_step(
        9,
        |_| (),
        |trial, ()| trial.create(&volume).map(drop),
        |trial, ()| {
            for record in trial.records() {
                trial.delete(&record).unwrap();
            }
            trial.check();
            assert!(!trial.at("v").exists());
        },
    );
}

#[test]
fn a_crash_in_an_expansion_leaves_the_old_size_or_the_new() {
    let volume = wanted("v", "v");
    let expand = |trial: &Trial, record: &Record| {
        lifecycle::expand(&trial.share(), record.key(), record.nonce, 2 << 30, 0)
    };
    at_each_step(
        2,
        |trial| trial.create(&volume).unwrap(),
        |trial, record| expand(trial, record).map(drop),
        |trial, record| {
            let size = trial.records()[0].capacity_bytes;
            assert!(size == 1 << 30 || size == 2 << 30);
            assert_eq!(expand(trial, record).unwrap().capacity_bytes, 2 << 30);
            assert_eq!(trial.create(&volume).unwrap().capacity_bytes, 2 << 30);
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
                    assert!(
                        matches!(again, Err(ShareError::Foreign { .. })),
                        "{again:?}"
                    );
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
        },
        |trial, ()| trial.create(&volume).map(drop),
        |trial, ()| {
            let again = trial.create(&volume);
            assert!(
                matches!(again, Err(ShareError::Foreign { .. })),
                "{again:?}"
            );
            assert_eq!(trial.records(), []);
            trial.check();
        },
    );
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
                                store::find(&trial.share(), NameKey::of(&name)).unwrap()
                            {
                                trial.delete(&found.record).unwrap();
                            }
                        }
                        _ => {
                            let share = trial.share();
                            if let Some(found) = store::find(&share, NameKey::of(&name)).unwrap() {
                                let size = 1 << 31;
                                match lifecycle::expand(
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
    let late = store::find(&share, old.key()).unwrap().unwrap();
    trial.delete(&old).unwrap();
    let new = trial.create(&wanted("v", "v")).unwrap();
    let mut next = late.record.next();
    next.capacity_bytes = 7;
    assert!(matches!(
        store::update(&share, &late, &next),
        Ok(Claimed::Lost)
    ));
    store::remove(&share, &late).unwrap();
    trial.delete(&old).unwrap();
    assert_eq!(trial.records(), [new]);
    trial.check();
}

/// The late deleter's move took the folder of a volume that came later to the same path.
#[test]
fn a_folder_moved_by_a_late_deletion_comes_back() {
    for recover in [false, true] {
        let trial = Trial::new();
        let old = trial.create(&wanted("old", "v")).unwrap();
        let share = trial.share();
        let late = store::find(&share, old.key()).unwrap().unwrap();
        trial.delete(&old).unwrap();
        let new = trial.create(&wanted("new", "v")).unwrap();
        std::fs::write(trial.at("v/file"), "data").unwrap();
        std::fs::rename(
            trial.at("v"),
            trial.at(&format!(".csi-nfs/trash/{}.waiting", old.nonce)),
        )
        .unwrap();
        assert_eq!(trash::purge(&trial.share()).unwrap(), 0);
        if recover {
            trial.recover();
        } else {
            lifecycle::take_away(&share, &late.record).unwrap();
        }
        assert_eq!(std::fs::read(trial.at("v/file")).unwrap(), b"data");
        assert_eq!(trial.records(), [new]);
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
    assert!(matches!(error, ShareError::Foreign { .. }), "{error}");
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
            scope.spawn(|| trash::purge(&trial.share()).unwrap());
        }
    });
    trial.check();
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
