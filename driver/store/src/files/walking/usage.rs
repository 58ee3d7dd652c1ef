//! What a tree takes on its disk, as du(1) counts it: blocks, of a file with several names once. Owns what is counted, and why a
//! count is less than all. It is done in parts, between which a caller may rest.

use super::{EntryKind, Met, TreeWalk};
use crate::files::beneath;
use rustix::fs;
use rustix::io::Errno;
use std::collections::HashSet;
use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::time::Instant;

/// Files with several names that are remembered, in some megabytes.
const LINKS: usize = 1 << 18;
/// Entries after which it is enough.
const ENTRIES: u64 = 10_000_000;
/// A folder that this process may not read.
const UNREADABLE: &str = "a folder in it may not be read";

/// A count that goes on, and what was counted by now.
pub(crate) struct UsageCount {
    walk: TreeWalk<()>,
    pub(crate) begun: Instant,
    /// What it takes on the disk.
    pub(crate) bytes: u64,
    /// All that is no folder.
    pub(crate) files: u64,
    /// Folders, the top among them.
    pub(crate) folders: u64,
    /// Why there is more than was counted: the first reason.
    pub(crate) short: Option<String>,
    looked: u64,
    links: HashSet<u64>,
}

impl UsageCount {
    /// Begins with an open folder.
    ///
    /// # Errors
    /// Whatever open(2) and stat(2) say.
    pub(crate) fn begin(top: &OwnedFd) -> io::Result<Self> {
        Ok(Self {
            walk: TreeWalk::begin(top, ())?,
            begun: Instant::now(),
            bytes: fs::fstat(top)?.st_blocks.unsigned_abs() * 512,
            files: 0,
            folders: 1,
            short: None,
            looked: 0,
            links: HashSet::new(),
        })
    }

    /// Looks at `most` more entries. Returns at how many it did: fewer at the end.
    ///
    /// # Errors
    /// Those of the file system, but for what may not be read.
    pub(crate) fn go_on(&mut self, most: usize) -> io::Result<usize> {
        for looked in 0..most {
            match self.walk.next() {
                Ok(None) => return Ok(looked),
                Ok(Some(_)) if self.looked == ENTRIES => {
                    self.miss(format!("it has more than {ENTRIES} files and folders"));
                    return Ok(looked);
                }
                Ok(Some(met)) => {
                    self.looked += 1;
                    self.count(&met)?;
                }
                Err(error) if is_refused(&error) => self.miss(UNREADABLE),
                Err(error) => return Err(error),
            }
        }
        Ok(most)
    }

