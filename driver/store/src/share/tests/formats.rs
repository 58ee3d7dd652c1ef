//! What every version has kept on a share is read, and worked with. The files are in `tests/formats/`.

use super::*;
use crate::corpus;
use crate::quota::amounts::Amounts;
use crate::quota::project_id::ProjectId;
use crate::share::agent_memory::Compared;
use crate::share::agents::{Agent, Capabilities, Quotas};
use crate::share::compared;
use crate::share::database::Label;
use crate::share::limits;
use crate::share::measures::{self, Measure};
use crate::share::records::format::{self, FORMAT};
use crate::share::records::origin::{Origin, Source};
use crate::share::records::promise::{Promise, Ratio};
use crate::share::records::record::{Copying, Kind};
use crate::share::records::size::{Quota, Size};
use crate::share::records::text::{self, measure_name};
use crate::share::records::volume::Changes;
use crate::share::requests::{Answer, Asked, Request, Requests};
use crate::share::token::{Nonce, ShareUuid};
use std::collections::BTreeMap;

const CREATED: u64 = 1_700_000_000;
/// The folders that every share has, and those that an agent makes.
const PARTS: [&str; 8] = [
    "volumes",
    "snapshots",
    "folders",
    "trash",
    "drafts",
    "agents",
    "requests",
    "projects",
];

fn uuid() -> ShareUuid {
    "0123456789abcdefghijklmno0".parse().unwrap()
}

/// A record in its second generation.
fn record<K: Kind>(state: State, what: K) -> Record<K> {
    Record {
        format: FORMAT,
        nonce: Nonce::of(K::name(what.wanted())),
        generation: 2,
        state,
        location: "nas/srv".to_owned(),
        created: CREATED,
        copying: None,
        copy: None,
        what,
    }
}

fn volume(wanted: Wanted) -> Volume {
    let nonce = Nonce::of(&wanted.name);
    Volume {
        path: match &wanted.sub_dir {
            Some(path) => path.clone(),
            None => SubPath::of_volume(&wanted.name, nonce),
        },
        capacity_bytes: 1 << 30,
        size: None,
        changes: Changes::default(),
        leaving: None,
        wanted,
    }
}

fn copying() -> Copying {
    Copying {
        attempt: Nonce::of("attempt"),
        process: "host 1 2".to_owned(),
    }
}

fn origin(id: &str) -> Origin {
    Origin::new(id, NameKey::of(id), Nonce::of(id))
}

