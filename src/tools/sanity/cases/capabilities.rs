//! What is advertised: ControllerGetCapabilities, NodeGetCapabilities, and that it is true.

use crate::rpc;
use crate::rpc::facts::Capability;
use crate::tools::sanity::vocabulary::*;
use csi_proto::Request;
use std::fmt::Debug;
use std::sync::Arc;

/// The cases.
pub fn cases(list: &mut Cases) {
    list.about("controller/capabilities", "ControllerGetCapabilities");
    list.needs(&[CONTROLLER_SERVICE]);
    list.rule(
        "ControllerGetCapabilities gives the same capabilities every time, also at the same time",
    );
    list.reads("are-constant", |c| {
        are_constant(c, v1::ControllerGetCapabilitiesRequest {}, |reply| {
            reply.capabilities
        })
    });
    list.rule("Capabilities that refine others are advertised only with those");
    list.reads("go-together", |c| {
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
        Ok(())
    });
    list.about("node/capabilities", "NodeGetCapabilities");
    list.needs(&[]);
    list.rule("NodeGetCapabilities gives the same capabilities every time, also at the same time");
    list.also(&[NODE_SERVICE]).reads("are-constant", |c| {
        are_constant(c, v1::NodeGetCapabilitiesRequest {}, |reply| {
            reply.capabilities
        })
    });
    list.rule("Every plugin serves NodeGetCapabilities, unless its node is another process");
    list.reads("serves-node", |c| {
        match c.send(v1::NodeGetCapabilitiesRequest {})? {
            Ok(_) => {}
            Err(status) if status.code() == Unimplemented && c.has(CONTROLLER_SERVICE) => {
                return Err(Stop::Skipped("this process serves no Node".to_owned()));
            }
            Err(status) => {
                return Err(Stop::failed(
                    "NodeGetCapabilities answers OK",
                    status_text(&status),
                ));
            }
        }
        Ok(())
    });
    list.about("identity/plugin-capabilities", "GetPluginCapabilities");
    list.needs(&[]);
    list.rule("A service that GetPluginCapabilities advertises answers its own GetCapabilities");
    list.reads("services-are-there", |c| {
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
            let missing = refused.is_some_and(|one| one.code() == Unimplemented);
            let actual = answer_text(&answer);
            ensure(!missing, "GetMetadataAllocated is served", actual)?;
        }
        Ok(())
    });
    list.about("controller/capabilities", "Error Scheme");
    list.needs(&[]);
    list.rule("No RPC of an advertised capability answers UNIMPLEMENTED");
    list.also(&[CONTROLLER_SERVICE])
        .changes("advertised-rpcs-are-there", |c| each_rpc(c, true));
    list.rule("RPCs of capabilities that are not advertised should answer UNIMPLEMENTED");
    list.changes("others-are-unimplemented", |c| each_rpc(c, false));
}

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
            (true, Unimplemented) => {
                return Err(Stop::failed(
                    format!("{name} is served, for its capability is advertised"),
                    actual,
                ));
            }
            (true, _) | (false, Unimplemented) => {}
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
