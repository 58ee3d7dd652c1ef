//! ControllerGetVolume and GetCapacity.

use crate::tools::sanity::case::{Case, case, ensure};
use crate::tools::sanity::need::needs::{
    CREATE_DELETE_VOLUME, GET_CAPACITY, GET_VOLUME, LIST_VOLUMES_PUBLISHED_NODES, NODE_SERVICE,
    PUBLISH_UNPUBLISH_VOLUME, TOPOLOGY, VOLUME_CONDITION,
};
use csi_proto::v1;
use tonic::Code;

pub const CASES: &[Case] = &[
    case!(
        Reads,
        "controller/get-volume/of-an-unknown-id",
        "ControllerGetVolume of a volume that does not exist answers NOT_FOUND",
        "ControllerGetVolume Errors",
        [GET_VOLUME],
        |c| {
            c.refused(get(&c.name()), &[Code::NotFound])?;
        }
    ),
    case!(
        Changes,
        "controller/get-volume/of-a-deleted-volume",
        "ControllerGetVolume of a volume that was deleted answers NOT_FOUND",
        "ControllerGetVolume Errors",
        [GET_VOLUME, CREATE_DELETE_VOLUME],
        |c| {
            let gone = c.deleted_volume()?;
            c.refused(get(&gone.id()), &[Code::NotFound])?;
        }
    ),
    case!(
        Changes,
        "controller/get-volume/answers-what-was-created",
        "ControllerGetVolume answers with the volume that CreateVolume answered with",
        "ControllerGetVolume",
        [GET_VOLUME, CREATE_DELETE_VOLUME],
        |c| {
            let volume = c.volume()?.volume;
            // That it is this id, and that there is a status, are rules of the message.
            let found = c.ok(get(&volume.volume_id))?.volume.unwrap_or_default();
            let same =
                found.volume_context.is_empty() || found.volume_context == volume.volume_context;
            let expected = format!("the volume context {:?}", volume.volume_context);
            ensure(same, &expected, format!("{:?}", found.volume_context))?;
            let same = found.capacity_bytes == 0 || found.capacity_bytes == volume.capacity_bytes;
            let expected = format!("the size {}", volume.capacity_bytes);
            ensure(same, &expected, found.capacity_bytes.to_string())?;
        }
    ),
    case!(
        Changes,
        "controller/get-volume/shows-the-condition",
        "ControllerGetVolume of a plugin that advertises VOLUME_CONDITION shows the condition",
        "ControllerGetVolume",
        [GET_VOLUME, VOLUME_CONDITION, CREATE_DELETE_VOLUME],
        |c| {
            let volume = c.volume()?;
            let status = c.ok(get(&volume.id()))?.status.unwrap_or_default();
            let actual = format!("{status:?}");
            ensure(
                status.volume_condition.is_some(),
                "the status has a volume_condition",
                actual,
            )?;
        }
    ),
    case!(
        Changes,
        "controller/get-volume/shows-published-nodes",
        "ControllerGetVolume shows the nodes that the controller has published the volume to",
        "ControllerGetVolume",
        [
            GET_VOLUME,
            LIST_VOLUMES_PUBLISHED_NODES,
            PUBLISH_UNPUBLISH_VOLUME,
            CREATE_DELETE_VOLUME,
            NODE_SERVICE
        ],
        |c| {
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
            )?;
        }
    ),
    case!(
        Changes,
        "controller/get-volume/at-the-same-time",
        "ControllerGetVolume answers calls at the same time with the same volume, or some of them with ABORTED",
        "Concurrency",
        [GET_VOLUME, CREATE_DELETE_VOLUME],
        |c| {
            let volume = c.volume()?;
            // That each is of this volume is a rule of the message.
            c.equal_calls(&get(&volume.id()), 8)?;
            c.ok_in_the_end(get(&volume.id()))?;
        }
    ),
    case!(
        Reads,
        "controller/get-capacity/answers",
        "GetCapacity answers with a capacity that is not negative, and bounds that allow some size",
        "GetCapacity",
        [GET_CAPACITY],
        |c| {
            // That no size is negative is a rule of the message.
            let reply = c.ok(v1::GetCapacityRequest {
                // They may say which storage is meant, and then a driver with several cannot do without.
                parameters: c.settings().parameters.clone(),
                ..Default::default()
            })?;
            if let (Some(least), Some(most)) =
                (reply.minimum_volume_size, reply.maximum_volume_size)
            {
                let actual = format!("{least} to {most}");
                ensure(
                    least <= most,
                    "minimum_volume_size is not above maximum_volume_size",
                    actual,
                )?;
            }
        }
    ),
    case!(
        Reads,
        "controller/get-capacity/of-capabilities-and-parameters",
        "GetCapacity answers for the capabilities, parameters and topology of the volumes to be created",
        "GetCapacity",
        [GET_CAPACITY],
        |c| {
            let place = c.driver().node_info.accessible_topology.clone();
            let request = v1::GetCapacityRequest {
                volume_capabilities: vec![c.capability()?],
                parameters: c.settings().parameters.clone(),
                accessible_topology: place.filter(|_| c.has(TOPOLOGY)),
            };
            c.ok(request.clone())?;
            c.all_ok(vec![request; 6])?;
        }
    ),
];

/// ControllerGetVolume.
pub fn get(id: &str) -> v1::ControllerGetVolumeRequest {
    v1::ControllerGetVolumeRequest {
        volume_id: id.to_owned(),
    }
}
