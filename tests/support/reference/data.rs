//! The data of volumes and snapshots: a folder for mounted use, a file for block use. Knows no request.

use rustix::fs::{SeekFrom, seek};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::hash::{DefaultHasher, Hasher};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// The folder of a volume that is used as a file system.
const FILES: &str = "files";
/// The content of a volume that is used as a device.
const DEVICE: &str = "device";

/// The size of a block.
pub(super) const BLOCK: i64 = 4096;
/// The blocks of a new device that hold data, which is a label as volume managers write them.
const LABEL: [u64; 8] = [0, 1, 2, 5, 9, 12, 14, 15];

/// Makes the data of an empty volume.
pub(super) fn create(place: &Path) -> io::Result<()> {
    fs::create_dir(place)?;
    fs::create_dir(place.join(FILES))?;
    let device = File::create(place.join(DEVICE))?;
    for block in LABEL {
        device.write_all_at(b"label", block * BLOCK.unsigned_abs())?;
    }
    Ok(())
}

/// Adds the files at `from` to those at `to`, and replaces the device.
pub(super) fn copy(from: &Path, to: &Path) -> io::Result<()> {
    copy_files(&from.join(FILES), &to.join(FILES))?;
    let (from, to) = (
        File::open(from.join(DEVICE))?,
        File::create(to.join(DEVICE))?,
    );
    each_block(&from, |block, bytes| {
        to.write_all_at(bytes, (block * BLOCK).unsigned_abs())
    })
}

/// The blocks of the device that hold data, each with a checksum of it.
pub(super) fn blocks(place: &Path) -> io::Result<BTreeMap<i64, u64>> {
    let mut found = BTreeMap::new();
    each_block(&File::open(place.join(DEVICE))?, |block, bytes| {
        let mut hasher = DefaultHasher::new();
        hasher.write(bytes);
        found.insert(block, hasher.finish());
        Ok(())
    })?;
    Ok(found)
}

/// Goes through the blocks that hold more than zeros, and never reads what is a hole in the file.
fn each_block(
    device: &File,
    mut visit: impl FnMut(i64, &[u8]) -> io::Result<()>,
) -> io::Result<()> {
    let mut at = 0;
    // The end of the file is the error that ends this.
    while let Ok(data) = seek(device, SeekFrom::Data(at)) {
        let block = data / BLOCK.unsigned_abs();
        let mut bytes = vec![0; 4096];
        let mut count = 0;
        while count < bytes.len() {
            let start = block * BLOCK.unsigned_abs() + count as u64;
            match device.read_at(&mut bytes[count..], start)? {
                0 => break,
                more => count += more,
            }
        }
        if bytes.iter().any(|byte| *byte != 0) {
            visit(i64::try_from(block).unwrap_or_default(), &bytes)?;
        }
        at = (block + 1) * BLOCK.unsigned_abs();
    }
    Ok(())
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
