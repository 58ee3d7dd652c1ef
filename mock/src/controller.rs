//! The Controller service: its capabilities, attaching and detaching, and the way from each RPC to the file that does it.

use crate::Defect;
use crate::checks::is_single_node;
use crate::core::Core;
use crate::service::{answer, service};
use crate::state::{Map, State, Use};
use csi_proto::v1::controller_server::Controller;
use csi_proto::v1::controller_service_capability::rpc::Type as ControllerCapability;
use csi_proto::v1::plugin_capability::service::Type as PluginService;
use csi_proto::v1::*;
use tonic::Status;

impl Core {
    async fn attach(&self, request: ControllerPublishVolumeRequest) -> Result<Map, Status> {
        self.needs(ControllerCapability::PublishUnpublishVolume)?;
        let without = Defect::ControllerPublishWithoutVolumeId;
        self.id(&request.volume_id, "volume_id", without)?;
        let without = Defect::ControllerPublishWithoutNodeId;
        self.id(&request.node_id, "node_id", without)?;
        let without = Defect::ControllerPublishWithoutCapability;
        let capability = self.capability(request.volume_capability.as_ref(), without)?;
        if request.readonly && !self.controller_can(ControllerCapability::PublishReadonly) {
            return Err(Status::invalid_argument("readonly is not supported"));
        }
        self.authenticate(&request.secrets)?;
        let how = Use {
            capability: capability.cloned().unwrap_or_default(),
            readonly: request.readonly,
        };
        let what = [format!("volume {}", request.volume_id)];
        let work = self.attach_alone(&request.volume_id, &request.node_id, how);
        self.alone(what, work).await
    }

    async fn attach_alone(&self, id: &str, node: &str, how: Use) -> Result<Map, Status> {
        if let Some(again) = self.attachment(id, node, &how)? {
            return Ok(again);
        }
        self.pace().await;
        let key = (id.to_owned(), node.to_owned());
        let mut state = self.state();
        self.has_place(&state, node)?;
        state.attached.insert(key, how);
        Ok(self.publish_context(node))
    }

    /// The answer where the volume is attached already, and `None` where it can be.
    fn attachment(&self, id: &str, node: &str, how: &Use) -> Result<Option<Map>, Status> {
        let state = self.state();
        if !state.volumes.contains_key(id) {
            return Err(
                match self.has(Defect::ControllerPublishUnknownVolumeIsInternal) {
                    true => Status::internal("no rows in result set"),
                    false => Status::not_found("there is no such volume"),
                },
            );
        }
        let options = self.options();
        let is_known = options.nodes.iter().any(|known| known == node) || self.is_own_node(node);
        if !is_known && !self.has(Defect::ControllerPublishUnknownNode) {
            return Err(Status::not_found("there is no such node"));
        }
        if let Some(now) = state.attached.get(&(id.to_owned(), node.to_owned())) {
            let same = (now.capability == how.capability
                || self.has(Defect::ControllerPublishIgnoresCapability))
                && (now.readonly == how.readonly
                    || self.has(Defect::ControllerPublishIgnoresReadonly));
            if !same || self.has(Defect::ControllerPublishRepeatFails) {
                let message = "the volume is attached there in another way";
                return Err(match self.is_at_liberty() && now.readonly == how.readonly {
                    true => Status::failed_precondition(message),
                    false => Status::already_exists(message),
                });
            }
            return Ok(Some(self.publish_context(node)));
        }
        let mut elsewhere = state.attached.iter().filter(|((other, _), _)| other == id);
        let exclusive = |used: &Use| is_single_node(&used.capability);
        if elsewhere.any(|(_, used)| exclusive(used) || exclusive(how))
            && !self.has(Defect::ControllerPublishToTwoNodes)
        {
            let message = "the volume is attached to another node";
            return Err(Status::failed_precondition(message));
        }
        self.has_place(&state, node)?;
        Ok(None)
    }

    /// Refuses an attachment to a node that is one too many.
    fn has_place(&self, state: &State, node: &str) -> Result<(), Status> {
        let attached = state.attached.keys().map(|(_, other)| other);
        let taken = attached.chain(&state.kept_places);
        let count = taken.filter(|other| *other == node).count();
        let most = self.options().max_volumes_per_node;
        match most > 0 && usize::try_from(most).is_ok_and(|most| count >= most) {
            true => Err(Status::resource_exhausted("the node has no place left")),
            false => Ok(()),
        }
    }

    fn publish_context(&self, node: &str) -> Map {
        let mut context: Map = [("attached-to".to_owned(), node.to_owned())].into();
        if self.has(Defect::PublishContextChanges) {
            context.insert("lun".to_owned(), self.count().to_string());
        }
        if self.has(Defect::PublishContextHasSecrets) {
            context.extend(self.options().secrets.clone());
        }
        context
    }

