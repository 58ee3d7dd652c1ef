//! The Controller service of a driver that attaches: attach, detach, and what goes with them. It makes no volumes: those of
//! FlexVolume are there before.

use super::answer::Problem;
use super::driver::{Call, CallSubject, Flex};
use super::error::FlexError;
use super::node::bring_up;
use super::options::{DEVICE, options};
use super::plan::{Refusal, Up, Wanted, up};
use super::request::{How, RequestError, name, new_size};
use super::state::{State, Use, VolumeLocation};
use csi_proto::v1::controller_server::Controller;
use csi_proto::v1::controller_service_capability::rpc::Type as Capability;
use csi_proto::v1::validate_volume_capabilities_response::Confirmed;
use csi_proto::v1::{
    ControllerExpandVolumeRequest, ControllerExpandVolumeResponse,
    ControllerGetCapabilitiesRequest, ControllerGetCapabilitiesResponse,
    ControllerPublishVolumeRequest, ControllerPublishVolumeResponse,
    ControllerUnpublishVolumeRequest, ControllerUnpublishVolumeResponse,
    ValidateVolumeCapabilitiesRequest, ValidateVolumeCapabilitiesResponse,
};
use tonic::{Request, Response, Status};

#[tonic::async_trait]
impl Controller for Flex {
    async fn controller_get_capabilities(
        &self,
        _: Request<ControllerGetCapabilitiesRequest>,
    ) -> Result<Response<ControllerGetCapabilitiesResponse>, Status> {
        let all = [
            (true, Capability::PublishUnpublishVolume),
            (true, Capability::PublishReadonly),
            (true, Capability::SingleNodeMultiWriter),
            (self.abilities().expands, Capability::ExpandVolume),
        ];
        let able = all.into_iter().filter(|(able, _)| *able);
        Ok(Response::new(ControllerGetCapabilitiesResponse {
            capabilities: able.map(|(_, one)| one.into()).collect(),
        }))
    }

    async fn controller_publish_volume(
        &self,
        request: Request<ControllerPublishVolumeRequest>,
    ) -> Result<Response<ControllerPublishVolumeResponse>, Status> {
        let subject =
            |q: &ControllerPublishVolumeRequest| CallSubject::volume(&q.volume_id, &q.secrets);
        self.carry_out(request, subject, attach).await
    }

    async fn controller_unpublish_volume(
        &self,
        request: Request<ControllerUnpublishVolumeRequest>,
    ) -> Result<Response<ControllerUnpublishVolumeResponse>, Status> {
        let subject =
            |q: &ControllerUnpublishVolumeRequest| CallSubject::volume(&q.volume_id, &q.secrets);
        self.carry_out(request, subject, detach).await
    }

    async fn validate_volume_capabilities(
        &self,
        request: Request<ValidateVolumeCapabilitiesRequest>,
    ) -> Result<Response<ValidateVolumeCapabilitiesResponse>, Status> {
        let subject =
            |q: &ValidateVolumeCapabilitiesRequest| CallSubject::volume(&q.volume_id, &q.secrets);
        self.carry_out(request, subject, validate).await
    }

    async fn controller_expand_volume(
        &self,
        request: Request<ControllerExpandVolumeRequest>,
    ) -> Result<Response<ControllerExpandVolumeResponse>, Status> {
        if !self.abilities().expands {
            return Err(FlexError::NotAdvertised.status(&[]));
        }
        let subject =
            |q: &ControllerExpandVolumeRequest| CallSubject::volume(&q.volume_id, &q.secrets);
        self.carry_out(request, subject, expand).await
    }
}

async fn attach(
    call: Call,
    request: ControllerPublishVolumeRequest,
) -> Result<ControllerPublishVolumeResponse, FlexError> {
    let node = name(&request.node_id, "node_id")?;
    let how = How::of(request.volume_capability.as_ref(), request.readonly)?;
    let options = options(&call.volume, &how, &[&request.volume_context]);
    let argument = call.argument(&options);
    let wanted = Wanted {
        volume: &call.volume,
        place: &VolumeLocation::Node(node.clone()),
        how: &how,
    };
    let state = call.store().now();
    if let Up::There(known) = up(&state, &wanted, |_| false)?
        && is_attached(&call, &argument, &node).await?
    {
        return Ok(context_of(known.clone()));
    }
    let new = Use {
        name: name_of(&call, &argument).await?,
        ..wanted.begun(options)
    };
    let attached = bring_up(&call, new, |mut new| async {
        new.device = match call.out("attach", &[&argument, &node]).await {
            Ok(answer) => answer.device,
            // The kubelet's own way then is that there is nothing to attach.
            Err(error) if error.is_not_supported() => String::new(),
            Err(error) => return Err(error.into()),
        };
        Ok(new)
    });
    Ok(context_of(attached.await?))
}

