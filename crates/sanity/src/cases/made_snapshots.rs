//! DeleteSnapshot and GetSnapshot, and DeleteVolume of a volume that has snapshots.

use crate::vocabulary::*;

/// Ids as no driver makes them, which must do no harm.
pub fn strange_ids() -> Vec<String> {
    let paths = ["../../../etc/passwd", "/", "..", "%2e%2e%2f"];
    let others = ["a\nb", "$(id)", "снимок"];
    let short = paths.into_iter().chain(others).map(str::to_owned);
    short.chain(["x".repeat(128), "x".repeat(300)]).collect()
}

/// The case about snapshots that do not exist.
const UNKNOWN: &str = "controller/get-snapshot/unknown";

/// Demands that a snapshot which is deleted is no source any more.
pub fn no_source(c: &Context, gone: &v1::Snapshot) -> Verdict {
    let request = c.restore(gone)?;
    c.demands_of("controller/create-volume/from-unknown-snapshot", || {
        c.refused(request, &[NotFound]).map(drop)
    })
}

pub fn cases(list: &mut Cases) {
    // Before those that rest on it.
    list.about("controller/get-snapshot", "GetSnapshot");
    list.needs(&[GET_SNAPSHOT, CREATE_DELETE_SNAPSHOT, CREATE_DELETE_VOLUME]);
    list.error("GetSnapshot of a snapshot that does not exist answers NOT_FOUND");
    list.changes("unknown", |c| {
        let gone = c.deleted_snapshot()?;
        c.refused(c.get_snapshot(&gone.snapshot_id), &[NotFound])
    });
    list.about("controller/delete-snapshot", "DeleteSnapshot");
    list.needs(&[CREATE_DELETE_SNAPSHOT, CREATE_DELETE_VOLUME]);
    list.rule("DeleteSnapshot of a snapshot that is gone answers OK");
    list.changes("is-idempotent", |c| {
        let gone = c.deleted_snapshot()?;
        each(0..2, |_| c.ok(c.delete_snapshot(&gone.snapshot_id)))
    });
    list.rule(
        "A deleted snapshot is not listed, not shown and no source any more, and its name is free",
    );
    list.changes("deletes", |c| {
        let (volume, other) = c.two_volumes()?;
        let mut request = c.snapshot_request(&volume);
        let snapshot = c.ready(&request)?;
        let id = &snapshot.snapshot_id;
        c.ok(c.delete_snapshot(id))?;
        c.lists_snapshots(&volume.id(), 0)?;
        if c.has(GET_SNAPSHOT) {
            c.demands_of(UNKNOWN, || c.refused(c.get_snapshot(id), &[NotFound]))?;
        }
        no_source(c, &snapshot)?;
        request.source_volume_id = other.id();
        c.ok(request)
    });
    list.rule("DeleteSnapshot deletes one snapshot of a volume, and neither the volume nor its other snapshots");
    list.changes("leaves-the-others", |c| {
        let volume = c.volume()?;
        let gone = c.snapshot(&volume)?;
        let request = c.snapshot_request(&volume);
        let kept = c.made(&request)?;
        c.ok(c.delete_snapshot(&gone.snapshot_id))?;
        same_snapshot(&kept, &c.made(&request)?)?;
        c.is_made_again(&volume)
    });
    list.error("Equal DeleteSnapshot calls at the same time each answer OK or ABORTED, and the snapshot is gone");
    list.changes("equal-calls-at-once", |c| {
        let volume = c.volume()?;
        let snapshot = c.snapshot(&volume)?;
        c.equal_calls(c.delete_snapshot(&snapshot.snapshot_id), 6)?;
        c.demands_of("controller/delete-snapshot/deletes", || {
            c.lists_snapshots(&volume.id(), 0)
        })
    });
    list.error("DeleteSnapshot and CreateSnapshot of one name at the same time leave the snapshot whole, or none");
    list.changes("while-created-again", |c| {
        let volume = c.volume()?;
        let request = c.snapshot_request(&volume);
        let first = c.ready(&request)?;
        let (deleted, created) = c.at_once(
            || c.send(c.delete_snapshot(&first.snapshot_id)),
            || c.send(request.clone()),
        )?;
        ok_or_aborted(deleted?)?;
        ok_or_aborted(created?)?;
        // Whichever came first, the name leads to a snapshot that can be used.
        let snapshot = c.ready(&request)?;
        c.ok(c.restore(&snapshot)?)?;
        c.demands_of("controller/create-snapshot/is-idempotent", || {
            c.lists_snapshots(&volume.id(), 1)
        })
    });
    list.rule("DeleteSnapshot whose caller went away can be repeated");
    list.changes("given-up", |c| {
        let volume = c.volume()?;
        each(SOON, |after| {
            let snapshot = c.snapshot(&volume)?;
            c.given_up(c.delete_snapshot(&snapshot.snapshot_id), after)
        })
    });
    list.needs(&[CREATE_DELETE_SNAPSHOT]);
    list.rule("DeleteSnapshot with an id that no driver makes answers OK, or INVALID_ARGUMENT, and does no harm");
    list.changes("strange-ids", |c| {
        each(strange_ids(), |id| {
            c.ok_or(c.delete_snapshot(&id), &[InvalidArgument])
        })
    });
    list.about("controller/delete-volume", "DeleteVolume");
    list.needs(&[CREATE_DELETE_SNAPSHOT, CREATE_DELETE_VOLUME]);
    list.error("DeleteVolume of a volume with snapshots answers FAILED_PRECONDITION, or OK and leaves them whole");
    list.changes("leaves-snapshots-whole", |c| {
        let (volume, snapshot) = c.volume_and_snapshot()?;
        let delete = c.delete_request(volume.id());
        if c.ok_or(delete, &[FailedPrecondition])?.is_none() {
            return Ok(());
        }
        // The one thing that shows a snapshot to every driver which takes them.
        c.ok(c.restore(&snapshot)?)?;
        c.lists_snapshots(&volume.id(), 1)
    });
    list.about("controller/get-snapshot", "GetSnapshot");
    list.needs(&[GET_SNAPSHOT, CREATE_DELETE_SNAPSHOT, CREATE_DELETE_VOLUME]);
    list.rule(
        "GetSnapshot answers with the snapshot as CreateSnapshot does, also before it is ready",
    );
    list.changes("agrees-with-create-snapshot", |c| {
        let request = c.snapshot_request(&c.volume()?);
        let first = c.made(&request)?;
        let get = c.get_snapshot(&first.snapshot_id);
        let now = c.ok(get.clone())?.snapshot.unwrap_or_default();
        same_snapshot(&first, &now)?;
        let ready = c.ready(&request)?;
        each(c.equal_calls(get, 4)?, |reply| {
            same_snapshot(&ready, &reply.snapshot.unwrap_or_default())
        })
    });
    list.needs(&[GET_SNAPSHOT]);
    list.error(
        "GetSnapshot with an id that no driver makes answers NOT_FOUND, or INVALID_ARGUMENT",
    );
    list.reads("strange-ids", |c| {
        c.demands_of(UNKNOWN, || {
            each(strange_ids(), |id| {
                c.refused(c.get_snapshot(&id), &[NotFound, InvalidArgument])
            })
        })
    });
}
