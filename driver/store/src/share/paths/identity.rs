//! The identity of the folder at a path: it tells that folder from another one that somebody makes there later. Must not
//! change anything.

use rustix::fs::{self, AtFlags, StatxFlags};
use rustix::io::{self, Errno};
use serde::{Deserialize, Serialize};
use std::os::fd::AsFd;

/// A folder's inode, with the time of its birth, since such a number is soon used again. Over NFS before Linux 6.16 the kernel
/// does not say when a folder was born. What has inode 0 is no folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FolderIdentity {
    inode: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    born: Option<(i64, u32)>,
}

impl FolderIdentity {
    /// Of no folder at all: whatever is met is another one, also for a driver that does not know this value.
    pub const NONE: Self = Self {
        inode: 0,
        born: None,
    };

    /// Of what is at `name` in `folder`; nothing when nothing is there.
    pub fn of(folder: impl AsFd, name: &str) -> io::Result<Option<Self>> {
        match Self::at(folder, name, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => Ok(None),
            found => found.map(Some),
        }
    }

    /// Of the open `folder` itself, or the one of this handle.
    pub fn of_open(folder: impl AsFd) -> io::Result<Self> {
        Self::at(folder, "", AtFlags::EMPTY_PATH)
    }

    fn at(folder: impl AsFd, name: &str, how: AtFlags) -> io::Result<Self> {
        let found = fs::statx(folder, name, how, StatxFlags::INO | StatxFlags::BTIME)?;
        Ok(Self {
            inode: found.stx_ino,
            born: (found.stx_mask & StatxFlags::BTIME.bits() != 0)
                .then_some((found.stx_btime.tv_sec, found.stx_btime.tv_nsec)),
        })
    }

    /// Whether the two may be one folder, as far as is known.
    pub fn may_be(self, other: Self) -> bool {
        let is_known = self.born.is_some() && other.born.is_some();
        self.inode == other.inode && (!is_known || self.born == other.born)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;

    #[test]
    fn a_folder_is_told_from_a_later_one_with_its_inode() {
        let with = |inode, born| FolderIdentity { inode, born };
        for (one, other, may_be) in [
            (with(1, None), with(1, None), true),
            (with(1, None), with(2, None), false),
            (with(1, Some((1, 2))), with(1, Some((1, 2))), true),
            (with(1, Some((1, 2))), with(1, Some((1, 3))), false),
            // Seen by controllers on different kernels.
            (with(1, Some((1, 2))), with(1, None), true),
            (with(1, Some((1, 2))), with(2, None), false),
            (FolderIdentity::NONE, with(1, None), false),
            (FolderIdentity::NONE, with(1, Some((1, 2))), false),
        ] {
            assert_eq!(one.may_be(other), may_be, "{one:?} {other:?}");
            assert_eq!(other.may_be(one), may_be, "{one:?} {other:?}");
        }
    }

    #[test]
    fn a_folder_is_the_same_by_its_name_and_open() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("a")).unwrap();
        let [at, open] = [".", "a"].map(|name| File::open(folder.path().join(name)).unwrap());
        let named = FolderIdentity::of(&at, "a").unwrap();
        assert_eq!(named, Some(FolderIdentity::of_open(&open).unwrap()));
        assert_eq!(FolderIdentity::of(&at, "b").unwrap(), None);
    }
}