    async fn detach(&self, request: ControllerUnpublishVolumeRequest) -> Result<(), Status> {
        self.needs(ControllerCapability::PublishUnpublishVolume)?;
        let without = Defect::ControllerUnpublishWithoutVolumeId;
        self.id(&request.volume_id, "volume_id", without)?;
        self.authenticate(&request.secrets)?;
        let what = [format!("volume {}", request.volume_id)];
        let work = self.detach_alone(&request.volume_id, &request.node_id);
        self.alone(what, work).await
    }

    /// A volume or node that is not known is not attached either, of which this driver can be sure.
    async fn detach_alone(&self, id: &str, node: &str) -> Result<(), Status> {
        let is_meant = |(volume, other): &(String, String)| {
            volume == id
                && (other == node
                    || self.has(Defect::ControllerUnpublishTakesAllNodes)
                    || node.is_empty() && !self.has(Defect::ControllerUnpublishFromAllIgnored))
        };
        if !self.state().attached.keys().any(is_meant) {
            return match self.has(Defect::ControllerUnpublishRepeatFails) {
                true => Err(Status::failed_precondition("the volume is not attached")),
                false => Ok(()),
            };
        }
        self.pace().await;
        if !self.has(Defect::ControllerUnpublishKeepsAttachment) {
            let mut state = self.state();
            if self.has(Defect::PlacesNeverGivenBack) {
                let gone = state.attached.keys().filter(|key| is_meant(key));
                let nodes: Vec<_> = gone.map(|(_, node)| node.clone()).collect();
                state.kept_places.extend(nodes);
            }
            state.attached.retain(|key, _| !is_meant(key));
        }
        Ok(())
    }

    fn controller_capabilities(&self) -> Result<ControllerGetCapabilitiesResponse, Status> {
        self.needs_service(PluginService::ControllerService)?;
        let changes = Defect::ControllerCapabilitiesChange;
        let mut all = self.advertised(&self.options().controller, changes);
        if self.has(Defect::CapabilityWithoutItsBase) {
            all.push(ControllerCapability::PublishReadonly);
        }
        if self.has(Defect::PublishedNodesWithoutPublishing) {
            all.push(ControllerCapability::ListVolumesPublishedNodes);
        }
        let capabilities = all.into_iter().map(Into::into).collect();
        Ok(ControllerGetCapabilitiesResponse { capabilities })
    }
}

service!(Controller(core, request) {
    create_volume(CreateVolumeRequest) -> CreateVolumeResponse = CreateVolumeResponse {
        volume: Some(answer!(core, request, create)),
    };
    delete_volume(DeleteVolumeRequest) -> DeleteVolumeResponse = {
        answer!(core, request, delete);
        DeleteVolumeResponse {}
    };
    controller_publish_volume(ControllerPublishVolumeRequest) -> ControllerPublishVolumeResponse
        = ControllerPublishVolumeResponse { publish_context: answer!(core, request, attach) };
    controller_unpublish_volume(ControllerUnpublishVolumeRequest)
        -> ControllerUnpublishVolumeResponse = {
        answer!(core, request, detach);
        ControllerUnpublishVolumeResponse {}
    };
    validate_volume_capabilities(ValidateVolumeCapabilitiesRequest)
        -> ValidateVolumeCapabilitiesResponse = {
        core.one_at_a_time(&request.volume_id).await?;
        core.validate(request)?
    };
    list_volumes(ListVolumesRequest) -> ListVolumesResponse = core.volumes_page(&request)?;
    get_capacity(GetCapacityRequest) -> GetCapacityResponse = core.capacity(&request)?;
    controller_get_capabilities(ControllerGetCapabilitiesRequest)
        -> ControllerGetCapabilitiesResponse = core.controller_capabilities()?;
    create_snapshot(CreateSnapshotRequest) -> CreateSnapshotResponse = CreateSnapshotResponse {
        snapshot: Some(answer!(core, request, snap)),
    };
    delete_snapshot(DeleteSnapshotRequest) -> DeleteSnapshotResponse = {
        answer!(core, request, unsnap);
        DeleteSnapshotResponse {}
    };
    list_snapshots(ListSnapshotsRequest) -> ListSnapshotsResponse = core.snapshots_page(&request)?;
    get_snapshot(GetSnapshotRequest) -> GetSnapshotResponse = {
        core.one_at_a_time(&request.snapshot_id).await?;
        GetSnapshotResponse { snapshot: Some(core.one_snapshot(&request)?) }
    };
    controller_expand_volume(ControllerExpandVolumeRequest) -> ControllerExpandVolumeResponse
        = answer!(core, request, expand);
    controller_get_volume(ControllerGetVolumeRequest) -> ControllerGetVolumeResponse = {
        core.one_at_a_time(&request.volume_id).await?;
        core.one_volume(&request)?
    };
    controller_modify_volume(ControllerModifyVolumeRequest) -> ControllerModifyVolumeResponse = {
        answer!(core, request, modify);
        ControllerModifyVolumeResponse {}
    };
});
