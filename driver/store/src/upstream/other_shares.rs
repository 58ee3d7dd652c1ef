//! Looks on the disk for other shares around a folder that is to be deleted: on the way to it, and in it. Who asks may know them by
//! the names of other servers, or not at all. Blocking; must not know ids or gRPC.

use crate::files::beneath;
use crate::files::descriptors::Held;
use crate::files::walking::listing::Listing;
use crate::share::database::{Expect, Share};
use crate::share::error::{Context, ShareError};
use crate::share::paths::claim;
use crate::share::paths::open::blocked;
use crate::share::paths::sub_path::{RECORDS_FOLDER, SubPath};
use rustix::fs::FileType;
use rustix::io::Errno;
use std::ffi::{CStr, OsStr};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a search goes on at a time: a large volume takes long, and calls to one server have few threads.
const TURN: Duration = Duration::from_secs(1);

/// Folders within folders that are searched. Each is kept open, and no export is known to lie so deep.
const DEPTH: usize = 32;

/// Refuses `path` where it is, lies in, or holds the folder of a volume of a share that lies on the way to it.
///
/// # Errors
/// [`ShareError::Overlap`]; [`ShareError::NotPlain`] when such a share cannot be asked; [`ShareError::Blocked`], and I/O errors.
pub(super) fn refuse_taken_on_the_way(share: &Share, path: &SubPath) -> Result<(), ShareError> {
    for (above, rest) in path.above() {
        let folder = beneath::if_there(beneath::folder(share.root(), above.to_path()));
        let folder = folder.map_err(blocked(path, || format!("opening {above}")))?;
        let Some(folder) = folder else {
            return Ok(());
        };
        let is_share = share.is_root_of_another(&folder);
        if !is_share.context(|| format!("looking at {above}"))? {
            continue;
        }
        let inner = Share::open(Arc::new(folder), Expect::Initialised);
        let inner = inner.map_err(|error| match error {
            // Another time it may answer.
            ShareError::Io { .. } => error,
            _ => ShareError::NotPlain {
                path: path.clone(),
                why: format!(
                    "it lies in the share {above}, of whose volumes nothing is known: {error}"
                ),
            },
        })?;
        match claim::refuse_taken(&inner, &rest) {
            Err(ShareError::Overlap {
                relation, volume, ..
            }) => {
                return Err(ShareError::Overlap {
                    path: path.clone(),
                    relation,
                    volume,
                });
            }
            asked => asked?,
        }
    }
    Ok(())
}

/// A search for shares in a folder, which goes on where it was.
#[derive(Default)]
pub struct ShareSearch {
    /// The folders that it is in, from the top down.
    levels: Vec<(Listing, Held)>,
    /// Where in the top folder that is.
    at: PathBuf,
}

impl ShareSearch {
    /// Searches the folder `path` for a while. Returns whether all of it has been searched.
    ///
    /// What this process may not enter holds no share of its: it makes the records folder itself.
    ///
    /// # Errors
    /// [`ShareError::NotPlain`] when there is a share in it, or something is mounted in it, which may be one;
    /// [`ShareError::Blocked`], and I/O errors.
    pub(super) fn go_on(&mut self, share: &Share, path: &SubPath) -> Result<bool, ShareError> {
        let ended = self.go_on_for(share, path, TURN);
        if ended.is_err() {
            // Here, since a close may wait for the server. The next one begins anew.
            *self = Self::default();
        }
        ended
    }

    fn go_on_for(
        &mut self,
        share: &Share,
        path: &SubPath,
        turn: Duration,
    ) -> Result<bool, ShareError> {
        let context = || format!("searching {path} for shares");
        let end = Instant::now() + turn;
        if self.levels.is_empty() {
            let top = beneath::if_there(beneath::folder(share.root(), path.to_path()));
            let Some(top) = top.map_err(blocked(path, context))? else {
                return Ok(true);
            };
            let listing = Listing::open(&top, false).context(context)?;
            self.levels.push((listing, Held::need(1)));
        }
        while let Some((listing, _)) = self.levels.last_mut() {
            match listing.next() {
                Ok(Some((name, FileType::Directory | FileType::Unknown))) => {
                    self.look_at(share, path, &name)?;
                }
                Ok(Some(_)) => {}
                Ok(None) | Err(Errno::NOENT | Errno::STALE) => self.leave().context(context)?,
                Err(error) => return Err(error).context(context),
            }
            if Instant::now() >= end {
                return Ok(self.levels.is_empty());
            }
        }
        Ok(true)
    }

