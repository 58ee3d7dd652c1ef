//! Places to listen: what they are called, and sockets there.
//!
//! Owns files of sockets: none is removed that is not this process's own. Must not know what connections carry.

use super::endpoint::{ByteStream, SOCKET_PATH_MAX, socket_spelled_out};
use csi_proto::socket_file::SocketFile;
use csi_proto::socket_place::{SocketError, SocketPlace};
use std::io;
use std::net::SocketAddr;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net;
use std::path::{Path, PathBuf};
use std::time::Duration;
use thiserror::Error;
use tokio::net::{TcpListener, UnixListener};

/// What to do about a socket's place that cannot be had.
const REMEDY: &str = "listen elsewhere";

/// The schemes of endpoints that are written without slashes, and that nobody can listen on.
const NO_PLACES: [&str; 6] = ["exec", "pod", "kubectl", "embedded", "mock", "dns"];

/// Why nobody can listen there.
#[derive(Debug, Error)]
pub enum ListenError {
    /// The text names no place.
    #[error(
        "{text:?} is no place to listen: {problem}; write unix:///PATH, unix-abstract:NAME or tcp://ADDRESS:PORT"
    )]
    Syntax {
        /// The address as it was written.
        text: String,
        /// The problem of the address.
        problem: String,
    },
    /// The socket's place cannot be had.
    #[error(transparent)]
    Socket(#[from] SocketError),
    /// Nothing listens on the socket that is to be taken over.
    #[error("{}: no driver listens here, so there is nothing to take over", .0.display())]
    NoDriver(PathBuf),
    /// Another proxy has done it already.
    #[error("{}: a proxy that runs has taken this socket over already; the driver itself is on {}", .0.display(), .1.display())]
    TakenOver(PathBuf, PathBuf),
    /// The system refuses.
    #[error("cannot listen on {0}")]
    System(String, #[source] io::Error),
}

/// Permission bits that let somebody connect, which takes the right to write.
pub fn socket_mode(text: &str) -> Result<u32, String> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    match u32::from_str_radix(text, 8) {
        Ok(mode) if digits && mode <= 0o777 && mode & 0o222 != 0 => Ok(mode),
        _ => Err(format!(
            "{text:?} is no socket mode: give octal digits up to 777 that let somebody write, such as 0660"
        )),
    }
}

/// An address to listen on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListenAddress {
    /// A socket in the file system.
    Unix(PathBuf),
    /// A socket in the abstract namespace.
    Abstract(String),
    /// A port. Port 0 is one that the kernel chooses.
    Tcp(SocketAddr),
}

impl ListenAddress {
    /// `unix:///PATH`, `unix:PATH`, a path, `unix-abstract:NAME`, `tcp://ADDRESS:PORT`.
    pub fn parse(text: &str) -> Result<Self, ListenError> {
        let wrong = |problem: &str| ListenError::Syntax {
            text: text.to_owned(),
            problem: problem.to_owned(),
        };
        let socket = |path: &str| match path.len() {
            0 => Err(wrong("the path is missing")),
            1..=SOCKET_PATH_MAX => Ok(Self::Unix(path.into())),
            _ => Err(wrong("the path of a socket has at most 107 bytes")),
        };
        if let Some(name) = text.strip_prefix("unix-abstract:") {
            return match name.len() {
                1..=SOCKET_PATH_MAX => Ok(Self::Abstract(name.to_owned())),
                _ => Err(wrong("its name has from 1 to 107 bytes")),
            };
        }
        if let Some(address) = text.strip_prefix("tcp://") {
            // Names are for those who connect: a listener that follows a name service listens who knows where.
            let address = address.replacen("localhost:", "127.0.0.1:", 1);
            return address.parse().map(Self::Tcp).map_err(|_| {
                wrong("the address is an IP address with a port, such as 127.0.0.1:10000")
            });
        }
        if let Some(path) = text.strip_prefix("unix:") {
            return socket(path.strip_prefix("//").unwrap_or(path));
        }
        match text.split_once(':') {
            Some((scheme, rest)) if rest.starts_with("//") || NO_PLACES.contains(&scheme) => {
                Err(wrong(&format!("nobody can listen on {scheme}")))
            }
            _ if text.contains('/') => socket(text),
            _ => Err(wrong("it has no scheme")),
        }
    }

    /// Whether others than processes of this machine can reach it.
    pub fn is_public(&self) -> bool {
        matches!(self, Self::Tcp(address) if !address.ip().is_loopback())
    }
}

impl std::fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Unix(path) => f.write_str(&socket_spelled_out(path)),
            Self::Abstract(name) => write!(f, "unix-abstract:{name}"),
            Self::Tcp(address) => write!(f, "tcp://{address}"),
        }
    }
}

/// A listening socket.
#[derive(Debug)]
pub enum Listener {
    /// A socket in the file system, with its file.
    Unix(UnixListener, SocketFile),
    /// A socket in the abstract namespace.
    Abstract(UnixListener),
    /// A port.
    Tcp(TcpListener),
}

