//! The RPCs of the driver: for each what the executable has to be able to do, and what carries it out; and the answers that are known
//! without it.

use super::controller::{attach, detach, expand, validate};
use super::driver::{Asked, Flex, QUESTION, VOLUME};
use super::error::FlexError;
use super::node;
use csi_mock::{Answers, Running, answer_of, message_of};
use csi_proto::v1::controller_service_capability::rpc::Type as ControllerCapability;
use csi_proto::v1::node_service_capability::rpc::Type as NodeCapability;
use csi_proto::v1::plugin_capability::{service, volume_expansion};
use csi_proto::{grpc_timeout, methods, v1};
use http::{Request, Response};
use std::sync::Arc;
use tokio::time::Instant;
use tonic::Status;
use tonic::body::Body;

/// The driver as a server has it: clones are the same one.
#[derive(Clone)]
pub struct Services(pub Arc<Flex>);

impl Answers for Services {
    async fn answer(&self, request: Request<Body>, _running: Running) -> Response<Body> {
        let method = methods::by_path(request.uri().path());
        let time = request.headers().get(grpc_timeout::HEADER);
        let time = time.and_then(|time| grpc_timeout::parse(time.as_bytes()));
        let deadline = time.and_then(|time| Instant::now().checked_add(time));
        let asked = message_of(request).await.map(|message| Asked {
            flex: Arc::clone(&self.0),
            message,
            deadline,
        });
        let answer = match (asked, method) {
            (Ok(asked), Some(method)) => answer(asked, method.name).await,
            (Ok(_), None) => Err(Status::unimplemented("CSI has no such method")),
            (Err(status), _) => Err(status),
        };
        match answer {
            Ok(message) => answer_of(vec![message], Status::ok("")),
            Err(status) => status.into_http(),
        }
    }
}

async fn answer(asked: Asked, rpc: &str) -> Result<Vec<u8>, Status> {
    let flex = Arc::clone(&asked.flex);
    let can = flex.abilities;
    match rpc {
        "GetPluginInfo" => asked.known::<v1::GetPluginInfoRequest>(plugin_info(&flex)),
        "GetPluginCapabilities" => {
            asked.known::<v1::GetPluginCapabilitiesRequest>(plugin_capabilities(&flex))
        }
        "Probe" => asked.known::<v1::ProbeRequest>(probe(&flex)?),
        "ControllerGetCapabilities" if can.attaches => {
            asked.known::<v1::ControllerGetCapabilitiesRequest>(controller_capabilities(&flex))
        }
        "ControllerPublishVolume" if can.attaches => asked.carried_out(VOLUME, attach).await,
        "ControllerUnpublishVolume" if can.attaches => asked.carried_out(VOLUME, detach).await,
        "ValidateVolumeCapabilities" if can.attaches => asked.carried_out(VOLUME, validate).await,
        "ControllerExpandVolume" if can.attaches && can.expands => {
            asked.carried_out(VOLUME, expand).await
        }
        "NodeGetInfo" => asked.known::<v1::NodeGetInfoRequest>(node_info(&flex)),
        "NodeGetCapabilities" => {
            asked.known::<v1::NodeGetCapabilitiesRequest>(node_capabilities(&flex))
        }
        "NodeStageVolume" if can.attaches => asked.carried_out(VOLUME, node::stage).await,
        "NodeUnstageVolume" if can.attaches => asked.carried_out(VOLUME, node::unstage).await,
        "NodePublishVolume" => asked.carried_out(VOLUME, node::publish).await,
        "NodeUnpublishVolume" => asked.carried_out(VOLUME, node::unpublish).await,
        "NodeGetVolumeStats" if can.has_stats => asked.carried_out(QUESTION, node::stats).await,
        "NodeExpandVolume" if can.expands => asked.carried_out(VOLUME, node::expand).await,
        _ => Err(FlexError::NotAdvertised.status(&[])),
    }
}

fn plugin_info(flex: &Flex) -> v1::GetPluginInfoResponse {
    v1::GetPluginInfoResponse {
        name: flex.identity.name.clone(),
        vendor_version: env!("CARGO_PKG_VERSION").to_owned(),
        ..Default::default()
    }
}

fn plugin_capabilities(flex: &Flex) -> v1::GetPluginCapabilitiesResponse {
    let able = flex.abilities;
    let capabilities = able_to([
        (able.attaches, service::Type::ControllerService.into()),
        (able.expands, volume_expansion::Type::Online.into()),
    ]);
    v1::GetPluginCapabilitiesResponse { capabilities }
}

fn probe(flex: &Flex) -> Result<v1::ProbeResponse, Status> {
    let can_run = flex.call_outs.can_run().map_err(FlexError::Gone);
    can_run.map_err(|error| error.status(&[]))?;
    Ok(v1::ProbeResponse { ready: Some(true) })
}

fn controller_capabilities(flex: &Flex) -> v1::ControllerGetCapabilitiesResponse {
    use ControllerCapability as C;
    let capabilities = able_to([
        (true, C::PublishUnpublishVolume.into()),
        (true, C::PublishReadonly.into()),
        (true, C::SingleNodeMultiWriter.into()),
        (flex.abilities.expands, C::ExpandVolume.into()),
    ]);
    v1::ControllerGetCapabilitiesResponse { capabilities }
}

fn node_info(flex: &Flex) -> v1::NodeGetInfoResponse {
    v1::NodeGetInfoResponse {
        node_id: flex.identity.node_id.clone(),
        ..Default::default()
    }
}

fn node_capabilities(flex: &Flex) -> v1::NodeGetCapabilitiesResponse {
    use NodeCapability as N;
    let able = flex.abilities;
    let capabilities = able_to([
        (able.attaches, N::StageUnstageVolume.into()),
        (able.has_stats, N::GetVolumeStats.into()),
        (able.expands, N::ExpandVolume.into()),
        (able.takes_group, N::VolumeMountGroup.into()),
        (true, N::SingleNodeMultiWriter.into()),
    ]);
    v1::NodeGetCapabilitiesResponse { capabilities }
}

/// Those of which it is true.
fn able_to<C>(all: impl IntoIterator<Item = (bool, C)>) -> Vec<C> {
    let able = all.into_iter().filter(|(able, _)| *able);
    able.map(|(_, one)| one).collect()
}
