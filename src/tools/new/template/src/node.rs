//! The Node service: volumes become folders of this machine, by bind mounts. What is mounted the kernel knows; nothing else
//! is remembered, so nothing is forgotten at a restart.

use crate::calls::{Calls, Reply, required};
use crate::csi;
use crate::csi::node_service_capability::rpc::Type as Capability;
use crate::csi::node_service_capability::{Rpc, Type};
use crate::csi::volume_capability::access_mode::Mode;
use crate::csi::volume_usage::Unit;
use crate::identity::{mode, offered};
use crate::storage::{Secrets, Storage, StorageError};
use rustix::fs::{AtFlags, CWD, StatVfsMountFlags, Statx, StatxAttributes, StatxFlags};
use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags};
use std::fs;
use std::io::{self, ErrorKind};
use std::path::Path;
use std::sync::Arc;
use tonic::{Request, Status};

/// What a node can do with volumes.
// with stage
const CAPABILITIES: &[Capability] = &[Capability::StageUnstageVolume, Capability::GetVolumeStats];
// end
// without stage
const CAPABILITIES: &[Capability] = &[Capability::GetVolumeStats];
// end

/// The Node service. Clones are the same.
#[derive(Clone)]
pub struct Node {
    id: String,
    storage: Arc<dyn Storage>,
    calls: Calls,
}

impl Node {
    /// The node of that name, with volumes in this storage.
    pub fn new(id: &str, storage: &Arc<dyn Storage>, calls: &Calls) -> Self {
        Self {
            id: id.to_owned(),
            storage: storage.clone(),
            calls: calls.clone(),
        }
    }
    // with stage

    fn stage(
        &self,
        request: csi::NodeStageVolumeRequest,
    ) -> Result<csi::NodeStageVolumeResponse, Status> {
        let id = required(&request.volume_id, "volume_id")?;
        let target = path(&request.staging_target_path, "staging_target_path")?;
        let readonly = is_readonly(request.volume_capability)?;
        let _target = self.calls.hold(&request.staging_target_path)?;
        let _volume = self.calls.share(id)?;
        let content = self.storage.content(id, &request.secrets)?;
        mount(&content, target, readonly)?;
        Ok(csi::NodeStageVolumeResponse {})
    }

    fn unstage(
        &self,
        request: csi::NodeUnstageVolumeRequest,
    ) -> Result<csi::NodeUnstageVolumeResponse, Status> {
        required(&request.volume_id, "volume_id")?;
        let target = path(&request.staging_target_path, "staging_target_path")?;
        let _target = self.calls.hold(&request.staging_target_path)?;
        // The folder is the orchestrator's.
        unmount(target)?;
        Ok(csi::NodeUnstageVolumeResponse {})
    }
    // end

    fn publish(
        &self,
        request: csi::NodePublishVolumeRequest,
    ) -> Result<csi::NodePublishVolumeResponse, Status> {
        let id = required(&request.volume_id, "volume_id")?;
        let target = path(&request.target_path, "target_path")?;
        let readonly = is_readonly(request.volume_capability)? || request.readonly;
        // with stage
        if request.staging_target_path.is_empty() {
            let message = "staging_target_path is missing: volumes are staged first";
            return Err(Status::failed_precondition(message));
        }
        let staged = path(&request.staging_target_path, "staging_target_path")?;
        let _staged = self.calls.share(&request.staging_target_path)?;
        // end
        let _target = self.calls.hold(&request.target_path)?;
        let _volume = self.calls.share(id)?;
        let content = self.storage.content(id, &request.secrets)?;
        // with stage
        if !matches!(mounted(&content, staged)?, Mounted::This { .. }) {
            let message = format!("{id} is not staged at {}", staged.display());
            return Err(Status::failed_precondition(message));
        }
        mount(staged, target, readonly)?;
        // end
        // without stage
        mount(&content, target, readonly)?;
        // end
        Ok(csi::NodePublishVolumeResponse {})
    }

