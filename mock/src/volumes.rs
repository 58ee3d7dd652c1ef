//! Volumes: creating and deleting them. What is done with those that exist is in `changes`, attaching in `controller`.

use crate::Defect;
use crate::checks::covers;
use crate::core::Core;
use crate::data;
use crate::identity::NAME;
use crate::state::{Asked, Map, State, Volume};
use csi_proto::v1::controller_service_capability::rpc::Type as ControllerCapability;
use csi_proto::v1::volume_capability::access_mode::Mode;
use csi_proto::v1::volume_content_source::Type as Source;
use csi_proto::v1::{
    self, CreateVolumeRequest, DeleteVolumeRequest, Topology, TopologyRequirement,
    VolumeContentSource,
};
use tonic::{Code, Status};

/// The zones that volumes can be in; the driver's own node is in the first.
pub(crate) const ZONES: [&str; 2] = ["z1", "z2"];

/// What a new volume begins with.
struct Content {
    /// The id of the volume or snapshot.
    from: Option<String>,
    least: i64,
}

const MIB: i64 = 1 << 20;

impl Core {
    pub(crate) async fn create(&self, request: CreateVolumeRequest) -> Result<v1::Volume, Status> {
        self.needs(ControllerCapability::CreateDeleteVolume)?;
        self.check_create(&request).map_err(|status| {
            let is_internal = request.name.is_empty();
            match is_internal && self.has(Defect::CreateVolumeMissingFieldIsInternal) {
                true => Status::internal(status.message()),
                false => status,
            }
        })?;
        self.authenticate(&request.secrets)?;
        let name = self.stored_name(&request.name);
        let unlocked = self.has(Defect::ParallelCreateVolumeMakesTwo);
        let what = (!unlocked).then(|| format!("name {name}"));
        let made = self
            .alone(what.clone(), self.create_alone(request, name))
            .await;
        let is_refused = matches!(&made, Err(status) if status.code() != Code::Aborted);
        if is_refused && self.has(Defect::RefusedCreateVolumeKeepsLock) {
            self.keep(what);
        }
        made
    }

    fn check_create(&self, request: &CreateVolumeRequest) -> Result<(), Status> {
        self.name(&request.name, Defect::CreateVolumeWithoutName)?;
        let without = Defect::CreateVolumeWithoutCapabilities;
        self.capabilities(&request.volume_capabilities, without)?;
        for capability in &request.volume_capabilities {
            let supported = self.supported(capability);
            if !self.has(Defect::UnknownAccessModeAccepted) {
                supported.map_err(Status::invalid_argument)?;
            }
            let mode = capability.access_mode.unwrap_or_default().mode();
            if self.is_at_liberty() && mode == Mode::SingleNodeSingleWriter {
                return Err(Status::invalid_argument("several writers or none"));
            }
        }
        self.map(&request.parameters, "parameters")?;
        self.map(&request.secrets, "secrets")?;
        let is_known = |key: &String| key == "pool" || key.starts_with("csi.storage.k8s.io/");
        if let Some(key) = request.parameters.keys().find(|key| !is_known(key)) {
            let message = format!("the parameter {key:?} is not known");
            return Err(Status::invalid_argument(message));
        }
        if request.capacity_range.is_none() && self.has(Defect::CreateVolumeNeedsSize) {
            return Err(Status::invalid_argument("capacity_range is required"));
        }
        if let Some(range) = request.capacity_range
            && range.required_bytes == 0
            && range.limit_bytes == 0
        {
            return Err(Status::invalid_argument("capacity_range has no bound"));
        }
        if !request.mutable_parameters.is_empty()
            && !self.controller_can(ControllerCapability::ModifyVolume)
        {
            let message = "mutable parameters are not supported";
            return Err(Status::invalid_argument(message));
        }
        self.check_mutable(&request.mutable_parameters)?;
        let source = request.volume_content_source.as_ref();
        match source.map(|source| source.r#type.as_ref()) {
            Some(Some(Source::Snapshot(_)))
                if !self.controller_can(ControllerCapability::CreateDeleteSnapshot) =>
            {
                Err(Status::invalid_argument("snapshots are not supported"))
            }
            Some(Some(Source::Volume(_)))
                if !self.controller_can(ControllerCapability::CloneVolume) =>
            {
                Err(Status::invalid_argument("clones are not supported"))
            }
            Some(None) if self.has(Defect::SourceWithoutType) => Ok(()),
            Some(None) => Err(Status::invalid_argument("volume_content_source is empty")),
            _ => Ok(()),
        }
    }

