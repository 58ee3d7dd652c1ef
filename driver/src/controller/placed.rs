//! Where this process works, seen from a share: on the server or away from it, and whether it sets limits there. Changes nothing.

use super::config::Role;
use super::shares::Shares;
use crate::export::Export;
use crate::share::database::Share;
use crate::share::error::ShareError;
use std::sync::Arc;

impl Shares {
    /// The share as one that this process works on from where it is.
    pub(super) fn placed(&self, export: &Export, share: Share) -> Result<Share, ShareError> {
        let share = share.remembering(Arc::clone(&self.agent_memory));
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
