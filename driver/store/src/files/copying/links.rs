//! Files with several names. The first name that is met is copied and linked into a folder of its own under its inode's
//! number; each further name is a link to that. So the file system remembers, and a million such files cost no memory. Most
//! trees have none, and then that folder is not made.

use super::named::Named;
use crate::files::admission::ExtraThreads;
use crate::files::beneath;
use crate::files::owner::Maker;
use crate::files::pool::of_each;
use csi_proto::lock::{lock, wait};
use rustix::fs::{self, AtFlags, Stat, StatxFlags};
use rustix::io::{self, Errno};
use std::collections::HashSet;
use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock};

/// Links that are removed together.
const BATCH: usize = 512;

/// Which file it is: the number of its inode with the time of its birth, since such a number is soon used again. Where the
/// kernel does not say when it was born, as over NFS before Linux 6.16, the time of its last modification takes that place: a
/// file that is written between two of its names comes as two files, and no name ever gets another file's content.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct FileIdentity(String);

impl FileIdentity {
    /// The key of the file that `stat` describes and `name` in `folder` is; `name` is empty for `folder` itself.
    pub(super) fn of(folder: impl AsFd, name: &CStr, stat: &Stat) -> Self {
        let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::EMPTY_PATH;
        let born = fs::statx(folder, name, flags, StatxFlags::BTIME | StatxFlags::INO)
            .ok()
            .filter(|statx| {
                statx.stx_mask & StatxFlags::BTIME.bits() != 0 && statx.stx_ino == stat.st_ino
            })
            .map(|statx| (statx.stx_btime.tv_sec, statx.stx_btime.tv_nsec));
        Self::from(stat, born)
    }

    fn from(stat: &Stat, born: Option<(i64, u32)>) -> Self {
        let inode = stat.st_ino;
        Self(match born {
            Some((seconds, rest)) => format!("{inode:x}-b{seconds:x}.{rest:x}"),
            None => format!("{inode:x}-m{:x}.{:x}", stat.st_mtime, stat.st_mtime_nsec),
        })
    }
}

/// Where a copy keeps the files with several names while it runs: a folder that comes and goes with the first of them.
#[derive(Debug)]
pub struct LinksFolder {
    at: OwnedFd,
    name: String,
    maker: Option<Maker>,
    making: Mutex<()>,
    made: OnceLock<OwnedFd>,
}

impl LinksFolder {
    /// The folder `name` in `at`, which is on the copy's file system and has nothing of that name.
    pub fn new(at: OwnedFd, name: impl Into<String>) -> Self {
        Self {
            at,
            name: name.into(),
            maker: None,
            making: Mutex::new(()),
            made: OnceLock::new(),
        }
    }

    /// The same, which is made by `maker`; without one by whoever copies.
    pub fn made_by(self, maker: Option<Maker>) -> Self {
        Self { maker, ..self }
    }

    fn folder(&self) -> std::io::Result<&OwnedFd> {
        let _one_at_a_time = lock(&self.making);
        if let Some(folder) = self.made.get() {
            return Ok(folder);
        }
        // Another view of it may have made it.
        match &self.maker {
            Some(maker) => maker.make_folder(&self.at, &self.name)?,
            None => beneath::make_folder(&self.at, &self.name, 0o700)?,
        };
        let folder = beneath::folder(&self.at, &self.name)?;
        Ok(self.made.get_or_init(|| folder))
    }

    /// Whether it was needed through this view.
    pub(super) fn is_made(&self) -> bool {
        self.made.get().is_some()
    }

    /// Removes the folder with all that is in it, by as many threads as `extra` gives.
    pub(super) fn remove(&self, extra: &ExtraThreads) -> std::io::Result<()> {
        let folder = self.folder()?;
        // Others may have made names in it through other views.
        beneath::refresh(folder)?;
        let unlink = |name: &CString| match fs::unlinkat(folder, &**name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(error) => Err(error),
        };
        loop {
            let names = beneath::some_names(folder, BATCH)?;
            if names.is_empty() {
                return Ok(fs::unlinkat(&self.at, &self.name, AtFlags::REMOVEDIR)?);
            }
            let unlinked = of_each(extra, &names, || false, unlink);
            unlinked.into_iter().collect::<io::Result<()>>()?;
        }
    }
}

/// The files with several names that are being copied.
#[derive(Debug, Default)]
pub(super) struct Links {
    copying: Mutex<HashSet<FileIdentity>>,
    changed: Condvar,
}

/// The duty to copy an entry. Where that has several names, others with the same inode wait, and it is to be kept then.
pub(super) struct First<'a>(Option<Kept<'a>>);

struct Kept<'a> {
    links: &'a Links,
    folder: &'a LinksFolder,
    key: FileIdentity,
}

impl Links {
    fn lock(&self) -> MutexGuard<'_, HashSet<FileIdentity>> {
        lock(&self.copying)
    }

    /// Makes `to` a link to the copy that `folder` has of the file which `stat` describes, or says that it is to be copied. Waits
    /// while another thread copies it. `folder` is of the same view as `to`.
    pub(super) fn turn<'a>(
        &'a self,
        folder: &'a LinksFolder,
        stat: &Stat,
        identity: impl FnOnce() -> FileIdentity,
        to: Named<'_>,
    ) -> std::io::Result<Option<First<'a>>> {
        if stat.st_nlink <= 1 {
            return Ok(Some(First(None)));
        }
        let key = identity();
        let mut copying = self.lock();
        while copying.contains(&key) {
            copying = wait(&self.changed, copying);
        }
        // Claimed before it is tried, so that of two only one finds nothing.
        copying.insert(key.clone());
        drop(copying);
        let kept = Kept {
            links: self,
            folder,
            key,
        };
        let at = folder.folder()?;
        match fs::linkat(at, &*kept.key.0, to.folder, to.name, AtFlags::empty()) {
            Ok(()) => Ok(None),
            // Too many links is no reason to lose the file.
            Err(Errno::NOENT | Errno::MLINK) => Ok(Some(First(Some(kept)))),
            Err(error) => Err(error.into()),
        }
    }
}

impl First<'_> {
    /// Keeps the finished copy for its further names.
    pub(super) fn keep(self, copy: Named<'_>) -> std::io::Result<()> {
        let Some(kept) = self.0 else { return Ok(()) };
        let at = kept.folder.folder()?;
        match fs::linkat(copy.folder, copy.name, at, &*kept.key.0, AtFlags::empty()) {
            // There when it has reached the greatest number of links.
            Ok(()) | Err(Errno::EXIST) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

impl Drop for Kept<'_> {
    fn drop(&mut self) {
        self.links.lock().remove(&self.key);
        self.links.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_told_from_a_later_one_with_its_inode() {
        let file = tempfile::tempfile().unwrap();
        let old = fs::fstat(&file).unwrap();
        let mut new = old;
        new.st_mtime_nsec = (old.st_mtime_nsec + 1) % 1_000_000_000;
        assert_ne!(
            FileIdentity::from(&old, None),
            FileIdentity::from(&new, None)
        );
        assert_eq!(
            FileIdentity::from(&old, None),
            FileIdentity::from(&old, None)
        );
        let born = Some((1, 2));
        assert_ne!(
            FileIdentity::from(&old, born),
            FileIdentity::from(&old, Some((1, 3)))
        );
        // Written between two of its names.
        assert_eq!(
            FileIdentity::from(&old, born),
            FileIdentity::from(&new, born)
        );
        assert_ne!(
            FileIdentity::from(&old, born),
            FileIdentity::from(&old, None)
        );
    }
}
