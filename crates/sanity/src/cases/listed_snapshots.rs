//! ListSnapshots.

use crate::vocabulary::*;

/// Demands that one snapshot is listed alone, as it was described.
fn only(listed: &[v1::Snapshot], wanted: &v1::Snapshot) -> Verdict {
    let id = &wanted.snapshot_id;
    let ids: Vec<_> = listed.iter().map(|one| one.snapshot_id.as_str()).collect();
    let expected = format!("ListSnapshots finds {id} and nothing else");
    let found = format!("it found [{}]", ids.join(", "));
    ensure(ids == [id], expected, found)?;
    each(listed, |one| same_snapshot(wanted, one))
}

pub fn cases(list: &mut Cases) {
    list.about("controller/list-snapshots", "ListSnapshots");
    list.needs(&[LIST_SNAPSHOTS, CREATE_DELETE_SNAPSHOT, CREATE_DELETE_VOLUME]);
    list.rule("ListSnapshots without a filter has every snapshot, as CreateSnapshot described it, and none that is deleted");
    list.alone("has-every-snapshot", |c| {
        let (one, other) = c.two_volumes()?;
        let gone = c.snapshot(&one)?.snapshot_id;
        c.ok(c.delete_snapshot(&gone))?;
        let made = [c.snapshot(&one)?, c.snapshot(&one)?, c.snapshot(&other)?];
        let listed = c.listed(c.list_snapshots())?;
        each(&made, |snapshot| {
            let id = &snapshot.snapshot_id;
            let mut found = listed.iter().filter(|one| one.snapshot_id == *id);
            let Some(first) = found.next() else {
                let actual = format!("{id} is not among the {} it lists", listed.len());
                return Err(Stop::failed("ListSnapshots has the new snapshot", actual));
            };
            let once = found.next().is_none();
            let actual = format!("{id} is there twice");
            ensure(once, "each snapshot is listed once", actual)?;
            same_snapshot(snapshot, first)
        })?;
        let is_gone = listed.iter().all(|one| one.snapshot_id != gone);
        c.demands_of("controller/delete-snapshot/deletes", || {
            ensure(is_gone, "a deleted snapshot is not listed", gone)
        })
    });
    list.rule("ListSnapshots with a snapshot_id has that snapshot and no other");
    list.changes("of-one-snapshot", |c| {
        let volume = c.volume()?;
        let wanted = c.snapshot(&volume)?;
        c.snapshot(&volume)?;
        only(&c.listed_with_id(&wanted.snapshot_id)?, &wanted)
    });
    list.rule(
        "ListSnapshots with a source_volume_id has the snapshots of that volume and no other",
    );
    list.changes("of-one-volume", |c| {
        let (one, other) = c.two_volumes()?;
        let wanted = [c.snapshot(&one)?, c.snapshot(&one)?].map(|one| one.snapshot_id);
        let third = c.snapshot(&other)?;
        each_once(&wanted, c.listed_of(&one.id())?, "it lists")?;
        only(&c.listed_of(&other.id())?, &third)
    });
    list.rule("ListSnapshots with a snapshot_id and a source_volume_id has only what fits both");
    list.changes("of-a-snapshot-and-another-volume", |c| {
        let (one, other) = c.two_volumes()?;
        let snapshot = c.snapshot(&one)?;
        let mut request = c.list_snapshots();
        request.snapshot_id.clone_from(&snapshot.snapshot_id);
        request.source_volume_id = one.id();
        only(&c.listed(request.clone())?, &snapshot)?;
        request.source_volume_id = other.id();
        let count = c.listed(request)?.len();
        // That both hold together no sentence says.
        let actual = format!("{count} are listed");
        c.should(count == 0, "no snapshot fits both", actual);
        Ok(())
    });
    list.rule("ListSnapshots of a snapshot or a volume that does not exist is an empty list, not an error");
    list.changes("of-what-does-not-exist", |c| {
        let by_id = c.listed_with_id(&c.deleted_snapshot()?.snapshot_id)?;
        let by_source = c.listed_of(&c.deleted_volume()?.id())?;
        each([by_id.len(), by_source.len()], |count| {
            ensure(count == 0, "an empty list", format!("{count} entries"))
        })
    });
    list.rule("ListSnapshots keeps max_entries, and its pages together have each snapshot once");
    list.alone("in-pages", |c| {
        let volume = c.volume()?;
        let made = (0..5).map(|_| Ok(c.snapshot(&volume)?.snapshot_id));
        let made: Vec<_> = made.collect::<Result<_, Stop>>()?;
        let with = |max_entries| v1::ListSnapshotsRequest {
            max_entries,
            source_volume_id: volume.id(),
            ..c.list_snapshots()
        };
        let all = c.listed(with(0))?;
        c.demands_of("controller/list-snapshots/of-one-volume", || {
            each_once(&made, all, "it lists")
        })?;
        each([1, 2, 3, 5, 50], |max_entries| {
            // That no page has more is a rule of the message.
            let doing = format!("with max_entries {max_entries} it lists");
            each_once(&made, c.listed(with(max_entries))?, &doing)
        })
    });
    list.rule("ListSnapshots without a filter has every snapshot once in pages of two");
    list.alone("all-in-pages", |c| {
        let (one, other) = c.two_volumes()?;
        let made = [c.snapshot(&one)?, c.snapshot(&other)?, c.snapshot(&one)?];
        let made = made.map(|one| one.snapshot_id);
        let mut request = c.list_snapshots();
        request.max_entries = 2;
        // Of others' snapshots nothing can be said: they may come and go meanwhile.
        let mut listed = c.listed(request)?;
        listed.retain(|one| made.contains(&one.snapshot_id));
        each_once(&made, listed, "it lists")
    });
    list.needs(&[LIST_SNAPSHOTS]);
    list.error("ListSnapshots with a starting_token that it never gave answers ABORTED");
    list.changes("bad-token", |c| {
        let mut request = c.list_snapshots();
        request.starting_token = format!("{}-no-token", c.name());
        c.refused(request, &[Aborted])
    });
    list.rule(
        "ListSnapshots with a negative max_entries is refused, for the field must not be negative",
    );
    list.reads("negative-max-entries", |c| {
        let mut request = c.list_snapshots();
        request.max_entries = -1;
        c.should_answer(request, &[InvalidArgument], "INVALID_ARGUMENT")
    });
    list.rule("ListSnapshots calls at the same time give the same list");
    list.also(&[CREATE_DELETE_SNAPSHOT, CREATE_DELETE_VOLUME]);
    list.changes("at-once", |c| {
        let (volume, snapshot) = c.volume_and_snapshot()?;
        let mut request = c.list_snapshots();
        request.source_volume_id = volume.id();
        let lists = c.often_at_once(6, || c.listed(request.clone()))?;
        each(lists, |listed| only(&listed?, &snapshot))
    });
}

/// Demands that a list has each of these snapshots once, and no other.
fn each_once(made: &[String], listed: Vec<v1::Snapshot>, doing: &str) -> Verdict {
    let found = listed.into_iter().map(|one| one.snapshot_id);
    let (mut found, mut wanted) = (found.collect::<Vec<_>>(), made.to_vec());
    found.sort();
    wanted.sort();
    let actual = format!("{doing} {}", list_text(&found));
    let expected = format!("each of these once: {}", list_text(&wanted));
    ensure(found == wanted, expected, actual)
}
