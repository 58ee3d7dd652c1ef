//! The Node service: staging and publishing without mounts, what they show and what they take away again.

use crate::Defect;
use crate::checks::is_block;
use crate::core::Core;
use crate::data;
use crate::listing::healthy;
use crate::service::{answer, service};
use crate::state::{State, Use};
use crate::volumes::{ZONES, in_zone};
use csi_proto::v1::controller_service_capability::rpc::Type as ControllerCapability;
use csi_proto::v1::node_server::Node;
use csi_proto::v1::node_service_capability::rpc::Type as NodeCapability;
use csi_proto::v1::volume_capability::access_mode::Mode;
use csi_proto::v1::volume_usage::Unit;
use csi_proto::v1::*;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use tonic::Status;

fn internal(error: io::Error) -> Status {
    Status::internal(error.to_string())
}

/// What the id of a node that is too long is made of.
const LONG_NODE_ID: &str = "n";

impl Core {
    /// Refuses a volume that does not exist, is not attached here, or cannot be used so.
    fn usable(
        &self,
        state: &State,
        id: &str,
        capability: &VolumeCapability,
        publish_context: &BTreeMap<String, String>,
    ) -> Result<(), Status> {
        let Some(volume) = state.volumes.get(id) else {
            return Err(Status::not_found("there is no such volume"));
        };
        if !crate::checks::covers(&volume.asked.capabilities, capability) {
            let message = "the volume was made for another access type";
            return Err(Status::failed_precondition(message));
        }
        let attaches = self.controller_can(ControllerCapability::PublishUnpublishVolume);
        if attaches && publish_context.is_empty() {
            let message = "there is no publish_context: the volume is not attached to this node";
            return Err(Status::failed_precondition(message));
        }
        Ok(())
    }

    async fn stage(&self, request: NodeStageVolumeRequest) -> Result<(), Status> {
        self.needs_node(NodeCapability::StageUnstageVolume)?;
        self.id(
            &request.volume_id,
            "volume_id",
            Defect::StageWithoutVolumeId,
        )?;
        let path = &request.staging_target_path;
        self.path(path, "staging_target_path", Defect::StageWithoutPath)?;
        let without = Defect::StageWithoutCapability;
        let capability = self.capability(request.volume_capability.as_ref(), without)?;
        self.authenticate(&request.secrets)?;
        let how = Use {
            capability: capability.cloned().unwrap_or_default(),
            readonly: false,
        };
        let what = [format!("volume {}", request.volume_id)];
        self.alone(what, self.stage_alone(&request, how)).await
    }

    async fn stage_alone(&self, request: &NodeStageVolumeRequest, how: Use) -> Result<(), Status> {
        let key = (
            request.volume_id.clone(),
            PathBuf::from(&request.staging_target_path),
        );
        {
            let state = self.state();
            let context = &request.publish_context;
            let overlooks = self.has(Defect::StageUnknownVolume)
                || request.volume_capability.is_none() && self.has(Defect::StageWithoutCapability);
            if !overlooks {
                self.usable(&state, &request.volume_id, &how.capability, context)?;
            }
            if let Some(now) = state.staged.get(&key) {
                let same = now.capability == how.capability;
                return match same || self.has(Defect::StageIgnoresCapability) {
                    true if self.has(Defect::StageRepeatFails) => {
                        Err(Status::internal("mount: already mounted"))
                    }
                    true => Ok(()),
                    false => Err(Status::already_exists(
                        "the volume is staged there with another capability",
                    )),
                };
            }
        }
        if !key.1.as_os_str().is_empty() && !key.1.is_dir() {
            let message = "staging_target_path is not a folder: the caller creates it";
            return Err(Status::failed_precondition(message));
        }
        self.pace().await;
        self.state().staged.insert(key, how);
        Ok(())
    }

    async fn unstage(&self, request: NodeUnstageVolumeRequest) -> Result<(), Status> {
        self.needs_node(NodeCapability::StageUnstageVolume)?;
        let id = request.volume_id;
        self.id(&id, "volume_id", Defect::UnstageWithoutVolumeId)?;
        let path = request.staging_target_path;
        self.path(&path, "staging_target_path", Defect::UnstageWithoutPath)?;
        let what = [format!("volume {id}")];
        let work = async {
            let key = (id.clone(), PathBuf::from(&path));
            if !self.state().staged.contains_key(&key) {
                return match self.has(Defect::UnstageRepeatFails) {
                    true => Err(Status::internal("umount: not mounted")),
                    false => self.known(&id, Defect::UnstageWithoutVolumeId),
                };
            }
            self.pace().await;
            self.state().staged.remove(&key);
            Ok(())
        };
        self.alone(what, work).await
    }

