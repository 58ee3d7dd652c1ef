//! The lock of a unix socket's place: who takes the place, or gives it up, holds it meanwhile. Owns the lock's file and the word about
//! whoever holds it; must not know what is at the place.
//!
//! The lock is a file of its own, which only its owner may open: whoever may open a file may lock it, and a folder may be open to
//! others.

use rustix::fs::{FlockOperation, Mode, OFlags, Stat, fstat, major, minor};
use rustix::io::Errno;
use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};
use thiserror::Error;

/// How long another process may hold the lock: a few calls of the kernel, unless it is stopped.
const LOCK_BOUND: Duration = Duration::from_secs(5);

/// How often the lock is tried.
const LOCK_PAUSE: Duration = Duration::from_millis(10);

/// Why the lock of a place cannot be had, and what to do about it.
#[derive(Debug, Error)]
pub enum PlaceLockError {
    /// Another process holds it, and does not come to an end.
    #[error("{holder} has been taking this place for {LOCK_BOUND:?} and holds the lock {}: end it", .lock.display())]
    Held {
        /// The lock's file.
        lock: PathBuf,
        /// Who holds it.
        holder: String,
    },
    /// The lock's file is one that others may hold.
    #[error("the lock {} belongs to user {user} and has mode {mode:04o}, so that others may hold it: remove it", .lock.display())]
    Foreign {
        /// The lock's file.
        lock: PathBuf,
        /// Its owner.
        user: u32,
        /// Its permission bits.
        mode: u32,
    },
    /// The folder of the place is missing.
    #[error("{}: the folder does not exist: create it", .0.display())]
    NoFolder(PathBuf),
    /// The system refuses.
    #[error("the lock {} cannot be taken: {cause}: let this user write in its folder, remove what is there by that name", .lock.display())]
    System {
        /// The lock's file.
        lock: PathBuf,
        /// The system's word.
        cause: io::Error,
    },
}

/// The lock of a place. Nothing of it stays.
#[derive(Debug)]
pub struct PlaceLock {
    path: PathBuf,
    #[expect(dead_code, reason = "closing it unlocks")]
    file: OwnedFd,
}

impl PlaceLock {
    /// Takes the lock of the place of the socket at `path`, and waits for another process that has it.
    pub fn take(path: &Path) -> Result<Self, PlaceLockError> {
        let mut name = OsString::from(".");
        name.push(path.file_name().unwrap_or_default());
        name.push(".lock");
        let lock = path.with_file_name(name);
        let system = |errno: Errno| match errno {
            Errno::NOENT | Errno::NOTDIR => {
                let folder = path
                    .parent()
                    .filter(|folder| !folder.as_os_str().is_empty());
                PlaceLockError::NoFolder(folder.unwrap_or(Path::new(".")).to_owned())
            }
            errno => PlaceLockError::System {
                lock: lock.clone(),
                cause: errno.into(),
            },
        };
        let deadline = Instant::now() + LOCK_BOUND;
        loop {
            // Not waiting for the other end of a FIFO that somebody has put there.
            let how = OFlags::CREATE | OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK;
            let file = rustix::fs::open(&lock, how | OFlags::CLOEXEC, Mode::RUSR | Mode::WUSR);
            let file = file.map_err(system)?;
            let found = fstat(&file).map_err(system)?;
            if found.st_uid != rustix::process::geteuid().as_raw() || found.st_mode & 0o077 != 0 {
                return Err(PlaceLockError::Foreign {
                    user: found.st_uid,
                    mode: found.st_mode & 0o7777,
                    lock,
                });
            }
            match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) if names(&lock, &found) => return Ok(Self { path: lock, file }),
                // The last holder has removed it meanwhile.
                Ok(()) => {}
                Err(Errno::WOULDBLOCK) if Instant::now() < deadline => sleep(LOCK_PAUSE),
                Err(Errno::WOULDBLOCK) => {
                    return Err(PlaceLockError::Held {
                        holder: holder(&found),
                        lock,
                    });
                }
                Err(errno) => return Err(system(errno)),
            }
        }
    }
}

