//! Snapshots of single volumes: taking and deleting them, and how a snapshot shows.

use crate::Defect;
use crate::core::Core;
use crate::data;
use crate::state::{Snapshot, State};
use csi_proto::v1::controller_service_capability::rpc::Type as ControllerCapability;
use csi_proto::v1::{self, CreateSnapshotRequest, DeleteSnapshotRequest};
use prost_types::Timestamp;
use std::time::SystemTime;
use tonic::Status;

impl Core {
    pub(crate) async fn snap(
        &self,
        request: CreateSnapshotRequest,
    ) -> Result<v1::Snapshot, Status> {
        self.needs(ControllerCapability::CreateDeleteSnapshot)?;
        self.name(&request.name, Defect::CreateSnapshotWithoutName)?;
        let source = &request.source_volume_id;
        self.id(
            source,
            "source_volume_id",
            Defect::CreateSnapshotWithoutSource,
        )?;
        self.map(&request.parameters, "parameters")?;
        if let Some(key) = request.parameters.keys().next() {
            let message = format!("the parameter {key:?} is not known");
            return Err(Status::invalid_argument(message));
        }
        self.authenticate(&request.secrets)?;
        let unlocked = self.has(Defect::ParallelCreateSnapshotMakesTwo);
        let what = (!unlocked).then(|| format!("snapshot name {}", request.name));
        self.alone(what, self.snap_alone(request)).await
    }

    async fn snap_alone(&self, request: CreateSnapshotRequest) -> Result<v1::Snapshot, Status> {
        let name = request.name;
        let existing = self.state().snapshot_named(&name).cloned();
        if let Some(existing) = existing
            && !self.has(Defect::CreateSnapshotRepeatMakesAnother)
        {
            let is_same = existing.source == request.source_volume_id
                || self.has(Defect::CreateSnapshotIgnoresSource);
            if !is_same || self.has(Defect::CreateSnapshotRepeatFails) {
                let message = "a snapshot of this name exists of another volume";
                return Err(Status::already_exists(message));
            }
            let mut again = self.look_at(&existing.id);
            if self.has(Defect::SnapshotTimeMoves) {
                again.creation_time = Some(now());
            }
            return Ok(again);
        }
        if self.has(Defect::CancelledCreateSnapshotLeavesName)
            && !self.state().begun.insert(name.clone())
        {
            return Err(Status::aborted("another call takes this snapshot"));
        }
        self.has_source(&self.state(), &request.source_volume_id, false)?;
        self.pace().await;
        let id = {
            let mut state = self.state();
            state.begun.remove(&name);
            self.take(&mut state, &request.source_volume_id, name, now(), None)?
        };
        Ok(self.look_at(&id))
    }

    /// Whether the volume can be a source.
    pub(crate) fn has_source(&self, state: &State, id: &str, of_group: bool) -> Result<(), Status> {
        let overlooks = self.has(Defect::SnapshotOfUnknownVolume) && !of_group
            || id.is_empty() && self.has(Defect::CreateSnapshotWithoutSource);
        match state.volumes.contains_key(id) || overlooks {
            true => Ok(()),
            false if self.is_at_liberty() => Err(Status::internal("the array has no such LUN")),
            false => Err(Status::not_found(format!("there is no volume {id:?}"))),
        }
    }

    /// Takes a snapshot, without any wait; its id.
    pub(crate) fn take(
        &self,
        state: &mut State,
        source: &str,
        name: String,
        time: Timestamp,
        group: Option<&str>,
    ) -> Result<String, Status> {
        self.has_source(state, source, group.is_some())?;
        let mut id = state.new_id("snap");
        if self.has(Defect::SnapshotIdTooLong) {
            id.insert_str(0, &"0".repeat(128));
        }
        let place = self.data(&id);
        // A process that was killed may have left some that nobody knows of.
        data::remove(&place);
        let copied = match state.volumes.contains_key(source) {
            true => data::copy(&self.data(source), &place),
            false => Ok(()),
        };
        let blocks = copied
            .and_then(|()| data::blocks(&place))
            .map_err(|error| Status::internal(error.to_string()))?;
        let size = state
            .volumes
            .get(source)
            .map_or(0, |volume| volume.capacity);
        let snapshot = Snapshot {
            id: id.clone(),
            name,
            source: source.to_owned(),
            size,
            time,
            looks_left: self.options().looks_until_ready,
            group: group.map(str::to_owned),
            was_shown_ready: false,
            blocks,
        };
        state.snapshots.insert(id.clone(), snapshot);
        Ok(id)
    }

