//! Fixtures of cases: volumes, folders, and the requests that a caller would send for them.
//!
//! Nothing here is taken down here: that follows from the calls (`taking_down.rs`).

use super::context::Context;
use super::need::needs::{
    CREATE_DELETE_VOLUME, LIST_VOLUMES, PUBLISH_UNPUBLISH_VOLUME, STAGE_UNSTAGE_VOLUME, TOPOLOGY,
};
use super::settings::Access;
use super::verdict::{Stop, Verdict, same_id, skip_unless, status_text};
use csi_output::shell_word::word;
use csi_proto::v1;
use csi_proto::v1::volume_capability::{AccessMode, access_mode::Mode};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use tonic::Code;

/// The case about whether a deleted volume is gone.
const DELETES: &str = "controller/delete-volume/deletes";

/// A volume that a case has created.
#[derive(Clone, Debug)]
pub struct Volume {
    /// The request of CreateVolume.
    pub request: v1::CreateVolumeRequest,
    /// The volume in the reply.
    pub volume: v1::Volume,
    /// The capability to use it with.
    pub capability: v1::VolumeCapability,
}

/// A volume with all that a node needs for it.
#[derive(Clone, Debug)]
pub struct Placed {
    /// The volume.
    pub volume: Volume,
    /// The publish context in the reply of ControllerPublishVolume.
    pub publish_context: BTreeMap<String, String>,
    /// The staging path, a folder that exists; empty where the driver does not stage.
    pub staging: String,
    /// The target path. Its parent exists.
    pub target: String,
    secrets: BTreeMap<String, String>,
}

impl Volume {
    fn of(request: v1::CreateVolumeRequest, volume: v1::Volume) -> Self {
        let capability = request.volume_capabilities.first().cloned();
        Self {
            capability: capability.unwrap_or_default(),
            request,
            volume,
        }
    }

    /// The volume's id.
    pub fn id(&self) -> String {
        self.volume.volume_id.clone()
    }
}

impl Placed {
    /// The volume's id.
    pub fn id(&self) -> String {
        self.volume.id()
    }

    /// NodeStageVolume.
    pub fn stage(&self) -> v1::NodeStageVolumeRequest {
        v1::NodeStageVolumeRequest {
            volume_id: self.id(),
            publish_context: self.publish_context.clone(),
            staging_target_path: self.staging.clone(),
            volume_capability: Some(self.volume.capability.clone()),
            secrets: self.secrets.clone(),
            volume_context: self.volume.volume.volume_context.clone(),
        }
    }

    /// NodeUnstageVolume.
    pub fn unstage(&self) -> v1::NodeUnstageVolumeRequest {
        v1::NodeUnstageVolumeRequest {
            volume_id: self.id(),
            staging_target_path: self.staging.clone(),
        }
    }

    /// NodePublishVolume.
    pub fn publish(&self) -> v1::NodePublishVolumeRequest {
        v1::NodePublishVolumeRequest {
            volume_id: self.id(),
            publish_context: self.publish_context.clone(),
            staging_target_path: self.staging.clone(),
            target_path: self.target.clone(),
            volume_capability: Some(self.volume.capability.clone()),
            readonly: false,
            secrets: self.secrets.clone(),
            volume_context: self.volume.volume.volume_context.clone(),
        }
    }

    /// NodeUnpublishVolume.
    pub fn unpublish(&self) -> v1::NodeUnpublishVolumeRequest {
        v1::NodeUnpublishVolumeRequest {
            volume_id: self.id(),
            target_path: self.target.clone(),
        }
    }

    /// NodeGetVolumeStats.
    pub fn stats(&self) -> v1::NodeGetVolumeStatsRequest {
        v1::NodeGetVolumeStatsRequest {
            volume_id: self.id(),
            volume_path: self.target.clone(),
            staging_target_path: self.staging.clone(),
        }
    }
}

impl Context {
    /// The capability to use volumes with, of this case's access type.
    ///
    /// # Errors
    /// When the settings have none of that type.
    pub fn capability(&self) -> Result<v1::VolumeCapability, Stop> {
        self.capability_of(self.access())
    }

    /// The capability to use volumes of an access type with.
    ///
    /// # Errors
    /// When the settings have none of that type.
    pub fn capability_of(&self, access: Access) -> Result<v1::VolumeCapability, Stop> {
        let given = self.settings().capability(access);
        given.ok_or_else(|| Stop::skipped(format!("no --cap of the type {}", access.name())))
    }

    /// A CreateVolume as the settings want it, with a new name.
    ///
    /// # Errors
    /// When the settings have no capability of this case's access type.
    pub fn create_request(&self) -> Result<v1::CreateVolumeRequest, Stop> {
        self.create_request_for(self.access())
    }

