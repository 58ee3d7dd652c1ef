//! The place of a unix socket that this process serves: taken from a dead process, never from a live one, and given back at
//! the end. Owns who may take which place; must not know what is served.

use csi_proto::socket_file::{self, SocketFile, SocketState};
use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use std::fs::Permissions;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use thiserror::Error;
use tokio::net::UnixListener;

/// How long another driver may hold the lock of the socket's folder: it does so for a few calls of the kernel.
const LOCK_BOUND: Duration = Duration::from_secs(5);

/// How often that lock is tried.
const LOCK_PAUSE: Duration = Duration::from_millis(10);

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
    /// Something else is in the socket's place.
    #[error("{}: exists and is not a socket: remove it, or {remedy}", .path.display())]
    NotASocket {
        /// The place.
        path: PathBuf,
        /// What to do about it.
        remedy: &'static str,
    },
    /// Whether the old socket is alive cannot be told.
    #[error("{}: whether another process serves on this socket cannot be told: {source}", .path.display())]
    Unclear {
        /// The socket.
        path: PathBuf,
        /// The system's word.
        source: io::Error,
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
    #[error("cannot listen on unix://{}: {source}", .path.display())]
    Listen {
        /// The socket.
        path: PathBuf,
        /// The system's word.
        source: io::Error,
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
    /// Listens there. A socket that nobody serves any more is replaced.
    ///
    /// # Errors
    /// When the place is taken or cannot be used.
    pub async fn listen(&self) -> Result<(UnixListener, SocketFile), SocketError> {
        let path = self.path.as_path();
        let failed = |source| SocketError::Listen {
            path: path.to_owned(),
            source,
        };
        // Until the socket is there: two drivers that start at once would each find the old one dead, and the slower one
        // would remove the other's new one.
        let _alone = self.lock_folder().await?;
        self.make_room()?;
        // Nobody may connect before the socket has its mode.
        let before = rustix::process::umask(Mode::from_raw_mode(0o177));
        let bound = UnixListener::bind(path);
        rustix::process::umask(before);
        let listener = bound.map_err(failed)?;
        let file = SocketFile::of(path).map_err(failed)?;
        std::fs::set_permissions(path, Permissions::from_mode(self.mode)).map_err(failed)?;
        Ok((listener, file))
    }

    /// Removes a socket from there that nobody serves any more, without taking the place.
    ///
    /// # Errors
    /// When the place is taken.
    pub async fn clear(&self) -> Result<(), SocketError> {
        let _alone = self.lock_folder().await?;
        self.make_room()
    }

    /// Holds the lock of the socket's folder while it lives. The folder itself is locked, which leaves no file behind.
    async fn lock_folder(&self) -> Result<OwnedFd, SocketError> {
        let parent = self.path.parent();
        let parent = parent.filter(|parent| !parent.as_os_str().is_empty());
        let parent = parent.unwrap_or(Path::new("."));
        if !parent.is_dir() {
            return Err(SocketError::NoFolder {
                folder: parent.to_owned(),
                remedy: self.remedy,
            });
        }
        let how = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder =
            rustix::fs::open(parent, how, Mode::empty()).map_err(|errno| self.unclear(errno))?;
        let deadline = tokio::time::Instant::now() + LOCK_BOUND;
        loop {
            match rustix::fs::flock(&folder, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => return Ok(folder),
                Err(Errno::WOULDBLOCK) if tokio::time::Instant::now() < deadline => {
                    tokio::time::sleep(LOCK_PAUSE).await;
                }
                Err(errno) => return Err(self.unclear(errno)),
            }
        }
    }

    fn make_room(&self) -> Result<(), SocketError> {
        let (path, remedy) = (self.path.clone(), self.remedy);
        match socket_file::look(&path).map_err(|error| self.unclear(error))? {
            SocketState::Nothing => Ok(()),
            SocketState::Dead => std::fs::remove_file(&path).map_err(|error| self.unclear(error)),
            SocketState::Live => Err(SocketError::InUse { path, remedy }),
            SocketState::Other => Err(SocketError::NotASocket { path, remedy }),
        }
    }

    fn unclear(&self, source: impl Into<io::Error>) -> SocketError {
        SocketError::Unclear {
            path: self.path.clone(),
            source: source.into(),
        }
    }
}
