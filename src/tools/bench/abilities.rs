//! What a cycle asks a driver before it begins: which of the steps that only some have does this one have.

use super::client::{Client, Outcome};
use super::scenario::Abilities;
use crate::call::error::hint_for;
use crate::error::Error;
use csi_proto::v1::controller_service_capability::{
    Type as ControllerKind, rpc::Type as OfController,
};
use csi_proto::v1::node_service_capability::{Type as NodeKind, rpc::Type as OfNode};
use csi_proto::{Request, v1};
use prost::Message as _;
use tonic::Code;

/// Asks both services.
///
/// # Errors
/// When one of them does not answer; a driver without one of them has none of its abilities.
pub async fn ask(node: &Client, controller: &Client) -> Result<Abilities, Error> {
    let of_node = reply(node, v1::NodeGetCapabilitiesRequest {}).await?;
    let of_controller = reply(controller, v1::ControllerGetCapabilitiesRequest {}).await?;
    let has = |wanted: OfNode| {
        of_node.capabilities.iter().any(
            |one| matches!(&one.r#type, Some(NodeKind::Rpc(rpc)) if rpc.r#type == i32::from(wanted)),
        )
    };
    let attaches = of_controller.capabilities.iter().any(|one| {
        let wanted = i32::from(OfController::PublishUnpublishVolume);
        matches!(&one.r#type, Some(ControllerKind::Rpc(rpc)) if rpc.r#type == wanted)
    });
    Ok(Abilities {
        attaches,
        stages: has(OfNode::StageUnstageVolume),
        stats: has(OfNode::GetVolumeStats),
    })
}

async fn reply<Q: Request>(client: &Client, request: Q) -> Result<Q::Reply, Error> {
    let method = Q::METHOD;
    let Outcome {
        code,
        message,
        reply,
    } = client.call(0, method, request.encode_to_vec().into()).await;
    match code {
        Code::Ok | Code::Unimplemented => Q::Reply::decode(reply)
            .map_err(|error| Error::because("the reply is not valid", &error)),
        code => {
            let error = Error::rpc(code, message).doing(format!("bench: {}", method.name));
            Err(match hint_for(method, code, client.timeout()) {
                Some(hint) => error.hint(hint),
                None => error,
            })
        }
    }
}
