//! ControllerExpandVolume and NodeExpandVolume.

use super::create_volume::{keeps_the_name, range};
use crate::tools::sanity::case::{Case, Stop, case, ensure};
use crate::tools::sanity::context::Context;
use crate::tools::sanity::fixtures::{Placed, Volume};
use crate::tools::sanity::need::needs::{
    CREATE_DELETE_VOLUME, EACH_ACCESS, EXPAND_VOLUME, GET_VOLUME, NODE_EXPAND_VOLUME, NODE_SERVICE,
};
use csi_proto::v1;
use tonic::Code;

pub const CASES: &[Case] = &[
    case!(
        Changes,
        "controller/expand/of-a-deleted-volume",
        "ControllerExpandVolume of a volume that does not exist answers NOT_FOUND",
        "ControllerExpandVolume Errors",
        [EXPAND_VOLUME, CREATE_DELETE_VOLUME],
        |c| {
            let gone = c.deleted_volume()?;
            let request = expand(c, &gone, 2 * c.settings().volume_size);
            c.refused(request, &[Code::NotFound])?;
        }
    ),
    case!(
        Changes,
        "controller/expand/expands",
        "ControllerExpandVolume answers with a size in the range, which the volume then has",
        "ControllerExpandVolume",
        [EXPAND_VOLUME, CREATE_DELETE_VOLUME, EACH_ACCESS],
        |c| {
            let volume = c.volume()?;
            let size = 2 * c.settings().volume_size;
            // That the size lies in the range is a rule of the message.
            let reply = c.ok(expand(c, &volume, size))?;
            if c.has(GET_VOLUME) {
                let found = c
                    .ok(super::get_volume::get(&volume.id()))?
                    .volume
                    .unwrap_or_default();
                let actual = found.capacity_bytes.to_string();
                let same =
                    found.capacity_bytes == 0 || found.capacity_bytes == reply.capacity_bytes;
                ensure(same, &format!("the size {}", reply.capacity_bytes), actual)?;
            }
        }
    ),
    case!(
        Changes,
        "controller/expand/is-idempotent",
        "ControllerExpandVolume to a size that the volume has already answers OK",
        "ControllerExpandVolume",
        [EXPAND_VOLUME, CREATE_DELETE_VOLUME],
        |c| {
            let volume = c.volume()?;
            let size = 2 * c.settings().volume_size;
            let first = c.ok(expand(c, &volume, size))?;
            let again = c.ok(expand(c, &volume, size))?;
            let actual = again.capacity_bytes.to_string();
            ensure(
                first.capacity_bytes == again.capacity_bytes,
                &first.capacity_bytes.to_string(),
                actual,
            )?;
        }
    ),
    case!(
        Changes,
        "controller/expand/never-shrinks",
        "ControllerExpandVolume to a smaller size keeps the size of the volume and should answer OK",
        "ControllerExpandVolume",
        [EXPAND_VOLUME, CREATE_DELETE_VOLUME],
        |c| {
            let volume = c.volume()?;
            let size = volume.volume.capacity_bytes.max(c.settings().volume_size);
            let smaller = expand(c, &volume, (size / 2).max(1));
            let Some(reply) = c.ok_or(smaller, &[Code::OutOfRange])? else {
                c.should(false, "OK", "it answered OUT_OF_RANGE");
                return Ok(());
            };
            let actual = reply.capacity_bytes.to_string();
            ensure(
                reply.capacity_bytes >= size,
                &format!("at least {size} bytes"),
                actual,
            )?;
        }
    ),
    case!(
        Changes,
        "controller/expand/keeps-limit-bytes",
        "ControllerExpandVolume does not exceed limit_bytes, or answers OUT_OF_RANGE",
        "ControllerExpandVolume Errors",
        [EXPAND_VOLUME, CREATE_DELETE_VOLUME],
        |c| {
            let volume = c.volume()?;
            let size = 2 * c.settings().volume_size;
            let mut request = expand(c, &volume, size);
            request.capacity_range = Some(range(size, size));
            c.ok_or(request, &[Code::OutOfRange])?;
            // A limit that the volume exceeds already.
            let mut request = expand(c, &volume, 0);
            request.capacity_range = Some(range(1, 2));
            c.ok_or(request, &[Code::OutOfRange, Code::InvalidArgument])?;
        }
    ),
    case!(
        Changes,
        "controller/expand/to-an-impossible-size",
        "ControllerExpandVolume to a size that no storage has answers OUT_OF_RANGE, unless the plugin knows no limit",
        "ControllerExpandVolume Errors",
        [EXPAND_VOLUME, CREATE_DELETE_VOLUME],
        |c| {
            let volume = c.volume()?;
            let request = expand(c, &volume, i64::MAX - (1 << 20));
            let codes = [
                Code::OutOfRange,
                Code::ResourceExhausted,
                Code::InvalidArgument,
            ];
            c.ok_or(request, &codes)?;
        }
    ),
    case!(
        Changes,
        "controller/expand/of-a-reversed-range",
        "ControllerExpandVolume with limit_bytes below required_bytes is refused",
        "ControllerExpandVolume Errors",
        [EXPAND_VOLUME, CREATE_DELETE_VOLUME],
        |c| {
            let volume = c.volume()?;
            let size = c.settings().volume_size;
            let mut request = expand(c, &volume, 0);
            request.capacity_range = Some(range(3 * size, 2 * size));
            c.refused(request, &[Code::InvalidArgument, Code::OutOfRange])?;
        }
    ),
    case!(
        Changes,
        "controller/expand/keeps-the-name",
        "After an expansion the CreateVolume that made the volume does not make another one",
        "CreateVolume",
        [EXPAND_VOLUME, CREATE_DELETE_VOLUME],
        |c| {
            let volume = c.volume()?;
            c.ok(expand(c, &volume, 2 * c.settings().volume_size))?;
            keeps_the_name(c, &volume)?;
        }
    ),
    case!(
        Changes,
        "controller/expand/at-the-same-time",
        "ControllerExpandVolume answers equal calls at the same time with the same size, or some with ABORTED",
        "Concurrency",
        [EXPAND_VOLUME, CREATE_DELETE_VOLUME],
        |c| {
            let volume = c.volume()?;
            let size = 2 * c.settings().volume_size;
            let request = expand(c, &volume, size);
            c.equal_calls(&request, 6)?;
            c.ok_in_the_end(request)?;
        }
    ),
    case!(
        Changes,
        "controller/expand/while-published",
        "ControllerExpandVolume of a plugin that expands online succeeds while the volume is in use",
        "ControllerExpandVolume",
        [
            EXPAND_VOLUME,
            CREATE_DELETE_VOLUME,
            NODE_SERVICE,
            EACH_ACCESS
        ],
        |c| {
            if !c.driver().expands_online() {
                return Err(Stop::Skipped(
                    "not advertised: VolumeExpansion ONLINE".to_owned(),
                ));
            }
            let placed = c.published()?;
            let size = 2 * c.settings().volume_size;
            let reply = c.ok(expand(c, &placed.volume, size))?;
            if reply.node_expansion_required && c.has(NODE_EXPAND_VOLUME) {
                c.ok(node_expand(c, &placed, size))?;
            }
        }
    ),
    case!(
        Changes,
        "node/expand/of-a-deleted-volume",
        "NodeExpandVolume of a volume that does not exist answers NOT_FOUND",
        "NodeExpandVolume Errors",
        [NODE_EXPAND_VOLUME, CREATE_DELETE_VOLUME],
        |c| {
            let gone = c.deleted_volume()?;
            let request = v1::NodeExpandVolumeRequest {
                volume_id: gone.id(),
                volume_path: c.target()?,
                capacity_range: Some(range(c.settings().volume_size, 0)),
                volume_capability: Some(gone.capability),
                secrets: c.secrets(),
                ..Default::default()
            };
            c.refused(request, &[Code::NotFound])?;
        }
    ),
    case!(
        Changes,
        "node/expand/expands",
        "NodeExpandVolume after ControllerExpandVolume answers OK with at least the required size, also when repeated",
        "NodeExpandVolume",
        [NODE_EXPAND_VOLUME, CREATE_DELETE_VOLUME, EACH_ACCESS],
        |c| {
            let mut size = c.settings().volume_size;
            let placed = match c.has(EXPAND_VOLUME) && !c.driver().expands_online() {
                // Offline: the controller's part comes before the volume is used.
                true => {
                    let volume = c.volume()?;
                    size *= 2;
                    c.ok(expand(c, &volume, size))?;
                    c.publish(volume)?
                }
                false => {
                    let placed = c.published()?;
                    if c.has(EXPAND_VOLUME) {
                        size *= 2;
                        c.ok(expand(c, &placed.volume, size))?;
                    }
                    placed
                }
            };
            for _ in 0..2 {
                let reply = c.ok(node_expand(c, &placed, size))?;
                let actual = reply.capacity_bytes;
                let enough = actual == 0 || actual >= size;
                ensure(
                    enough,
                    &format!("at least {size} bytes, or none told"),
                    actual.to_string(),
                )?;
            }
        }
    ),
];

/// ControllerExpandVolume to at least that many bytes.
pub fn expand(c: &Context, volume: &Volume, size: i64) -> v1::ControllerExpandVolumeRequest {
    v1::ControllerExpandVolumeRequest {
        volume_id: volume.id(),
        capacity_range: Some(range(size, 0)),
        secrets: c.secrets(),
        volume_capability: Some(volume.capability.clone()),
    }
}

/// NodeExpandVolume of a published volume to at least that many bytes.
pub fn node_expand(c: &Context, placed: &Placed, size: i64) -> v1::NodeExpandVolumeRequest {
    v1::NodeExpandVolumeRequest {
        volume_id: placed.id(),
        volume_path: placed.target.clone(),
        capacity_range: Some(range(size, 0)),
        staging_target_path: placed.staging.clone(),
        volume_capability: Some(placed.volume.capability.clone()),
        secrets: c.secrets(),
    }
}