    /// The snapshot as an answer, which may be the last one in which it is not ready.
    pub(crate) fn look_at(&self, id: &str) -> v1::Snapshot {
        let mut state = self.state();
        let Some(snapshot) = state.snapshots.get_mut(id) else {
            return v1::Snapshot::default();
        };
        let mut shown = self.shown(snapshot);
        snapshot.look();
        if self.has(Defect::SnapshotReadinessLost) && snapshot.group.is_none() {
            shown.ready_to_use &= !snapshot.was_shown_ready;
            snapshot.was_shown_ready = shown.ready_to_use;
        }
        shown
    }

    /// The snapshot as answers show it.
    pub(crate) fn shown(&self, snapshot: &Snapshot) -> v1::Snapshot {
        let mut shown = v1::Snapshot {
            size_bytes: snapshot.size,
            snapshot_id: snapshot.id.clone(),
            source_volume_id: snapshot.source.clone(),
            creation_time: Some(snapshot.time),
            ready_to_use: snapshot.is_ready() && !self.has(Defect::SnapshotNeverReady),
            group_snapshot_id: snapshot.group.clone().unwrap_or_default(),
        };
        if self.has(Defect::SnapshotSizeNegative) {
            shown.size_bytes = -1;
        }
        if self.has(Defect::SnapshotTimeMissing) {
            shown.creation_time = None;
        }
        if self.has(Defect::SnapshotSourceMissing) && snapshot.group.is_none() {
            shown.source_volume_id.clear();
        }
        if self.is_at_liberty() && !shown.ready_to_use {
            shown.size_bytes = 0;
        }
        if self.has(Defect::GroupIdMissingInSnapshots) || self.is_at_liberty() {
            shown.group_snapshot_id.clear();
        }
        shown
    }

    pub(crate) async fn unsnap(&self, request: DeleteSnapshotRequest) -> Result<(), Status> {
        self.needs(ControllerCapability::CreateDeleteSnapshot)?;
        let id = request.snapshot_id;
        self.id(&id, "snapshot_id", Defect::DeleteSnapshotWithoutId)?;
        self.authenticate(&request.secrets)?;
        let name = self.state().snapshots.get(&id).map(|one| one.name.clone());
        let what = [
            Some(format!("snapshot {id}")),
            name.map(|name| format!("snapshot name {name}")),
        ];
        self.alone(what.into_iter().flatten(), self.unsnap_alone(&id))
            .await
    }

    async fn unsnap_alone(&self, id: &str) -> Result<(), Status> {
        match self.state().snapshots.get(id) {
            None if self.has(Defect::DeleteSnapshotUnknownIsNotFound) => {
                return Err(Status::not_found("there is no such snapshot"));
            }
            None => return Ok(()),
            Some(snapshot)
                if snapshot.group.is_some()
                    && !self.has(Defect::GroupMemberCanBeDeleted)
                    && !self.is_at_liberty() =>
            {
                let message = "the snapshot belongs to a group: delete the group";
                return Err(Status::invalid_argument(message));
            }
            Some(_) => {}
        }
        self.pace().await;
        let mut state = self.state();
        if self.has(Defect::RestoreEndsWithSnapshot) {
            state
                .volumes
                .retain(|_, volume| !volume.is_from_snapshot(id));
        }
        if self.has(Defect::DeleteSnapshotTakesOthers) {
            let source = state.snapshots.get(id).map(|one| one.source.clone());
            state
                .snapshots
                .retain(|_, one| Some(&one.source) != source.as_ref());
        }
        if self.is_at_liberty() {
            for group in state.groups.values_mut() {
                group.snapshots.retain(|one| one != id);
            }
        }
        if !self.has(Defect::DeleteSnapshotKeepsSnapshot) {
            self.forget_snapshot(&mut state, id);
        }
        Ok(())
    }

    pub(crate) fn forget_snapshot(&self, state: &mut State, id: &str) {
        state.snapshots.remove(id);
        data::remove(&self.data(id));
    }
}

/// The point in time that is now.
pub(crate) fn now() -> Timestamp {
    SystemTime::now().into()
}
