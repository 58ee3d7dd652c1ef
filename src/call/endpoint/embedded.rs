//! The NFS driver in this process, reached over an in-memory pipe: `embedded:[DIR]`.
//!
//! Without the feature `embedded` such an endpoint is still understood, and refused with the reason.

use super::EndpointError;
use super::state::Folder;
#[cfg(not(feature = "embedded"))]
use absent::Embedded;
#[cfg(feature = "embedded")]
use csi_nfs::process::embedded::Embedded;
use tokio::io::DuplexStream;

/// A driver that keeps its share and its records in one folder.
pub(super) struct EmbeddedDriver(Embedded);

impl EmbeddedDriver {
    /// Opens the driver whose state is in `folder`.
    pub(super) async fn open(folder: &Folder) -> Result<Self, EndpointError> {
        let folder = folder.prepare("embedded")?;
        match Embedded::open(&folder) {
            Ok(embedded) => Ok(Self(embedded)),
            Err(cause) => Err(EndpointError::inside("embedded", &folder, cause)),
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
