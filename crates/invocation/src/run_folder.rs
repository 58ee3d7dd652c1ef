//! The folders that runs of this program make for a driver. Each says in an attribute which driver that is, for whoever finds it
//! after the run was killed.
//!
//! The attribute goes with its folder. Where a file system has none, nobody knows the driver.

use csi_call::Endpoint;
use rustix::fs::{OFlags, XattrFlags, lgetxattr, lsetxattr};
use rustix::process::geteuid;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

const ATTRIBUTE: &str = "user.csi.driver";

/// The longest name of a driver that is read.
const LONGEST: usize = 4096;

/// Notes whose folder it is.
pub fn mark(folder: &Path, driver: &Endpoint) {
    // The run needs it not.
    let _ = lsetxattr(
        folder,
        ATTRIBUTE,
        name(driver).as_bytes(),
        XattrFlags::empty(),
    );
}

/// The driver of a folder, where that is noted.
pub fn driver_of(folder: &Path) -> Option<String> {
    let mut name = vec![0; LONGEST];
    let length = lgetxattr(folder, ATTRIBUTE, &mut name).ok()?;
    name.truncate(length);
    String::from_utf8(name).ok()
}

/// The folders of this user's runs below `parent`, by their names' prefixes, in order. In a folder of another user nothing can be
/// believed: what it says would be done in this user's name.
pub fn mine_below(parent: &Path, prefixes: &[&str]) -> io::Result<Vec<PathBuf>> {
    let entries = fs::read_dir(parent)?;
    let mut paths: Vec<PathBuf> = entries
        .flatten()
        .filter(|entry| {
            let name = entry.file_name().to_string_lossy().into_owned();
            prefixes.iter().any(|prefix| name.starts_with(prefix))
        })
        .map(|entry| entry.path())
        .filter(|path| fs::symlink_metadata(path).is_ok_and(|it| it.is_dir() && is_mine(&it)))
        .collect();
    paths.sort();
    Ok(paths)
}

/// Opens a file that a run of this user has written.
///
/// # Errors
/// When it is another user's or no file: a link is not followed, and a FIFO is not waited for.
pub fn open_mine(path: &Path) -> io::Result<File> {
    let never_waits = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = fs::OpenOptions::new()
        .read(true)
        // NFS locks for writers alone.
        .append(true)
        .custom_flags(never_waits.bits() as i32)
        .open(path)?;
    let metadata = file.metadata()?;
    match metadata.is_file() && is_mine(&metadata) {
        true => Ok(file),
        false => Err(io::ErrorKind::InvalidInput.into()),
    }
}

fn is_mine(metadata: &fs::Metadata) -> bool {
    metadata.uid() == geteuid().as_raw()
}

/// What a driver is called in every folder of this machine, without credentials.
pub fn name(driver: &Endpoint) -> String {
    match driver.is_on_this_machine() {
        true => driver.named_everywhere(),
        false => driver.without_credentials(),
    }
}

/// Whether a name is that of the driver.
pub fn names(name_of_one: &str, driver: &Endpoint) -> bool {
    let same = |one: Endpoint| one.names_the_same(driver);
    name_of_one == name(driver) || Endpoint::parse(name_of_one).is_ok_and(same)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_driver_is_known_by_every_name_of_its_own() {
        for (noted, driver, is) in [
            ("unix:///a/b", "/a/b", true),
            ("unix:///a/b", "unix:/a/c", false),
            ("mock:/m", "mock:/m", true),
            ("mock:/m", "mock:/n", false),
            ("exec:ssh …", "exec:ssh host token", true),
            ("", "/a/b", false),
        ] {
            let driver = Endpoint::parse(driver).unwrap();
            assert_eq!(names(noted, &driver), is, "{noted} {driver}");
        }
        let relative = Endpoint::parse("mock:m").unwrap();
        assert!(name(&relative).starts_with("mock:/"), "{relative}");
    }
}
