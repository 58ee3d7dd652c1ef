//! Opening files below a folder in a way that cannot leave it: no symlink is followed and no mount is crossed.
//! Every path on a share goes through here; nothing here knows what the files mean.

use rustix::fs::{self, Dir, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use std::collections::BTreeSet;
use std::ffi::{CStr, CString};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Component, Path};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Set once the kernel, or a container's system call filter, has shown to have no openat2.
static NO_OPENAT2: AtomicBool = AtomicBool::new(false);

/// How often a folder that changes while it is read is read.
const READINGS: usize = 4;

const FOLDER: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

const FOLDER_HANDLE: OFlags = OFlags::PATH
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

/// Opens the folder at `path` (relative, without `..`) below `at`.
///
/// # Errors
/// ELOOP for a symlink anywhere in it, ENOTDIR for what is no folder, EXDEV for a mount; and whatever open(2) says.
pub fn folder(at: impl AsFd, path: impl AsRef<Path>) -> io::Result<OwnedFd> {
    open(at, path.as_ref(), FOLDER)
}

/// Opens the file at `path` below `at` for reading. Never blocks on a FIFO.
///
/// # Errors
/// As for [`folder`].
pub fn file(at: impl AsFd, path: impl AsRef<Path>) -> io::Result<OwnedFd> {
    let flags =
        OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    open(at, path.as_ref(), flags)
}

/// Opens the file at `path` below `at`, which is there, for writing.
///
/// # Errors
/// As for [`folder`].
pub fn file_to_write(at: impl AsFd, path: impl AsRef<Path>) -> io::Result<OwnedFd> {
    let flags =
        OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    open(at, path.as_ref(), flags)
}

/// A handle of whatever is at `path` below `at`, with which nothing can be done but to look at it, or to open it after that.
///
/// # Errors
/// As for [`folder`].
pub fn handle(at: impl AsFd, path: impl AsRef<Path>) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    open(at, path.as_ref(), flags)
}

/// A handle of the folder at `path` below `at`: names are looked up in it as in an open one. Where the folder above has just
/// been opened, an NFS client asks the server nothing.
///
/// # Errors
/// As for [`folder`].
pub fn folder_handle(at: impl AsFd, path: impl AsRef<Path>) -> io::Result<OwnedFd> {
    open(at, path.as_ref(), FOLDER_HANDLE)
}

/// Changes the mode of the folder `name` in `at`, which need not be one that this process may enter.
///
/// # Errors
/// As for [`folder`], and whatever chmod(2) says.
pub fn change_mode(at: impl AsFd, name: impl AsRef<Path>, mode: Mode) -> io::Result<()> {
    let folder = folder_handle(at, name)?;
    // chmod by name would follow a symlink that was put there since, and fchmod refuses an O_PATH descriptor. This link
    // leads to the very folder that was opened.
    let link = format!("/proc/self/fd/{}", folder.as_raw_fd());
    Ok(fs::chmod(link, mode)?)
}

fn open(at: impl AsFd, path: &Path, flags: OFlags) -> io::Result<OwnedFd> {
    patiently(|| open_once(&at, path, flags))
}

fn open_once(at: impl AsFd, path: &Path, flags: OFlags) -> io::Result<OwnedFd> {
    if !NO_OPENAT2.load(Ordering::Relaxed) {
        let resolve = ResolveFlags::BENEATH
            | ResolveFlags::NO_SYMLINKS
            | ResolveFlags::NO_MAGICLINKS
            | ResolveFlags::NO_XDEV;
        // EAGAIN: a rename elsewhere made the kernel unsure of its walk. EXDEV says so too, of a folder that another thread
        // has moved in this moment; it is gone then, and a mount is still there.
        let mut moved = 0;
        for _ in 0..128 {
            match fs::openat2(&at, path, flags, Mode::empty(), resolve) {
                Ok(fd) => return Ok(fd),
                Err(Errno::AGAIN) => {}
                Err(Errno::XDEV) if moved < 2 => moved += 1,
                Err(Errno::NOSYS) => {
                    NO_OPENAT2.store(true, Ordering::Relaxed);
                    break;
                }
                // Old container runtimes answer so for calls they do not know; the walk below tells the truth.
                Err(Errno::PERM) => break,
                Err(other) => return Err(other.into()),
            }
        }
    }
    walk(at, path, flags)
}

