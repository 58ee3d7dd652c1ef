//! CreateVolumeGroupSnapshot: snapshots of several volumes at one instant. Cases about existing groups are in
//! `made_groups`.

use super::capabilities::are_constant;
use crate::tools::sanity::vocabulary::*;
use std::collections::BTreeSet;
use std::time::Duration;

/// The id of the group that was answered with.
pub fn id_of(reply: &v1::CreateVolumeGroupSnapshotResponse) -> String {
    let group = reply.group_snapshot.as_ref();
    group.map_or_else(String::new, |one| one.group_snapshot_id.clone())
}

/// The ids of a group's snapshots.
pub fn members(group: &v1::VolumeGroupSnapshot) -> Vec<String> {
    let snapshots = group.snapshots.iter();
    snapshots.map(|one| one.snapshot_id.clone()).collect()
}

/// DeleteVolumeGroupSnapshot.
pub fn delete(
    c: &Context,
    group: &v1::VolumeGroupSnapshot,
) -> v1::DeleteVolumeGroupSnapshotRequest {
    v1::DeleteVolumeGroupSnapshotRequest {
        group_snapshot_id: group.group_snapshot_id.clone(),
        snapshot_ids: members(group),
        secrets: c.secrets(),
    }
}

/// GetVolumeGroupSnapshot.
pub fn get(c: &Context, group: &v1::VolumeGroupSnapshot) -> v1::GetVolumeGroupSnapshotRequest {
    v1::GetVolumeGroupSnapshotRequest {
        group_snapshot_id: group.group_snapshot_id.clone(),
        snapshot_ids: members(group),
        secrets: c.secrets(),
    }
}

/// A new group of two new volumes, ready to use.
pub fn new_group(c: &Context) -> Result<v1::VolumeGroupSnapshot, Stop> {
    let (one, other) = c.two_volumes()?;
    c.ready_group(c.group_request(&[&one, &other]))
}

/// Demands that two answers describe one group.
pub fn same_group(before: &v1::VolumeGroupSnapshot, now: &v1::VolumeGroupSnapshot) -> Verdict {
    same_id("group", &before.group_snapshot_id, &now.group_snapshot_id)?;
    let (was, is) = (time_of(before.creation_time), time_of(now.creation_time));
    ensure(was == is, &format!("the creation_time {was}"), is)?;
    let count = now.snapshots.len();
    let expected = format!("its {} snapshots", before.snapshots.len());
    ensure(
        before.snapshots.len() == count,
        &expected,
        format!("{count} of them"),
    )?;
    for snapshot in &before.snapshots {
        let mut found = now.snapshots.iter();
        let found = found.find(|one| one.snapshot_id == snapshot.snapshot_id);
        let id = &snapshot.snapshot_id;
        let lost = || Stop::failed(format!("the snapshot {id} in the group"), "it is not there");
        same_snapshot(snapshot, found.ok_or_else(lost)?)?;
    }
    Ok(())
}

