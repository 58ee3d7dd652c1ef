//! Records, claims and the label of a share as an attacker, a broken disk or another program may leave them. Whatever they
//! say, no call panics, no folder of anybody else is touched, and the error says what is damaged.

use super::*;
use crate::share::error::ShareError;
use crate::share::records::origin::Origin;
use crate::share::records::snapshot::Snapshot;
use proptest::prelude::*;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

/// A share with a volume, a snapshot of it, another volume, and a folder of nobody.
struct Scene {
    trial: Trial,
    volume: Record<Volume>,
    snapshot: Record<Snapshot>,
}

impl Scene {
    fn new() -> Self {
        let trial = Trial::in_memory();
        let volume = trial.create(&wanted("v", "team/v")).unwrap();
        std::fs::write(trial.at("team/v/file"), "x").unwrap();
        let origin = Origin::new("v", volume.key(), volume.nonce);
        let progress = Progress::default();
        let snapshot = trial.snapshot_of("s", origin, &progress).unwrap();
        trial.create(&wanted("other", "victim")).unwrap();
        for path in ["victim", "foreign"] {
            std::fs::create_dir_all(trial.at(path)).unwrap();
            std::fs::write(trial.at(path).join("precious"), path).unwrap();
        }
        Self {
            trial,
            volume,
            snapshot,
        }
    }

    /// The files that hold the records of the volume and of the snapshot.
    fn records(&self) -> [PathBuf; 2] {
        let newest = |shelf: &str, key: NameKey| {
            let folder = self.trial.at(&format!(".csi-nfs/{shelf}/{key}"));
            let names = std::fs::read_dir(&folder).unwrap();
            let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
            let last = names.filter(|name| name.contains('.')).max_by_key(|name| {
                let (_, generation) = name.rsplit_once('.').unwrap();
                generation.parse::<u64>().unwrap_or(0)
            });
            folder.join(last.unwrap())
        };
        [
            newest("volumes", self.volume.key()),
            newest("snapshots", NameKey::of("s")),
        ]
    }

    /// Everything that can be asked of such a share. Results are what they are; what is not ours stays.
    fn try_all(&self) {
        let open = || {
            let root = Arc::new(File::open(self.trial.folder.path()).unwrap().into());
            Share::open(root, Expect::Initialised)
        };
        if let Ok(share) = open() {
            let _ = life::existing::<Volume>(&share, &wanted("v", "team/v"));
            let _ = walk::<Volume>(&share, drop);
            let _ = walk::<Snapshot>(&share, drop);
            let _ = change::expand(&share, self.volume.key(), self.volume.nonce, 1 << 40, 0);
            let _ = recovery::recover(&share, |_| Some(()));
            let _ = life::create::<Volume>(
                &share,
                &wanted("v", "team/v"),
                "s:/a",
                &Progress::default(),
            );
            let _ = life::delete::<Snapshot>(&share, NameKey::of("s"), self.snapshot.nonce);
            let _ = life::delete::<Volume>(&share, self.volume.key(), self.volume.nonce);
            let _ = trash::purge(&share, &Default::default(), &mut Default::default());
        }
        for path in ["victim", "foreign"] {
            let precious = std::fs::read_to_string(self.trial.at(path).join("precious"));
            assert_eq!(precious.ok().as_deref(), Some(path));
        }
    }
}

