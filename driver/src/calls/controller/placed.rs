//! What an opened share knows of this process: where that works, what it may use, and whether it sets limits. Changes nothing.

use super::config::Role;
use super::shares::Shares;
use csi_nfs_store::export::Export;
use csi_nfs_store::files::admission::Work;
use csi_nfs_store::files::roots::MoreMounts;
use csi_nfs_store::share::database::Share;
use csi_nfs_store::share::error::ShareError;
use std::sync::Arc;
use tokio::runtime::Handle;

impl Shares {
    /// The share, opened with `mount_options`, as one on which this process does work of a `kind` from where it is.
    pub(super) fn placed(
        &self,
        export: &Export,
        kind: Work,
        mount_options: &[String],
        share: Share,
    ) -> Result<Share, ShareError> {
        let share = self
            .counting(export, share)
            .remembering(Arc::clone(&self.agent_memory));
        let share = match kind {
            Work::Copy => share.with_more_mounts(MoreMounts {
                roots: Arc::clone(&self.config.roots),
                export: export.clone(),
                mount_options: mount_options.to_vec(),
                runtime: Handle::current(),
            }),
            _ => share,
        };
        let share = match self.config.role {
            Role::Agent => share.as_agent()?,
            Role::Controller if self.config.roots.is_local(export) => share,
            Role::Controller => return Ok(share.away()),
        };
        Ok(match self.config.quotas {
            true => share.with_quotas(),
            false => share,
        })
    }
}
