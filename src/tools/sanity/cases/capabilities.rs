//! What is advertised: ControllerGetCapabilities, NodeGetCapabilities, and that it is true.

use crate::rpc;
use crate::rpc::facts::Capability;
use crate::tools::sanity::answers::answer_text;
use crate::tools::sanity::case::{Case, Stop, Verdict, case, ensure};
use crate::tools::sanity::context::Context;
use crate::tools::sanity::need::needs::{
    CLONE_VOLUME, CONTROLLER_SERVICE, CREATE_DELETE_VOLUME, GET_VOLUME, GROUP_CONTROLLER_SERVICE,
    LIST_VOLUMES, LIST_VOLUMES_PUBLISHED_NODES, NODE_SERVICE, PUBLISH_READONLY,
    PUBLISH_UNPUBLISH_VOLUME, SNAPSHOT_METADATA_SERVICE, VOLUME_CONDITION,
};
use crate::tools::sanity::verdict::status_text;
use csi_proto::Request;
use csi_proto::v1;
use std::fmt::Debug;
use std::sync::Arc;
use tonic::Code;

pub const CASES: &[Case] = &[
    case!(
        Reads,
        "controller/capabilities/are-constant",
        "ControllerGetCapabilities gives the same capabilities every time, also at the same time",
        "ControllerGetCapabilities",
        [CONTROLLER_SERVICE],
        |c| {
            are_constant(c, v1::ControllerGetCapabilitiesRequest {}, |reply| {
                reply.capabilities
            })?;
        }
    ),
    case!(
        Reads,
        "controller/capabilities/go-together",
        "Capabilities that refine others are advertised only with those",
        "ControllerGetCapabilities",
        [CONTROLLER_SERVICE],
        |c| {
            for (refines, needs) in [
                (
                    LIST_VOLUMES_PUBLISHED_NODES,
                    &[LIST_VOLUMES, GET_VOLUME][..],
                ),
                (PUBLISH_READONLY, &[PUBLISH_UNPUBLISH_VOLUME]),
                (VOLUME_CONDITION, &[LIST_VOLUMES, GET_VOLUME]),
                (CLONE_VOLUME, &[CREATE_DELETE_VOLUME]),
            ] {
                let alone = c.has(refines) && !needs.iter().any(|need| c.has(*need));
                let names: Vec<_> = needs.iter().map(|need| need.name()).collect();
                let expected = format!("{} comes with {}", refines.name(), names.join(" or "));
                c.should(!alone, &expected, "it is advertised alone");
            }
        }
    ),
    case!(
        Reads,
        "node/capabilities/are-constant",
        "NodeGetCapabilities gives the same capabilities every time, also at the same time",
        "NodeGetCapabilities",
        [NODE_SERVICE],
        |c| {
            are_constant(c, v1::NodeGetCapabilitiesRequest {}, |reply| {
                reply.capabilities
            })?;
        }
    ),
    case!(
        Reads,
        "node/capabilities/serves-node",
        "Every plugin serves NodeGetCapabilities, unless its node is another process",
        "NodeGetCapabilities",
        [],
        |c| {
            match c.send(v1::NodeGetCapabilitiesRequest {})? {
                Ok(_) => {}
                Err(status)
                    if status.code() == Code::Unimplemented && c.has(CONTROLLER_SERVICE) =>
                {
                    return Err(Stop::Skipped("this process serves no Node".to_owned()));
                }
                Err(status) => {
                    return Err(Stop::failed(
                        "NodeGetCapabilities answers OK",
                        status_text(&status),
                    ));
                }
            }
        }
    ),
    case!(
        Reads,
        "identity/plugin-capabilities/services-are-there",
        "A service that GetPluginCapabilities advertises answers its own GetCapabilities",
        "GetPluginCapabilities",
        [],
        |c| {
            if c.has(CONTROLLER_SERVICE) {
                c.ok(v1::ControllerGetCapabilitiesRequest {})?;
            }
            if c.has(GROUP_CONTROLLER_SERVICE) {
                c.ok(v1::GroupControllerGetCapabilitiesRequest {})?;
            }
            if c.has(SNAPSHOT_METADATA_SERVICE) {
                // It has no such RPC; a request without its required field shows whether it is there.
                let request = v1::GetMetadataAllocatedRequest::default();
                let answer = c.stream(request)?;
                let refused = answer.as_ref().err();
                let missing = refused.is_some_and(|one| one.code() == Code::Unimplemented);
                let actual = answer_text(&answer);
                ensure(!missing, "GetMetadataAllocated is served", actual)?;
            }
        }
    ),
    case!(
        Changes,
        "controller/capabilities/advertised-rpcs-are-there",
        "No RPC of an advertised capability answers UNIMPLEMENTED",
        "Error Scheme",
        [CONTROLLER_SERVICE],
        |c| {
            each_rpc(c, true)?;
        }
    ),
    case!(
        Changes,
        "controller/capabilities/others-are-unimplemented",
        "RPCs of capabilities that are not advertised should answer UNIMPLEMENTED",
        "Error Scheme",
        [],
        |c| {
            each_rpc(c, false)?;
        }
    ),
];

/// Demands that an RPC gives each of its capabilities once, and the same ones every time, also to calls at the same time.
pub fn are_constant<Q: Request + Clone, T: Debug>(
    c: &Arc<Context>,
    request: Q,
    capabilities: impl Fn(Q::Reply) -> Vec<T>,
) -> Verdict {
    // They are a set: whoever keeps them in a map gives them in another order each time.
    let sorted = |reply| {
        let mut all: Vec<_> = capabilities(reply)
            .iter()
            .map(|one| format!("{one:?}"))
            .collect();
        all.sort();
        all
    };
    let first = sorted(c.ok(request.clone())?);
    for twins in first.windows(2) {
        let once = twins[0] != twins[1];
        c.should(once, "each capability stands once", twins[0].clone());
    }
    for reply in c.all_ok(vec![request; 6])? {
        let now = sorted(reply);
        let actual = now.join(", ");
        ensure(now == first, "the same capabilities again", actual)?;
    }
    Ok(())
}

/// Sends every RPC that has a capability of its own a request without its required fields: those whose capability is
/// advertised, or the others.
fn each_rpc(c: &Context, advertised: bool) -> Verdict {
    let mut tried = 0;
    for rpc in rpc::all() {
        let method = rpc.method;
        let own = rpc.facts.needs.iter().copied();
        let mut own = own
            .filter(|one| !matches!(one, Capability::Plugin(_)))
            .peekable();
        if own.peek().is_none() || (method.service == "Node" && !c.has(NODE_SERVICE)) {
            continue;
        }
        if own.any(|capability| c.driver().advertises(capability)) != advertised {
            continue;
        }
        tried += 1;
        let limit = c.settings().timeout;
        let answer = c.exchange(method, bytes::Bytes::new(), limit)?;
        let code = answer.as_ref().err().map_or(Code::Ok, tonic::Status::code);
        let actual = answer_text(&answer);
        let name = method.name;
        match (advertised, code) {
            (true, Code::Unimplemented) => {
                return Err(Stop::failed(
                    format!("{name} is served, for its capability is advertised"),
                    actual,
                ));
            }
            (true, _) | (false, Code::Unimplemented) => {}
            // No caller asks for it, and the specification only recommends the code.
            (false, _) => {
                c.should(
                    false,
                    &format!("{name} answers UNIMPLEMENTED, for it is not advertised"),
                    actual,
                );
            }
        }
    }
    match tried {
        0 => Err(Stop::Skipped("there is no such RPC".to_owned())),
        _ => Ok(()),
    }
}
