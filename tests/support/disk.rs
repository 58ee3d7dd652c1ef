//! A share as it lies on its disk, looked at without the driver: what must be there when nothing is going on.

use crate::support::patience::{Patience, until};
use crate::support::placed::plain;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// The driver's own folder on a share.
const RECORDS: &str = ".csi-nfs";

/// The folder of somebody else on a share, which no driver may touch.
const FOREIGN: &str = "foreign";

/// What should be on a share.
#[derive(Clone, Debug, Default)]
pub struct Expected {
    /// The folders of volumes, and others that have come of volumes.
    pub folders: BTreeSet<String>,
    /// Records of volumes.
    pub volumes: usize,
    /// Records of snapshots.
    pub snapshots: usize,
}

/// A share on disk.
pub struct Disk {
    root: PathBuf,
    foreign: BTreeMap<PathBuf, Vec<u8>>,
}

impl Disk {
    /// The share in the folder `root`, to which somebody else's files are added.
    pub fn with_foreign_files(root: &Path) -> Self {
        let folder = root.join(FOREIGN);
        fs::create_dir_all(folder.join("deep/er")).expect("a new folder");
        for name in ["a", "deep/b", "deep/er/c"] {
            fs::write(folder.join(name), format!("foreign {name}")).expect("a new file");
        }
        std::os::unix::fs::symlink("deep", folder.join("link")).expect("a new link");
        let mut foreign = BTreeMap::new();
        files(&folder, &mut foreign);
        Self {
            root: root.to_owned(),
            foreign,
        }
    }

    /// Waits until the share holds what is expected, somebody else's files as they were, and nothing besides: the trash is
    /// empty, every claim and every folder belongs to a record.
    #[track_caller]
    pub fn settles_with(&self, expected: &Expected) {
        let mut patience = Patience::default();
        loop {
            let wrong = self.difference(expected);
            if wrong.is_empty() {
                break;
            }
            assert!(patience.lasts(), "{}\n{}", wrong.join("\n"), self.listing());
            std::thread::sleep(patience.pause());
        }
    }

    fn difference(&self, expected: &Expected) -> Vec<String> {
        let mut wrong = Vec::new();
        let mut found: BTreeSet<String> = names(&self.root).iter().map(|it| plain(it)).collect();
        found.remove(RECORDS);
        found.remove(FOREIGN);
        if found != expected.folders {
            wrong.push(format!("{found:?} instead of {:?}", expected.folders));
        }
        let mut foreign = BTreeMap::new();
        files(&self.root.join(FOREIGN), &mut foreign);
        if foreign != self.foreign {
            wrong.push(format!("foreign files have changed: {foreign:?}"));
        }
        let trash = names(&self.records("trash"));
        if !trash.is_empty() {
            wrong.push(format!("in the trash: {trash:?}"));
        }
        let mut with_claim = 0;
        // A snapshot's data lie beside its record, a volume's do not; the way out of a path that a user has chosen does.
        for (shelf, count, data) in [
            ("volumes", expected.volumes, 0),
            ("snapshots", expected.snapshots, 1),
        ] {
            let keys = names(&self.records(shelf));
            if keys.len() != count {
                wrong.push(format!("{shelf}: {keys:?} instead of {count}"));
            }
            for key in keys {
                let mut inside = names(&self.records(shelf).join(&key));
                let beside = inside.len();
                inside.retain(|name| !name.starts_with("data"));
                let is_chosen = inside.iter().any(|name| {
                    let record = fs::read_to_string(self.records(shelf).join(&key).join(name));
                    record.is_ok_and(|record| record.contains("\"sub_dir\""))
                });
                with_claim += usize::from(is_chosen);
                let beside = beside - usize::from(is_chosen && inside.remove("leaving"));
                if beside - inside.len() != data {
                    wrong.push(format!(
                        "{shelf}/{key}: {} folders of data",
                        beside - inside.len()
                    ));
                }
                let nonces = inside.iter().map(|name| name.split('.').next());
                if nonces.collect::<BTreeSet<_>>().len() != 1 || inside.len() > 2 {
                    wrong.push(format!("{shelf}/{key}: {inside:?}"));
                }
            }
        }
        let mut claims = 0;
        count_claims(&self.records("folders"), &mut claims, &mut wrong);
        if claims != with_claim {
            wrong.push(format!("{claims} claims for {with_claim} volumes"));
        }
        wrong
    }

    /// The snapshots that have a record, finished or not.
    pub fn snapshots(&self) -> usize {
        names(&self.records("snapshots")).len()
    }

    /// Makes what is left in the drafts old enough to be swept by the next start.
    pub fn age_drafts(&self) {
        // In each time that a test may set the clock to.
        let old = SystemTime::UNIX_EPOCH + Duration::from_secs(86_400);
        for name in names(&self.records("drafts")) {
            let draft = fs::File::open(self.records("drafts").join(name));
            draft
                .and_then(|draft| draft.set_modified(old))
                .expect("a draft's time");
        }
    }

    /// Waits until no draft is left.
    #[track_caller]
    pub fn has_no_drafts(&self) {
        let what = "a share without drafts";
        until(what, || names(&self.records("drafts")).is_empty());
    }

    fn records(&self, part: &str) -> PathBuf {
        self.root.join(RECORDS).join(part)
    }

    fn listing(&self) -> String {
        fn list(folder: &Path, depth: usize, out: &mut String) {
            for name in names(folder) {
                out.push_str(&format!("{}{name}\n", "  ".repeat(depth)));
                let path = folder.join(name);
                if path.symlink_metadata().is_ok_and(|it| it.is_dir()) {
                    list(&path, depth + 1, out);
                }
            }
        }
        let mut out = String::new();
        list(&self.root, 0, &mut out);
        out
    }
}

/// The names in a folder; none in one that is not there.
pub fn names(folder: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect()
}

fn files(folder: &Path, out: &mut BTreeMap<PathBuf, Vec<u8>>) {
    for name in names(folder) {
        let path = folder.join(name);
        let kind = path.symlink_metadata().map(|found| found.file_type());
        match kind {
            Ok(kind) if kind.is_dir() => files(&path, out),
            Ok(kind) if kind.is_symlink() => {
                let to = fs::read_link(&path).unwrap_or_default();
                out.insert(path, to.to_string_lossy().into_owned().into_bytes());
            }
            _ => {
                let content = fs::read(&path).unwrap_or_default();
                out.insert(path, content);
            }
        }
    }
}

fn count_claims(folder: &Path, claims: &mut usize, wrong: &mut Vec<String>) {
    for name in names(folder) {
        if name.starts_with('@') {
            *claims += 1;
        } else {
            let below = folder.join(&name);
            if names(&below).is_empty() {
                wrong.push(format!("an empty folder among the claims: {name}"));
            }
            count_claims(&below, claims, wrong);
        }
    }
}
