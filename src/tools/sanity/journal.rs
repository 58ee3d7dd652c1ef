//! A file that outlives the run: what was made and is not gone yet, so that the next run can take down what one left that
//! was killed.
//!
//! It stands in the run's own folder, `csi-sanity-…` below the mount parent, and is locked as long as the run lives.
//! Secrets are not in it. Owns the file and its format; what an entry means is `ledger.rs`'s.

use super::ledger::Made;
use serde_json::{Value as Json, json};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// What all names begin with that a run gives.
pub const PREFIX: &str = "csi-sanity-";

const FILE: &str = "journal";

/// The file of a run.
pub struct Journal {
    name: String,
    folder: PathBuf,
    file: Option<Mutex<File>>,
    next: AtomicU64,
}

/// What a run left that did not end by itself.
pub struct Left {
    /// Its folder.
    pub folder: PathBuf,
    /// What it made, in order.
    pub made: Vec<Made>,
    /// Holds the lock, so that no third run takes the same down.
    _lock: File,
}

impl Journal {
    /// That of a new run which changes something: with a folder of its own below `parent`.
    ///
    /// # Errors
    /// When the folder or the file in it cannot be made.
    pub(super) fn open(parent: &Path, name: String, endpoints: [&str; 2]) -> io::Result<Self> {
        let folder = parent.join(&name);
        fs::create_dir(&folder)?;
        let mut file = fs::OpenOptions::new()
            .append(true)
            .create_new(true)
            .mode(0o600)
            .open(folder.join(FILE))?;
        file.try_lock()?;
        writeln!(file, "{}", json!({ "endpoints": endpoints }))?;
        Ok(Self {
            name,
            folder,
            file: Some(Mutex::new(file)),
            next: AtomicU64::new(0),
        })
    }

    /// That of a run which changes nothing: no file.
    pub(super) fn none(name: String) -> Self {
        Self {
            name,
            folder: PathBuf::new(),
            file: None,
            next: AtomicU64::new(0),
        }
    }

    /// What all names of this run begin with.
    pub(super) fn run_name(&self) -> &str {
        &self.name
    }

    /// The run's folder below the mount parent.
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Writes down what is about to be made; returns its number.
    ///
    /// # Errors
    /// When the file cannot be written: then it must not be made.
    pub(super) fn add(&self, made: &Made) -> io::Result<u64> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        self.line(&json!({ "made": number, "what": made.to_json() }))?;
        Ok(number)
    }

    /// Writes down that it is gone. What is not gone according to the file is taken down twice at worst.
    pub(super) fn remove(&self, number: u64) {
        let _ = self.line(&json!({ "gone": number }));
    }

    /// Removes file and folder, when nothing is left.
    pub(super) fn close(&self) {
        if self.file.is_some() {
            let _ = fs::remove_file(self.folder.join(FILE));
            let _ = fs::remove_dir(&self.folder);
        }
    }

    fn line(&self, line: &Json) -> io::Result<()> {
        let Some(file) = &self.file else {
            return Ok(());
        };
        // One write a line: a run that is killed leaves whole lines.
        super::run::locked(file).write_all(format!("{line}\n").as_bytes())
    }
}

/// What dead runs of this user against these endpoints have left below `parent`.
pub fn left_below(parent: &Path, endpoints: [&str; 2]) -> Vec<Left> {
    let me = rustix::process::geteuid().as_raw();
    let entries = fs::read_dir(parent).into_iter().flatten().flatten();
    entries
        .filter(|entry| entry.file_name().to_string_lossy().starts_with(PREFIX))
        // Another user could make us delete anything by a journal of theirs.
        .filter(|entry| {
            fs::symlink_metadata(entry.path()).is_ok_and(|meta| meta.is_dir() && meta.uid() == me)
        })
        .filter_map(|entry| read(entry.path(), endpoints))
        .collect()
}

fn read(folder: PathBuf, endpoints: [&str; 2]) -> Option<Left> {
    let file = fs::OpenOptions::new()
        .read(true)
        .append(true)
        .custom_flags(rustix::fs::OFlags::NOFOLLOW.bits() as i32)
        .open(folder.join(FILE))
        .ok()?;
    let mine = file.metadata().ok()?.uid() == rustix::process::geteuid().as_raw();
    if !mine || file.try_lock().is_err() {
        return None;
    }
    let text = io::read_to_string(&file).ok()?;
    let mut lines = text.lines().map(serde_json::from_str::<Json>);
    let head = lines.next()?.ok()?;
    if head["endpoints"] != json!(endpoints) {
        return None;
    }
    let mut made = BTreeMap::new();
    // A line that was cut off was of something that had not begun.
    for line in lines.map_while(Result::ok) {
        if let Some(number) = line["gone"].as_u64() {
            made.remove(&number);
        } else if let (Some(number), Some(what)) =
            (line["made"].as_u64(), Made::from_json(&line["what"]))
        {
            made.insert(number, what);
        }
    }
    Some(Left {
        folder,
        made: made.into_values().collect(),
        _lock: file,
    })
}

impl Left {
    /// Removes the journal and its folder, once everything in it is gone.
    pub(super) fn forget(&self) {
        let _ = fs::remove_file(self.folder.join(FILE));
        let _ = fs::remove_dir(&self.folder);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_gone_is_read_back_once_the_run_is_dead() {
        let parent = tempfile::tempdir().unwrap();
        let endpoints = ["a", "b"];
        let name = format!("{PREFIX}x");
        let journal = Journal::open(parent.path(), name, endpoints).unwrap();
        let first = journal.add(&Made::Volume("v1".into())).unwrap();
        journal.add(&Made::Volume("v2".into())).unwrap();
        journal.remove(first);
        assert!(left_below(parent.path(), endpoints).is_empty(), "it lives");
        drop(journal);
        assert!(
            left_below(parent.path(), ["a", "c"]).is_empty(),
            "another driver"
        );
        let left = left_below(parent.path(), endpoints);
        assert_eq!(left.len(), 1);
        assert_eq!(left[0].made, [Made::Volume("v2".into())]);
        left[0].forget();
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 0);
    }
}
