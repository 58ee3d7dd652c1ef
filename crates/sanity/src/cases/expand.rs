//! ControllerExpandVolume and NodeExpandVolume.

use super::create_volume::keeps_the_name;
use super::get_volume::{get, same_size};
use super::list_volumes::entry_of;
use crate::vocabulary::*;

pub fn cases(list: &mut Cases) {
    list.about("controller/expand", "ControllerExpandVolume");
    list.needs(&[EXPAND_VOLUME, CREATE_DELETE_VOLUME]);
    list.error("ControllerExpandVolume of a volume that does not exist answers NOT_FOUND");
    list.changes("of-a-deleted-volume", |c| {
        let gone = c.deleted_volume()?;
        // A size that was there: no other answer may be right.
        c.refused(expand(c, &gone, c.size(), 0), &[NotFound])
    });
    list.rule("ControllerExpandVolume answers with a size in the range, which the volume then has");
    list.also(EACH_ACCESS).changes("expands", |c| {
        let volume = c.volume()?;
        // That the size lies in the range is a rule of the message.
        let size = c.ok(double(c, &volume))?.capacity_bytes;
        let mut shown = Vec::new();
        if c.has(GET_VOLUME) {
            shown.extend(c.ok(get(volume.id()))?.volume);
        }
        if c.has(LIST_VOLUMES) {
            shown.extend(entry_of(c, &volume.id())?.volume);
        }
        each(shown, |volume| {
            c.demands_of(REPLIES, || same_size(size, volume.capacity_bytes))
        })
    });
    list.rule("ControllerExpandVolume to a size that the volume has already answers OK");
    list.changes("is-idempotent", |c| {
        let volume = c.volume()?;
        let first = c.ok(double(c, &volume))?.capacity_bytes;
        let again = c.ok(double(c, &volume))?.capacity_bytes;
        c.demands_of(REPLIES, || {
            ensure(first == again, first.to_string(), again.to_string())
        })
    });
    list.rule("ControllerExpandVolume to a smaller size keeps the size of the volume and should answer OK");
    list.changes("never-shrinks", |c| {
        let volume = c.volume()?;
        let size = volume.volume.capacity_bytes.max(c.size());
        let smaller = expand(c, &volume, (size / 2).max(1), 0);
        match c.send(smaller)? {
            Ok(reply) => {
                let found = reply.capacity_bytes;
                let expected = format!("at least {size} bytes");
                c.demands_of("replies/create-volume", || {
                    ensure(found >= size, expected, found.to_string())
                })?;
            }
            // A refusal shrinks nothing either.
            Err(status) => c.should(false, "OK", status_text(&status)),
        }
        Ok(())
    });
    list.error("ControllerExpandVolume does not exceed limit_bytes, or answers OUT_OF_RANGE");
    list.changes("keeps-limit-bytes", |c| {
        let volume = c.volume()?;
        let (size, before) = (2 * c.size(), volume.volume.capacity_bytes);
        let reply = c.ok_or(expand(c, &volume, size, size), &[OutOfRange])?;
        let now = reply.map_or(0, |reply| reply.capacity_bytes);
        // One that has more already has no less afterwards.
        let kept = now <= size || before > size || before == 0;
        let expected = format!("at most {size} bytes, for the volume had {before}");
        ensure(kept, expected, format!("{now} bytes"))?;
        // A limit that the volume exceeds already.
        c.ok_or(expand(c, &volume, 1, 2), &[OutOfRange, InvalidArgument])
            .map(drop)
    });
    list.error("ControllerExpandVolume to a size that no storage has answers OUT_OF_RANGE, unless the plugin knows no limit");
    list.changes("to-an-impossible-size", |c| {
        let request = expand(c, &c.volume()?, i64::MAX - (1 << 20), 0);
        let codes = [OutOfRange, ResourceExhausted, InvalidArgument];
        c.ok_or(request, &codes)
    });
    list.error("ControllerExpandVolume with limit_bytes below required_bytes is refused");
    list.changes("of-a-reversed-range", |c| {
        let volume = c.volume()?;
        // A size that the volume has already may be answered with OK.
        let size = volume.volume.capacity_bytes.max(c.size());
        let reversed = expand(c, &volume, size.saturating_mul(3), size.saturating_mul(2));
        c.refused(reversed, &[InvalidArgument, OutOfRange])
    });
    list.rule("After an expansion the CreateVolume that made the volume does not make another one");
    list.under("CreateVolume").changes("keeps-the-name", |c| {
        let volume = c.volume()?;
        c.ok(double(c, &volume))?;
        keeps_the_name(c, &volume)
    });
    list.rule("ControllerExpandVolume answers equal calls at the same time with the same size, or some with ABORTED");
    list.under("Concurrency").changes("at-the-same-time", |c| {
        c.equal_calls(double(c, &c.volume()?), 6)
    });
    list.rule("ControllerExpandVolume of a plugin that expands online succeeds while the volume is in use");
    list.also(&[NODE_SERVICE]).also(EACH_ACCESS);
    list.changes("while-published", |c| {
        let online = c.driver().expands_online();
        skip_unless(online, "not advertised: VolumeExpansion ONLINE")?;
        let placed = c.published()?;
        let reply = c.ok(double(c, &placed.volume))?;
        if reply.node_expansion_required && c.has(NODE_EXPAND_VOLUME) {
            c.demands_of(EXPANDS, || c.ok(node_expand(c, &placed, 2 * c.size())))?;
        }
        Ok(())
    });
    list.about("node/expand", "NodeExpandVolume");
    list.needs(&[NODE_EXPAND_VOLUME, CREATE_DELETE_VOLUME]);
    list.error("NodeExpandVolume of a volume that does not exist is refused, best with NOT_FOUND");
    list.changes("of-a-deleted-volume", |c| {
        let gone = c.deleted_volume()?;
        let request = v1::NodeExpandVolumeRequest {
            volume_id: gone.id(),
            volume_path: c.target()?,
            capacity_range: range(c.size(), 0),
            volume_capability: Some(gone.capability),
            secrets: c.secrets(),
            ..Default::default()
        };
        // Nothing is at the path either.
        c.must_fail(request, &[NotFound])
    });
    list.rule("NodeExpandVolume, after ControllerExpandVolume where that is advertised, answers OK with at least the required size, also when repeated");
    list.also(EACH_ACCESS).changes("expands", |c| {
        let volume = c.volume()?;
        let (at_controller, online) = (c.has(EXPAND_VOLUME), c.driver().expands_online());
        // Offline the controller's part comes before the volume is used.
        if at_controller && !online {
            c.ok(double(c, &volume))?;
        }
        let placed = c.publish(volume)?;
        if at_controller && online {
            c.demands_of("controller/expand/while-published", || {
                c.ok(double(c, &placed.volume))
            })?;
        }
        let mut size = 2 * c.size();
        // That the size lies in the range is a rule of the message.
        if at_controller {
            c.depends_on(EXPANDS);
        } else if c
            .ok_or(node_expand(c, &placed, size), &[OutOfRange])?
            .is_none()
        {
            // What is below the node may have no more.
            size = c.size();
        }
        each(0..2, |_| c.ok(node_expand(c, &placed, size)))
    });
}