/// Repeats what reports ESTALE, or EAGAIN, for a little while.
///
/// An NFS client reports it for a folder that is gone, and also, seen with two clients, for one that another client has
/// moved, while this one moves things too: its kernel cannot get the locks to move its own entry after it. Only the second
/// passes; taken for the first, it would say that something is gone that is not.
///
/// On the server itself an open that must not block reports EAGAIN while an NFS client has a delegation of the file. A client
/// that lives gives it back within some round trips; one that has vanished keeps it for its lease, which nobody waits for here.
fn patiently<T, E: Into<io::Error>>(mut work: impl FnMut() -> Result<T, E>) -> io::Result<T> {
    for wait in 1..=12 {
        match work().map_err(Into::into) {
            Err(error) if matches!(errno(&error), Some(Errno::STALE | Errno::AGAIN)) => {
                std::thread::sleep(Duration::from_millis(wait));
            }
            other => return other,
        }
    }
    work().map_err(Into::into)
}

/// Removes the file `name` in `at`.
///
/// # Errors
/// Whatever unlink(2) says.
pub fn unlink(at: impl AsFd, name: &CStr) -> Result<(), Errno> {
    patiently(|| fs::unlinkat(&at, name, fs::AtFlags::empty()))
        .map_err(|error| errno(&error).unwrap_or(Errno::IO))
}

/// Renames `from` in `at` to `to` in `there`; it replaces an empty folder when `from` is a folder.
///
/// # Errors
/// Whatever rename(2) says.
pub fn rename(at: impl AsFd, from: &str, there: impl AsFd, to: &str) -> Result<(), Errno> {
    patiently(|| fs::renameat(&at, from, &there, to))
        .map_err(|error| errno(&error).unwrap_or(Errno::IO))
}

/// The same without openat2: one component after the other, each opened without following.
fn walk(at: impl AsFd, path: &Path, flags: OFlags) -> io::Result<OwnedFd> {
    let device = fs::fstat(&at)?.st_dev;
    let mut current = fs::openat(&at, ".", FOLDER, Mode::empty())?;
    let mut components = path.components().peekable();
    while let Some(component) = components.next() {
        let name = match component {
            Component::CurDir => continue,
            Component::Normal(name) => name,
            _ => return Err(Errno::XDEV.into()),
        };
        let step = if components.peek().is_some() {
            FOLDER
        } else {
            flags
        };
        current = fs::openat(&current, name, step, Mode::empty())?;
        if fs::fstat(&current)?.st_dev != device {
            return Err(Errno::XDEV.into());
        }
    }
    Ok(current)
}

/// Asks the server how an open folder is now. An NFS client may believe for half a minute that the names in a folder are what
/// they were; after this it asks for those that have changed.
///
/// # Errors
/// ESTALE when the server does not know the folder any more. What else goes wrong is met again by whoever uses it.
pub fn refresh(folder: impl AsFd) -> io::Result<()> {
    last_change(folder).map(drop)
}

/// When a folder was changed last, and how many folders are in it: a time is only as fine as the server's clock ticks.
type Change = (i64, u32, u32);

/// As [`refresh`]; nothing where the server does not say it.
fn last_change(folder: impl AsFd) -> io::Result<Option<Change>> {
    let how = fs::AtFlags::EMPTY_PATH | fs::AtFlags::STATX_FORCE_SYNC;
    match fs::statx(folder, "", how, fs::StatxFlags::BASIC_STATS) {
        Err(Errno::STALE) => Err(Errno::STALE.into()),
        Err(_) => Ok(None),
        Ok(now) => {
            let at = now.stx_ctime;
            Ok(Some((at.tv_sec, at.tv_nsec, now.stx_nlink)))
        }
    }
}

/// Has the server say what `name` in `at` is. After this whoever looks for the name, or opens it, finds what is there now.
///
/// An NFS client believes a name that it knows as long as it sees no change of the folder, and by [`refresh`] it sees none that
/// came within one tick of the server's clock after the one that it has seen: over version 3 always, over version 4 where the
/// server's file system counts no changes. What must not be wrong is asked for by its name.
///
/// # Errors
/// ESTALE when the server does not know the folder any more. What else goes wrong is met again by whoever looks.
pub fn ask(at: impl AsFd, name: impl AsRef<Path>) -> io::Result<()> {
    // A hard link to a folder is never made. Before that is said, the kernel sees to it that the new name is free, and for a
    // name that must be free its NFS client believes nothing that it knows (LOOKUP_EXCL).
    match fs::linkat(fs::CWD, "/", at, name.as_ref(), fs::AtFlags::empty()) {
        Err(Errno::STALE) => Err(Errno::STALE.into()),
        _ => Ok(()),
    }
}