    /// A request to create a volume with an access type.
    ///
    /// # Errors
    /// When the settings have no capability of it.
    pub fn create_request_for(&self, access: Access) -> Result<v1::CreateVolumeRequest, Stop> {
        let place = self.driver().node_info.accessible_topology.clone();
        let place = place.filter(|_| self.has(TOPOLOGY));
        Ok(v1::CreateVolumeRequest {
            name: self.name(),
            capacity_range: range(self.size(), 0),
            volume_capabilities: vec![self.capability_of(access)?],
            parameters: self.settings().parameters.clone(),
            secrets: self.secrets(),
            accessibility_requirements: place.map(|place| v1::TopologyRequirement {
                requisite: vec![place.clone()],
                preferred: vec![place],
            }),
            ..Default::default()
        })
    }

    /// A request to create a volume of a size in this range.
    ///
    /// # Errors
    /// As [`Context::create_request`].
    pub fn create_sized(&self, required: i64, limit: i64) -> Result<v1::CreateVolumeRequest, Stop> {
        Ok(v1::CreateVolumeRequest {
            capacity_range: range(required, limit),
            ..self.create_request()?
        })
    }

    /// A request to create a volume that is used with this access mode, which may be one that does not exist.
    ///
    /// # Errors
    /// As [`Context::create_request`].
    pub fn create_for_mode(&self, mode: impl Into<i32>) -> Result<v1::CreateVolumeRequest, Stop> {
        let mode = AccessMode { mode: mode.into() };
        let mut request = self.create_request()?;
        for capability in &mut request.volume_capabilities {
            capability.access_mode = Some(mode);
        }
        Ok(request)
    }

    /// The topology of the driver's node; empty where it tells none.
    pub fn node_topology(&self) -> v1::Topology {
        let told = self.driver().node_info.accessible_topology.as_ref();
        told.cloned().unwrap_or_default()
    }

    /// The size of volumes in bytes.
    pub fn size(&self) -> i64 {
        self.run.volume_size(self.access())
    }

    /// The secrets of the settings.
    pub fn secrets(&self) -> BTreeMap<String, String> {
        self.settings().secrets.clone()
    }

    /// A new volume.
    pub fn volume(&self) -> Result<Volume, Stop> {
        let request = self.create_request()?;
        self.volume_of(request)
    }

    /// The volume of a request.
    pub fn volume_of(&self, request: v1::CreateVolumeRequest) -> Result<Volume, Stop> {
        let volume = self.made(&request)?;
        Ok(Volume::of(request, volume))
    }

    /// The volume of a request that may also be refused with one of these codes.
    ///
    /// # Errors
    /// As [`Context::ok_or`].
    pub fn volume_or(
        &self,
        request: v1::CreateVolumeRequest,
        codes: &[Code],
    ) -> Result<Option<Volume>, Stop> {
        let reply = self.ok_or(request.clone(), codes)?;
        let volume = reply
            .map(|reply| self.identified::<v1::CreateVolumeRequest>(reply))
            .transpose()?;
        Ok(volume.map(|volume| Volume::of(request, volume)))
    }

    /// The volume of a request, unless it is refused with one of these codes: then the case is skipped.
    ///
    /// # Errors
    /// As [`Context::ok_or`].
    pub fn volume_or_skip(
        &self,
        request: v1::CreateVolumeRequest,
        codes: &[Code],
        reason: &str,
    ) -> Result<Volume, Stop> {
        let volume = self.volume_or(request, codes)?;
        volume.ok_or_else(|| Stop::skipped(reason))
    }

    /// A new volume that is used with this access mode, where the driver has any: the mode is not that of `--cap`.
    ///
    /// # Errors
    /// When it has none, or as [`Context::ok_or`].
    pub fn volume_for_mode(&self, mode: Mode) -> Result<Volume, Stop> {
        let reason = format!("the driver has no volumes for {}", mode.as_str_name());
        let request = self.create_for_mode(mode)?;
        self.volume_or_skip(request, &[Code::InvalidArgument], &reason)
    }

    /// Demands that the CreateVolume of a volume, repeated, leads to it.
    pub fn is_made_again(&self, volume: &Volume) -> Verdict {
        let again = self.made(&volume.request)?;
        same_id("volume", &volume.volume.volume_id, &again.volume_id)
    }

    /// DeleteVolume.
    pub fn delete_request(&self, id: impl Into<String>) -> v1::DeleteVolumeRequest {
        v1::DeleteVolumeRequest {
            volume_id: id.into(),
            secrets: self.secrets(),
        }
    }

