//! Volumes: creating, deleting, growing, changing and checking them. Attaching them is `controller`'s subject.

use super::Defect;
use super::checks::{LARGEST, covers};
use super::core::Core;
use super::data;
use super::identity::NAME;
use super::state::{Asked, Map, State, Volume};
use csi_proto::v1::controller_service_capability::rpc::Type as ControllerCapability;
use csi_proto::v1::node_service_capability::rpc::Type as NodeCapability;
use csi_proto::v1::plugin_capability::volume_expansion::Type as Expansion;
use csi_proto::v1::validate_volume_capabilities_response::Confirmed;
use csi_proto::v1::volume_content_source::Type as Source;
use csi_proto::v1::{
    self, ControllerExpandVolumeRequest, ControllerExpandVolumeResponse,
    ControllerModifyVolumeRequest, CreateVolumeRequest, DeleteVolumeRequest, Topology,
    TopologyRequirement, ValidateVolumeCapabilitiesRequest, ValidateVolumeCapabilitiesResponse,
    VolumeContentSource,
};
use tonic::{Code, Status};

/// The zones that volumes can be in; the driver's own node is in the first.
pub(super) const ZONES: [&str; 2] = ["z1", "z2"];

/// What a new volume begins with.
struct Content {
    /// The id of the volume or snapshot.
    from: Option<String>,
    least: i64,
}

impl Core {
    pub(super) async fn create(&self, request: CreateVolumeRequest) -> Result<v1::Volume, Status> {
        self.needs(ControllerCapability::CreateDeleteVolume)?;
        self.check_create(&request).map_err(|status| {
            match self.has(Defect::CreateVolumeMissingFieldIsInternal) {
                true => Status::internal(status.message()),
                false => status,
            }
        })?;
        self.authenticate(&request.secrets)?;
        let name = self.stored_name(&request.name);
        let unlocked = self.has(Defect::ParallelCreateVolumeMakesTwo);
        let what = (!unlocked).then(|| format!("name {name}"));
        self.alone(what, self.create_alone(request, name)).await
    }

