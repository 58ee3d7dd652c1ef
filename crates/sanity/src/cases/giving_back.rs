//! What a driver takes for a call or for a volume, and must give back: room, places on the node, locks.

use super::named;
use super::protocol::STAYS_THERE;
use crate::case::CaseKind;
use crate::vocabulary::*;
use csi_proto::lock::lock;
use std::time::{Duration, Instant};

/// How often something is made and taken back: more often than a driver with small limits has room for it at a time.
const OFTEN: usize = 8;

/// The pauses before something is tried again for which the driver lacks room: a driver may free room only some time after a
/// volume was deleted.
const PAUSES: [u64; 9] = [50, 100, 200, 400, 800, 1600, 2000, 2000, 2000];

/// Does something often, but only for a part of the time that a case has.
fn often(c: &Context, mut work: impl FnMut() -> Verdict) -> Verdict {
    let end = Instant::now() + c.settings().case_limit / 4;
    let mut pauses = PAUSES.map(Duration::from_millis).into_iter();
    let rounds = (0..OFTEN).take_while(|round| *round == 0 || Instant::now() < end);
    each(rounds, |_| {
        loop {
            let ended = work();
            let is_lacking = ended.is_err() && c.dependencies().shortage.is_some();
            let Some(pause) = is_lacking.then(|| pauses.next()).flatten() else {
                return ended;
            };
            c.pause(pause)?;
        }
    })
}

/// Skips a case about room and places where something is known to be still there.
fn is_tidy(c: &Context) -> Verdict {
    let names = |of: &[String]| {
        let cases = of.iter().filter_map(|one| named(one));
        Vec::from_iter(cases.map(|case| case.name.as_str()))
    };
    let left = Vec::from_iter(lock(&c.run.left).iter().map(|(case, _)| case.clone()));
    let reason = "something that cases made could not be taken down";
    unjudged_unless(left.is_empty(), names(&left), reason)?;
    let losses = lock(&c.run.losses);
    let (killers, was_there) = (names(losses.killers()), losses.count() == 0);
    let about = killers.into_iter().chain([STAYS_THERE]);
    let reason = "the driver went away, and something may be left of that";
    unjudged_unless(was_there, about, reason)
}

pub fn cases(list: &mut Cases) {
    list.about("lifecycle", "DeleteVolume");
    list.needs(&[CREATE_DELETE_VOLUME]);
    list.rule("The room that deleted volumes took is there again, as is recommended: what could be created at first can be created at last");
    list.add(CaseKind::Closing, "gives-room-back", |c| {
        is_tidy(c)?;
        let count = lock(&c.run.seen).most_volumes.clamp(1, 2);
        let mut volumes: Vec<Volume> = Vec::new();
        let delete = |one: Volume| c.ok(c.delete_request(one.id()));
        often(c, || {
            // Those of a round that lacked room come first.
            each(volumes.drain(..), delete)?;
            each(0..count, |_| c.volume().map(|one| volumes.push(one)))?;
            each(volumes.drain(..), delete)
        })
    });
    list.rule("The places of unpublished volumes on a node are there again: what could be published at first can be published at last");
    list.under("ControllerUnpublishVolume");
    list.also(&[PUBLISH_UNPUBLISH_VOLUME, NODE_SERVICE]);
    list.add(CaseKind::Closing, "gives-places-back", |c| {
        is_tidy(c)?;
        let mut unattached = None;
        often(c, || {
            let (volume, request) = match unattached.take() {
                Some(both) => both,
                None => c.volume_to_attach()?,
            };
            unattached = Some((volume.clone(), request.clone()));
            c.ok(request)?;
            unattached = None;
            c.ok(c.detach_request(&volume))?;
            c.ok(c.delete_request(volume.id())).map(drop)
        })
    });
    list.rule("A CreateVolume that was refused is over: it keeps no later call of that name from its work");
    list.under("Error Scheme");
    list.changes("gives-locks-back", |c| {
        let volume = c.volume()?;
        let mut other = volume.request.clone();
        other.capacity_range = range(3 * c.size(), 2 * c.size());
        let refused = c.send(other)?;
        skip_unless(
            refused.is_err(),
            "the driver takes a range that has no size",
        )?;
        match c.send(volume.request)? {
            Err(status) if status.code() == Aborted => {
                let expected = "CreateVolume does not answer ABORTED, for no call is under way";
                Err(Stop::failed(expected, status_text(&status)))
            }
            _ => Ok(()),
        }
    });
}
