//! What is advertised: ControllerGetCapabilities, NodeGetCapabilities, and that it is true.

use crate::vocabulary::*;
use csi_proto::Request;
use csi_proto::value::{self, Secrets, Value, enum_text};
use csi_rpc::facts::Capability;
use prost::Message as _;

pub fn cases(list: &mut Cases) {
    list.about("controller/capabilities", "ControllerGetCapabilities");
    list.needs(&[CONTROLLER_SERVICE]);
    list.rule(
        "ControllerGetCapabilities gives the same capabilities every time, also at the same time",
    );
    list.reads("are-constant", |c| {
        are_constant(c, v1::ControllerGetCapabilitiesRequest {})
    });
    list.rule("Capabilities that refine others are advertised only with those");
    list.reads("go-together", |c| {
        // For the lines that show a failure. The answer that is judged came before all cases.
        c.ok(v1::ControllerGetCapabilitiesRequest {})?;
        let alternatives = [LIST_VOLUMES, GET_VOLUME];
        for (refines, needs) in [
            (LIST_VOLUMES_PUBLISHED_NODES, &alternatives[..]),
            (PUBLISH_READONLY, &[PUBLISH_UNPUBLISH_VOLUME]),
            (VOLUME_CONDITION, &alternatives),
            (CLONE_VOLUME, &[CREATE_DELETE_VOLUME]),
        ] {
            let alone = c.has(refines) && !needs.iter().any(|need| c.has(*need));
            let names: Vec<_> = needs.iter().map(|need| need.name()).collect();
            let expected = format!("{} comes with {}", refines.name(), names.join(" or "));
            c.should(!alone, expected, ALONE);
        }
        // Of these the specification says that they must go together.
        for (refines, needs) in [
            (LIST_VOLUMES_PUBLISHED_NODES, PUBLISH_UNPUBLISH_VOLUME),
            (CREATE_DELETE_SNAPSHOT, CREATE_DELETE_VOLUME),
        ] {
            let expected = format!("{} comes with {}", refines.name(), needs.name());
            ensure(!c.has(refines) || c.has(needs), expected, ALONE)?;
        }
        let expands = c.has(EXPAND_VOLUME) || c.has(NODE_EXPAND_VOLUME);
        let expected = "VolumeExpansion OFFLINE comes with EXPAND_VOLUME of Controller";
        let is_offline = c.driver().expands_offline();
        ensure(c.has(EXPAND_VOLUME) || !is_offline, expected, ALONE)?;
        let expected = "VolumeExpansion ONLINE comes with EXPAND_VOLUME of Controller or Node";
        ensure(expands || !c.driver().expands_online(), expected, ALONE)
    });
    list.about("node/capabilities", "NodeGetCapabilities");
    list.rule("NodeGetCapabilities gives the same capabilities every time, also at the same time");
    list.also(&[NODE_SERVICE]).reads("are-constant", |c| {
        are_constant(c, v1::NodeGetCapabilitiesRequest {})
    });
    list.rule("Every plugin serves NodeGetCapabilities, unless its node is another process");
    list.reads("serves-node", |c| {
        let answer = c.send(v1::NodeGetCapabilitiesRequest {})?;
        answer.map_err(|status| match status.code() {
            Unimplemented if c.has(CONTROLLER_SERVICE) => {
                Stop::skipped("this process serves no Node")
            }
            _ => Stop::failed("NodeGetCapabilities answers OK", status_text(&status)),
        })
    });
    list.about("identity/plugin-capabilities", "GetPluginCapabilities");
    list.rule("A service that GetPluginCapabilities advertises answers its own GetCapabilities");
    list.reads("services-are-there", |c| {
        if c.has(CONTROLLER_SERVICE) {
            c.ok(v1::ControllerGetCapabilitiesRequest {})?;
        }
        if c.driver().controller_is_elsewhere() {
            let answer = c.send(v1::ControllerGetCapabilitiesRequest {})?;
            answer.map_err(|status| match status.code() {
                Unimplemented => {
                    Stop::skipped("this process serves no Controller: --controller-endpoint")
                }
                _ => Stop::failed("ControllerGetCapabilities answers OK", status_text(&status)),
            })?;
        }
        if c.has(GROUP_CONTROLLER_SERVICE) {
            c.ok(v1::GroupControllerGetCapabilitiesRequest {})?;
        }
        if c.has(SNAPSHOT_METADATA_SERVICE) {
            // It has no such RPC; a request without its required field shows whether it is there.
            let answer = c.stream(v1::GetMetadataAllocatedRequest::default())?;
            let actual = answer_text(&answer);
            let missing = answer.is_err_and(|status| status.code() == Unimplemented);
            ensure(!missing, "GetMetadataAllocated is served", actual)?;
        }
        Ok(())
    });
    list.about("controller/capabilities", "Error Scheme");
    list.rule("No RPC of an advertised capability answers UNIMPLEMENTED");
    list.also(&[CONTROLLER_SERVICE]);
    list.changes("advertised-rpcs-are-there", |c| each_rpc(c, true));
    list.rule("RPCs of capabilities that are not advertised should answer UNIMPLEMENTED");
    list.changes("others-are-unimplemented", |c| each_rpc(c, false));
}

