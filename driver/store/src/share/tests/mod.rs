//! Tests of the share as a database: crashes between any two steps and errors at each, races, and hostile folders. Only for
//! tests.
//!
//! They run on a local folder. With `TRIAL_EXPORT`, a folder that a server exports, and `TRIAL_MOUNTS`, mounts of it
//! separated by colons, they run over NFS: each operation takes another mount, as if it were another controller's.

mod agents;
mod copies;
mod crashes;
mod errors;
mod forged;
mod formats;
mod hazards;
mod interleaved;
mod measures;
mod odd;
mod promises;
mod races;
mod restored;
mod takeovers;
mod threads;
mod upstream;

use super::database::{Expect, Share};
use super::error::ShareError;
use super::listing::{self, List};
use super::paths::sub_path::SubPath;
use super::records::record::{Record, State};
use super::records::snapshot::{self, Snapshot};
use super::records::store::{self, Claimed, Kept};
use super::records::volume::{OnDelete, Volume, Wanted};
use super::token::NameKey;
use super::volume::change;
use super::{life, recovery, trash};
use crate::files::admission::ExtraThreads;
use crate::files::copying::Progress;
use crate::files::crash_points::{Died, crashing};
use std::collections::BTreeSet;
use std::fs::File;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

struct Trial {
    folder: tempfile::TempDir,
}

impl Trial {
    fn new() -> Self {
        Self::below(&std::env::temp_dir())
    }

    /// One that waits for no disk, where the machine has a folder in memory: for those who make thousands.
    fn in_memory() -> Self {
        let memory = Path::new("/dev/shm");
        match tempfile::tempdir_in(memory) {
            Ok(_) => Self::below(memory),
            Err(_) => Self::new(),
        }
    }

    fn below(folder: &Path) -> Self {
        let export = std::env::var_os("TRIAL_EXPORT").map(PathBuf::from);
        let trial = Self {
            folder: tempfile::tempdir_in(export.as_deref().unwrap_or(folder)).unwrap(),
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

    fn create(&self, wanted: &Wanted) -> Result<Record<Volume>, ShareError> {
        life::create(&self.share(), wanted, "s:/a", &Progress::default())
    }

    fn delete(&self, record: &Record<Volume>) -> Result<(), ShareError> {
        life::delete::<Volume>(&self.share(), record.key(), record.nonce)
    }

    fn recover(&self) {
        let recovered = recovery::recover(&self.share(), |_| Some(())).unwrap();
        assert!(recovered.failures.is_empty(), "{recovered:?}");
        let (share, progress) = (self.share(), Progress::default());
        for key in recovered.volumes {
            life::resume::<Volume>(&share, key, &progress).unwrap();
        }
        for key in recovered.snapshots {
            life::resume::<Snapshot>(&share, key, &progress).unwrap();
        }
    }

    fn records(&self) -> Vec<Record<Volume>> {
        let share = self.share();
        let keys = store::keys::<Volume>(&share).unwrap();
        let records =
            keys.into_iter()
                .filter_map(|key| match store::look::<Volume>(&share, key).unwrap() {
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

    /// What holds whenever nothing runs: the claims and the folders are those of the ready volumes, and no others; and nothing
    /// is on its way out.
    fn check(&self) {
        let records = self.records();
        let mut claims = BTreeSet::new();
        collect_claims(&self.at(".csi-nfs/folders"), &mut Vec::new(), &mut claims);
        let mut expected = BTreeSet::new();
        for record in &records {
            assert_eq!(record.state, State::Ready, "{record:?}");
            let path = record.what.path.to_string();
            assert!(self.at(&path).is_dir(), "{path} is missing");
            // What the driver has named needs no claim.
            if record.what.wanted.sub_dir.is_some() {
                expected.insert((path, format!("@{}.{}", record.key(), record.nonce)));
            }
        }
        assert_eq!(claims, expected);
        assert_eq!(
            trash::purge(&self.share(), &Default::default(), &mut Default::default()).unwrap(),
            trash::Purged::ButFor(0)
        );
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

/// A volume at a path that the user has chosen; with none, at one that the driver names.
pub(crate) fn wanted(name: &str, sub_dir: &str) -> Wanted {
    Wanted {
        name: name.to_owned(),
        required_bytes: 1 << 30,
        sub_dir: (!sub_dir.is_empty()).then(|| SubPath::parse(sub_dir).unwrap()),
        mode: Some(0o750),
        ..Wanted::default()
    }
}

/// Calls `visit` for each of a kind, as a list shows it.
fn walk<R: List>(share: &Share, mut visit: impl FnMut(R::Item)) -> Result<(), ShareError> {
    let threads = ExtraThreads::default();
    listing::walk::<R>(
        share,
        &threads,
        None,
        usize::MAX,
        || false,
        |_, item| {
            visit(item);
            ControlFlow::Continue(())
        },
    )
    .map(drop)
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
        let trial = Trial::in_memory();
        let made = before(&trial);
        let ended = crashing(count, || work(&trial, &made));
        after(&trial, &made);
        match ended {
            Err(Died) => {}
            Ok(_) => {
                assert!(count >= least, "only {count} steps");
                return;
            }
        }
    }
}
