//! The driver's socket: what is at its path, or that it has an abstract name; who may use it, and whether somebody accepts connections.
//!
//! [`SocketFacts::look`] looks, and never waits longer than its limit; [`SocketFacts::finding`] decides.

use super::finding::Finding;
use csi_call::Endpoint;
use csi_call::endpoint::absolute;
use csi_call::error::hint_for_moved;
use rustix::fs::{Access, access};
use rustix::process::{geteuid, getpid};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::net::UnixStream;
use tokio::time::timeout;

const CHECK: &str = "socket";

/// What is at a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PathEntry {
    /// No such file; whether its folder is there.
    Nothing {
        /// Whether it is.
        folder: bool,
    },
    /// A path through something that is no folder, or another that names nothing.
    NoPath(String),
    /// It cannot be looked at.
    Hidden(String),
    /// An abstract name, which has no permissions.
    Abstract,
    /// A file that is no socket.
    Other,
    /// A socket.
    Socket {
        /// Its permissions.
        mode: u32,
        /// Its owner.
        uid: u32,
        /// Its group.
        gid: u32,
        /// Whether this process may write to it.
        usable: bool,
        /// Whether every user of this machine may.
        open: bool,
    },
}

/// What became of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Connected {
    /// Somebody listens: the process that does, where it is visible.
    Accepted(Option<u32>),
    /// Nobody listens.
    Refused,
    /// Somebody listens and accepts nothing: the queue is full.
    Full,
    /// This user may not connect.
    Denied,
    /// Another error.
    Failed(String),
    /// None was tried.
    Untried,
}

/// Everything that is known of the socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SocketFacts {
    /// Its path, or NUL and its abstract name.
    pub path: PathBuf,
    /// What is there.
    pub entry: PathEntry,
    /// What became of a connection.
    pub connected: Connected,
    /// Where a proxy has moved it and not back.
    pub aside: Option<PathBuf>,
    /// Who runs this.
    pub user: u32,
}

impl SocketFacts {
    /// Looks at the path of the endpoint's socket, and connects where one is.
    pub async fn look(endpoint: &Endpoint, path: &Path, limit: Duration) -> Self {
        let entry = entry_at(path);
        let connected = match entry {
            PathEntry::Socket { .. } | PathEntry::Abstract => connect(path, limit).await,
            _ => Connected::Untried,
        };
        Self {
            path: path.to_owned(),
            entry,
            connected,
            aside: endpoint.moved_aside(),
            user: geteuid().as_raw(),
        }
    }

    /// The process that listens, where it is visible.
    pub fn listener(&self) -> Option<u32> {
        match self.connected {
            Connected::Accepted(process) => process,
            _ => None,
        }
    }

    /// What that means.
    pub fn finding(&self) -> Finding {
        let path = self.path.display();
        match &self.entry {
            PathEntry::Nothing { folder: false } => Finding::wrong(
                CHECK,
                format!("{path}: no such file, nor is its folder there"),
                "is the path right, and is the driver's folder mounted into this container?",
            ),
            PathEntry::Nothing { folder: true } => Finding::wrong(
                CHECK,
                format!("{path}: no such file"),
                "start the driver, or look in its log for why it makes no socket; its --endpoint names the path",
            ),
            PathEntry::NoPath(error) => Finding::wrong(
                CHECK,
                format!("{path}: {error}"),
                "is the path right? The driver's --endpoint names it",
            ),
            PathEntry::Hidden(error) => Finding::wrong(
                CHECK,
                format!("{path} cannot be looked at: {error}"),
                "a folder above it may not be entered by this user: try as root",
            ),
            PathEntry::Other => Finding::wrong(
                CHECK,
                format!("{path} is no socket"),
                "name the socket that the driver's --endpoint names",
            ),
            PathEntry::Abstract => {
                let path = path.to_string();
                let shown = format!("unix-abstract:{}", path.trim_start_matches('\0'));
                self.of_abstract(shown)
            }
            PathEntry::Socket {
                mode,
                uid,
                gid,
                usable,
                open,
            } => {
                let shown = format!("{path}, mode {:04o} of {uid}:{gid}", mode & 0o7777);
                self.of_socket(shown, *open, *usable)
            }
        }
    }

    /// Whoever shares its network namespace may use it.
    fn of_abstract(&self, shown: String) -> Finding {
        match self.connected {
            Connected::Accepted(_) => Finding::wrong(
                CHECK,
                format!("{shown}: every user of this machine may call the driver"),
                "a socket with a path has permissions: unix:///PATH",
            ),
            Connected::Refused => Finding::wrong(
                CHECK,
                format!("{shown}: nobody listens in this network namespace"),
                "start the driver, or look in its log; its --endpoint names the socket",
            ),
            _ => self.of_socket(shown, false, true),
        }
    }

