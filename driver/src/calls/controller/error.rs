//! The errors of controller calls, with their words. Must not choose statuses, which `status` does.

use crate::calls::capability::CapabilityError;
use crate::calls::limits::LimitError;
use crate::calls::operations::Busy;
use crate::calls::parameters::ParameterError;
use crate::calls::volume_id::{ForeignId, IdTooLong};
use crate::mount::options::OptionError;
use crate::upstream::ids::UpstreamIdError;
use csi_nfs_store::export::{Export, ExportError};
use csi_nfs_store::files::roots::RootError;
use csi_nfs_store::share::error::ShareError;
use csi_nfs_store::share::token::ShareUuid;
use std::sync::Arc;
use std::time::Duration;
use thiserror::Error;

/// A share that is a copy of another one.
#[derive(Clone, Debug, Error)]
#[error(
    "{export} is not used: it has the UUID {uuid} of {other} and is not the same share, so one is a copy of the other's storage. To make the copy a share of its own, write \"uuid\":\"{fresh}\" in the place of the old UUID into .csi-nfs/share.json on it; the ids of its volumes change with that"
)]
pub struct Twin {
    /// The one that was asked for.
    pub export: Export,
    /// The one that was known before.
    pub other: Export,
    /// What both have.
    pub uuid: ShareUuid,
    /// One that no share has.
    pub fresh: String,
}

/// A failure of a controller call. Cheap to clone, since callers that joined one operation share its result.
#[derive(Clone, Debug, Error)]
pub enum ControllerError {
    /// A field is missing or too large.
    #[error(transparent)]
    Limit(#[from] LimitError),
    /// A capability cannot be satisfied.
    #[error(transparent)]
    Capability(#[from] CapabilityError),
    /// A parameter cannot be used.
    #[error(transparent)]
    Parameter(#[from] ParameterError),
    /// Server or share cannot name an export.
    #[error(transparent)]
    Export(#[from] ExportError),
    /// The request cannot be satisfied as it is.
    #[error("{0}")]
    Invalid(String),
    /// The ids of the share's volumes would be too long.
    #[error(transparent)]
    IdTooLong(#[from] IdTooLong),
    /// The id is not one of ours.
    #[error(transparent)]
    ForeignId(#[from] ForeignId),
    /// The id is one of kubernetes-csi's driver, and cannot be used.
    #[error(transparent)]
    Upstream(#[from] UpstreamIdError),
    /// The id names a share that this driver was not told of.
    #[error(
        "the volume is on the share named {0:?}, which this driver does not know: start it with --share {0}=SERVER:/PATH"
    )]
    UnknownShare(String),
    /// The server is not on the list.
    #[error("the server {server} is not one that this driver may use: see --allow-server", server = .0.server())]
    ServerNotAllowed(Export),
    /// A mount option cannot be used.
    #[error(transparent)]
    MountOption(#[from] OptionError),
    /// The page token is not one that ListVolumes has given, or its share is not known any more.
    #[error("the starting_token {0:?} is not valid (any more): list again from the beginning")]
    Token(String),
    /// Another operation is in the way, or this one takes longer.
    #[error(transparent)]
    Busy(#[from] Busy),
    /// The share's root folder cannot be had.
    #[error("{0}")]
    Root(Arc<RootError>),
    /// A copy of another share.
    #[error(transparent)]
    Twin(Box<Twin>),
    /// The share, or the volume on it.
    #[error("{export}: {source}")]
    Share {
        /// Which share.
        export: Export,
        /// What is wrong.
        source: Arc<ShareError>,
    },
    /// A share does not answer, and the call waits for it or for its server.
    #[error(
        "the share {export} has not answered for {silent_for:.1?}: is its server up? Repeat the call; what it has begun goes on"
    )]
    NoAnswer {
        /// Which share.
        export: Export,
        /// For how long.
        silent_for: Duration,
    },
    /// A call that changes nothing has waited long enough, and no share is known not to answer.
    #[error("there is no answer after {0:.1?}: repeat the call")]
    Slow(Duration),
    /// The work was dropped: the process is ending.
    #[error("the driver is shutting down: repeat the call")]
    ShuttingDown,
}

impl ControllerError {
    /// Whether the share has no records, and was to have them.
    pub(crate) fn is_no_records(&self) -> bool {
        matches!(self, Self::Share { source, .. } if matches!(**source, ShareError::NotInitialised))
    }
}