    async fn create_alone(
        &self,
        request: CreateVolumeRequest,
        name: String,
    ) -> Result<v1::Volume, Status> {
        let existing = self.state().volume_named(&name).cloned();
        if let Some(existing) = existing
            && !self.has(Defect::CreateVolumeRepeatMakesAnother)
        {
            return self.create_again(&existing, &request);
        }
        if self.has(Defect::CancelledCreateVolumeLeavesName)
            && !self.state().begun.insert(name.clone())
        {
            return Err(Status::aborted("another call makes this volume"));
        }
        // Before the work, so that errors come at once; and after it, because the source may have gone meanwhile.
        self.content(&self.state(), request.volume_content_source.as_ref())?;
        self.pace().await;
        let mut state = self.state();
        state.begun.remove(&name);
        self.make(&mut state, request, name)
    }

    fn make(
        &self,
        state: &mut State,
        request: CreateVolumeRequest,
        name: String,
    ) -> Result<v1::Volume, Status> {
        let content = self.content(state, request.volume_content_source.as_ref())?;
        let capacity = self.new_capacity(&request, content.least)?;
        let topology = self.place(request.accessibility_requirements.as_ref())?;
        self.has_room(state, capacity)?;
        let mut id = state.new_id("vol");
        if self.has(Defect::VolumeIdsAreCounted) {
            id = format!("vol-{:08}", state.volumes.len() + 1);
        }
        if self.has(Defect::VolumeIdTooLong) {
            id.insert_str(0, &"0".repeat(128));
        }
        if self.has(Defect::VolumeIdMissing) {
            id.clear();
        }
        let mut context = medium();
        if self.has(Defect::VolumeContextHasSecrets) {
            context.extend(request.secrets.clone());
        }
        if self.has(Defect::VolumeContextTooLarge) {
            context.insert("about".to_owned(), "x".repeat(4097));
        }
        let place = self.data(&id);
        let internal = |error: std::io::Error| Status::internal(error.to_string());
        if !id.is_empty() {
            // A process that was killed may have left some that nobody knows of.
            data::remove(&place);
            if let Some(from) = content.from {
                data::copy(&self.data(&from), &place).map_err(internal)?;
            }
        }
        let volume = Volume {
            id: id.clone(),
            name,
            capacity,
            context,
            topology,
            mutable: request.mutable_parameters.clone(),
            asked: Asked {
                range: request.capacity_range,
                capabilities: request.volume_capabilities,
                parameters: request.parameters,
                mutable: request.mutable_parameters,
                source: request.volume_content_source,
            },
        };
        let mut reply = volume.reply();
        if self.has(Defect::ContentSourceNotAnswered) {
            reply.content_source = None;
        }
        state.volumes.insert(id, volume);
        Ok(reply)
    }

    /// Refuses a volume that is one too many, or too large for what is left.
    fn has_room(&self, state: &State, capacity: i64) -> Result<(), Status> {
        self.has_bytes(state, capacity)?;
        let most = self.options().max_volumes;
        match most > 0 && state.volumes.len() + state.kept_room.len() >= most {
            true => Err(Status::resource_exhausted(format!(
                "there are as many volumes as may be: {most}"
            ))),
            false => Ok(()),
        }
    }

    /// Refuses so many more bytes where they are not left.
    pub(crate) fn has_bytes(&self, state: &State, more: i64) -> Result<(), Status> {
        match state.used().saturating_add(more) > self.options().capacity {
            true => Err(Status::resource_exhausted("the storage is full")),
            false => Ok(()),
        }
    }