    /// Refuses a volume that does not exist.
    fn known(&self, id: &str, overlooks: Defect) -> Result<(), Status> {
        let overlooked = id.is_empty() && self.has(overlooks);
        match self.state().volumes.contains_key(id) || overlooked {
            true => Ok(()),
            false => Err(Status::not_found("there is no such volume")),
        }
    }

    async fn publish(&self, request: NodePublishVolumeRequest) -> Result<(), Status> {
        self.id(
            &request.volume_id,
            "volume_id",
            Defect::PublishWithoutVolumeId,
        )?;
        let without = Defect::PublishWithoutTarget;
        self.path(&request.target_path, "target_path", without)?;
        let without = Defect::PublishWithoutCapability;
        let capability = self.capability(request.volume_capability.as_ref(), without)?;
        self.authenticate(&request.secrets)?;
        let how = Use {
            capability: capability.cloned().unwrap_or_default(),
            readonly: request.readonly,
        };
        let what = [format!("volume {}", request.volume_id)];
        self.alone(what, self.publish_alone(&request, how)).await
    }

    async fn publish_alone(
        &self,
        request: &NodePublishVolumeRequest,
        how: Use,
    ) -> Result<(), Status> {
        let target = PathBuf::from(&request.target_path);
        if self.published_already(request, &how)? {
            return Ok(());
        }
        if !target.parent().is_some_and(Path::is_dir) {
            let message = "the folder of target_path does not exist: the caller creates it";
            return Err(Status::failed_precondition(message));
        }
        self.pace().await;
        let as_device = is_block(&how.capability) && !self.has(Defect::BlockTargetIsFolder);
        if target.exists() && self.has(Defect::PublishNeedsNoTarget) {
            return Err(Status::internal("mkdir: file exists"));
        }
        let mut shown = request.volume_id.clone();
        if self.has(Defect::PublishedVolumesShareData) {
            "shared".clone_into(&mut shown);
        }
        if self.has(Defect::UnpublishLeavesTarget) {
            data::unpublish(&target).map_err(internal)?;
        }
        if !self.has(Defect::PublishMakesNothing) {
            // The data may not be there yet: one makes it at a time.
            let _alone = self.state();
            data::publish(&self.data(&shown), &target, as_device).map_err(internal)?;
        }
        let volume = (request.volume_id.clone(), how);
        self.state().published.insert(target, volume);
        Ok(())
    }

    fn published_already(
        &self,
        request: &NodePublishVolumeRequest,
        how: &Use,
    ) -> Result<bool, Status> {
        let state = self.state();
        let id = &request.volume_id;
        let overlooks = self.has(Defect::PublishUnknownVolume) && !state.volumes.contains_key(id);
        if !overlooks && !self.has(Defect::PublishWithoutCapability) {
            self.usable(&state, id, &how.capability, &request.publish_context)?;
        }
        let skips_staging =
            self.has(Defect::PublishWithoutStage) && !request.staging_target_path.is_empty();
        let staging = PathBuf::from(&request.staging_target_path);
        if self.node_can(NodeCapability::StageUnstageVolume)
            && !overlooks
            && !state.staged.contains_key(&(id.clone(), staging))
            && !skips_staging
        {
            let message = "the volume is not staged at staging_target_path";
            return Err(Status::failed_precondition(message));
        }
        let target = PathBuf::from(&request.target_path);
        if let Some((other, now)) = state.published.get(&target) {
            let same = (other == id || self.has(Defect::PublishTakesOverTarget))
                && (now.capability == how.capability || self.has(Defect::PublishIgnoresCapability))
                && (now.readonly == how.readonly
                    || self.has(Defect::PublishIgnoresReadonly)
                    || self.has(Defect::PublishIgnoresReadonlyOfBlock)
                        && is_block(&how.capability));
            return match same {
                true if self.has(Defect::PublishRepeatFails) => {
                    Err(Status::internal("mount: already mounted"))
                }
                true => Ok(true),
                false => Err(Status::already_exists(
                    "something is published there in another way",
                )),
            };
        }
        let mode = how.capability.access_mode.unwrap_or_default().mode();
        if mode == Mode::SingleNodeSingleWriter
            && !state.targets_of(id).is_empty()
            && !self.has(Defect::SingleWriterAtTwoPaths)
        {
            let message = "the volume is published at another path, and has a single writer";
            return Err(Status::failed_precondition(message));
        }
        Ok(false)
    }

    async fn unpublish(&self, request: NodeUnpublishVolumeRequest) -> Result<(), Status> {
        let id = request.volume_id;
        self.id(&id, "volume_id", Defect::UnpublishWithoutVolumeId)?;
        let target = request.target_path;
        self.path(&target, "target_path", Defect::UnpublishWithoutTarget)?;
        let what = [format!("volume {id}")];
        self.alone(what, self.unpublish_alone(&id, Path::new(&target)))
            .await
    }

