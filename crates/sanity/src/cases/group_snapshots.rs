//! CreateVolumeGroupSnapshot: snapshots of several volumes at one instant. Cases about existing groups are in
//! `made_groups`.

use super::capabilities::are_constant;
use crate::vocabulary::*;
use std::collections::BTreeSet;
use std::time::Duration;

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

/// CreateVolumeGroupSnapshot of two new volumes, and the group that it has made.
pub fn pair(
    c: &Context,
) -> Result<
    (
        v1::CreateVolumeGroupSnapshotRequest,
        v1::VolumeGroupSnapshot,
    ),
    Stop,
> {
    let (one, other) = c.two_volumes()?;
    let request = c.group_request(&[&one, &other]);
    let group = taken(c, &request)?;
    Ok((request, group))
}

/// The group that a request makes, unless the driver cannot take snapshots of these volumes together.
fn taken(
    c: &Context,
    request: &v1::CreateVolumeGroupSnapshotRequest,
) -> Result<v1::VolumeGroupSnapshot, Stop> {
    let reply = c.ok_or(request.clone(), &[FailedPrecondition])?;
    let together = "the driver cannot take snapshots of these volumes together";
    let reply = reply.ok_or_else(|| Stop::skipped(together))?;
    c.identified::<v1::CreateVolumeGroupSnapshotRequest>(reply)
}

/// Skips a case where the driver cannot take a snapshot of a new volume as one of a group.
fn takes_groups(c: &Context) -> Verdict {
    taken(c, &c.group_request(&[&c.volume()?])).map(drop)
}

/// The group of a request, ready to use, unless the driver cannot take snapshots of these volumes together.
pub fn ready(
    c: &Context,
    request: &v1::CreateVolumeGroupSnapshotRequest,
) -> Result<v1::VolumeGroupSnapshot, Stop> {
    let group = taken(c, request)?;
    match group.ready_to_use {
        true => Ok(group),
        false => c.ready(request),
    }
}

/// A new group of two new volumes, ready to use.
pub fn new_group(c: &Context) -> Result<v1::VolumeGroupSnapshot, Stop> {
    let (one, other) = c.two_volumes()?;
    ready(c, &c.group_request(&[&one, &other]))
}

/// Demands that two answers describe one group.
pub fn same_group(before: &v1::VolumeGroupSnapshot, now: &v1::VolumeGroupSnapshot) -> Verdict {
    same_id("group", &before.group_snapshot_id, &now.group_snapshot_id)?;
    let (was, is) = (time_of(before.creation_time), time_of(now.creation_time));
    ensure(was == is, format!("the creation_time {was}"), is)?;
    let (was, is) = (before.snapshots.len(), now.snapshots.len());
    let (expected, actual) = (format!("its {was} snapshots"), format!("{is} of them"));
    ensure(was == is, expected, actual)?;
    each(&before.snapshots, |snapshot| {
        let id = &snapshot.snapshot_id;
        let found = now.snapshots.iter().find(|one| one.snapshot_id == *id);
        let lost = || Stop::failed(format!("the snapshot {id} in the group"), "it is not there");
        same_snapshot(snapshot, found.ok_or_else(lost)?)
    })
}

/// The case about the form of replies, which holds a whole group.
const REPLIES: &str = "replies/create-volume-group-snapshot";

/// Demands that there is one snapshot of the first volume.
pub fn lists_once(c: &Context, request: &v1::CreateVolumeGroupSnapshotRequest) -> Verdict {
    c.demands_of(REPLIES, || {
        c.lists_snapshots(&request.source_volume_ids[0], 1)
    })
}

