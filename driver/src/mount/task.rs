//! The tasks of helper processes and their answers, as they go through the socket. Must not perform them.

use crate::mount::options::{MountFlags, MountOptions, Version};
use crate::process::disk_thread::drop_aside;
use csi_nfs_store::export::Export;
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// One piece of work for a helper process.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Task {
    /// Mounts an NFS export.
    MountNfs {
        /// What to mount.
        source: NfsSource,
        /// Where it goes.
        place: Place,
    },
    /// Makes a local folder appear at an existing empty folder.
    Bind {
        /// The folder that the path below must not leave.
        root: PathBuf,
        /// The path below, without symlinks.
        below: PathBuf,
        /// Where it shall appear; its parent is free of symlinks.
        target: PathBuf,
        /// Flags of the new mount.
        flags: MountFlags,
        /// A name that must not be in what appears there.
        without: Option<String>,
        /// What the folder that appears there is given. The mount stays where it cannot be.
        ownership: Ownership,
        /// Whether an NFS export is mounted at `root`, whose server has to know it still.
        is_nfs: bool,
    },
    /// Gives the folder at the root of a mount an owner and a mode, if its server knows it.
    SetOwnership {
        /// Where it is mounted.
        target: PathBuf,
        /// What it gets.
        ownership: Ownership,
    },
    /// Takes the topmost mount away from a target.
    Unmount {
        /// The target.
        target: PathBuf,
        /// Whether it may go on in the background while somebody uses it or the server is gone.
        lazy: bool,
    },
    /// Asks the file system at a path how full it is.
    Usage {
        /// The path.
        path: PathBuf,
    },
    /// Whether this process may mount and the kernel has an NFS client.
    TryNfsClient,
}

impl Task {
    /// What it asks, where it changes nothing. A helper may answer several questions, one after the other. Each is one step, of which
    /// the helper tells nothing: its caller has this text.
    pub(super) fn question(&self) -> Option<String> {
        match self {
            Self::Usage { path } => Some(asking_usage(path)),
            _ => None,
        }
    }
}

/// The step of a question about usage.
pub(super) fn asking_usage(path: &Path) -> String {
    format!("asking how full {} is", path.display())
}

/// Where a new mount of an NFS export goes.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Place {
    /// At an existing empty folder.
    At {
        /// The folder; its parent is free of symlinks.
        target: PathBuf,
        /// The folder of the export that appears there, as a path without symlinks; all of it when empty.
        below: PathBuf,
        /// A name that must not be in what appears there.
        without: Option<String>,
        /// What the folder that appears there is given. The mount stays where it cannot be.
        ownership: Ownership,
    },
    /// Nowhere: the answer has its root folder.
    Nowhere {
        /// An empty private folder, for kernels that can mount only somewhere: there, in a mount namespace that ends with the
        /// helper, and for a look at the mount.
        scratch: PathBuf,
        /// Whether the answer says how the kernel shows the mount.
        show: bool,
    },
}

/// What a folder is given, as far as it is said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ownership {
    /// Permission bits.
    pub mode: Option<u32>,
    /// The owner.
    pub uid: Option<u32>,
    /// The group.
    pub gid: Option<u32>,
}

/// An NFS export and how to mount it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct NfsSource {
    /// What is mounted.
    pub export: Export,
    /// Checked options.
    pub options: MountOptions,
    /// How long to wait for a connection to one address.
    pub timeout: Duration,
}

/// A message from the helper.
#[derive(Debug, Serialize, Deserialize)]
pub enum HelperMessage {
    /// What it does now, so that a deadline can say where it struck.
    Step(String),
    /// It is done, and a file descriptor may come with this; or it failed, and nothing is left behind but what the task says.
    Ended(Result<Done, Failure>),
}

