//! Serving on a unix socket or a loopback port until a signal. Owns listeners, the socket's file and the end of the
//! process's work; must not know the services.

use crate::accepting::Connections;
use crate::call_log::CallLog;
use crate::config::Endpoint;
use crate::flags::Serving;
use crate::log::{Level, Log};
use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use std::fs::Permissions;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;
use thiserror::Error;
use tokio::net::{TcpListener, UnixListener};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tonic::service::Routes;
use tonic::transport::Server;

/// How long connections may take to send the last answers and close.
const FLUSH: Duration = Duration::from_millis(500);

/// How long another driver may hold the lock of the socket's folder: it does so for a few calls of the kernel.
const LOCK_BOUND: Duration = Duration::from_secs(5);

/// How often that lock is tried.
const LOCK_PAUSE: Duration = Duration::from_millis(10);

/// Why the driver cannot serve.
#[derive(Debug, Error)]
pub enum ServeError {
    /// Another process answers on the socket.
    #[error("{}: another process serves on this socket: end it, or choose another --endpoint", .0.display())]
    InUse(PathBuf),
    /// Something else is in the socket's place.
    #[error("{}: exists and is not a socket: remove it, or choose another --endpoint", .0.display())]
    NotASocket(PathBuf),
    /// Whether the old socket is alive cannot be told.
    #[error("{}: whether another process serves on this socket cannot be told: {source}", .path.display())]
    Unclear {
        /// The socket.
        path: PathBuf,
        /// The system's word.
        source: io::Error,
    },
    /// The socket's folder is missing.
    #[error("{}: the folder does not exist: create it, or choose another --endpoint", .0.display())]
    NoFolder(PathBuf),
    /// The listener cannot be made.
    #[error("cannot listen on {0}: {1}")]
    Listen(Endpoint, #[source] io::Error),
    /// Signals cannot be watched.
    #[error("cannot watch signals: {0}")]
    Signals(#[source] io::Error),
    /// The transport failed.
    #[error("serving: {0}")]
    Transport(#[from] tonic::transport::Error),
}

/// How serving ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// All calls were answered.
    Drained,
    /// The drain bound passed with calls unanswered.
    Late,
    /// A second signal came.
    Forced,
}

/// A listener that has its place already.
#[derive(Debug)]
pub enum Listener {
    /// A unix socket and its file.
    Unix(UnixListener, SocketFile),
    /// A loopback port.
    Tcp(TcpListener),
}

impl Listener {
    /// Takes the place that `serving` names. A socket that nobody serves any more is replaced.
    ///
    /// # Errors
    /// When the place is taken or cannot be used.
    pub async fn bind(serving: &Serving) -> Result<Self, ServeError> {
        let failed = |error| ServeError::Listen(serving.endpoint.clone(), error);
        match &serving.endpoint {
            Endpoint::Unix(path) => {
                // Until the socket is there: two drivers that start at once would each find the old one dead, and the
                // slower one would remove the other's new one.
                let _alone = lock_folder(path).await?;
                make_room(path)?;
                // Nobody may connect before the socket has its mode.
                let before = rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o177));
                let bound = UnixListener::bind(path);
                rustix::process::umask(before);
                let listener = bound.map_err(failed)?;
                let file = SocketFile::of(path).map_err(failed)?;
                std::fs::set_permissions(path, Permissions::from_mode(serving.socket_mode))
                    .map_err(failed)?;
                Ok(Self::Unix(listener, file))
            }
            Endpoint::Tcp(address) => TcpListener::bind(address)
                .await
                .map(Self::Tcp)
                .map_err(failed),
        }
    }

    /// Where it listens; a port of 0 has become the one that the kernel chose.
    pub fn endpoint(&self) -> Option<Endpoint> {
        match self {
            Self::Unix(_, file) => Some(Endpoint::Unix(file.path.clone())),
            Self::Tcp(listener) => listener.local_addr().ok().map(Endpoint::Tcp),
        }
    }
}

/// Holds the lock of the socket's folder while it lives. The folder itself is locked, which leaves no file behind.
async fn lock_folder(path: &Path) -> Result<OwnedFd, ServeError> {
    let parent = path
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty());
    let parent = parent.unwrap_or(Path::new("."));
    if !parent.is_dir() {
        return Err(ServeError::NoFolder(parent.to_owned()));
    }
    let unclear = |errno: Errno| ServeError::Unclear {
        path: path.to_owned(),
        source: errno.into(),
    };
    let how = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let folder = rustix::fs::open(parent, how, Mode::empty()).map_err(unclear)?;
    let deadline = tokio::time::Instant::now() + LOCK_BOUND;
    loop {
        match rustix::fs::flock(&folder, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(folder),
            Err(Errno::WOULDBLOCK) if tokio::time::Instant::now() < deadline => {
                tokio::time::sleep(LOCK_PAUSE).await;
            }
            Err(errno) => return Err(unclear(errno)),
        }
    }
}

