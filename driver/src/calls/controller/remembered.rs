//! The mount options that shares were opened with, kept over restarts. Owns the file in the work folder. It is a hint, and no
//! more: without it a call must bring its options again. Options out of secrets are not for this file.

use crate::calls::export::Export;
use csi_proto::lock::lock;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// Shares that are remembered at most; each came from a request that succeeded.
const MOST: usize = 1000;

#[derive(Serialize, Deserialize)]
struct KeptOptions {
    server: String,
    share: String,
    options: Vec<String>,
}

/// The options of shares, and the file that they are kept in.
#[derive(Debug, Default)]
pub(super) struct Remembered {
    file: Option<PathBuf>,
    options: BTreeMap<Export, Vec<String>>,
    /// Whether the file does not say all of it.
    is_unwritten: bool,
}

impl Remembered {
    /// What `file` tells. One that cannot be read or understood tells nothing.
    pub(super) fn load(file: Option<PathBuf>) -> Self {
        let text = file.as_deref().and_then(|file| fs::read(file).ok());
        let entries: Vec<KeptOptions> = text
            .and_then(|text| serde_json::from_slice(&text).ok())
            .unwrap_or_default();
        let options = entries.into_iter().filter_map(|entry| {
            let export = Export::parse(&entry.server, &entry.share).ok()?;
            Some((export, entry.options))
        });
        Self {
            file,
            options: options.collect(),
            is_unwritten: false,
        }
    }

    pub(super) fn get(&self, export: &Export) -> Option<&Vec<String>> {
        self.options.get(export)
    }

    /// Remembers the options of a share. Returns whether the file is to be written.
    pub(super) fn set(&mut self, export: &Export, options: &[String]) -> bool {
        let is_known = self.get(export).map(Vec::as_slice) == Some(options);
        if !is_known && self.options.len() < MOST {
            self.options.insert(export.clone(), options.to_vec());
            self.is_unwritten = self.file.is_some();
        }
        self.is_unwritten
    }
}

/// Writes the file of `remembered`, which is not locked meanwhile: nobody else is to wait for the disk. Nothing is to write it
/// at the same time.
///
/// # Errors
/// When it cannot be written; the options are remembered by this process all the same.
pub(super) fn write_file(remembered: &Mutex<Remembered>) -> io::Result<()> {
    let (file, options) = {
        let mut remembered = lock(remembered);
        remembered.is_unwritten = false;
        (remembered.file.clone(), remembered.options.clone())
    };
    let written = file.map_or(Ok(()), |file| write(&file, &options));
    if written.is_err() {
        lock(remembered).is_unwritten = true;
    }
    written
}

fn write(file: &Path, options: &BTreeMap<Export, Vec<String>>) -> io::Result<()> {
    let entries: Vec<KeptOptions> = options
        .iter()
        .map(|(export, options)| KeptOptions {
            server: export.server().to_owned(),
            share: export.path().to_owned(),
            options: options.clone(),
        })
        .collect();
    let draft = file.with_extension("draft");
    let mut content: File = File::options()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&draft)?;
    content.write_all(&serde_json::to_vec_pretty(&entries)?)?;
    content.sync_all()?;
    fs::rename(&draft, file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_outlive_the_process() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("options.json");
        let export = Export::parse("fe80::1", "/a b").unwrap();
        let mut first = Remembered::load(Some(file.clone()));
        assert!(first.get(&export).is_none());
        assert!(first.set(&export, &["vers=3".to_owned()]));
        let first = Mutex::new(first);
        write_file(&first).unwrap();
        assert!(!lock(&first).set(&export, &["vers=3".to_owned()]));
        let again = Remembered::load(Some(file.clone()));
        assert_eq!(again.get(&export).unwrap(), &["vers=3"]);
        fs::write(&file, "[{").unwrap();
        assert!(Remembered::load(Some(file)).get(&export).is_none());
    }

    #[test]
    fn nobody_waits_for_the_file_but_who_writes_it() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("options.json");
        // To open a pipe waits for a reader, as to open a file does for a disk that stands still.
        let draft = file.with_extension("draft");
        let (kind, mode) = (rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR);
        rustix::fs::mknodat(rustix::fs::CWD, &draft, kind, mode, 0).unwrap();
        let export = Export::parse("nas", "/a").unwrap();
        let options = ["vers=3".to_owned()];
        let mut remembered = Remembered::load(Some(file));
        assert!(remembered.set(&export, &options));
        let remembered = Mutex::new(remembered);
        std::thread::scope(|scope| {
            let writing = scope.spawn(|| write_file(&remembered));
            while lock(&remembered).is_unwritten {
                std::thread::yield_now();
            }
            let was_held = remembered.try_lock().is_err();
            // A pipe cannot be synced: that is an error, and it is tried again.
            drop(File::open(&draft).unwrap());
            assert!(writing.join().unwrap().is_err());
            assert!(!was_held);
        });
        assert!(lock(&remembered).set(&export, &options));
    }
}
