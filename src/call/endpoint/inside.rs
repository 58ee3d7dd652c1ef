//! The drivers in this process, reached over an in-memory pipe.

use super::EndpointError;
use super::embedded::EmbeddedDriver;
use super::mock::MockDriver;
use super::state::Folder;
use tokio::io::DuplexStream;

/// A driver in this process.
pub(super) enum Inside {
    Nfs(Box<EmbeddedDriver>),
    Mock(MockDriver),
}

impl Inside {
    pub(super) async fn nfs(folder: &Folder) -> Result<Self, EndpointError> {
        let driver = EmbeddedDriver::open(folder).await?;
        Ok(Self::Nfs(Box::new(driver)))
    }

    pub(super) async fn mock(folder: &Folder) -> Result<Self, EndpointError> {
        MockDriver::open(folder).await.map(Self::Mock)
    }

    /// A new connection to it.
    pub(super) fn connect(&self) -> DuplexStream {
        match self {
            Self::Nfs(driver) => driver.connect(),
            Self::Mock(driver) => driver.connect(),
        }
    }

    /// Waits until work that outlives its call is done. The mock has none.
    pub(super) async fn settled(&self) {
        match self {
            Self::Nfs(driver) => driver.settled().await,
            Self::Mock(_) => {}
        }
    }
}