/// The case about whether the volume has its new size.
const EXPANDS: &str = "controller/expand/expands";

/// The case about the form of replies.
const REPLIES: &str = "replies/controller-expand-volume";

/// ControllerExpandVolume to a size in a range of bytes.
pub fn expand(
    c: &Context,
    volume: &Volume,
    required: i64,
    limit: i64,
) -> v1::ControllerExpandVolumeRequest {
    v1::ControllerExpandVolumeRequest {
        volume_id: volume.id(),
        capacity_range: range(required, limit),
        secrets: c.secrets(),
        volume_capability: Some(volume.capability.clone()),
    }
}

/// ControllerExpandVolume to the double of the usual size.
fn double(c: &Context, volume: &Volume) -> v1::ControllerExpandVolumeRequest {
    expand(c, volume, 2 * c.size(), 0)
}

/// NodeExpandVolume of a published volume to at least that many bytes.
pub fn node_expand(c: &Context, placed: &Placed, size: i64) -> v1::NodeExpandVolumeRequest {
    v1::NodeExpandVolumeRequest {
        volume_id: placed.id(),
        volume_path: placed.target.clone(),
        capacity_range: range(size, 0),
        staging_target_path: placed.staging.clone(),
        volume_capability: Some(placed.volume.capability.clone()),
        secrets: c.secrets(),
    }
}
