//! The Controller service of a driver that attaches: attach, detach, and what goes with them. It makes no volumes: those of
//! FlexVolume are there before.

use super::answer::Problem;
use super::driver::Call;
use super::error::FlexError;
use super::node::bring_up;
use super::options::{DEVICE, argument, options};
use super::plan::{Refusal, up};
use super::request::{How, RequestError, name, new_size};
use super::state::{State, Use, VolumeLocation};
use csi_proto::v1;
use csi_proto::v1::validate_volume_capabilities_response::Confirmed;

pub async fn attach(
    call: Call,
    request: v1::ControllerPublishVolumeRequest,
) -> Result<v1::ControllerPublishVolumeResponse, FlexError> {
    let node = name(&request.node_id, "node_id")?;
    let how = How::of(request.volume_capability.as_ref(), request.readonly)?;
    let options = options(&call.volume, &how, &[&request.volume_context]);
    let argument = argument(&options, &request.secrets);
    let place = VolumeLocation::Node(node.clone());
    let new = Use::begun(&call.volume, place, how, options);
    let state = call.flex.store.now();
    if let Some(known) = up(&state, &new, false)?
        && is_attached(&call, &argument, &node).await?
    {
        return Ok(context_of(known.clone()));
    }
    let new = Use {
        name: name_of(&call, &argument).await?,
        ..new
    };
    let attached = bring_up(&call, new, |mut new| async {
        // The kubelet's own way without it is that there is nothing to attach.
        let answer = call.out_if_supported("attach", &[&argument, &node]).await?;
        new.device = answer.unwrap_or_default().device;
        Ok(new)
    });
    Ok(context_of(attached.await?))
}

/// Whether the driver still says so of a volume that it has attached.
async fn is_attached(call: &Call, argument: &str, node: &str) -> Result<bool, FlexError> {
    let answer = call
        .out_if_supported("isattached", &[argument, node])
        .await?;
    Ok(answer.is_none_or(|answer| answer.attached))
}

/// The driver's name of a volume, which is its id where the driver has no other.
async fn name_of(call: &Call, argument: &str) -> Result<String, FlexError> {
    match call.out_if_supported("getvolumename", &[argument]).await? {
        Some(answer) if !answer.volume_name.is_empty() => Ok(answer.volume_name),
        _ => Ok(call.volume.clone()),
    }
}

fn context_of(attached: Use) -> v1::ControllerPublishVolumeResponse {
    v1::ControllerPublishVolumeResponse {
        publish_context: [(DEVICE.to_owned(), attached.device)].into(),
    }
}

pub async fn detach(
    call: Call,
    request: v1::ControllerUnpublishVolumeRequest,
) -> Result<v1::ControllerUnpublishVolumeResponse, FlexError> {
    for known in attached(&call.flex.store.now(), &call.volume, &request.node_id) {
        let VolumeLocation::Node(node) = &known.place else {
            continue;
        };
        call.out_if_supported("detach", &[&known.name, node])
            .await?;
        let detached = |state: &mut State| state.forget(&known.volume, &known.place);
        call.flex.store.change(detached).await?;
    }
    Ok(v1::ControllerUnpublishVolumeResponse {})
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
pub async fn validate(
    call: Call,
    request: v1::ValidateVolumeCapabilitiesRequest,
) -> Result<v1::ValidateVolumeCapabilitiesResponse, FlexError> {
    if request.volume_capabilities.is_empty() {
        return Err(RequestError::Missing("volume_capabilities").into());
    }
    for one in &request.volume_capabilities {
        match How::of(Some(one), false) {
            // Why the volume cannot be used so is no failure of the question.
            Err(RequestError::Invalid(message)) => {
                return Ok(v1::ValidateVolumeCapabilitiesResponse {
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
    match name_of(&call, &argument(&options, &request.secrets)).await {
        Err(FlexError::CallOut(error)) if matches!(error.problem, Problem::Failure { .. }) => {
            return Err(FlexError::NoVolume(error));
        }
        named => named?,
    };
    Ok(v1::ValidateVolumeCapabilitiesResponse {
        confirmed: Some(Confirmed {
            volume_context: request.volume_context,
            volume_capabilities: request.volume_capabilities,
            parameters: request.parameters,
            mutable_parameters: request.mutable_parameters,
        }),
        message: String::new(),
    })
}

pub async fn expand(
    call: Call,
    request: v1::ControllerExpandVolumeRequest,
) -> Result<v1::ControllerExpandVolumeResponse, FlexError> {
    let range = request
        .capacity_range
        .ok_or(RequestError::Missing("capacity_range"))?;
    let all = attached(&call.flex.store.now(), &call.volume, "");
    let Some(known) = all.into_iter().next() else {
        return Err(Refusal::NoOptions.into());
    };
    let wanted = new_size(&range, known.size)?;
    let (new, old) = (wanted.to_string(), known.size.to_string());
    let argument = argument(&known.options, &request.secrets);
    let arguments = [argument.as_str(), &known.device, &new, &old];
    let size = match call.out("expandvolume", &arguments).await?.new_size {
        0 => wanted,
        size => size,
    };
    let grown = |state: &mut State| state.put(Use { size, ..known });
    call.flex.store.change(grown).await?;
    Ok(v1::ControllerExpandVolumeResponse {
        capacity_bytes: size,
        node_expansion_required: true,
    })
}