#[test]
fn a_far_generation_holds_up_no_call() {
    for (generation, is_read) in [(1 << 43, true), (u64::MAX - 1, false), (u64::MAX, false)] {
        let scene = Scene::new();
        for file in scene.records() {
            let newest = file.extension().unwrap().to_str().unwrap();
            let text = std::fs::read_to_string(&file).unwrap();
            let generation_is = |number: &str| format!(r#""generation": {number}"#);
            let number = generation.to_string();
            let far = text.replace(&generation_is(newest), &generation_is(&number));
            assert_ne!(far, text);
            std::fs::write(file.with_extension(number), far).unwrap();
        }
        let (share, volume) = (scene.trial.share(), &scene.volume);
        let expanded = change::expand(&share, volume.key(), volume.nonce, 1 << 40, 0);
        match is_read {
            true => {
                let there = scene
                    .trial
                    .files(&format!(".csi-nfs/volumes/{}", volume.key()));
                let [kept, next] = [0, 1].map(|n| format!("{}.{}", volume.nonce, generation + n));
                assert_eq!(there, BTreeSet::from([kept, next, "leaving".to_owned()]));
                assert_eq!(expanded.unwrap().generation, generation + 1);
            }
            false => assert!(
                matches!(expanded, Err(ShareError::Damaged { .. })),
                "{expanded:?}"
            ),
        }
        scene.try_all();
    }
}

#[test]
fn a_record_that_names_another_folder_gets_nothing_of_it() {
    for path in ["victim", "foreign", "team", "victim/precious", "no/where"] {
        for state in ["ready", "deleting", "creating"] {
            let scene = Scene::new();
            let [file, _] = scene.records();
            let text = std::fs::read_to_string(&file).unwrap();
            let forged = text
                .replace(r#""sub_dir": "team/v""#, &format!(r#""sub_dir": "{path}""#))
                .replace(r#""path": "team/v""#, &format!(r#""path": "{path}""#))
                .replace(r#""state": "ready""#, &format!(r#""state": "{state}""#));
            assert_ne!(forged, text);
            std::fs::write(&file, forged).unwrap();
            scene.try_all();
            assert!(
                scene.trial.at("team/v/file").exists(),
                "its own folder is not named any more"
            );
        }
    }
}

#[test]
fn a_record_that_cannot_be_is_said_to_be_damaged() {
    for (from, to) in [
        ("team/v", "../v"),
        ("team/v", "/"),
        ("team/v", ".csi-nfs/volumes"),
        ("team/v", "a\\u0000b"),
        (
            r#""generation": 2"#,
            r#""generation": 18446744073709551615"#,
        ),
        (r#""capacity_bytes": 1073741824"#, r#""capacity_bytes": -1"#),
        (
            r#""capacity_bytes": 1073741824"#,
            r#""capacity_bytes": 1e99"#,
        ),
        (r#""mode": 488"#, r#""mode": 4294967295"#),
        (r#""state": "ready""#, r#""state": "gone""#),
        (r#""name": "v""#, r#""name": "other""#),
        (r#""path": "team/v""#, r#""path": "victim""#),
        (r#""format": 2"#, r#""format": 99"#),
        (r#""format": 2"#, r#""format": 1"#),
    ] {
        let scene = Scene::new();
        let [file, _] = scene.records();
        let text = std::fs::read_to_string(&file).unwrap();
        let forged = text.replacen(from, to, 1);
        assert_ne!(forged, text, "{from}");
        std::fs::write(&file, forged).unwrap();
        let error = scene.trial.delete(&scene.volume).unwrap_err();
        assert!(matches!(error, ShareError::Damaged { .. }), "{to}: {error}");
        assert!(error.to_string().len() < 1000, "{error}");
        scene.try_all();
        assert!(scene.trial.at("team/v/file").exists(), "{to}");
    }
}

#[test]
fn a_snapshots_record_that_cannot_be_leads_nowhere() {
    // What a clone of another driver's volume has, put into the record of a snapshot.
    let id = r#""id": "v""#;
    let with_path = |path| (id, format!(r#"{id}, "path": "{path}""#));
    for (from, to) in [
        with_path("../outside"),
        with_path("/"),
        with_path(".csi-nfs/volumes"),
        with_path("a//b"),
        (
            r#""size_bytes": 1073741824"#,
            r#""size_bytes": -1"#.to_owned(),
        ),
    ] {
        let scene = Scene::new();
        let [_, file] = scene.records();
        let text = std::fs::read_to_string(&file).unwrap();
        let forged = text.replacen(from, &to, 1);
        assert_ne!(forged, text, "{from}");
        std::fs::write(&file, forged).unwrap();
        let error = store::find::<Snapshot>(&scene.trial.share(), NameKey::of("s")).unwrap_err();
        assert!(matches!(error, ShareError::Damaged { .. }), "{to}: {error}");
        scene.try_all();
    }
}

#[test]
fn names_of_any_bytes_in_the_records_are_passed_over() {
    let scene = Scene::new();
    let key = scene.volume.key();
    for folder in [
        ".",
        "volumes",
        "snapshots",
        "folders",
        "folders/+team",
        "trash",
        "drafts",
        &format!("volumes/{key}"),
    ] {
        for name in [
            &b"\xff\xfe"[..],
            b"\n",
            b"@",
            b"@.",
            b"@x.y",
            b"+",
            b"+..",
            b"0.0",
            b"x.1",
            b"leaving",
            b"left",
            b"\xff.purge",
            b"data.\xff",
            b"probe-",
        ] {
            let at = scene
                .trial
                .at(".csi-nfs")
                .join(folder)
                .join(OsStr::from_bytes(name));
            let _ = std::fs::create_dir(&at);
        }
    }
    let share = scene.trial.share();
    let mut seen = Vec::new();
    walk::<Volume>(&share, |listed| seen.push(format!("{listed:?}"))).unwrap();
    assert_eq!(seen.len(), 2, "{seen:?}");
    recovery::recover(&share, |_| Some(())).unwrap();
    scene.trial.delete(&scene.volume).unwrap();
    assert!(!scene.trial.at("team/v").exists());
    scene.try_all();
}

#[test]
fn a_record_without_end_is_not_read() {
    let scene = Scene::new();
    let [file, _] = scene.records();
    let huge = File::create(&file).unwrap();
    huge.set_len(1 << 40).unwrap();
    let error = scene.trial.delete(&scene.volume).unwrap_err();
    assert!(error.to_string().contains("too long"), "{error}");
    // What is no file at all, and what would block or act when it is opened.
    std::fs::remove_file(&file).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &file,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RWXU,
        0,
    )
    .unwrap();
    let error = scene.trial.delete(&scene.volume).unwrap_err();
    assert!(error.to_string().contains("not a regular file"), "{error}");
    std::fs::remove_file(&file).unwrap();
    let secret = tempfile::NamedTempFile::new().unwrap();
    std::os::unix::fs::symlink(secret.path(), &file).unwrap();
    assert!(scene.trial.delete(&scene.volume).is_err());
    scene.try_all();
}

/// One change of a text: bytes cut out, put in, or flipped.
fn change(text: &[u8], (at, length, kind, noise): (usize, usize, u8, Vec<u8>)) -> Vec<u8> {
    let at = at % (text.len() + 1);
    let end = (at + length % 64).min(text.len());
    match kind % 4 {
        0 => text[..at].to_vec(),
        1 => [&text[..at], &text[end..]].concat(),
        2 => [&text[..at], &noise, &text[at..]].concat(),
        _ => {
            let mut text = text.to_vec();
            if let Some(byte) = text.get_mut(at) {
                *byte ^= noise.first().copied().unwrap_or(1).max(1);
            }
            text
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn any_change_of_a_record_is_survived(
        which in 0..3_usize,
        changes in proptest::collection::vec(
            (any::<usize>(), any::<usize>(), any::<u8>(), proptest::collection::vec(any::<u8>(), 0..20)),
            1..3,
        ),
    ) {
        let scene = Scene::new();
        let [volume, snapshot] = scene.records();
        let file = [volume, snapshot, scene.trial.at(".csi-nfs/share.json")][which].clone();
        let mut text = std::fs::read(&file).unwrap();
        for one in changes {
            text = change(&text, one);
        }
        std::fs::write(&file, text).unwrap();
        scene.try_all();
    }
}
