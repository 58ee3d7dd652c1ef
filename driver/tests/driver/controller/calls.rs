//! A share to try things on, and the calls as short functions.

use crate::placed::of_volume;
use csi_nfs::calls::controller::{Controller, ControllerConfig};
use csi_nfs_store::export::Export;
use csi_nfs_store::files::roots::local::LocalRoots;
pub use csi_proto::v1::controller_server::Controller as Service;
use csi_proto::v1::volume_capability::{AccessMode, AccessType, BlockVolume, MountVolume};
use csi_proto::v1::*;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use tonic::{Code, Request, Status};

/// A local folder as the share `10.0.0.4:/nfs_share`.
pub struct Host {
    pub folder: tempfile::TempDir,
}

impl Host {
    pub fn new() -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
        }
    }

    pub fn at(&self, path: &str) -> PathBuf {
        of_volume(self.folder.path(), path)
    }

    pub fn config(&self) -> ControllerConfig {
        let export = Export::parse("10.0.0.4", "/nfs_share").unwrap();
        let roots = LocalRoots::new([(export.clone(), self.folder.path().to_owned())]);
        let mut config = ControllerConfig::new(Arc::new(roots));
        config.other_exports = vec![export];
        config
    }

    /// A controller that knows nothing but its flags: another replica, or the same one after a restart.
    pub fn controller(&self) -> Controller {
        Controller::new(self.config())
    }
}

pub fn mount() -> VolumeCapability {
    VolumeCapability {
        access_mode: Some(AccessMode { mode: 1 }),
        access_type: Some(AccessType::Mount(MountVolume::default())),
    }
}

pub fn block() -> VolumeCapability {
    VolumeCapability {
        access_type: Some(AccessType::Block(BlockVolume {})),
        ..mount()
    }
}

pub fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    let owned = pairs
        .iter()
        .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()));
    owned.collect()
}

pub fn request(name: &str) -> CreateVolumeRequest {
    CreateVolumeRequest {
        name: name.to_owned(),
        volume_capabilities: vec![mount()],
        ..Default::default()
    }
}

pub fn with_parameters(name: &str, pairs: &[(&str, &str)]) -> CreateVolumeRequest {
    CreateVolumeRequest {
        parameters: map(pairs),
        ..request(name)
    }
}

pub fn sized(name: &str, required_bytes: i64, limit_bytes: i64) -> CreateVolumeRequest {
    CreateVolumeRequest {
        capacity_range: Some(CapacityRange {
            required_bytes,
            limit_bytes,
        }),
        ..request(name)
    }
}

pub async fn create(
    controller: &impl Service,
    request: CreateVolumeRequest,
) -> Result<Volume, Status> {
    let answer = controller.create_volume(Request::new(request)).await?;
    Ok(answer.into_inner().volume.unwrap())
}

pub async fn delete(controller: &impl Service, volume_id: &str) -> Result<(), Status> {
    let request = DeleteVolumeRequest {
        volume_id: volume_id.to_owned(),
        ..Default::default()
    };
    let answer = controller.delete_volume(Request::new(request)).await;
    answer.map(drop)
}

pub async fn get(
    controller: &impl Service,
    volume_id: &str,
) -> Result<(Volume, VolumeCondition), Status> {
    let request = ControllerGetVolumeRequest {
        volume_id: volume_id.to_owned(),
    };
    let answer = controller
        .controller_get_volume(Request::new(request))
        .await?
        .into_inner();
    let condition = answer.status.unwrap().volume_condition.unwrap();
    Ok((answer.volume.unwrap(), condition))
}

pub async fn expand(
    controller: &impl Service,
    volume_id: &str,
    required_bytes: i64,
    limit_bytes: i64,
) -> Result<i64, Status> {
    let request = ControllerExpandVolumeRequest {
        volume_id: volume_id.to_owned(),
        capacity_range: Some(CapacityRange {
            required_bytes,
            limit_bytes,
        }),
        ..Default::default()
    };
    let answer = controller
        .controller_expand_volume(Request::new(request))
        .await?;
    Ok(answer.into_inner().capacity_bytes)
}

pub async fn page(
    controller: &impl Service,
    max_entries: i32,
    starting_token: &str,
) -> Result<ListVolumesResponse, Status> {
    let request = ListVolumesRequest {
        max_entries,
        starting_token: starting_token.to_owned(),
    };
    let answer = controller.list_volumes(Request::new(request)).await?;
    Ok(answer.into_inner())
}

pub fn ids(page: &ListVolumesResponse) -> Vec<String> {
    let volumes = page
        .entries
        .iter()
        .map(|entry| entry.volume.clone().unwrap());
    volumes.map(|volume| volume.volume_id).collect()
}

pub async fn list(controller: &impl Service) -> Vec<String> {
    ids(&page(controller, 0, "").await.unwrap())
}

#[track_caller]
pub fn refused<T: std::fmt::Debug>(result: Result<T, Status>, code: Code, words: &[&str]) {
    let status = result.unwrap_err();
    assert_eq!(status.code(), code, "{status}");
    for word in words {
        let message = status.message();
        assert!(message.contains(word), "{word:?} is not in {message:?}");
    }
}