/// The failure of a capability that refines another one.
const ALONE: &str = "it is advertised alone";

/// Demands that an RPC gives each of its capabilities once, and the same ones every time, also to calls at the same time.
pub fn are_constant<Q: Request + Clone>(c: &Arc<Context>, request: Q) -> Verdict {
    // They are a set: whoever keeps them in a map gives them in another order each time.
    let sorted = |reply: Q::Reply| {
        let bytes = reply.encode_to_vec();
        let reply = value::decode(Q::METHOD.response, &bytes, Secrets::Mask);
        let mut all = Vec::new();
        names(reply.as_ref().unwrap_or(&Value::Absent), &mut all);
        all.sort();
        all
    };
    let first = sorted(c.ok(request.clone())?);
    for twins in first.windows(2) {
        let once = twins[0] != twins[1];
        c.should(once, "each capability stands once", twins[0].clone());
    }
    each(c.all_ok(vec![request; 6])?, |reply| {
        let now = sorted(reply);
        let actual = list_text(&now);
        ensure(now == first, "the same capabilities again", actual)
    })
}

/// The names of enums in a value: capabilities are messages around one.
fn names(value: &Value<'_>, found: &mut Vec<String>) {
    match value {
        Value::Message(fields) => fields.iter().for_each(|(_, one)| names(one, found)),
        Value::List(list) => list.iter().for_each(|one| names(one, found)),
        Value::Enum(number, name) => found.push(enum_text(*number, *name).into_owned()),
        _ => {}
    }
}

/// Sends every RPC that has a capability of its own a request without its required fields: those whose capability is
/// advertised, or the others.
fn each_rpc(c: &Context, advertised: bool) -> Verdict {
    let mut tried = 0;
    for rpc in csi_rpc::all() {
        let method = rpc.method;
        let mut own = rpc.facts.needs.to_vec();
        own.retain(|one| !matches!(one, Capability::Plugin(_)));
        // What a service must have is advertised with it.
        let is_optional = !own.is_empty();
        let needs = if is_optional {
            &own[..]
        } else {
            rpc.facts.needs
        };
        let is_advertised = needs.iter().any(|one| c.driver().advertises(*one));
        let served = method.service != "Node" || c.has(NODE_SERVICE);
        if !(is_optional || advertised) || !served || is_advertised != advertised {
            continue;
        }
        tried += 1;
        let answer = c.exchange(method, bytes::Bytes::new())?;
        let actual = answer_text(&answer);
        let unimplemented = answer.is_err_and(|status| status.code() == Unimplemented);
        let name = method.name;
        if advertised {
            let expected = format!("{name} is served, for its capability is advertised");
            ensure(!unimplemented, expected, actual)?;
        } else {
            // No caller asks for it, and the specification only recommends the code.
            let expected = format!("{name} answers UNIMPLEMENTED, for it is not advertised");
            c.should(unimplemented, expected, actual);
        }
    }
    skip_unless(tried > 0, "there is no such RPC")
}
