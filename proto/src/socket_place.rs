//! The place of a unix socket that this process serves: taken from a dead process, never from a live one. Owns who may take which
//! place; must not know what is served.
//!
//! Everything here may wait for a file system: whoever must not wait calls it in a thread of its own.

use crate::socket_file::{self, SocketFile, SocketState};
use rustix::fs::{FlockOperation, Mode, OFlags, Stat, fstat, major, minor};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, socket_with};
use std::ffi::OsString;
use std::fs::Permissions;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};
use thiserror::Error;

/// How long another process may take the same place: a few calls of the kernel, unless it is stopped.
const LOCK_BOUND: Duration = Duration::from_secs(5);

/// How often its lock is tried.
const LOCK_PAUSE: Duration = Duration::from_millis(10);

/// How many connections wait until they are accepted; the system has a bound of its own.
const BACKLOG: i32 = 1024;

/// Why a socket cannot be served at its place.
#[derive(Debug, Error)]
pub enum SocketError {
    /// Another process answers on the socket.
    #[error("{}: another process serves on this socket: end it, or {remedy}", .path.display())]
    InUse {
        /// The socket.
        path: PathBuf,
        /// What to do about the place.
        remedy: &'static str,
    },
    /// Another process takes the place, and does not come to an end.
    #[error("{}: {holder} has been taking this place for {LOCK_BOUND:?} and holds the lock {}: end it, or {remedy}", .path.display(), .lock.display())]
    Locked {
        /// The socket.
        path: PathBuf,
        /// The lock's file.
        lock: PathBuf,
        /// Who holds it.
        holder: String,
        /// What to do about the place.
        remedy: &'static str,
    },
    /// The lock's file is one that others may hold.
    #[error("{}: the lock {} belongs to user {user} and has mode {mode:04o}, so that others may hold it: remove it, or {remedy}", .path.display(), .lock.display())]
    ForeignLock {
        /// The socket.
        path: PathBuf,
        /// The lock's file.
        lock: PathBuf,
        /// Its owner.
        user: u32,
        /// Its permission bits.
        mode: u32,
        /// What to do about the place.
        remedy: &'static str,
    },
    /// Something else is in the socket's place.
    #[error("{}: exists and is not a socket: remove it, or {remedy}", .path.display())]
    NotASocket {
        /// The place.
        path: PathBuf,
        /// What to do about it.
        remedy: &'static str,
    },
    /// Whether the old socket is alive cannot be told.
    #[error("{}: whether another process serves on this socket cannot be told: {cause}", .path.display())]
    Unclear {
        /// What could not be used: the socket or its lock.
        path: PathBuf,
        /// The system's word.
        cause: io::Error,
    },
    /// The socket's folder is missing.
    #[error("{}: the folder does not exist: create it, or {remedy}", .folder.display())]
    NoFolder {
        /// The folder.
        folder: PathBuf,
        /// What to do about the place.
        remedy: &'static str,
    },
    /// The socket cannot be made.
    #[error("cannot listen on unix://{}: {cause}", .path.display())]
    Listen {
        /// The socket.
        path: PathBuf,
        /// The system's word.
        cause: io::Error,
    },
}

/// Where a socket is to be served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SocketPlace {
    /// Its path.
    pub path: PathBuf,
    /// Its permission bits.
    pub mode: u32,
    /// What the user can do when it cannot be had, such as "choose another --endpoint".
    pub remedy: &'static str,
}

impl SocketPlace {
    /// Listens there, without blocking. A socket that nobody serves any more is replaced.
    ///
    /// # Errors
    /// When the place is taken or cannot be used.
    pub fn listen(&self) -> Result<(UnixListener, SocketFile), SocketError> {
        // Until the socket is there: two processes that start at once would each find the old one dead, and the slower one
        // would remove the other's new one.
        let _alone = self.lock()?;
        self.make_room()?;
        self.bind(None)
    }

    /// Removes a socket from there that nobody serves any more, without taking the place.
    ///
    /// # Errors
    /// When the place is taken.
    pub fn clear(&self) -> Result<(), SocketError> {
        let _alone = self.lock()?;
        self.make_room()
    }

    /// What is there.
    ///
    /// # Errors
    /// When it is no socket, or cannot be told.
    pub fn look(&self) -> Result<SocketState, SocketError> {
        let (path, remedy) = (self.path.clone(), self.remedy);
        match socket_file::look(&path).map_err(|cause| self.unclear(cause))? {
            SocketState::Other => Err(SocketError::NotASocket { path, remedy }),
            state => Ok(state),
        }
    }

