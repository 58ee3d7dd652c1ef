//! The version of the format of everything that the driver writes to a share. `docs/share-format.md` says what a change of it must bring.

use serde::Deserialize;
use serde::de::DeserializeOwned;
use thiserror::Error;

/// The format that this driver reads and writes.
pub const FORMAT: u64 = 2;

/// A text that this driver does not understand.
#[derive(Debug, Error)]
pub(in crate::share) enum FormatError {
    #[error(transparent)]
    Text(#[from] serde_json::Error),
    #[error("it has format {0}, this driver knows up to {FORMAT}: upgrade the driver")]
    Newer(u64),
    #[error("it has format {0}, which this driver does not read: use the one that wrote it")]
    Older(u64),
}

/// What `content` says, where it has this driver's format.
pub(in crate::share) fn parse<T: DeserializeOwned>(content: &[u8]) -> Option<T> {
    check_format(content).ok()?;
    serde_json::from_slice(content).ok()
}

/// Demands that `content` says to have this driver's format. Asked first and alone, since another one may spell the rest
/// otherwise.
pub(in crate::share) fn check_format(content: &[u8]) -> Result<(), FormatError> {
    #[derive(Deserialize)]
    struct Format {
        format: u64,
    }
    match serde_json::from_slice::<Format>(content)?.format {
        FORMAT => Ok(()),
        older if older < FORMAT => Err(FormatError::Older(older)),
        newer => Err(FormatError::Newer(newer)),
    }
}
