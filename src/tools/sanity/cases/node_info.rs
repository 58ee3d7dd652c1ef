//! NodeGetInfo.

use crate::tools::sanity::vocabulary::*;

/// The specification's own limit for a node's id; the general one is 128.
const NODE_ID_MAX: usize = 256;

/// The cases.
pub fn cases(list: &mut Cases) {
    list.about("node/info", "NodeGetInfo");
    list.needs(&[NODE_SERVICE]);
    list.rule("NodeGetInfo answers with a node_id of at most 256 bytes, better 128");
    list.reads("has-an-id", |c| {
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
        Ok(())
    });
    list.rule("NodeGetInfo gives the same answer every time, also at the same time");
    list.reads("is-constant", |c| {
        let first = info(c)?;
        for answer in c.together(vec![v1::NodeGetInfoRequest {}; 8])? {
            let actual = format!("{answer:?}");
            let same = answer.is_ok_and(|info| {
                info.node_id == first.node_id
                    && info.accessible_topology == first.accessible_topology
            });
            ensure(same, "the same node_id and topology again", actual)?;
        }
        Ok(())
    });
    list.rule("Only a plugin that advertises VOLUME_ACCESSIBILITY_CONSTRAINTS answers with an accessible_topology");
    list.reads("topology-is-advertised", |c| {
        let info = info(c)?;
        let actual = format!("{:?}", info.accessible_topology);
        ensure(
            info.accessible_topology.is_none() || c.has(TOPOLOGY),
            "no accessible_topology",
            actual,
        )
    });
    list.rule("max_volumes_per_node is not negative");
    list.reads("limits-are-not-negative", |c| {
        let most = info(c)?.max_volumes_per_node;
        ensure(
            most >= 0,
            "max_volumes_per_node is not negative",
            most.to_string(),
        )
    });
}

/// The node's id, topology and limits. Only a plugin whose controller publishes volumes to nodes must serve them.
///
/// # Errors
/// When it is not served, or must be and is refused.
pub fn info(c: &Context) -> Result<v1::NodeGetInfoResponse, Stop> {
    let answer = c.send(v1::NodeGetInfoRequest {})?;
    let actual = answer_text(&answer);
    answer.map_err(|status| {
        match status.code() == Unimplemented && !c.has(PUBLISH_UNPUBLISH_VOLUME) {
            true => Stop::Skipped(
                "NodeGetInfo is not served, nor needed without PUBLISH_UNPUBLISH_VOLUME".to_owned(),
            ),
            false => Stop::failed("NodeGetInfo answers OK", actual),
        }
    })
}