impl Drop for PlaceLock {
    fn drop(&mut self) {
        // While it is held: whoever waits for it finds it gone, and makes another.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Whether `path` names that very file.
fn names(path: &Path, file: &Stat) -> bool {
    rustix::fs::lstat(path)
        .is_ok_and(|there| (there.st_dev, there.st_ino) == (file.st_dev, file.st_ino))
}

/// The process that holds the lock of a file, in words.
fn holder(file: &Stat) -> String {
    let locks = std::fs::read_to_string("/proc/locks").unwrap_or_default();
    let device = (major(file.st_dev), minor(file.st_dev));
    let Some(process) = holder_in(&locks, device, file.st_ino) else {
        return "a process that cannot be seen from here".to_owned();
    };
    let program = std::fs::read_to_string(format!("/proc/{process}/comm")).unwrap_or_default();
    match program.trim() {
        "" => format!("process {process}"),
        program => format!("process {process} ({})", crate::text::escaped(program)),
    }
}

/// The process that has locked the inode of a device by flock(2), from the kernel's table of locks.
fn holder_in(locks: &str, device: (u32, u32), inode: u64) -> Option<u32> {
    let sought = format!("{:02x}:{:02x}:{inode}", device.0, device.1);
    locks.lines().find_map(|line| {
        // Number, kind, advisory, mode, process, file, start, end. Who waits has an arrow behind its number.
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            [_, "FLOCK", _, "WRITE", process, file, ..] if file == sought => process.parse().ok(),
            _ => None,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_holder_is_whoever_has_locked_that_file() {
        let locks = "1: POSIX  ADVISORY  WRITE 10 fd:01:77 0 EOF\n\
            2: FLOCK  ADVISORY  READ 11 fd:01:77 0 EOF\n\
            3: FLOCK  ADVISORY  WRITE 12 fd:01:78 0 EOF\n\
            4: FLOCK  ADVISORY  WRITE 13 fd:02:77 0 EOF\n\
            5: FLOCK  ADVISORY  WRITE 14 fd:01:77 0 EOF\n\
            5: -> FLOCK  ADVISORY  WRITE 15 fd:01:77 0 EOF\n\
            6: FLOCK  ADVISORY  WRITE -1 00:05:9 0 EOF\n";
        assert_eq!(holder_in(locks, (0xfd, 1), 77), Some(14));
        assert_eq!(holder_in(locks, (0xfd, 1), 78), Some(12));
        assert_eq!(holder_in(locks, (0, 5), 9), None);
        assert_eq!(holder_in("", (0xfd, 1), 77), None);
    }

    #[test]
    fn what_keeps_the_lock_from_being_taken_is_named() {
        let folder = std::env::temp_dir().join(format!("locks-{}", std::process::id()));
        std::fs::create_dir(&folder).unwrap();
        let path = |name: &str| folder.join(name);
        std::fs::create_dir(path(".folder.lock")).unwrap();
        std::os::unix::fs::symlink("x", path(".link.lock")).unwrap();
        std::fs::write(path(".open.lock"), "").unwrap();
        std::fs::write(path("file"), "").unwrap();
        for (name, expected) in [
            ("folder", ".folder.lock cannot be taken: Is a directory"),
            ("link", ".link.lock cannot be taken: Too many levels"),
            ("open", "so that others may hold it: remove it"),
            ("none/x", "none: the folder does not exist: create it"),
            ("file/x", "file: the folder does not exist: create it"),
        ] {
            let error = PlaceLock::take(&path(name)).unwrap_err().to_string();
            assert!(error.contains(expected), "{name}: {error}");
        }
        // Whoever was killed has left it there.
        let killed = PlaceLock::take(&path("killed")).unwrap();
        std::fs::copy(path(".killed.lock"), path(".left.lock")).unwrap();
        drop(killed);
        drop(PlaceLock::take(&path("left")).unwrap());
        assert!(!path(".left.lock").exists() && !path(".killed.lock").exists());
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
