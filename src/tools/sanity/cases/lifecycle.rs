//! The whole life of a volume: in order, out of order, and with a driver that is restarted between any two steps.

use crate::tools::sanity::vocabulary::*;
use std::time::Duration;

/// The cases.
pub fn cases(list: &mut Cases) {
    list.about("lifecycle", "Volume Lifecycle");
    list.needs(&[CREATE_DELETE_VOLUME, NODE_SERVICE, EACH_ACCESS]);
    list.rule("A volume goes from create to publish, and back, twice");
    list.changes("up-and-down", |c| {
        for _ in 0..2 {
            let placed = c.published()?;
            down(c, &placed)?;
        }
        Ok(())
    });
    list.rule("Every step of a volume's way up and down can be repeated");
    list.changes("every-step-twice", |c| {
        let volume = c.volume()?;
        c.ok(volume.request.clone())?;
        let placed = c.place(volume)?;
        if c.has(PUBLISH_UNPUBLISH_VOLUME) {
            c.ok(c.attach_request(&placed.volume))?;
        }
        for _ in 0..2 {
            if c.has(STAGE_UNSTAGE_VOLUME) {
                c.ok(placed.stage())?;
            }
        }
        for _ in 0..2 {
            c.ok(placed.publish())?;
        }
        for _ in 0..2 {
            c.ok(placed.unpublish())?;
        }
        for _ in 0..2 {
            if c.has(STAGE_UNSTAGE_VOLUME) {
                c.ok(placed.unstage())?;
            }
        }
        for _ in 0..2 {
            if c.has(PUBLISH_UNPUBLISH_VOLUME) {
                c.ok(c.detach_request(&placed.volume))?;
            }
        }
        for _ in 0..2 {
            c.ok(c.delete_request(placed.id()))?;
        }
        Ok(())
    });
    list.needs(&[CREATE_DELETE_VOLUME, NODE_SERVICE, PATHS]);
    list.rule("DeleteVolume of a volume that is published answers OK or FAILED_PRECONDITION, and the node is cleaned up in either case");
    list.under("DeleteVolume Errors")
        .changes("delete-while-published", |c| {
            let placed = c.published()?;
            if let Err(status) = c.send(c.delete_request(placed.id()))? {
                let kept = status.code() == FailedPrecondition;
                ensure(kept, "OK or FAILED_PRECONDITION", status_text(&status))?;
            }
            match c.send(placed.unpublish())? {
                Ok(_) => c.is_gone(&placed)?,
                Err(status) => {
                    let kept = status.code() == NotFound;
                    ensure(kept, "OK or NOT_FOUND", status_text(&status))?;
                }
            }
            Ok(())
        });
    list.needs(&[CREATE_DELETE_VOLUME, NODE_SERVICE, EACH_ACCESS, RESTART]);
    list.rule(
        "A driver that is restarted between any two steps of a volume's way goes on where it was",
    );
    list.alone("restart-between-any-two-steps", |c| {
        let volume = c.volume()?;
        c.restart()?;
        let again = c.ok(volume.request.clone())?.volume.unwrap_or_default();
        same_id("volume", &volume.id(), &again.volume_id)?;
        let placed = c.place(volume)?;
        c.restart()?;
        if c.has(PUBLISH_UNPUBLISH_VOLUME) {
            let again = c.ok(c.attach_request(&placed.volume))?;
            let actual = format!("{:?}", again.publish_context);
            let expected = format!("the publish_context {:?}", placed.publish_context);
            ensure(
                again.publish_context == placed.publish_context,
                &expected,
                actual,
            )?;
        }
        if c.has(STAGE_UNSTAGE_VOLUME) {
            c.ok(placed.stage())?;
            c.restart()?;
            c.ok(placed.stage())?;
        }
        c.ok(placed.publish())?;
        c.restart()?;
        c.ok(placed.publish())?;
        if c.has(crate::tools::sanity::case::needs::GET_VOLUME_STATS) {
            c.ok(placed.stats())?;
        }
        c.ok(placed.unpublish())?;
        c.restart()?;
        c.ok(placed.unpublish())?;
        if c.has(STAGE_UNSTAGE_VOLUME) {
            c.ok(placed.unstage())?;
            c.restart()?;
            c.ok(placed.unstage())?;
        }
        if c.has(PUBLISH_UNPUBLISH_VOLUME) {
            c.ok(c.detach_request(&placed.volume))?;
            c.restart()?;
            c.ok(c.detach_request(&placed.volume))?;
        }
        c.ok(c.delete_request(placed.id()))?;
        c.restart()?;
        c.ok(c.delete_request(placed.id()))
    });
    list.rule("A volume stays published and holds its data while the driver is restarted");
    list.also(&[PATHS]).alone("restart-while-published", |c| {
        let placed = c.published()?;
        c.put_data(&placed, "before")?;
        c.restart()?;
        c.is_published(&placed)?;
        c.holds(&placed, "before")?;
        // It still knows how it is published.
        let mut other = placed.publish();
        other.readonly = true;
        c.refused(other, &[AlreadyExists])?;
        c.ok(placed.unpublish())?;
        c.is_gone(&placed)
    });
    list.needs(&[CREATE_DELETE_VOLUME, NODE_SERVICE, RESTART]);
    list.rule("Calls that a restart cuts off can be repeated, and make no second volume");
    list.alone("restart-in-mid-call", |c| {
        let request = c.create_request()?;
        let (answer, restarted) = c.at_once(|| c.send(request.clone()), || c.restart())?;
        restarted?;
        let volume = c.ok_in_the_end(request.clone())?.volume.unwrap_or_default();
        if let Ok(reply) = answer? {
            let first = reply.volume.unwrap_or_default().volume_id;
            ensure(first == volume.volume_id, &first, volume.volume_id.clone())?;
        }
        let again = c.ok(request)?.volume.unwrap_or_default().volume_id;
        ensure(again == volume.volume_id, &volume.volume_id, again)
    });
    list.about("controller/create-volume", "Error Scheme");
    list.needs(&[CREATE_DELETE_VOLUME, EACH_ACCESS]);
    list.rule("A CreateVolume that was given up can be repeated, and the name leads to one volume");
    list.changes("given-up", |c| {
        for after in SOON {
            let request = c.create_request()?;
            c.cancelled(request.clone(), after)?;
            let first = c.ok_in_the_end(request.clone())?.volume.unwrap_or_default();
            let again = c.ok(request)?.volume.unwrap_or_default();
            same_id("volume", &first.volume_id, &again.volume_id)?;
        }
        Ok(())
    });
    list.about("controller/delete-volume", "Error Scheme");
    list.needs(&[CREATE_DELETE_VOLUME]);
    list.rule("A DeleteVolume that was given up can be repeated, and the volume is gone");
    list.changes("given-up", |c| {
        for after in SOON {
            let volume = c.volume()?;
            c.cancelled(c.delete_request(volume.id()), after)?;
            c.ok_in_the_end(c.delete_request(volume.id()))?;
            c.refused(c.validate_request(&volume), &[NotFound])?;
        }
        Ok(())
    });
    list.about("controller/create-volume", "Error Scheme");
    list.needs(&[CREATE_DELETE_VOLUME]);
    list.rule("A CreateVolume whose deadline has passed can be repeated, and the name leads to one volume");
    list.changes("deadline-too-short", |c| {
        for limit in [1, 3, 10] {
            let request = c.create_request()?;
            let first = c.send_within(Duration::from_millis(limit), request.clone())?;
            let volume = c.ok_in_the_end(request.clone())?.volume.unwrap_or_default();
            if let Ok(reply) = first {
                let id = reply.volume.unwrap_or_default().volume_id;
                same_id("volume", &volume.volume_id, &id)?;
            }
            let again = c.ok(request)?.volume.unwrap_or_default();
            same_id("volume", &volume.volume_id, &again.volume_id)?;
        }
        Ok(())
    });
    list.about("node/stage", "Error Scheme");
    list.needs(&[CREATE_DELETE_VOLUME, STAGE_UNSTAGE_VOLUME, EACH_ACCESS]);
    list.rule("NodeStageVolume and NodeUnstageVolume that were given up can be repeated");
    list.changes("given-up", |c| {
        let placed = c.placed()?;
        for after in SOON {
            c.cancelled(placed.stage(), after)?;
            c.ok_in_the_end(placed.stage())?;
            c.cancelled(placed.unstage(), after)?;
            c.ok_in_the_end(placed.unstage())?;
        }
        Ok(())
    });
    list.about("node/unpublish", "Error Scheme");
    list.needs(&[CREATE_DELETE_VOLUME, NODE_SERVICE, PATHS]);
    list.rule(
        "A NodeUnpublishVolume that was given up, or whose deadline has passed, can be repeated",
    );
    list.changes("given-up", |c| {
        let placed = c.staged()?;
        for after in SOON {
            c.ok_in_the_end(placed.publish())?;
            c.cancelled(placed.unpublish(), after)?;
            c.ok_in_the_end(placed.unpublish())?;
            c.is_gone(&placed)?;
        }
        Ok(())
    });
    list.about("controller/publish", "Error Scheme");
    list.needs(&[CREATE_DELETE_VOLUME, PUBLISH_UNPUBLISH_VOLUME, NODE_SERVICE]);
    list.rule(
        "ControllerPublishVolume and ControllerUnpublishVolume that were given up can be repeated",
    );
    list.changes("given-up", |c| {
        let volume = c.volume()?;
        for after in SOON {
            c.cancelled(c.attach_request(&volume), after)?;
            c.ok_in_the_end(c.attach_request(&volume))?;
            c.cancelled(c.detach_request(&volume), after)?;
            c.ok_in_the_end(c.detach_request(&volume))?;
        }
        Ok(())
    });
}

/// The way down of a published volume, to its deletion.
pub fn down(c: &Context, placed: &Placed) -> Verdict {
    c.unpublish(placed)?;
    c.ok(c.delete_request(placed.id())).map(drop)
}
