//! ListSnapshots.

use crate::tools::sanity::vocabulary::*;
use std::collections::BTreeSet;

/// The one snapshot among those listed.
fn only(listed: &[v1::Snapshot], id: &str) -> Result<v1::Snapshot, Stop> {
    let ids: Vec<_> = listed.iter().map(|one| one.snapshot_id.as_str()).collect();
    let expected = format!("ListSnapshots finds {id} and nothing else");
    ensure(
        ids == [id],
        &expected,
        format!("it found [{}]", ids.join(", ")),
    )?;
    Ok(listed[0].clone())
}

/// The cases.
pub fn cases(list: &mut Cases) {
    list.about("controller/list-snapshots", "ListSnapshots");
    list.needs(&[LIST_SNAPSHOTS, CREATE_DELETE_SNAPSHOT, CREATE_DELETE_VOLUME]);
    list.rule("ListSnapshots without a filter has every snapshot, as CreateSnapshot described it, and none that is deleted");
    list.alone("has-every-snapshot", |c| {
        let (one, other) = c.two_volumes()?;
        let gone = c.snapshot(&one)?;
        c.ok_in_the_end(c.delete_snapshot(&gone.snapshot_id))?;
        let made = [c.snapshot(&one)?, c.snapshot(&one)?, c.snapshot(&other)?];
        let listed = c.listed(c.list_snapshots())?;
        for snapshot in &made {
            let mut found = listed
                .iter()
                .filter(|one| one.snapshot_id == snapshot.snapshot_id);
            let id = &snapshot.snapshot_id;
            match (found.next(), found.next()) {
                (Some(found), None) => same_snapshot(snapshot, found)?,
                (None, _) => {
                    let actual = format!("{id} is not among the {} it lists", listed.len());
                    return Err(Stop::failed("ListSnapshots has the new snapshot", actual));
                }
                (Some(_), Some(_)) => {
                    let actual = format!("{id} is there twice");
                    return Err(Stop::failed("each snapshot is listed once", actual));
                }
            }
        }
        let is_gone = listed.iter().all(|one| one.snapshot_id != gone.snapshot_id);
        ensure(
            is_gone,
            "a deleted snapshot is not listed",
            gone.snapshot_id,
        )
    });
    list.rule("ListSnapshots with a snapshot_id has that snapshot and no other");
    list.changes("of-one-snapshot", |c| {
        let volume = c.volume()?;
        let wanted = c.snapshot(&volume)?;
        c.snapshot(&volume)?;
        let mut request = c.list_snapshots();
        request.snapshot_id.clone_from(&wanted.snapshot_id);
        let listed = c.listed(request)?;
        same_snapshot(&wanted, &only(&listed, &wanted.snapshot_id)?)
    });
    list.rule(
        "ListSnapshots with a source_volume_id has the snapshots of that volume and no other",
    );
    list.changes("of-one-volume", |c| {
        let (one, other) = c.two_volumes()?;
        let first = c.snapshot(&one)?;
        let second = c.snapshot(&one)?;
        let third = c.snapshot(&other)?;
        let listed = c.listed_of(&one.id())?;
        let found: BTreeSet<_> = listed.iter().map(|one| &one.snapshot_id).collect();
        let wanted = BTreeSet::from([&first.snapshot_id, &second.snapshot_id]);
        let actual = format!("{found:?}");
        ensure(
            found == wanted && listed.len() == 2,
            &format!("{wanted:?}"),
            actual,
        )?;
        let listed = c.listed_of(&other.id())?;
        only(&listed, &third.snapshot_id)
    });
    list.rule("ListSnapshots with a snapshot_id and a source_volume_id has only what fits both");
    list.changes("of-a-snapshot-and-another-volume", |c| {
        let (one, other) = c.two_volumes()?;
        let snapshot = c.snapshot(&one)?;
        let mut request = c.list_snapshots();
        request.snapshot_id.clone_from(&snapshot.snapshot_id);
        request.source_volume_id = one.id();
        only(&c.listed(request.clone())?, &snapshot.snapshot_id)?;
        request.source_volume_id = other.id();
        let count = c.listed(request)?.len();
        ensure(
            count == 0,
            "no snapshot fits both",
            format!("{count} are listed"),
        )
    });
    list.rule("ListSnapshots of a snapshot or a volume that does not exist is an empty list, not an error");
    list.changes("of-what-does-not-exist", |c| {
        let gone = c.deleted_snapshot()?;
        let volume = c.deleted_volume()?;
        let by_id = v1::ListSnapshotsRequest {
            snapshot_id: gone.snapshot_id,
            ..c.list_snapshots()
        };
        let by_source = v1::ListSnapshotsRequest {
            source_volume_id: volume.id(),
            ..c.list_snapshots()
        };
        for request in [by_id, by_source] {
            let count = c.listed(request)?.len();
            ensure(count == 0, "an empty list", format!("{count} entries"))?;
        }
        Ok(())
    });
    list.rule("ListSnapshots keeps max_entries, and its pages together have each snapshot once");
    list.changes("in-pages", |c| {
        let volume = c.volume()?;
        let mut wanted = BTreeSet::new();
        for _ in 0..5 {
            wanted.insert(c.snapshot(&volume)?.snapshot_id);
        }
        for most in [1, 2, 3, 5, 50] {
            let request = v1::ListSnapshotsRequest {
                max_entries: most,
                source_volume_id: volume.id(),
                ..c.list_snapshots()
            };
            // That no page has more is a rule of the message.
            let listed = c.listed(request)?;
            let found: Vec<_> = listed.iter().map(|one| one.snapshot_id.clone()).collect();
            let actual = format!("with max_entries {most} it lists {found:?}");
            let is_whole = found.len() == wanted.len()
                && found.iter().collect::<BTreeSet<_>>() == wanted.iter().collect();
            ensure(is_whole, &format!("each of {wanted:?} once"), actual)?;
        }
        Ok(())
    });
    list.rule("ListSnapshots without a filter has every snapshot once in pages of two");
    list.alone("all-in-pages", |c| {
        let (one, other) = c.two_volumes()?;
        let mut made = BTreeSet::new();
        for volume in [&one, &other, &one] {
            made.insert(c.snapshot(volume)?.snapshot_id);
        }
        let request = v1::ListSnapshotsRequest {
            max_entries: 2,
            ..c.list_snapshots()
        };
        // Of others' snapshots nothing can be said: they may come and go meanwhile.
        let found = c.listed(request)?.into_iter().map(|one| one.snapshot_id);
        let mut found: Vec<_> = found.filter(|id| made.contains(id)).collect();
        found.sort();
        let once = found.iter().eq(&made);
        ensure(
            once,
            &format!("each of {made:?} once"),
            format!("{found:?}"),
        )
    });
    list.needs(&[LIST_SNAPSHOTS]);
    list.error_rule("ListSnapshots with a starting_token that it never gave answers ABORTED");
    list.changes("bad-token", |c| {
        let request = v1::ListSnapshotsRequest {
            starting_token: format!("{}-no-token", c.name()),
            ..c.list_snapshots()
        };
        c.refused(request, &[Aborted])
    });
    list.rule(
        "ListSnapshots with a negative max_entries is refused, for the field must not be negative",
    );
    list.reads("negative-max-entries", |c| {
        let request = v1::ListSnapshotsRequest {
            max_entries: -1,
            ..c.list_snapshots()
        };
        let answer = c.send(request)?;
        let actual = answer_text(&answer);
        let refused = answer.is_err_and(|status| status.code() == InvalidArgument);
        c.should(refused, "INVALID_ARGUMENT", actual);
        Ok(())
    });
    list.rule("ListSnapshots calls at the same time give the same list");
    list.also(&[CREATE_DELETE_SNAPSHOT, CREATE_DELETE_VOLUME])
        .changes("at-once", |c| {
            let volume = c.volume()?;
            let snapshot = c.ready_snapshot(c.snapshot_request(&volume))?;
            let request = v1::ListSnapshotsRequest {
                source_volume_id: volume.id(),
                ..c.list_snapshots()
            };
            for answer in c.together(vec![request; 6])? {
                let page = answer.map_err(|status| {
                    Stop::failed(
                        "ListSnapshots answers OK",
                        crate::tools::sanity::verdict::status_text(&status),
                    )
                })?;
                let entries = page.entries.into_iter();
                let listed: Vec<_> = entries.filter_map(|entry| entry.snapshot).collect();
                only(&listed, &snapshot.snapshot_id)?;
            }
            Ok(())
        });
}
