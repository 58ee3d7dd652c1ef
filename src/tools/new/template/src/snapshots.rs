//! Snapshots of volumes, and volumes that are copies: the Controller's part of them.
// with groups
//! And those of several volumes at the same time: the GroupController service.
// end

// with groups
use crate::calls::{Calls, Reply};
// end
use crate::calls::{Held, page, required, valid_name};
use crate::controller::{Controller, signed};
use crate::csi;
// with groups
use crate::csi::group_controller_service_capability::{Rpc, Type, rpc};
// end
use crate::csi::list_snapshots_response::Entry;
use crate::csi::volume_content_source as content;
use crate::identity::of_storage;
// with groups
use crate::storage::{Group, Storage, Volume};
// end
use crate::storage::{Snapshot, Source};
// with groups
use std::sync::Arc;
use tonic::Request;
// end
use tonic::Status;

impl Controller {
    /// Answers CreateSnapshot.
    pub fn take_snapshot(
        &self,
        request: csi::CreateSnapshotRequest,
    ) -> Result<csi::CreateSnapshotResponse, Status> {
        let name = valid_name(&request.name)?;
        let source = required(&request.source_volume_id, "source_volume_id")?;
        let parameters = of_storage(request.parameters);
        self.storage.check_parameters(&parameters)?;
        let _name = self.calls.hold(&format!("the snapshot name {name}"))?;
        let snapshot = match self.storage.snapshot_named(name)? {
            Some(snapshot) if snapshot.volume == source => snapshot,
            Some(snapshot) => {
                let message = format!("{name} is a snapshot of {}", snapshot.volume);
                return Err(Status::already_exists(message));
            }
            None => {
                let _volume = self.calls.share(source)?;
                let (volume, secrets) = (self.volume(source)?, &request.secrets);
                self.storage
                    .create_snapshot(name, &volume, &parameters, secrets)?
            }
        };
        Ok(csi::CreateSnapshotResponse {
            snapshot: Some(shown(&snapshot)),
        })
    }

    /// Answers DeleteSnapshot.
    pub fn remove_snapshot(
        &self,
        request: csi::DeleteSnapshotRequest,
    ) -> Result<csi::DeleteSnapshotResponse, Status> {
        let id = required(&request.snapshot_id, "snapshot_id")?;
        let _snapshot = self.calls.hold(id)?;
        // with groups
        let snapshot = self.storage.snapshot(id)?;
        if let Some(group) = snapshot.and_then(|snapshot| snapshot.group) {
            let message = format!("{id} goes with its group {group}");
            return Err(Status::invalid_argument(message));
        }
        // end
        self.storage.delete_snapshot(id, &request.secrets)?;
        Ok(csi::DeleteSnapshotResponse {})
    }

    /// Answers ListSnapshots.
    pub fn snapshots(
        &self,
        request: csi::ListSnapshotsRequest,
    ) -> Result<csi::ListSnapshotsResponse, Status> {
        let (id, volume) = (&request.snapshot_id, &request.source_volume_id);
        let mut snapshots = match id.is_empty() {
            true => self.storage.snapshots()?,
            false => self.storage.snapshot(id)?.into_iter().collect(),
        };
        snapshots.retain(|one| volume.is_empty() || one.volume == *volume);
        let (page, next_token) = page(
            snapshots,
            |snapshot| &snapshot.id,
            request.max_entries,
            &request.starting_token,
        )?;
        let entries = page.iter().map(|snapshot| Entry {
            snapshot: Some(shown(snapshot)),
        });
        Ok(csi::ListSnapshotsResponse {
            entries: entries.collect(),
            next_token,
        })
    }

    /// Answers GetSnapshot.
    pub fn one_snapshot(
        &self,
        request: csi::GetSnapshotRequest,
    ) -> Result<csi::GetSnapshotResponse, Status> {
        let snapshot = self.snapshot(required(&request.snapshot_id, "snapshot_id")?)?;
        Ok(csi::GetSnapshotResponse {
            snapshot: Some(shown(&snapshot)),
        })
    }

