//! Data through a published volume: written, synced, read back and compared by checksum. A block device of others is
//! only read.
//!
//! Knows files and mounts, not CSI. Any call here may block for as long as the storage does.

use csi_invocation::mount_points;
use csi_proto::random;
use rustix::fs::{Advice, fadvise};
use std::fs::{self, File, OpenOptions};
use std::hash::{DefaultHasher, Hasher};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

/// The number of bytes that are written: more than one page, little enough for any volume.
const SIZE: usize = 1 << 20;

/// The number of bytes between two looks at whether to stop.
const CHUNK: usize = 1 << 16;

/// The kind of a target path on this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TargetKind {
    /// A mounted file system.
    Mount,
    /// A block device, a file bound to one, or a symbolic link to one.
    Device,
    /// A symbolic link to a folder, which is what the embedded driver makes where it may not mount.
    Link,
    /// Nothing that a driver would have made: it runs on another machine, or in another mount namespace.
    NotHere,
}

/// The work on the data of a volume.
#[derive(Clone, Debug)]
pub struct Exercise {
    /// The name of the file that is made in a folder, and removed again.
    pub file_name: String,
    /// Whether a device may be written to.
    pub may_overwrite: bool,
    /// What is done.
    pub work: Work,
}

/// What is done to data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// It is written and read back; the file is removed.
    Write,
    /// It is written and read back; the file stays.
    WriteAndLeave,
    /// What is there must have this checksum.
    Find(u64),
    /// The file that was left is removed.
    Remove,
}

/// The result of the work on the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exercised {
    /// The kind of the target.
    pub target: TargetKind,
    /// Whether data was written, not only read.
    pub written: bool,
    /// Whether it was not, because the data is not ours.
    pub is_foreign: bool,
    /// The number of bytes that were read.
    pub bytes: usize,
    /// The checksum of what was read.
    pub checksum: u64,
}

impl Exercise {
    /// Does it at `path`; `None` where the volume does not show there. A file that does not stay is removed also after a
    /// failure.
    ///
    /// # Errors
    /// When any step fails, what is read is not what it should be, or `stop` was set.
    pub fn run(&self, path: &Path, stop: &AtomicBool) -> io::Result<Option<Exercised>> {
        let target = target(path)?;
        let file = path.join(&self.file_name);
        let may_write = match (target, self.work) {
            (TargetKind::NotHere, _) => return Ok(None),
            (_, Work::Find(_)) => false,
            (TargetKind::Device, Work::Remove) => return Ok(None),
            (TargetKind::Device, _) => self.may_overwrite,
            (_, Work::Remove) => {
                return match fs::remove_file(&file) {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
                    _ => Ok(None),
                };
            }
            _ => true,
        };
        let read = match target {
            TargetKind::Device if may_write => {
                let file = OpenOptions::new().read(true).write(true).open(path)?;
                round_trip(file, stop)?
            }
            TargetKind::Device => read(&mut File::open(path)?, stop)?,
            _ if may_write => self.in_file(&file, stop)?,
            _ => read(&mut File::open(&file)?, stop)?,
        };
        let checksum = checksum(&read);
        match self.work {
            Work::Find(wanted) if checksum != wanted => {
                let problem = format!(
                    "what is there ({checksum:016x}) is not what was written ({wanted:016x})"
                );
                Err(io::Error::new(io::ErrorKind::InvalidData, problem))
            }
            work => Ok(Some(Exercised {
                target,
                written: may_write,
                is_foreign: !may_write && !matches!(work, Work::Find(_)),
                bytes: read.len(),
                checksum,
            })),
        }
    }

    /// Writes a new file and reads it back.
    fn in_file(&self, file: &Path, stop: &AtomicBool) -> io::Result<Vec<u8>> {
        let mut options = OpenOptions::new();
        let opened = options.read(true).write(true).create_new(true).open(file)?;
        let read = round_trip(opened, stop);
        if self.work == Work::WriteAndLeave && read.is_ok() {
            return read;
        }
        let removed = fs::remove_file(file);
        read.and_then(|read| removed.map(|()| read))
    }
}

/// The kind of target at `path`.
fn target(path: &Path) -> io::Result<TargetKind> {
    let found = |metadata: io::Result<fs::Metadata>| match metadata {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        other => other.map(Some),
    };
    let Some(metadata) = found(fs::symlink_metadata(path))? else {
        return Ok(TargetKind::NotHere);
    };
    let kind = metadata.file_type();
    if kind.is_symlink() {
        let kind = found(fs::metadata(path))?.map(|metadata| metadata.file_type());
        return Ok(match kind {
            Some(kind) if kind.is_dir() => TargetKind::Link,
            Some(kind) if kind.is_block_device() => TargetKind::Device,
            _ => TargetKind::NotHere,
        });
    }
    if kind.is_block_device() || kind.is_file() {
        return Ok(TargetKind::Device);
    }
    Ok(if is_mount_point(path)? {
        TargetKind::Mount
    } else {
        TargetKind::NotHere
    })
}

/// Whether something is mounted there. A bind mount within one file system has the same device as its parent folder.
fn is_mount_point(path: &Path) -> io::Result<bool> {
    let path = fs::canonicalize(path)?;
    Ok(mount_points::all()?.contains(&path))
}