    fn count(&mut self, met: &Met) -> io::Result<()> {
        match met.kind {
            EntryKind::Mounted => return Ok(()),
            EntryKind::Folder | EntryKind::Deep => self.folders += 1,
            EntryKind::File | EntryKind::Other => {
                if met.stat.st_nlink > 1 && !self.is_new(met.stat.st_ino) {
                    return Ok(());
                }
                self.files += 1;
            }
        }
        self.bytes += met.stat.st_blocks.unsigned_abs() * 512;
        match met.kind {
            EntryKind::Folder => self.enter(met),
            EntryKind::Deep => {
                self.miss("a folder in it lies too deep");
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Whether a file with several names is met for the first time.
    fn is_new(&mut self, inode: u64) -> bool {
        if self.links.len() < LINKS {
            return self.links.insert(inode);
        }
        if !self.links.contains(&inode) {
            self.miss(format!("more than {LINKS} files in it have several names"));
        }
        false
    }

    fn enter(&mut self, met: &Met) -> io::Result<()> {
        let Some((above, ())) = self.walk.here() else {
            return Ok(());
        };
        let opened = beneath::folder(above, OsStr::from_bytes(met.name.to_bytes()));
        match opened.and_then(|folder| self.walk.enter(&folder, ())) {
            Ok(()) => Ok(()),
            Err(error) if is_refused(&error) => {
                self.miss(UNREADABLE);
                Ok(())
            }
            // Gone, something else by now, or a mount.
            Err(error)
                if beneath::is_gone(&error)
                    || matches!(
                        beneath::errno(&error),
                        Some(Errno::LOOP | Errno::NOTDIR | Errno::XDEV)
                    ) =>
            {
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    fn miss(&mut self, why: impl Into<String>) {
        self.short.get_or_insert_with(|| why.into());
    }
}

fn is_refused(error: &io::Error) -> bool {
    matches!(beneath::errno(error), Some(Errno::ACCESS | Errno::PERM))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{CWD, FileType, Mode};
    use std::fs::{File, Permissions};
    use std::os::unix::fs::{FileExt, PermissionsExt, symlink};
    use std::path::Path;
    use std::process::Command;

    fn begin(folder: &Path) -> UsageCount {
        UsageCount::begin(&File::open(folder).unwrap().into()).unwrap()
    }

    /// Counts in parts of this many entries. Returns how many parts there were.
    fn finish(count: &mut UsageCount, part: usize) -> usize {
        let mut parts = 1;
        while count.go_on(part).unwrap() == part {
            parts += 1;
        }
        parts
    }

    fn count(folder: &Path) -> UsageCount {
        let mut count = begin(folder);
        finish(&mut count, 7);
        count
    }

    fn du(folder: &Path) -> u64 {
        let told = Command::new("du").args(["-sx", "-B1"]).arg(folder).output();
        let told = String::from_utf8(told.unwrap().stdout).unwrap();
        told.split_whitespace().next().unwrap().parse().unwrap()
    }

    #[test]
    fn a_tree_is_counted_as_du_counts_it() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::create_dir_all(at("a/b/c")).unwrap();
        for name in ["one", "a/two", "a/b/three", "a/b/c/four"] {
            std::fs::write(at(name), vec![7; 10_000]).unwrap();
        }
        std::fs::hard_link(at("one"), at("a/b/again")).unwrap();
        std::fs::hard_link(at("one"), at("a/b/c/again")).unwrap();
        // A byte behind a gigabyte of nothing.
        let sparse = File::create(at("sparse")).unwrap();
        sparse.write_all_at(b"x", 1 << 30).unwrap();
        symlink("..", at("a/loop")).unwrap();
        symlink("/", at("a/b/away")).unwrap();
        let mode = Mode::RWXU;
        rustix::fs::mknodat(CWD, at("fifo"), FileType::Fifo, mode, 0).unwrap();
        let usage = count(folder.path());
        assert_eq!(usage.bytes, du(folder.path()));
        assert!(usage.bytes < 1 << 20, "{}", usage.bytes);
        assert_eq!((usage.files, usage.folders, usage.short), (8, 4, None));
    }

    #[test]
    fn no_part_is_larger_than_asked_for() {
        let folder = tempfile::tempdir().unwrap();
        for number in 0..99 {
            std::fs::write(folder.path().join(number.to_string()), "").unwrap();
        }
        let mut count = begin(folder.path());
        for part in 1..=9 {
            assert_eq!(count.go_on(11).unwrap(), 11);
            assert_eq!(count.files, part * 11);
        }
        assert_eq!(count.go_on(11).unwrap(), 0);
        // The end is no entry, and stays the end.
        assert_eq!(count.go_on(11).unwrap(), 0);
    }

    #[test]
    fn what_comes_and_goes_meanwhile_ends_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        for number in 0..20 {
            std::fs::create_dir_all(at(&format!("{number}/inner"))).unwrap();
        }
        let mut counting = begin(folder.path());
        assert_eq!(counting.go_on(3).unwrap(), 3);
        for number in 0..20 {
            std::fs::remove_dir_all(at(&number.to_string())).unwrap();
            std::fs::write(at(&number.to_string()), "now a file").unwrap();
        }
        finish(&mut counting, 3);
        let usage = &counting;
        assert!(usage.folders >= 1 && usage.short.is_none());
        // The whole folder.
        let mut counting = begin(folder.path());
        std::fs::remove_dir_all(folder.path()).unwrap();
        assert_eq!(finish(&mut counting, 3), 1);
    }

    #[test]
    fn a_folder_that_lies_too_deep_is_said() {
        let folder = tempfile::tempdir().unwrap();
        let deep = vec!["d"; 300].join("/");
        std::fs::create_dir_all(folder.path().join(&deep)).unwrap();
        let usage = count(folder.path());
        assert_eq!(usage.folders, 257);
        assert_eq!(usage.short.unwrap(), "a folder in it lies too deep");
    }

    #[test]
    fn what_may_not_be_read_is_said() {
        let folder = tempfile::tempdir().unwrap();
        let shut = folder.path().join("shut");
        std::fs::create_dir(&shut).unwrap();
        std::fs::write(folder.path().join("file"), "").unwrap();
        std::fs::write(shut.join("file"), "").unwrap();
        std::fs::set_permissions(&shut, Permissions::from_mode(0o000)).unwrap();
        let usage = count(folder.path());
        std::fs::set_permissions(&shut, Permissions::from_mode(0o700)).unwrap();
        // Root may read everything, as an agent does.
        let expected = match rustix::process::geteuid().is_root() {
            true => (2, 2, None),
            false => (1, 2, Some(UNREADABLE)),
        };
        assert_eq!(
            (usage.files, usage.folders, usage.short.as_deref()),
            expected
        );
    }
}
