//! The driver's own socket when the proxy takes it over: the driver gets its path back.

use csi_call::endpoint::SOCKET_PATH_MAX;
use csi_call::endpoint::aside;
use csi_call::listen::{ListenAddress, ListenError, Listener, at, socket_place};
use csi_proto::socket_file::SocketState;
use csi_proto::socket_place::{SocketError, SocketPlace};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A driver's own socket, whose place the proxy takes: the driver's is renamed aside, where it answers as before, and gets
/// its name back in the end.
#[derive(Debug)]
pub(crate) struct TakeOver {
    /// The path that is taken.
    pub path: PathBuf,
    /// The path at which the driver answers once its socket is taken over.
    pub aside: PathBuf,
    /// The inode of a socket that was at the path when last looked, and is not ours: a driver that starts again.
    newcomer: Option<(u64, u64)>,
}

/// The place of a socket that is taken over, or of the driver's beside it.
fn place(path: &Path, mode: u32) -> SocketPlace {
    SocketPlace {
        remedy: "take over another socket",
        ..socket_place(path, mode)
    }
}

/// The change of a socket that was taken over, since the last look.
pub(crate) enum SocketChange {
    /// Nothing new.
    None,
    /// The driver is gone, and so is the proxy's socket: the driver can start again.
    GivenUp,
    /// The driver is back, or its socket was removed: the proxy has the path again.
    Taken(Listener),
}

impl TakeOver {
    /// The socket that this text names.
    ///
    /// # Errors
    /// When it is none in the file system.
    pub fn parse(text: &str) -> Result<Self, ListenError> {
        match ListenAddress::parse(text) {
            Ok(ListenAddress::Unix(path)) => Self::new(&path),
            Err(_) if !text.is_empty() && !text.contains(':') => Self::new(Path::new(text)),
            _ => Err(ListenError::Syntax {
                text: text.to_owned(),
                problem: "only a socket in the file system can be taken over".to_owned(),
            }),
        }
    }

    /// For the driver's socket at `path`.
    ///
    /// # Errors
    /// When its path is too long for a longer one beside it.
    pub fn new(path: &Path) -> Result<Self, ListenError> {
        let aside = aside(path);
        let (longest, length) = (aside.as_os_str().len(), path.as_os_str().len());
        if longest > SOCKET_PATH_MAX {
            return Err(ListenError::Syntax {
                text: path.display().to_string(),
                problem: format!(
                    "the path of a socket that is taken over has at most {} bytes",
                    SOCKET_PATH_MAX - (longest - length)
                ),
            });
        }
        Ok(Self {
            path: path.to_owned(),
            aside,
            newcomer: None,
        })
    }

    /// Takes the path, also when a proxy that was killed has left it half-way.
    ///
    /// # Errors
    /// When there is no driver, or another proxy was here first.
    pub fn take(&self) -> Result<Listener, ListenError> {
        // The permissions follow from the driver's own.
        let place = place(&self.path, 0);
        let _alone = place.lock()?;
        let there = place.look().map_err(|error| match error {
            SocketError::NotASocket { path, .. } => ListenError::NoDriver(path),
            error => error.into(),
        })?;
        let aside = self::place(&self.aside, 0).look()?;
        match (there, aside) {
            (SocketState::Live, SocketState::Live) => {
                return Err(ListenError::TakenOver(
                    self.path.clone(),
                    self.aside.clone(),
                ));
            }
            (SocketState::Live, _) => {
                std::fs::rename(&self.path, &self.aside).map_err(at(&self.path))?;
            }
            // A proxy that was killed has left its own dead socket at the path.
            (SocketState::Dead, SocketState::Live) => {
                std::fs::remove_file(&self.path).map_err(at(&self.path))?
            }
            (SocketState::Nothing, SocketState::Live) => {}
            _ => return Err(ListenError::NoDriver(self.path.clone())),
        }
        let bound = self
            .aside
            .symlink_metadata()
            .map_err(at(&self.aside))
            .and_then(|driver| {
                let owner = Some((driver.uid(), driver.gid()));
                let place = self::place(&self.path, driver.mode() & 0o7777);
                Listener::taken(place.bind(owner)?, &self.path)
            });
        if bound.is_err() {
            let _ = std::fs::rename(&self.aside, &self.path);
        }
        bound
    }

    /// Looks whether the driver has gone or come back. `driver_answers` tells whether the one that was taken over does.
    ///
    /// # Errors
    /// When the path cannot be taken again.
    pub fn look(
        &mut self,
        listener: &mut Option<Listener>,
        driver_answers: bool,
    ) -> Result<SocketChange, ListenError> {
        let ours = matches!(listener, Some(Listener::Unix(_, file)) if file.is_there());
        if ours && driver_answers {
            return Ok(SocketChange::None);
        }
        if ours {
            // Dropping it removes the file.
            *listener = None;
            let _ = std::fs::remove_file(&self.aside);
            return Ok(SocketChange::GivenUp);
        }
        let there = self.path.symlink_metadata().ok();
        let newcomer = there.map(|there| (there.dev(), there.ino()));
        let settled = newcomer == self.newcomer;
        self.newcomer = newcomer;
        match newcomer {
            // A driver that closes removes the path whoever has it by now.
            None if driver_answers => {}
            None => return Ok(SocketChange::None),
            // A driver that has just made its socket may be about to set its mode by its path.
            Some(_) if !settled || place(&self.path, 0).look()? != SocketState::Live => {
                return Ok(SocketChange::None);
            }
            // The old one is dead, or nobody reaches it any more.
            Some(_) => drop(std::fs::remove_file(&self.aside)),
        }
        *listener = None;
        self.newcomer = None;
        self.take().map(SocketChange::Taken)
    }

    /// Gives the path back. Nobody sees a moment without a socket.
    pub(crate) fn give_back(&self, listener: Option<Listener>) {
        let ours = matches!(&listener, Some(Listener::Unix(_, file)) if file.is_there());
        if ours {
            let _ = std::fs::rename(&self.aside, &self.path);
        }
    }
}
