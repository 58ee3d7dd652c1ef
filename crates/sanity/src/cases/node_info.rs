//! NodeGetInfo.

use crate::vocabulary::*;
use csi_proto::Request as _;

pub fn cases(list: &mut Cases) {
    list.about("node/info", "NodeGetInfo");
    list.needs(&[NODE_SERVICE]);
    list.rule("NodeGetInfo answers with the node_id that is expected, of better at most 128 bytes");
    list.reads("has-an-id", |c| {
        // That there is one, of at most 256 bytes, are rules of the reply.
        let info = info(c)?;
        let size = info.node_id.len();
        let is_short = size <= 128 || size > 256;
        c.should(is_short, "at most 128 bytes", format!("{size} bytes"));
        match &c.settings().node_id {
            Some(id) => ensure(info.node_id == *id, id, info.node_id),
            None => Ok(()),
        }
    });
    list.rule("NodeGetInfo gives the same answer every time, also at the same time");
    list.reads("is-constant", |c| {
        let first = info(c)?;
        let place = |info: v1::NodeGetInfoResponse| (info.node_id, info.accessible_topology);
        let first = place(first);
        each(c.together(vec![v1::NodeGetInfoRequest {}; 8])?, |answer| {
            let actual = match &answer {
                Ok(info) => format!("another answer, with the node_id {}", info.node_id),
                Err(status) => status_text(status),
            };
            let same = answer.is_ok_and(|info| place(info) == first);
            ensure(same, "the same node_id and topology again", actual)
        })
    });
    list.rule("Only a plugin that advertises VOLUME_ACCESSIBILITY_CONSTRAINTS answers with an accessible_topology");
    list.reads("topology-is-advertised", |c| {
        let place = info(c)?.accessible_topology;
        if place.is_some() {
            let about = "identity/plugin-capabilities/are-known-and-constant";
            c.has_told(v1::GetPluginCapabilitiesRequest::METHOD, about)?;
        }
        let kept = place.is_none() || c.has(TOPOLOGY);
        ensure(kept, "no accessible_topology", "it has one")
    });
}

/// The node's id, topology and limits. Only a plugin whose controller publishes volumes to nodes must serve them.
///
/// # Errors
/// When it is not served, or must be and is refused.
pub fn info(c: &Context) -> Result<v1::NodeGetInfoResponse, Stop> {
    let answer = c.send(v1::NodeGetInfoRequest {})?;
    let reason = "NodeGetInfo is not served, nor needed without PUBLISH_UNPUBLISH_VOLUME";
    answer.map_err(|status| match status.code() {
        Unimplemented if !c.has(PUBLISH_UNPUBLISH_VOLUME) => Stop::skipped(reason),
        _ => Stop::failed("NodeGetInfo answers OK", status_text(&status)),
    })
}
