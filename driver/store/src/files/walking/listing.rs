//! The names in a folder, many at a time. Owns what makes an NFS client list a folder well.

use crate::files::beneath;
use rustix::fs::{self, AtFlags, FileType, OFlags, RawDir};
use rustix::io::{self, Errno};
use std::ffi::CString;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::vec::IntoIter;

/// What one getdents(2) may return: some hundred names.
const BUFFER: usize = 32 * 1024;

/// How many entries are looked at after each part. Linux asks for the attributes of the next part's entries (READDIRPLUS)
/// only when some of this part's were used, and the other threads may not have come to that yet. Without them each entry
/// would cost a LOOKUP.
const LOOKED_AT: usize = 16;

/// A folder that is being listed.
pub(crate) struct Listing {
    folder: OwnedFd,
    /// What was read and not given out.
    left: IntoIter<(CString, FileType)>,
    names: usize,
    remote: bool,
    ended: bool,
}

impl Listing {
    /// Begins the list of `folder`, without a change of its time of access, where this process may ask for that.
    pub(crate) fn open(folder: &OwnedFd, remote: bool) -> std::io::Result<Self> {
        let folder = beneath::folder(folder, ".")?;
        let _ = fs::fcntl_setfl(&folder, OFlags::NOATIME);
        Ok(Self {
            folder,
            left: Vec::new().into_iter(),
            names: 0,
            remote,
            ended: false,
        })
    }

    /// How many names a folder has at least, which was opened a moment ago. To list it later it is opened anew, and what is
    /// read here is known then.
    pub(crate) fn first_names(folder: &OwnedFd) -> usize {
        read(folder).map_or(0, |part| part.len())
    }

    /// How many names the folder has, as far as it has been read.
    pub(crate) fn names(&self) -> usize {
        self.names
    }

    /// The folder.
    pub(crate) fn folder(&self) -> &OwnedFd {
        &self.folder
    }

    /// The next entry, but `.` and `..`; nothing at the end. `FileType::Unknown` where the file system does not say.
    pub(crate) fn next(&mut self) -> io::Result<Option<(CString, FileType)>> {
        if self.left.as_slice().is_empty() {
            self.left = self.part()?.into_iter();
        }
        Ok(self.left.next())
    }

    /// The next entries, as [`Listing::next`] gives one; none at the end.
    pub(crate) fn part(&mut self) -> io::Result<Vec<(CString, FileType)>> {
        if self.ended {
            return Ok(Vec::new());
        }
        let part = read(&self.folder)?;
        self.ended = part.is_empty();
        self.names += part.len();
        if self.remote && part.len() > 10 * LOOKED_AT {
            for (name, _) in &part[part.len() - LOOKED_AT..] {
                // Known by now, so it costs no call; what it says does not matter.
                let _ = fs::statat(&self.folder, &**name, AtFlags::SYMLINK_NOFOLLOW);
            }
        }
        Ok(part)
    }
}

/// The next part of an open folder; empty at the end.
fn read(folder: &OwnedFd) -> io::Result<Vec<(CString, FileType)>> {
    let mut buffer = Vec::with_capacity(BUFFER);
    let buffer: &mut [MaybeUninit<u8>] = buffer.spare_capacity_mut();
    let mut part = Vec::new();
    let mut entries = RawDir::new(folder, buffer);
    while let Some(entry) = entries.next() {
        let entry = match entry {
            Ok(entry) => entry,
            Err(Errno::INTR) => continue,
            Err(error) => return Err(error),
        };
        let name = entry.file_name();
        if !matches!(name.to_bytes(), b"." | b"..") {
            part.push((name.to_owned(), entry.file_type()));
        }
        // A folder with nothing but itself in this part must not look as if it had ended.
        if entries.is_buffer_empty() && !part.is_empty() {
            break;
        }
    }
    Ok(part)
}
