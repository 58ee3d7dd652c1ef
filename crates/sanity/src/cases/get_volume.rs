//! ControllerGetVolume and GetCapacity.

use crate::vocabulary::*;
use csi_proto::Request as _;
use csi_proto::v1::controller_get_volume_response::VolumeStatus;
use csi_proto::v1::volume_content_source::Type as Source;
use std::collections::{BTreeMap, BTreeSet};

pub fn cases(list: &mut Cases) {
    list.about("controller/get-volume", "ControllerGetVolume");
    list.needs(&[GET_VOLUME]);
    list.error("ControllerGetVolume of a volume that does not exist answers NOT_FOUND");
    list.reads("of-an-unknown-id", |c| c.best_not_found(get(c.name())));
    list.error("ControllerGetVolume of a volume that was deleted answers NOT_FOUND");
    list.also(&[CREATE_DELETE_VOLUME]);
    list.changes("of-a-deleted-volume", |c| {
        let gone = c.deleted_volume()?;
        c.demands_of(UNKNOWN, || c.refused(get(gone.id()), &[NotFound]))
    });
    list.rule("ControllerGetVolume answers with the volume that CreateVolume answered with");
    list.also(&[CREATE_DELETE_VOLUME]);
    list.changes("answers-what-was-created", |c| {
        // That it is this id, and that there is a status, are rules of the message.
        shown_as_created(c, &c.volume()?)
    });
    list.rule(
        "ControllerGetVolume of a plugin that advertises VOLUME_CONDITION shows the condition",
    );
    list.also(&[VOLUME_CONDITION, CREATE_DELETE_VOLUME]);
    list.changes("shows-the-condition", |c| {
        let status = status(c, &c.volume()?)?;
        let has = status.volume_condition.is_some();
        ensure(has, "the status has a volume_condition", "it has none")
    });
    list.rule(
        "ControllerGetVolume shows the nodes that the controller has published the volume to",
    );
    list.also(&[LIST_VOLUMES_PUBLISHED_NODES, PUBLISH_UNPUBLISH_VOLUME]);
    list.also(&[CREATE_DELETE_VOLUME, NODE_SERVICE]);
    list.changes("shows-published-nodes", |c| {
        let (volume, _) = c.attached()?;
        let status = status(c, &volume)?;
        names_the_node(c, &status.published_node_ids)
    });
    list.rule("ControllerGetVolume answers calls at the same time with the same volume, or some of them with ABORTED");
    list.under("Concurrency").also(&[CREATE_DELETE_VOLUME]);
    list.changes("at-the-same-time", |c| {
        // That each is of this volume is a rule of the message.
        c.equal_calls(get(c.volume()?.id()), 8)
    });
    list.about("controller/get-capacity", "GetCapacity");
    list.needs(&[GET_CAPACITY]);
    list.rule(
        "GetCapacity answers with a capacity that is not negative, and bounds that allow some size, unless it is 0",
    );
    list.reads("answers", |c| {
        // That no size is negative is a rule of the message.
        let reply = c.ok(v1::GetCapacityRequest {
            parameters: parameters(c)?,
            ..Default::default()
        })?;
        if let (Some(least), Some(most)) = (reply.minimum_volume_size, reply.maximum_volume_size) {
            let expected = "minimum_volume_size is not above maximum_volume_size";
            // Of a full pool no size is left.
            let fits = least <= most || reply.available_capacity == 0;
            ensure(fits, expected, format!("{least} to {most}"))?;
        }
        Ok(())
    });
    list.rule("GetCapacity answers for the capabilities, parameters and topology of the volumes to be created");
    list.reads("of-capabilities-and-parameters", |c| {
        let place = c.driver().node_info.accessible_topology.clone();
        let request = v1::GetCapacityRequest {
            volume_capabilities: vec![c.capability()?],
            parameters: parameters(c)?,
            accessible_topology: place.filter(|_| c.has(TOPOLOGY)),
        };
        c.ok(request.clone())?;
        c.all_ok(vec![request; 6])
    });
}

/// The parameters of the settings: they may say which storage is meant, and a driver with several cannot do without.
fn parameters(c: &Context) -> Result<BTreeMap<String, String>, Stop> {
    // What makes no volume has no capacity either.
    c.run
        .works(v1::CreateVolumeRequest::METHOD, c.access(), None)?;
    Ok(c.settings().parameters.clone())
}

/// The case about how a volume is shown.
pub const AS_CREATED: &str = "controller/get-volume/answers-what-was-created";

/// The case about volumes that do not exist.
pub const UNKNOWN: &str = "controller/get-volume/of-an-unknown-id";

/// The status of a volume. That there is one is a rule of the message.
fn status(c: &Context, volume: &Volume) -> Result<VolumeStatus, Stop> {
    let status = c.ok(get(volume.id()))?.status;
    c.demands_of("replies/controller-get-volume", || {
        status.ok_or_else(|| Stop::failed("the reply has a status", "it has none"))
    })
}

/// ControllerGetVolume.
pub fn get(id: impl Into<String>) -> v1::ControllerGetVolumeRequest {
    v1::ControllerGetVolumeRequest {
        volume_id: id.into(),
    }
}

/// Demands that ControllerGetVolume describes a volume as it was when it was created.
pub fn shown_as_created(c: &Context, volume: &Volume) -> Verdict {
    let found = c.ok(get(volume.id()))?.volume.unwrap_or_default();
    as_created(c, volume, &found)
}

/// Demands that a volume is described as it was when it was created. A description may leave things out, but not invent others.
pub fn as_created(c: &Context, volume: &Volume, found: &v1::Volume) -> Verdict {
    let created = &volume.volume;
    // No sentence says that a volume stays where it is. Without a place it is to be reached from every node.
    let (was, is) = (places(created), places(found));
    c.should(was == is, format!("the accessible_topology {was}"), is);
    let asked_for = &volume.request.volume_content_source;
    if let (Some(source), Some(told)) = (asked_for, &found.content_source) {
        let (source, told) = (source_text(source), source_text(told));
        same("the content_source", &source, &told)?;
    }
    if !found.volume_context.is_empty() {
        let (context, again) = (&created.volume_context, &found.volume_context);
        same(
            "the volume context",
            &pairs_text(context),
            &pairs_text(again),
        )?;
    }
    same_size(created.capacity_bytes, found.capacity_bytes)
}

/// Demands the size of before, where both are known.
pub fn same_size(was: i64, is: i64) -> Verdict {
    let kept = was == 0 || is == 0 || was == is;
    ensure(kept, format!("the size {was}"), is.to_string())
}

/// The places of a volume, in any order.
fn places(volume: &v1::Volume) -> String {
    let places = volume.accessible_topology.iter();
    let places = places.map(|one| format!("[{}]", pairs_text(&one.segments)));
    list_text(places.collect::<BTreeSet<_>>())
}

fn source_text(source: &v1::VolumeContentSource) -> String {
    match &source.r#type {
        Some(Source::Snapshot(one)) => format!("snapshot {}", one.snapshot_id),
        Some(Source::Volume(one)) => format!("volume {}", one.volume_id),
        None => "of no type".to_owned(),
    }
}

/// Demands that the nodes to which a volume is published are told with the driver's own.
pub fn names_the_node(c: &Context, nodes: &[String]) -> Verdict {
    let node = &c.driver().node_info.node_id;
    let expected = format!("the node {node}");
    ensure(nodes.contains(node), expected, list_text(nodes))
}
