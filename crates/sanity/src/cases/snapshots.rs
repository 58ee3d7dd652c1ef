//! CreateSnapshot. Cases about existing snapshots are in `made_snapshots`.

use crate::vocabulary::*;
use std::time::Duration;

pub fn cases(list: &mut Cases) {
    list.about("controller/create-snapshot", "CreateSnapshot");
    list.needs(&[CREATE_DELETE_SNAPSHOT, CREATE_DELETE_VOLUME]);
    list.error("CreateSnapshot of a volume that does not exist is refused, best with NOT_FOUND");
    list.changes("of-unknown-volume", |c| {
        let request = c.snapshot_request(&c.deleted_volume()?);
        c.must_fail(request, &[NotFound])
    });
    list.rule("CreateSnapshot answers with an id, the source, the time of the snapshot and a size that is not negative");
    list.changes("describes-the-snapshot", |c| {
        let volume = c.volume()?;
        // The rules of the message say the rest.
        let snapshot = c.snapshot(&volume)?;
        let group = snapshot.group_snapshot_id;
        let expected = "no group, for the snapshot was not taken with one";
        ensure(group.is_empty(), expected, group)
    });
    list.rule("CreateSnapshot with the name and source of a snapshot that exists answers with that snapshot");
    list.changes("is-idempotent", |c| {
        let volume = c.volume()?;
        let request = c.snapshot_request(&volume);
        let first = c.made(&request)?;
        each(0..2, |_| same_snapshot(&first, &c.made(&request)?))?;
        c.lists_snapshots(&volume.id(), 1)
    });
    list.error(
        "CreateSnapshot with the name of a snapshot of another volume answers ALREADY_EXISTS",
    );
    list.changes("name-of-another-volume", |c| {
        let (one, other) = c.two_volumes()?;
        let mut request = c.snapshot_request(&one);
        c.ready(&request)?;
        request.source_volume_id = other.id();
        // ABORTED while the driver still has to do with the first.
        c.refused(request, &[AlreadyExists, Aborted])
    });
    list.rule("A snapshot becomes ready to use, best within half of the time of --case-limit, and stays so");
    list.under("The ready_to_use Parameter");
    list.changes("becomes-ready", |c| {
        let request = c.snapshot_request(&c.volume()?);
        let ready = match c.ready(&request) {
            // Processing may take hours.
            Err(Stop::Barred(late)) => {
                c.should(false, "a snapshot that becomes ready", late);
                return Ok(());
            }
            ready => ready?,
        };
        let mut again = vec![c.made(&request)?];
        if c.has(GET_SNAPSHOT) {
            again.extend(c.ok(c.get_snapshot(&ready.snapshot_id))?.snapshot);
        }
        if c.has(LIST_SNAPSHOTS) {
            again.extend(c.listed_with_id(&ready.snapshot_id)?);
        }
        // Whether the rest of it is the same is judged elsewhere.
        each(again, |one| {
            let actual = "it is not ready any more";
            ensure(one.ready_to_use, "ready_to_use, as it was before", actual)
        })
    });
    list.rule("Names of 128 bytes and of any Unicode are taken, and names that differ little are different snapshots");
    list.changes("takes-any-name", |c| {
        let request = c.snapshot_request(&c.volume()?);
        let stem = c.name();
        let long = |last: &str| format!("{stem}{}{last}", "n".repeat(127 - stem.len()));
        let (upper, lower) = (format!("{stem}-Snap"), format!("{stem}-snap"));
        let unicode = format!("{stem} снимок/ü\t!");
        c.one_of_each_name(&request, &[long("1"), long("2"), upper, lower, unicode])
    });
    list.error("Equal CreateSnapshot calls at the same time take one snapshot: each answers with it, or ABORTED");
    list.changes("equal-calls-at-once", |c| {
        let volume = c.volume()?;
        c.one_of_equal_calls(c.snapshot_request(&volume))?;
        c.lists_snapshots(&volume.id(), 1)
    });
    list.rule("CreateSnapshot calls with different names at the same time take a snapshot each");
    list.changes("different-calls-at-once", |c| {
        let volume = c.volume()?;
        c.one_of_each_call((0..4).map(|_| c.snapshot_request(&volume)).collect())
    });
    list.rule(
        "CreateSnapshot whose caller went away can be repeated, and there is one snapshot then",
    );
    list.changes("given-up", |c| {
        each(SOON, |after| {
            let volume = c.volume()?;
            c.given_up(c.snapshot_request(&volume), after)?;
            c.lists_snapshots(&volume.id(), 1)
        })
    });
    list.rule(
        "CreateSnapshot whose deadline passed can be repeated, and there is one snapshot then",
    );
    list.under("Timeouts").changes("deadline-too-short", |c| {
        let volume = c.volume()?;
        let request = c.snapshot_request(&volume);
        c.made_after_deadline(&request, Duration::from_millis(1))?;
        c.lists_snapshots(&volume.id(), 1)
    });
    list.rule(
        "A snapshot is the same after the driver was restarted, and its name still leads to it",
    );
    list.also(&[RESTART]).alone("survives-a-restart", |c| {
        let volume = c.volume()?;
        let request = c.snapshot_request(&volume);
        let before = c.ready(&request)?;
        c.restart_knowing(&volume)?;
        same_snapshot(&before, &c.made(&request)?)
    });
}
