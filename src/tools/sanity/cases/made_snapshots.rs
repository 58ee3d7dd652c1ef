//! DeleteSnapshot and GetSnapshot, and DeleteVolume of a volume that has snapshots.

use super::snapshots::id_of;
use crate::tools::sanity::vocabulary::*;

/// Ids as no driver makes them, which must do no harm.
pub fn strange_ids() -> Vec<String> {
    [
        "../../../etc/passwd",
        "/",
        "..",
        "%2e%2e%2f",
        "a\nb",
        "$(id)",
        "снимок",
    ]
    .map(str::to_owned)
    .into_iter()
    .chain(["x".repeat(128), "x".repeat(300)])
    .collect()
}

/// The cases.
pub fn cases(list: &mut Cases) {
    list.about("controller/delete-snapshot", "DeleteSnapshot");
    list.needs(&[CREATE_DELETE_SNAPSHOT, CREATE_DELETE_VOLUME]);
    list.rule("DeleteSnapshot of a snapshot that is gone answers OK");
    list.changes("is-idempotent", |c| {
        let gone = c.deleted_snapshot()?;
        for _ in 0..2 {
            c.ok(c.delete_snapshot(&gone.snapshot_id))?;
        }
        Ok(())
    });
    list.rule(
        "A deleted snapshot is not listed, not shown and no source any more, and its name is free",
    );
    list.changes("deletes", |c| {
        let (volume, other) = c.two_volumes()?;
        let mut request = c.snapshot_request(&volume);
        let snapshot = c.ready_snapshot(request.clone())?;
        c.ok_in_the_end(c.delete_snapshot(&snapshot.snapshot_id))?;
        c.lists_snapshots(&volume.id(), 0)?;
        if c.has(GET_SNAPSHOT) {
            let request = c.get_snapshot(&snapshot.snapshot_id);
            c.refused(request, &[NotFound])?;
        }
        c.refused(c.restore(&snapshot)?, &[NotFound])?;
        request.source_volume_id = other.id();
        c.ok(request)
    });
    list.rule("DeleteSnapshot deletes one snapshot of a volume, and neither the volume nor its other snapshots");
    list.changes("leaves-the-others", |c| {
        let volume = c.volume()?;
        let gone = c.snapshot(&volume)?;
        let request = c.snapshot_request(&volume);
        let kept = c.ok(request.clone())?.snapshot.unwrap_or_default();
        c.ok_in_the_end(c.delete_snapshot(&gone.snapshot_id))?;
        let now = c.ok(request)?.snapshot.unwrap_or_default();
        same_snapshot(&kept, &now)?;
        let again = c.ok(volume.request.clone())?.volume.unwrap_or_default();
        same_id("volume", &volume.id(), &again.volume_id)
    });
    list.error_rule("Equal DeleteSnapshot calls at the same time each answer OK or ABORTED, and the snapshot is gone");
    list.changes("equal-calls-at-once", |c| {
        let volume = c.volume()?;
        let snapshot = c.snapshot(&volume)?;
        let request = c.delete_snapshot(&snapshot.snapshot_id);
        c.equal_calls(&request, 6)?;
        c.ok_in_the_end(request)?;
        c.lists_snapshots(&volume.id(), 0)
    });
    list.error_rule("DeleteSnapshot and CreateSnapshot of one name at the same time leave the snapshot whole, or none");
    list.changes("while-created-again", |c| {
        let volume = c.volume()?;
        let request = c.snapshot_request(&volume);
        let first = c.ready_snapshot(request.clone())?;
        let (deleted, created) = c.at_once(
            || c.send(c.delete_snapshot(&first.snapshot_id)),
            || c.send(request.clone()),
        )?;
        ok_or_aborted(deleted?)?;
        one_id(&[created?], id_of)?;
        // Whichever came first, the name leads to a snapshot that can be used.
        let snapshot = c.ready_snapshot(request)?;
        c.ok_in_the_end(c.restore(&snapshot)?)?;
        c.lists_snapshots(&volume.id(), 1)
    });
    list.rule("DeleteSnapshot whose caller went away can be repeated");
    list.changes("given-up", |c| {
        let volume = c.volume()?;
        for after in SOON {
            let snapshot = c.snapshot(&volume)?;
            let request = c.delete_snapshot(&snapshot.snapshot_id);
            c.cancelled(request.clone(), after)?;
            c.ok_in_the_end(request)?;
        }
        Ok(())
    });
    list.needs(&[CREATE_DELETE_SNAPSHOT]);
    list.rule("DeleteSnapshot with an id that no driver makes answers OK, or INVALID_ARGUMENT, and does no harm");
    list.changes("strange-ids", |c| {
        for id in strange_ids() {
            c.ok_or_in_the_end(c.delete_snapshot(&id), &[InvalidArgument])?;
        }
        Ok(())
    });
    list.about("controller/delete-volume", "DeleteVolume");
    list.needs(&[CREATE_DELETE_SNAPSHOT, CREATE_DELETE_VOLUME]);
    list.error_rule("DeleteVolume of a volume with snapshots answers FAILED_PRECONDITION, or OK and leaves them whole");
    list.changes("leaves-snapshots-whole", |c| {
        let volume = c.volume()?;
        let snapshot = c.ready_snapshot(c.snapshot_request(&volume))?;
        match c.send(c.delete_request(volume.id()))? {
            Ok(_) => {
                // The one thing that shows a snapshot to every driver which takes them.
                c.ok(c.restore(&snapshot)?)?;
                c.lists_snapshots(&volume.id(), 1)?;
            }
            Err(status) => ensure(
                status.code() == FailedPrecondition,
                "DeleteVolume answers OK or FAILED_PRECONDITION",
                status_text(&status),
            )?,
        }
        Ok(())
    });
    list.about("controller/get-snapshot", "GetSnapshot");
    list.needs(&[GET_SNAPSHOT, CREATE_DELETE_SNAPSHOT, CREATE_DELETE_VOLUME]);
    list.error_rule("GetSnapshot of a snapshot that does not exist answers NOT_FOUND");
    list.changes("unknown", |c| {
        let gone = c.deleted_snapshot()?;
        let request = c.get_snapshot(&gone.snapshot_id);
        c.refused(request, &[NotFound])
    });
    list.rule(
        "GetSnapshot answers with the snapshot as CreateSnapshot does, also before it is ready",
    );
    list.changes("agrees-with-create-snapshot", |c| {
        let volume = c.volume()?;
        let request = c.snapshot_request(&volume);
        let first = c.ok(request.clone())?.snapshot.unwrap_or_default();
        let get = c.get_snapshot(&first.snapshot_id);
        let now = c.ok(get.clone())?.snapshot.unwrap_or_default();
        same_snapshot(&first, &now)?;
        let ready = c.ready_snapshot(request)?;
        let mut replies = c.equal_calls(&get, 4)?;
        replies.push(c.ok_in_the_end(get)?);
        for reply in replies {
            same_snapshot(&ready, &reply.snapshot.unwrap_or_default())?;
        }
        Ok(())
    });
    list.needs(&[GET_SNAPSHOT]);
    list.error_rule(
        "GetSnapshot with an id that no driver makes answers NOT_FOUND, or INVALID_ARGUMENT",
    );
    list.reads("strange-ids", |c| {
        for id in strange_ids() {
            let codes = [NotFound, InvalidArgument];
            c.refused_in_the_end(c.get_snapshot(&id), &codes)?;
        }
        Ok(())
    });
}
