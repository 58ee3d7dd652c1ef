//! The place of a unix socket that this process serves: taken from a dead process, never from a live one. Owns who may take which
//! place; must not know what is served.
//!
//! Everything here may wait for a file system: whoever must not wait calls it in a thread of its own.

use crate::place_lock::{PlaceLock, PlaceLockError};
use crate::socket_file::{self, SocketFile, SocketState};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, socket_with};
use std::fs::Permissions;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use thiserror::Error;

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
    /// The lock of the place cannot be had.
    #[error("{}: {cause}, or {remedy}", .path.display())]
    Lock {
        /// The socket.
        path: PathBuf,
        /// Why not, and what to do about it.
        cause: PlaceLockError,
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
        /// The socket.
        path: PathBuf,
        /// The system's word.
        cause: io::Error,
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
    pub fn lock(&self) -> Result<PlaceLock, SocketError> {
        PlaceLock::take(&self.path).map_err(|cause| SocketError::Lock {
            path: self.path.clone(),
            cause,
            remedy: self.remedy,
        })
    }

    fn unclear(&self, cause: io::Error) -> SocketError {
        SocketError::Unclear {
            path: self.path.clone(),
            cause,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_that_ends_leaves_the_place_to_whoever_takes_it() {
        let path = std::env::temp_dir().join(format!("place-{}.sock", std::process::id()));
        let place = SocketPlace {
            path: path.clone(),
            mode: 0o600,
            remedy: "choose another",
        };
        let (listener, file) = place.listen().unwrap();
        drop(listener);
        // Another process starts, and has found the old socket dead.
        let taking = place.lock().unwrap();
        assert_eq!(place.look().unwrap(), SocketState::Dead);
        drop(file);
        assert_eq!(place.look().unwrap(), SocketState::Dead, "it was removed");
        place.make_room().unwrap();
        let (listener, file) = place.bind(None).unwrap();
        drop(taking);
        assert_eq!(place.look().unwrap(), SocketState::Live);
        drop((listener, file));
        assert_eq!(place.look().unwrap(), SocketState::Nothing);
    }
}
