//! Makes the folder for what must outlive a restart, and checks that others neither look into it nor write in it. Owns these checks,
//! the private folder below an open one, and how files there are opened; must not know what is kept there.

use rustix::fs::{Mode, OFlags};
use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// The permissions of others that a private folder has not.
const ALL_OF_OTHERS: u32 = 0o077;
/// The permission of others to write.
const WRITING_OF_OTHERS: u32 = 0o022;
/// The private folder below a work folder in which others may write.
const BELOW: &str = "csi-nfs";

/// Where a driver keeps its things.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkFolder {
    /// The folder, in which nobody else may write.
    pub path: PathBuf,
    /// Whether it lies in the folder that was given, because others may write in that one.
    pub is_below: bool,
}

/// What is known of a folder that was given as the work folder.
#[derive(Clone, Copy, Debug)]
struct Seen {
    is_folder: bool,
    owner: u32,
    mode: u32,
}

/// Makes ready the work folder that `given` names, and the folders above it. Nothing that is there already is changed: `/tmp`
/// given by mistake must stay what it is. Where others may write in it, a private folder below it is taken instead.
///
/// # Errors
/// When it cannot be made, or is there and cannot be used; the error says what to do.
pub fn prepare(given: &Path) -> io::Result<WorkFolder> {
    let (path, seen) = make(given)?;
    if !lies_open(seen, user()) {
        closed_to_others(seen, WRITING_OF_OTHERS)?;
        let is_below = false;
        return Ok(WorkFolder { path, is_below });
    }
    let below = path.join(BELOW);
    // What somebody has put there first is found by its kind, its owner or its mode.
    private_folder(&below).map_err(|error| {
        let (shown, private) = (path.display(), below.display());
        let problem = format!(
            "others may write in {shown}, so the private folder {private} is used, which {error}"
        );
        io::Error::new(error.kind(), problem)
    })?;
    Ok(WorkFolder {
        path: below,
        is_below: true,
    })
}

/// Makes a folder in which nobody else may write, and those above it. Others may look into it, as an orchestrator that makes it
/// for the driver lets them. One that is there already must be such a folder and is not changed.
///
/// # Errors
/// When it cannot be made, or is there and belongs to somebody else or is open to others; the error says what to do.
pub fn own_folder(folder: &Path) -> io::Result<()> {
    closed_to_others(make(folder)?.1, WRITING_OF_OTHERS)
}

/// The same for a folder into which nobody else may look either.
///
/// # Errors
/// As [`own_folder`].
pub fn private_folder(folder: &Path) -> io::Result<()> {
    closed_to_others(make(folder)?.1, ALL_OF_OTHERS)
}

/// Opens what is in a file's place, and does not wait for the other end of a FIFO that somebody has put there.
pub fn open(path: &Path, how: OFlags) -> rustix::io::Result<File> {
    let how = how | OFlags::CLOEXEC | OFlags::NONBLOCK;
    rustix::fs::open(path, how, Mode::empty()).map(File::from)
}

/// An empty file at `path` that is new: what was there, such as the draft of a process that was killed, or a symlink or FIFO that
/// somebody has put there, is removed.
///
/// # Errors
/// When a folder is there, or the file cannot be made.
pub fn new_file(path: &Path) -> io::Result<File> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut how = OpenOptions::new();
    how.write(true).create_new(true).mode(0o600).open(path)
}

fn closed_to_others(seen: Seen, denied: u32) -> io::Result<()> {
    let refused = |problem| io::Error::new(io::ErrorKind::PermissionDenied, problem);
    objection(seen, user(), denied).map_or(Ok(()), |problem| Err(refused(problem)))
}

