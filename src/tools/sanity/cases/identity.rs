//! The Identity service: the driver's name and version, its capabilities, whether it is ready.

use super::capabilities::are_constant;
use crate::tools::sanity::case::{Case, case, ensure};
use crate::tools::sanity::need::needs::CONTROLLER_SERVICE;
use csi_proto::v1;

pub const CASES: &[Case] = &[
    case!(
        Reads,
        "identity/plugin-info/names-the-driver",
        "GetPluginInfo answers with a name in domain name notation and a version",
        "GetPluginInfo",
        [],
        |c| {
            // The rules of the message say it all.
            c.ok(v1::GetPluginInfoRequest {})?;
        }
    ),
    case!(
        Reads,
        "identity/plugin-info/is-constant",
        "GetPluginInfo gives the same answer every time, also to calls at the same time",
        "GetPluginInfo",
        [],
        |c| {
            let first = c.ok(v1::GetPluginInfoRequest {})?;
            for answer in c.together(vec![v1::GetPluginInfoRequest {}; 8])? {
                let actual = answer
                    .as_ref()
                    .map_or_else(crate::tools::sanity::verdict::status_text, |info| {
                        format!("{info:?}")
                    });
                ensure(
                    answer.is_ok_and(|info| info == first),
                    "the same name and version again",
                    actual,
                )?;
            }
        }
    ),
    case!(
        Reads,
        "identity/plugin-info/is-the-same-at-the-controller",
        "The endpoints of one driver give the same name",
        "GetPluginInfo",
        [CONTROLLER_SERVICE],
        |c| {
            let at_node = c.ok(v1::GetPluginInfoRequest {})?.name;
            let at_controller = c.at_controller(v1::GetPluginInfoRequest {})?.name;
            ensure(at_node == at_controller, &at_node, at_controller)?;
        }
    ),
    case!(
        Reads,
        "identity/plugin-capabilities/are-known-and-constant",
        "GetPluginCapabilities answers with types of the specification, each once, and the same ones every time",
        "GetPluginCapabilities",
        [],
        |c| {
            are_constant(c, v1::GetPluginCapabilitiesRequest {}, |reply| {
                reply.capabilities
            })?;
        }
    ),
    case!(
        Reads,
        "identity/probe/answers-ready",
        "Probe of a driver that serves its calls answers OK, with ready true or left out",
        "Probe",
        [],
        |c| {
            let reply = c.ok(v1::ProbeRequest {})?;
            ensure(
                reply.ready != Some(false),
                "ready is true or left out, for the driver serves calls",
                "ready is false",
            )?;
        }
    ),
    case!(
        Reads,
        "identity/probe/can-be-called-at-any-time",
        "Probe can be called often and at the same time",
        "Probe",
        [],
        |c| {
            c.all_ok(vec![v1::ProbeRequest {}; 16])?;
        }
    ),
];
