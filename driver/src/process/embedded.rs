//! The driver inside another program: its share is a local folder, and the transport is an in-memory pipe. Owns the
//! layout of that folder; must not know who calls.

use crate::calls::call_log::CallLog;
use crate::process::config::{Config, LocalShare, host_node_id};
use crate::process::driver::{Driver, WorkDirError};
use crate::process::log::Log;
use crate::process::work_folder::own_folder;
use csi_nfs_store::export::{Export, ExportError};
use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use thiserror::Error;
use tokio::io::DuplexStream;
use tonic::service::Routes;
use tonic::transport::Server;

/// The server's name in volume contexts of the embedded driver.
pub const SERVER: &str = "embedded";

/// The share's path in volume contexts of the embedded driver.
pub const SHARE: &str = "/";

/// How much the pipe holds before its writer waits: a few frames of HTTP/2.
const PIPE_BYTES: usize = 64 * 1024;

/// A driver that serves this process.
pub struct Embedded {
    driver: Driver,
    routes: Routes,
}

/// Why the embedded driver cannot be had.
#[derive(Debug, Error)]
pub enum EmbeddedError {
    /// Its folder cannot be used.
    #[error("the folder {}: {source}", .folder.display())]
    Folder {
        /// The folder.
        folder: PathBuf,
        /// The system's word.
        #[source]
        source: io::Error,
    },
    /// Its work folder cannot be used.
    #[error(transparent)]
    WorkDir(#[from] WorkDirError),
    /// Its share cannot be named, which is a defect.
    #[error(transparent)]
    Export(#[from] ExportError),
}

impl Embedded {
    /// The driver whose volumes are in `folder`, which is made when it is missing; what is in it is for this user alone. Its share is
    /// `folder/share`, in volume contexts `server=embedded,share=/`. Nothing is logged.
    #[expect(clippy::disallowed_methods, reason = "before anybody is served")]
    pub fn open(folder: impl AsRef<Path>) -> Result<Self, EmbeddedError> {
        let folder = folder.as_ref();
        let failed = |source| EmbeddedError::Folder {
            folder: folder.to_owned(),
            source,
        };
        own_folder(folder).map_err(failed)?;
        let folder = folder.canonicalize().map_err(failed)?;
        let share = folder.join("share");
        // This folder keeps others out; volumes get the modes that they ask for.
        match DirBuilder::new().mode(0o700).create(&share) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(failed(error));
            }
            _ => {}
        }
        let config = Config {
            driver_name: crate::process::config::DEFAULT_NAME.to_owned(),
            node_id: host_node_id().unwrap_or_else(|_| SERVER.to_owned()),
            local_shares: vec![LocalShare {
                export: Export::parse(SERVER, SHARE)?,
                path: share,
            }],
            work_dir: folder.join("work"),
            symlink_fallback: true,
            ..Config::default()
        };
        let driver = Driver::new(config, Log::off())?;
        let routes = driver.routes();
        Ok(Self { driver, routes })
    }

    /// A connection to the driver, served until its other end is dropped. To be called in a runtime.
    pub fn connect(&self) -> DuplexStream {
        let (ours, theirs) = tokio::io::duplex(PIPE_BYTES);
        let mut server = Server::builder().layer(CallLog::new(Log::off()));
        let router = server.add_routes(self.routes.clone());
        tokio::spawn(async move {
            let incoming = tokio_stream::once(Ok::<_, io::Error>(theirs));
            // An error here is that the caller has dropped its end.
            let _ = router.serve_with_incoming(incoming).await;
        });
        ours
    }

    /// Waits until work that outlives its call is done.
    pub async fn settled(&self) {
        self.driver.settled().await;
    }
}