/// A record with every field, one with as few as can be, and one for each other value of a field.
fn volumes() -> Vec<Record<Volume>> {
    let whole = Wanted {
        name: "whole".to_owned(),
        required_bytes: 1 << 20,
        limit_bytes: 1 << 40,
        sub_dir: Some(SubPath::parse("team/web").unwrap()),
        on_delete: OnDelete::Archive,
        mode: Some(0o2770),
        uid: Some(1000),
        gid: Some(100),
        mount_options: vec!["hard".to_owned(), "nconnect=4".to_owned()],
        source: Some(Source::Snapshot(origin("s"))),
        adopt: false,
        quota: Some(Quota::Enforce),
        inodes: Some(5000),
        overcommit: Ratio::parse("1.5"),
    };
    let adopted = Wanted {
        adopt: true,
        on_delete: OnDelete::Retain,
        quota: Some(Quota::Advise),
        ..wanted("adopted", "theirs")
    };
    let from = |name, source| Wanted {
        source: Some(source),
        ..wanted(name, "")
    };
    let clone = from("clone", Source::Volume(origin("plain")));
    let path = SubPath::parse("snapshot-1/web.tar.gz").unwrap();
    let archive = from("archive", Source::Archive(Origin::upstream("theirs", path)));
    vec![
        Record {
            copy: Some(Nonce::of("attempt")),
            ..record(
                State::Ready,
                Volume {
                    size: Some(Size::Enforced { project: Some(7) }),
                    changes: Changes {
                        on_delete: Some(OnDelete::Delete),
                        mode: Some(0o700),
                        uid: Some(1),
                        gid: Some(2),
                    },
                    ..volume(whole)
                },
            )
        },
        record(State::Ready, volume(wanted("plain", ""))),
        record(State::Ready, volume(adopted)),
        Record {
            copying: Some(copying()),
            ..record(State::Creating, volume(clone))
        },
        record(
            State::Creating,
            Volume {
                size: Some(Size::Advisory {
                    why: "btrfs has no project quotas".to_owned(),
                }),
                ..volume(archive)
            },
        ),
        record(
            State::Deleting,
            Volume {
                size: Some(Size::Enforced { project: None }),
                leaving: Some(serde_json::from_str(r#"{"inode": 5, "born": [1, 2]}"#).unwrap()),
                ..volume(wanted("leaving", "gone"))
            },
        ),
    ]
}

fn kept_snapshots() -> Vec<Record<Snapshot>> {
    let of = |name: &str, left_out| Snapshot {
        wanted: snapshot::Wanted {
            name: name.to_owned(),
            source: origin("plain"),
        },
        size_bytes: 1 << 30,
        left_out,
    };
    vec![
        Record {
            copy: Some(Nonce::of("attempt")),
            ..record(State::Ready, of("s", Some("a device".to_owned())))
        },
        Record {
            copying: Some(copying()),
            ..record(State::Creating, of("t", None))
        },
    ]
}

fn measure() -> Measure {
    Measure {
        format: FORMAT,
        bytes: 8192,
        files: 1,
        folders: 1,
        ended: CREATED,
        took_ms: 5,
        short: Some("a folder could not be read".to_owned()),
    }
}

fn agent() -> Agent {
    Agent {
        format: FORMAT,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        process: "host 1 2".to_owned(),
        capabilities: Capabilities {
            reflinks: true,
            quotas: Quotas::Advisory,
            why: Some("quotas are off".to_owned()),
        },
    }
}

fn request() -> Request {
    let amounts = Amounts {
        bytes: 1 << 30,
        inodes: 5000,
    };
    let volume = (NameKey::of("whole"), Nonce::of("whole"));
    Request::new(volume, Some(Nonce::of("attempt")), amounts)
}

/// Each kind of answer, by the nonce of its request.
fn answers() -> [(Nonce, Answer); 2] {
    [
        (Nonce::of("yes"), Answer::Project(7)),
        (
            Nonce::of("no"),
            Answer::Refused("quotas are off".to_owned()),
        ),
    ]
}

fn found() -> Compared {
    let volumes = [(Nonce::of("whole"), "its folder is gone".to_owned())];
    Compared::of(CREATED, volumes.into())
}

fn write(folder: &Path, name: &str, text: &[u8]) {
    std::fs::create_dir_all(folder).unwrap();
    std::fs::write(folder.join(name), text).unwrap();
}

impl Trial {
    fn folder_of<K: Kind>(&self, record: &Record<K>) -> PathBuf {
        self.at(".csi-nfs")
            .join(K::FOLDER)
            .join(record.key().to_string())
    }

    fn put<K: Kind>(&self, record: &Record<K>) {
        let text = text::write(record, None).unwrap();
        write(&self.folder_of(record), &record.file_name(), &text);
    }

    /// A share with something of all that there can be, but for what has names that are drawn.
    fn with_everything() -> Self {
        let trial = Self {
            folder: tempfile::tempdir().unwrap(),
        };
        let label = Label {
            format: FORMAT,
            uuid: uuid(),
            created: CREATED,
        };
        let records = trial.at(".csi-nfs");
        write(&records, "share.json", &serde_json::to_vec(&label).unwrap());
        trial.make_parts();
        for record in volumes() {
            trial.put(&record);
            if record.state != State::Creating {
                write(&trial.at(&record.what.path.to_string()), "file", b"data");
            }
            if let Some(path) = &record.what.wanted.sub_dir {
                let claims = path.to_string().replace('/', "/+");
                let owner = format!("@{}.{}", record.key(), record.nonce);
                write(&records.join(format!("folders/+{claims}")), &owner, b"");
            }
        }
        for record in kept_snapshots() {
            trial.put(&record);
            let data = format!("data.{}", Nonce::of("attempt"));
            write(&trial.folder_of(&record).join(data), "file", b"data");
        }
        let [whole, plain] = [0, 1].map(|place| volumes().swap_remove(place));
        let share = trial.share();
        let beside = File::open(trial.folder_of(&plain)).unwrap().into();
        let name = measure_name(plain.nonce);
        share.replace(&beside, &name, &measure()).unwrap();
        let agents = share.make_part("agents").unwrap();
        let name = Nonce::of("agent").to_string();
        share.replace(&agents, &name, &agent()).unwrap();
        let folder = share.make_part("requests").unwrap();
        for (nonce, answer) in answers() {
            share
                .replace(&folder, &format!("{nonce}.request"), &request())
                .unwrap();
            share
                .replace(&folder, &format!("{nonce}.answer"), &answer)
                .unwrap();
        }
        drop(compared::write(&found(), &share).unwrap());
        let id = ProjectId::new(7).unwrap();
        let ledger = limits::ledger(&share).unwrap();
        assert!(ledger.enter(id, &limits::owner(&whole)).unwrap());
        let entry = format!(
            "{}-{}-4096.purge",
            Nonce::of("deleted"),
            Nonce::of("random")
        );
        write(&records.join("trash").join(entry), "file", b"data");
        trial
    }

    /// Makes the folders that may be empty: Git keeps none.
    fn make_parts(&self) {
        for part in PARTS {
            std::fs::create_dir_all(self.at(".csi-nfs").join(part)).unwrap();
        }
        for record in volumes() {
            if record.what.wanted.sub_dir.is_some() {
                std::fs::create_dir_all(self.folder_of(&record).join("leaving")).unwrap();
            }
        }
    }
}

#[test]
fn a_share_is_written_as_in_the_newest_version() {
    let trial = Trial::with_everything();
    corpus::holds("share", corpus::read(trial.folder.path()));
    // The other form of a file that is on a share once.
    let unable = Compared::unable(CREATED, "quotas are off".to_owned(), 3);
    let unable = serde_json::to_vec(&unable).unwrap();
    corpus::holds("share-unable", [("compared.json", unable)]);
}

/// Calls `look` with a copy of the share that each version has written.
fn of_all_versions(look: impl Fn(&str, &Trial)) {
    for (version, folder) in corpus::versions("share") {
        let trial = Trial {
            folder: tempfile::tempdir().unwrap(),
        };
        corpus::copy(&folder, trial.folder.path());
        trial.make_parts();
        look(&version, &trial);
    }
}

fn kept<K: Kind>(share: &Share) -> BTreeMap<String, Record<K>> {
    let records = store::keys::<K>(share).unwrap().into_iter().map(|key| {
        let record = store::find::<K>(share, key).unwrap().unwrap().record;
        (K::name(record.what.wanted()).to_owned(), record)
    });
    records.collect()
}

fn by_name<K: Kind>(records: Vec<Record<K>>) -> BTreeMap<String, Record<K>> {
    let named = |record: Record<K>| (K::name(record.what.wanted()).to_owned(), record);
    records.into_iter().map(named).collect()
}

#[test]
fn shares_of_all_versions_are_read() {
    of_all_versions(|version, trial| {
        let share = trial.share();
        assert_eq!(share.uuid(), uuid(), "{version}");
        assert_eq!(kept(&share), by_name(volumes()), "{version}");
        assert_eq!(kept(&share), by_name(kept_snapshots()), "{version}");
        let plain = store::find(&share, NameKey::of("plain")).unwrap().unwrap();
        assert_eq!(measures::of(&plain), Some(measure()), "{version}");
        let name = format!(".csi-nfs/agents/{}", Nonce::of("agent"));
        let found_agent: Agent = format::parse(&std::fs::read(trial.at(&name)).unwrap()).unwrap();
        let expected = Agent {
            version: version.to_owned(),
            ..agent()
        };
        assert_eq!(found_agent, expected);
        let (requests, odd) = Requests::if_there(&share).unwrap().unwrap().all().unwrap();
        assert!(odd.is_empty());
        let expected = answers().map(|(nonce, _)| (nonce, request()));
        let by_nonce = |all: Vec<(Nonce, Request)>| {
            BTreeMap::from_iter(
                all.into_iter()
                    .map(|(nonce, it)| (nonce, format!("{it:?}"))),
            )
        };
        assert_eq!(by_nonce(requests), by_nonce(expected.into()), "{version}");
        for (nonce, answer) in answers() {
            let mut asked = Asked::by_record(&share, nonce).unwrap().unwrap();
            assert_eq!(asked.answer().unwrap(), Some(answer), "{version}");
        }
        assert_eq!(compared::last(&share), Some(&found()), "{version}");
        let entry = limits::ledger(&share)
            .unwrap()
            .entry(ProjectId::new(7).unwrap());
        assert_eq!(
            entry.unwrap().unwrap().owner,
            limits::owner(&volumes()[0]),
            "{version}"
        );
        let promise = Promise {
            nonce: Nonce::of("deleted"),
            bytes: 4096,
        };
        assert_eq!(trash::promises(&share).unwrap(), [promise], "{version}");
    });
    for (version, folder) in corpus::versions("share-unable") {
        let text = std::fs::read(folder.join("compared.json")).unwrap();
        let expected = Compared::unable(CREATED, "quotas are off".to_owned(), 3);
        assert_eq!(
            format::parse::<Compared>(&text),
            Some(expected),
            "{version}"
        );
    }
}

#[test]
fn shares_of_all_versions_are_worked_with() {
    of_all_versions(|version, trial| {
        let [whole, plain] = [0, 1].map(|place| volumes().swap_remove(place));
        // A repeat finds it, and a path in the folder of another is refused.
        let again = trial.create(&plain.what.wanted).unwrap();
        assert_eq!(again, plain, "{version}");
        let inside = trial.create(&wanted("inside", "team/web/deeper"));
        assert!(
            matches!(inside, Err(ShareError::Overlap { .. })),
            "{version}: {inside:?}"
        );
        let grown = change::expand(&trial.share(), plain.key(), plain.nonce, 1 << 31, 0).unwrap();
        assert_eq!((grown.generation, grown.what.capacity_bytes), (3, 1 << 31));
        for record in [&whole, &plain] {
            assert!(
                trial
                    .at(&record.what.path.to_string())
                    .join("file")
                    .is_file()
            );
            trial.delete(record).unwrap();
            assert!(
                !trial.at(&record.what.path.to_string()).exists(),
                "{version}"
            );
        }
        let snapshot = &kept_snapshots()[0];
        life::delete::<Snapshot>(&trial.share(), snapshot.key(), snapshot.nonce).unwrap();
        assert!(!trial.folder_of(snapshot).exists(), "{version}");
    });
}

/// Parameters have 4 KiB, and JSON may take six bytes for one of them.
#[test]
fn a_record_of_the_longest_parameters_is_read() {
    let trial = Trial::new();
    let wanted = Wanted {
        mount_options: vec!["\u{1}".repeat(4096)],
        ..wanted("v", "")
    };
    let made = trial.create(&wanted).unwrap();
    assert_eq!(trial.records(), [made]);
}