    /// How large a copy is at least, and its source, kept until the copy is made.
    pub fn begin_copy(&self, source: &Source) -> Result<(u64, Option<Held>), Status> {
        let (Source::Volume(id) | Source::Snapshot(id)) = source;
        let held = self.calls.share(id)?;
        let bytes = match source {
            Source::Volume(id) => self.volume(id)?.bytes,
            Source::Snapshot(id) => self.snapshot(id)?.bytes,
        };
        Ok((bytes, Some(held)))
    }

    /// The snapshot with that id, which has to be there.
    pub fn snapshot(&self, id: &str) -> Result<Snapshot, Status> {
        let found = self.storage.snapshot(id)?;
        found.ok_or_else(|| Status::not_found(format!("the snapshot {id} does not exist")))
    }
}

impl TryFrom<csi::VolumeContentSource> for Source {
    type Error = Status;

    /// What a request says of a volume's source.
    fn try_from(source: csi::VolumeContentSource) -> Result<Self, Status> {
        match source.r#type {
            Some(content::Type::Volume(one)) => {
                required(&one.volume_id, "volume_id of the source")?;
                Ok(Self::Volume(one.volume_id))
            }
            Some(content::Type::Snapshot(one)) => {
                required(&one.snapshot_id, "snapshot_id of the source")?;
                Ok(Self::Snapshot(one.snapshot_id))
            }
            None => Err(Status::invalid_argument(
                "the type of the source is missing",
            )),
        }
    }
}

impl From<Source> for csi::VolumeContentSource {
    /// A volume's source, as messages have it.
    fn from(source: Source) -> Self {
        let shown = match source {
            Source::Volume(volume_id) => content::Type::Volume(content::VolumeSource { volume_id }),
            Source::Snapshot(snapshot_id) => {
                content::Type::Snapshot(content::SnapshotSource { snapshot_id })
            }
        };
        Self {
            r#type: Some(shown),
        }
    }
}

fn shown(snapshot: &Snapshot) -> csi::Snapshot {
    csi::Snapshot {
        snapshot_id: snapshot.id.clone(),
        source_volume_id: snapshot.volume.clone(),
        size_bytes: signed(snapshot.bytes),
        creation_time: Some(snapshot.taken.into()),
        ready_to_use: true,
        // with groups
        group_snapshot_id: snapshot.group.clone().unwrap_or_default(),
        // end
        // without groups
        group_snapshot_id: String::new(),
        // end
    }
}
// with groups

/// The GroupController service. Clones are the same.
#[derive(Clone)]
pub struct Groups {
    storage: Arc<dyn Storage>,
    calls: Calls,
}

impl Groups {
    /// Groups of snapshots of volumes in this storage.
    pub fn new(storage: &Arc<dyn Storage>, calls: &Calls) -> Self {
        Self {
            storage: storage.clone(),
            calls: calls.clone(),
        }
    }

    fn create(
        &self,
        request: csi::CreateVolumeGroupSnapshotRequest,
    ) -> Result<csi::CreateVolumeGroupSnapshotResponse, Status> {
        let name = valid_name(&request.name)?;
        let parameters = of_storage(request.parameters);
        self.storage.check_parameters(&parameters)?;
        let mut sources = request.source_volume_ids;
        sources.sort();
        sources.dedup();
        if sources.is_empty() || sources[0].is_empty() {
            return Err(Status::invalid_argument("source_volume_ids is missing"));
        }
        let _name = self.calls.hold(&format!("the group name {name}"))?;
        let group = match self.storage.group_named(name)? {
            Some(group) if volumes_of(&group) == sources => group,
            Some(_) => {
                let message = format!("{name} is a group of other volumes");
                return Err(Status::already_exists(message));
            }
            None => {
                let share = |id: &String| self.calls.share(id);
                let _volumes = sources
                    .iter()
                    .map(share)
                    .collect::<Result<Vec<Held>, _>>()?;
                let volumes = self.volumes(&sources)?;
                self.storage
                    .create_group(name, &volumes, &parameters, &request.secrets)?
            }
        };
        Ok(csi::CreateVolumeGroupSnapshotResponse {
            group_snapshot: Some(shown_group(&group)),
        })
    }

    /// The volumes with these ids, which have to be there.
    fn volumes(&self, ids: &[String]) -> Result<Vec<Volume>, Status> {
        let find = |id: &String| {
            let found = self.storage.volume(id)?;
            found.ok_or_else(|| Status::not_found(format!("the volume {id} does not exist")))
        };
        ids.iter().map(find).collect()
    }

