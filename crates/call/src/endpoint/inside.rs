//! The drivers in this process, reached over an in-memory pipe.

use super::embedded::Embedded;
use super::mock::MockDriver;
use tokio::io::DuplexStream;

/// A driver in this process.
pub(super) enum Inside {
    Nfs(Box<Embedded>),
    Mock(MockDriver),
}

impl Inside {
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
