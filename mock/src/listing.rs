//! What there is: volumes and snapshots in pages and one by one, and the room for more.

use crate::Defect;
use crate::core::Core;
use crate::options::SMALLEST;
use crate::state::{Snapshot, State, Volume};
use crate::volumes::zone_of;
use csi_proto::v1::controller_service_capability::rpc::Type as ControllerCapability;
use csi_proto::v1::volume_content_source::{SnapshotSource, Type as Source};
use csi_proto::v1::{
    self, ControllerGetVolumeRequest, ControllerGetVolumeResponse, GetCapacityRequest,
    GetCapacityResponse, GetSnapshotRequest, ListSnapshotsRequest, ListSnapshotsResponse,
    ListVolumesRequest, ListVolumesResponse, VolumeCondition, controller_get_volume_response,
    list_snapshots_response, list_volumes_response,
};
use std::collections::BTreeMap;
use tonic::Status;

/// What begins a token; the id of the last entry follows, so that a page begins right also when entries come and go.
const TOKEN: &str = "after ";

/// An id without the zeros that make it too long for a token as well.
fn bare(id: &str) -> &str {
    id.trim_start_matches('0')
}

impl Core {
    /// One page, and the token of the next.
    fn page<'a, T>(
        &self,
        all: impl IntoIterator<Item = (&'a String, T)>,
        max_entries: i32,
        token: &str,
        rpc: &str,
    ) -> Result<(Vec<T>, String), Status> {
        // The name of a mistake is the RPC's, and then words that are the same for both RPCs.
        let mistake = self.options().defect.map_or("", Defect::name);
        let has = |name| mistake.strip_prefix(rpc) == Some(name);
        let most = match usize::try_from(max_entries) {
            Ok(0) => usize::MAX,
            Ok(most) => most,
            Err(_) if has("NegativeMaxEntries") => usize::MAX,
            Err(_) => return Err(Status::invalid_argument("max_entries is negative")),
        };
        let after = match token.strip_prefix(TOKEN) {
            Some(after) => after,
            None if token.is_empty() || has("AcceptsBadToken") => "",
            None if has("BadTokenIsInvalidArgument") => {
                return Err(Status::invalid_argument("bad token"));
            }
            None => return Err(Status::aborted("starting_token is not one of this list")),
        };
        let mut all: Vec<_> = all.into_iter().collect();
        if has("ForgetsNewest") {
            all.pop();
        }
        // Else a page of one would never end.
        let repeats = has("RepeatsEntries") && most > 1;
        all.retain(|(id, _)| match repeats {
            true => bare(id) >= after,
            false => bare(id) > after,
        });
        if has("LosesEntries") && !after.is_empty() && !all.is_empty() {
            all.remove(0);
        }
        let most = match has("IgnoresMaxEntries") {
            true => usize::MAX,
            false => most,
        };
        let ends = all.len() <= most && !has("NeverEnds");
        all.truncate(most);
        let next_token = match all.last() {
            Some((last, _)) if !ends => format!("{TOKEN}{}", bare(last)),
            _ if !ends => token.to_owned(),
            _ => String::new(),
        };
        let entries = all.into_iter().map(|(_, entry)| entry);
        Ok((entries.collect(), next_token))
    }

    pub(crate) fn volumes_page(
        &self,
        request: &ListVolumesRequest,
    ) -> Result<ListVolumesResponse, Status> {
        self.needs(ControllerCapability::ListVolumes)?;
        let state = self.state();
        let (max, token) = (request.max_entries, &request.starting_token);
        let (entries, next_token) = self.page(&state.volumes, max, token, "ListVolumes")?;
        let entries = entries.into_iter().map(|volume| {
            let mut shown = volume.reply();
            if self.has(Defect::ListVolumesContextDiffers) {
                let medium = shown.volume_context.entry("medium".to_owned());
                *medium.or_default() = "disk".to_owned();
            }
            if let Some(range) = volume.asked.range.as_ref()
                && self.has(Defect::ListVolumesShowsOldSize)
                && range.required_bytes > 0
            {
                shown.capacity_bytes = range.required_bytes;
            }
            if self.has(Defect::ListVolumesTopologyMissing) {
                shown.accessible_topology.clear();
            }
            list_volumes_response::Entry {
                volume: Some(shown),
                status: Some(list_volumes_response::VolumeStatus {
                    published_node_ids: self.published_nodes(
                        &state,
                        volume,
                        Defect::PublishedNodesMissing,
                    ),
                    volume_condition: self.condition(Defect::VolumeConditionMissing),
                }),
            }
        });
        let mut entries: Vec<_> = entries.collect();
        if self.is_at_liberty() && max == 0 {
            entries.extend(self.of_others());
        }
        Ok(ListVolumesResponse {
            entries,
            next_token,
        })
    }

