//! Writes a recording: whole lines only. An error in writing never fails a call.

use super::line::time;
use super::{Unknown, VERSION, call_line};
use crate::recording::call::RecordedCall;
use csi_error::note;
use csi_output::figure::counted;
use csi_output::lines::Work;
use csi_proto::escaped;
use serde_json::json;
use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;
use thiserror::Error;

/// The bytes of a line that are written at once: a slow disk is seen to go on.
const PIECE: usize = 1 << 20;

/// A recording that cannot be begun.
#[derive(Debug, Error)]
pub enum RecordError {
    /// There is one already.
    #[error("{} exists already: name another file, or give --overwrite", .0.display())]
    Exists(PathBuf),
    /// The file cannot be made or written.
    #[error("cannot write the recording {}", .0.display())]
    Io(PathBuf, #[source] io::Error),
}

/// The content of the first line.
#[derive(Clone, Debug)]
pub struct Header {
    /// The driver, without what may be a credential.
    pub target: String,
    /// The time at which the recording began.
    pub started: SystemTime,
}

/// How a recorder gets on, for who waits for it.
#[derive(Debug, Default)]
pub struct RecorderProgress {
    /// What it does.
    pub work: Work,
    /// The number of calls that are missing since a line last could not be written.
    gap: AtomicU64,
    /// The number of calls that are missing in all.
    missing: AtomicU64,
}

impl RecorderProgress {
    /// The number of calls that are missing since a line last could not be written.
    pub fn gap(&self) -> u64 {
        self.gap.load(Ordering::Relaxed)
    }

    /// The number of calls that are missing in all.
    pub fn missing(&self) -> u64 {
        self.missing.load(Ordering::Relaxed)
    }
}

/// Says that so many of them are missing.
pub fn are_missing(count: u64, thing: &str) -> String {
    let are = if count == 1 { "is" } else { "are" };
    format!("{} {are} missing", counted(count, thing))
}

/// A recording that grows.
#[derive(Debug)]
pub struct Recorder {
    file: File,
    path: PathBuf,
    /// Whether there was no such file before.
    is_new: bool,
    /// The first line, which stands before whatever is written first.
    header: Vec<u8>,
    /// The end of the last whole line.
    end: u64,
    progress: Arc<RecorderProgress>,
    /// Whether the user was told that nothing can be written now.
    is_told: bool,
}

impl Recorder {
    /// Begins a recording, which only its owner may read.
    ///
    /// # Errors
    /// When there is one already and it may not be overwritten, or the file cannot be written.
    pub fn begin(path: &Path, overwrite: bool, header: &Header) -> Result<Self, RecordError> {
        let failed = |cause| RecordError::Io(path.to_owned(), cause);
        let mut options = OpenOptions::new();
        options.write(true).mode(0o600);
        match overwrite {
            true => options.create(true).truncate(true),
            false => options.create_new(true),
        };
        let file = options.open(path).map_err(|cause| match cause.kind() {
            io::ErrorKind::AlreadyExists => RecordError::Exists(path.to_owned()),
            _ => failed(cause),
        })?;
        // A file that was there has a mode of its own. Others than files, such as /dev/stdout, keep theirs.
        let is_file = file.metadata().is_ok_and(|found| found.is_file());
        if overwrite && is_file {
            file.set_permissions(Permissions::from_mode(0o600))
                .map_err(failed)?;
        }
        let header = json!({
            "recording": VERSION,
            "csi": env!("CARGO_PKG_VERSION"),
            "spec": csi_proto::SPEC_VERSION,
            "target": header.target,
            "started": time(header.started),
        });
        let mut recorder = Self {
            file,
            path: path.to_owned(),
            is_new: !overwrite,
            header: format!("{header}\n").into_bytes(),
            end: 0,
            progress: Arc::default(),
            is_told: false,
        };
        // A full disk is no reason not to begin; any other trouble is told before the first call.
        match recorder.append(Vec::new()) {
            Err(cause) if cause.kind() != io::ErrorKind::StorageFull => Err(failed(cause)),
            Err(cause) => {
                recorder.warn(&cause);
                Ok(recorder)
            }
            Ok(()) => Ok(recorder),
        }
    }

    /// Takes back a recording that was only begun, so that its name is free for the next try. What `--overwrite` has
    /// replaced stays empty.
    pub(crate) fn discard(self) {
        if self.is_new {
            let _ = std::fs::remove_file(&self.path);
        }
    }

    /// How it gets on from now on.
    pub fn progress(&self) -> Arc<RecorderProgress> {
        Arc::clone(&self.progress)
    }

    /// Counts calls that are not added.
    pub(crate) fn leave_out(&mut self, calls: u64) {
        self.progress.gap.fetch_add(calls, Ordering::Relaxed);
        self.progress.missing.fetch_add(calls, Ordering::Relaxed);
    }

    /// Adds a call. The user is told once that it could not be written.
    pub fn add(&mut self, call: &RecordedCall) {
        let work = &self.progress.work;
        let line = work.compose(|| call_line(call, Unknown::Size).map_err(io::Error::other));
        match line.and_then(|line| self.append(line)) {
            Ok(()) => {
                self.is_told = false;
                let missing = self.progress.gap.swap(0, Ordering::Relaxed);
                if missing > 0 {
                    let path = self.path.display().to_string();
                    let (path, missing) = (escaped(&path), are_missing(missing, "call"));
                    note!("warning: the recording {path} goes on; {missing} in it");
                }
            }
            Err(cause) => {
                if !self.is_told {
                    self.warn(&cause);
                }
                self.leave_out(1);
            }
        }
    }

    fn warn(&mut self, cause: &io::Error) {
        self.is_told = true;
        let path = self.path.display().to_string();
        let path = escaped(&path);
        note!("warning: the recording {path} cannot be written ({cause}); calls go on without it");
    }

    /// Writes a line, or nothing of it.
    fn append(&mut self, line: Vec<u8>) -> io::Result<()> {
        let line = match self.end {
            0 => [self.header.as_slice(), &line].concat(),
            _ => line,
        };
        let mut at = self.end;
        let written = line.chunks(PIECE).try_for_each(|piece| {
            match self.file.write_all_at(piece, at) {
                // A pipe or a device has no places.
                Err(error)
                    if error.raw_os_error() == Some(rustix::io::Errno::SPIPE.raw_os_error()) =>
                {
                    self.file.write_all(piece)?
                }
                written => written?,
            }
            at += piece.len() as u64;
            self.progress.work.step();
            Ok(())
        });
        match written {
            Ok(()) => {
                self.end += line.len() as u64;
                Ok(())
            }
            Err(error) => {
                // What was written of it would spoil the next line; where it cannot be cut off, that is written over it.
                let _ = self.file.set_len(self.end);
                Err(error)
            }
        }
    }
}
