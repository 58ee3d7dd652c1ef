//! How the controller gets hold of a share's root folder, whether it is mounted over NFS or a local folder.

#[expect(clippy::disallowed_methods, reason = "threads of shares call it")]
pub mod local;

use crate::export::Export;
use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use thiserror::Error;
use tokio::runtime::Handle;
use tokio::task::JoinHandle;

/// A share's root folder, open for as long as somebody holds it.
pub type Root = Arc<OwnedFd>;

/// What opens a root folder.
pub type Opening<'a> = Pin<Box<dyn Future<Output = Result<Root, RootError>> + Send + 'a>>;

/// Opens the root folders of shares.
pub trait ShareRoots: Send + Sync + 'static {
    /// The root folder of `export`, mounted with `mount_options` (checked ones, such as `nfsvers=4.1`) where it has to be
    /// mounted. Bounded in time by the implementation.
    fn open<'a>(&'a self, export: &'a Export, mount_options: &'a [String]) -> Opening<'a>;

    /// Whether `export` is a folder of this machine: then no agent on its server is any faster.
    fn is_local(&self, _export: &Export) -> bool {
        false
    }

    /// Lets go of a root folder that is kept for `export` and these options: the server does not know it any more, so the
    /// next [`ShareRoots::open`] must get it anew. Nothing to do where none are kept.
    fn forget(&self, _export: &Export, _mount_options: &[String]) {}

    /// One more mount of `export` for one user alone, with a superblock of its own; it is given back with
    /// [`ShareRoots::let_go`]. Nothing where the export is a local folder, or cannot be mounted once more.
    fn open_another<'a>(
        &'a self,
        _export: &'a Export,
        _mount_options: &'a [String],
    ) -> Pin<Box<dyn Future<Output = Option<Root>> + Send + 'a>> {
        Box::pin(std::future::ready(None))
    }

    /// Takes back what [`ShareRoots::open_another`] gave.
    fn let_go(&self, _export: &Export, _root: Root) {}
}

/// Where more mounts of one share are had.
#[derive(Clone)]
pub struct MoreMounts {
    /// All shares.
    pub roots: Arc<dyn ShareRoots>,
    /// This one.
    pub export: Export,
    /// The options that it is mounted with.
    pub mount_options: Vec<String>,
    /// Where a mount is waited for.
    pub runtime: Handle,
}

impl fmt::Debug for MoreMounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "more mounts of {}", self.export)
    }
}

impl MoreMounts {
    /// Begins to mount one more, and does not wait for it.
    pub fn begin(&self) -> Mounting {
        let from = self.clone();
        Mounting {
            runtime: self.runtime.clone(),
            mounted: self.runtime.spawn(async move {
                let opening = from.roots.open_another(&from.export, &from.mount_options);
                let root = opening.await?;
                Some(Mounted { root, from })
            }),
        }
    }
}

/// A mount on its way. One that nobody waits for goes when it has come.
#[derive(Debug)]
pub struct Mounting {
    runtime: Handle,
    mounted: JoinHandle<Option<Mounted>>,
}

impl Mounting {
    /// The mount, if it can be had. Blocks until it is there.
    pub fn wait(self) -> Option<Mounted> {
        self.runtime.block_on(self.mounted).ok().flatten()
    }
}

/// A mount of a share for one user alone, until this is dropped.
#[derive(Debug)]
pub struct Mounted {
    root: Root,
    from: MoreMounts,
}

impl Mounted {
    /// The share's root folder.
    pub fn root(&self) -> &Root {
        &self.root
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // The last close unmounts, which may wait for the server.
        let _entered = self.from.runtime.enter();
        (self.from.roots).let_go(&self.from.export, Arc::clone(&self.root));
    }
}

/// Why a share's root folder cannot be had.
#[derive(Clone, Debug, Error)]
pub enum RootError {
    /// The server did not answer in time.
    #[error("{export}: no answer from the NFS server after {after:?}")]
    Unreachable {
        /// What was to be opened.
        export: Export,
        /// How long it was tried.
        after: Duration,
    },
    /// The server's name cannot be resolved.
    #[error("{export}: the server's name cannot be resolved: {detail}")]
    Resolve {
        /// What was to be opened.
        export: Export,
        /// The resolver's words.
        detail: String,
    },
    /// The server does not export that path.
    #[error("{0}: the server has no such export")]
    NotExported(Export),
    /// The export is a folder of this machine, and that is not there.
    #[error("{export}: {}, its folder on this machine, does not exist", .folder.display())]
    NoFolder {
        /// What was to be opened.
        export: Export,
        /// The folder.
        folder: PathBuf,
    },
    /// The server refuses this client.
    #[error("{0}: the server refuses this client")]
    Refused(Export),
    /// This kernel has no NFS client.
    #[error(
        "this kernel has no NFS client: load the module nfsv4 (or nfsv3) on the node, or install the kernel package that has it"
    )]
    NoNfsClient,
    /// This process may not mount.
    #[error("{0}: this process may not mount: it needs CAP_SYS_ADMIN")]
    MayNotMount(Export),
    /// Anything else.
    #[error("{export}: {source}")]
    Io {
        /// What was to be opened.
        export: Export,
        /// The cause.
        source: Arc<io::Error>,
    },
}
