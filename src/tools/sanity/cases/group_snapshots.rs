//! CreateVolumeGroupSnapshot: snapshots of several volumes at one instant. Cases about existing groups are in
//! `made_groups`.

use super::capabilities::are_constant;
use crate::tools::sanity::case::{Case, Stop, Verdict, case, ensure, same_id};
use crate::tools::sanity::context::Context;
use crate::tools::sanity::need::needs::{
    CREATE_DELETE_SNAPSHOT, CREATE_DELETE_VOLUME, GET_SNAPSHOT, GROUP_CONTROLLER_SERVICE,
    GROUP_SNAPSHOTS, LIST_SNAPSHOTS, RESTART,
};
use crate::tools::sanity::sources::{SOON, one_id, same_snapshot, time_of};
use crate::tools::sanity::verdict::status_text;
use csi_proto::v1;
use std::collections::BTreeSet;
use std::time::Duration;
use tonic::Code;

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

pub const CASES: &[Case] = &[
    case!(
        Reads,
        "group-controller/get-capabilities/answers",
        "GroupControllerGetCapabilities is there where GROUP_CONTROLLER_SERVICE is advertised, and always answers the same",
        "GroupControllerGetCapabilities",
        [GROUP_CONTROLLER_SERVICE],
        |c| {
            are_constant(c, v1::GroupControllerGetCapabilitiesRequest {}, |reply| {
                reply.capabilities
            })?;
        }
    ),
    case!(
        Changes,
        "group-controller/create-volume-group-snapshot/with-unknown-volume",
        "CreateVolumeGroupSnapshot with a volume that does not exist is refused and leaves no snapshot of the others",
        "CreateVolumeGroupSnapshot",
        [GROUP_SNAPSHOTS, CREATE_DELETE_VOLUME],
        |c| {
            let gone = c.deleted_volume()?;
            let volume = c.volume()?;
            let codes = [
                Code::NotFound,
                Code::InvalidArgument,
                Code::FailedPrecondition,
            ];
            let request = c.group_request(&[&volume, &gone]);
            let status = c.refused(request, &codes)?;
            let is_best = status.code() == Code::NotFound;
            c.should(
                is_best,
                "CreateVolumeGroupSnapshot answers NOT_FOUND",
                status_text(&status),
            );
            c.lists_snapshots(&volume.id(), 0)?;
        }
    ),
    case!(
        Changes,
        "group-controller/create-volume-group-snapshot/describes-the-group",
        "A group has an id, a time, and one snapshot of each volume, which names no other group",
        "CreateVolumeGroupSnapshot",
        [GROUP_SNAPSHOTS, CREATE_DELETE_VOLUME],
        |c| {
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
            )?;
        }
    ),
    case!(
        Changes,
        "group-controller/create-volume-group-snapshot/is-ready-when-its-snapshots-are",
        "A group is ready to use when all its snapshots are, becomes so, and stays so",
        "CreateVolumeGroupSnapshot",
        [GROUP_SNAPSHOTS, CREATE_DELETE_VOLUME],
        |c| {
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
            )?;
        }
    ),
    case!(
        Changes,
        "group-controller/create-volume-group-snapshot/is-idempotent",
        "CreateVolumeGroupSnapshot with the name and volumes of a group that exists answers with that group",
        "CreateVolumeGroupSnapshot",
        [GROUP_SNAPSHOTS, CREATE_DELETE_VOLUME],
        |c| {
            let (one, other) = c.two_volumes()?;
            let request = c.group_request(&[&one, &other]);
            let first = c.ok(request.clone())?.group_snapshot.unwrap_or_default();
            for _ in 0..2 {
                let again = c.ok(request.clone())?.group_snapshot.unwrap_or_default();
                same_group(&first, &again)?;
            }
            c.lists_snapshots(&one.id(), 1)?;
        }
    ),
    case!(
        Changes,
        "group-controller/create-volume-group-snapshot/name-of-another-group",
        "CreateVolumeGroupSnapshot with the name of a group of other volumes answers ALREADY_EXISTS",
        "CreateVolumeGroupSnapshot Errors",
        [GROUP_SNAPSHOTS, CREATE_DELETE_VOLUME],
        |c| {
            let (one, other) = c.two_volumes()?;
            let mut request = c.group_request(&[&one, &other]);
            c.ok(request.clone())?;
            request.source_volume_ids = vec![one.id()];
            c.refused(request.clone(), &[Code::AlreadyExists])?;
            request.source_volume_ids = vec![one.id(), c.volume()?.id()];
            c.refused(request, &[Code::AlreadyExists])?;
        }
    ),
    case!(
        Changes,
        "group-controller/create-volume-group-snapshot/takes-any-name",
        "Names of 128 bytes and of any Unicode are taken, and names that differ little are different groups",
        "CreateVolumeGroupSnapshot",
        [GROUP_SNAPSHOTS, CREATE_DELETE_VOLUME],
        |c| {
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
        }
    ),
    case!(
        Changes,
        "group-controller/create-volume-group-snapshot/equal-calls-at-once",
        "Equal CreateVolumeGroupSnapshot calls at the same time take one group: each answers with it, or ABORTED",
        "CreateVolumeGroupSnapshot",
        [GROUP_SNAPSHOTS, CREATE_DELETE_VOLUME],
        |c| {
            let (one, other) = c.two_volumes()?;
            let request = c.group_request(&[&one, &other]);
            let mut answers = c.together(vec![request.clone(); 6])?;
            answers.push(Ok(c.ok_in_the_end(request)?));
            one_id(&answers, id_of)?;
            c.lists_snapshots(&one.id(), 1)?;
        }
    ),
    case!(
        Changes,
        "group-controller/create-volume-group-snapshot/given-up",
        "CreateVolumeGroupSnapshot whose caller went away can be repeated, and there is one group then",
        "CreateVolumeGroupSnapshot",
        [GROUP_SNAPSHOTS, CREATE_DELETE_VOLUME],
        |c| {
            for after in SOON {
                let volume = c.volume()?;
                let request = c.group_request(&[&volume]);
                c.cancelled(request.clone(), after)?;
                c.ok_in_the_end(request)?;
                c.lists_snapshots(&volume.id(), 1)?;
            }
        }
    ),
    case!(
        Changes,
        "group-controller/create-volume-group-snapshot/deadline-too-short",
        "CreateVolumeGroupSnapshot whose deadline passed can be repeated, and there is one group then",
        "Timeouts",
        [GROUP_SNAPSHOTS, CREATE_DELETE_VOLUME],
        |c| {
            let volume = c.volume()?;
            let request = c.group_request(&[&volume]);
            let first = c.send_within(Duration::from_millis(1), request.clone())?;
            let again = c.ok_in_the_end(request)?;
            if let Ok(first) = first {
                same_id("group", &id_of(&first), &id_of(&again))?;
            }
            c.lists_snapshots(&volume.id(), 1)?;
        }
    ),
    case!(
        Alone,
        "group-controller/create-volume-group-snapshot/survives-a-restart",
        "A group is the same after the driver was restarted, and its name still leads to it",
        "CreateVolumeGroupSnapshot",
        [GROUP_SNAPSHOTS, CREATE_DELETE_VOLUME, RESTART],
        |c| {
            let volume = c.volume()?;
            let request = c.group_request(&[&volume]);
            let before = c.ready_group(request.clone())?;
            c.restart()?;
            let now = c.ok_in_the_end(request)?;
            same_group(&before, &now.group_snapshot.unwrap_or_default())?;
        }
    ),
    case!(
        Changes,
        "group-controller/create-volume-group-snapshot/snapshots-are-sources",
        "Any snapshot of a group can be the source of a new volume",
        "CreateVolumeGroupSnapshot",
        [
            GROUP_SNAPSHOTS,
            CREATE_DELETE_VOLUME,
            CREATE_DELETE_SNAPSHOT
        ],
        |c| {
            for snapshot in new_group(c)?.snapshots {
                c.ok(c.restore(&snapshot)?)?;
            }
        }
    ),
    case!(
        Changes,
        "group-controller/create-volume-group-snapshot/snapshots-show-as-such",
        "GetSnapshot and ListSnapshots show a group's snapshots as the group does",
        "CreateVolumeGroupSnapshot",
        [GROUP_SNAPSHOTS, CREATE_DELETE_VOLUME],
        |c| {
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
        }
    ),
];
