//! The NFS driver in this process, reached over an in-memory pipe: `embedded:[DIR]`.
//!
//! Without the feature `embedded` such an endpoint is still understood, and refused with the reason.

use super::EndpointError;
use crate::state_folder;
#[cfg(not(feature = "embedded"))]
use absent::Embedded;
#[cfg(feature = "embedded")]
use csi_driver_nfs::embedded::Embedded;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::io::DuplexStream;

/// A driver that keeps its share and its records in one folder.
pub(super) struct Driver(Embedded);

impl Driver {
    /// Opens the driver whose state is in `folder`, or in the default folder.
    pub(super) async fn open(folder: Option<&Path>) -> Result<Self, EndpointError> {
        let folder = chosen_folder(folder)?;
        match Embedded::open(&folder) {
            Ok(embedded) => Ok(Self(embedded)),
            Err(cause) => Err(EndpointError::Embedded {
                folder: Some(folder),
                cause: Arc::new(cause),
            }),
        }
    }

    /// A new connection to it.
    pub(super) fn connect(&self) -> DuplexStream {
        self.0.connect()
    }

    /// Waits until work that outlives its call is done.
    pub(super) async fn settled(&self) {
        self.0.settled().await;
    }
}

/// In the place of a driver that is not linked.
#[cfg(not(feature = "embedded"))]
mod absent {
    use std::convert::Infallible;
    use std::path::Path;
    use thiserror::Error;
    use tokio::io::DuplexStream;

    #[derive(Debug, Error)]
    #[error("this csi was built without it; build it with --features embedded")]
    pub struct NotLinked;

    pub struct Embedded(Infallible);

    impl Embedded {
        pub fn open(_: &Path) -> Result<Self, NotLinked> {
            Err(NotLinked)
        }

        pub fn connect(&self) -> DuplexStream {
            match self.0 {}
        }

        pub async fn settled(&self) {
            match self.0 {}
        }
    }
}

/// `folder` from the current folder, or the default: `csi/embedded` among the user's state.
fn chosen_folder(folder: Option<&Path>) -> Result<PathBuf, EndpointError> {
    let chosen = match folder {
        Some(folder) => std::path::absolute(folder),
        None => state_folder::current()
            .map(|state| state.join("csi/embedded"))
            .ok_or_else(|| io::Error::other("there is no home folder for it; write embedded:DIR")),
    };
    chosen.map_err(|cause| EndpointError::Embedded {
        folder: folder.map(Path::to_owned),
        cause: Arc::new(cause),
    })
}
