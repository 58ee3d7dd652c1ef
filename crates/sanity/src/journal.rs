//! A file that outlives the run: it lists what was made and is not yet gone. The next run takes down what a killed run
//! has left.
//!
//! It stands in the run's own folder, `csi-sanity-…` below the mount parent, and is locked as long as the run lives.
//! Secrets are not in it. Owns the file and its format.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;
use csi_invocation::run_folder;
use csi_proto::lock::lock;
use csi_proto::methods;
use csi_proto::schema::Method;
use csi_undo::made::Item;
use csi_undo::requests::with_secrets;
use serde_json::{Value as Json, json};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// The prefix of all names that a run gives.
pub const PREFIX: &str = "csi-sanity-";

const FILE: &str = "journal";

/// The number for the items of earlier runs, which is that of no case.
const OF_EARLIER_RUNS: usize = usize::MAX;

/// The file of a run.
pub struct Journal {
    name: String,
    folder: PathBuf,
    file: Option<Mutex<File>>,
    /// The number of items of earlier runs that are noted.
    earlier: AtomicU64,
}

/// The items of a run that did not end by itself.
pub struct UnfinishedRun {
    /// The folder of the run.
    pub folder: PathBuf,
    /// The items that it made, in order.
    pub made: Vec<Item>,
    /// Holds the lock, so that no third run takes the same down.
    _lock: File,
}

impl Journal {
    /// Opens the journal of a new run that changes something, in a folder of its own below `parent`.
    ///
    /// # Errors
    /// When the folder or the file in it cannot be made.
    pub(super) fn open(parent: &Path, name: String, endpoints: &[String; 2]) -> io::Result<Self> {
        let folder = parent.join(&name);
        fs::create_dir(&folder)?;
        // On a full disk there is a place for the folder, but not for what is in it.
        let file = begun(&folder, endpoints).inspect_err(|_| remove(&folder))?;
        Ok(Self {
            name,
            folder,
            file: Some(Mutex::new(file)),
            earlier: AtomicU64::new(0),
        })
    }

    /// The journal of a run that changes nothing: no file.
    pub(super) fn none(name: String) -> Self {
        Self {
            name,
            folder: PathBuf::new(),
            file: None,
            earlier: AtomicU64::new(0),
        }
    }

    /// The prefix of all names of this run.
    pub(super) fn run_name(&self) -> &str {
        &self.name
    }

    /// The run's folder below the mount parent.
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Writes down what is known of an item of a case from now on; `None` when it is gone.
    pub(super) fn write(&self, case: usize, number: u64, item: Option<&Item>) -> io::Result<()> {
        let what = item.map_or(Json::Null, to_json);
        self.line(&json!({ "item": [case, number], "what": what }))
    }

    /// Writes down an item that an earlier run has left, and that this one leaves too.
    pub(super) fn take_over(&self, item: &Item) -> io::Result<()> {
        let number = self.earlier.fetch_add(1, Ordering::Relaxed);
        self.write(OF_EARLIER_RUNS, number, Some(item))
    }

    /// Removes file and folder, when this run leaves nothing, and there is nothing of earlier ones.
    pub(super) fn close(&self) {
        if self.file.is_some() && self.earlier.load(Ordering::Relaxed) == 0 {
            remove(&self.folder);
        }
    }

    fn line(&self, line: &Json) -> io::Result<()> {
        let Some(file) = &self.file else {
            return Ok(());
        };
        // One write a line: a run that is killed leaves whole lines.
        lock(file).write_all(format!("{line}\n").as_bytes())
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        // The close alone leaves the lock to a program that is just being started, which has a copy of each open file.
        if let Some(file) = &self.file {
            let _ = lock(file).unlock();
        }
    }
}

/// The file of a journal, with its first line.
fn begun(folder: &Path, endpoints: &[String; 2]) -> io::Result<File> {
    let mut file = fs::OpenOptions::new()
        .append(true)
        .create_new(true)
        .mode(0o600)
        .open(folder.join(FILE))?;
    file.try_lock()?;
    file.write_all(format!("{}\n", json!({ "endpoints": endpoints })).as_bytes())?;
    Ok(file)
}

/// The items that dead runs of this user against these endpoints have left below `parent`.
pub fn left_below(parent: &Path, endpoints: &[String; 2]) -> Vec<UnfinishedRun> {
    let folders = run_folder::mine_below(parent, &[PREFIX]).unwrap_or_default();
    folders
        .into_iter()
        .filter_map(|folder| read(folder, endpoints))
        .collect()
}

