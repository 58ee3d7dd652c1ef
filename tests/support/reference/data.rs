//! The data of volumes and snapshots: a folder for mounted use, a file for block use. Knows no request.

use std::fs;
use std::io;
use std::path::Path;

/// The folder of a volume that is used as a file system.
const FILES: &str = "files";
/// The content of a volume that is used as a device.
const DEVICE: &str = "device";
/// The size of that file at first. Not that of the volume, which would have to be copied again and again.
const DEVICE_SIZE: u64 = 1 << 16;

/// Makes the data of an empty volume.
pub(super) fn create(place: &Path) -> io::Result<()> {
    fs::create_dir(place)?;
    fs::create_dir(place.join(FILES))?;
    fs::File::create(place.join(DEVICE))?.set_len(DEVICE_SIZE)
}

/// Adds the files at `from` to those at `to`, and replaces the device.
pub(super) fn copy(from: &Path, to: &Path) -> io::Result<()> {
    copy_files(&from.join(FILES), &to.join(FILES))?;
    fs::copy(from.join(DEVICE), to.join(DEVICE)).map(drop)
}

fn copy_files(from: &Path, to: &Path) -> io::Result<()> {
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let to = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            fs::create_dir(&to)?;
            copy_files(&entry.path(), &to)?;
        } else {
            fs::copy(entry.path(), to)?;
        }
    }
    Ok(())
}

/// Removes what is at `place`, if anything is.
pub(super) fn remove(place: &Path) {
    // What is left is in a temporary folder.
    let _ = fs::remove_dir_all(place);
}

/// Removes the files and keeps the folder.
pub(super) fn clear(place: &Path) {
    let files = place.join(FILES);
    let _ = fs::remove_dir_all(&files);
    let _ = fs::create_dir(&files);
}

/// Makes the volume appear at `target`, in place of an empty folder that may stand there.
pub(super) fn publish(place: &Path, target: &Path, as_device: bool) -> io::Result<()> {
    let _ = fs::remove_dir(target);
    if as_device {
        fs::hard_link(place.join(DEVICE), target)
    } else {
        std::os::unix::fs::symlink(place.join(FILES), target)
    }
}

/// Takes away what [`publish`] made.
pub(super) fn unpublish(target: &Path) -> io::Result<()> {
    match fs::remove_file(target) {
        Err(error) if error.kind() == io::ErrorKind::IsADirectory => fs::remove_dir(target),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// How many bytes and files the volume holds.
pub(super) fn used(place: &Path) -> (i64, i64) {
    let mut bytes = 0;
    let mut count = 0;
    let mut left = vec![place.join(FILES)];
    while let Some(folder) = left.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            count += 1;
            match entry.metadata() {
                Ok(found) if found.is_dir() => left.push(entry.path()),
                Ok(found) => bytes += i64::try_from(found.len()).unwrap_or(i64::MAX),
                Err(_) => {}
            }
        }
    }
    (bytes, count)
}
