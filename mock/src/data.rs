//! The data of volumes and snapshots: a folder for mounted use, a file for block use, both made when somebody first wants
//! them. Knows no request.

use rustix::fs::{SeekFrom, seek};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt, symlink};
use std::path::Path;

/// The folder of a volume that is used as a file system.
const FILES: &str = "files";
/// The content of a volume that is used as a device.
const DEVICE: &str = "device";

/// The size of a block.
pub(crate) const BLOCK: i64 = 4096;
/// The blocks of a new device that hold data, which is a label as volume managers write them.
const LABEL: [u64; 8] = [0, 1, 2, 5, 9, 12, 14, 15];

/// Makes the data of an empty volume, unless it has some.
fn ensure(place: &Path) -> io::Result<()> {
    fs::create_dir_all(place.join(FILES))?;
    let device = match File::create_new(place.join(DEVICE)) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(()),
        device => device?,
    };
    for block in LABEL {
        device.write_all_at(b"label", block * BLOCK.unsigned_abs())?;
    }
    Ok(())
}

/// Adds the files at `from` to those at `to`, and replaces the device.
pub(crate) fn copy(from: &Path, to: &Path) -> io::Result<()> {
    ensure(from)?;
    ensure(to)?;
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
pub(crate) fn blocks(place: &Path) -> io::Result<BTreeMap<i64, u64>> {
    ensure(place)?;
    let mut found = BTreeMap::new();
    each_block(&File::open(place.join(DEVICE))?, |block, bytes| {
        found.insert(block, checksum(bytes));
        Ok(())
    })?;
    Ok(found)
}

/// FNV-1a: it stands in the file of the state, and so must not change with the compiler.
fn checksum(bytes: &[u8]) -> u64 {
    let basis = 0xcbf2_9ce4_8422_2325;
    bytes.iter().fold(basis, |sum: u64, byte| {
        (sum ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
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
pub(crate) fn remove(place: &Path) {
    // What is left is removed before its name is used again.
    let _ = fs::remove_dir_all(place);
}

/// Removes the files and keeps the folder.
pub(crate) fn clear(place: &Path) {
    let files = place.join(FILES);
    let _ = fs::remove_dir_all(&files);
    let _ = fs::create_dir(&files);
}

/// Makes the volume appear at `target`, in place of an empty folder that may stand there.
pub(crate) fn publish(place: &Path, target: &Path, as_device: bool) -> io::Result<()> {
    ensure(place)?;
    let _ = fs::remove_dir(target);
    if !as_device {
        return symlink(place.join(FILES), target);
    }
    match fs::hard_link(place.join(DEVICE), target) {
        Err(error) if error.kind() == io::ErrorKind::CrossesDevices => {
            symlink(place.join(DEVICE), target)
        }
        other => other,
    }
}

/// Takes away what [`publish`] made.
pub(crate) fn unpublish(target: &Path) -> io::Result<()> {
    match fs::remove_file(target) {
        Err(error) if error.kind() == io::ErrorKind::IsADirectory => fs::remove_dir(target),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// How many bytes and files the volume holds.
pub(crate) fn used(place: &Path) -> (i64, i64) {
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
