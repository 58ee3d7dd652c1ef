//! Finds out whether two open roots with one UUID are one share, or one is a copy of the other's storage. A copy made block
//! by block has the same inode numbers, times and generations, so no attribute tells: something new on the one must be seen
//! on the other.

use super::database::{Expect, Share};
use super::error::{Context, ShareError};
use super::token::{Nonce, ShareUuid};
use crate::files::beneath;
use crate::files::roots::Root;
use rustix::fs::{self, AtFlags, StatxFlags, Timespec, Timestamps, UTIME_OMIT};
use rustix::io::Errno;
use std::io;
use std::os::fd::OwnedFd;

/// How often two times are compared, which others may change in between.
const LOOKS: usize = 5;

/// Whether `ours` and `theirs` are one share, which has `uuid`; nothing when `theirs` cannot be looked at, or is another one by
/// now.
pub fn is_one(ours: Root, theirs: Root, uuid: ShareUuid) -> Result<Option<bool>, ShareError> {
    let Ok(theirs) = Share::open(theirs, Expect::Known(uuid)) else {
        return Ok(None);
    };
    let ours = Share::open(ours, Expect::Known(uuid))?;
    let context = || "comparing two shares with one UUID".to_owned();
    let stats = (fs::fstat(&ours.root), fs::fstat(&theirs.root));
    let (own, other) = (stats.0.context(context)?, stats.1.context(context)?);
    // Two mounts of one export have each a device number of their own.
    if (own.st_dev, own.st_ino) == (other.st_dev, other.st_ino) {
        return Ok(Some(true));
    }
    let name = format!("probe-{}", Nonce::random().context(context)?);
    let written = beneath::write_new(&theirs.drafts, &name, b"");
    let seen = match &written {
        Ok(()) => beneath::exists(&ours.drafts, &name),
        // Deleting must be possible on a full share.
        Err(error) if matches!(beneath::errno(error), Some(Errno::NOSPC | Errno::DQUOT)) => {
            share_a_time(&theirs.drafts, &ours.drafts)
        }
        Err(_) => return Ok(None),
    };
    let _ = fs::unlinkat(&theirs.drafts, &*name, AtFlags::empty());
    seen.context(context).map(Some)
}

/// Whether a time that is set on one folder is the other's too. That takes no room.
fn share_a_time(one: &OwnedFd, other: &OwnedFd) -> io::Result<bool> {
    for _ in 0..LOOKS {
        let drawn = Nonce::random()?.to_string();
        let number = drawn.bytes().fold(7_i64, |number, byte| {
            (number * 31 + i64::from(byte)) % 900_000_000
        });
        let times = Timestamps {
            last_access: Timespec {
                tv_sec: 0,
                tv_nsec: UTIME_OMIT,
            },
            last_modification: Timespec {
                tv_sec: number,
                tv_nsec: 0,
            },
        };
        // The handle of a folder takes no times itself.
        fs::utimensat(one, ".", &times, AtFlags::empty())?;
        let look = |folder: &OwnedFd| {
            let how = AtFlags::EMPTY_PATH | AtFlags::STATX_FORCE_SYNC;
            fs::statx(folder, "", how, StatxFlags::MTIME).map(|stat| stat.stx_mtime.tv_sec)
        };
        let seen = (look(one)?, look(other)?);
        if seen.0 == number {
            return Ok(seen.1 == number);
        }
        // Somebody has made a draft just now.
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::sync::Arc;

    fn root(folder: &tempfile::TempDir) -> Root {
        Arc::new(File::open(folder.path()).unwrap().into())
    }

    #[test]
    fn a_copy_is_told_from_the_share_itself() {
        let [share, copy, other] = [(); 3].map(|()| tempfile::tempdir().unwrap());
        let uuid = Share::open(root(&share), Expect::Any).unwrap().uuid();
        let copied = std::process::Command::new("cp")
            .arg("-a")
            .arg(share.path().join("."))
            .arg(copy.path())
            .status();
        assert!(copied.unwrap().success());
        let compare = |other| is_one(root(&share), root(other), uuid).unwrap();
        assert_eq!(compare(&share), Some(true));
        assert_eq!(compare(&copy), Some(false));
        Share::open(root(&other), Expect::Any).unwrap();
        assert_eq!(compare(&other), None);
        let drafts = share.path().join(".csi-nfs/drafts");
        assert_eq!(std::fs::read_dir(drafts).unwrap().count(), 0);
    }

    #[test]
    fn a_time_tells_where_nothing_can_be_written() {
        let [one, other] = [(); 2].map(|()| tempfile::tempdir().unwrap());
        let open = |folder: &tempfile::TempDir| OwnedFd::from(File::open(folder.path()).unwrap());
        assert!(share_a_time(&open(&one), &open(&one)).unwrap());
        assert!(!share_a_time(&open(&one), &open(&other)).unwrap());
    }
}
