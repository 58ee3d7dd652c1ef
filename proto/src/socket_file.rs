//! Files of unix sockets: what is at a path, and a socket's file that goes with its owner. Both programs serve, and none may
//! take a socket from another process.

use rustix::fs::{AtFlags, CWD, Mode, OFlags, fstat, open, statat};
use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileTypeExt as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

/// What is at a path that is to be a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SocketState {
    /// There is no file.
    Nothing,
    /// A socket that nobody serves.
    Dead,
    /// A socket that somebody serves.
    Live,
    /// Something else.
    Other,
}

/// Looks at a path.
///
/// # Errors
/// When it cannot be told.
pub fn look(path: &Path) -> io::Result<SocketState> {
    let there = match path.symlink_metadata() {
        Ok(there) => there,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(SocketState::Nothing),
        Err(error) => return Err(error),
    };
    if !there.file_type().is_socket() {
        return Ok(SocketState::Other);
    }
    match UnixStream::connect(path) {
        Ok(_) => Ok(SocketState::Live),
        Err(error) => match error.kind() {
            ErrorKind::ConnectionRefused => Ok(SocketState::Dead),
            // A full queue of a process that is slow to accept.
            ErrorKind::WouldBlock => Ok(SocketState::Live),
            ErrorKind::NotFound => Ok(SocketState::Nothing),
            _ => Err(error),
        },
    }
}

/// The file of a unix socket, removed at the end unless another process has put its own there.
#[derive(Debug)]
pub struct SocketFile {
    path: PathBuf,
    /// Held open, so that no other file can get the number of this inode as long as it is compared.
    file: OwnedFd,
}

impl SocketFile {
    /// That of a socket which this process has just made.
    ///
    /// # Errors
    /// Whatever open(2) says.
    pub fn of(path: &Path) -> io::Result<Self> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(Self {
            path: path.to_owned(),
            file: open(path, flags, Mode::empty())?,
        })
    }

    /// Where it was made.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether it is still what its path names.
    pub fn is_there(&self) -> bool {
        let there = statat(CWD, &self.path, AtFlags::SYMLINK_NOFOLLOW);
        match (fstat(&self.file), there) {
            (Ok(ours), Ok(there)) => (ours.st_dev, ours.st_ino) == (there.st_dev, there.st_ino),
            _ => false,
        }
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if self.is_there() {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}
