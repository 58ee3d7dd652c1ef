//! The meaning of a driver's capabilities together: the work that it can do, and contradictions.
//!
//! Decides only.

use super::finding::Finding;
use csi_call::Advertised;
use csi_rpc::facts::{ControllerCapability as C, NodeCapability as N, PluginCapability as P};

const CHECK: &str = "capabilities";

/// What can be done, and after it what contradicts itself or has no effect.
pub fn findings(advertised: &Advertised) -> Vec<Finding> {
    let summary = Finding::fine(CHECK, abilities(advertised).join("; "));
    let contradictions = contradictions(advertised);
    [summary].into_iter().chain(contradictions).collect()
}

/// What the driver can do, in words.
fn abilities(of: &Advertised) -> Vec<String> {
    let mut words = Vec::new();
    let mut say = |is: bool, text: &str| {
        if is {
            words.push(text.to_owned());
        }
    };
    say(!of.plugin(P::ControllerService), "no controller here");
    say(
        of.plugin(P::ControllerService) && !of.serves_controller,
        "advertises a controller and does not serve it here: another process of the driver may",
    );
    say(
        of.controller(C::CreateDeleteVolume),
        "makes and deletes volumes",
    );
    say(
        of.plugin(P::ControllerService)
            && of.serves_controller
            && !of.controller(C::CreateDeleteVolume),
        "makes no volumes: they exist already",
    );
    say(of.controller(C::CloneVolume), "clones volumes");
    say(
        of.controller(C::CreateDeleteSnapshot),
        "makes and deletes snapshots",
    );
    say(
        of.controller(C::PublishUnpublishVolume),
        "attaches volumes to nodes",
    );
    say(of.controller(C::ModifyVolume), "modifies volumes");
    say(of.controller(C::ListVolumes), "lists volumes");
    say(of.controller(C::GetCapacity), "tells its free space");
    let how = match (of.expands_online(), of.expands_offline()) {
        (true, _) => ", while they are published",
        (_, true) => ", while they are not published",
        // Orchestrators expand also then.
        _ => "",
    };
    let at = match (of.controller(C::ExpandVolume), of.node(N::ExpandVolume)) {
        (true, true) => Some("expands volumes at the controller and the node"),
        (true, false) => Some("expands volumes at the controller"),
        (false, true) => Some("expands volumes at the node"),
        (false, false) => None,
    };
    if let Some(at) = at {
        say(true, &format!("{at}{how}"));
    }
    say(!of.serves_node, "no node service here");
    say(of.node(N::StageUnstageVolume), "stages volumes on a node");
    say(of.node(N::GetVolumeStats), "tells usage");
    say(
        of.controller(C::VolumeCondition) || of.node(N::VolumeCondition),
        "tells conditions",
    );
    say(
        of.plugin(P::VolumeAccessibilityConstraints),
        "its volumes are not reachable from every node",
    );
    say(of.plugin(P::GroupControllerService), "has group snapshots");
    say(
        of.plugin(P::SnapshotMetadataService),
        "tells the blocks of snapshots",
    );
    words
}

