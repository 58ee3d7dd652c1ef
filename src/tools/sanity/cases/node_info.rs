//! NodeGetInfo.

use crate::tools::sanity::answers::answer_text;
use crate::tools::sanity::case::{Case, Stop, case, ensure};
use crate::tools::sanity::context::Context;
use crate::tools::sanity::need::needs::{NODE_SERVICE, PUBLISH_UNPUBLISH_VOLUME, TOPOLOGY};
use csi_proto::v1;
use tonic::Code;

/// The specification's own limit for a node's id; the general one is 128.
const NODE_ID_MAX: usize = 256;

pub const CASES: &[Case] = &[
    case!(
        Reads,
        "node/info/has-an-id",
        "NodeGetInfo answers with a node_id of at most 256 bytes, better 128",
        "NodeGetInfo",
        [NODE_SERVICE],
        |c| {
            let info = info(c)?;
            let size = info.node_id.len();
            ensure(!info.node_id.is_empty(), "a node_id", "it is empty")?;
            ensure(
                size <= NODE_ID_MAX,
                "at most 256 bytes",
                format!("{size} bytes"),
            )?;
            c.should(size <= 128, "at most 128 bytes", format!("{size} bytes"));
            if let Some(expected) = &c.settings().node_id {
                ensure(info.node_id == *expected, expected, info.node_id.clone())?;
            }
        }
    ),
    case!(
        Reads,
        "node/info/is-constant",
        "NodeGetInfo gives the same answer every time, also at the same time",
        "NodeGetInfo",
        [NODE_SERVICE],
        |c| {
            let first = info(c)?;
            for answer in c.together(vec![v1::NodeGetInfoRequest {}; 8])? {
                let actual = format!("{answer:?}");
                let same = answer.is_ok_and(|info| {
                    info.node_id == first.node_id
                        && info.accessible_topology == first.accessible_topology
                });
                ensure(same, "the same node_id and topology again", actual)?;
            }
        }
    ),
    case!(
        Reads,
        "node/info/topology-is-advertised",
        "Only a plugin that advertises VOLUME_ACCESSIBILITY_CONSTRAINTS answers with an accessible_topology",
        "NodeGetInfo",
        [NODE_SERVICE],
        |c| {
            let info = info(c)?;
            let actual = format!("{:?}", info.accessible_topology);
            ensure(
                info.accessible_topology.is_none() || c.has(TOPOLOGY),
                "no accessible_topology",
                actual,
            )?;
        }
    ),
    case!(
        Reads,
        "node/info/limits-are-not-negative",
        "max_volumes_per_node is not negative",
        "NodeGetInfo",
        [NODE_SERVICE],
        |c| {
            let most = info(c)?.max_volumes_per_node;
            ensure(
                most >= 0,
                "max_volumes_per_node is not negative",
                most.to_string(),
            )?;
        }
    ),
];

/// The node's id, topology and limits. Only a plugin whose controller publishes volumes to nodes must serve them.
///
/// # Errors
/// When it is not served, or must be and is refused.
pub fn info(c: &Context) -> Result<v1::NodeGetInfoResponse, Stop> {
    let answer = c.send(v1::NodeGetInfoRequest {})?;
    let actual = answer_text(&answer);
    answer.map_err(|status| {
        match status.code() == Code::Unimplemented && !c.has(PUBLISH_UNPUBLISH_VOLUME) {
            true => Stop::Skipped(
                "NodeGetInfo is not served, nor needed without PUBLISH_UNPUBLISH_VOLUME".to_owned(),
            ),
            false => Stop::failed("NodeGetInfo answers OK", actual),
        }
    })
}