fn make_room(path: &Path) -> Result<(), ServeError> {
    let unclear = |source| ServeError::Unclear {
        path: path.to_owned(),
        source,
    };
    let there = match path.symlink_metadata() {
        Ok(there) => there,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(unclear(error)),
    };
    if !there.file_type().is_socket() {
        return Err(ServeError::NotASocket(path.to_owned()));
    }
    match UnixStream::connect(path) {
        Ok(_) => Err(ServeError::InUse(path.to_owned())),
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            std::fs::remove_file(path).map_err(unclear)
        }
        // A full queue of a process that is slow to accept.
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
            Err(ServeError::InUse(path.to_owned()))
        }
        Err(error) => Err(unclear(error)),
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
    fn of(path: &Path) -> io::Result<Self> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(Self {
            path: path.to_owned(),
            file: rustix::fs::open(path, flags, Mode::empty())?,
        })
    }

    fn is_still_there(&self) -> io::Result<bool> {
        let (ours, there) = (
            rustix::fs::fstat(&self.file)?,
            rustix::fs::lstat(&self.path)?,
        );
        Ok((ours.st_dev, ours.st_ino) == (there.st_dev, there.st_ino))
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if self.is_still_there().unwrap_or(false) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Serves `routes` until SIGTERM or SIGINT, then until all calls are answered, `drain` has passed, or a second signal
/// comes. `give_up` is called at the first signal, so that no call waits for what the next start takes up; `settled` ends
/// when work that outlives its call is done.
///
/// # Errors
/// When the transport fails.
pub async fn serve(
    listener: Listener,
    routes: Routes,
    log: Log,
    mut signals: StopSignals,
    drain: Duration,
    give_up: impl FnOnce(),
    settled: impl Future<Output = ()>,
) -> Result<Ended, ServeError> {
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let calls = CallLog::new(log);
    let router = Server::builder().layer(calls.clone()).add_routes(routes);
    let stopped = async {
        // Both a message and a dropped sender mean the end.
        let _ = stopped.await;
    };
    let mut file = None;
    let serving = async {
        match listener {
            Listener::Unix(listener, socket) => {
                file = Some(socket);
                let incoming = Connections::of(listener, log);
                router.serve_with_incoming_shutdown(incoming, stopped).await
            }
            Listener::Tcp(listener) => {
                let incoming = Connections::of(listener, log);
                router.serve_with_incoming_shutdown(incoming, stopped).await
            }
        }
    };
    tokio::pin!(serving);
    let name = tokio::select! {
        result = &mut serving => return result.map(|()| Ended::Drained).map_err(Into::into),
        name = signals.next() => name,
    };
    log.event(Level::Info, "draining", &[("signal", name.into())]);
    let _ = stop.send(());
    give_up();
    let drained = async {
        // Calls count, not connections: a client may keep an idle one for ever.
        let answered = async {
            calls.quiet().await;
            tokio::time::sleep(FLUSH).await;
        };
        tokio::select! {
            result = &mut serving => result?,
            () = answered => {}
        }
        settled.await;
        Ok::<_, ServeError>(Ended::Drained)
    };
    let ended = tokio::select! {
        result = drained => result?,
        () = tokio::time::sleep(drain) => Ended::Late,
        _ = signals.next() => Ended::Forced,
    };
    log.event(
        Level::Info,
        "ended",
        &[("how", format!("{ended:?}").to_lowercase().into())],
    );
    Ok(ended)
}

/// The signals that end the driver. From when they are watched they no longer end the process by themselves.
#[derive(Debug)]
pub struct StopSignals {
    term: Signal,
    int: Signal,
}

impl StopSignals {
    /// Watches SIGTERM and SIGINT.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn watch() -> Result<Self, ServeError> {
        Ok(Self {
            term: signal(SignalKind::terminate()).map_err(ServeError::Signals)?,
            int: signal(SignalKind::interrupt()).map_err(ServeError::Signals)?,
        })
    }

    async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.term.recv() => "SIGTERM",
            _ = self.int.recv() => "SIGINT",
        }
    }
}
