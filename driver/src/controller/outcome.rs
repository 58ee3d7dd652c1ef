//! The keys and the results of running operations, which callers that joined one share.

use super::error::ControllerError;
use crate::export::Export;
use crate::share::records::record::Record;
use crate::share::records::snapshot::Snapshot;
use crate::share::records::volume::Volume;
use crate::share::token::NameKey;

/// A volume or a snapshot in the table of running operations: its share, and the key of its name.
pub(crate) type OperationKey = (Export, NameKey);

/// The result of an operation on a volume: its record, unless it is gone.
pub(crate) type VolumeOutcome = Result<Option<Record<Volume>>, ControllerError>;

/// The result of an operation on a snapshot.
pub(crate) type SnapshotOutcome = Result<Option<Record<Snapshot>>, ControllerError>;
