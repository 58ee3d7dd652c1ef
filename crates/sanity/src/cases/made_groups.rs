//! DeleteVolumeGroupSnapshot and GetVolumeGroupSnapshot, and DeleteSnapshot of a snapshot that belongs to a group.

use super::group_snapshots::{
    delete, get, lists_once, members, new_group, ready, same_group, stands_alone,
};
use super::made_snapshots::{no_source, strange_ids};
use crate::vocabulary::*;

pub fn cases(list: &mut Cases) {
    list.about("controller/delete-snapshot", "DeleteSnapshot");
    list.needs(&[GROUP_SNAPSHOTS, CREATE_DELETE_VOLUME]);
    list.error("DeleteSnapshot does not take a snapshot out of the group that it says it belongs to, and deletes one that does not say so");
    list.also(&[CREATE_DELETE_SNAPSHOT]);
    list.changes("of-a-group", |c| {
        let group = new_group(c)?;
        let mut snapshots = group.snapshots.iter();
        if let Some(alone) = snapshots.find(|one| one.group_snapshot_id.is_empty()) {
            return stands_alone(c, &group, &alone.snapshot_id);
        }
        for id in members(&group) {
            if let Err(status) = c.send(c.delete_snapshot(id))? {
                let expected = "DeleteSnapshot answers INVALID_ARGUMENT";
                same_code(&status, &[InvalidArgument], expected)?;
            }
        }
        is_there(c, &group)
    });
    list.about(DELETE, "DeleteVolumeGroupSnapshot");
    list.needs(&[GROUP_SNAPSHOTS, CREATE_DELETE_VOLUME]);
    list.rule("DeleteVolumeGroupSnapshot of a group that is gone answers OK");
    list.changes("is-idempotent", |c| {
        let group = new_group(c)?;
        each(0..3, |_| c.ok(delete(c, &group)))
    });
    list.rule("DeleteVolumeGroupSnapshot deletes the group's snapshots, and no other snapshot of the volumes");
    list.changes("deletes-the-snapshots", |c| {
        let (one, other) = c.two_volumes()?;
        let (kept, group) = two_groups_of(c, &[&one, &other])?;
        c.ok(delete(c, &group))?;
        for volume in [&one, &other] {
            // That a group has a snapshot of each volume is a rule of the message.
            let of_it = |one: &&v1::Snapshot| one.source_volume_id == volume.id();
            let left = kept.snapshots.iter().filter(of_it).count();
            c.lists_snapshots(&volume.id(), left)?;
        }
        for snapshot in &group.snapshots {
            if c.has(GET_SNAPSHOT) {
                c.demands_of("controller/get-snapshot/unknown", || {
                    c.refused(c.get_snapshot(&snapshot.snapshot_id), &[NotFound])
                })?;
            }
            if c.has(CREATE_DELETE_SNAPSHOT) {
                no_source(c, snapshot)?;
            }
        }
        is_unknown(c, &group)?;
        is_there(c, &kept)
    });
    list.error("DeleteVolumeGroupSnapshot with snapshots of another group should answer INVALID_ARGUMENT, and never deletes those");
    list.changes("with-other-snapshots", |c| {
        let (group, other) = two_groups(c)?;
        let mut request = delete(c, &group);
        request.snapshot_ids = members(&other);
        let expected = "DeleteVolumeGroupSnapshot answers INVALID_ARGUMENT";
        c.should_answer(request, &[InvalidArgument], expected)?;
        is_there(c, &other)
    });
    list.rule("Equal DeleteVolumeGroupSnapshot calls at the same time each answer OK or ABORTED, and the group is gone");
    list.changes("equal-calls-at-once", |c| {
        let group = new_group(c)?;
        c.equal_calls(delete(c, &group), 6)?;
        is_unknown(c, &group)
    });
    list.rule("DeleteVolumeGroupSnapshot and CreateVolumeGroupSnapshot of one name at the same time leave the group whole, or none");
    list.changes("while-created-again", |c| {
        let (one, other) = c.two_volumes()?;
        let request = c.group_request(&[&one, &other]);
        let first = ready(c, &request)?;
        let (deleted, created) =
            c.at_once(|| c.send(delete(c, &first)), || c.send(request.clone()))?;
        ok_or_aborted(deleted?)?;
        ok_or_aborted(created?)?;
        let group = c.ready(&request)?;
        let now = c.ok(get(c, &group))?.group_snapshot;
        same_group(&group, &now.unwrap_or_default())?;
        c.demands_of(
            "group-controller/delete-volume-group-snapshot/deletes-the-snapshots",
            || lists_once(c, &request),
        )
    });
    list.needs(&[GROUP_SNAPSHOTS]);
    list.rule("DeleteVolumeGroupSnapshot with an id that no driver makes answers OK, or INVALID_ARGUMENT, and does no harm");
    list.changes("strange-ids", |c| {
        each(strange_ids(), |id| {
            c.ok_or(delete(c, &of_id(id)), &[InvalidArgument])
        })
    });
    list.about(GET, "GetVolumeGroupSnapshot");
    list.needs(&[GROUP_SNAPSHOTS]);
    list.error("GetVolumeGroupSnapshot with an id that no driver makes answers NOT_FOUND, or INVALID_ARGUMENT");
    list.reads("strange-ids", |c| {
        c.demands_of(UNKNOWN, || {
            each(strange_ids(), |id| {
                c.refused(get(c, &of_id(id)), &[NotFound, InvalidArgument])
            })
        })
    });
    list.about(DELETE, "DeleteVolumeGroupSnapshot");
    list.needs(&[GROUP_SNAPSHOTS, CREATE_DELETE_VOLUME]);
    list.rule("DeleteVolumeGroupSnapshot whose caller went away can be repeated");
    list.changes("given-up", |c| {
        let volume = c.volume()?;
        each(SOON, |after| {
            let group = ready(c, &c.group_request(&[&volume]))?;
            c.given_up(delete(c, &group), after)
        })
    });
    list.about(GET, "GetVolumeGroupSnapshot");
    list.needs(&[GROUP_SNAPSHOTS, CREATE_DELETE_VOLUME]);
    list.error("GetVolumeGroupSnapshot of a group that does not exist answers NOT_FOUND");
    list.changes("unknown", |c| {
        let group = new_group(c)?;
        c.ok(delete(c, &group))?;
        c.refused(get(c, &group), &[NotFound])
    });
    list.rule("GetVolumeGroupSnapshot answers with the group as CreateVolumeGroupSnapshot does, also to calls at the same time");
    list.changes("agrees-with-create-volume-group-snapshot", |c| {
        let group = new_group(c)?;
        each(c.equal_calls(get(c, &group), 4)?, |reply| {
            same_group(&group, &reply.group_snapshot.unwrap_or_default())
        })
    });
    list.error(
        "GetVolumeGroupSnapshot with snapshots of another group should answer INVALID_ARGUMENT",
    );
    list.changes("with-other-snapshots", |c| {
        let (group, other) = two_groups(c)?;
        let mut request = get(c, &group);
        request.snapshot_ids = members(&other);
        let expected = "GetVolumeGroupSnapshot answers INVALID_ARGUMENT";
        c.should_answer(request, &[InvalidArgument], expected)
    });
}