/// Whether the driver still says so of a volume that it has attached.
async fn is_attached(call: &Call, argument: &str, node: &str) -> Result<bool, FlexError> {
    match call.out("isattached", &[argument, node]).await {
        Ok(answer) => Ok(answer.attached),
        Err(error) if error.is_not_supported() => Ok(true),
        Err(error) => Err(error.into()),
    }
}

/// The driver's name of a volume, which is its id where the driver has no other.
async fn name_of(call: &Call, argument: &str) -> Result<String, FlexError> {
    match call.out("getvolumename", &[argument]).await {
        Ok(answer) if !answer.volume_name.is_empty() => Ok(answer.volume_name),
        Ok(_) => Ok(call.volume.clone()),
        Err(error) if error.is_not_supported() => Ok(call.volume.clone()),
        Err(error) => Err(error.into()),
    }
}

fn context_of(attached: Use) -> ControllerPublishVolumeResponse {
    ControllerPublishVolumeResponse {
        publish_context: [(DEVICE.to_owned(), attached.device)].into(),
    }
}

async fn detach(
    call: Call,
    request: ControllerUnpublishVolumeRequest,
) -> Result<ControllerUnpublishVolumeResponse, FlexError> {
    for known in attached(&call.store().now(), &call.volume, &request.node_id) {
        let VolumeLocation::Node(node) = &known.place else {
            continue;
        };
        match call.out("detach", &[&known.name, node]).await {
            Err(error) if !error.is_not_supported() => return Err(error.into()),
            _ => {
                let detached = |state: &mut State| state.forget(&known.volume, &known.place);
                call.store().change(detached).await?;
            }
        }
    }
    Ok(ControllerUnpublishVolumeResponse {})
}

/// Where a volume is attached: to a node, or without a name to any.
fn attached(state: &State, volume: &str, node: &str) -> Vec<Use> {
    let is_meant = |one: &&Use| match &one.place {
        VolumeLocation::Node(name) => node.is_empty() || name == node,
        _ => false,
    };
    state.of(volume).filter(is_meant).cloned().collect()
}

/// Whether a volume can be used so. The only question about a volume that FlexVolume has, and that changes nothing, is its name.
async fn validate(
    call: Call,
    request: ValidateVolumeCapabilitiesRequest,
) -> Result<ValidateVolumeCapabilitiesResponse, FlexError> {
    if request.volume_capabilities.is_empty() {
        return Err(RequestError::Missing("volume_capabilities").into());
    }
    for one in &request.volume_capabilities {
        match How::of(Some(one), false) {
            // Why the volume cannot be used so is no failure of the question.
            Err(RequestError::Invalid(message)) => {
                return Ok(ValidateVolumeCapabilitiesResponse {
                    message,
                    ..Default::default()
                });
            }
            Err(error) => return Err(error.into()),
            Ok(_) => {}
        }
    }
    let how = How::of(request.volume_capabilities.first(), false)?;
    let options = options(&call.volume, &how, &[&request.volume_context]);
    match name_of(&call, &call.argument(&options)).await {
        Err(FlexError::CallOut(error)) if matches!(error.problem, Problem::Failure { .. }) => {
            return Err(FlexError::NoVolume(error));
        }
        named => named?,
    };
    Ok(ValidateVolumeCapabilitiesResponse {
        confirmed: Some(Confirmed {
            volume_context: request.volume_context,
            volume_capabilities: request.volume_capabilities,
            parameters: request.parameters,
            mutable_parameters: request.mutable_parameters,
        }),
        message: String::new(),
    })
}

async fn expand(
    call: Call,
    request: ControllerExpandVolumeRequest,
) -> Result<ControllerExpandVolumeResponse, FlexError> {
    let range = request
        .capacity_range
        .ok_or(RequestError::Missing("capacity_range"))?;
    let all = attached(&call.store().now(), &call.volume, "");
    let Some(known) = all.into_iter().next() else {
        return Err(Refusal::NoOptions.into());
    };
    let wanted = new_size(&range, known.size)?;
    let (new, old) = (wanted.to_string(), known.size.to_string());
    let argument = call.argument(&known.options);
    let arguments = [argument.as_str(), &known.device, &new, &old];
    let size = match call.out("expandvolume", &arguments).await?.new_size {
        0 => wanted,
        size => size,
    };
    let grown = |state: &mut State| state.put(Use { size, ..known });
    call.store().change(grown).await?;
    Ok(ControllerExpandVolumeResponse {
        capacity_bytes: size,
        node_expansion_required: true,
    })
}