/// What contradicts itself. It is wrong only where a driver must not do so.
fn contradictions(of: &Advertised) -> Vec<Finding> {
    const RULE: &str = "`csi sanity` recommends that they go together";
    let expands = of.controller(C::ExpandVolume) || of.node(N::ExpandVolume);
    let says_how = of.expands_online() || of.expands_offline();
    let lists = of.controller(C::ListVolumes) || of.controller(C::GetVolume);
    let wrong = Finding::wrong(
        CHECK,
        "VolumeExpansion without EXPAND_VOLUME of the controller or the node: nobody expands",
        "let controller or node advertise EXPAND_VOLUME, or the plugin no VolumeExpansion",
    );
    let is_wrong = says_how && !expands && of.serves_controller && of.serves_node;
    let allowed = [
        (
            of.controller(C::PublishReadonly) && !of.controller(C::PublishUnpublishVolume),
            "PUBLISH_READONLY without PUBLISH_UNPUBLISH_VOLUME: nothing is ever attached",
            RULE,
        ),
        (
            of.controller(C::ListVolumesPublishedNodes) && !lists,
            "LIST_VOLUMES_PUBLISHED_NODES without LIST_VOLUMES or GET_VOLUME: nobody can see the nodes",
            RULE,
        ),
        (
            of.controller(C::VolumeCondition) && !lists,
            "VOLUME_CONDITION of the controller without LIST_VOLUMES or GET_VOLUME: nobody can see it",
            RULE,
        ),
        (
            of.node(N::VolumeCondition) && !of.node(N::GetVolumeStats),
            "VOLUME_CONDITION of the node without GET_VOLUME_STATS: nobody can see it",
            "let the node advertise GET_VOLUME_STATS, whose replies have the condition",
        ),
        (
            of.serves_node
                && of.serves_controller
                && of.controller(C::SingleNodeMultiWriter) != of.node(N::SingleNodeMultiWriter),
            "SINGLE_NODE_MULTI_WRITER of one end alone: orchestrators send SINGLE_NODE_WRITER to the other one, also for \
             ReadWriteOncePod",
            "let controller and node advertise it, or neither",
        ),
    ];
    let allowed = allowed.into_iter().filter(|(is, ..)| *is);
    let allowed = allowed.map(|(_, text, advice)| Finding::unknown(CHECK, text).advised(advice));
    is_wrong
        .then_some(wrong)
        .into_iter()
        .chain(allowed)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::doctor::finding::State;
    use csi_proto::v1::plugin_capability::volume_expansion::Type as Expansion;

    fn of(plugin: &[P], expansion: bool, controller: &[C], node: &[N]) -> Advertised {
        let expansion = expansion.then_some(Expansion::Online.into());
        let plugin = plugin.iter().map(|one| (*one).into());
        Advertised {
            plugin: plugin.chain(expansion).collect(),
            controller: controller.iter().map(|one| (*one).into()).collect(),
            node: node.iter().map(|one| (*one).into()).collect(),
            serves_controller: true,
            serves_node: true,
            ..Advertised::default()
        }
    }

    #[test]
    fn capabilities_are_told_as_abilities() {
        let found = findings(&of(
            &[P::ControllerService],
            true,
            &[C::CreateDeleteVolume, C::ExpandVolume, C::CloneVolume],
            &[N::StageUnstageVolume],
        ));
        assert_eq!(
            found,
            [Finding::fine(
                CHECK,
                "makes and deletes volumes; clones volumes; expands volumes at the controller, while they are published; stages \
                 volumes on a node"
            )]
        );
        let found = findings(&of(&[], false, &[], &[]));
        assert_eq!(found[0].text, "no controller here");
        // Drivers of two processes advertise the same of both.
        let node = [N::SingleNodeMultiWriter];
        let found = findings(&Advertised {
            serves_controller: false,
            ..of(&[P::ControllerService], true, &[], &node)
        });
        let told =
            "advertises a controller and does not serve it here: another process of the driver may";
        assert_eq!(found, [Finding::fine(CHECK, told)]);
    }

    #[test]
    fn what_contradicts_itself_is_wrong_only_where_a_driver_must_not() {
        let service = [P::ControllerService];
        let (wrong, allowed) = (State::Wrong, State::Unknown);
        for (expansion, controller, node, state, part) in [
            (
                true,
                &[][..],
                &[][..],
                wrong,
                "VolumeExpansion without EXPAND_VOLUME",
            ),
            (
                false,
                &[C::PublishReadonly],
                &[],
                allowed,
                "PUBLISH_READONLY",
            ),
            (
                false,
                &[C::ListVolumesPublishedNodes],
                &[],
                allowed,
                "LIST_VOLUMES_PUBLISHED_NODES",
            ),
            (
                false,
                &[C::VolumeCondition],
                &[],
                allowed,
                "of the controller without LIST_VOLUMES",
            ),
            (
                false,
                &[],
                &[N::VolumeCondition],
                allowed,
                "without GET_VOLUME_STATS",
            ),
            (
                false,
                &[C::SingleNodeMultiWriter],
                &[],
                allowed,
                "of one end alone",
            ),
        ] {
            let found = findings(&of(&service, expansion, controller, node));
            let [_, found] = &found[..] else {
                panic!("{part}: {found:?}");
            };
            assert_eq!(found.state, state, "{found:?}");
            assert!(found.text.contains(part), "{part}: {found:?}");
        }
        for (controller, node) in [
            (&[C::VolumeCondition, C::GetVolume][..], &[][..]),
            (&[C::SingleNodeMultiWriter], &[N::SingleNodeMultiWriter]),
            // external-resizer asks for this alone, and snapshots may be made elsewhere.
            (&[C::ExpandVolume], &[N::ExpandVolume]),
            (&[C::ListSnapshots], &[]),
            (&[C::ListVolumesPublishedNodes, C::GetVolume], &[]),
        ] {
            assert_eq!(findings(&of(&service, false, controller, node)).len(), 1);
        }
    }
}