    fn of_socket(&self, shown: String, open: bool, usable: bool) -> Finding {
        match &self.connected {
            connected if !usable || *connected == Connected::Denied => Finding::wrong(
                CHECK,
                format!("{shown}: this user ({}) may not use it", self.user),
                "try as root, or as a member of the socket's group",
            ),
            Connected::Refused => Finding::wrong(
                CHECK,
                format!("{shown}: nobody listens"),
                match &self.aside {
                    Some(aside) => hint_for_moved(&self.path, aside),
                    None => "the driver has ended and left its socket: look at its log and start it again".to_owned(),
                },
            ),
            Connected::Full => Finding::wrong(
                CHECK,
                format!("{shown}: its queue is full, nobody accepts connections"),
                "the driver hangs or is stopped: look at its process and its log",
            ),
            Connected::Failed(error) => Finding::wrong(
                CHECK,
                format!("{shown}: {error}"),
                "name the socket that the driver's --endpoint names",
            ),
            Connected::Accepted(_) | Connected::Untried if open => Finding::wrong(
                CHECK,
                format!("{shown}: every user of this machine may call the driver"),
                format!("chmod o-w {}, and the driver's umask", self.path.display()),
            ),
            _ => Finding::fine(CHECK, shown),
        }
    }
}

fn entry_at(path: &Path) -> PathEntry {
    if path.as_os_str().as_bytes().starts_with(b"\0") {
        return PathEntry::Abstract;
    }
    let path = &absolute(path);
    match path.metadata() {
        Err(error) => match error.kind() {
            io::ErrorKind::NotFound => PathEntry::Nothing {
                folder: path.parent().is_some_and(Path::is_dir),
            },
            io::ErrorKind::PermissionDenied => PathEntry::Hidden(error.to_string()),
            _ => PathEntry::NoPath(error.to_string()),
        },
        Ok(found) if !found.file_type().is_socket() => PathEntry::Other,
        Ok(found) => PathEntry::Socket {
            mode: found.mode(),
            uid: found.uid(),
            gid: found.gid(),
            usable: access(path, Access::WRITE_OK).is_ok(),
            open: found.mode() & 0o002 != 0 && is_open_to_all(path),
        },
    }
}

/// Whether every user may come as far as the file.
fn is_open_to_all(path: &Path) -> bool {
    let Ok(real) = path.canonicalize() else {
        return false;
    };
    let mut folders = real.ancestors().skip(1);
    folders.all(|folder| folder.metadata().is_ok_and(|it| it.mode() & 0o001 != 0))
}

/// Connects, and asks the kernel who listens.
pub async fn connect(path: &Path, limit: Duration) -> Connected {
    match timeout(limit, UnixStream::connect(path)).await {
        Err(_) => Connected::Full,
        Ok(Ok(stream)) => {
            let peer = stream.peer_cred().ok().and_then(|peer| peer.pid());
            let process = peer.and_then(|process| u32::try_from(process).ok());
            // A process of another namespace is 0 here.
            let own = u32::try_from(getpid().as_raw_nonzero().get()).ok();
            Connected::Accepted(process.filter(|process| *process != 0 && Some(*process) != own))
        }
        Ok(Err(error)) => match error.kind() {
            io::ErrorKind::ConnectionRefused => Connected::Refused,
            io::ErrorKind::WouldBlock => Connected::Full,
            io::ErrorKind::PermissionDenied => Connected::Denied,
            _ => Connected::Failed(error.to_string()),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::doctor::finding::State;

    #[test]
    fn what_is_at_the_path_decides() {
        let socket = |mode: u32, usable| PathEntry::Socket {
            mode: 0o140_000 | mode,
            uid: 0,
            gid: 4,
            usable,
            open: mode & 0o002 != 0,
        };
        let listens = Connected::Accepted(Some(7));
        for (entry, connected, state, part) in [
            (
                socket(0o660, true),
                listens.clone(),
                State::Fine,
                "mode 0660 of 0:4",
            ),
            (
                socket(0o666, true),
                listens.clone(),
                State::Wrong,
                "every user",
            ),
            (
                socket(0o600, false),
                Connected::Denied,
                State::Wrong,
                "this user (5)",
            ),
            (
                socket(0o600, true),
                Connected::Refused,
                State::Wrong,
                "nobody listens",
            ),
            (
                socket(0o600, true),
                Connected::Full,
                State::Wrong,
                "queue is full",
            ),
            (
                socket(0o600, true),
                Connected::Failed("odd".into()),
                State::Wrong,
                "odd",
            ),
            (PathEntry::Abstract, listens, State::Wrong, "every user"),
            (
                PathEntry::Abstract,
                Connected::Refused,
                State::Wrong,
                "nobody listens in this network namespace",
            ),
            (
                PathEntry::Abstract,
                Connected::Full,
                State::Wrong,
                "queue is full",
            ),
            (
                PathEntry::Other,
                Connected::Untried,
                State::Wrong,
                "is no socket",
            ),
            (
                PathEntry::Hidden("denied".into()),
                Connected::Untried,
                State::Wrong,
                "denied",
            ),
            (
                PathEntry::NoPath("Not a directory".into()),
                Connected::Untried,
                State::Wrong,
                "/s: Not a directory",
            ),
            (
                PathEntry::Nothing { folder: true },
                Connected::Untried,
                State::Wrong,
                "/s: no such file",
            ),
            (
                PathEntry::Nothing { folder: false },
                Connected::Untried,
                State::Wrong,
                "nor is its folder",
            ),
        ] {
            let facts = SocketFacts {
                path: "/s".into(),
                entry,
                connected,
                aside: None,
                user: 5,
            };
            let finding = facts.finding();
            assert_eq!(finding.state, state, "{finding:?}");
            assert!(finding.text.contains(part), "{part}: {finding:?}");
            assert_eq!(
                finding.advice.is_some(),
                state == State::Wrong,
                "{finding:?}"
            );
        }
    }
}
