//! The folders of volumes by their paths: looking for them, and making those above. Owns how a symlink, a mount or a file in
//! the way is said.

use crate::files::beneath;
use crate::share::database::Share;
use crate::share::error::{Context, ShareError};
use crate::share::paths::identity::FolderIdentity;
use crate::share::paths::sub_path::{RECORDS_FOLDER, SubPath};
use rustix::fs::{self, Gid, Mode, Uid};
use rustix::io::Errno;
use std::io;
use std::os::fd::OwnedFd;

/// A symlink, a mount or a file where a folder should be is said as such; they are never followed or crossed.
pub(crate) fn blocked(
    path: &SubPath,
    context: impl FnOnce() -> String,
) -> impl FnOnce(io::Error) -> ShareError {
    move |source| match beneath::errno(&source) {
        Some(Errno::LOOP | Errno::XDEV | Errno::NOTDIR) => ShareError::Blocked {
            path: path.clone(),
            source,
        },
        _ => ShareError::Io {
            context: context(),
            source,
        },
    }
}

/// The folder above `path`, when it is there. A stale one may be there under its name.
pub(in crate::share) fn open_parent(
    share: &Share,
    path: &SubPath,
) -> Result<Option<OwnedFd>, ShareError> {
    match beneath::folder_now(&share.root, path.parent()) {
        Err(error) if beneath::errno(&error) == Some(Errno::NOENT) => Ok(None),
        opened => opened
            .map(Some)
            .map_err(blocked(path, || format!("opening the folder above {path}"))),
    }
}

/// Which folder is in `parent` at the end of `path`, where one is.
///
/// # Errors
/// ELOOP and ENOTDIR for what is no folder, EXDEV for a mount: the folder may be below that. Whatever else open(2) says.
pub(in crate::share) fn folder_at(
    parent: &OwnedFd,
    path: &SubPath,
) -> io::Result<Option<FolderIdentity>> {
    // What this client knows to be there may be another's by now.
    beneath::ask(parent, path.leaf())?;
    match beneath::folder_handle(parent, path.leaf()) {
        Ok(folder) => Ok(Some(FolderIdentity::of_open(folder)?)),
        Err(error) if beneath::errno(&error) == Some(Errno::NOENT) => Ok(None),
        Err(error) => Err(error),
    }
}

pub(in crate::share) fn make_parents(share: &Share, path: &SubPath) -> Result<OwnedFd, ShareError> {
    let context = || format!("making the folders above {path}");
    let mut at = beneath::folder(&share.root, ".").map_err(blocked(path, context))?;
    for component in &path.components()[..path.components().len() - 1] {
        let made = beneath::make_folder(&at, component, 0o755).map_err(blocked(path, context))?;
        let next = beneath::folder(&at, component).map_err(blocked(path, context))?;
        if made {
            // The umask may have taken what other users need to get to the volume.
            fs::fchmod(&next, Mode::from_raw_mode(0o755)).context(context)?;
            beneath::sync(&at).context(context)?;
        }
        at = next;
    }
    Ok(at)
}

/// Whether a folder is at `path`.
pub(in crate::share) fn exists_at(share: &Share, path: &SubPath) -> Result<bool, ShareError> {
    match beneath::if_there(beneath::folder_now(&share.root, path.to_path())) {
        Ok(found) => Ok(found.is_some()),
        // A mode that keeps this driver out says that the folder is there.
        Err(error) if beneath::errno(&error) == Some(Errno::ACCESS) => Ok(true),
        Err(error) => Err(blocked(path, || format!("looking for {path}"))(error)),
    }
}

/// Refuses `folder`, which is at `path`, where it is the root of a share too.
pub(crate) fn refuse_share(
    share: &Share,
    path: &SubPath,
    folder: &OwnedFd,
) -> Result<(), ShareError> {
    let is_share = share.is_root_of_another(folder);
    match is_share.context(|| format!("looking at {path}"))? {
        false => Ok(()),
        true => Err(ShareError::NotPlain {
            path: path.clone(),
            why: format!(
                "it is a share of its own, with the records {RECORDS_FOLDER} of its volumes; if they are none, remove that folder"
            ),
        }),
    }
}

/// Gives a volume's folder its owner and mode, as far as they are said.
pub(in crate::share) fn set_attributes(
    folder: &OwnedFd,
    mode: Option<u32>,
    uid: Option<u32>,
    gid: Option<u32>,
) -> Result<(), ShareError> {
    let mut mode = mode;
    if uid.is_some() || gid.is_some() {
        if mode.is_none() {
            // A change of owner clears the set-id bits.
            let stat = fs::fstat(folder).context(|| "looking at the volume's folder".to_owned())?;
            mode = Some(stat.st_mode & 0o7777);
        }
        fs::fchown(folder, uid.map(Uid::from_raw), gid.map(Gid::from_raw))
            .context(|| "giving the volume's folder its owner (uid, gid)".to_owned())?;
    }
    match mode {
        Some(mode) => fs::fchmod(folder, Mode::from_raw_mode(mode))
            .context(|| "giving the volume's folder its mode (mountPermissions)".to_owned()),
        None => Ok(()),
    }
}