fn read(folder: PathBuf, endpoints: &[String; 2]) -> Option<UnfinishedRun> {
    let file = run_folder::open_mine(&folder.join(FILE)).ok()?;
    file.try_lock().ok()?;
    let text = io::read_to_string(&file).ok()?;
    let mut lines = text.lines().map(serde_json::from_str::<Json>);
    let head = lines.next()?.ok()?;
    if head["endpoints"] != json!(endpoints) {
        return None;
    }
    let mut made = BTreeMap::new();
    // A line that was cut off was of something that had not begun.
    for line in lines.map_while(Result::ok) {
        let of = |place: usize| line["item"][place].as_u64();
        if let (Some(case), Some(number)) = (of(0), of(1)) {
            match from_json(&line["what"]) {
                Some(item) => made.insert((case, number), item),
                None => made.remove(&(case, number)),
            };
        }
    }
    Some(UnfinishedRun {
        folder,
        made: made.into_values().collect(),
        _lock: file,
    })
}

impl UnfinishedRun {
    /// Removes the journal and its folder, once everything in it is gone.
    pub(super) fn forget(&self) {
        remove(&self.folder);
    }
}

/// Removes a journal, and its folder where nothing else is left in it.
fn remove(folder: &Path) {
    let _ = fs::remove_file(folder.join(FILE));
    let _ = fs::remove_dir(folder);
}

/// An item without secrets.
fn to_json(item: &Item) -> Json {
    let encoded = |method: &Method, request: &Bytes| {
        BASE64.encode(with_secrets(method, request, &BTreeMap::new()))
    };
    match item {
        Item::Folder(path) => json!({ "folder": path.to_string_lossy() }),
        Item::Asked {
            method, requests, ..
        } => {
            let requests = requests.iter().map(|request| encoded(method, request));
            json!({ "asked": method.name, "requests": requests.collect::<Vec<_>>() })
        }
        Item::Thing { making, undo } => {
            json!({ "undo": making.undone_by.name, "request": encoded(making.undone_by, undo) })
        }
    }
}

fn from_json(json: &Json) -> Option<Item> {
    let decoded = |request: &Json| Some(Bytes::from(BASE64.decode(request.as_str()?).ok()?));
    if let Some(path) = json["folder"].as_str() {
        return Some(Item::Folder(path.into()));
    }
    if let Some(name) = json["undo"].as_str() {
        let (_, making) = csi_rpc::maker_of(methods::by_name(name)?)?;
        let undo = decoded(&json["request"])?;
        return Some(Item::Thing { making, undo });
    }
    let method = methods::by_name(json["asked"].as_str()?)?;
    let requests = json["requests"].as_array()?.iter();
    Some(Item::Asked {
        method,
        making: csi_rpc::making(method)?,
        requests: requests.filter_map(decoded).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use csi_proto::{tables, v1};
    use csi_undo::made::Made;
    use prost::Message as _;

    #[test]
    fn a_journal_that_cannot_be_begun_leaves_no_folder() {
        let top = tempfile::tempdir().unwrap();
        let mut parent = top.path().to_owned();
        // The longest path has 4,095 bytes: there is room for the folder, and none for a file in it.
        let length = |path: &Path| path.as_os_str().len();
        while length(&parent) < 3850 {
            parent.push("x".repeat(200));
        }
        fs::create_dir_all(&parent).unwrap();
        let name = "x".repeat(4092 - length(&parent));
        let endpoints = &["a", "b"].map(str::to_owned);
        assert!(Journal::open(&parent, name, endpoints).is_err());
        assert_eq!(fs::read_dir(&parent).unwrap().count(), 0);
    }

    #[test]
    fn what_is_not_gone_is_read_back_once_the_run_is_dead() {
        let parent = tempfile::tempdir().unwrap();
        let endpoints = &["a", "b"].map(str::to_owned);
        let name = format!("{PREFIX}x");
        let journal = Journal::open(parent.path(), name, endpoints).unwrap();
        let mut made = Made::default();
        let mut add = |name: &str| {
            let request = v1::CreateVolumeRequest {
                name: name.into(),
                secrets: [("password".to_owned(), "hunter2".to_owned())].into(),
                ..Default::default()
            };
            let request = Bytes::from(request.encode_to_vec());
            let number = made
                .asked(&tables::CONTROLLER_CREATE_VOLUME, &request)
                .unwrap();
            journal.write(7, number, made.get(number)).unwrap();
            number
        };
        let first = add("v1");
        add("v2");
        journal.write(7, first, None).unwrap();
        journal
            .write(8, 0, Some(&Item::Folder("/f".into())))
            .unwrap();
        assert!(left_below(parent.path(), endpoints).is_empty(), "it lives");
        drop(journal);
        assert!(
            left_below(parent.path(), &["a", "c"].map(str::to_owned)).is_empty(),
            "another driver"
        );
        let left = left_below(parent.path(), endpoints);
        assert_eq!(left.len(), 1);
        let words: Vec<String> = left[0].made.iter().map(ToString::to_string).collect();
        assert_eq!(words, ["perhaps a volume named v2", "the folder /f"]);
        let Item::Asked { requests, .. } = &left[0].made[0] else {
            panic!("a volume that was asked for");
        };
        let request = v1::CreateVolumeRequest::decode(&*requests[0]).unwrap();
        assert!(request.secrets.is_empty(), "{request:?}");
        left[0].forget();
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 0);
    }
}
