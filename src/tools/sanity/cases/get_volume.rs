//! ControllerGetVolume and GetCapacity.

use crate::tools::sanity::vocabulary::*;

/// The cases.
pub fn cases(list: &mut Cases) {
    list.about("controller/get-volume", "ControllerGetVolume");
    list.needs(&[GET_VOLUME]);
    list.error_rule("ControllerGetVolume of a volume that does not exist answers NOT_FOUND");
    list.reads("of-an-unknown-id", |c| {
        c.refused(get(&c.name()), &[NotFound])
    });
    list.error_rule("ControllerGetVolume of a volume that was deleted answers NOT_FOUND");
    list.also(&[CREATE_DELETE_VOLUME])
        .changes("of-a-deleted-volume", |c| {
            let gone = c.deleted_volume()?;
            c.refused(get(&gone.id()), &[NotFound])
        });
    list.rule("ControllerGetVolume answers with the volume that CreateVolume answered with");
    list.also(&[CREATE_DELETE_VOLUME])
        .changes("answers-what-was-created", |c| {
            let volume = c.volume()?.volume;
            // That it is this id, and that there is a status, are rules of the message.
            let found = c.ok(get(&volume.volume_id))?.volume.unwrap_or_default();
            let same =
                found.volume_context.is_empty() || found.volume_context == volume.volume_context;
            let expected = format!("the volume context {:?}", volume.volume_context);
            ensure(same, &expected, format!("{:?}", found.volume_context))?;
            let same = found.capacity_bytes == 0 || found.capacity_bytes == volume.capacity_bytes;
            let expected = format!("the size {}", volume.capacity_bytes);
            ensure(same, &expected, found.capacity_bytes.to_string())
        });
    list.rule(
        "ControllerGetVolume of a plugin that advertises VOLUME_CONDITION shows the condition",
    );
    list.also(&[VOLUME_CONDITION, CREATE_DELETE_VOLUME])
        .changes("shows-the-condition", |c| {
            let volume = c.volume()?;
            let status = c.ok(get(&volume.id()))?.status.unwrap_or_default();
            let actual = format!("{status:?}");
            ensure(
                status.volume_condition.is_some(),
                "the status has a volume_condition",
                actual,
            )
        });
    list.rule(
        "ControllerGetVolume shows the nodes that the controller has published the volume to",
    );
    list.also(&[
        LIST_VOLUMES_PUBLISHED_NODES,
        PUBLISH_UNPUBLISH_VOLUME,
        CREATE_DELETE_VOLUME,
        NODE_SERVICE,
    ])
    .changes("shows-published-nodes", |c| {
        let volume = c.volume()?;
        c.ok(c.attach_request(&volume))?;
        let node = c.driver().node_info.node_id.clone();
        let nodes = c
            .ok(get(&volume.id()))?
            .status
            .unwrap_or_default()
            .published_node_ids;
        ensure(
            nodes.contains(&node),
            &format!("the node {node}"),
            format!("{nodes:?}"),
        )
    });
    list.rule("ControllerGetVolume answers calls at the same time with the same volume, or some of them with ABORTED");
    list.under("Concurrency")
        .also(&[CREATE_DELETE_VOLUME])
        .changes("at-the-same-time", |c| {
            let volume = c.volume()?;
            // That each is of this volume is a rule of the message.
            c.equal_calls(&get(&volume.id()), 8)?;
            c.ok_in_the_end(get(&volume.id()))
        });
    list.about("controller/get-capacity", "GetCapacity");
    list.needs(&[GET_CAPACITY]);
    list.rule(
        "GetCapacity answers with a capacity that is not negative, and bounds that allow some size",
    );
    list.reads("answers", |c| {
        // That no size is negative is a rule of the message.
        let reply = c.ok(v1::GetCapacityRequest {
            // They may say which storage is meant, and then a driver with several cannot do without.
            parameters: c.settings().parameters.clone(),
            ..Default::default()
        })?;
        if let (Some(least), Some(most)) = (reply.minimum_volume_size, reply.maximum_volume_size) {
            let actual = format!("{least} to {most}");
            ensure(
                least <= most,
                "minimum_volume_size is not above maximum_volume_size",
                actual,
            )?;
        }
        Ok(())
    });
    list.rule("GetCapacity answers for the capabilities, parameters and topology of the volumes to be created");
    list.reads("of-capabilities-and-parameters", |c| {
        let place = c.driver().node_info.accessible_topology.clone();
        let request = v1::GetCapacityRequest {
            volume_capabilities: vec![c.capability()?],
            parameters: c.settings().parameters.clone(),
            accessible_topology: place.filter(|_| c.has(TOPOLOGY)),
        };
        c.ok(request.clone())?;
        c.all_ok(vec![request; 6])
    });
}

/// ControllerGetVolume.
pub fn get(id: &str) -> v1::ControllerGetVolumeRequest {
    v1::ControllerGetVolumeRequest {
        volume_id: id.to_owned(),
    }
}