    /// ValidateVolumeCapabilities of a volume, for what it was created with.
    pub fn validate_request(&self, volume: &Volume) -> v1::ValidateVolumeCapabilitiesRequest {
        v1::ValidateVolumeCapabilitiesRequest {
            volume_id: volume.id(),
            volume_context: volume.volume.volume_context.clone(),
            volume_capabilities: volume.request.volume_capabilities.clone(),
            parameters: volume.request.parameters.clone(),
            secrets: self.secrets(),
            mutable_parameters: volume.request.mutable_parameters.clone(),
        }
    }

    /// ValidateVolumeCapabilities of any id, for what volumes are used with.
    ///
    /// # Errors
    /// As [`Context::capability`].
    pub fn validate_id(
        &self,
        id: impl Into<String>,
    ) -> Result<v1::ValidateVolumeCapabilitiesRequest, Stop> {
        Ok(v1::ValidateVolumeCapabilitiesRequest {
            volume_id: id.into(),
            volume_capabilities: vec![self.capability()?],
            secrets: self.secrets(),
            ..Default::default()
        })
    }

    /// The id of a volume that was there and is deleted: it has the driver's own form, and no volume.
    ///
    /// # Errors
    /// When there is no such id to be had.
    pub fn deleted_volume(&self) -> Result<Volume, Stop> {
        let volume = self.volume()?;
        self.ok(self.delete_request(volume.id()))?;
        self.depends_on(DELETES);
        Ok(volume)
    }

    /// Demands that a volume which is deleted does not exist any more.
    pub fn is_deleted(&self, volume: &Volume) -> Verdict {
        let unknown = || self.refused(self.validate_request(volume), &[Code::NotFound]);
        self.demands_of(DELETES, || {
            self.demands_of("controller/validate/of-an-unknown-id", unknown)
        })
        .map(drop)
    }

    /// Any volume to ask questions about, without its secrets: a new one, or in a run that changes nothing one that exists.
    pub fn any_volume(&self) -> Result<v1::Volume, Stop> {
        if self.has(CREATE_DELETE_VOLUME) && !self.settings().read_only {
            return Ok(self.volume()?.volume);
        }
        if let Some(id) = &self.settings().volume_id {
            return self.named_volume(id);
        }
        if self.has(LIST_VOLUMES) {
            let request = v1::ListVolumesRequest {
                max_entries: 1,
                ..Default::default()
            };
            let listed = self.ok(request)?.entries;
            if let Some(volume) = listed.into_iter().find_map(|entry| entry.volume) {
                return Ok(volume);
            }
        }
        Err(Stop::skipped("there is no volume to ask about"))
    }

    /// The volume of `--volume-id`. A mistake in the id would let every case about it pass, whatever the driver answers.
    fn named_volume(&self, id: &str) -> Result<v1::Volume, Stop> {
        match self.send(self.validate_id(id)?)? {
            Err(status) if status.code() == Code::NotFound => Err(Stop::failed(
                format!("the driver has the volume {id:?}, which --volume-id names"),
                format!("ValidateVolumeCapabilities of it: {}", status_text(&status)),
            )),
            _ => Ok(v1::Volume {
                volume_id: id.to_owned(),
                ..Default::default()
            }),
        }
    }

    /// ControllerPublishVolume to this driver's node.
    pub fn attach_request(&self, volume: &Volume) -> v1::ControllerPublishVolumeRequest {
        v1::ControllerPublishVolumeRequest {
            volume_id: volume.id(),
            node_id: self.driver().node_info.node_id.clone(),
            volume_capability: Some(volume.capability.clone()),
            readonly: false,
            secrets: self.secrets(),
            volume_context: volume.volume.volume_context.clone(),
        }
    }

    /// A new volume, and ControllerPublishVolume of it to this driver's node.
    pub fn volume_to_attach(&self) -> Result<(Volume, v1::ControllerPublishVolumeRequest), Stop> {
        self.has_node_id()?;
        let volume = self.volume()?;
        let request = self.attach_request(&volume);
        Ok((volume, request))
    }

    /// A new volume that the controller has published to this driver's node, by this request.
    pub fn attached(&self) -> Result<(Volume, v1::ControllerPublishVolumeRequest), Stop> {
        let (volume, request) = self.volume_to_attach()?;
        self.ok(request.clone())?;
        Ok((volume, request))
    }

    /// ControllerUnpublishVolume from this driver's node.
    pub fn detach_request(&self, volume: &Volume) -> v1::ControllerUnpublishVolumeRequest {
        v1::ControllerUnpublishVolumeRequest {
            volume_id: volume.id(),
            node_id: self.driver().node_info.node_id.clone(),
            secrets: self.secrets(),
        }
    }