    fn delete(
        &self,
        request: csi::DeleteVolumeGroupSnapshotRequest,
    ) -> Result<csi::DeleteVolumeGroupSnapshotResponse, Status> {
        let id = required(&request.group_snapshot_id, "group_snapshot_id")?;
        let _group = self.calls.hold(id)?;
        let mut _snapshots = Vec::new();
        if let Some(group) = self.storage.group(id)? {
            has_snapshots(&group, &request.snapshot_ids)?;
            for snapshot in &group.snapshots {
                _snapshots.push(self.calls.hold(&snapshot.id)?);
            }
        }
        self.storage.delete_group(id, &request.secrets)?;
        Ok(csi::DeleteVolumeGroupSnapshotResponse {})
    }

    fn get(
        &self,
        request: csi::GetVolumeGroupSnapshotRequest,
    ) -> Result<csi::GetVolumeGroupSnapshotResponse, Status> {
        let id = required(&request.group_snapshot_id, "group_snapshot_id")?;
        let found = self.storage.group(id)?;
        let group =
            found.ok_or_else(|| Status::not_found(format!("the group {id} does not exist")))?;
        has_snapshots(&group, &request.snapshot_ids)?;
        Ok(csi::GetVolumeGroupSnapshotResponse {
            group_snapshot: Some(shown_group(&group)),
        })
    }
}

#[tonic::async_trait]
impl csi::group_controller_server::GroupController for Groups {
    async fn group_controller_get_capabilities(
        &self,
        request: Request<csi::GroupControllerGetCapabilitiesRequest>,
    ) -> Reply<csi::GroupControllerGetCapabilitiesResponse> {
        self.calls
            .answer(self, "GroupControllerGetCapabilities", request, |_, _| {
                let groups = rpc::Type::CreateDeleteGetVolumeGroupSnapshot;
                let capability = csi::GroupControllerServiceCapability {
                    r#type: Some(Type::Rpc(Rpc {
                        r#type: groups.into(),
                    })),
                };
                Ok(csi::GroupControllerGetCapabilitiesResponse {
                    capabilities: vec![capability],
                })
            })
            .await
    }

    async fn create_volume_group_snapshot(
        &self,
        request: Request<csi::CreateVolumeGroupSnapshotRequest>,
    ) -> Reply<csi::CreateVolumeGroupSnapshotResponse> {
        self.calls
            .answer(self, "CreateVolumeGroupSnapshot", request, Self::create)
            .await
    }

    async fn delete_volume_group_snapshot(
        &self,
        request: Request<csi::DeleteVolumeGroupSnapshotRequest>,
    ) -> Reply<csi::DeleteVolumeGroupSnapshotResponse> {
        self.calls
            .answer(self, "DeleteVolumeGroupSnapshot", request, Self::delete)
            .await
    }

    async fn get_volume_group_snapshot(
        &self,
        request: Request<csi::GetVolumeGroupSnapshotRequest>,
    ) -> Reply<csi::GetVolumeGroupSnapshotResponse> {
        self.calls
            .answer(self, "GetVolumeGroupSnapshot", request, Self::get)
            .await
    }
}

/// Refuses snapshots that are not the group's, where the caller names some.
fn has_snapshots(group: &Group, named: &[String]) -> Result<(), Status> {
    let is_in = |id: &&String| group.snapshots.iter().any(|one| one.id == **id);
    match named.iter().find(|id| !is_in(id)) {
        Some(id) => Err(Status::invalid_argument(format!(
            "{id} is not in the group {}",
            group.id
        ))),
        None => Ok(()),
    }
}

/// The volumes of a group, in order.
fn volumes_of(group: &Group) -> Vec<String> {
    let volumes = group.snapshots.iter().map(|one| one.volume.clone());
    let mut volumes: Vec<String> = volumes.collect();
    volumes.sort();
    volumes
}

fn shown_group(group: &Group) -> csi::VolumeGroupSnapshot {
    csi::VolumeGroupSnapshot {
        group_snapshot_id: group.id.clone(),
        snapshots: group.snapshots.iter().map(shown).collect(),
        creation_time: Some(group.taken.into()),
        ready_to_use: true,
    }
}
// end