pub fn cases(list: &mut Cases) {
    list.about(
        "group-controller/get-capabilities",
        "GroupControllerGetCapabilities",
    );
    list.needs(&[GROUP_CONTROLLER_SERVICE]);
    list.rule("GroupControllerGetCapabilities is there where GROUP_CONTROLLER_SERVICE is advertised, and always answers the same");
    list.reads("answers", |c| {
        are_constant(c, v1::GroupControllerGetCapabilitiesRequest {})
    });
    list.about(
        "group-controller/create-volume-group-snapshot",
        "CreateVolumeGroupSnapshot",
    );
    list.needs(&[GROUP_SNAPSHOTS, CREATE_DELETE_VOLUME]);
    list.rule("CreateVolumeGroupSnapshot with a volume that does not exist is refused, and should leave no snapshot of the others");
    list.changes("with-unknown-volume", |c| {
        let gone = c.deleted_volume()?;
        let volume = c.volume()?;
        c.must_fail(c.group_request(&[&volume, &gone]), &[NotFound])?;
        if c.has(LIST_SNAPSHOTS) {
            let left = c.listed_of(&volume.id())?.len();
            let expected = "no snapshot of the other volume is left";
            c.should(left == 0, expected, format!("ListSnapshots has {left}"));
        }
        Ok(())
    });
    list.rule(
        "A group has an id, a time, and one snapshot of each volume, which names no other group",
    );
    list.changes("describes-the-group", |c| {
        let (request, group) = pair(c)?;
        each(&request.source_volume_ids, |id| {
            let of_it = group
                .snapshots
                .iter()
                .filter(|one| one.source_volume_id == *id);
            let count = of_it.count();
            let expected = format!("one snapshot of {id}");
            c.demands_of(REPLIES, || {
                ensure(count == 1, expected, format!("{count} of them"))?;
                c.lists_snapshots(id, 1)
            })
        })?;
        let ids: BTreeSet<_> = members(&group).into_iter().collect();
        let actual = format!(
            "{} for {} snapshots",
            list_text(&ids),
            group.snapshots.len()
        );
        let expected = "two snapshots with ids of their own";
        ensure(ids.len() == 2, expected, actual)
    });
    list.rule("A group is ready to use when all its snapshots are, becomes so, and stays so");
    list.changes("is-ready-when-its-snapshots-are", |c| {
        let (request, first) = pair(c)?;
        let groups = [first, c.ready(&request)?, c.made(&request)?];
        each(&groups, |group| {
            let ready = group.ready_to_use;
            let all = group.snapshots.iter().all(|one| one.ready_to_use);
            let actual = "all snapshots are ready and the group is not";
            // That it is not ready before them is a rule of the message.
            c.should(ready || !all, "ready_to_use of the group", actual);
            Ok(())
        })?;
        let stays = groups[2].ready_to_use;
        let actual = "it is not ready any more";
        ensure(stays, "a group that stays ready", actual)
    });
    list.rule("CreateVolumeGroupSnapshot with the name and volumes of a group that exists answers with that group");
    list.changes("is-idempotent", |c| {
        let (request, first) = pair(c)?;
        each(0..2, |_| same_group(&first, &c.made(&request)?))?;
        lists_once(c, &request)
    });
    list.error("CreateVolumeGroupSnapshot with the name of a group of other volumes answers ALREADY_EXISTS");
    list.changes("name-of-another-group", |c| {
        let (mut request, _) = pair(c)?;
        request.source_volume_ids.truncate(1);
        c.refused(request.clone(), &[AlreadyExists])?;
        request.source_volume_ids.push(c.volume()?.id());
        c.refused(request, &[AlreadyExists])
    });
    list.rule("Names of 128 bytes and of any Unicode are taken, and names that differ little are different groups");
    list.changes("takes-any-name", |c| {
        let request = c.group_request(&[&c.volume()?]);
        taken(c, &request)?;
        let stem = c.name();
        let long = |last: &str| format!("{stem}{}{last}", "n".repeat(127 - stem.len()));
        let unicode = format!("{stem} группа/ü\t!");
        c.one_of_each_name(&request, &[long("1"), long("2"), unicode])
    });
    list.rule("Equal CreateVolumeGroupSnapshot calls at the same time take one group: each answers with it, or ABORTED");
    list.changes("equal-calls-at-once", |c| {
        takes_groups(c)?;
        let request = c.group_request(&[&c.volume()?]);
        c.one_of_equal_calls(request.clone())?;
        lists_once(c, &request)
    });
    list.rule("CreateVolumeGroupSnapshot whose caller went away can be repeated, and there is one group then");
    list.changes("given-up", |c| {
        takes_groups(c)?;
        each(SOON, |after| {
            let volume = c.volume()?;
            c.given_up(c.group_request(&[&volume]), after)?;
            c.lists_snapshots(&volume.id(), 1)
        })
    });
    list.rule("CreateVolumeGroupSnapshot whose deadline passed can be repeated, and there is one group then");
    list.under("Timeouts").changes("deadline-too-short", |c| {
        takes_groups(c)?;
        let volume = c.volume()?;
        let request = c.group_request(&[&volume]);
        c.made_after_deadline(&request, Duration::from_millis(1))?;
        c.lists_snapshots(&volume.id(), 1)
    });
    list.rule("A group is the same after the driver was restarted, and its name still leads to it");
    list.also(&[RESTART]).alone("survives-a-restart", |c| {
        let volume = c.volume()?;
        let request = c.group_request(&[&volume]);
        let before = ready(c, &request)?;
        c.restart_knowing(&volume)?;
        same_group(&before, &c.made(&request)?)
    });
    list.rule("Any snapshot of a group can be the source of a new volume");
    list.also(&[CREATE_DELETE_SNAPSHOT]);
    list.changes("snapshots-are-sources", |c| {
        // A group that says it is ready before its snapshots are is another matter.
        c.depends_on(REPLIES);
        each(new_group(c)?.snapshots, |one| c.ok(c.restore(&one)?))
    });
    list.rule("GetSnapshot and ListSnapshots show a group's snapshots as the group does, or without a group those that can be deleted alone");
    list.changes("snapshots-show-as-such", |c| {
        let group = new_group(c)?;
        let mut alone = None;
        let mut is_shown = |snapshot: &v1::Snapshot, now: &v1::Snapshot| {
            let mut snapshot = snapshot.clone();
            if now.group_snapshot_id.is_empty() {
                snapshot.group_snapshot_id.clear();
                alone = Some(snapshot.snapshot_id.clone());
            }
            same_snapshot(&snapshot, now)
        };
        for snapshot in &group.snapshots {
            let id = &snapshot.snapshot_id;
            if c.has(GET_SNAPSHOT) {
                let now = c.ok(c.get_snapshot(id))?.snapshot;
                c.demands_of(
                    "controller/get-snapshot/agrees-with-create-snapshot",
                    || is_shown(snapshot, &now.unwrap_or_default()),
                )?;
            }
            if c.has(LIST_SNAPSHOTS) {
                let listed = c.listed_with_id(id)?;
                let (expected, count) = (format!("ListSnapshots has {id}"), listed.len());
                ensure(count == 1, expected, format!("{count} entries"))?;
                is_shown(snapshot, &listed[0])?;
            }
        }
        match alone.filter(|_| c.has(CREATE_DELETE_SNAPSHOT)) {
            Some(alone) => stands_alone(c, &group, &alone),
            None => Ok(()),
        }
    });
}

/// Demands that a snapshot which does not say that it belongs to a group can be deleted without it.
pub fn stands_alone(c: &Context, group: &v1::VolumeGroupSnapshot, id: &str) -> Verdict {
    if let Err(status) = c.send(c.delete_snapshot(id))? {
        let expected = "DeleteSnapshot answers OK for a snapshot that shows no group";
        return Err(Stop::failed(expected, status_text(&status)));
    }
    // The group is what is left.
    let mut request = delete(c, group);
    request.snapshot_ids.retain(|one| one != id);
    c.ok(request).map(drop)
}