    /// The answer for a volume that exists: itself, or that it is not what is asked for.
    fn create_again(
        &self,
        existing: &Volume,
        request: &CreateVolumeRequest,
    ) -> Result<v1::Volume, Status> {
        let asked = &existing.asked;
        // A volume that has grown since is still the one that was asked for.
        let fits = asked.range == request.capacity_range
            || !self.has(Defect::CreateVolumeComparesRanges)
                && request.capacity_range.is_none_or(|range| {
                    existing.capacity >= range.required_bytes
                        && (range.limit_bytes == 0
                            || existing.capacity <= range.limit_bytes
                            || self.has(Defect::CreateVolumeIgnoresLimitOnRepeat))
                });
        let wanted = &request.volume_capabilities;
        let another = if self.has(Defect::CreateVolumeRepeatFails) {
            Some("name")
        } else if !fits && !self.has(Defect::CreateVolumeIgnoresSizeOnRepeat) {
            Some("capacity")
        } else if !wanted.iter().all(|one| covers(&asked.capabilities, one)) {
            Some("access type")
        } else if asked.parameters != request.parameters
            || asked.mutable != request.mutable_parameters
        {
            Some("parameters")
        } else if asked.source != request.volume_content_source
            && !self.has(Defect::CreateVolumeIgnoresSourceOnRepeat)
        {
            Some("source")
        } else if !self.has(Defect::VolumeInWrongZone)
            && !reaches(
                &existing.topology,
                request.accessibility_requirements.as_ref(),
            )
        {
            Some("topology")
        } else {
            None
        };
        if let Some(what) = another {
            let message = format!("a volume of this name exists with another {what}");
            return Err(Status::already_exists(message));
        }
        let mut reply = existing.reply();
        if self.has(Defect::VolumeContextLostOnRepeat) {
            reply.volume_context.clear();
        }
        Ok(reply)
    }

    fn content(
        &self,
        state: &State,
        source: Option<&VolumeContentSource>,
    ) -> Result<Content, Status> {
        let empty = Content {
            from: None,
            least: 0,
        };
        let unknown = |id: &str| {
            let code = match self.has(Defect::MissingSourceIsInternal) {
                true => Code::Internal,
                false => Code::NotFound,
            };
            Status::new(code, format!("the source {id:?} does not exist"))
        };
        let no_volume = |id: &str| Status::not_found(format!("the source {id:?} does not exist"));
        match source.and_then(|source| source.r#type.as_ref()) {
            None => Ok(empty),
            Some(Source::Volume(source)) => match state.volumes.get(&source.volume_id) {
                Some(volume) => Ok(Content {
                    from: (!self.has(Defect::CloneIsEmpty)).then(|| volume.id.clone()),
                    least: volume.capacity,
                }),
                None if self.has(Defect::CloneOfUnknownVolume) => Ok(empty),
                None => Err(no_volume(&source.volume_id)),
            },
            Some(Source::Snapshot(source)) => match state.snapshots.get(&source.snapshot_id) {
                Some(snapshot) if snapshot.looks_left > 0 => {
                    Err(Status::unavailable("the snapshot is not ready yet"))
                }
                Some(snapshot)
                    if snapshot.group.is_some() && self.has(Defect::GroupMemberIsNoSource) =>
                {
                    Err(Status::invalid_argument("the snapshot belongs to a group"))
                }
                Some(snapshot) => Ok(Content {
                    from: match self.has(Defect::SnapshotFollowsVolume) {
                        true if state.volumes.contains_key(&snapshot.source) => {
                            Some(snapshot.source.clone())
                        }
                        _ if self.has(Defect::RestoreIsEmpty) => None,
                        _ => Some(snapshot.id.clone()),
                    },
                    least: match self.has(Defect::RestoreIsTooSmall) {
                        true => 0,
                        false => snapshot.size,
                    },
                }),
                None if self.has(Defect::RestoreOfUnknownSnapshot) => Ok(empty),
                None => Err(unknown(&source.snapshot_id)),
            },
        }
    }

    fn new_capacity(&self, request: &CreateVolumeRequest, least: i64) -> Result<i64, Status> {
        let range = request.capacity_range;
        let capacity = self.size_in(range, least).map_err(|status| {
            let internal = self.has(Defect::CreateVolumeImpossibleSizeIsInternal);
            match status.code() {
                Code::OutOfRange if internal => Status::internal("mkfs failed"),
                _ => status,
            }
        })?;
        let range = range.unwrap_or_default();
        if self.is_at_liberty() && range.limit_bytes == 0 {
            return match range.required_bytes < least {
                true => Err(Status::out_of_range("the source is larger")),
                false => Ok((capacity + MIB).min(self.options().largest)),
            };
        }
        if self.has(Defect::CreateVolumeIgnoresRequiredBytes) && range.required_bytes > 1 {
            return Ok(range.required_bytes / 2);
        }
        if self.has(Defect::CreateVolumeIgnoresLimitBytes) && range.limit_bytes > 0 {
            return Ok(range.limit_bytes + 1);
        }
        if self.has(Defect::CreateVolumeRoundsBeyondLimit) {
            return Ok((capacity + MIB - 1) / MIB * MIB);
        }
        Ok(capacity)
    }

