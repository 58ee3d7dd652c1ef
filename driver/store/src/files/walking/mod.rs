//! Goes through a tree of folders, from the top down, one entry for each question. Owns what is entered and how far: no symlink is
//! followed, no mount is crossed, nothing but folders is opened. Must not know what the tree is, nor change anything.
//!
//! Memory and descriptors grow with the depth of the tree, not with its size. The tree may change meanwhile: what has gone since it
//! was listed is passed over.

pub(crate) mod listing;
pub(crate) mod usage;

use crate::files::beneath;
use listing::Listing;
use rustix::fs::{self, AtFlags, FileType, Stat};
use std::ffi::CString;
use std::io;
use std::os::fd::OwnedFd;

/// Folders within folders that are entered; each keeps a descriptor open.
pub(crate) const DEPTH: usize = 256;

/// An entry of a folder, by what can be done with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EntryKind {
    /// A folder that may be entered.
    Folder,
    /// A regular file.
    File,
    /// A symlink, FIFO, socket or device.
    Other,
    /// It is of another file system.
    Mounted,
    /// A folder that lies too deep to be entered.
    Deep,
}

fn kind(of: FileType, is_other_device: bool, depth: usize) -> EntryKind {
    match of {
        _ if is_other_device => EntryKind::Mounted,
        FileType::Directory if depth >= DEPTH => EntryKind::Deep,
        FileType::Directory => EntryKind::Folder,
        FileType::RegularFile => EntryKind::File,
        _ => EntryKind::Other,
    }
}

/// An entry that was met.
pub(crate) struct Met {
    pub(crate) name: CString,
    pub(crate) stat: Stat,
    pub(crate) kind: EntryKind,
}

/// A way through a tree, which keeps a `T` for each folder that it is in.
pub(crate) struct TreeWalk<T> {
    device: u64,
    levels: Vec<(Listing, T)>,
}

impl<T> TreeWalk<T> {
    /// Begins at an open folder.
    ///
    /// # Errors
    /// Whatever open(2) and stat(2) say.
    pub(crate) fn begin(top: &OwnedFd, kept: T) -> io::Result<Self> {
        let mut walk = Self {
            device: fs::fstat(top)?.st_dev,
            levels: Vec::new(),
        };
        walk.enter(top, kept)?;
        Ok(walk)
    }

    /// The folder of the entry that was met last, and what is kept for it.
    pub(crate) fn here(&self) -> Option<(&OwnedFd, &T)> {
        let (listing, kept) = self.levels.last()?;
        Some((listing.folder(), kept))
    }

    /// The next entry; nothing at the end. A folder's own entries come next when it is entered, and never otherwise.
    ///
    /// # Errors
    /// What stat(2) says of one entry, or getdents(2) of the rest of a folder; the next question goes on behind that.
    pub(crate) fn next(&mut self) -> io::Result<Option<Met>> {
        loop {
            let depth = self.levels.len();
            let Some((listing, _)) = self.levels.last_mut() else {
                return Ok(None);
            };
            let name = match beneath::if_there(listing.next().map_err(io::Error::from)) {
                Ok(Some(Some((name, _)))) => name,
                Ok(Some(None) | None) => {
                    self.levels.pop();
                    continue;
                }
                Err(error) => {
                    self.levels.pop();
                    return Err(error);
                }
            };
            let stat = fs::statat(listing.folder(), &name, AtFlags::SYMLINK_NOFOLLOW);
            if let Some(stat) = beneath::if_there(stat.map_err(io::Error::from))? {
                let of = FileType::from_raw_mode(stat.st_mode);
                let kind = kind(of, stat.st_dev != self.device, depth);
                return Ok(Some(Met { name, stat, kind }));
            }
        }
    }

    /// Enters a folder that was just met, and was opened where it was met.
    ///
    /// # Errors
    /// Whatever open(2) says.
    pub(crate) fn enter(&mut self, folder: &OwnedFd, kept: T) -> io::Result<()> {
        self.levels.push((Listing::open(folder, false)?, kept));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_entered_and_what_is_not() {
        for (of, is_other_device, depth, expected) in [
            (FileType::Directory, false, 1, EntryKind::Folder),
            (FileType::RegularFile, false, 1, EntryKind::File),
            (FileType::RegularFile, false, DEPTH, EntryKind::File),
            (FileType::Directory, false, DEPTH, EntryKind::Deep),
            (FileType::Directory, true, 1, EntryKind::Mounted),
            (FileType::Directory, true, DEPTH, EntryKind::Mounted),
            (FileType::Symlink, false, 1, EntryKind::Other),
            (FileType::Fifo, false, 1, EntryKind::Other),
            (FileType::Socket, false, 1, EntryKind::Other),
            (FileType::BlockDevice, false, 1, EntryKind::Other),
        ] {
            assert_eq!(kind(of, is_other_device, depth), expected, "{of:?}");
        }
    }
}