impl Listener {
    /// Takes a place. A socket that nobody serves any more is replaced.
    ///
    /// # Errors
    /// When the place is taken or cannot be used.
    pub fn bind(place: &ListenAddress, mode: u32) -> Result<Self, ListenError> {
        let failed = |cause| system(place, cause);
        Ok(match place {
            ListenAddress::Unix(path) => Self::taken(socket_place(path, mode).listen()?, path)?,
            ListenAddress::Abstract(name) => {
                let address = net::SocketAddr::from_abstract_name(name).map_err(failed)?;
                let listener = net::UnixListener::bind_addr(&address).map_err(failed)?;
                listener.set_nonblocking(true).map_err(failed)?;
                Self::Abstract(UnixListener::from_std(listener).map_err(failed)?)
            }
            ListenAddress::Tcp(address) => {
                let socket = std::net::TcpListener::bind(address).map_err(failed)?;
                socket.set_nonblocking(true).map_err(failed)?;
                Self::Tcp(TcpListener::from_std(socket).map_err(failed)?)
            }
        })
    }

    /// A socket whose place at `path` was taken.
    pub fn taken(
        (listener, file): (net::UnixListener, SocketFile),
        path: &Path,
    ) -> Result<Self, ListenError> {
        Ok(Self::Unix(
            UnixListener::from_std(listener).map_err(at(path))?,
            file,
        ))
    }

    /// The address of the listener; a port of 0 has become the one that the kernel chose.
    pub fn place(&self, asked: &ListenAddress) -> ListenAddress {
        match self {
            Self::Tcp(listener) => listener
                .local_addr()
                .map_or_else(|_| asked.clone(), ListenAddress::Tcp),
            _ => asked.clone(),
        }
    }

    /// The next connection. Errors of one connection, or of a process with too many files open, end nothing.
    pub async fn accept(&self) -> Box<dyn ByteStream> {
        loop {
            let accepted: io::Result<Box<dyn ByteStream>> = match self {
                Self::Unix(listener, _) | Self::Abstract(listener) => listener
                    .accept()
                    .await
                    .map(|(stream, _)| Box::new(stream) as _),
                Self::Tcp(listener) => listener.accept().await.map(|(stream, _)| {
                    let _ = stream.set_nodelay(true);
                    Box::new(stream) as _
                }),
            };
            match accepted {
                Ok(stream) => return stream,
                Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        }
    }
}

fn system(place: impl ToString, cause: io::Error) -> ListenError {
    ListenError::System(place.to_string(), cause)
}

/// The place of a socket with these permission bits.
pub fn socket_place(path: &Path, mode: u32) -> SocketPlace {
    SocketPlace {
        path: path.to_owned(),
        mode,
        remedy: REMEDY,
    }
}

/// An error of the system about that path.
pub fn at(path: &Path) -> impl Fn(io::Error) -> ListenError {
    let place = path.display().to_string();
    move |cause| system(&place, cause)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places() {
        for (text, place) in [
            (
                "unix:///run/x.sock",
                ListenAddress::Unix("/run/x.sock".into()),
            ),
            ("unix:x.sock", ListenAddress::Unix("x.sock".into())),
            ("unix:./x", ListenAddress::Unix("./x".into())),
            ("unix-abstract:n", ListenAddress::Abstract("n".to_owned())),
            (
                "tcp://127.0.0.1:0",
                ListenAddress::Tcp(([127, 0, 0, 1], 0).into()),
            ),
            (
                "tcp://localhost:1",
                ListenAddress::Tcp(([127, 0, 0, 1], 1).into()),
            ),
        ] {
            assert_eq!(ListenAddress::parse(text).expect(text), place);
            assert_eq!(place.to_string(), text.replace("localhost", "127.0.0.1"));
        }
        let path = ListenAddress::parse("./x").expect("a place");
        assert_eq!(path, ListenAddress::Unix("./x".into()));
        let long = format!("unix:///{}", "x".repeat(107));
        for (text, part) in [
            ("", "it has no scheme"),
            ("unix:", "the path is missing"),
            (&long, "at most 107 bytes"),
            ("unix-abstract:", "from 1 to 107 bytes"),
            ("tcp://host:1", "an IP address with a port"),
            ("https://h:1", "nobody can listen on https"),
            ("mock:", "nobody can listen on mock"),
            ("embedded:/f", "nobody can listen on embedded"),
            ("exec:/bin/x a", "nobody can listen on exec"),
            ("127.0.0.1:1", "it has no scheme"),
        ] {
            let error = ListenAddress::parse(text).expect_err(text).to_string();
            assert!(error.contains(part), "{error}");
        }
        assert!(
            ListenAddress::parse("tcp://0.0.0.0:1")
                .expect("a place")
                .is_public()
        );
        assert!(
            !ListenAddress::parse("tcp://[::1]:1")
                .expect("a place")
                .is_public()
        );
    }
}