/// What a finished task tells.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Done {
    /// The version of NFS that server and client agreed on.
    pub version: Option<Version>,
    /// How full a file system is.
    pub usage: Option<Usage>,
    /// The options of a mount as mountinfo shows them, those of the file system behind those of the mount; or why they are
    /// not known.
    pub shown: Option<String>,
    /// The root folder of a mount that is nowhere.
    #[serde(skip)]
    pub root: OpenedFile,
}

/// What a helper has opened, if anything. A caller that has given up meanwhile does not wait for its end.
#[derive(Debug, Default)]
pub struct OpenedFile(pub Option<OwnedFd>);

impl Drop for OpenedFile {
    fn drop(&mut self) {
        if let Some(file) = self.0.take() {
            drop_aside(file);
        }
    }
}

/// How full a file system is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Size in bytes.
    pub total_bytes: u64,
    /// Bytes that an ordinary user may still write.
    pub available_bytes: u64,
    /// Bytes in use.
    pub used_bytes: u64,
    /// Number of inodes; 0 where the file system has no limit.
    pub total_inodes: u64,
    /// Inodes that are free.
    pub free_inodes: u64,
}

/// Why a task failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// What that means for the caller.
    pub kind: FailureKind,
    /// The error number of the kernel, 0 where it was not the kernel's.
    pub errno: i32,
    /// What was tried, and words of the kernel or resolver.
    pub detail: String,
}

/// Tells what is done now.
pub type Say<'a> = &'a mut dyn FnMut(String);

/// What a failure means for the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FailureKind {
    /// The server's name has no address.
    Resolve,
    /// Nothing answers at the server's address.
    Unreachable,
    /// The server has no such path, or the local folder is missing.
    NotFound,
    /// A path on a share leads through a symlink.
    Symlink,
    /// The folder holds what must not appear at the target.
    Holds,
    /// The server refuses this client.
    Refused,
    /// Kerberos was asked for and does not work on this node.
    Kerberos,
    /// None of the versions is spoken by both sides.
    Version,
    /// The kernel does not take an option.
    Option,
    /// The kernel has no NFS client.
    NoNfsClient,
    /// This process lacks the privilege.
    NotPermitted,
    /// Somebody uses the mount.
    Busy,
    /// Nothing is mounted there.
    NotMounted,
    /// Anything else.
    Other,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.detail)?;
        if self.errno != 0 {
            write!(f, ": {}", Errno::from_raw_os_error(self.errno))?;
        }
        Ok(())
    }
}

impl Failure {
    /// A failed call of the kernel.
    pub fn new(kind: FailureKind, errno: Errno, detail: impl Into<String>) -> Self {
        Self {
            kind,
            errno: errno.raw_os_error(),
            detail: detail.into(),
        }
    }

    /// Whether the server has said that it does not know the folder any more.
    pub fn is_stale(&self) -> bool {
        self.errno == Errno::STALE.raw_os_error()
    }

    /// The kernel knows no NFS.
    pub fn no_nfs_client() -> Self {
        Self {
            kind: FailureKind::NoNfsClient,
            errno: 0,
            detail: "this kernel has no NFS client: load the module nfsv4 (or nfsv3) on the node (modprobe nfsv4), or \
                     install the kernel package that has it"
                .to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};
    use std::time::Instant;

    /// A socket whose close waits for a peer that does not read, as a mount's waits for its server.
    fn slow_to_close() -> (OwnedFd, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut ours = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (peer, _) = listener.accept().unwrap();
        ours.set_nonblocking(true).unwrap();
        while ours.write(&[0; 1 << 16]).is_ok() {}
        ours.set_nonblocking(false).unwrap();
        let linger = Some(Duration::from_secs(600));
        rustix::net::sockopt::set_socket_linger(&ours, linger).unwrap();
        (ours.into(), peer)
    }

    #[test]
    fn nobody_waits_for_the_end_of_what_nobody_took() {
        let (file, _peer) = slow_to_close();
        let begun = Instant::now();
        drop(OpenedFile(Some(file)));
        // Far from what the close would take, however slow the machine is.
        assert!(begun.elapsed() < Duration::from_secs(300));
    }
}