const DELETE: &str = "group-controller/delete-volume-group-snapshot";
const GET: &str = "group-controller/get-volume-group-snapshot";

/// The case about groups that do not exist.
const UNKNOWN: &str = "group-controller/get-volume-group-snapshot/unknown";

/// Demands that a group which is deleted is not there.
fn is_unknown(c: &Context, gone: &v1::VolumeGroupSnapshot) -> Verdict {
    c.demands_of(UNKNOWN, || c.refused(get(c, gone), &[NotFound]).map(drop))
}

/// Two groups of one volume.
fn two_groups(c: &Context) -> Result<(v1::VolumeGroupSnapshot, v1::VolumeGroupSnapshot), Stop> {
    two_groups_of(c, &[&c.volume()?])
}

/// Two groups of these volumes.
fn two_groups_of(
    c: &Context,
    volumes: &[&Volume],
) -> Result<(v1::VolumeGroupSnapshot, v1::VolumeGroupSnapshot), Stop> {
    let group = || ready(c, &c.group_request(volumes));
    Ok((group()?, group()?))
}

/// Demands that a group is as it was.
fn is_there(c: &Context, group: &v1::VolumeGroupSnapshot) -> Verdict {
    let now = c.ok(get(c, group))?.group_snapshot;
    same_group(group, &now.unwrap_or_default())
}

/// A group of which only this id is known.
fn of_id(group_snapshot_id: String) -> v1::VolumeGroupSnapshot {
    v1::VolumeGroupSnapshot {
        group_snapshot_id,
        ..Default::default()
    }
}