    /// A new volume, published by the controller where the driver does that, and paths for it on the node. Neither staged
    /// nor published there.
    pub fn placed(&self) -> Result<Placed, Stop> {
        let volume = self.volume()?;
        self.place(volume)
    }

    /// Publishes an existing volume by the controller where the driver does that, and makes paths for it on the node.
    pub fn place(&self, volume: Volume) -> Result<Placed, Stop> {
        let publish_context = match self.has(PUBLISH_UNPUBLISH_VOLUME) {
            true => {
                self.has_node_id()
                    .and_then(|()| self.ok(self.attach_request(&volume)))?
                    .publish_context
            }
            false => BTreeMap::new(),
        };
        Ok(Placed {
            publish_context,
            staging: match self.has(STAGE_UNSTAGE_VOLUME) {
                true => self.staging()?,
                false => String::new(),
            },
            target: self.target()?,
            volume,
            secrets: self.secrets(),
        })
    }

    /// A new volume that is staged, where the driver stages.
    pub fn staged(&self) -> Result<Placed, Stop> {
        self.stage(self.volume()?)
    }

    /// Stages a volume that exists, where the driver stages.
    pub fn stage(&self, volume: Volume) -> Result<Placed, Stop> {
        let placed = self.place(volume)?;
        if self.has(STAGE_UNSTAGE_VOLUME) {
            self.ok(placed.stage())?;
        }
        Ok(placed)
    }

    /// A new volume that is published on the node.
    pub fn published(&self) -> Result<Placed, Stop> {
        self.publish(self.volume()?)
    }

    /// Publishes a volume that exists on the node.
    pub fn publish(&self, volume: Volume) -> Result<Placed, Stop> {
        let placed = self.stage(volume)?;
        self.ok(placed.publish())?;
        Ok(placed)
    }

    /// The way down of a published volume, until it is nowhere in use.
    ///
    /// # Errors
    /// When a step of it fails.
    pub fn unpublish(&self, placed: &Placed) -> Verdict {
        self.ok(placed.unpublish())?;
        if self.has(STAGE_UNSTAGE_VOLUME) {
            self.ok(placed.unstage())?;
        }
        self.detach(placed)
    }

    /// DeleteVolume of a volume that is nowhere in use any more.
    ///
    /// # Errors
    /// When it is not deleted.
    pub fn delete_let_go(&self, placed: &Placed) -> Verdict {
        let delete = || self.ok(self.delete_request(placed.id())).map(drop);
        match self.has(PUBLISH_UNPUBLISH_VOLUME) {
            true => self.demands_of("controller/unpublish/lets-the-volume-go", delete),
            false => delete(),
        }
    }

    /// A volume that is deleted, with paths for it: it has the driver's own form of ids, and no volume.
    pub fn placed_and_deleted(&self) -> Result<Placed, Stop> {
        let placed = self.placed()?;
        self.detach(&placed)?;
        self.delete_let_go(&placed)?;
        self.depends_on(DELETES);
        Ok(placed)
    }

    fn detach(&self, placed: &Placed) -> Verdict {
        if self.has(PUBLISH_UNPUBLISH_VOLUME) {
            self.ok(self.detach_request(&placed.volume))?;
        }
        Ok(())
    }

    /// A new target path. It does not exist; its parent does, as the specification has it.
    pub fn target(&self) -> Result<String, Stop> {
        let parent = self.run.journal.folder().join(self.name());
        self.folder(&parent)?;
        Ok(text(&parent.join("target")))
    }

    /// A new staging path: a folder, which the caller makes, as the specification has it.
    pub fn staging(&self) -> Result<String, Stop> {
        let parent = match &self.settings().staging_parent {
            None => self.run.journal.folder().to_owned(),
            Some(_) => self.settings().staging_folder(),
        };
        let path = parent.join(format!("{}-staging", self.name()));
        self.folder(&path)?;
        Ok(text(&path))
    }

    /// Makes a folder, which is removed in the end.
    pub fn folder(&self, path: &Path) -> Result<(), Stop> {
        skip_unless(!self.settings().read_only, "it makes folders: --read-only")?;
        self.made.folder(path)?;
        self.did(format!("mkdir -p {}", word(&text(path))));
        fs::create_dir(path).map_err(|error| {
            // A failure, though the driver is not to blame: a run that could try nothing must not pass.
            let expected = format!("the folder {} can be made", path.display());
            Stop::failed(expected, error.to_string())
        })
    }
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// A range of sizes in bytes.
pub fn range(required_bytes: i64, limit_bytes: i64) -> Option<v1::CapacityRange> {
    Some(v1::CapacityRange {
        required_bytes,
        limit_bytes,
    })
}
