//! ControllerExpandVolume and NodeExpandVolume.

use super::create_volume::{keeps_the_name, range};
use crate::tools::sanity::vocabulary::*;

/// The cases.
pub fn cases(list: &mut Cases) {
    list.about("controller/expand", "ControllerExpandVolume");
    list.needs(&[EXPAND_VOLUME, CREATE_DELETE_VOLUME]);
    list.error_rule("ControllerExpandVolume of a volume that does not exist answers NOT_FOUND");
    list.changes("of-a-deleted-volume", |c| {
        let gone = c.deleted_volume()?;
        let request = expand(c, &gone, 2 * c.settings().volume_size);
        c.refused(request, &[NotFound])
    });
    list.rule("ControllerExpandVolume answers with a size in the range, which the volume then has");
    list.also(&[EACH_ACCESS]).changes("expands", |c| {
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
            let same = found.capacity_bytes == 0 || found.capacity_bytes == reply.capacity_bytes;
            ensure(same, &format!("the size {}", reply.capacity_bytes), actual)?;
        }
        Ok(())
    });
    list.rule("ControllerExpandVolume to a size that the volume has already answers OK");
    list.changes("is-idempotent", |c| {
        let volume = c.volume()?;
        let size = 2 * c.settings().volume_size;
        let first = c.ok(expand(c, &volume, size))?;
        let again = c.ok(expand(c, &volume, size))?;
        let actual = again.capacity_bytes.to_string();
        ensure(
            first.capacity_bytes == again.capacity_bytes,
            &first.capacity_bytes.to_string(),
            actual,
        )
    });
    list.rule("ControllerExpandVolume to a smaller size keeps the size of the volume and should answer OK");
    list.changes("never-shrinks", |c| {
        let volume = c.volume()?;
        let size = volume.volume.capacity_bytes.max(c.settings().volume_size);
        let smaller = expand(c, &volume, (size / 2).max(1));
        let Some(reply) = c.ok_or(smaller, &[OutOfRange])? else {
            c.should(false, "OK", "it answered OUT_OF_RANGE");
            return Ok(());
        };
        let actual = reply.capacity_bytes.to_string();
        ensure(
            reply.capacity_bytes >= size,
            &format!("at least {size} bytes"),
            actual,
        )?;
        Ok(())
    });
    list.error_rule("ControllerExpandVolume does not exceed limit_bytes, or answers OUT_OF_RANGE");
    list.changes("keeps-limit-bytes", |c| {
        let volume = c.volume()?;
        let size = 2 * c.settings().volume_size;
        let mut request = expand(c, &volume, size);
        request.capacity_range = Some(range(size, size));
        c.ok_or(request, &[OutOfRange])?;
        // A limit that the volume exceeds already.
        let mut request = expand(c, &volume, 0);
        request.capacity_range = Some(range(1, 2));
        c.ok_or(request, &[OutOfRange, InvalidArgument])
    });
    list.error_rule("ControllerExpandVolume to a size that no storage has answers OUT_OF_RANGE, unless the plugin knows no limit");
    list.changes("to-an-impossible-size", |c| {
        let volume = c.volume()?;
        let request = expand(c, &volume, i64::MAX - (1 << 20));
        let codes = [OutOfRange, ResourceExhausted, InvalidArgument];
        c.ok_or(request, &codes)
    });
    list.error_rule("ControllerExpandVolume with limit_bytes below required_bytes is refused");
    list.changes("of-a-reversed-range", |c| {
        let volume = c.volume()?;
        let size = c.settings().volume_size;
        let mut request = expand(c, &volume, 0);
        request.capacity_range = Some(range(3 * size, 2 * size));
        c.refused(request, &[InvalidArgument, OutOfRange])
    });
    list.rule("After an expansion the CreateVolume that made the volume does not make another one");
    list.under("CreateVolume").changes("keeps-the-name", |c| {
        let volume = c.volume()?;
        c.ok(expand(c, &volume, 2 * c.settings().volume_size))?;
        keeps_the_name(c, &volume)
    });
    list.rule("ControllerExpandVolume answers equal calls at the same time with the same size, or some with ABORTED");
    list.under("Concurrency").changes("at-the-same-time", |c| {
        let volume = c.volume()?;
        let size = 2 * c.settings().volume_size;
        let request = expand(c, &volume, size);
        c.equal_calls(&request, 6)?;
        c.ok_in_the_end(request)
    });
    list.rule("ControllerExpandVolume of a plugin that expands online succeeds while the volume is in use");
    list.also(&[NODE_SERVICE, EACH_ACCESS])
        .changes("while-published", |c| {
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
            Ok(())
        });
    list.about("node/expand", "NodeExpandVolume");
    list.needs(&[NODE_EXPAND_VOLUME, CREATE_DELETE_VOLUME]);
    list.error_rule("NodeExpandVolume of a volume that does not exist answers NOT_FOUND");
    list.changes("of-a-deleted-volume", |c| {
        let gone = c.deleted_volume()?;
        let request = v1::NodeExpandVolumeRequest {
            volume_id: gone.id(),
            volume_path: c.target()?,
            capacity_range: Some(range(c.settings().volume_size, 0)),
            volume_capability: Some(gone.capability),
            secrets: c.secrets(),
            ..Default::default()
        };
        c.refused(request, &[NotFound])
    });
    list.rule("NodeExpandVolume after ControllerExpandVolume answers OK with at least the required size, also when repeated");
    list.also(&[EACH_ACCESS]).changes("expands", |c| {
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
        Ok(())
    });
}

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
