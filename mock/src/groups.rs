//! The GroupController service: snapshots of several volumes at one instant.

use crate::Defect;
use crate::core::Core;
use crate::service::{answer, service};
use crate::snapshots::now;
use crate::state::{Group, State};
use csi_proto::v1::group_controller_server::GroupController;
use csi_proto::v1::group_controller_service_capability::rpc;
use csi_proto::v1::plugin_capability::service::Type as PluginService;
use csi_proto::v1::*;
use tonic::Status;

impl Core {
    fn needs_groups(&self) -> Result<(), Status> {
        if self.has(Defect::GroupControllerMissing) {
            return Err(Status::unimplemented("unknown service"));
        }
        self.needs_service(PluginService::GroupControllerService)
    }

    async fn snap_group(
        &self,
        request: CreateVolumeGroupSnapshotRequest,
    ) -> Result<VolumeGroupSnapshot, Status> {
        self.needs_groups()?;
        self.name(&request.name, Defect::CreateGroupWithoutName)?;
        let sources = &request.source_volume_ids;
        let has_sources = !sources.is_empty() && sources.iter().all(|id| !id.is_empty());
        let without = Defect::CreateGroupWithoutVolumes;
        self.required(has_sources, "source_volume_ids", without)?;
        self.authenticate(&request.secrets)?;
        let unlocked = self.has(Defect::ParallelCreateGroupMakesTwo);
        let what = (!unlocked).then(|| format!("group name {}", request.name));
        self.alone(what, self.snap_group_alone(request)).await
    }

    async fn snap_group_alone(
        &self,
        request: CreateVolumeGroupSnapshotRequest,
    ) -> Result<VolumeGroupSnapshot, Status> {
        let existing = self.state().group_named(&request.name).cloned();
        if let Some(existing) = existing
            && !self.has(Defect::CreateGroupRepeatMakesAnother)
        {
            let sorted = |ids: &[String]| {
                let mut ids = ids.to_vec();
                ids.sort();
                ids
            };
            let is_same = sorted(&existing.sources) == sorted(&request.source_volume_ids)
                || self.has(Defect::CreateGroupIgnoresVolumesOnRepeat);
            if !is_same || existing.parameters != request.parameters {
                let message = "a group of this name exists with other volumes";
                return Err(Status::already_exists(message));
            }
            return Ok(self.shown_group(&existing));
        }
        self.has_sources(&self.state(), &request.source_volume_ids)?;
        self.pace().await;
        let group = self.take_group(&mut self.state(), request)?;
        Ok(self.shown_group(&group))
    }

    fn has_sources(&self, state: &State, sources: &[String]) -> Result<(), Status> {
        if self.has(Defect::GroupSkipsUnknownVolumes) {
            return Ok(());
        }
        let mut sources = sources.iter();
        sources.try_for_each(|id| self.has_source(state, id, true))
    }

    /// All snapshots, or none.
    fn take_group(
        &self,
        state: &mut State,
        request: CreateVolumeGroupSnapshotRequest,
    ) -> Result<Group, Status> {
        self.has_sources(state, &request.source_volume_ids)?;
        let id = state.new_id("group");
        let time = now();
        let mut snapshots = Vec::new();
        let partial = request.source_volume_ids.len() > 1 && self.has(Defect::GroupIsPartial);
        for source in request.source_volume_ids.iter().skip(usize::from(partial)) {
            if state.volumes.contains_key(source) {
                let name = format!("{} of {source}", request.name);
                snapshots.push(self.take(state, source, name, time, Some(&id))?);
            }
        }
        let group = Group {
            id: id.clone(),
            name: request.name,
            sources: request.source_volume_ids,
            parameters: request.parameters,
            time,
            snapshots,
        };
        state.groups.insert(id, group.clone());
        Ok(group)
    }

    fn shown_group(&self, group: &Group) -> VolumeGroupSnapshot {
        let snapshots: Vec<_> = group.snapshots.iter().map(|id| self.look_at(id)).collect();
        let is_ready = snapshots.iter().all(|one| one.ready_to_use);
        VolumeGroupSnapshot {
            group_snapshot_id: group.id.clone(),
            ready_to_use: is_ready || self.has(Defect::GroupReadyTooEarly),
            snapshots,
            creation_time: (!self.has(Defect::GroupTimeMissing)).then_some(group.time),
        }
    }

