//! Looks at the node's paths: mounts and files. Never in a case's own thread, for a path may belong to a server that is
//! dead.

use super::verdict::Stop;
use csi_invocation::mount_points;
use rustix::io::Errno;
use rustix::process::geteuid;
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// The time limit of a look at a path.
const PATIENCE: Duration = Duration::from_secs(20);

/// The kind of file at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// Nothing.
    Nothing,
    /// A folder, or a link to one.
    Folder,
    /// A file or device, or a link to one.
    File,
    /// A link to nothing.
    DeadLink,
}

impl fmt::Display for FileKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Nothing => "nothing",
            Self::Folder => "a folder",
            Self::File => "a file or device",
            Self::DeadLink => "a link to nothing",
        })
    }
}

/// The kind of file at a path.
pub fn look(path: impl Into<PathBuf>) -> Result<FileKind, Stop> {
    let path = path.into();
    on_disk(move || match fs::symlink_metadata(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(FileKind::Nothing),
        Err(error) => Err(error),
        Ok(_) => Ok(match fs::metadata(&path) {
            Ok(meta) if meta.is_dir() => FileKind::Folder,
            Ok(_) => FileKind::File,
            Err(_) => FileKind::DeadLink,
        }),
    })
}

/// Does something with files in a thread of its own, within a bound.
///
/// # Errors
/// When it fails, or does not end in time.
pub fn on_disk<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Result<T, Stop> {
    let failed = |actual: String| Stop::failed("the path on the node can be used", actual);
    let (done, result) = mpsc::channel();
    let thread = thread::Builder::new().spawn(move || done.send(work()));
    thread.map_err(|error| failed(error.to_string()))?;
    match result.recv_timeout(PATIENCE) {
        Ok(result) => result.map_err(|error| match barred(&error) {
            Some(why) => Stop::Barred(why.to_owned()),
            None => failed(error.to_string()),
        }),
        Err(_) => Err(failed(format!("no answer within {PATIENCE:?}"))),
    }
}

/// Why an error says nothing of the driver, where it does not.
pub fn barred(error: &io::Error) -> Option<&'static str> {
    match error.raw_os_error().map(Errno::from_raw_os_error) {
        // What a driver publishes belongs to root, and becomes somebody else's by the orchestrator alone.
        Some(Errno::ACCESS | Errno::PERM) if !geteuid().is_root() => {
            Some("this user may not use what the driver publishes: run it as root")
        }
        Some(Errno::MFILE | Errno::NFILE) => {
            Some("no more files can be opened on this side: see ulimit -n")
        }
        _ => None,
    }
}

/// The mount points at and below a path.
pub fn mounts_below(path: &Path) -> Vec<PathBuf> {
    let mut points = mount_points::all().unwrap_or_default();
    points.retain(|point| point.starts_with(path));
    points
}
