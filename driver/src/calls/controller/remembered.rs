//! The mount options that shares were opened with, kept over restarts. Owns the file in the work folder. It is a hint, and no
//! more: without it a call must bring its options again. Options out of secrets are not for this file.

use crate::process::work_folder::{new_file, open};
use csi_nfs_store::export::Export;
use csi_proto::lock::lock;
use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// Shares that are remembered at most; each came from a request that succeeded.
const MOST: usize = 1000;

#[derive(Serialize, Deserialize)]
struct KeptOptions {
    #[serde(flatten)]
    export: Export,
    options: Vec<String>,
}

/// The options of shares, and the file that they are kept in.
#[derive(Debug, Default)]
pub(super) struct Remembered {
    file: Option<PathBuf>,
    options: BTreeMap<Export, Vec<String>>,
}

impl Remembered {
    /// What `file` tells. One that cannot be read or understood tells nothing.
    pub(super) fn load(file: Option<PathBuf>) -> Self {
        let opened = file.as_deref().map(|file| open(file, OFlags::RDONLY));
        let mut text = Vec::new();
        let read = opened.and_then(|opened| opened.ok()?.read_to_end(&mut text).ok());
        let entries: Vec<KeptOptions> = read
            .and_then(|_| serde_json::from_slice(&text).ok())
            .unwrap_or_default();
        let options = entries.into_iter().map(|it| (it.export, it.options));
        Self {
            file,
            options: options.collect(),
        }
    }

    pub(super) fn get(&self, export: &Export) -> Option<&Vec<String>> {
        self.options.get(export)
    }

    /// Whether these options of a share are to be remembered, and are not yet.
    pub(super) fn is_new(&self, export: &Export, options: &[String]) -> bool {
        self.get(export).map(Vec::as_slice) != Some(options) && self.options.len() < MOST
    }
}

/// Remembers the options of a share once they are in the file. `remembered` is not locked while that is written: nobody else is to
/// wait for the disk. Nothing is to do this at the same time.
pub(super) fn remember(
    remembered: &Mutex<Remembered>,
    export: Export,
    options: Vec<String>,
) -> io::Result<()> {
    remember_by(write, remembered, export, options)
}

fn remember_by(
    write: impl FnOnce(&Path, &BTreeMap<Export, Vec<String>>) -> io::Result<()>,
    remembered: &Mutex<Remembered>,
    export: Export,
    options: Vec<String>,
) -> io::Result<()> {
    let (file, mut all) = {
        let remembered = lock(remembered);
        (remembered.file.clone(), remembered.options.clone())
    };
    all.insert(export, options);
    if let Some(file) = file {
        write(&file, &all)?;
    }
    lock(remembered).options = all;
    Ok(())
}

fn write(file: &Path, options: &BTreeMap<Export, Vec<String>>) -> io::Result<()> {
    let entries: Vec<KeptOptions> = options
        .iter()
        .map(|(export, options)| KeptOptions {
            export: export.clone(),
            options: options.clone(),
        })
        .collect();
    let draft = file.with_extension("draft");
    let mut content = new_file(&draft)?;
    content.write_all(&serde_json::to_vec_pretty(&entries)?)?;
    content.sync_all()?;
    fs::rename(&draft, file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::corpus;

    #[test]
    fn options_outlive_the_process() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("options.json");
        let export = Export::parse("fe80::1", "/a b").unwrap();
        let first = Remembered::load(Some(file.clone()));
        let options = ["vers=3".to_owned()];
        assert!(first.is_new(&export, &options));
        let first = Mutex::new(first);
        remember(&first, export.clone(), options.to_vec()).unwrap();
        assert!(!lock(&first).is_new(&export, &options));
        let again = Remembered::load(Some(file.clone()));
        assert_eq!(again.get(&export).unwrap(), &["vers=3"]);
        fs::write(&file, "[{").unwrap();
        assert!(Remembered::load(Some(file)).get(&export).is_none());
    }

    #[test]
    fn formats_of_options_are_as_in_the_newest_version_and_all_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let exports = [("nas", "/srv"), ("fe80::1", "/a b")]
            .map(|(server, path)| Export::parse(server, path).unwrap());
        let options = ["vers=3".to_owned(), "hard".to_owned()].to_vec();
        let all = exports.clone().map(|export| (export, options.clone()));
        write(&folder.path().join("options.json"), &all.into()).unwrap();
        corpus::holds("share-options", corpus::read(folder.path()));
        for (version, folder) in corpus::versions("share-options") {
            let found = Remembered::load(Some(folder.join("options.json")));
            for export in &exports {
                assert_eq!(found.get(export), Some(&options), "{version}");
            }
        }
    }

    #[test]
    fn nobody_waits_for_the_file_but_who_writes_it() {
        let export = Export::parse("nas", "/a").unwrap();
        let options = ["vers=3".to_owned()];
        let remembered = Mutex::new(Remembered::load(Some("/options.json".into())));
        // While it is written, and where that fails it is tried again.
        let writing = |_: &Path, _: &BTreeMap<_, _>| {
            assert!(remembered.try_lock().is_ok());
            Err(io::ErrorKind::Other.into())
        };
        let written = remember_by(writing, &remembered, export.clone(), options.to_vec());
        assert!(written.is_err());
        assert!(lock(&remembered).is_new(&export, &options));
    }

    /// It would never end, where somebody waited for the other end.
    #[test]
    fn nobody_waits_for_the_other_end_of_a_fifo() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("options.json");
        for path in [&file, &file.with_extension("draft")] {
            rustix::fs::mkfifoat(rustix::fs::CWD, path, 0o600.into()).unwrap();
        }
        let export = Export::parse("nas", "/a").unwrap();
        let options = ["vers=3".to_owned()];
        let remembered = Mutex::new(Remembered::load(Some(file.clone())));
        remember(&remembered, export.clone(), options.to_vec()).unwrap();
        assert!(!Remembered::load(Some(file)).is_new(&export, &options));
    }
}
