//! What the driver asks of a storage. Plain Rust: no gRPC.
//!
//! Every function may block, and may be called again after a crash in its midst. What two calls must not do at once to one
//! volume, the services do not let them.

// with controller
use serde::{Deserialize, Serialize};
// end
use std::collections::HashMap;
use std::io;
// with node
use std::path::PathBuf;
// end
// with snapshots
use std::time::SystemTime;
// end
use thiserror::Error;

/// Why a storage did not do what it was asked for.
#[derive(Debug, Error)]
pub enum StorageError {
    /// What the call is about does not exist.
    #[error("{0} does not exist")]
    NotFound(String),
    // with controller
    /// The storage has no such thing to offer.
    #[error("{0}")]
    Refused(String),
    /// There is no room for it.
    #[error("the storage has no room for it")]
    Full,
    // end
    /// The storage is ill; another try may succeed.
    #[error("the storage has failed: {0}")]
    Failed(io::Error),
}

impl From<io::Error> for StorageError {
    // with controller
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::Full,
            _ => Self::Failed(error),
        }
    }
    // end
    // without controller
    fn from(error: io::Error) -> Self {
        Self::Failed(error)
    }
    // end
}

/// What a storage answers with.
pub type Stored<T> = Result<T, StorageError>;

/// What an orchestrator hands over for a call alone. It belongs into no message, no log and no record.
pub type Secrets = HashMap<String, String>;

// with controller
/// What a StorageClass, or a class of snapshots, says in words of the storage's own.
pub type Parameters = HashMap<String, String>;

/// A volume that is to be made.
pub struct NewVolume {
    /// Chosen by the orchestrator; no other volume has it.
    pub name: String,
    /// Its size.
    pub bytes: u64,
    /// Those of its class, which were checked.
    pub parameters: Parameters,
    // with snapshots
    /// What its first content is copied from; without it the volume is empty.
    pub source: Option<Source>,
    // end
}

/// A volume.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Volume {
    /// Chosen by the storage, and never given to another volume.
    pub id: String,
    /// Chosen by the orchestrator; no two volumes have the same.
    pub name: String,
    /// Its size.
    pub bytes: u64,
    /// Those that it was made with.
    pub parameters: Parameters,
    // with snapshots
    /// What its first content was copied from.
    pub source: Option<Source>,
    // end
    // with attach
    /// The node that it is attached to.
    pub attached: Option<Attachment>,
    // end
}

// end
// with snapshots
/// What a volume is a copy of, by its id.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Source {
    /// Another volume.
    Volume(String),
    /// A snapshot.
    Snapshot(String),
}

/// A snapshot of a volume.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Snapshot {
    /// Chosen by the storage, and never given to another snapshot.
    pub id: String,
    /// Chosen by the orchestrator; no two snapshots have the same. Empty for those of a group.
    pub name: String,
    /// The volume that it is of.
    pub volume: String,
    /// The size of that volume at that time.
    pub bytes: u64,
    /// That time.
    pub taken: SystemTime,
    // with groups
    /// The group that it was taken with.
    pub group: Option<String>,
    // end
}

// end
// with groups
/// Snapshots of several volumes, taken at the same time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Group {
    /// Chosen by the storage, and never given to another group.
    pub id: String,
    /// Chosen by the orchestrator; no two groups have the same.
    pub name: String,
    /// One for each volume.
    pub snapshots: Vec<Snapshot>,
    /// That time.
    pub taken: SystemTime,
}

// end
// with attach
/// How a volume is attached.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Attachment {
    /// To which node.
    pub node: String,
    /// Whether it cannot be written there.
    pub readonly: bool,
}

// end
/// A place where volumes are.
pub trait Storage: Send + Sync {
    /// Tells whether the storage can be used at all. Asked often.
    fn check(&self) -> Stored<()>;
    // with controller

    /// Refuses parameters that it does not know, and values that they cannot have.
    fn check_parameters(&self, parameters: &Parameters) -> Stored<()>;

    /// All volumes.
    fn volumes(&self) -> Stored<Vec<Volume>>;

    /// The volume with that id, if there is one. That it cannot be told is an error.
    fn volume(&self, id: &str) -> Stored<Option<Volume>>;

    /// The volume with that name, if there is one.
    fn volume_named(&self, name: &str) -> Stored<Option<Volume>>;

    /// How many bytes new volumes with these parameters can have.
    fn free_bytes(&self, parameters: &Parameters) -> Stored<u64>;

    /// Makes a volume.
    fn create_volume(&self, volume: NewVolume, secrets: &Secrets) -> Stored<Volume>;

    /// Removes a volume and all that is in it. That it is gone already is no error.
    fn delete_volume(&self, id: &str, secrets: &Secrets) -> Stored<()>;

    /// Gives a volume another size, not below the one that it has.
    fn expand_volume(&self, id: &str, bytes: u64, secrets: &Secrets) -> Stored<()>;
    // end
    // with attach

    /// Notes that a node exists, so that volumes can be attached to it.
    fn register_node(&self, node: &str) -> Stored<()>;

    /// Whether a node of that name exists.
    fn has_node(&self, node: &str) -> Stored<bool>;

    /// Attaches a volume that is not attached, or detaches it.
    fn attach_volume(&self, id: &str, to: Option<Attachment>, secrets: &Secrets) -> Stored<()>;
    // end
    // with snapshots

    /// All snapshots, those of groups among them.
    fn snapshots(&self) -> Stored<Vec<Snapshot>>;

    /// The snapshot with that id, if there is one.
    fn snapshot(&self, id: &str) -> Stored<Option<Snapshot>>;

    /// The snapshot with that name, if there is one.
    fn snapshot_named(&self, name: &str) -> Stored<Option<Snapshot>>;

    /// Takes a snapshot of a volume, which can be restored when this returns.
    fn create_snapshot(
        &self,
        name: &str,
        volume: &Volume,
        parameters: &Parameters,
        secrets: &Secrets,
    ) -> Stored<Snapshot>;

    /// Removes a snapshot that is in no group. That it is gone already is no error.
    fn delete_snapshot(&self, id: &str, secrets: &Secrets) -> Stored<()>;
    // end
    // with groups

    /// The group with that id, if there is one.
    fn group(&self, id: &str) -> Stored<Option<Group>>;

    /// The group with that name, if there is one.
    fn group_named(&self, name: &str) -> Stored<Option<Group>>;

    /// Takes a snapshot of each volume at the same time: all or none.
    fn create_group(
        &self,
        name: &str,
        volumes: &[Volume],
        parameters: &Parameters,
        secrets: &Secrets,
    ) -> Stored<Group>;

    /// Removes a group with its snapshots. That it is gone already is no error.
    fn delete_group(&self, id: &str, secrets: &Secrets) -> Stored<()>;
    // end
    // with node

    /// The folder on this machine that has a volume's content. Only a call that mounts it has secrets.
    fn content(&self, id: &str, secrets: &Secrets) -> Stored<PathBuf>;
    // end
}
