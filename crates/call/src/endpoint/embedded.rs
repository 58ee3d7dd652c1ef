//! The NFS driver in this process, reached over an in-memory pipe: `embedded:[DIR]`.
//!
//! Without the feature `embedded` such an endpoint is still understood, and refused with the reason.

use super::EndpointError;
use super::state::Folder;
#[cfg(not(feature = "embedded"))]
pub(super) use absent::Embedded;
#[cfg(feature = "embedded")]
pub(super) use csi_nfs::process::embedded::Embedded;

/// Opens the driver that keeps its share and its records in `folder`.
pub(super) fn open(folder: &Folder) -> Result<Embedded, EndpointError> {
    let folder = folder.prepare("embedded")?;
    Embedded::open(&folder).map_err(|cause| EndpointError::inside("embedded", &folder, cause))
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
    pub(crate) struct NotLinked;

    pub(crate) struct Embedded(Infallible);

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
