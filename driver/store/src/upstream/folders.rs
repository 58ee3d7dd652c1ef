//! Finds and deletes volumes and snapshots that kubernetes-csi's driver has made, which have no record. Owns the checks that nothing else is deleted. Blocking; must not know ids or gRPC.
//!
//! Such a volume is a folder that anybody may have made, so a path is all there is to go by.

use crate::files::beneath;
use crate::files::roots::Root;
use crate::share::archives::{self, ENDINGS};
use crate::share::database::Share;
use crate::share::error::{Context, ShareError};
use crate::share::paths::open::{blocked, refuse_share};
use crate::share::paths::sub_path::SubPath;
use crate::share::records::volume::OnDelete;
use crate::share::token::fnv;
use crate::share::volume::delete;
use crate::upstream::other_shares::{ShareSearch, refuse_taken_on_the_way};
use rustix::fs::{self, FileType};
use std::os::fd::OwnedFd;

/// Under what name the deletion of `id` is recorded. Ids of other drivers may be longer than a name.
pub fn deletion_name(id: &str) -> String {
    format!("deletion of csi-driver-nfs {:032x}", fnv(id.as_bytes()))
}

/// Whether a folder is at `path`, through no symlink and across no mount.
///
/// # Errors
/// [`ShareError::Blocked`] when something else is there, and I/O errors.
pub fn is_there(root: &Root, path: &SubPath) -> Result<bool, ShareError> {
    open(root, path).map(|folder| folder.is_some())
}

fn open(root: &Root, path: &SubPath) -> Result<Option<OwnedFd>, ShareError> {
    beneath::if_there(beneath::folder(root, path.to_path()))
        .map_err(blocked(path, || format!("opening {path}")))
}

/// Whether there is nothing on the share but what a file system makes itself. One that should hold a volume is then not the
/// share, but the folder on which its disk is to be mounted.
pub fn is_empty(root: &Root) -> Result<bool, ShareError> {
    let names = beneath::some_names(root, 2).context(|| "listing the share".to_owned())?;
    Ok(names.iter().all(|name| name.as_bytes() == b"lost+found"))
}

/// When the archive at `path` was written to last, in seconds since 1970; nothing when it is not there.
///
/// # Errors
/// As for [`archives::open`].
pub fn archive_time(root: &Root, path: &SubPath) -> Result<Option<i64>, ShareError> {
    let archive = archives::open(root, path)?;
    let stat = archive.map(fs::fstat).transpose();
    Ok(stat
        .context(|| format!("looking at the archive {path}"))?
        .map(|stat| stat.st_mtime))
}

/// Deletes the volume `id` in the folder `path`, or archives it, as `on_delete` says. One that is not there (any more) is fine. First the folder is
/// searched for shares: returns false, and has changed nothing, when `search` wants to go on in another turn.
///
/// # Errors
/// [`ShareError::Overlap`] when the folder is, holds or lies in a volume's; [`ShareError::NotPlain`] when it is or holds a share, is
/// a snapshot, or something is mounted in it; [`ShareError::Blocked`] when a symlink, a mount or a file is in the way. Nothing was
/// changed then. [`ShareError::Unfinished`] wants a retry.
pub fn delete_volume(
    share: &Share,
    id: &str,
    path: &SubPath,
    on_delete: OnDelete,
    search: &mut ShareSearch,
) -> Result<bool, ShareError> {
    let search = || search.go_on(share, path);
    delete(share, id, path, on_delete, search, |folder| {
        let names = beneath::some_names(folder, 2)?;
        let only = match names.as_slice() {
            [only] => only.to_str().unwrap_or_default(),
            _ => "",
        };
        // What a snapshot is called, and what it looks like.
        let archive = ENDINGS.iter().any(|ending| {
            only.strip_suffix(ending)
                .is_some_and(|name| name.ends_with('.'))
        });
        let snapshot = path.components().len() == 1 && path.leaf().starts_with("snapshot-");
        Ok((archive && snapshot).then(|| {
            format!("it is a snapshot of kubernetes-csi's driver, with the archive {only:?}")
        }))
    })
}

/// Deletes the snapshot `id`: the folder `path` with one of `archives` in it, or both, or none, and nothing else.
///
/// # Errors
/// As for [`delete_volume`].
pub fn delete_snapshot(
    share: &Share,
    id: &str,
    path: &SubPath,
    archives: &[String],
) -> Result<(), ShareError> {
    // What holds files alone holds no share.
    let search = || Ok(true);
    let deleted = delete(share, id, path, OnDelete::Delete, search, |folder| {
        for name in beneath::some_names(folder, archives.len() + 1)? {
            let stat = fs::statat(folder, &*name, fs::AtFlags::SYMLINK_NOFOLLOW)?;
            let regular = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
            let known = archives
                .iter()
                .any(|archive| archive.as_bytes() == name.as_bytes());
            if !(regular && known) {
                return Ok(Some(format!(
                    "it holds {name:?}, and a snapshot of kubernetes-csi's driver holds its archive {:?} alone",
                    archives.first().map_or("", String::as_str)
                )));
            }
        }
        Ok(None)
    });
    deleted.map(drop)
}

/// Takes away the folder, unless `objection` finds something in it. Returns whether `search`, which is asked after that, has ended.
fn delete(
    share: &Share,
    id: &str,
    path: &SubPath,
    on_delete: OnDelete,
    mut search: impl FnMut() -> Result<bool, ShareError>,
    objection: impl Fn(&OwnedFd) -> std::io::Result<Option<String>>,
) -> Result<bool, ShareError> {
    let look = || {
        let Some(folder) = open(share.root(), path)? else {
            return Ok(false);
        };
        refuse_share(share, path, &folder)?;
        match objection(&folder).context(|| format!("looking at {path}"))? {
            Some(why) => Err(ShareError::NotPlain {
                path: path.clone(),
                why,
            }),
            None => Ok(true),
        }
    };
    delete::delete_unrecorded(share, &deletion_name(id), path, on_delete, look, || {
        refuse_taken_on_the_way(share, path)?;
        search()
    })
}