    /// Where the new volume is: the best place that is asked for.
    fn place(&self, wanted: Option<&TopologyRequirement>) -> Result<Vec<Topology>, Status> {
        let unadvertised = self.has(Defect::VolumeTopologyUnadvertised);
        if !self.has_topology() && !unadvertised {
            return Ok(Vec::new());
        }
        let wanted = wanted.filter(|_| !self.has(Defect::RequisiteTopologyIgnored));
        let zone = match wanted {
            None => Some(ZONES[0]),
            Some(TopologyRequirement {
                requisite,
                preferred,
            }) => preferred.iter().chain(requisite).find_map(zone_of),
        };
        let zone = match self.has(Defect::VolumeInWrongZone) {
            true => zone.map(|_| ZONES[1]),
            false => zone,
        };
        match zone {
            Some(zone) => Ok(vec![in_zone(zone)]),
            None => Err(Status::resource_exhausted(
                "there is no storage in the required topology",
            )),
        }
    }

    /// The name by which a volume is known.
    fn stored_name(&self, name: &str) -> String {
        if self.has(Defect::LongNamesCollide) {
            return name.chars().take(100).collect();
        }
        if self.has(Defect::NameCaseIgnored) {
            return name.to_lowercase();
        }
        name.to_owned()
    }

    pub(crate) fn check_mutable(&self, parameters: &Map) -> Result<(), Status> {
        self.map(parameters, "mutable_parameters")?;
        for (key, value) in parameters {
            let is_known = key == "tier" && matches!(value.as_str(), "fast" | "slow");
            if !is_known && !self.has(Defect::ModifyUnknownParameter) {
                let message = format!("the mutable parameter {key:?} is not known, or its value");
                return Err(Status::invalid_argument(message));
            }
        }
        Ok(())
    }

    pub(crate) async fn delete(&self, request: DeleteVolumeRequest) -> Result<(), Status> {
        self.needs(ControllerCapability::CreateDeleteVolume)?;
        let id = request.volume_id;
        self.id(&id, "volume_id", Defect::DeleteVolumeWithoutId)?;
        self.authenticate(&request.secrets)?;
        // Nobody shall make it anew meanwhile.
        let name = self.state().volumes.get(&id).map(|one| one.name.clone());
        let what = [
            Some(format!("volume {id}")),
            name.map(|name| format!("name {name}")),
        ];
        self.alone(what.into_iter().flatten(), self.delete_alone(&id))
            .await
    }

    async fn delete_alone(&self, id: &str) -> Result<(), Status> {
        if !self.state().volumes.contains_key(id) {
            return match self.has(Defect::DeleteVolumeUnknownIsNotFound) {
                true => Err(Status::not_found("there is no such volume")),
                false => Ok(()),
            };
        }
        if self.state().is_in_use(id) {
            return Err(Status::failed_precondition("the volume is in use"));
        }
        self.pace().await;
        if self.has(Defect::DeleteVolumeKeepsVolume) {
            return Ok(());
        }
        let mut state = self.state();
        let gone = state.volumes.remove(id);
        if self.has(Defect::RoomNeverGivenBack) {
            state.kept_room.extend(gone.map(|volume| volume.capacity));
        }
        if self.has(Defect::DeleteVolumeTakesSnapshots) {
            state.snapshots.retain(|_, snapshot| snapshot.source != id);
        }
        if self.has(Defect::DeleteVolumeTakesClones) {
            state.volumes.retain(|_, volume| !volume.is_clone_of(id));
        }
        data::remove(&self.data(id));
        Ok(())
    }
}

/// What every volume's context says.
pub(crate) fn medium() -> Map {
    [("medium".to_owned(), "memory".to_owned())].into()
}

/// A place in that zone.
pub(crate) fn in_zone(zone: &str) -> Topology {
    Topology {
        segments: [(zone_key(), zone.to_owned())].into(),
    }
}

fn zone_key() -> String {
    format!("{NAME}/zone")
}

/// The zone of the driver's that the place is in; keys are compared whatever their case.
pub(crate) fn zone_of(place: &Topology) -> Option<&'static str> {
    let mut segments = place.segments.iter();
    let (_, value) = segments.find(|(key, _)| key.eq_ignore_ascii_case(&zone_key()))?;
    ZONES.into_iter().find(|zone| zone == value)
}

fn reaches(places: &[Topology], wanted: Option<&TopologyRequirement>) -> bool {
    let requisite = wanted.map_or(&[][..], |wanted| &wanted.requisite);
    let is_in = |place: &Topology| places.iter().any(|other| zone_of(other) == zone_of(place));
    requisite.is_empty() || places.is_empty() || requisite.iter().any(is_in)
}