    fn unpublish(
        &self,
        request: csi::NodeUnpublishVolumeRequest,
    ) -> Result<csi::NodeUnpublishVolumeResponse, Status> {
        required(&request.volume_id, "volume_id")?;
        let target = path(&request.target_path, "target_path")?;
        let _target = self.calls.hold(&request.target_path)?;
        unmount(target)?;
        // What is not empty is no target, and stays.
        match fs::remove_dir(target) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(failed(error)),
            _ => Ok(csi::NodeUnpublishVolumeResponse {}),
        }
    }

    fn stats(
        &self,
        request: csi::NodeGetVolumeStatsRequest,
    ) -> Result<csi::NodeGetVolumeStatsResponse, Status> {
        let id = required(&request.volume_id, "volume_id")?;
        let target = Path::new(required(&request.volume_path, "volume_path")?);
        let content = self.storage.content(id, &Secrets::new())?;
        if !matches!(mounted(&content, target)?, Mounted::This { .. }) {
            let message = format!("{id} is not at {}", target.display());
            return Err(Status::not_found(message));
        }
        let room = rustix::fs::statvfs(target).map_err(failed)?;
        let usage = |unit: Unit, size: u64, total: u64, free: u64, available: u64| {
            let bytes = |count: u64| i64::try_from(count.saturating_mul(size)).unwrap_or(i64::MAX);
            csi::VolumeUsage {
                unit: unit.into(),
                total: bytes(total),
                used: bytes(total.saturating_sub(free)),
                available: bytes(available),
            }
        };
        Ok(csi::NodeGetVolumeStatsResponse {
            usage: vec![
                usage(
                    Unit::Bytes,
                    room.f_frsize,
                    room.f_blocks,
                    room.f_bfree,
                    room.f_bavail,
                ),
                usage(Unit::Inodes, 1, room.f_files, room.f_ffree, room.f_favail),
            ],
            ..Default::default()
        })
    }
}

#[tonic::async_trait]
impl csi::node_server::Node for Node {
    async fn node_get_info(
        &self,
        request: Request<csi::NodeGetInfoRequest>,
    ) -> Reply<csi::NodeGetInfoResponse> {
        self.calls
            .answer(self, "NodeGetInfo", request, |node, _| {
                Ok(csi::NodeGetInfoResponse {
                    node_id: node.id.clone(),
                    ..Default::default()
                })
            })
            .await
    }

    async fn node_get_capabilities(
        &self,
        request: Request<csi::NodeGetCapabilitiesRequest>,
    ) -> Reply<csi::NodeGetCapabilitiesResponse> {
        self.calls
            .answer(self, "NodeGetCapabilities", request, |_, _| {
                let capability = |one: &Capability| csi::NodeServiceCapability {
                    r#type: Some(Type::Rpc(Rpc {
                        r#type: (*one).into(),
                    })),
                };
                Ok(csi::NodeGetCapabilitiesResponse {
                    capabilities: CAPABILITIES.iter().map(capability).collect(),
                })
            })
            .await
    }
    // with stage

    async fn node_stage_volume(
        &self,
        request: Request<csi::NodeStageVolumeRequest>,
    ) -> Reply<csi::NodeStageVolumeResponse> {
        self.calls
            .answer(self, "NodeStageVolume", request, Self::stage)
            .await
    }

    async fn node_unstage_volume(
        &self,
        request: Request<csi::NodeUnstageVolumeRequest>,
    ) -> Reply<csi::NodeUnstageVolumeResponse> {
        self.calls
            .answer(self, "NodeUnstageVolume", request, Self::unstage)
            .await
    }
    // end

    async fn node_publish_volume(
        &self,
        request: Request<csi::NodePublishVolumeRequest>,
    ) -> Reply<csi::NodePublishVolumeResponse> {
        self.calls
            .answer(self, "NodePublishVolume", request, Self::publish)
            .await
    }

    async fn node_unpublish_volume(
        &self,
        request: Request<csi::NodeUnpublishVolumeRequest>,
    ) -> Reply<csi::NodeUnpublishVolumeResponse> {
        self.calls
            .answer(self, "NodeUnpublishVolume", request, Self::unpublish)
            .await
    }

    async fn node_get_volume_stats(
        &self,
        request: Request<csi::NodeGetVolumeStatsRequest>,
    ) -> Reply<csi::NodeGetVolumeStatsResponse> {
        self.calls
            .answer(self, "NodeGetVolumeStats", request, Self::stats)
            .await
    }
}

