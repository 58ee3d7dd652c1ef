//! The whole life of a volume: in order, out of order, and with a driver that is restarted between any two steps.

use super::get_volume::{as_created, names_the_node};
use super::list_volumes::entry_of;
use crate::vocabulary::*;
use std::time::Duration;

pub fn cases(list: &mut Cases) {
    list.about("lifecycle", "Volume Lifecycle");
    list.needs(&[CREATE_DELETE_VOLUME, NODE_SERVICE]);
    list.rule("A volume goes from create to publish, and back, twice");
    list.also(EACH_ACCESS)
        .changes("up-and-down", |c| each(0..2, |_| down(c, &c.published()?)));
    list.rule("Every step of a volume's way up and down can be repeated");
    list.also(EACH_ACCESS).changes("every-step-twice", |c| {
        let volume = c.volume()?;
        c.ok(volume.request.clone())?;
        let placed = c.place(volume)?;
        if c.has(PUBLISH_UNPUBLISH_VOLUME) {
            c.ok(c.attach_request(&placed.volume))?;
        }
        let [up, down] = ways(c);
        each(up.into_iter().chain(down), |step| {
            step(c, &placed)?;
            step(c, &placed)
        })
    });
    list.rule("DeleteVolume of a volume that is published answers OK, and the node should be cleaned up all the same, or FAILED_PRECONDITION, and it is");
    list.under("DeleteVolume Errors").also(&[PATHS]);
    list.changes("delete-while-published", |c| {
        let placed = c.published()?;
        let deleted = c.ok_or(c.delete_request(placed.id()), &[FailedPrecondition])?;
        let tidied = || match c.ok_or(placed.unpublish(), &[NotFound])? {
            Some(_) => c.is_gone(&placed),
            None => Ok(()),
        };
        match deleted {
            // What is left of such a volume at the node no sentence says.
            Some(_) => c.recommended(tidied),
            None => tidied(),
        }
    });
    list.rule(
        "A driver that is restarted between any two steps of a volume's way goes on where it was",
    );
    list.also(EACH_ACCESS).also(&[RESTART]);
    list.alone("restart-between-any-two-steps", |c| {
        let volume = c.volume()?;
        c.restart()?;
        is_the_same_node(c)?;
        let is_known = c.knows(&volume)?;
        let known = c.volume_or(volume.request.clone(), &[AlreadyExists])?;
        let known = known.filter(|known| is_known && known.id() == volume.id());
        let Some(known) = known else {
            // A driver without storage may keep nothing by design.
            let expected = "the volume is there after a restart of the driver";
            c.should(false, expected, "its name leads to a new one");
            return Ok(());
        };
        c.demands_of("controller/create-volume/context-is-constant", || {
            let context = |one: &Volume| pairs_text(&one.volume.volume_context);
            same("the volume context", &context(&volume), &context(&known))
        })?;
        c.demands_of("controller/create-volume/is-idempotent", || {
            as_created(c, &volume, &known.volume)
        })?;
        let placed = c.place(volume)?;
        c.restart()?;
        let shows_nodes = [
            PUBLISH_UNPUBLISH_VOLUME,
            LIST_VOLUMES_PUBLISHED_NODES,
            LIST_VOLUMES,
        ];
        if shows_nodes.into_iter().all(|need| c.has(need)) {
            let status = entry_of(c, &placed.id())?.status.unwrap_or_default();
            c.demands_of("controller/list-volumes/shows-published-nodes", || {
                names_the_node(c, &status.published_node_ids)
            })?;
        }
        if c.has(PUBLISH_UNPUBLISH_VOLUME) {
            let again = c.ok(c.attach_request(&placed.volume))?.publish_context;
            let before = pairs_text(&placed.publish_context);
            same("the publish_context", &before, &pairs_text(&again))?;
        }
        let [up, down] = ways(c);
        let restarted = |step: WayStep| {
            step(c, &placed)?;
            c.restart()?;
            step(c, &placed)
        };
        each(up, restarted)?;
        if c.has(GET_VOLUME_STATS) {
            c.ok(placed.stats())?;
        }
        each(down, restarted)
    });
    list.rule("A volume stays published and holds its data while the driver is restarted");
    list.also(EACH_ACCESS).also(&[RESTART, PATHS]);
    list.alone("restart-while-published", |c| {
        let placed = c.published()?;
        c.put_data(&placed, "before")?;
        c.restart()?;
        c.still_knows(&placed.volume)?;
        c.is_published(&placed)?;
        c.holds(&placed, "before")?;
        c.ok(placed.unpublish())?;
        c.is_gone(&placed)
    });
    list.rule("Calls that a restart cuts off can be repeated, and make no second volume");
    list.also(&[RESTART]).alone("restart-in-mid-call", |c| {
        let earlier = c.volume()?;
        let request = c.create_request()?;
        let (answer, restarted) = c.at_once(|| c.send(request.clone()), || c.restart())?;
        restarted?;
        c.still_knows(&earlier)?;
        let id = c.made(&request)?.volume_id;
        if let Ok(reply) = answer? {
            same_id("volume", &reply.volume.unwrap_or_default().volume_id, &id)?;
        }
        same_id("volume", &id, &c.made(&request)?.volume_id)
    });
    list.about("controller/create-volume", "Error Scheme");
    list.needs(&[CREATE_DELETE_VOLUME]);
    list.rule("A CreateVolume that was given up can be repeated, and the name leads to one volume");
    list.also(EACH_ACCESS).changes("given-up", |c| {
        each(SOON, |after| {
            let request = c.create_request()?;
            let first = c
                .given_up(request.clone(), after)?
                .volume
                .unwrap_or_default();
            same_id("volume", &first.volume_id, &c.made(&request)?.volume_id)
        })
    });
    list.about("controller/delete-volume", "Error Scheme");
    list.needs(&[CREATE_DELETE_VOLUME]);
    list.rule("A DeleteVolume that was given up can be repeated, and the volume is gone");
    list.changes("given-up", |c| {
        each(SOON, |after| {
            let volume = c.volume()?;
            c.given_up(c.delete_request(volume.id()), after)?;
            c.is_deleted(&volume)
        })
    });
    list.about("controller/create-volume", "Error Scheme");
    list.needs(&[CREATE_DELETE_VOLUME]);
    list.rule("A CreateVolume whose deadline has passed can be repeated, and the name leads to one volume");
    list.changes("deadline-too-short", |c| {
        each([1, 3, 10].map(Duration::from_millis), |deadline| {
            let request = c.create_request()?;
            let volume = c.made_after_deadline(&request, deadline)?;
            same_id("volume", &volume.volume_id, &c.made(&request)?.volume_id)
        })
    });
    list.about("node/stage", "Error Scheme");
    list.needs(&[CREATE_DELETE_VOLUME, STAGE_UNSTAGE_VOLUME]);
    list.rule("NodeStageVolume and NodeUnstageVolume that were given up can be repeated");
    list.also(EACH_ACCESS).changes("given-up", |c| {
        let placed = c.placed()?;
        each(SOON, |after| {
            c.given_up(placed.stage(), after)?;
            c.given_up(placed.unstage(), after)
        })
    });
    list.about("node/unpublish", "Error Scheme");
    list.needs(&[CREATE_DELETE_VOLUME, NODE_SERVICE, PATHS]);
    list.rule(
        "A NodeUnpublishVolume that was given up, or whose deadline has passed, can be repeated",
    );
    list.changes("given-up", |c| {
        let placed = c.staged()?;
        each(SOON, |after| {
            c.ok(placed.publish())?;
            c.given_up(placed.unpublish(), after)?;
            c.is_gone(&placed)
        })
    });
    list.about("controller/publish", "Error Scheme");
    list.needs(&[CREATE_DELETE_VOLUME, PUBLISH_UNPUBLISH_VOLUME, NODE_SERVICE]);
    list.rule(
        "ControllerPublishVolume and ControllerUnpublishVolume that were given up can be repeated",
    );
    list.changes("given-up", |c| {
        c.has_node_id()?;
        let volume = c.volume()?;
        each(SOON, |after| {
            c.given_up(c.attach_request(&volume), after)?;
            c.given_up(c.detach_request(&volume), after)
        })
    });
}

