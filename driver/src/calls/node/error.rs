//! The errors of node calls, with their words. Must not choose codes, which `status` does.

use crate::calls::capability::CapabilityError;
use crate::calls::limits::LimitError;
use crate::calls::node::questions::NoAnswer;
use crate::calls::operations::Busy;
use crate::mount::helper::HelperError;
use crate::mount::options::OptionError;
use crate::mount::task::FailureKind;
use csi_nfs_store::export::{Export, ExportError};
use csi_nfs_store::share::paths::sub_path::SubPathError;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use thiserror::Error;

/// A failure of a node call. Cheap to copy, because a call that joins another gets the same.
#[derive(Clone, Debug, Error)]
pub enum NodeError {
    /// A field has a value that it cannot have.
    #[error("{field}: {problem}")]
    Invalid {
        /// The field, as the specification calls it.
        field: &'static str,
        /// What is wrong with it, and what is right.
        problem: String,
    },
    /// Neither context says what to mount.
    #[error(
        "volume_context and publish_context have no {0:?}: give what CreateVolume returned as volume_context, or server and share (csi: --vol-context server=HOST,share=/PATH)"
    )]
    NoSource(&'static str),
    /// Server and share are no export.
    #[error("{0}")]
    Export(#[from] ExportError),
    /// A path below the share that cannot be one.
    #[error("subDir: {0}")]
    SubDir(#[from] SubPathError),
    /// A mount option that cannot be used.
    #[error("{0}")]
    Option(#[from] OptionError),
    /// The configuration does not allow the server.
    #[error("the server {0:?} is not allowed here (--allow-server)")]
    ServerDenied(String),
    /// An inline volume, and nothing is allowed for those.
    #[error(
        "inline (ephemeral) volumes are off: whoever writes a pod would choose server and share; use a PersistentVolumeClaim, or allow folders for them (--inline-share)"
    )]
    InlineOff,
    /// An inline volume of a folder that is not on the list.
    #[error("{0} is not allowed for inline (ephemeral) volumes (--inline-share)")]
    InlineDenied(Export),
    /// An inline volume of a folder in which a share's records are.
    #[error(
        "{0} is a share for volumes, with the driver's own folder .csi-nfs, which no pod may see: give inline (ephemeral) volumes a folder apart"
    )]
    InlineRecords(String),
    /// An inline volume with a mount option that is not on the list.
    #[error(
        "the mount option {0:?} is not allowed for inline (ephemeral) volumes (--inline-mount-option)"
    )]
    InlineOption(String),
    /// An inline volume that does not say what it is.
    #[error(
        "the inline (ephemeral) volume has no volume attribute {0:?}: give server and share, and subDir for a folder below"
    )]
    NoInlineSource(&'static str),
    /// The folder above the target is missing.
    #[error("there is no folder {}: the caller makes the parent of the target path", .0.display())]
    NoParent(PathBuf),
    /// Something stands in the target's place.
    #[error("{} {problem}", .target.display())]
    TargetTaken {
        /// The target.
        target: PathBuf,
        /// What stands there, and what to do.
        problem: String,
    },
    /// Published there already, in another way.
    #[error("{} is in use for a volume already: {difference}", .target.display())]
    Different {
        /// The target.
        target: PathBuf,
        /// What differs.
        difference: String,
    },
    /// Published elsewhere, and the access mode allows one place.
    #[error("volume {volume} is published at {} already and access mode {mode} allows one target on a node", .other.display())]
    Exclusive {
        /// The volume.
        volume: String,
        /// Where it is.
        other: PathBuf,
        /// The mode that forbids a second place.
        mode: &'static str,
    },
    /// The volume is not at that path.
    #[error("volume {volume} is not published or staged at {}{detail}", .path.display())]
    NotPublished {
        /// The volume.
        volume: String,
        /// The path.
        path: PathBuf,
        /// What is there, if anything.
        detail: String,
    },
    /// The driver stages, and the publish does not say where.
    #[error(
        "staging_target_path is missing: this driver stages volumes (--stage), so give the path that NodeStageVolume was given"
    )]
    NoStagingPath,
    /// Nothing to publish from.
    #[error("volume {volume} is not staged at {}{detail}: call NodeStageVolume first", .path.display())]
    NotStaged {
        /// The volume.
        volume: String,
        /// The staging path.
        path: PathBuf,
        /// What is there instead, if anything.
        detail: String,
    },
    /// Unstaged too early.
    #[error("volume {volume} is still published at {}: call NodeUnpublishVolume first", .target.display())]
    StillPublished {
        /// The volume.
        volume: String,
        /// Where it is published.
        target: PathBuf,
    },
    /// An operation runs on the target.
    #[error(transparent)]
    Busy(#[from] Busy),
    /// A field is missing or too long.
    #[error(transparent)]
    Limit(#[from] LimitError),
    /// The capability cannot be satisfied.
    #[error(transparent)]
    Capability(#[from] CapabilityError),
    /// The mount is used by a process.
    #[error("{} is in use: a process has files open or its working folder in it, or something is mounted in it; end that and try again", .0.display())]
    InUse(PathBuf),
    /// Read-only cannot be had.
    #[error(
        "mounting is refused here, and a symlink cannot be made read-only: run as root, or in a user namespace (csi lifecycle and csi shell do where the system allows it)"
    )]
    NoReadOnly,
    /// A mount or unmount did not get done.
    #[error("{what}: {cause}")]
    Mount {
        /// What was to be mounted or unmounted: an export or a path.
        what: String,
        /// Why not.
        cause: Arc<HelperError>,
    },
    /// A published volume does not answer.
    #[error("the volume at {} does not answer: {cause}", .path.display())]
    NoAnswer {
        /// Where it is published.
        path: PathBuf,
        /// What happened.
        cause: Arc<NoAnswer>,
    },
    /// The file system of the node failed.
    #[error("{what}: {cause}")]
    Io {
        /// What was done.
        what: String,
        /// The system's word.
        cause: Arc<io::Error>,
    },
    /// The helper ended well and said nothing, which is a defect.
    #[error("the helper process gave no usage")]
    NoUsage,
}

impl NodeError {
    /// An error of the node's own file system while doing `what`.
    pub fn io(what: impl Into<String>, cause: io::Error) -> Self {
        Self::Io {
            what: what.into(),
            cause: Arc::new(cause),
        }
    }

    /// Volume `volume_id` is not at `path`.
    pub fn not_published(volume_id: &str, path: &Path, detail: &str) -> Self {
        Self::NotPublished {
            volume: volume_id.to_owned(),
            path: path.to_owned(),
            detail: detail.to_owned(),
        }
    }

    /// Whether the server has said that it does not know the folder any more.
    pub fn is_stale(&self) -> bool {
        match self {
            Self::Mount { cause, .. } => cause.is_stale(),
            Self::NoAnswer { cause, .. } => cause.is_stale(),
            _ => false,
        }
    }

    /// A failed mount of `export`.
    pub fn mount(export: &Export, cause: HelperError) -> Self {
        if cause.kind() == Some(FailureKind::Holds) {
            return Self::InlineRecords(export.to_string());
        }
        Self::Mount {
            what: export.to_string(),
            cause: Arc::new(cause),
        }
    }
}
