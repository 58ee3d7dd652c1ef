//! GetCapacity: what is free of a share, or what may still be promised of it.

use super::addresses::at_one_of;
use super::error::ControllerError;
use super::options::Options;
use super::shares::Shares;
use crate::calls::capability::{self, CapabilityError};
use crate::calls::limits;
use crate::calls::parameters::Parameters;
use csi_nfs_store::export::Export;
use csi_nfs_store::files::admission::Work;
use csi_nfs_store::files::beneath;
use csi_nfs_store::files::roots::Root;
use csi_nfs_store::share::database::{Expect, Share};
use csi_nfs_store::share::error::{Context, ShareError};
use csi_nfs_store::share::paths::sub_path::SubPath;
use csi_nfs_store::share::promise_memory::Counting;
use csi_nfs_store::share::promised;
use csi_nfs_store::share::token::ShareUuid;
use csi_proto::v1 as csi;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// The answer about the share that parameters name; without a share, about all that were named at the start together.
pub(super) async fn get(
    shares: &Arc<Shares>,
    _: Duration,
    request: csi::GetCapacityRequest,
) -> Result<csi::GetCapacityResponse, ControllerError> {
    limits::map("parameters", &request.parameters)?;
    if let Some(topology) = &request.accessible_topology {
        limits::map("accessible_topology", &topology.segments)?;
    }
    for one in &request.volume_capabilities {
        match capability::check(Some(one)) {
            // The question is how much there is of what we do not have.
            Err(CapabilityError::Block) => return Ok(csi::GetCapacityResponse::default()),
            other => other?,
        };
    }
    let parameters = Parameters::of_class(&request.parameters)?;
    let asked = match (&parameters.server, &parameters.share) {
        (None, None) => shares.configured_by_addresses(),
        _ => vec![vec![shares.choose(&parameters)?.export]],
    };
    shares.check_mount_options(&parameters.mount_options)?;
    let mut available: i64 = 0;
    let (mut count, mut counted) = (0, BTreeSet::new());
    for addresses in &asked {
        let asking = |export| {
            let parameters = &parameters;
            async move { room(shares, &export, parameters).await }
        };
        let (uuid, bytes) = at_one_of(addresses, asking).await?;
        // Another address of a share that was not known to have two.
        if uuid.is_some_and(|uuid| !counted.insert(uuid)) {
            continue;
        }
        count += 1;
        available = available.saturating_add(i64::try_from(bytes).unwrap_or(i64::MAX));
    }
    // A volume is on one share. Without a ratio no size is too large.
    let is_bound = parameters.overcommit.is_some() && count == 1;
    Ok(csi::GetCapacityResponse {
        available_capacity: available,
        maximum_volume_size: is_bound.then_some(available),
        ..Default::default()
    })
}

/// The room on the share at `export`, and which share that is, where it has records.
async fn room(
    shares: &Arc<Shares>,
    export: &Export,
    parameters: &Parameters,
) -> Result<(Option<ShareUuid>, u64), ControllerError> {
    let options = &Options::of_call(parameters.mount_options.clone(), Vec::new());
    let path = parameters.sub_dir.as_ref().map(SubPath::to_path);
    let ratio = parameters.overcommit;
    match (shares.expect_or(export, Expect::Any), ratio) {
        // The room of another share, or of the folder on which its disk is not mounted, says nothing.
        (known @ (Expect::Known(_) | Expect::Kept(_)), _) => {
            let ask = move |share: &Share| {
                let room = match ratio {
                    Some(ratio) => promised::left(share, ratio),
                    None => free(share.root(), path.as_ref()),
                };
                Ok((Some(share.uuid()), room?))
            };
            shares.with_share(export, options, known, ask).await
        }
        (_, None) => {
            let ask = move |root: Root| {
                let share = Share::open(Arc::clone(&root), Expect::Initialised);
                let uuid = share.ok().map(|share| share.uuid());
                Ok((uuid, free(&root, path.as_ref())?))
            };
            shares.with_root(export, options, ask).await
        }
        // It may have no records yet, and gets none by a question.
        (_, Some(ratio)) => {
            let (of, address) = (Arc::clone(shares), export.clone());
            let ask = move |root: Root| match Share::open(Arc::clone(&root), Expect::Initialised) {
                Err(ShareError::NotInitialised) => {
                    promised::size_of(root).map(|it| (None, ratio.of(it)))
                }
                share => {
                    let share = share?;
                    let uuid = share.uuid();
                    of.saw(&address, uuid);
                    let left = promised::left(&of.counting(&address, share), ratio)?;
                    Ok((Some(uuid), left))
                }
            };
            shares.with_root(export, options, ask).await
        }
    }
}

fn free(root: &Root, path: Option<&PathBuf>) -> Result<u64, ShareError> {
    // A folder can have a quota of its own.
    let folder = path.map(|path| beneath::if_there(beneath::folder(root, path)));
    let folder = folder
        .transpose()
        .context(|| "opening the volumes' folder".to_owned())?;
    let asked = match folder.flatten() {
        Some(folder) => rustix::fs::fstatvfs(folder),
        None => rustix::fs::fstatvfs(root),
    };
    let asked = asked.context(|| "asking for the room on the share".to_owned())?;
    Ok(asked.f_bavail.saturating_mul(asked.f_frsize))
}

impl Shares {
    /// The share as one on which this process counts what is promised.
    pub(super) fn counting(&self, export: &Export, share: Share) -> Share {
        let threads = (self.config.admission).extra_threads(export.server(), Work::List);
        share.counting(Counting::at(export, &self.promise_memory, threads))
    }
}