    fn make_room(&self) -> Result<(), SocketError> {
        let (path, remedy) = (self.path.clone(), self.remedy);
        match self.look()? {
            SocketState::Dead => std::fs::remove_file(&path).map_err(|cause| self.unclear(cause)),
            SocketState::Live => Err(SocketError::InUse { path, remedy }),
            // What is no socket has been refused.
            SocketState::Nothing | SocketState::Other => Ok(()),
        }
    }

    /// Listens at the place, which is free and locked, with these permissions and as far as possible this owner, a user and a
    /// group.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn bind(
        &self,
        owner: Option<(u32, u32)>,
    ) -> Result<(UnixListener, SocketFile), SocketError> {
        self.try_bind(owner).map_err(|cause| SocketError::Listen {
            path: self.path.clone(),
            cause,
        })
    }

    fn try_bind(&self, owner: Option<(u32, u32)>) -> io::Result<(UnixListener, SocketFile)> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        rustix::net::bind(&socket, &SocketAddrUnix::new(&self.path)?)?;
        let file = SocketFile::of(&self.path)?;
        if let Some((user, group)) = owner {
            // Who may not give files away is the owner already, or was not to be.
            let _ = std::os::unix::fs::lchown(&self.path, Some(user), Some(group));
        }
        std::fs::set_permissions(&self.path, Permissions::from_mode(self.mode))?;
        // Nobody can connect before this.
        rustix::net::listen(&socket, BACKLOG)?;
        Ok((socket.into(), file))
    }

    /// Holds the lock of this place while it lives.
    ///
    /// The lock is a file of its own, which only its owner may open: whoever may open a file may lock it, and a folder may be
    /// open to others.
    ///
    /// # Errors
    /// When the folder does not exist, or somebody holds the lock for too long.
    pub fn lock(&self) -> Result<PlaceLock, SocketError> {
        let parent = self.path.parent();
        let parent = parent.filter(|parent| !parent.as_os_str().is_empty());
        let parent = parent.unwrap_or(Path::new("."));
        if !parent.is_dir() {
            return Err(SocketError::NoFolder {
                folder: parent.to_owned(),
                remedy: self.remedy,
            });
        }
        let mut name = OsString::from(".");
        name.push(self.path.file_name().unwrap_or_default());
        name.push(".lock");
        let lock = parent.join(name);
        let unclear = |errno: Errno| SocketError::Unclear {
            path: lock.clone(),
            cause: errno.into(),
        };
        let deadline = Instant::now() + LOCK_BOUND;
        loop {
            // Not waiting for the other end of a FIFO that somebody has put there.
            let how = OFlags::CREATE | OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK;
            let file = rustix::fs::open(&lock, how | OFlags::CLOEXEC, Mode::RUSR | Mode::WUSR);
            let file = file.map_err(unclear)?;
            let found = fstat(&file).map_err(unclear)?;
            if found.st_uid != rustix::process::geteuid().as_raw() || found.st_mode & 0o077 != 0 {
                return Err(SocketError::ForeignLock {
                    path: self.path.clone(),
                    user: found.st_uid,
                    mode: found.st_mode & 0o7777,
                    lock,
                    remedy: self.remedy,
                });
            }
            match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) if names(&lock, &found) => return Ok(PlaceLock { path: lock, file }),
                // The last holder has removed it meanwhile.
                Ok(()) => {}
                Err(Errno::WOULDBLOCK) if Instant::now() < deadline => sleep(LOCK_PAUSE),
                Err(Errno::WOULDBLOCK) => {
                    return Err(SocketError::Locked {
                        path: self.path.clone(),
                        holder: holder(&found),
                        lock,
                        remedy: self.remedy,
                    });
                }
                Err(errno) => return Err(unclear(errno)),
            }
        }
    }

    fn unclear(&self, cause: io::Error) -> SocketError {
        SocketError::Unclear {
            path: self.path.clone(),
            cause,
        }
    }
}

/// The lock of a place. Nothing of it stays.
#[derive(Debug)]
pub struct PlaceLock {
    path: PathBuf,
    #[expect(dead_code, reason = "closing it unlocks")]
    file: OwnedFd,
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
}