/// As [`folder`], where the server is asked for each name on the way.
///
/// # Errors
/// As for [`folder`].
pub fn folder_now(at: impl AsFd, path: impl AsRef<Path>) -> io::Result<OwnedFd> {
    patiently(|| {
        let mut current = open_once(&at, Path::new("."), FOLDER)?;
        for component in path.as_ref().components() {
            match component {
                Component::CurDir => {}
                Component::Normal(name) => {
                    ask(&current, name)?;
                    current = open_once(&current, Path::new(name), FOLDER)?;
                }
                _ => return Err(Errno::XDEV.into()),
            }
        }
        Ok::<_, io::Error>(current)
    })
}

/// Makes the folder `name` in `at` with `mode` less the umask; an existing folder is fine and stays as it is.
/// Returns whether it was made.
///
/// # Errors
/// Whatever mkdir(2) says, but EEXIST.
pub fn make_folder(at: impl AsFd, name: &str, mode: u32) -> io::Result<bool> {
    match patiently(|| fs::mkdirat(&at, name, Mode::from_raw_mode(mode))) {
        Ok(()) => Ok(true),
        Err(error) if errno(&error) == Some(Errno::EXIST) => Ok(false),
        Err(other) => Err(other),
    }
}

/// Whether `name` is in `at` now, whatever it is; symlinks are not followed.
///
/// # Errors
/// Whatever stat(2) says, but ENOENT.
pub fn exists(at: impl AsFd, name: &str) -> io::Result<bool> {
    inode(at, name).map(|inode| inode.is_some())
}

/// The inode number of `name` in `at` as it is now, whatever it is; nothing when it is not there. Symlinks are not followed.
///
/// # Errors
/// Whatever stat(2) says, but ENOENT.
pub fn inode(at: impl AsFd, name: &str) -> io::Result<Option<u64>> {
    let look = || fs::statat(&at, name, fs::AtFlags::SYMLINK_NOFOLLOW);
    // What another client has moved away is there for this one as long as it believes to know the folder; what is not there
    // it asks for each time.
    let look_twice = || {
        look()?;
        ask(&at, name)?;
        Ok::<_, io::Error>(look()?)
    };
    match patiently(look_twice) {
        Ok(stat) => Ok(Some(stat.st_ino)),
        Err(error) if errno(&error) == Some(Errno::NOENT) => Ok(None),
        Err(other) => Err(other),
    }
}

/// The inode number of an open folder, without asking the server: it never changes.
///
/// # Errors
/// Whatever stat(2) says.
pub fn own_inode(folder: impl AsFd) -> io::Result<u64> {
    let how = fs::AtFlags::EMPTY_PATH | fs::AtFlags::STATX_DONT_SYNC;
    match fs::statx(&folder, "", how, fs::StatxFlags::INO) {
        Ok(stat) => Ok(stat.stx_ino),
        // A container's system call filter.
        Err(_) => Ok(fs::fstat(folder)?.st_ino),
    }
}

/// Writes a new file `name` in `at`, mode 0600, and returns when it is on disk. The name is one that nobody else uses: drawn
/// by chance, or in a folder of the caller's.
///
/// # Errors
/// Whatever the writes say; the file may then be there in part.
pub fn write_new(at: impl AsFd, name: &str, content: &[u8]) -> io::Result<()> {
    // Without EXCL, which takes one more call over NFS.
    let flags =
        OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut file = File::from(fs::openat(at, name, flags, Mode::from_raw_mode(0o600))?);
    file.write_all(content)?;
    file.sync_all()
}

/// The content of the regular file `name` in `at`, when it has at most `limit` bytes.
///
/// # Errors
/// InvalidData for what is longer or no regular file, and whatever open(2) and read(2) say.
pub fn read(at: impl AsFd, name: &str, limit: u64) -> io::Result<Vec<u8>> {
    let fd = file(at, name)?;
    let stat = fs::fstat(&fd)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "it is not a regular file",
        ));
    }
    // In one piece: what begins without room reads 32 bytes, then as many again, and so on.
    let size = u64::try_from(stat.st_size).unwrap_or_default().min(limit);
    let mut content = Vec::with_capacity(usize::try_from(size + 1).unwrap_or_default());
    File::from(fd).take(limit + 1).read_to_end(&mut content)?;
    if content.len() as u64 > limit {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "it is too long"));
    }
    Ok(content)
}

