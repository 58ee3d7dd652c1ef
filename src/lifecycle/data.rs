//! Data through a published volume: a file is written, synced, read back and compared by checksum.
//!
//! Knows files and mounts, not CSI.

use std::fs::{self, File, OpenOptions};
use std::hash::{DefaultHasher, Hasher};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

/// What is written: enough to need more than one page, little enough for any volume.
const SIZE: usize = 1 << 20;

/// How a target path shows on this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// A mounted file system.
    Mount,
    /// A block device, or a file bound to one.
    Device,
    /// A symbolic link, which is what the embedded driver makes where it may not mount.
    Link,
    /// Nothing that a driver would have made: it runs on another machine, or in another mount namespace.
    NotHere,
}

/// What stands at `path`.
///
/// # Errors
/// When it cannot be told.
pub fn target(path: &Path) -> io::Result<Target> {
    let metadata = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Target::NotHere),
        other => other?,
    };
    let kind = metadata.file_type();
    if kind.is_symlink() {
        return Ok(Target::Link);
    }
    if kind.is_block_device() || kind.is_file() {
        return Ok(Target::Device);
    }
    Ok(if is_mount_point(path)? {
        Target::Mount
    } else {
        Target::NotHere
    })
}

/// Reads mountinfo: a bind mount within one file system has the same device as its parent folder.
fn is_mount_point(path: &Path) -> io::Result<bool> {
    let path = fs::canonicalize(path)?;
    let Some(path) = path.to_str() else {
        return Ok(fs::metadata(&path)?.dev() != fs::metadata(path.join(".."))?.dev());
    };
    let table = fs::read_to_string("/proc/self/mountinfo")?;
    let escaped = path
        .replace('\\', "\\134")
        .replace(' ', "\\040")
        .replace('\t', "\\011")
        .replace('\n', "\\012");
    Ok(table
        .lines()
        .any(|line| line.split(' ').nth(4) == Some(&escaped)))
}

/// Writes data, reads it back and returns its checksum. On a folder the file is removed again.
///
/// # Errors
/// When any step fails, or what is read is not what was written.
pub fn round_trip(path: &Path, target: Target) -> io::Result<u64> {
    let content = content();
    let expected = checksum(&content);
    if target == Target::Device {
        let mut device = OpenOptions::new().read(true).write(true).open(path)?;
        device.write_all(&content)?;
        device.sync_all()?;
        device.seek(SeekFrom::Start(0))?;
        return compare(&mut device, expected);
    }
    let file = path.join(format!(".csi-lifecycle-{}", std::process::id()));
    let written = write_and_compare(&file, &content, expected);
    let removed = fs::remove_file(&file);
    let checksum = written?;
    removed?;
    Ok(checksum)
}

fn write_and_compare(path: &Path, content: &[u8], expected: u64) -> io::Result<u64> {
    let mut file = OpenOptions::new().write(true).create_new(true).open(path)?;
    file.write_all(content)?;
    file.sync_all()?;
    drop(file);
    compare(&mut File::open(path)?, expected)
}

fn compare(file: &mut File, expected: u64) -> io::Result<u64> {
    let mut read = vec![0; SIZE];
    file.read_exact(&mut read)?;
    let found = checksum(&read);
    if found == expected {
        Ok(found)
    } else {
        let problem =
            format!("what was read back ({found:016x}) is not what was written ({expected:016x})");
        Err(io::Error::new(io::ErrorKind::InvalidData, problem))
    }
}

/// Bytes that differ from page to page, so that a page in the wrong place is noticed.
fn content() -> Vec<u8> {
    let mut state = u64::from(std::process::id()) | 1;
    let mut out = Vec::with_capacity(SIZE);
    while out.len() < SIZE {
        // xorshift64
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        out.extend_from_slice(&state.to_le_bytes());
    }
    out
}

fn checksum(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(bytes);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_makes_the_round_trip_and_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        round_trip(folder.path(), Target::Mount).unwrap();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_plain_folder_is_not_taken_for_a_volume() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(target(folder.path()).unwrap(), Target::NotHere);
        assert_eq!(
            target(&folder.path().join("missing")).unwrap(),
            Target::NotHere
        );
        assert_eq!(target(Path::new("/proc")).unwrap(), Target::Mount);
    }
}