/// An absolute path that the specification requires.
fn path<'a>(value: &'a str, field: &str) -> Result<&'a Path, Status> {
    let path = Path::new(required(value, field)?);
    match path.is_absolute() {
        true => Ok(path),
        false => Err(Status::invalid_argument(format!("{field} is not absolute"))),
    }
}

/// Whether a capability, which must be one of this driver's, forbids to write.
fn is_readonly(capability: Option<csi::VolumeCapability>) -> Result<bool, Status> {
    offered(capability.as_slice())?;
    Ok(capability.as_ref().and_then(mode) == Some(Mode::SingleNodeReaderOnly))
}

/// What is mounted at a path.
#[derive(Debug, PartialEq)]
enum Mounted {
    Nothing,
    /// The folder that was asked about.
    This {
        readonly: bool,
    },
    /// Something else.
    Other,
}

/// Looks whether `source` is mounted at `target`: a bind mount is the same folder, by its number.
fn mounted(source: &Path, target: &Path) -> Result<Mounted, Status> {
    let Some(there) = mount_point(target)? else {
        return Ok(Mounted::Nothing);
    };
    let source = look(source).map_err(failed)?;
    let number = |of: &Statx| (of.stx_dev_major, of.stx_dev_minor, of.stx_ino);
    if number(&source) != number(&there) {
        return Ok(Mounted::Other);
    }
    let flags = rustix::fs::statvfs(target).map_err(failed)?.f_flag;
    Ok(Mounted::This {
        readonly: flags.contains(StatVfsMountFlags::RDONLY),
    })
}

/// What is at a path, if something is mounted there.
fn mount_point(target: &Path) -> Result<Option<Statx>, Status> {
    match look(target) {
        Ok(there) if there.stx_attributes.contains(StatxAttributes::MOUNT_ROOT) => Ok(Some(there)),
        Ok(_) | Err(Errno::NOENT | Errno::NOTDIR) => Ok(None),
        Err(error) => Err(failed(error)),
    }
}

fn look(path: &Path) -> rustix::io::Result<Statx> {
    rustix::fs::statx(
        CWD,
        path,
        AtFlags::SYMLINK_NOFOLLOW,
        StatxFlags::BASIC_STATS,
    )
}

/// Mounts a folder at a target that may be there already.
fn mount(source: &Path, target: &Path, readonly: bool) -> Result<(), Status> {
    let taken_by = |what| {
        let message = format!("{what} is mounted at {}", target.display());
        Err(Status::already_exists(message))
    };
    match mounted(source, target)? {
        Mounted::This { readonly: is } if is == readonly => return Ok(()),
        Mounted::This { .. } => return taken_by("the volume, with another readonly,"),
        Mounted::Other => return taken_by("something else"),
        Mounted::Nothing => {}
    }
    match fs::create_dir(target) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(failed(error)),
        _ => {}
    }
    let bound = rustix::mount::mount_bind(source, target);
    let done = bound.and_then(|()| match readonly {
        // The kernel takes this flag in a second step only. After a crash between the two, ALREADY_EXISTS tells.
        true => rustix::mount::mount_remount(target, MountFlags::BIND | MountFlags::RDONLY, ""),
        false => Ok(()),
    });
    done.map_err(|error| {
        let _ = rustix::mount::unmount(target, UnmountFlags::NOFOLLOW);
        failed(error)
    })
}

/// Unmounts what is mounted at a path, if anything is.
fn unmount(target: &Path) -> Result<(), Status> {
    while mount_point(target)?.is_some() {
        rustix::mount::unmount(target, UnmountFlags::NOFOLLOW).map_err(failed)?;
    }
    Ok(())
}

fn failed(error: impl Into<io::Error>) -> Status {
    StorageError::from(error.into()).into()
}