/// The names in a folder, open or a handle, but `.` and `..`, in no order.
///
/// # Errors
/// Whatever open(2) and getdents(2) say.
pub fn names(folder: impl AsFd) -> io::Result<Vec<CString>> {
    some_names(folder, usize::MAX)
}

/// At most `most` of them, in a folder that may have millions.
///
/// # Errors
/// As for [`names`].
pub fn some_names(folder: impl AsFd, most: usize) -> io::Result<Vec<CString>> {
    // Opened anew: an open folder's position is shared, and a handle has none.
    names_in(Dir::new(self::folder(folder, ".")?)?, most)
}

fn names_in(folder: Dir, most: usize) -> io::Result<Vec<CString>> {
    let mut names = Vec::new();
    for entry in folder {
        let entry = entry?;
        let name = entry.file_name();
        if !matches!(name.to_bytes(), b"." | b"..") {
            names.push(name.to_owned());
        }
        if names.len() == most {
            break;
        }
    }
    Ok(names)
}

/// The names in a folder that was opened a moment ago, but `.` and `..`, in no order. Nobody else reads from it, before or
/// after. A server is not asked about the folder again.
///
/// # Errors
/// Whatever getdents(2) says.
pub fn names_of_opened(folder: &OwnedFd) -> io::Result<Vec<CString>> {
    names_in(Dir::new(folder.try_clone()?)?, usize::MAX)
}

/// The names that are in a folder now, but `.` and `..`, in no order. Where others change the folder all the time, a name may be
/// among them that has just gone.
///
/// A server answers in pieces, and some count places (tmpfs of Linux before 6.6): where a name goes between two pieces, one that
/// stays is missing. So the folder is read again when it has changed meanwhile, and what any reading found counts. Two changes
/// within one tick of the server's clock look like one.
///
/// # Errors
/// Whatever open(2) and getdents(2) say.
pub fn names_now(folder: impl AsFd) -> io::Result<Vec<CString>> {
    until_settled(|| last_change(&folder), || names(&folder))
}

/// The first reading during which `last_change` stayed the same. Where there is none among [`READINGS`], every name that one of
/// them found.
fn until_settled(
    mut last_change: impl FnMut() -> io::Result<Option<Change>>,
    mut read: impl FnMut() -> io::Result<Vec<CString>>,
) -> io::Result<Vec<CString>> {
    let mut all = BTreeSet::new();
    let mut before = last_change()?;
    for _ in 0..READINGS {
        let found = read()?;
        let after = last_change()?;
        if before == after {
            return Ok(found);
        }
        all.extend(found);
        before = after;
    }
    Ok(all.into_iter().collect())
}

/// Makes a folder's entries durable, also by a handle. Some servers know no fsync of folders; theirs are durable at once.
///
/// # Errors
/// Whatever fsync(2) says, but EINVAL.
pub fn sync(folder: impl AsFd) -> io::Result<()> {
    let synced = match fs::fsync(&folder) {
        Err(Errno::BADF) => fs::fsync(self::folder(folder, ".")?),
        other => other,
    };
    match synced {
        Ok(()) | Err(Errno::INVAL) => Ok(()),
        Err(other) => Err(other.into()),
    }
}

/// The error's number.
pub fn errno(error: &io::Error) -> Option<Errno> {
    Errno::from_io_error(error)
}

/// What was found; nothing where it does not exist (any more).
///
/// # Errors
/// All others.
pub fn if_there<T>(found: io::Result<T>) -> io::Result<Option<T>> {
    match found {
        Err(error) if is_gone(&error) => Ok(None),
        found => found.map(Some),
    }
}

