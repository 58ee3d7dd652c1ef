//! The driver's socket: what is at its path, or that it has an abstract name; who may use it, and whether somebody accepts connections.
//! [`SocketFacts::look`] looks, and never waits longer than its limit.

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

/// A socket to which a connection can be tried.
struct Found {
    /// It, in words.
    shown: String,
    /// Its path, or nothing for an abstract name: whoever shares its network namespace may use it.
    path: Option<PathBuf>,
    /// Whether this process may write to it.
    usable: bool,
    /// Whether every user of this machine may.
    open: bool,
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
}

/// What is known of the socket.
pub struct SocketFacts {
    /// What became of a connection, where one was tried.
    pub connected: Option<Connected>,
    /// What all of it means.
    pub finding: Finding,
}

impl SocketFacts {
    /// Looks at the path of the endpoint's socket, and connects where one is.
    pub async fn look(endpoint: &Endpoint, path: &Path, limit: Duration) -> Self {
        match found_at(path) {
            Err(finding) => Self {
                connected: None,
                finding,
            },
            Ok(found) => {
                let connected = connect(path, limit).await;
                let (user, aside) = (geteuid().as_raw(), endpoint.moved_aside());
                Self {
                    finding: found.finding(&connected, user, aside.as_deref()),
                    connected: Some(connected),
                }
            }
        }
    }
}

impl Found {
    /// What it means, for `user`, that a connection became this; `aside` is where a proxy has moved the socket and not back.
    fn finding(self, connected: &Connected, user: u32, aside: Option<&Path>) -> Finding {
        let shown = self.shown;
        let (what, advice) = match (connected, self.path) {
            (connected, _) if !self.usable || *connected == Connected::Denied => (
                format!("this user ({user}) may not use it"),
                "try as root, or as a member of the socket's group".to_owned(),
            ),
            (Connected::Refused, None) => (
                "nobody listens in this network namespace".to_owned(),
                "start the driver, or look in its log; its --endpoint names the socket".to_owned(),
            ),
            (Connected::Refused, Some(path)) => (
                "nobody listens".to_owned(),
                match aside {
                    Some(aside) => hint_for_moved(&path, aside),
                    None => "the driver has ended and left its socket: look at its log and start it again".to_owned(),
                },
            ),
            (Connected::Full, _) => (
                "its queue is full, nobody accepts connections".to_owned(),
                "the driver hangs or is stopped: look at its process and its log".to_owned(),
            ),
            (Connected::Failed(error), _) => (
                error.clone(),
                "name the socket that the driver's --endpoint names".to_owned(),
            ),
            _ if !self.open => return Finding::fine(CHECK, shown),
            (_, path) => (
                "every user of this machine may call the driver".to_owned(),
                match path {
                    Some(path) => format!("chmod o-w {}, and the driver's umask", path.display()),
                    None => "a socket with a path has permissions: unix:///PATH".to_owned(),
                },
            ),
        };
        Finding::wrong(CHECK, format!("{shown}: {what}"), advice)
    }
}

/// The socket there, or what is wrong where none is.
fn found_at(path: &Path) -> Result<Found, Finding> {
    let shown = path.display().to_string();
    if path.as_os_str().as_bytes().starts_with(b"\0") {
        return Ok(Found {
            shown: format!("unix-abstract:{}", shown.trim_start_matches('\0')),
            path: None,
            usable: true,
            open: true,
        });
    }
    let real = absolute(path);
    let found = real.metadata().map_err(|error| {
        let (what, advice) = not_seen(&error, real.parent().is_some_and(Path::is_dir));
        Finding::wrong(CHECK, shown.clone() + &what, advice)
    })?;
    if !found.file_type().is_socket() {
        return Err(Finding::wrong(
            CHECK,
            format!("{shown} is no socket"),
            "name the socket that the driver's --endpoint names",
        ));
    }
    let (mode, uid, gid) = (found.mode(), found.uid(), found.gid());
    Ok(Found {
        shown: format!("{shown}, mode {:04o} of {uid}:{gid}", mode & 0o7777),
        path: Some(path.to_owned()),
        usable: access(&real, Access::WRITE_OK).is_ok(),
        open: mode & 0o002 != 0 && is_open_to_all(&real),
    })
}