    /// Looks at what is called `name` in the folder that the search is in, and enters it where it is a folder.
    fn look_at(&mut self, share: &Share, path: &SubPath, name: &CStr) -> Result<(), ShareError> {
        let context = || format!("searching {path} for shares");
        let depth = self.levels.len();
        let Some(here) = self.levels.last().map(|(listing, _)| listing.folder()) else {
            return Ok(());
        };
        if name.to_bytes() == RECORDS_FOLDER.as_bytes()
            && share.is_root_of_another(here).context(context)?
        {
            return Err(share_in(path, &self.at));
        }
        if depth >= DEPTH {
            return Ok(());
        }
        let name = Path::new(OsStr::from_bytes(name.to_bytes()));
        match beneath::folder(here, name) {
            Ok(folder) => self.enter(&folder, name).context(context),
            Err(error) => match beneath::errno(&error) {
                Some(Errno::XDEV) => Err(ShareError::NotPlain {
                    path: path.clone(),
                    why: format!(
                        "something is mounted in it, at {}; unmount that first",
                        self.at.join(name).display()
                    ),
                }),
                // No folder; or gone.
                Some(
                    Errno::NOTDIR
                    | Errno::LOOP
                    | Errno::NOENT
                    | Errno::STALE
                    | Errno::ACCESS
                    | Errno::PERM,
                ) => Ok(()),
                _ => Err(error).context(context),
            },
        }
    }

    fn enter(&mut self, folder: &OwnedFd, name: &Path) -> std::io::Result<()> {
        self.levels
            .push((Listing::open(folder, false)?, Held::need(1)));
        self.at.push(name);
        Ok(())
    }

    /// Goes up. A server that has forgotten the top folder has all others look as if they were gone.
    fn leave(&mut self) -> std::io::Result<()> {
        self.at.pop();
        match (self.levels.pop(), self.levels.is_empty()) {
            (Some((top, _)), true) => beneath::refresh(top.folder()),
            _ => Ok(()),
        }
    }
}

/// The error for a share in the folder `path`, at `at`.
fn share_in(path: &SubPath, at: &Path) -> ShareError {
    ShareError::NotPlain {
        path: path.clone(),
        why: format!(
            "it holds the share {}, with the records {RECORDS_FOLDER} of its volumes; if they are none, remove that folder",
            at.display()
        ),
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests may block")]
mod tests {
    use super::*;
    use std::fs;

    fn share(folder: &tempfile::TempDir) -> Share {
        let root = fs::File::open(folder.path()).unwrap();
        Share::open(Arc::new(root.into()), Expect::Any).unwrap()
    }

    fn team() -> SubPath {
        SubPath::parse("team").unwrap()
    }

    /// Searches `team`. Returns in how many turns, and what was found.
    fn search(folder: &tempfile::TempDir, turn: Duration) -> (usize, Result<(), ShareError>) {
        let (share, mut search) = (share(folder), ShareSearch::default());
        for turns in 1.. {
            match search.go_on_for(&share, &team(), turn) {
                Ok(false) => {}
                done => return (turns, done.map(drop)),
            }
        }
        unreachable!()
    }

    /// Makes a share of the folder at `path` in `team`.
    fn make_share(folder: &tempfile::TempDir, path: &str) {
        let path = folder.path().join("team").join(path);
        fs::create_dir_all(path.join(".csi-nfs/volumes")).unwrap();
    }

    #[test]
    fn a_search_goes_on_where_it_was() {
        let folder = tempfile::tempdir().unwrap();
        assert!(search(&folder, TURN).1.is_ok());
        let team = folder.path().join("team");
        for path in ["a/b/c", "a/d", "e"] {
            fs::create_dir_all(team.join(path)).unwrap();
            fs::write(team.join(path).join("file"), "").unwrap();
        }
        std::os::unix::fs::symlink(folder.path(), team.join("link")).unwrap();
        let (turns, none) = search(&folder, Duration::ZERO);
        assert!(turns > 5 && none.is_ok(), "{turns} {none:?}");
        make_share(&folder, "a/b/c");
        for turn in [TURN, Duration::ZERO] {
            let found = search(&folder, turn).1.unwrap_err();
            assert!(found.to_string().contains("share a/b/c,"), "{found}");
        }
    }

    #[test]
    fn a_search_ends_in_the_deep() {
        let folder = tempfile::tempdir().unwrap();
        make_share(&folder, &["d"; DEPTH].join("/"));
        assert!(search(&folder, TURN).1.is_ok());
        make_share(&folder, &["d"; DEPTH - 1].join("/"));
        assert!(search(&folder, TURN).1.is_err());
    }

    #[test]
    fn a_folder_that_is_removed_meanwhile_holds_nothing() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("team/a/b")).unwrap();
        let (share, mut search) = (share(&folder), ShareSearch::default());
        while search.at != Path::new("a/b") {
            assert!(!search.go_on_for(&share, &team(), Duration::ZERO).unwrap());
        }
        fs::remove_dir_all(folder.path().join("team")).unwrap();
        while !search.go_on(&share, &team()).unwrap() {}
    }

    #[test]
    fn a_share_on_the_way_that_cannot_be_read_keeps_what_is_in_it() {
        let folder = tempfile::tempdir().unwrap();
        make_share(&folder, "");
        let path = SubPath::parse("team/v").unwrap();
        let refused = refuse_taken_on_the_way(&share(&folder), &path);
        assert!(
            matches!(refused, Err(ShareError::NotPlain { .. })),
            "{refused:?}"
        );
    }
}
