//! The keys and the results of running operations, which callers that joined one share.

use super::error::ControllerError;
use super::looks::is_same_server;
use crate::calls::operations::Operations;
use csi_nfs_store::export::Export;
use csi_nfs_store::share::records::record::Record;
use csi_nfs_store::share::records::snapshot::Snapshot;
use csi_nfs_store::share::records::volume::Volume;
use csi_nfs_store::share::token::NameKey;
use std::sync::Arc;

/// A volume or a snapshot in the table of running operations: its share, and the key of its name.
pub(crate) type OperationKey = (Export, NameKey);

/// Whether operations on both wait for the same server.
pub(super) fn are_on_one_server((one, _): &OperationKey, (other, _): &OperationKey) -> bool {
    is_same_server(one, other)
}

/// The result of an operation on a volume or a snapshot: its record, unless it is gone.
pub(crate) type Outcome<K> = Result<Option<Record<K>>, ControllerError>;

/// Of one on a volume.
pub(crate) type VolumeOutcome = Outcome<Volume>;

/// Of one on a snapshot.
pub(crate) type SnapshotOutcome = Outcome<Snapshot>;

/// A page of a list and the token of the next one, which is empty after the last.
pub(crate) type Page<E> = (Vec<E>, String);

/// The walks of one kind of list, by the arguments of the calls that ask for them. Nothing is the result of one whose time is over.
pub(super) type Lists<E> = Operations<Vec<u8>, Option<Result<Arc<Page<E>>, ControllerError>>>;
