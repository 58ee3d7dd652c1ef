//! DeleteSnapshot and GetSnapshot, and DeleteVolume of a volume that has snapshots.

use super::snapshots::id_of;
use crate::tools::sanity::answers::ok_or_aborted;
use crate::tools::sanity::case::{Case, case, ensure, same_id};
use crate::tools::sanity::need::needs::{
    CREATE_DELETE_SNAPSHOT, CREATE_DELETE_VOLUME, GET_SNAPSHOT,
};
use crate::tools::sanity::sources::{SOON, one_id, same_snapshot};
use crate::tools::sanity::verdict::status_text;
use tonic::Code;

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

pub const CASES: &[Case] = &[
    case!(
        Changes,
        "controller/delete-snapshot/is-idempotent",
        "DeleteSnapshot of a snapshot that is gone answers OK",
        "DeleteSnapshot",
        [CREATE_DELETE_SNAPSHOT, CREATE_DELETE_VOLUME],
        |c| {
            let gone = c.deleted_snapshot()?;
            for _ in 0..2 {
                c.ok(c.delete_snapshot(&gone.snapshot_id))?;
            }
        }
    ),
    case!(
        Changes,
        "controller/delete-snapshot/deletes",
        "A deleted snapshot is not listed, not shown and no source any more, and its name is free",
        "DeleteSnapshot",
        [CREATE_DELETE_SNAPSHOT, CREATE_DELETE_VOLUME],
        |c| {
            let (volume, other) = c.two_volumes()?;
            let mut request = c.snapshot_request(&volume);
            let snapshot = c.ready_snapshot(request.clone())?;
            c.ok_in_the_end(c.delete_snapshot(&snapshot.snapshot_id))?;
            c.lists_snapshots(&volume.id(), 0)?;
            if c.has(GET_SNAPSHOT) {
                let request = c.get_snapshot(&snapshot.snapshot_id);
                c.refused(request, &[Code::NotFound])?;
            }
            c.refused(c.restore(&snapshot)?, &[Code::NotFound])?;
            request.source_volume_id = other.id();
            c.ok(request)?;
        }
    ),
    case!(
        Changes,
        "controller/delete-snapshot/leaves-the-others",
        "DeleteSnapshot deletes one snapshot of a volume, and neither the volume nor its other snapshots",
        "DeleteSnapshot",
        [CREATE_DELETE_SNAPSHOT, CREATE_DELETE_VOLUME],
        |c| {
            let volume = c.volume()?;
            let gone = c.snapshot(&volume)?;
            let request = c.snapshot_request(&volume);
            let kept = c.ok(request.clone())?.snapshot.unwrap_or_default();
            c.ok_in_the_end(c.delete_snapshot(&gone.snapshot_id))?;
            let now = c.ok(request)?.snapshot.unwrap_or_default();
            same_snapshot(&kept, &now)?;
            let again = c.ok(volume.request.clone())?.volume.unwrap_or_default();
            same_id("volume", &volume.id(), &again.volume_id)?;
        }
    ),
    case!(
        Changes,
        "controller/delete-snapshot/equal-calls-at-once",
        "Equal DeleteSnapshot calls at the same time each answer OK or ABORTED, and the snapshot is gone",
        "DeleteSnapshot Errors",
        [CREATE_DELETE_SNAPSHOT, CREATE_DELETE_VOLUME],
        |c| {
            let volume = c.volume()?;
            let snapshot = c.snapshot(&volume)?;
            let request = c.delete_snapshot(&snapshot.snapshot_id);
            c.equal_calls(&request, 6)?;
            c.ok_in_the_end(request)?;
            c.lists_snapshots(&volume.id(), 0)?;
        }
    ),
    case!(
        Changes,
        "controller/delete-snapshot/while-created-again",
        "DeleteSnapshot and CreateSnapshot of one name at the same time leave the snapshot whole, or none",
        "DeleteSnapshot Errors",
        [CREATE_DELETE_SNAPSHOT, CREATE_DELETE_VOLUME],
        |c| {
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
            c.lists_snapshots(&volume.id(), 1)?;
        }
    ),
    case!(
        Changes,
        "controller/delete-snapshot/given-up",
        "DeleteSnapshot whose caller went away can be repeated",
        "DeleteSnapshot",
        [CREATE_DELETE_SNAPSHOT, CREATE_DELETE_VOLUME],
        |c| {
            let volume = c.volume()?;
            for after in SOON {
                let snapshot = c.snapshot(&volume)?;
                let request = c.delete_snapshot(&snapshot.snapshot_id);
                c.cancelled(request.clone(), after)?;
                c.ok_in_the_end(request)?;
            }
        }
    ),
    case!(
        Changes,
        "controller/delete-snapshot/strange-ids",
        "DeleteSnapshot with an id that no driver makes answers OK, or INVALID_ARGUMENT, and does no harm",
        "DeleteSnapshot",
        [CREATE_DELETE_SNAPSHOT],
        |c| {
            for id in strange_ids() {
                c.ok_or_in_the_end(c.delete_snapshot(&id), &[Code::InvalidArgument])?;
            }
        }
    ),
    case!(
        Changes,
        "controller/delete-volume/leaves-snapshots-whole",
        "DeleteVolume of a volume with snapshots answers FAILED_PRECONDITION, or OK and leaves them whole",
        "DeleteVolume Errors",
        [CREATE_DELETE_SNAPSHOT, CREATE_DELETE_VOLUME],
        |c| {
            let volume = c.volume()?;
            let snapshot = c.ready_snapshot(c.snapshot_request(&volume))?;
            match c.send(c.delete_request(volume.id()))? {
                Ok(_) => {
                    // The one thing that shows a snapshot to every driver which takes them.
                    c.ok(c.restore(&snapshot)?)?;
                    c.lists_snapshots(&volume.id(), 1)?;
                }
                Err(status) => ensure(
                    status.code() == Code::FailedPrecondition,
                    "DeleteVolume answers OK or FAILED_PRECONDITION",
                    status_text(&status),
                )?,
            }
        }
    ),
    case!(
        Changes,
        "controller/get-snapshot/unknown",
        "GetSnapshot of a snapshot that does not exist answers NOT_FOUND",
        "GetSnapshot Errors",
        [GET_SNAPSHOT, CREATE_DELETE_SNAPSHOT, CREATE_DELETE_VOLUME],
        |c| {
            let gone = c.deleted_snapshot()?;
            let request = c.get_snapshot(&gone.snapshot_id);
            c.refused(request, &[Code::NotFound])?;
        }
    ),
    case!(
        Changes,
        "controller/get-snapshot/agrees-with-create-snapshot",
        "GetSnapshot answers with the snapshot as CreateSnapshot does, also before it is ready",
        "GetSnapshot",
        [GET_SNAPSHOT, CREATE_DELETE_SNAPSHOT, CREATE_DELETE_VOLUME],
        |c| {
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
        }
    ),
    case!(
        Reads,
        "controller/get-snapshot/strange-ids",
        "GetSnapshot with an id that no driver makes answers NOT_FOUND, or INVALID_ARGUMENT",
        "GetSnapshot Errors",
        [GET_SNAPSHOT],
        |c| {
            for id in strange_ids() {
                let codes = [Code::NotFound, Code::InvalidArgument];
                c.refused_in_the_end(c.get_snapshot(&id), &codes)?;
            }
        }
    ),
];