/// Demands that the node has the id that it had, by which callers go on to refer to it.
fn is_the_same_node(c: &Context) -> Verdict {
    if !c.has(PUBLISH_UNPUBLISH_VOLUME) {
        return Ok(());
    }
    let now = c.ok(v1::NodeGetInfoRequest {})?.node_id;
    c.demands_of("node/info/is-constant", || {
        same("the node_id", &c.driver().node_info.node_id, &now)
    })
}

/// A step of a volume's way.
type WayStep = fn(&Context, &Placed) -> Verdict;

/// The steps that the driver has of a volume's way up from where the controller has published it, and of its way down.
fn ways(c: &Context) -> [Vec<WayStep>; 2] {
    let stages = c.has(STAGE_UNSTAGE_VOLUME);
    let attaches = c.has(PUBLISH_UNPUBLISH_VOLUME);
    let up: [(bool, WayStep); 2] = [
        (stages, |c, placed| c.ok(placed.stage()).map(drop)),
        (true, |c, placed| c.ok(placed.publish()).map(drop)),
    ];
    let down: [(bool, WayStep); 4] = [
        (true, |c, placed| c.ok(placed.unpublish()).map(drop)),
        (stages, |c, placed| c.ok(placed.unstage()).map(drop)),
        (attaches, |c, placed| {
            c.ok(c.detach_request(&placed.volume)).map(drop)
        }),
        (true, |c, placed| c.delete_let_go(placed)),
    ];
    [&up[..], &down].map(|way| {
        let had = way.iter().filter(|(has, _)| *has);
        had.map(|(_, step)| *step).collect()
    })
}

/// The way down of a published volume, to its deletion.
pub fn down(c: &Context, placed: &Placed) -> Verdict {
    c.unpublish(placed)?;
    c.delete_let_go(placed)
}
