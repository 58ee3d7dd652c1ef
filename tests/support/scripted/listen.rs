//! The sockets that a scripted driver can listen on, each as a stream of connections.

use super::super::unserved::stop_listening;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net as std_unix;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;

pub(super) trait Stream: AsyncRead + AsyncWrite + Send {}
impl<S: AsyncRead + AsyncWrite + Send> Stream for S {}

pub(super) struct Listener {
    endpoint: String,
    socket: Socket,
    answers: bool,
}

enum Socket {
    Unix(UnixListener),
    Tcp(TcpListener, Option<TlsAcceptor>),
}

impl Listener {
    pub(super) fn unix(folder: &Path) -> Self {
        let path = folder.join("csi.sock");
        let socket = UnixListener::bind(&path).expect("a socket in a new folder");
        Self::new(format!("unix://{}", path.display()), Socket::Unix(socket))
    }

    pub(super) fn unix_abstract(folder: &Path) -> Self {
        // The folder's name is as unique as the name of the socket must be.
        let name = folder.display().to_string();
        let address = std_unix::SocketAddr::from_abstract_name(&name).expect("a short name");
        let socket = std_unix::UnixListener::bind_addr(&address).expect("a free name");
        socket.set_nonblocking(true).expect("a socket");
        let socket = UnixListener::from_std(socket).expect("a socket");
        Self::new(format!("unix-abstract:{name}"), Socket::Unix(socket))
    }

    pub(super) fn tcp() -> Self {
        let (socket, port) = free_port();
        Self::new(format!("tcp://127.0.0.1:{port}"), Socket::Tcp(socket, None))
    }

    pub(super) fn tls(config: Arc<ServerConfig>) -> Self {
        let (socket, port) = free_port();
        let acceptor = TlsAcceptor::from(config);
        Self::new(
            format!("https://localhost:{port}"),
            Socket::Tcp(socket, Some(acceptor)),
        )
    }

    fn new(endpoint: String, socket: Socket) -> Self {
        Self {
            endpoint,
            socket,
            answers: true,
        }
    }

    pub(super) fn never_answering(mut self) -> Self {
        self.answers = false;
        self
    }

    pub(super) fn endpoint(&self) -> &str {
        &self.endpoint
    }

    pub(super) fn answers(&self) -> bool {
        self.answers
    }

    /// The next connection, and its socket; `None` for one that failed before its first byte, such as a refused handshake.
    pub(super) async fn accept(&self) -> Option<(Pin<Box<dyn Stream>>, OwnedFd)> {
        match &self.socket {
            Socket::Unix(socket) => {
                let (stream, _) = socket.accept().await.ok()?;
                let copy = stream.as_fd().try_clone_to_owned().ok()?;
                Some((Box::pin(stream), copy))
            }
            Socket::Tcp(socket, tls) => {
                let (stream, _) = socket.accept().await.ok()?;
                let copy = stream.as_fd().try_clone_to_owned().ok()?;
                match tls {
                    None => Some((Box::pin(stream), copy)),
                    Some(tls) => Some((Box::pin(tls.accept(stream).await.ok()?), copy)),
                }
            }
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        match &self.socket {
            Socket::Unix(socket) => stop_listening(socket),
            Socket::Tcp(socket, _) => stop_listening(socket),
        }
    }
}

fn free_port() -> (TcpListener, u16) {
    let socket = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    socket.set_nonblocking(true).expect("a socket");
    let port = socket.local_addr().expect("a bound socket").port();
    (TcpListener::from_std(socket).expect("a socket"), port)
}