/// Writes data at the start of `file`, reads it back and returns what was read.
fn round_trip(mut file: File, stop: &AtomicBool) -> io::Result<Vec<u8>> {
    let content = content();
    for chunk in content.chunks(CHUNK) {
        go_on(stop)?;
        file.write_all(chunk)?;
    }
    file.sync_all()?;
    go_on(stop)?;
    // Else it would be read from this machine's memory, and say nothing of the storage. Advice cannot fail in a way that
    // matters: where it is not taken, the data is compared all the same.
    let _ = fadvise(&file, 0, None, Advice::DontNeed);
    file.seek(SeekFrom::Start(0))?;
    let found = read(&mut file, stop)?;
    if found == content {
        return Ok(found);
    }
    let problem = format!(
        "what was read back ({:016x}, {} bytes) is not what was written ({:016x}, {SIZE} bytes)",
        checksum(&found),
        found.len(),
        checksum(&content),
    );
    Err(io::Error::new(io::ErrorKind::InvalidData, problem))
}

/// The first [`SIZE`] bytes, or all where there are fewer.
fn read(file: &mut File, stop: &AtomicBool) -> io::Result<Vec<u8>> {
    let mut found = Vec::with_capacity(SIZE);
    while found.len() < SIZE {
        go_on(stop)?;
        let rest = CHUNK.min(SIZE - found.len()) as u64;
        if Read::by_ref(file).take(rest).read_to_end(&mut found)? == 0 {
            break;
        }
    }
    Ok(found)
}

fn go_on(stop: &AtomicBool) -> io::Result<()> {
    match stop.load(Ordering::Relaxed) {
        // Not of the kind `Interrupted`, which readers and writers take for a reason to try again.
        true => Err(io::Error::other("asked to stop")),
        false => Ok(()),
    }
}

/// Bytes that differ from page to page, so that a page in the wrong place is noticed.
fn content() -> Vec<u8> {
    let seed = u64::from(std::process::id());
    let words = (0..SIZE as u64 / 8).map(|index| random::from_seed(seed, index));
    words.flat_map(u64::to_le_bytes).collect()
}

fn checksum(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(bytes);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn exercise(may_overwrite: bool) -> Exercise {
        Exercise {
            file_name: ".data".to_owned(),
            may_overwrite,
            work: Work::Write,
        }
    }

    #[test]
    fn data_that_stays_is_found_in_copies_and_removed() {
        let folder = tempfile::tempdir().unwrap();
        let link = folder.path().join("link");
        symlink("volume", &link).unwrap();
        fs::create_dir(folder.path().join("volume")).unwrap();
        let stop = AtomicBool::new(false);
        let run = |work| {
            let exercise = Exercise {
                work,
                ..exercise(false)
            };
            exercise.run(&link, &stop)
        };
        let written = run(Work::WriteAndLeave).unwrap().unwrap();
        let found = run(Work::Find(written.checksum)).unwrap().unwrap();
        assert!(!found.written && !found.is_foreign);
        let error = run(Work::Find(written.checksum + 1)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
        for _ in 0..2 {
            assert_eq!(run(Work::Remove).unwrap(), None);
            assert_eq!(fs::read_dir(&link).unwrap().count(), 0);
        }
        assert!(run(Work::Find(written.checksum)).is_err());
    }

    #[test]
    fn data_makes_the_round_trip_and_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let link = folder.path().join("link");
        symlink("volume", &link).unwrap();
        fs::create_dir(folder.path().join("volume")).unwrap();
        let done = exercise(false).run(&link, &AtomicBool::new(false)).unwrap();
        let done = done.unwrap();
        assert_eq!(
            (done.target, done.written, done.bytes),
            (TargetKind::Link, true, SIZE)
        );
        assert_eq!(fs::read_dir(&link).unwrap().count(), 0);
    }

    #[test]
    fn whoever_is_asked_to_stop_leaves_nothing_either() {
        let folder = tempfile::tempdir().unwrap();
        let link = folder.path().join("link");
        symlink("volume", &link).unwrap();
        fs::create_dir(folder.path().join("volume")).unwrap();
        let error = exercise(false)
            .run(&link, &AtomicBool::new(true))
            .unwrap_err();
        assert_eq!(error.to_string(), "asked to stop");
        assert_eq!(fs::read_dir(&link).unwrap().count(), 0);
    }

    #[test]
    fn a_device_is_overwritten_only_where_that_is_allowed() {
        let folder = tempfile::tempdir().unwrap();
        let device = folder.path().join("device");
        fs::write(&device, "precious").unwrap();
        let stop = AtomicBool::new(false);
        let done = exercise(false).run(&device, &stop).unwrap().unwrap();
        assert_eq!((done.written, done.bytes), (false, 8));
        assert_eq!(fs::read(&device).unwrap(), b"precious");
        let done = exercise(true).run(&device, &stop).unwrap().unwrap();
        assert_eq!((done.written, done.bytes), (true, SIZE));
        assert_eq!(fs::read(&device).unwrap(), content());
    }

    #[test]
    fn a_plain_folder_is_not_taken_for_a_volume() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(target(folder.path()).unwrap(), TargetKind::NotHere);
        let missing = folder.path().join("missing");
        assert_eq!(target(&missing).unwrap(), TargetKind::NotHere);
        let dangling = folder.path().join("dangling");
        symlink("nowhere", &dangling).unwrap();
        assert_eq!(target(&dangling).unwrap(), TargetKind::NotHere);
        assert_eq!(target(Path::new("/proc")).unwrap(), TargetKind::Mount);
    }
}