/// The cases.
pub fn cases(list: &mut Cases) {
    list.about(
        "group-controller/get-capabilities",
        "GroupControllerGetCapabilities",
    );
    list.needs(&[GROUP_CONTROLLER_SERVICE]);
    list.rule("GroupControllerGetCapabilities is there where GROUP_CONTROLLER_SERVICE is advertised, and always answers the same");
    list.reads("answers", |c| {
        are_constant(c, v1::GroupControllerGetCapabilitiesRequest {}, |reply| {
            reply.capabilities
        })
    });
    list.about(
        "group-controller/create-volume-group-snapshot",
        "CreateVolumeGroupSnapshot",
    );
    list.needs(&[GROUP_SNAPSHOTS, CREATE_DELETE_VOLUME]);
    list.rule("CreateVolumeGroupSnapshot with a volume that does not exist is refused and leaves no snapshot of the others");
    list.changes("with-unknown-volume", |c| {
        let gone = c.deleted_volume()?;
        let volume = c.volume()?;
        let codes = [NotFound, InvalidArgument, FailedPrecondition];
        let request = c.group_request(&[&volume, &gone]);
        let status = c.refused(request, &codes)?;
        let is_best = status.code() == NotFound;
        c.should(
            is_best,
            "CreateVolumeGroupSnapshot answers NOT_FOUND",
            status_text(&status),
        );
        c.lists_snapshots(&volume.id(), 0)
    });
    list.rule(
        "A group has an id, a time, and one snapshot of each volume, which names no other group",
    );
    list.changes("describes-the-group", |c| {
        let (one, other) = c.two_volumes()?;
        let reply = c.ok(c.group_request(&[&one, &other]))?;
        let group = reply.group_snapshot.unwrap_or_default();
        for volume in [&one, &other] {
            let mut all = group.snapshots.iter();
            let count = all
                .by_ref()
                .filter(|snapshot| snapshot.source_volume_id == volume.id())
                .count();
            let expected = format!("one snapshot of {}", volume.id());
            ensure(count == 1, &expected, format!("{count} of them"))?;
            c.lists_snapshots(&volume.id(), 1)?;
        }
        let ids: BTreeSet<_> = members(&group).into_iter().collect();
        let actual = format!("{ids:?} for {} snapshots", group.snapshots.len());
        ensure(
            ids.len() == 2,
            "two snapshots with ids of their own",
            actual,
        )
    });
    list.rule("A group is ready to use when all its snapshots are, becomes so, and stays so");
    list.changes("is-ready-when-its-snapshots-are", |c| {
        let (one, other) = c.two_volumes()?;
        let request = c.group_request(&[&one, &other]);
        let first = c.ok(request.clone())?.group_snapshot.unwrap_or_default();
        let ready = c.ready_group(request.clone())?;
        let again = c.ok(request)?.group_snapshot.unwrap_or_default();
        for group in [&first, &ready, &again] {
            let all = group.snapshots.iter().all(|one| one.ready_to_use);
            let expected = "ready_to_use of the group only with that of all its snapshots";
            ensure(
                all || !group.ready_to_use,
                expected,
                "one of them is not ready",
            )?;
            let actual = "all snapshots are ready and the group is not";
            c.should(
                group.ready_to_use || !all,
                "ready_to_use of the group",
                actual,
            );
        }
        ensure(
            again.ready_to_use,
            "a group that stays ready",
            "it is not ready any more",
        )
    });
    list.rule("CreateVolumeGroupSnapshot with the name and volumes of a group that exists answers with that group");
    list.changes("is-idempotent", |c| {
        let (one, other) = c.two_volumes()?;
        let request = c.group_request(&[&one, &other]);
        let first = c.ok(request.clone())?.group_snapshot.unwrap_or_default();
        for _ in 0..2 {
            let again = c.ok(request.clone())?.group_snapshot.unwrap_or_default();
            same_group(&first, &again)?;
        }
        c.lists_snapshots(&one.id(), 1)
    });
    list.error_rule("CreateVolumeGroupSnapshot with the name of a group of other volumes answers ALREADY_EXISTS");
    list.changes("name-of-another-group", |c| {
        let (one, other) = c.two_volumes()?;
        let mut request = c.group_request(&[&one, &other]);
        c.ok(request.clone())?;
        request.source_volume_ids = vec![one.id()];
        c.refused(request.clone(), &[AlreadyExists])?;
        request.source_volume_ids = vec![one.id(), c.volume()?.id()];
        c.refused(request, &[AlreadyExists])
    });
    list.rule("Names of 128 bytes and of any Unicode are taken, and names that differ little are different groups");
    list.changes("takes-any-name", |c| {
        let volume = c.volume()?;
        let stem = c.name();
        let long = |last: &str| format!("{stem}{}{last}", "n".repeat(127 - stem.len()));
        let mut ids = BTreeSet::new();
        for name in [long("1"), long("2"), format!("{stem} группа/ü\t!")] {
            let mut request = c.group_request(&[&volume]);
            request.name = name.clone();
            let id = id_of(&c.ok(request)?);
            let actual = format!("{id}, the one of a name before it");
            ensure(
                ids.insert(id),
                &format!("a group of its own for {name:?}"),
                actual,
            )?;
        }
        Ok(())
    });
    list.rule("Equal CreateVolumeGroupSnapshot calls at the same time take one group: each answers with it, or ABORTED");
    list.changes("equal-calls-at-once", |c| {
        let (one, other) = c.two_volumes()?;
        let request = c.group_request(&[&one, &other]);
        let mut answers = c.together(vec![request.clone(); 6])?;
        answers.push(Ok(c.ok_in_the_end(request)?));
        one_id(&answers, id_of)?;
        c.lists_snapshots(&one.id(), 1)
    });
    list.rule("CreateVolumeGroupSnapshot whose caller went away can be repeated, and there is one group then");
    list.changes("given-up", |c| {
        for after in SOON {
            let volume = c.volume()?;
            let request = c.group_request(&[&volume]);
            c.cancelled(request.clone(), after)?;
            c.ok_in_the_end(request)?;
            c.lists_snapshots(&volume.id(), 1)?;
        }
        Ok(())
    });
    list.rule("CreateVolumeGroupSnapshot whose deadline passed can be repeated, and there is one group then");
    list.under("Timeouts").changes("deadline-too-short", |c| {
        let volume = c.volume()?;
        let request = c.group_request(&[&volume]);
        let first = c.send_within(Duration::from_millis(1), request.clone())?;
        let again = c.ok_in_the_end(request)?;
        if let Ok(first) = first {
            same_id("group", &id_of(&first), &id_of(&again))?;
        }
        c.lists_snapshots(&volume.id(), 1)
    });
    list.rule("A group is the same after the driver was restarted, and its name still leads to it");
    list.also(&[RESTART]).alone("survives-a-restart", |c| {
        let volume = c.volume()?;
        let request = c.group_request(&[&volume]);
        let before = c.ready_group(request.clone())?;
        c.restart()?;
        let now = c.ok_in_the_end(request)?;
        same_group(&before, &now.group_snapshot.unwrap_or_default())
    });
    list.rule("Any snapshot of a group can be the source of a new volume");
    list.also(&[CREATE_DELETE_SNAPSHOT])
        .changes("snapshots-are-sources", |c| {
            for snapshot in new_group(c)?.snapshots {
                c.ok(c.restore(&snapshot)?)?;
            }
            Ok(())
        });
    list.rule("GetSnapshot and ListSnapshots show a group's snapshots as the group does");
    list.changes("snapshots-show-as-such", |c| {
        for snapshot in new_group(c)?.snapshots {
            let id = &snapshot.snapshot_id;
            if c.has(GET_SNAPSHOT) {
                let now = c.ok(c.get_snapshot(id))?.snapshot;
                same_snapshot(&snapshot, &now.unwrap_or_default())?;
            }
            if c.has(LIST_SNAPSHOTS) {
                let mut request = c.list_snapshots();
                request.snapshot_id.clone_from(id);
                let listed = c.listed(request)?;
                let actual = format!("{} entries", listed.len());
                ensure(
                    listed.len() == 1,
                    &format!("ListSnapshots has {id}"),
                    actual,
                )?;
                same_snapshot(&snapshot, &listed[0])?;
            }
        }
        Ok(())
    });
}
