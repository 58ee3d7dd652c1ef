//! Takes a folder with files into a project of its own: a volume that was made without one. Tags from the top down, so that what
//! is made meanwhile inherits the project, until a pass finds nothing. Opens regular files and folders alone, and never waits for
//! one. Must not follow a symlink or cross a mount.

use crate::files::beneath;
use crate::files::walking::{DEPTH, EntryKind, TreeWalk};
use crate::quota::error::{Context, QuotaError};
use crate::quota::project;
use crate::quota::project_id::ProjectId;
use csi_sys::project_quota::Amounts;
use rustix::fs;
use rustix::io::Errno;
use std::collections::{BTreeSet, HashMap};
use std::ffi::{CStr, OsStr};
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// How often a folder is gone through before its users are taken to be bringing in files for ever.
const PASSES: usize = 16;
/// What is left out is named up to so many.
const NAMED: usize = 100;

/// Why something stays outside of the project.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq, PartialOrd, Ord)]
pub enum Because {
    /// Symlinks, FIFOs, sockets and devices have no project. On XFS even their rename within the folder is refused then.
    #[error("is neither a file nor a folder: it stays uncounted, and cannot be renamed on XFS")]
    Kind,
    /// It has a name outside of the folder as well, which cannot be renamed into a folder of another project any more.
    #[error("has a name outside of the folder, too")]
    LinkedOutside,
    /// An NFS client holds a delegation of it.
    #[error("is held by an NFS client: try again when the volume is not published")]
    Busy,
    /// Another file system is mounted there.
    #[error("is another file system")]
    Mounted,
}

/// What a folder has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// Folders that were put into the project, or would be.
    pub folders: u64,
    /// Regular files that were, or would be.
    pub files: u64,
    /// What all of them take on the disk, whether they were put into it now or before.
    pub used: Amounts,
    /// What stays outside, by its path; not all of it where there is much.
    pub outside: Vec<(PathBuf, Because)>,
    /// How much stays outside.
    pub outside_count: u64,
    /// How much of that an NFS client holds now.
    pub busy: u64,
}

/// Says what [`enable_quota`] would do to an open folder, and changes nothing. `begun` is the project that it is to have, where one
/// was begun with; files may come from `former` ones.
///
/// # Errors
/// [`QuotaError::OtherProject`], [`QuotaError::Deep`], and I/O errors.
pub fn look(
    folder: impl AsFd,
    begun: Option<ProjectId>,
    former: &Former,
) -> Result<Found, QuotaError> {
    pass(folder, begun, former, None)
}

/// Projects that are this folder's too, and of which files may be left in it.
pub type Former = BTreeSet<ProjectId>;

/// Puts an open folder and all that is in it into the project `id`, which nothing else has. A repeat goes on where it ended.
///
/// # Errors
/// [`QuotaError::OtherProject`], [`QuotaError::Deep`], [`QuotaError::Restless`], and I/O errors.
pub fn enable_quota(
    folder: impl AsFd,
    id: ProjectId,
    former: &Former,
) -> Result<Found, QuotaError> {
    let folder = folder.as_fd();
    let mut all = Found::default();
    for _ in 0..PASSES {
        let found = pass(folder, Some(id), former, Some(id))?;
        all = Found {
            folders: all.folders + found.folders,
            files: all.files + found.files,
            ..found
        };
        if (found.folders, found.files) == (0, 0) {
            return Ok(all);
        }
    }
    Err(QuotaError::Restless(PASSES, id))
}

/// Whether a file or folder of that project is to be put into `id`; a dry run may have no `id` yet.
fn is_new(project: u32, id: Option<ProjectId>, former: &Former) -> Result<bool, QuotaError> {
    match project {
        0 => Ok(true),
        project if id.is_some_and(|id| id.number() == project) => Ok(false),
        project if ProjectId::new(project).is_some_and(|id| former.contains(&id)) => Ok(true),
        found => Err(QuotaError::OtherProject(found)),
    }
}

/// Goes through a folder once.
fn pass(
    folder: impl AsFd,
    id: Option<ProjectId>,
    former: &Former,
    puts_into: Option<ProjectId>,
) -> Result<Found, QuotaError> {
    let context = "going through a folder";
    let top = beneath::folder(folder, ".").context(context)?;
    let mut pass = Pass {
        id,
        former,
        puts_into,
        found: Found::default(),
        links: HashMap::new(),
    };
    pass.enter(&top)?;
    let mut walk = TreeWalk::begin(&top, PathBuf::new()).context(context)?;
    while let Some(met) = walk.next().context(context)?
        && let Some((folder, above)) = walk.here()
    {
        let path = above.join(OsStr::from_bytes(met.name.to_bytes()));
        if let Some(entered) = pass.entry(folder, &met.name, &path, met.kind)? {
            pass.enter(&entered)?;
            walk.enter(&entered, path).context("listing a folder")?;
        }
    }
    for (_, (missing, path)) in std::mem::take(&mut pass.links) {
        if missing > 0 {
            pass.leave(&path, Because::LinkedOutside)?;
        }
    }
    Ok(pass.found)
}