    /// Volumes of other clients of the storage, which come and go: whoever meets that may see one twice, and never again.
    fn of_others(&self) -> [list_volumes_response::Entry; 2] {
        let entry = list_volumes_response::Entry {
            volume: Some(v1::Volume {
                volume_id: format!("other-{}", self.count()),
                ..v1::Volume::default()
            }),
            status: Some(list_volumes_response::VolumeStatus {
                volume_condition: self.condition(Defect::VolumeConditionMissing),
                ..Default::default()
            }),
        };
        [entry.clone(), entry]
    }

    fn published_nodes(&self, state: &State, volume: &Volume, misses: Defect) -> Vec<String> {
        let shown = self.controller_can(ControllerCapability::ListVolumesPublishedNodes)
            && !self.has(misses);
        match shown {
            true => state.nodes_of(&volume.id),
            false => Vec::new(),
        }
    }

    fn condition(&self, misses: Defect) -> Option<VolumeCondition> {
        let shown = self.controller_can(ControllerCapability::VolumeCondition) && !self.has(misses);
        shown.then(healthy)
    }

    pub(crate) fn one_volume(
        &self,
        request: &ControllerGetVolumeRequest,
    ) -> Result<ControllerGetVolumeResponse, Status> {
        self.needs(ControllerCapability::GetVolume)?;
        self.id(&request.volume_id, "volume_id", Defect::GetVolumeWithoutId)?;
        let status = |published_node_ids| controller_get_volume_response::VolumeStatus {
            published_node_ids,
            volume_condition: self.condition(Defect::GetVolumeConditionMissing),
        };
        let state = self.state();
        let Some(volume) = state.volumes.get(&request.volume_id) else {
            if self.has(Defect::GetVolumeUnknown)
                || request.volume_id.is_empty() && self.has(Defect::GetVolumeWithoutId)
            {
                return Ok(ControllerGetVolumeResponse {
                    volume: Some(v1::Volume {
                        volume_id: request.volume_id.clone(),
                        ..v1::Volume::default()
                    }),
                    status: Some(status(Vec::new())),
                });
            }
            return Err(Status::not_found("there is no such volume"));
        };
        let overlooks = Defect::GetVolumePublishedNodesMissing;
        let status = status(self.published_nodes(&state, volume, overlooks));
        let mut shown = volume.reply();
        if self.has(Defect::GetVolumeTopologyMissing) {
            shown.accessible_topology.clear();
        }
        if self.has(Defect::GetVolumeSourceDiffers)
            && let Some(source) = &mut shown.content_source
        {
            source.r#type = Some(Source::Snapshot(SnapshotSource {
                snapshot_id: "elsewhere".to_owned(),
            }));
        }
        Ok(ControllerGetVolumeResponse {
            volume: Some(shown),
            status: (!self.has(Defect::GetVolumeWithoutStatus)).then_some(status),
        })
    }

    pub(crate) fn capacity(
        &self,
        request: &GetCapacityRequest,
    ) -> Result<GetCapacityResponse, Status> {
        if self.has(Defect::GetCapacityUnimplemented) {
            return Err(Status::unimplemented("not yet"));
        }
        self.needs(ControllerCapability::GetCapacity)?;
        let is_possible = request
            .volume_capabilities
            .iter()
            .all(|capability| self.supported(capability).is_ok());
        let has_place = request
            .accessible_topology
            .as_ref()
            .is_none_or(|place| !self.has_topology() || zone_of(place).is_some());
        let used = self.state().used();
        let knows_bounds = self.options().specification >= 5;
        let mut reply = GetCapacityResponse {
            available_capacity: match is_possible && has_place {
                true => (self.options().capacity - used).max(0),
                false => 0,
            },
            maximum_volume_size: knows_bounds.then_some(self.options().largest),
            minimum_volume_size: knows_bounds.then_some(SMALLEST),
        };
        if self.has(Defect::CapacityNegative) {
            reply.available_capacity = -1;
        }
        if self.has(Defect::CapacityBoundsReversed) {
            std::mem::swap(
                &mut reply.maximum_volume_size,
                &mut reply.minimum_volume_size,
            );
        }
        Ok(reply)
    }

    pub(crate) fn snapshots_page(
        &self,
        request: &ListSnapshotsRequest,
    ) -> Result<ListSnapshotsResponse, Status> {
        self.needs(ControllerCapability::ListSnapshots)?;
        self.authenticate(&request.secrets)?;
        let mut state = self.state();
        let (id, source) = (&request.snapshot_id, &request.source_volume_id);
        if self.has(Defect::ListSnapshotsUnknownIsNotFound)
            && !id.is_empty()
            && !state.snapshots.contains_key(id)
        {
            return Err(Status::not_found("there is no such snapshot"));
        }
        let any_id = id.is_empty() || self.has(Defect::ListSnapshotsIgnoresId);
        let any_source = source.is_empty()
            || self.has(Defect::ListSnapshotsIgnoresSource)
            || !id.is_empty() && self.has(Defect::ListSnapshotsKnowsOneFilter);
        let wanted: BTreeMap<String, Snapshot> = state
            .snapshots
            .iter_mut()
            .filter(|(_, one)| any_id || one.id == *id)
            .filter(|(_, one)| any_source || one.source == *source)
            .map(|(id, one)| {
                let shown = one.clone();
                one.look();
                (id.clone(), shown)
            })
            .collect();
        let (max, token) = (request.max_entries, &request.starting_token);
        let (entries, next_token) = self.page(&wanted, max, token, "ListSnapshots")?;
        let entries = entries.into_iter().map(|snapshot| {
            let snapshot = Some(self.shown(snapshot));
            list_snapshots_response::Entry { snapshot }
        });
        Ok(ListSnapshotsResponse {
            entries: entries.collect(),
            next_token,
        })
    }

    pub(crate) fn one_snapshot(
        &self,
        request: &GetSnapshotRequest,
    ) -> Result<v1::Snapshot, Status> {
        self.needs(ControllerCapability::GetSnapshot)?;
        let id = &request.snapshot_id;
        self.id(id, "snapshot_id", Defect::GetSnapshotWithoutId)?;
        self.authenticate(&request.secrets)?;
        let mut state = self.state();
        let first = state.snapshots.values().next().cloned();
        let overlooks = self.has(Defect::GetSnapshotUnknown)
            || id.is_empty() && self.has(Defect::GetSnapshotWithoutId);
        match state.snapshots.get_mut(id) {
            Some(snapshot) => {
                let mut shown = self.shown(snapshot);
                snapshot.look();
                if self.has(Defect::GetSnapshotDiffers) {
                    shown.size_bytes += 1;
                }
                Ok(shown)
            }
            None if overlooks => Ok(v1::Snapshot {
                snapshot_id: id.clone(),
                source_volume_id: first.map_or_else(|| "vol".to_owned(), |one| one.source),
                creation_time: Some(std::time::SystemTime::now().into()),
                ready_to_use: true,
                ..v1::Snapshot::default()
            }),
            None => Err(Status::not_found("there is no such snapshot")),
        }
    }
}

pub(crate) fn healthy() -> VolumeCondition {
    VolumeCondition {
        abnormal: false,
        message: "healthy".to_owned(),
    }
}