    async fn unpublish_alone(&self, id: &str, target: &Path) -> Result<(), Status> {
        let is_here = {
            let state = self.state();
            let volume = state.published.get(target);
            volume.is_some_and(|(volume, _)| volume == id)
        };
        if !is_here {
            return match self.has(Defect::UnpublishRepeatFails) {
                true => Err(Status::internal("umount: not mounted")),
                false => self.known(id, Defect::UnpublishWithoutVolumeId),
            };
        }
        self.pace().await;
        let mut state = self.state();
        let targets = match self.has(Defect::UnpublishTakesAllTargets) {
            true => state.targets_of(id),
            false => vec![target.to_owned()],
        };
        for target in targets {
            if !self.has(Defect::UnpublishLeavesTarget) {
                data::unpublish(&target).map_err(internal)?;
            }
            state.published.remove(&target);
        }
        if self.has(Defect::UnpublishLosesData) {
            data::clear(&self.data(id));
        }
        Ok(())
    }

    /// Whether the volume is used as a device at that path.
    fn is_block_at(&self, state: &State, id: &str, path: &str) -> Result<bool, Status> {
        match state.use_at(id, path) {
            Some(how) => Ok(is_block(&how.capability)),
            None if self.has(Defect::StatsAtUnknownPath) => Ok(false),
            None if self.has(Defect::StatsOfAnotherVolume)
                && state.volumes.contains_key(id)
                && state.published.contains_key(Path::new(path)) =>
            {
                Ok(false)
            }
            None => Err(Status::not_found("the volume is not at that path")),
        }
    }

    fn stats(
        &self,
        request: &NodeGetVolumeStatsRequest,
    ) -> Result<NodeGetVolumeStatsResponse, Status> {
        if !self.node_can(NodeCapability::VolumeCondition) {
            self.needs_node(NodeCapability::GetVolumeStats)?;
        }
        self.id(
            &request.volume_id,
            "volume_id",
            Defect::StatsWithoutVolumeId,
        )?;
        self.path_of_volume(
            &request.volume_path,
            "volume_path",
            Defect::StatsWithoutPath,
        )?;
        let condition = self.node_can(NodeCapability::VolumeCondition)
            && !self.has(Defect::StatsConditionMissing);
        let id = &request.volume_id;
        let state = self.state();
        let overlooks = id.is_empty() && self.has(Defect::StatsWithoutVolumeId)
            || request.volume_path.is_empty() && self.has(Defect::StatsWithoutPath);
        let as_device = !overlooks && self.is_block_at(&state, id, &request.volume_path)?;
        let total = state.volumes.get(id).map_or(1, |volume| volume.capacity);
        let (bytes, files) = data::used(&self.data(id));
        let mut usage = vec![VolumeUsage {
            unit: Unit::Bytes.into(),
            total,
            available: if as_device { 0 } else { total - bytes },
            used: if as_device { 0 } else { bytes },
        }];
        if !as_device {
            let total = 1 << 20;
            usage.push(VolumeUsage {
                unit: Unit::Inodes.into(),
                total,
                available: total - files,
                used: files,
            });
        }
        if self.has(Defect::StatsNegative) {
            usage[0].used = -1;
        }
        if self.has(Defect::StatsUnitMissing) {
            usage[0].unit = Unit::Unknown.into();
        }
        if self.has(Defect::StatsTotalMissing) {
            usage[0].total = 0;
        }
        if self.is_at_liberty() {
            usage.remove(0);
        }
        Ok(NodeGetVolumeStatsResponse {
            usage,
            volume_condition: condition.then(healthy),
        })
    }