/// One way through a folder.
struct Pass<'a> {
    /// The folder's project, where it has one.
    id: Option<ProjectId>,
    former: &'a Former,
    /// What is not in it yet is put into this project; nothing is, where it only looks.
    puts_into: Option<ProjectId>,
    found: Found,
    /// Files with several names: how many of them were not met yet, and one that was.
    links: HashMap<u64, (u64, PathBuf)>,
}

impl Pass<'_> {
    /// Does what is to be done with an entry of `folder`, and returns it where it is a folder itself.
    fn entry(
        &mut self,
        folder: &OwnedFd,
        name: &CStr,
        path: &Path,
        kind: EntryKind,
    ) -> Result<Option<OwnedFd>, QuotaError> {
        let name = OsStr::from_bytes(name.to_bytes());
        let opened = match kind {
            EntryKind::Folder => beneath::folder(folder, name),
            // Never blocks: EAGAIN where an NFS client would have to give it back first.
            EntryKind::File => beneath::file(folder, name),
            EntryKind::Other => return self.leave(path, Because::Kind),
            EntryKind::Mounted => return self.leave(path, Because::Mounted),
            // In no project, it and all that is ever made in it: what nobody would count.
            EntryKind::Deep => return Err(QuotaError::Deep(DEPTH)),
        };
        let file = match opened {
            Ok(file) => file,
            Err(error) => match beneath::errno(&error) {
                // Gone, or something else since the look: the next pass sees what it is.
                Some(Errno::NOENT | Errno::LOOP | Errno::NOTDIR | Errno::NXIO) => return Ok(None),
                Some(Errno::AGAIN) => return self.leave(path, Because::Busy),
                Some(Errno::XDEV) => return self.leave(path, Because::Mounted),
                _ => return Err(error).context("opening a file to put it into its project"),
            },
        };
        if kind == EntryKind::Folder {
            return Ok(Some(file));
        }
        self.file(File::from(file), path)?;
        Ok(None)
    }

    fn file(&mut self, file: File, path: &Path) -> Result<(), QuotaError> {
        let metadata = file.metadata().context("looking at a file")?;
        // Something else was put there since the look.
        if !metadata.is_file() {
            return Ok(());
        }
        let mut is_first = true;
        if metadata.nlink() > 1 {
            let link = (metadata.nlink(), path.to_owned());
            is_first = !self.links.contains_key(&metadata.ino());
            let missing = &mut self.links.entry(metadata.ino()).or_insert(link).0;
            *missing = missing.saturating_sub(1);
        }
        if !is_first {
            return Ok(());
        }
        if is_new(project::number_of(&file)?, self.id, self.former)? {
            if let Some(id) = self.puts_into {
                project::tag_file(&file, id)?;
            }
            self.found.files += 1;
        }
        self.count(metadata.blocks());
        Ok(())
    }

    /// Tags a folder, before its names are read: what comes later inherits.
    fn enter(&mut self, folder: &OwnedFd) -> Result<(), QuotaError> {
        if is_new(project::number_of(folder)?, self.id, self.former)? {
            self.found.folders += 1;
        }
        let stat = fs::fstat(folder).context("looking at a folder")?;
        self.count(stat.st_blocks.unsigned_abs());
        if let Some(id) = self.puts_into {
            project::tag(folder, id)?;
        }
        Ok(())
    }

    /// Counts a folder or file that has so many blocks of stat(2).
    fn count(&mut self, blocks: u64) {
        self.found.used.bytes += blocks * 512;
        self.found.used.inodes += 1;
    }

    /// Leaves an entry outside, which is nothing to be entered then.
    fn leave(&mut self, path: &Path, why: Because) -> Result<Option<OwnedFd>, QuotaError> {
        self.found.outside_count += 1;
        self.found.busy += u64::from(why == Because::Busy);
        if self.found.outside.len() < NAMED {
            self.found.outside.push((path.to_owned(), why));
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_is_counted_whole_or_refused() {
        let top = tempfile::tempdir().unwrap();
        let look = || look(File::open(top.path()).unwrap(), None, &Former::new());
        let deepest = top.path().join(vec!["d"; DEPTH].join("/"));
        // The last of them lies too deep to be entered.
        std::fs::create_dir_all(deepest.parent().unwrap()).unwrap();
        let whole = look().map(|found| (found.folders, found.outside_count));
        std::fs::create_dir(&deepest).unwrap();
        match (whole, look()) {
            (Ok(whole), Err(QuotaError::Deep(_))) => assert_eq!(whole, (DEPTH as u64, 0)),
            // A file system that knows no projects.
            (Err(QuotaError::Io { .. }), Err(QuotaError::Io { .. })) => {}
            (whole, deep) => panic!("{whole:?} {deep:?}"),
        }
    }

    #[test]
    fn files_of_another_project_are_refused() {
        let id = ProjectId::new(7);
        let former = ProjectId::new(9).into_iter().collect();
        for (project, id, expected) in [
            (0, id, Some(true)),
            (7, id, Some(false)),
            (8, id, None),
            (9, id, Some(true)),
            (0, None, Some(true)),
            (7, None, None),
        ] {
            assert_eq!(is_new(project, id, &former).ok(), expected, "{project}");
        }
    }
}
