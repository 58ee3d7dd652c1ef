//! What is done with a volume that exists: checking, growing and changing it.

use crate::Defect;
use crate::checks::covers;
use crate::core::Core;
use crate::state::{Map, Volume};
use csi_proto::v1::controller_service_capability::rpc::Type as ControllerCapability;
use csi_proto::v1::node_service_capability::rpc::Type as NodeCapability;
use csi_proto::v1::plugin_capability::service::Type as PluginService;
use csi_proto::v1::plugin_capability::volume_expansion::Type as Expansion;
use csi_proto::v1::validate_volume_capabilities_response::Confirmed;
use csi_proto::v1::{
    ControllerExpandVolumeRequest, ControllerExpandVolumeResponse, ControllerModifyVolumeRequest,
    ValidateVolumeCapabilitiesRequest, ValidateVolumeCapabilitiesResponse,
};
use tonic::{Code, Status};

impl Core {
    pub(crate) fn validate(
        &self,
        request: ValidateVolumeCapabilitiesRequest,
    ) -> Result<ValidateVolumeCapabilitiesResponse, Status> {
        self.needs_service(PluginService::ControllerService)?;
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

    pub(crate) async fn expand(
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
        let largest = self.options().largest;
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
        if self.is_at_liberty() && range.required_bytes < capacity {
            return Err(Status::out_of_range("the volume is larger already"));
        }
        let new = match self.size_in(request.capacity_range, capacity) {
            Ok(_) if self.has(Defect::ExpandShrinks) => range.required_bytes.max(1),
            Ok(_) if self.has(Defect::ExpandIgnoresLimit) && range.limit_bytes > 0 => {
                range.limit_bytes + 1
            }
            // Not rounded up anew.
            Ok(_) if range.required_bytes <= capacity => capacity,
            Ok(new) => new,
            Err(status) if self.has(Defect::ExpandShrinks) && range.required_bytes < largest => {
                match status.code() {
                    Code::OutOfRange => range.required_bytes.max(1),
                    _ => return Err(status),
                }
            }
            Err(_)
                if self.has(Defect::ExpandImpossibleSizeIsInternal)
                    && range.required_bytes > largest =>
            {
                return Err(Status::internal("lvextend failed"));
            }
            Err(status) => return Err(status),
        };
        let is_same = range.required_bytes == capacity;
        if is_same && self.has(Defect::ExpandRepeatFails) {
            return Err(Status::out_of_range("the volume has this size already"));
        }
        self.pace().await;
        let mut state = self.state();
        self.has_bytes(&state, new - capacity)?;
        if let Some(volume) = state.volumes.get_mut(&id) {
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

    pub(crate) async fn modify(
        &self,
        request: ControllerModifyVolumeRequest,
    ) -> Result<(), Status> {
        self.needs(ControllerCapability::ModifyVolume)?;
        let id = request.volume_id.clone();
        self.id(&id, "volume_id", Defect::ModifyWithoutVolumeId)?;
        let parameters = &request.mutable_parameters;
        if parameters.is_empty() && self.has(Defect::ModifyWithoutParameters) {
            return Err(Status::internal("nothing to change"));
        }
        if parameters.is_empty() && !self.is_at_liberty() {
            return Err(Status::invalid_argument("mutable_parameters is missing"));
        }
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