/// Whether the thing named does not exist (any more): ENOENT, or ESTALE, which is how NFS says it of an open folder.
pub fn is_gone(error: &io::Error) -> bool {
    matches!(errno(error), Some(Errno::NOENT | Errno::STALE))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn root(folder: &tempfile::TempDir) -> OwnedFd {
        File::open(folder.path()).unwrap().into()
    }

    #[test]
    fn symlinks_are_never_followed() {
        let outside = tempfile::tempdir().unwrap();
        std::fs::create_dir(outside.path().join("inner")).unwrap();
        std::fs::write(outside.path().join("secret"), "x").unwrap();
        let share = tempfile::tempdir().unwrap();
        symlink(outside.path(), share.path().join("link")).unwrap();
        symlink("real", share.path().join("near")).unwrap();
        std::fs::create_dir_all(share.path().join("real/deep")).unwrap();
        let at = root(&share);
        for path in ["link", "link/inner", "near", "near/deep"] {
            assert!(folder(&at, path).is_err(), "{path}");
            assert!(walk(&at, Path::new(path), FOLDER).is_err(), "{path}");
        }
        assert!(read(&at, "link/secret", 10).is_err());
        assert!(folder(&at, "real/deep").is_ok());
        assert!(walk(&at, Path::new("./real/deep"), FOLDER).is_ok());
    }

    #[test]
    fn a_folder_that_changes_while_it_is_read_is_read_again() {
        let changing: Vec<_> = (1..9).map(|time| Some((time, 0, 2))).collect();
        let settles = [Some((1, 0, 2)), Some((2, 0, 2)), Some((2, 0, 2))];
        for (changes, readings, expected) in [
            // What was there before and is gone is not in the reading that nothing has disturbed.
            (&settles[..], &["a b", "b c"][..], "b c"),
            (&[None, None], &["a"], "a"),
            // A name that one reading misses another has.
            (&changing, &["a b", "b c", "a c", "a b"], "a b c"),
        ] {
            let (mut changes, mut readings) = (changes.iter(), readings.iter());
            let names = until_settled(
                || Ok(*changes.next().unwrap()),
                || {
                    let names = readings.next().unwrap().split(' ');
                    Ok(names.map(|it| CString::new(it).unwrap()).collect())
                },
            );
            let names: Vec<_> = names
                .unwrap()
                .into_iter()
                .map(|it| it.into_string().unwrap())
                .collect();
            assert_eq!(names.join(" "), expected);
        }
    }

    #[test]
    fn a_mode_is_changed_here_or_nowhere() {
        use std::os::unix::fs::PermissionsExt;
        let outside = tempfile::tempdir().unwrap();
        let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o7777;
        let before = mode(outside.path());
        let share = tempfile::tempdir().unwrap();
        std::fs::create_dir(share.path().join("shut")).unwrap();
        std::fs::write(share.path().join("file"), "").unwrap();
        symlink(outside.path(), share.path().join("link")).unwrap();
        let at = root(&share);
        change_mode(&at, "shut", Mode::empty()).unwrap();
        assert_eq!(mode(&share.path().join("shut")), 0);
        change_mode(&at, "shut", Mode::RWXU).unwrap();
        assert_eq!(mode(&share.path().join("shut")), 0o700);
        for other in ["link", "file", "gone"] {
            assert!(change_mode(&at, other, Mode::RWXO).is_err(), "{other}");
        }
        assert_eq!(mode(outside.path()), before);
    }

    #[test]
    fn parents_and_absolute_paths_are_refused() {
        let share = tempfile::tempdir().unwrap();
        std::fs::create_dir(share.path().join("a")).unwrap();
        let at = root(&share);
        for path in ["..", "a/../..", "/", "/etc"] {
            assert!(folder(&at, path).is_err(), "{path}");
            assert!(walk(&at, Path::new(path), FOLDER).is_err(), "{path}");
        }
    }

    #[test]
    fn another_file_system_is_not_entered() {
        let at: OwnedFd = File::open("/").unwrap().into();
        let error = folder(&at, "proc/self").unwrap_err();
        assert_eq!(errno(&error), Some(Errno::XDEV));
        let error = walk(&at, Path::new("proc"), FOLDER).unwrap_err();
        assert_eq!(errno(&error), Some(Errno::XDEV));
    }

    #[test]
    fn long_and_odd_files_are_refused() {
        let share = tempfile::tempdir().unwrap();
        let at = root(&share);
        write_new(&at, "record", b"12345").unwrap();
        assert_eq!(read(&at, "record", 5).unwrap(), b"12345");
        assert!(read(&at, "record", 4).is_err());
        std::fs::create_dir(share.path().join("folder")).unwrap();
        assert!(read(&at, "folder", 5).is_err());
    }
}
