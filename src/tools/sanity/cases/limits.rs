//! Sizes that the specification allows, and ids that nobody would write by hand.

use crate::tools::sanity::case::{Case, case, ensure};
use crate::tools::sanity::need::needs::{
    ANY_VOLUME, CONTROLLER_SERVICE, CREATE_DELETE_VOLUME, GET_VOLUME, NODE_SERVICE,
};
use crate::tools::sanity::verdict::status_text;
use csi_proto::v1;
use std::collections::BTreeMap;
use tonic::Code;

pub const CASES: &[Case] = &[
    case!(
        Changes,
        "controller/delete-volume/with-a-hostile-id",
        "DeleteVolume with an id like a path, or with characters that mean something elsewhere, deletes nothing and does not fail",
        "DeleteVolume",
        [CREATE_DELETE_VOLUME],
        |c| {
            let volume = c.volume()?;
            for id in hostile_ids(&volume.id()) {
                c.ok_or_in_the_end(c.delete_request(id), &[Code::InvalidArgument])?;
            }
            c.ok(c.validate_request(&volume))?;
        }
    ),
    case!(
        Reads,
        "controller/validate/with-a-hostile-id",
        "ValidateVolumeCapabilities with an id like a path answers NOT_FOUND or INVALID_ARGUMENT",
        "ValidateVolumeCapabilities Errors",
        [CONTROLLER_SERVICE],
        |c| {
            for id in hostile_ids("csi-sanity") {
                let request = v1::ValidateVolumeCapabilitiesRequest {
                    volume_id: id,
                    volume_capabilities: vec![c.capability()?],
                    secrets: c.secrets(),
                    ..Default::default()
                };
                c.refused_in_the_end(request, &[Code::NotFound, Code::InvalidArgument])?;
            }
        }
    ),
    case!(
        Reads,
        "controller/get-volume/with-a-hostile-id",
        "ControllerGetVolume with an id like a path answers NOT_FOUND or INVALID_ARGUMENT",
        "ControllerGetVolume Errors",
        [GET_VOLUME],
        |c| {
            for id in hostile_ids("csi-sanity") {
                let request = super::get_volume::get(&id);
                c.refused_in_the_end(request, &[Code::NotFound, Code::InvalidArgument])?;
            }
        }
    ),
    case!(
        Changes,
        "node/unpublish/with-a-hostile-id",
        "NodeUnpublishVolume with an id like a path answers OK, NOT_FOUND or INVALID_ARGUMENT",
        "NodeUnpublishVolume Errors",
        [NODE_SERVICE],
        |c| {
            for volume_id in hostile_ids("csi-sanity") {
                let request = v1::NodeUnpublishVolumeRequest {
                    volume_id,
                    target_path: c.target()?,
                };
                c.ok_or_in_the_end(request, &[Code::NotFound, Code::InvalidArgument])?;
            }
        }
    ),
    case!(
        Changes,
        "node/publish/with-a-hostile-id",
        "NodePublishVolume with an id like a path is refused",
        "NodePublishVolume Errors",
        [NODE_SERVICE],
        |c| {
            for volume_id in hostile_ids("csi-sanity") {
                let request = v1::NodePublishVolumeRequest {
                    volume_id,
                    target_path: c.target()?,
                    volume_capability: Some(c.capability()?),
                    secrets: c.secrets(),
                    ..Default::default()
                };
                let codes = [
                    Code::NotFound,
                    Code::InvalidArgument,
                    Code::FailedPrecondition,
                ];
                c.refused_in_the_end(request, &codes)?;
            }
        }
    ),
    case!(
        Changes,
        "controller/delete-volume/with-a-long-id",
        "DeleteVolume with an id of 128 bytes or more answers OK or INVALID_ARGUMENT",
        "Size Limits",
        [CREATE_DELETE_VOLUME],
        |c| {
            for size in [128, 129, 4096, 100_000] {
                let id = "x".repeat(size);
                c.ok_or_in_the_end(c.delete_request(id), &[Code::InvalidArgument])?;
            }
        }
    ),
    case!(
        Reads,
        "controller/validate/with-a-long-id",
        "ValidateVolumeCapabilities with an id of 128 bytes or more answers NOT_FOUND or INVALID_ARGUMENT",
        "Size Limits",
        [CONTROLLER_SERVICE],
        |c| {
            for size in [128, 129, 4096, 100_000] {
                let request = v1::ValidateVolumeCapabilitiesRequest {
                    volume_id: "x".repeat(size),
                    volume_capabilities: vec![c.capability()?],
                    secrets: c.secrets(),
                    ..Default::default()
                };
                c.refused_in_the_end(request, &[Code::NotFound, Code::InvalidArgument])?;
            }
        }
    ),
    case!(
        Changes,
        "controller/create-volume/with-a-name-that-is-too-long",
        "CreateVolume with a name of more than 128 bytes is refused, or makes a volume of its own for it",
        "Size Limits",
        [CREATE_DELETE_VOLUME],
        |c| {
            let name = c.name();
            let mut ids = Vec::new();
            for end in ["1", "2"] {
                let mut request = c.create_request()?;
                request.name = format!("{name}{}{end}", "x".repeat(300));
                match c.send(request)? {
                    Ok(reply) => ids.push(reply.volume.unwrap_or_default().volume_id),
                    Err(status) => {
                        let kept = status.code() == Code::InvalidArgument;
                        ensure(kept, "OK or INVALID_ARGUMENT", status_text(&status))?;
                    }
                }
            }
            ids.dedup();
            let actual = format!("{ids:?}");
            ensure(ids.len() != 1, "two names are two volumes, or none", actual)?;
        }
    ),
    case!(
        Changes,
        "controller/create-volume/with-large-parameters",
        "CreateVolume with more than 4 KiB of parameters is refused with INVALID_ARGUMENT",
        "Size Limits",
        [CREATE_DELETE_VOLUME],
        |c| {
            let mut request = c.create_request()?;
            request.parameters.extend(large());
            // A plugin may take more than the specification lets a caller send.
            c.ok_or(request, &[Code::InvalidArgument])?;
        }
    ),
    case!(
        Reads,
        "controller/validate/with-a-large-context",
        "ValidateVolumeCapabilities with more than 4 KiB of volume_context does not fail but by INVALID_ARGUMENT or NOT_FOUND",
        "Size Limits",
        [CONTROLLER_SERVICE, ANY_VOLUME],
        |c| {
            let request = v1::ValidateVolumeCapabilitiesRequest {
                volume_id: c.any_volume()?.volume_id,
                volume_capabilities: vec![c.capability()?],
                volume_context: large(),
                secrets: c.secrets(),
                ..Default::default()
            };
            c.ok_or(request, &[Code::InvalidArgument, Code::NotFound])?;
        }
    ),
    case!(
        Changes,
        "node/publish/with-a-path-of-128-bytes",
        "NodePublishVolume takes a target path of 128 bytes or more, for paths are as long as the operating system allows",
        "NodePublishVolume",
        [NODE_SERVICE, CREATE_DELETE_VOLUME],
        |c| {
            let mut placed = c.staged()?;
            let folder = format!("{}-{}", placed.target, "x".repeat(200));
            c.folder(std::path::Path::new(&folder))?;
            placed.target = format!("{folder}/target");
            c.ok(placed.publish())?;
            c.ok(placed.unpublish())?;
        }
    ),
];

/// Ids that a driver must not take for paths, or for anything but ids of volumes that do not exist.
fn hostile_ids(id: &str) -> Vec<String> {
    vec![
        "/".to_owned(),
        "..".to_owned(),
        "../../../etc/passwd".to_owned(),
        "/etc".to_owned(),
        format!("{id}/.."),
        format!("{id}/"),
        format!("./{id}"),
        format!("{id}/../{id}"),
        format!("{id}\0"),
        format!("{id}\n"),
        " ".to_owned(),
        "*".to_owned(),
        "$(id)".to_owned(),
        "'; --".to_owned(),
        "%s%n".to_owned(),
        "\u{202e}\u{feff}".to_owned(),
    ]
}

fn large() -> BTreeMap<String, String> {
    let entries = (0..64).map(|number| (format!("csi-sanity-{number}"), "x".repeat(80)));
    entries.collect()
}