/// Makes a folder that is not there, and looks at it. Returns its path without a slash at the end, which would follow a symlink.
fn make(folder: &Path) -> io::Result<(PathBuf, Seen)> {
    let folder: PathBuf = folder.components().collect();
    if let Some(parent) = folder.parent() {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(parent)?;
    }
    match DirBuilder::new().mode(0o700).create(&folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    let there = folder.symlink_metadata()?;
    let seen = Seen {
        is_folder: there.is_dir(),
        owner: there.uid(),
        mode: there.mode() & 0o7777,
    };
    Ok((folder, seen))
}

fn user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Whether a private folder below it is used: it is an `emptyDir` of Kubernetes, or one like that.
fn lies_open(seen: Seen, user: u32) -> bool {
    // Only root's folders are trusted beside one's own: another owner could exchange what lies below.
    let is_trusted = seen.owner == user || seen.owner == 0;
    seen.is_folder && is_trusted && seen.mode & WRITING_OF_OTHERS != 0
}

/// Why a folder is not one of `user` alone, without the permissions `denied` for others.
fn objection(seen: Seen, user: u32, denied: u32) -> Option<String> {
    let Seen {
        is_folder,
        owner,
        mode,
    } = seen;
    if !is_folder {
        return Some("is not a folder (or is a symlink): name the folder itself".to_owned());
    }
    if owner != user {
        return Some(format!(
            "belongs to user {owner} and this is user {user}: name a folder of this user, or one that does not exist yet"
        ));
    }
    (mode & denied != 0).then(|| {
        format!(
            "is open to other users (mode {mode:04o}): name another folder, one that does not exist yet is made, or \
             chmod 700 this one if it is for the driver alone"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    fn mode(path: &Path) -> u32 {
        path.metadata().unwrap().mode() & 0o7777
    }

    fn chmod(path: &Path, mode: u32) {
        std::fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn a_folder_that_is_there_is_checked_and_not_changed() {
        let dir = tempfile::tempdir().unwrap();
        let made = dir.path().join("a/b");
        private_folder(&made).unwrap();
        assert_eq!(mode(&made), 0o700);
        for (open, private, own) in [
            (0o700, true, true),
            (0o755, false, true),
            (0o1777, false, false),
        ] {
            chmod(&made, open);
            assert_eq!(private_folder(&made).is_ok(), private, "{open:o}");
            assert_eq!(own_folder(&made).is_ok(), own, "{open:o}");
            assert_eq!(mode(&made), open);
        }
        let link = dir.path().join("link");
        std::os::unix::fs::symlink("/tmp", &link).unwrap();
        assert!(own_folder(&link).is_err());
        assert!(own_folder(&link.join("")).is_err());
        assert!(prepare(&link.join("")).is_err());
        std::fs::write(dir.path().join("file"), "").unwrap();
        assert!(own_folder(&dir.path().join("file")).is_err());
        if rustix::process::geteuid().is_root() {
            let theirs = dir.path().join("theirs");
            private_folder(&theirs).unwrap();
            std::os::unix::fs::chown(&theirs, Some(65_534), None).unwrap();
            let error = own_folder(&theirs).unwrap_err().to_string();
            assert!(error.contains("65534"), "{error}");
        }
    }

    #[test]
    fn what_becomes_of_a_work_folder() {
        let decided = |is_folder, owner, mode| {
            let seen = Seen {
                is_folder,
                owner,
                mode,
            };
            match objection(seen, 1000, WRITING_OF_OTHERS) {
                _ if lies_open(seen, 1000) => "below",
                Some(_) => "refused",
                None => "itself",
            }
        };
        for (owner, mode, expected) in [
            (1000, 0o700, "itself"),
            (1000, 0o755, "itself"),
            (1000, 0o777, "below"),
            (1000, 0o2770, "below"),
            // An emptyDir, and /tmp.
            (0, 0o777, "below"),
            (0, 0o1777, "below"),
            (0, 0o755, "refused"),
            (1001, 0o700, "refused"),
            (1001, 0o777, "refused"),
        ] {
            assert_eq!(decided(true, owner, mode), expected, "{owner} {mode:o}");
            assert_eq!(decided(false, owner, mode), "refused");
        }
    }

    #[test]
    fn below_an_open_folder_lies_a_private_one() {
        let dir = tempfile::tempdir().unwrap();
        let open = dir.path().join("empty-dir");
        std::fs::create_dir(&open).unwrap();
        chmod(&open, 0o777);
        for _ in 0..2 {
            let found = prepare(&open).unwrap();
            assert!(found.is_below);
            assert_eq!(found.path, open.join(BELOW));
            assert_eq!((mode(&found.path), mode(&open)), (0o700, 0o777));
        }
        let below = open.join(BELOW);
        let refusal = || {
            let error = prepare(&open).unwrap_err().to_string();
            assert!(error.contains(below.to_str().unwrap()), "{error}");
            error
        };
        // What somebody else has planted there.
        chmod(&below, 0o777);
        assert!(refusal().contains("mode 0777"));
        if rustix::process::geteuid().is_root() {
            chmod(&below, 0o700);
            std::os::unix::fs::chown(&below, Some(65_534), None).unwrap();
            assert!(refusal().contains("65534"));
        }
        std::fs::remove_dir(&below).unwrap();
        let elsewhere = dir.path().join("elsewhere");
        std::fs::create_dir(&elsewhere).unwrap();
        chmod(&elsewhere, 0o700);
        std::os::unix::fs::symlink(&elsewhere, &below).unwrap();
        assert!(refusal().contains("symlink"));
        assert_eq!(elsewhere.read_dir().unwrap().count(), 0);
    }
}