    async fn grow(&self, request: NodeExpandVolumeRequest) -> Result<i64, Status> {
        self.needs_node(NodeCapability::ExpandVolume)?;
        let id = request.volume_id;
        self.id(&id, "volume_id", Defect::NodeExpandWithoutVolumeId)?;
        let path = &request.volume_path;
        self.path_of_volume(path, "volume_path", Defect::NodeExpandWithoutPath)?;
        self.authenticate(&request.secrets)?;
        let range = request.capacity_range.unwrap_or_default();
        let mut state = self.state();
        let Some(mut capacity) = state.volumes.get(&id).map(|one| one.capacity) else {
            let overlooks = self.has(Defect::NodeExpandUnknownVolume)
                || id.is_empty() && self.has(Defect::NodeExpandWithoutVolumeId);
            return match overlooks {
                true => Ok(range.required_bytes.max(1)),
                false if self.is_at_liberty() => {
                    Err(Status::invalid_argument("no volume is at that path"))
                }
                false => Err(Status::not_found("there is no such volume")),
            };
        };
        let overlooks = path.is_empty() && self.has(Defect::NodeExpandWithoutPath);
        if state.use_at(&id, path).is_none() && !overlooks {
            return Err(Status::not_found("the volume is not at that path"));
        }
        let reversed = range.limit_bytes > 0 && range.limit_bytes < range.required_bytes;
        if range.required_bytes < 0 || range.limit_bytes < 0 || reversed {
            return Err(Status::invalid_argument("capacity_range is not a range"));
        }
        if range.required_bytes > capacity {
            if self.controller_can(ControllerCapability::ExpandVolume) {
                let message = "the volume has to be expanded by the controller first";
                return Err(Status::out_of_range(message));
            }
            let new = self.size_in(request.capacity_range, capacity)?;
            self.has_bytes(&state, new - capacity)?;
            if let Some(volume) = state.volumes.get_mut(&id) {
                volume.capacity = new;
            }
            capacity = new;
        }
        if self.has(Defect::NodeExpandAnswersOldSize) && range.required_bytes > 1 {
            return Ok(range.required_bytes / 2);
        }
        Ok(capacity)
    }

    /// Whether the node told this id of itself, for a driver that tells wrong ones.
    pub(crate) fn is_own_node(&self, id: &str) -> bool {
        self.has(Defect::NodeIdTooLong) && id == LONG_NODE_ID.repeat(257)
            || (self.has(Defect::NodeIdChanges) || self.has(Defect::NodeIdChangesOnRestart))
                && id.starts_with("node-")
    }

    fn info(&self) -> NodeGetInfoResponse {
        let unadvertised = self.has(Defect::NodeTopologyUnadvertised);
        let has_topology = self.has_topology() || unadvertised;
        let options = self.options();
        let mut reply = NodeGetInfoResponse {
            node_id: options.nodes.first().cloned().unwrap_or_default(),
            max_volumes_per_node: options.max_volumes_per_node,
            accessible_topology: has_topology.then(|| in_zone(ZONES[0])),
        };
        if self.has(Defect::NodeIdMissing) {
            reply.node_id.clear();
        }
        if self.has(Defect::NodeIdTooLong) {
            reply.node_id = LONG_NODE_ID.repeat(257);
        }
        if self.has(Defect::NodeIdChanges) {
            reply.node_id = format!("node-{}", self.count());
        }
        if self.state().is_node_renamed {
            reply.node_id.push_str("-renamed");
        }
        if self.has(Defect::NodeMaxVolumesNegative) {
            reply.max_volumes_per_node = -1;
        }
        if self.has(Defect::NodeTopologyInvalid) {
            let mut place = in_zone(ZONES[0]);
            place.segments.insert("a zone".to_owned(), "-".to_owned());
            reply.accessible_topology = Some(place);
        }
        reply
    }

    fn node_capabilities(&self) -> NodeGetCapabilitiesResponse {
        let all = self.advertised(&self.options().node, Defect::NodeCapabilitiesChange);
        let capabilities = all.into_iter().map(Into::into).collect();
        NodeGetCapabilitiesResponse { capabilities }
    }
}

service!(Node(core, request) {
    node_stage_volume(NodeStageVolumeRequest) -> NodeStageVolumeResponse = {
        answer!(core, request, stage);
        NodeStageVolumeResponse {}
    };
    node_unstage_volume(NodeUnstageVolumeRequest) -> NodeUnstageVolumeResponse = {
        core.unstage(request).await?;
        NodeUnstageVolumeResponse {}
    };
    node_publish_volume(NodePublishVolumeRequest) -> NodePublishVolumeResponse = {
        answer!(core, request, publish);
        NodePublishVolumeResponse {}
    };
    node_unpublish_volume(NodeUnpublishVolumeRequest) -> NodeUnpublishVolumeResponse = {
        core.unpublish(request).await?;
        NodeUnpublishVolumeResponse {}
    };
    node_get_volume_stats(NodeGetVolumeStatsRequest) -> NodeGetVolumeStatsResponse = {
        core.one_at_a_time(&request.volume_id).await?;
        core.stats(&request)?
    };
    node_expand_volume(NodeExpandVolumeRequest) -> NodeExpandVolumeResponse
        = NodeExpandVolumeResponse { capacity_bytes: answer!(core, request, grow) };
    node_get_capabilities(NodeGetCapabilitiesRequest) -> NodeGetCapabilitiesResponse
        = core.node_capabilities();
    node_get_info(NodeGetInfoRequest) -> NodeGetInfoResponse = {
        let publishes = ControllerCapability::PublishUnpublishVolume;
        if core.is_at_liberty() && !core.controller_can(publishes) {
            return Err(Status::unimplemented("no controller asks for the node"));
        }
        core.info()
    };
});