    /// Refuses snapshots that are not those of the group.
    fn check_members(
        &self,
        group: &Group,
        given: &[String],
        overlooks: Defect,
    ) -> Result<(), Status> {
        let mut given = given.to_vec();
        given.sort();
        // Ids grow, so those of a group are in order.
        if given == group.snapshots || self.has(overlooks) {
            return Ok(());
        }
        let message = "snapshot_ids are not those of the group";
        Err(match self.is_at_liberty() && !given.is_empty() {
            true => Status::failed_precondition(message),
            false => Status::invalid_argument(message),
        })
    }

    async fn unsnap_group(&self, request: DeleteVolumeGroupSnapshotRequest) -> Result<(), Status> {
        self.needs_groups()?;
        let id = request.group_snapshot_id.clone();
        self.id(&id, "group_snapshot_id", Defect::DeleteGroupWithoutId)?;
        self.authenticate(&request.secrets)?;
        let name = self.state().groups.get(&id).map(|one| one.name.clone());
        let what = [
            Some(format!("group {id}")),
            name.map(|name| format!("group name {name}")),
        ];
        self.alone(what.into_iter().flatten(), self.unsnap_group_alone(request))
            .await
    }

    async fn unsnap_group_alone(
        &self,
        request: DeleteVolumeGroupSnapshotRequest,
    ) -> Result<(), Status> {
        let existing = self.state().groups.get(&request.group_snapshot_id).cloned();
        let Some(group) = existing else {
            return match self.has(Defect::DeleteGroupUnknownIsNotFound) {
                true => Err(Status::not_found("there is no such group")),
                false => Ok(()),
            };
        };
        let overlooks = Defect::DeleteGroupIgnoresSnapshotIds;
        self.check_members(&group, &request.snapshot_ids, overlooks)?;
        self.pace().await;
        let mut state = self.state();
        state.groups.remove(&group.id);
        let deletes_first = self.has(Defect::DeleteGroupKeepsAllButOne);
        for (number, id) in group.snapshots.iter().enumerate() {
            if self.has(Defect::DeleteGroupKeepsSnapshots) || deletes_first && number > 0 {
                if let Some(snapshot) = state.snapshots.get_mut(id) {
                    snapshot.group = None;
                }
            } else {
                self.forget_snapshot(&mut state, id);
            }
        }
        Ok(())
    }

    async fn one_group(
        &self,
        request: GetVolumeGroupSnapshotRequest,
    ) -> Result<VolumeGroupSnapshot, Status> {
        self.needs_groups()?;
        let id = &request.group_snapshot_id;
        self.id(id, "group_snapshot_id", Defect::GetGroupWithoutId)?;
        self.authenticate(&request.secrets)?;
        let existing = self.state().groups.get(id).cloned();
        let Some(group) = existing else {
            if self.has(Defect::GetGroupUnknown)
                || id.is_empty() && self.has(Defect::GetGroupWithoutId)
            {
                return Ok(VolumeGroupSnapshot {
                    group_snapshot_id: id.clone(),
                    creation_time: Some(now()),
                    ..VolumeGroupSnapshot::default()
                });
            }
            return Err(Status::not_found("there is no such group"));
        };
        let overlooks = Defect::GetGroupIgnoresSnapshotIds;
        self.check_members(&group, &request.snapshot_ids, overlooks)?;
        Ok(self.shown_group(&group))
    }
}

service!(GroupController(core, request) {
    group_controller_get_capabilities(GroupControllerGetCapabilitiesRequest)
        -> GroupControllerGetCapabilitiesResponse = {
        core.needs_groups()?;
        let capability = rpc::Type::CreateDeleteGetVolumeGroupSnapshot;
        GroupControllerGetCapabilitiesResponse { capabilities: vec![capability.into()] }
    };
    create_volume_group_snapshot(CreateVolumeGroupSnapshotRequest)
        -> CreateVolumeGroupSnapshotResponse = CreateVolumeGroupSnapshotResponse {
            group_snapshot: Some(answer!(core, request, snap_group)),
        };
    delete_volume_group_snapshot(DeleteVolumeGroupSnapshotRequest)
        -> DeleteVolumeGroupSnapshotResponse = {
        answer!(core, request, unsnap_group);
        DeleteVolumeGroupSnapshotResponse {}
    };
    get_volume_group_snapshot(GetVolumeGroupSnapshotRequest) -> GetVolumeGroupSnapshotResponse
        = GetVolumeGroupSnapshotResponse {
            group_snapshot: Some(answer!(core, request, one_group)),
        };
});
