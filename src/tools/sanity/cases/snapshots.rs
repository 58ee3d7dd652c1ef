//! CreateSnapshot. Cases about existing snapshots are in `made_snapshots`.

use crate::tools::sanity::vocabulary::*;
use std::collections::BTreeSet;
use std::time::Duration;

/// The id of the snapshot that was answered with.
pub fn id_of(reply: &v1::CreateSnapshotResponse) -> String {
    let snapshot = reply.snapshot.as_ref();
    snapshot.map_or_else(String::new, |one| one.snapshot_id.clone())
}

/// The cases.
pub fn cases(list: &mut Cases) {
    list.about("controller/create-snapshot", "CreateSnapshot");
    list.needs(&[CREATE_DELETE_SNAPSHOT, CREATE_DELETE_VOLUME]);
    list.error_rule(
        "CreateSnapshot of a volume that does not exist is refused, best with NOT_FOUND",
    );
    list.changes("of-unknown-volume", |c| {
        let volume = c.deleted_volume()?;
        let codes = [NotFound, InvalidArgument, FailedPrecondition];
        let status = c.refused(c.snapshot_request(&volume), &codes)?;
        let is_best = status.code() == NotFound;
        c.should(
            is_best,
            "CreateSnapshot answers NOT_FOUND",
            status_text(&status),
        );
        Ok(())
    });
    list.rule("CreateSnapshot answers with an id, the source, the time of the snapshot and a size that is not negative");
    list.changes("describes-the-snapshot", |c| {
        let volume = c.volume()?;
        // The rules of the message say the rest.
        let snapshot = c.snapshot(&volume)?;
        ensure(
            snapshot.source_volume_id == volume.id(),
            &format!("source_volume_id {}", volume.id()),
            snapshot.source_volume_id,
        )?;
        ensure(
            snapshot.group_snapshot_id.is_empty(),
            "no group, for the snapshot was not taken with one",
            snapshot.group_snapshot_id,
        )
    });
    list.rule("CreateSnapshot with the name and source of a snapshot that exists answers with that snapshot");
    list.changes("is-idempotent", |c| {
        let volume = c.volume()?;
        let request = c.snapshot_request(&volume);
        let first = c.ok(request.clone())?.snapshot.unwrap_or_default();
        for _ in 0..2 {
            let again = c.ok(request.clone())?.snapshot.unwrap_or_default();
            same_snapshot(&first, &again)?;
        }
        c.lists_snapshots(&volume.id(), 1)
    });
    list.error_rule(
        "CreateSnapshot with the name of a snapshot of another volume answers ALREADY_EXISTS",
    );
    list.changes("name-of-another-volume", |c| {
        let (one, other) = c.two_volumes()?;
        let mut request = c.snapshot_request(&one);
        c.ready_snapshot(request.clone())?;
        request.source_volume_id = other.id();
        // ABORTED while the driver still has to do with the first.
        c.refused(request, &[AlreadyExists, Aborted])
    });
    list.rule("A snapshot becomes ready to use, and stays so");
    list.under("The ready_to_use Parameter")
        .changes("becomes-ready", |c| {
            let volume = c.volume()?;
            let request = c.snapshot_request(&volume);
            let ready = c.ready_snapshot(request.clone())?;
            let again = c.ok(request)?.snapshot.unwrap_or_default();
            same_snapshot(&ready, &again)?;
            if c.has(LIST_SNAPSHOTS) {
                let mut request = c.list_snapshots();
                request.snapshot_id.clone_from(&ready.snapshot_id);
                for listed in c.listed(request)? {
                    same_snapshot(&ready, &listed)?;
                }
            }
            Ok(())
        });
    list.rule("Names of 128 bytes and of any Unicode are taken, and names that differ little are different snapshots");
    list.changes("takes-any-name", |c| {
        let volume = c.volume()?;
        let stem = c.name();
        let long = |last: &str| format!("{stem}{}{last}", "n".repeat(127 - stem.len()));
        let names = [
            long("1"),
            long("2"),
            format!("{stem}-Snap"),
            format!("{stem}-snap"),
            format!("{stem} снимок/ü\t!"),
        ];
        let mut ids = BTreeSet::new();
        for name in names {
            let mut request = c.snapshot_request(&volume);
            request.name = name.clone();
            let id = id_of(&c.ok(request)?);
            let found = format!("{id}, the one of a name before it");
            ensure(
                ids.insert(id),
                &format!("a snapshot of its own for {name:?}"),
                found,
            )?;
        }
        Ok(())
    });
    list.error_rule("Equal CreateSnapshot calls at the same time take one snapshot: each answers with it, or ABORTED");
    list.changes("equal-calls-at-once", |c| {
        let volume = c.volume()?;
        let request = c.snapshot_request(&volume);
        let mut answers = c.together(vec![request.clone(); 6])?;
        answers.push(Ok(c.ok_in_the_end(request)?));
        one_id(&answers, id_of)?;
        c.lists_snapshots(&volume.id(), 1)
    });
    list.rule("CreateSnapshot calls with different names at the same time take a snapshot each");
    list.changes("different-calls-at-once", |c| {
        let volume = c.volume()?;
        let requests: Vec<_> = (0..4).map(|_| c.snapshot_request(&volume)).collect();
        let mut ids = BTreeSet::new();
        // A driver may do one of them at a time.
        for reply in c.all_ok_in_the_end(requests)? {
            let id = id_of(&reply);
            let expected = "an id for each name";
            ensure(
                ids.insert(id.clone()),
                expected,
                format!("{id} for two names"),
            )?;
        }
        Ok(())
    });
    list.rule(
        "CreateSnapshot whose caller went away can be repeated, and there is one snapshot then",
    );
    list.changes("given-up", |c| {
        for after in SOON {
            let volume = c.volume()?;
            let request = c.snapshot_request(&volume);
            c.cancelled(request.clone(), after)?;
            c.ok_in_the_end(request)?;
            c.lists_snapshots(&volume.id(), 1)?;
        }
        Ok(())
    });
    list.rule(
        "CreateSnapshot whose deadline passed can be repeated, and there is one snapshot then",
    );
    list.under("Timeouts").changes("deadline-too-short", |c| {
        let volume = c.volume()?;
        let request = c.snapshot_request(&volume);
        let short = Duration::from_millis(1);
        let first = c.send_within(short, request.clone())?;
        let again = c.ok_in_the_end(request)?;
        if let Ok(first) = first {
            same_id("snapshot", &id_of(&first), &id_of(&again))?;
        }
        c.lists_snapshots(&volume.id(), 1)
    });
    list.rule(
        "A snapshot is the same after the driver was restarted, and its name still leads to it",
    );
    list.also(&[RESTART]).alone("survives-a-restart", |c| {
        let volume = c.volume()?;
        let request = c.snapshot_request(&volume);
        let before = c.ready_snapshot(request.clone())?;
        c.restart()?;
        let now = c.ok_in_the_end(request)?.snapshot.unwrap_or_default();
        same_snapshot(&before, &now)
    });
}
