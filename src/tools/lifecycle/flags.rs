//! The flags of `csi lifecycle`, and whether the volume is the lifecycle's own.

use super::plan::{Further, Wishes};
use clap::Args;
use csi_arguments::capability;
use csi_invocation::volume_flags::VolumeFlags;
use csi_proto::v1;
use std::path::PathBuf;

/// The flags of `csi lifecycle`.
#[derive(Args, Debug)]
pub struct LifecycleFlags {
    /// Name of the volume to create; one that has this name already is taken for ours, and deleted
    /// [default: csi-lifecycle-PID-RANDOM]
    #[arg(long, value_name = "NAME")]
    pub(super) name: Option<String>,
    /// Use this volume, which exists, instead of creating one; it is not deleted. Of a block device only the first MiB
    /// is read; in a mounted volume a file is written, read back and removed
    #[arg(long, value_name = "ID", conflicts_with_all = ["name", "params", "req-bytes", "lim-bytes"])]
    pub(super) volume_id: Option<String>,
    /// Of the further steps only these: stats, expand, snapshot, restore, clone. Without this flag all are
    /// done, but of a volume that is not this run's stats alone
    #[arg(
        long,
        value_enum,
        value_name = "STEP,…",
        value_delimiter = ',',
        conflicts_with = "skip"
    )]
    pub(super) only: Vec<Further>,
    /// Leave these of the further steps out
    #[arg(long, value_enum, value_name = "STEP,…", value_delimiter = ',')]
    pub(super) skip: Vec<Further>,
    /// Do it with so many volumes at once
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u32).range(1..=1_000), conflicts_with = "volume_id")]
    pub(super) count: u32,
    /// With --volume-id: overwrite the first MiB of a block device, whatever it holds
    #[arg(long, requires = "volume_id")]
    pub(super) overwrite: bool,
    /// Capability of the volume, MODE,TYPE[,FS[,FLAG…]] [default: SINGLE_NODE_WRITER,mount]
    #[arg(long, value_name = "MODE,TYPE[,FS[,FLAG…]]", value_parser = capability::parse)]
    pub(super) cap: Option<v1::VolumeCapability>,
    #[command(flatten)]
    pub(super) volume: VolumeFlags,
    /// Folder in which the staging and target paths are made; the driver must see it under the same path
    /// [default: the folder for temporary files]
    #[arg(long, value_name = "FOLDER")]
    pub(super) mount_parent: Option<PathBuf>,
    /// The driver's controller, where that is another endpoint than the node's
    #[arg(long, value_name = "ENDPOINT")]
    pub controller_endpoint: Option<String>,
    /// Leave the volume: unpublish it, but do not delete it
    #[arg(long)]
    pub(super) keep: bool,
    /// Secrets from a file, sent with every call that has such a field: a JSON object, or lines of K=V
    #[arg(long, value_name = "FILE")]
    pub secrets_file: Option<String>,
}

impl LifecycleFlags {
    /// What these flags say of the further steps.
    pub(super) fn wishes(&self) -> Wishes {
        Wishes {
            only: self.only.clone(),
            skip: self.skip.clone(),
            is_own: self.volume_id.is_none(),
        }
    }

    /// Whether a device may be overwritten: that of a volume which this run created, or on request.
    pub(super) fn may_overwrite(&self) -> bool {
        self.volume_id.is_none() || self.overwrite
    }
}
