//! Files of unix sockets: what is at a path, connecting without end, and a socket's file that goes with its owner. Both programs
//! serve, and none may take a socket from another process.

use crate::lock::ROUNDS;
use crate::place_lock::PlaceLock;
use rustix::fs::{AtFlags, CWD, Mode, OFlags, fstat, open, statat};
use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, socket_with};
use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileTypeExt as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};

/// How long the removal of a socket's file is waited for, [`ROUNDS`] times: a file system that hangs must not keep the process.
const REMOVAL_BOUND: Duration = Duration::from_secs(1);

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

/// Looks at a path, without waiting for whoever listens there.
pub fn look(path: &Path) -> io::Result<SocketState> {
    let there = match path.symlink_metadata() {
        Ok(there) => there,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(SocketState::Nothing),
        Err(error) => return Err(error),
    };
    if !there.file_type().is_socket() {
        return Ok(SocketState::Other);
    }
    match connect(path, Duration::ZERO) {
        Ok(_) => Ok(SocketState::Live),
        Err(error) => match error.kind() {
            ErrorKind::ConnectionRefused => Ok(SocketState::Dead),
            // The queue of a process that does not accept is full: it is there all the same.
            ErrorKind::WouldBlock => Ok(SocketState::Live),
            ErrorKind::NotFound => Ok(SocketState::Nothing),
            _ => Err(error),
        },
    }
}

/// Connects to the socket at a path. Where the queue of whoever listens is full, connect(2) waits without end; this waits for
/// `patience`, and then fails with [`ErrorKind::WouldBlock`].
///
/// # Errors
/// Those of connect(2).
pub fn connect(path: &Path, patience: Duration) -> io::Result<UnixStream> {
    let flags = match patience.is_zero() {
        true => SocketFlags::CLOEXEC | SocketFlags::NONBLOCK,
        false => SocketFlags::CLOEXEC,
    };
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    let (address, end) = (SocketAddrUnix::new(path)?, Instant::now() + patience);
    loop {
        if !patience.is_zero() {
            // It bounds connect(2) too; none at all would be no bound.
            let left = end.saturating_duration_since(Instant::now());
            let left = left.max(Duration::from_millis(1));
            set_socket_timeout(&socket, Timeout::Send, Some(left))?;
        }
        match rustix::net::connect(&socket, &address) {
            Ok(()) => break,
            // A bounded connect(2) ends so in a process that was stopped and goes on.
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => {
                let problem =
                    "whoever listens there accepts no connections, and too many wait already";
                return Err(io::Error::new(ErrorKind::WouldBlock, problem));
            }
            Err(errno) => return Err(errno.into()),
        }
    }
    let stream = UnixStream::from(socket);
    stream.set_nonblocking(false)?;
    stream.set_write_timeout(None)?;
    Ok(stream)
}

/// Which file a socket was made as.
#[derive(Clone, Debug)]
pub struct SocketIdentity {
    path: PathBuf,
    inode: (u64, u64),
    /// Held open, so that no other file can get the number of this inode as long as it is compared.
    file: Arc<OwnedFd>,
}

impl SocketIdentity {
    /// Whether it is still what its path names.
    pub fn is_there(&self) -> bool {
        let there = statat(CWD, &self.path, AtFlags::SYMLINK_NOFOLLOW);
        there.is_ok_and(|there| (there.st_dev, there.st_ino) == self.inode)
    }

    /// Whether it is nowhere any more. One that was moved aside is: somebody serves in its place and brings it back.
    pub fn is_removed(&self) -> bool {
        fstat(&self.file).is_ok_and(|file| file.st_nlink == 0)
    }

    /// Removes it, unless another process has put its own there.
    fn remove(&self) {
        // Whoever takes the place is about to.
        let alone = PlaceLock::take(&self.path);
        if alone.is_ok() && self.is_there() {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// The file of a unix socket, removed at the end unless another process has put its own there.
#[derive(Debug)]
pub struct SocketFile {
    identity: SocketIdentity,
}

impl SocketFile {
    /// That of a socket which this process has just made.
    ///
    /// # Errors
    /// Whatever open(2) says.
    pub fn of(path: &Path) -> io::Result<Self> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = open(path, flags, Mode::empty())?;
        let ours = fstat(&file)?;
        Ok(Self {
            identity: SocketIdentity {
                path: path.to_owned(),
                inode: (ours.st_dev, ours.st_ino),
                file: Arc::new(file),
            },
        })
    }

    /// Where it was made.
    pub fn path(&self) -> &Path {
        &self.identity.path
    }

    /// Which file it is, for who looks after it elsewhere.
    pub fn identity(&self) -> &SocketIdentity {
        &self.identity
    }

    /// Whether it is still what its path names.
    pub fn is_there(&self) -> bool {
        self.identity.is_there()
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        let identity = self.identity.clone();
        let (removed, when_removed) = sync_channel::<()>(0);
        let removing = std::thread::Builder::new().spawn(move || {
            identity.remove();
            drop(removed);
        });
        if removing.is_ok() {
            let is_late =
                |_| when_removed.recv_timeout(REMOVAL_BOUND) == Err(RecvTimeoutError::Timeout);
            let _ = (0..ROUNDS).all(is_late);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;

    /// A socket whose queue is full, since nobody accepts; what fills it.
    fn full(path: &Path) -> (UnixListener, Vec<UnixStream>) {
        let listener = UnixListener::bind(path).unwrap();
        rustix::net::listen(&listener, 0).unwrap();
        let mut waiting = Vec::new();
        while let Ok(stream) = connect(path, Duration::ZERO) {
            waiting.push(stream);
        }
        assert!(!waiting.is_empty());
        (listener, waiting)
    }

    #[test]
    fn a_full_queue_means_that_somebody_is_there() {
        let path = std::env::temp_dir().join(format!("full-{}.sock", std::process::id()));
        let (listener, waiting) = full(&path);
        assert_eq!(look(&path).unwrap(), SocketState::Live);
        let error = connect(&path, Duration::from_millis(1)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::WouldBlock);
        assert!(error.to_string().contains("accepts no connections"));
        drop((listener, waiting));
        assert_eq!(look(&path).unwrap(), SocketState::Dead);
        std::fs::remove_file(&path).unwrap();
        assert_eq!(look(&path).unwrap(), SocketState::Nothing);
    }
}