    fn check_create(&self, request: &CreateVolumeRequest) -> Result<(), Status> {
        self.name(&request.name, Defect::CreateVolumeWithoutName)?;
        let without = Defect::CreateVolumeWithoutCapabilities;
        self.capabilities(&request.volume_capabilities, without)?;
        for capability in &request.volume_capabilities {
            self.supported(capability)
                .map_err(Status::invalid_argument)?;
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
        let mut id = state.new_id("vol");
        if self.has(Defect::VolumeIdTooLong) {
            id.push_str(&"0".repeat(128));
        }
        if self.has(Defect::VolumeIdMissing) {
            id.clear();
        }
        let mut context: Map = [("medium".to_owned(), "memory".to_owned())].into();
        if self.has(Defect::VolumeContextHasSecrets) {
            context.extend(request.secrets.clone());
        }
        if self.has(Defect::VolumeContextTooLarge) {
            context.insert("about".to_owned(), "x".repeat(4097));
        }
        let place = self.data(&id);
        let internal = |error: std::io::Error| Status::internal(error.to_string());
        if !id.is_empty() && !self.has(Defect::VolumeIdTooLong) {
            data::create(&place).map_err(internal)?;
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
                        && (range.limit_bytes == 0 || existing.capacity <= range.limit_bytes)
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
        } else if !reaches(
            &existing.topology,
            request.accessibility_requirements.as_ref(),
        ) {
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
        match source.and_then(|source| source.r#type.as_ref()) {
            None => Ok(empty),
            Some(Source::Volume(source)) => match state.volumes.get(&source.volume_id) {
                Some(volume) => Ok(Content {
                    from: (!self.has(Defect::CloneIsEmpty)).then(|| volume.id.clone()),
                    least: volume.capacity,
                }),
                None if self.has(Defect::CloneOfUnknownVolume) => Ok(empty),
                None => Err(unknown(&source.volume_id)),
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
                        true => Some(snapshot.source.clone()),
                        false if self.has(Defect::RestoreIsEmpty) => None,
                        false => Some(snapshot.id.clone()),
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
        if self.has(Defect::CreateVolumeIgnoresRequiredBytes) && range.required_bytes > 1 {
            return Ok(range.required_bytes / 2);
        }
        if self.has(Defect::CreateVolumeIgnoresLimitBytes) && range.limit_bytes > 0 {
            return Ok(range.limit_bytes + 1);
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
            true => Some(ZONES[1]),
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

    fn check_mutable(&self, parameters: &Map) -> Result<(), Status> {
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

    pub(super) async fn delete(&self, request: DeleteVolumeRequest) -> Result<(), Status> {
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
        state.volumes.remove(id);
        if self.has(Defect::DeleteVolumeTakesSnapshots) {
            state.snapshots.retain(|_, snapshot| snapshot.source != id);
        }
        data::remove(&self.data(id));
        Ok(())
    }

    pub(super) fn validate(
        &self,
        request: ValidateVolumeCapabilitiesRequest,
    ) -> Result<ValidateVolumeCapabilitiesResponse, Status> {
        self.needs_service(v1::plugin_capability::service::Type::ControllerService)?;
        self.id(
            &request.volume_id,
            "volume_id",
            Defect::ValidateWithoutVolumeId,
        )?;
        let without = Defect::ValidateWithoutCapabilities;
        self.capabilities(&request.volume_capabilities, without)?;
        self.authenticate(&request.secrets)?;
        let volume = self.state().volumes.get(&request.volume_id).cloned();
        let problem = match volume {
            None if self.has(Defect::ValidateUnknownVolume) => None,
            None => return Err(Status::not_found("there is no such volume")),
            Some(_) if self.has(Defect::ValidateConfirmsNothing) => Some("no".to_owned()),
            Some(_) if self.has(Defect::ValidateConfirmsEverything) => None,
            Some(volume) => self.objection(&volume, &request),
        };
        Ok(match problem {
            Some(message) => ValidateVolumeCapabilitiesResponse {
                confirmed: None,
                message,
            },
            None => ValidateVolumeCapabilitiesResponse {
                confirmed: Some(Confirmed {
                    volume_context: request.volume_context,
                    volume_capabilities: request.volume_capabilities,
                    parameters: request.parameters,
                    mutable_parameters: request.mutable_parameters,
                }),
                message: String::new(),
            },
        })
    }

    /// Why the volume is not what the request wants confirmed.
    fn objection(
        &self,
        volume: &Volume,
        request: &ValidateVolumeCapabilitiesRequest,
    ) -> Option<String> {
        for capability in &request.volume_capabilities {
            if let Err(problem) = self.supported(capability) {
                return Some(problem);
            }
            if !covers(&volume.asked.capabilities, capability) {
                return Some("the volume was made for another access type".to_owned());
            }
        }
        let differs = |given: &Map, known: &Map| !given.is_empty() && given != known;
        if differs(&request.parameters, &volume.asked.parameters) {
            return Some("the volume has other parameters".to_owned());
        }
        if differs(&request.mutable_parameters, &volume.mutable) {
            return Some("the volume has other mutable parameters".to_owned());
        }
        if differs(&request.volume_context, &volume.context) {
            return Some("the volume has another context".to_owned());
        }
        None
    }

    pub(super) async fn expand(
        &self,
        request: ControllerExpandVolumeRequest,
    ) -> Result<ControllerExpandVolumeResponse, Status> {
        self.needs(ControllerCapability::ExpandVolume)?;
        let id = request.volume_id.clone();
        self.id(&id, "volume_id", Defect::ExpandWithoutVolumeId)?;
        let range = request.capacity_range.unwrap_or_default();
        let has_range = range.required_bytes != 0 || range.limit_bytes != 0;
        self.required(has_range, "capacity_range", Defect::ExpandWithoutRange)?;
        self.authenticate(&request.secrets)?;
        let what = [format!("volume {id}")];
        self.alone(what, self.expand_alone(request)).await
    }

    async fn expand_alone(
        &self,
        request: ControllerExpandVolumeRequest,
    ) -> Result<ControllerExpandVolumeResponse, Status> {
        let id = request.volume_id;
        let answer = |capacity_bytes| ControllerExpandVolumeResponse {
            capacity_bytes,
            node_expansion_required: self.node_can(NodeCapability::ExpandVolume),
        };
        let range = request.capacity_range.unwrap_or_default();
        let (capacity, in_use) = {
            let state = self.state();
            match state.volumes.get(&id) {
                Some(volume) => (volume.capacity, state.is_in_use(&id)),
                None if self.has(Defect::ExpandUnknownVolume) => {
                    return Ok(answer(range.required_bytes.max(1)));
                }
                None => return Err(Status::not_found("there is no such volume")),
            }
        };
        let is_offline = self.options().expansion == Some(Expansion::Offline);
        if in_use && (is_offline || self.has(Defect::ExpandOnlyOffline)) {
            return Err(Status::failed_precondition("the volume is in use"));
        }
        let new = match self.size_in(request.capacity_range, capacity) {
            Ok(_) if self.has(Defect::ExpandShrinks) => range.required_bytes.max(1),
            Ok(_) if self.has(Defect::ExpandIgnoresLimit) && range.limit_bytes > 0 => {
                range.limit_bytes + 1
            }
            // Not rounded up anew.
            Ok(_) if range.required_bytes <= capacity => capacity,
            Ok(new) => new,
            Err(status) if self.has(Defect::ExpandShrinks) && range.required_bytes < LARGEST => {
                match status.code() {
                    Code::OutOfRange => range.required_bytes.max(1),
                    _ => return Err(status),
                }
            }
            Err(_) if self.has(Defect::ExpandImpossibleSizeIsInternal) => {
                return Err(Status::internal("lvextend failed"));
            }
            Err(status) => return Err(status),
        };
        if new == capacity && self.has(Defect::ExpandRepeatFails) {
            return Err(Status::out_of_range("the volume has this size already"));
        }
        self.pace().await;
        if let Some(volume) = self.state().volumes.get_mut(&id) {
            volume.capacity = new;
            if self.has(Defect::ExpandForgetsName) && new != capacity {
                volume.name.clear();
            }
        }
        Ok(answer(match self.has(Defect::ExpandAnswersOldSize) {
            true => capacity,
            false => new,
        }))
    }

    pub(super) async fn modify(
        &self,
        request: ControllerModifyVolumeRequest,
    ) -> Result<(), Status> {
        self.needs(ControllerCapability::ModifyVolume)?;
        let id = request.volume_id.clone();
        self.id(&id, "volume_id", Defect::ModifyWithoutVolumeId)?;
        let parameters = &request.mutable_parameters;
        self.required(
            !parameters.is_empty(),
            "mutable_parameters",
            Defect::ModifyWithoutParameters,
        )?;
        self.authenticate(&request.secrets)?;
        let what = [format!("volume {id}")];
        self.alone(what, self.modify_alone(&id, parameters)).await
    }

    async fn modify_alone(&self, id: &str, parameters: &Map) -> Result<(), Status> {
        let Some(volume) = self.state().volumes.get(id).cloned() else {
            return match self.has(Defect::ModifyUnknownVolume) {
                true => Ok(()),
                false => Err(Status::not_found("there is no such volume")),
            };
        };
        self.check_mutable(parameters)?;
        let is_so = |(key, value)| volume.mutable.get(key) == Some(value);
        if parameters.iter().all(is_so) && self.has(Defect::ModifyRepeatFails) {
            return Err(Status::internal("nothing to change"));
        }
        self.pace().await;
        if let Some(volume) = self.state().volumes.get_mut(id) {
            volume.mutable.extend(parameters.clone());
        }
        Ok(())
    }
}

/// A place in that zone.
pub(super) fn in_zone(zone: &str) -> Topology {
    Topology {
        segments: [(zone_key(), zone.to_owned())].into(),
    }
}

fn zone_key() -> String {
    format!("{NAME}/zone")
}

/// The zone of the driver's that the place is in; keys are compared whatever their case.
pub(super) fn zone_of(place: &Topology) -> Option<&'static str> {
    let mut segments = place.segments.iter();
    let (_, value) = segments.find(|(key, _)| key.eq_ignore_ascii_case(&zone_key()))?;
    ZONES.into_iter().find(|zone| zone == value)
}

fn reaches(places: &[Topology], wanted: Option<&TopologyRequirement>) -> bool {
    let requisite = wanted.map_or(&[][..], |wanted| &wanted.requisite);
    let is_in = |place: &Topology| places.iter().any(|other| zone_of(other) == zone_of(place));
    requisite.is_empty() || places.is_empty() || requisite.iter().any(is_in)
}