/// Why nothing is seen at a path, to be said after it, and what to do.
fn not_seen(error: &io::Error, has_folder: bool) -> (String, &'static str) {
    match error.kind() {
        io::ErrorKind::NotFound if has_folder => (
            ": no such file".to_owned(),
            "start the driver, or look in its log for why it makes no socket; its --endpoint names the path",
        ),
        io::ErrorKind::NotFound => (
            ": no such file, nor is its folder there".to_owned(),
            "is the path right, and is the driver's folder mounted into this container?",
        ),
        io::ErrorKind::PermissionDenied => (
            format!(" cannot be looked at: {error}"),
            "a folder above it may not be entered by this user: try as root",
        ),
        _ => (
            format!(": {error}"),
            "is the path right? The driver's --endpoint names it",
        ),
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
    use std::os::unix::fs::PermissionsExt as _;
    use std::os::unix::net::UnixListener;

    #[test]
    fn what_is_at_the_path_decides() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        std::fs::write(&file, "").unwrap();
        for (path, words) in [
            (file.clone(), "file is no socket"),
            (file.join("s"), "/s: Not a directory"),
            (folder.path().join("s"), "/s: no such file"),
            (
                folder.path().join("a/s"),
                "/s: no such file, nor is its folder there",
            ),
        ] {
            let finding = found_at(&path).err().unwrap();
            assert_eq!(finding.state, State::Wrong);
            assert!(
                finding.text.contains(words) && finding.advice.is_some(),
                "{finding:?}"
            );
        }
        let denied = not_seen(&io::ErrorKind::PermissionDenied.into(), true);
        assert_eq!(denied.0, " cannot be looked at: permission denied");
    }

    #[test]
    fn what_became_of_a_connection_decides() {
        let socket = |usable, open| Found {
            shown: "/s".to_owned(),
            path: Some("/s".into()),
            usable,
            open,
        };
        let unnamed = || found_at(Path::new("\0s")).unwrap();
        let listens = Connected::Accepted(Some(7));
        assert_eq!(
            socket(true, false).finding(&listens, 5, None),
            Finding::fine(CHECK, "/s")
        );
        for (found, connected, words) in [
            (socket(true, true), &listens, "/s: every user"),
            (socket(false, true), &listens, "/s: this user (5)"),
            (socket(true, false), &Connected::Denied, "this user (5)"),
            (socket(true, true), &Connected::Refused, "nobody listens"),
            (socket(true, true), &Connected::Full, "queue is full"),
            (
                socket(true, true),
                &Connected::Failed("odd".into()),
                "/s: odd",
            ),
            (unnamed(), &listens, "unix-abstract:s: every user"),
            (unnamed(), &Connected::Refused, "in this network namespace"),
            (unnamed(), &Connected::Full, "queue is full"),
        ] {
            let finding = found.finding(connected, 5, None);
            assert_eq!(finding.state, State::Wrong);
            assert!(
                finding.text.contains(words) && finding.advice.is_some(),
                "{finding:?}"
            );
        }
    }

    #[test]
    fn a_socket_is_shown_with_who_may_use_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s");
        let _listener = UnixListener::bind(&path).unwrap();
        let set_mode = |path: &Path, mode| {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
        };
        set_mode(&path, 0o602);
        set_mode(folder.path(), 0o700);
        let found = found_at(&path).unwrap();
        assert!(found.shown.contains("/s, mode 0602 of "), "{}", found.shown);
        // Others may not enter the folder.
        assert!(found.usable && !found.open);
    }
}
