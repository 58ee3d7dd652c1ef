//! DeleteVolumeGroupSnapshot and GetVolumeGroupSnapshot, and DeleteSnapshot of a snapshot that belongs to a group.

use super::group_snapshots::{delete, get, id_of, members, new_group, same_group};
use super::made_snapshots::strange_ids;
use crate::tools::sanity::vocabulary::*;

/// The cases.
pub fn cases(list: &mut Cases) {
    list.about("controller/delete-snapshot", "DeleteSnapshot");
    list.needs(&[
        GROUP_SNAPSHOTS,
        CREATE_DELETE_VOLUME,
        CREATE_DELETE_SNAPSHOT,
    ]);
    list.error_rule("DeleteSnapshot does not take a snapshot out of the group that it says it belongs to, and deletes one that does not say so");
    list.changes("of-a-group", |c| {
        let group = new_group(c)?;
        let (members, alone): (Vec<_>, Vec<_>) = group
            .snapshots
            .iter()
            .partition(|one| !one.group_snapshot_id.is_empty());
        if let Some(alone) = alone.first() {
            c.ok_in_the_end(c.delete_snapshot(&alone.snapshot_id))?;
            // The group is what is left.
            let mut request = delete(c, &group);
            request.snapshot_ids.retain(|id| *id != alone.snapshot_id);
            c.ok_in_the_end(request)?;
            return Ok(());
        }
        for snapshot in members {
            let request = c.delete_snapshot(&snapshot.snapshot_id);
            if let Err(status) = c.send(request)? {
                ensure(
                    status.code() == InvalidArgument,
                    "DeleteSnapshot answers INVALID_ARGUMENT",
                    status_text(&status),
                )?;
            }
        }
        let now = c.ok(get(c, &group))?.group_snapshot;
        same_group(&group, &now.unwrap_or_default())?;
        Ok(())
    });
    list.about(
        "group-controller/delete-volume-group-snapshot",
        "DeleteVolumeGroupSnapshot",
    );
    list.needs(&[GROUP_SNAPSHOTS, CREATE_DELETE_VOLUME]);
    list.rule("DeleteVolumeGroupSnapshot of a group that is gone answers OK");
    list.changes("is-idempotent", |c| {
        let group = new_group(c)?;
        for _ in 0..3 {
            c.ok_in_the_end(delete(c, &group))?;
        }
        Ok(())
    });
    list.rule("DeleteVolumeGroupSnapshot deletes the group's snapshots, and no other snapshot of the volumes");
    list.changes("deletes-the-snapshots", |c| {
        let volume = c.volume()?;
        let kept = c.ready_group(c.group_request(&[&volume]))?;
        let group = c.ready_group(c.group_request(&[&volume]))?;
        c.ok_in_the_end(delete(c, &group))?;
        c.lists_snapshots(&volume.id(), 1)?;
        for snapshot in &group.snapshots {
            if c.has(GET_SNAPSHOT) {
                let request = c.get_snapshot(&snapshot.snapshot_id);
                c.refused(request, &[NotFound])?;
            }
            if c.has(CREATE_DELETE_SNAPSHOT) {
                c.refused(c.restore(snapshot)?, &[NotFound])?;
            }
        }
        c.refused(get(c, &group), &[NotFound])?;
        let now = c.ok(get(c, &kept))?.group_snapshot;
        same_group(&kept, &now.unwrap_or_default())
    });
    list.error_rule("DeleteVolumeGroupSnapshot with snapshots of another group answers INVALID_ARGUMENT where it notices, and never deletes those");
    list.changes("with-other-snapshots", |c| {
        let volume = c.volume()?;
        let group = c.ready_group(c.group_request(&[&volume]))?;
        let other = c.ready_group(c.group_request(&[&volume]))?;
        let mut request = delete(c, &group);
        request.snapshot_ids = members(&other);
        match c.send(request)? {
            Ok(_) => {
                let expected = "DeleteVolumeGroupSnapshot answers INVALID_ARGUMENT";
                c.should(false, expected, "it answered OK");
            }
            Err(status) => ensure(
                status.code() == InvalidArgument,
                "DeleteVolumeGroupSnapshot answers INVALID_ARGUMENT",
                status_text(&status),
            )?,
        }
        let now = c.ok(get(c, &other))?.group_snapshot;
        same_group(&other, &now.unwrap_or_default())
    });
    list.rule("Equal DeleteVolumeGroupSnapshot calls at the same time each answer OK or ABORTED, and the group is gone");
    list.changes("equal-calls-at-once", |c| {
        let group = new_group(c)?;
        let answers = c.together(vec![delete(c, &group); 6])?;
        one_id(&answers, |_| String::new())?;
        c.ok_in_the_end(delete(c, &group))?;
        c.refused(get(c, &group), &[NotFound])
    });
    list.rule("DeleteVolumeGroupSnapshot and CreateVolumeGroupSnapshot of one name at the same time leave the group whole, or none");
    list.changes("while-created-again", |c| {
        let (one, other) = c.two_volumes()?;
        let request = c.group_request(&[&one, &other]);
        let first = c.ready_group(request.clone())?;
        let (deleted, created) =
            c.at_once(|| c.send(delete(c, &first)), || c.send(request.clone()))?;
        ok_or_aborted(deleted?)?;
        one_id(&[created?], id_of)?;
        let group = c.ready_group(request)?;
        let now = c.ok_in_the_end(get(c, &group))?.group_snapshot;
        same_group(&group, &now.unwrap_or_default())?;
        c.lists_snapshots(&one.id(), 1)
    });
    list.needs(&[GROUP_SNAPSHOTS]);
    list.rule("DeleteVolumeGroupSnapshot with an id that no driver makes answers OK, or INVALID_ARGUMENT, and does no harm");
    list.changes("strange-ids", |c| {
        for id in strange_ids() {
            let group = v1::VolumeGroupSnapshot {
                group_snapshot_id: id.clone(),
                ..Default::default()
            };
            c.ok_or_in_the_end(delete(c, &group), &[InvalidArgument])?;
        }
        Ok(())
    });
    list.about(
        "group-controller/get-volume-group-snapshot",
        "GetVolumeGroupSnapshot",
    );
    list.needs(&[GROUP_SNAPSHOTS]);
    list.error_rule("GetVolumeGroupSnapshot with an id that no driver makes answers NOT_FOUND, or INVALID_ARGUMENT");
    list.reads("strange-ids", |c| {
        for id in strange_ids() {
            let group = v1::VolumeGroupSnapshot {
                group_snapshot_id: id,
                ..Default::default()
            };
            let codes = [NotFound, InvalidArgument];
            c.refused_in_the_end(get(c, &group), &codes)?;
        }
        Ok(())
    });
    list.about(
        "group-controller/delete-volume-group-snapshot",
        "DeleteVolumeGroupSnapshot",
    );
    list.needs(&[GROUP_SNAPSHOTS, CREATE_DELETE_VOLUME]);
    list.rule("DeleteVolumeGroupSnapshot whose caller went away can be repeated");
    list.changes("given-up", |c| {
        let volume = c.volume()?;
        for after in SOON {
            let group = c.ready_group(c.group_request(&[&volume]))?;
            c.cancelled(delete(c, &group), after)?;
            c.ok_in_the_end(delete(c, &group))?;
        }
        Ok(())
    });
    list.about(
        "group-controller/get-volume-group-snapshot",
        "GetVolumeGroupSnapshot",
    );
    list.needs(&[GROUP_SNAPSHOTS, CREATE_DELETE_VOLUME]);
    list.error_rule("GetVolumeGroupSnapshot of a group that does not exist answers NOT_FOUND");
    list.changes("unknown", |c| {
        let group = new_group(c)?;
        c.ok_in_the_end(delete(c, &group))?;
        c.refused(get(c, &group), &[NotFound])
    });
    list.rule("GetVolumeGroupSnapshot answers with the group as CreateVolumeGroupSnapshot does, also to calls at the same time");
    list.changes("agrees-with-create-volume-group-snapshot", |c| {
        let group = new_group(c)?;
        let mut replies = c.equal_calls(&get(c, &group), 4)?;
        replies.push(c.ok_in_the_end(get(c, &group))?);
        for reply in replies {
            same_group(&group, &reply.group_snapshot.unwrap_or_default())?;
        }
        Ok(())
    });
    list.error_rule("GetVolumeGroupSnapshot with snapshots of another group answers INVALID_ARGUMENT where it notices");
    list.changes("with-other-snapshots", |c| {
        let volume = c.volume()?;
        let group = c.ready_group(c.group_request(&[&volume]))?;
        let other = c.ready_group(c.group_request(&[&volume]))?;
        let mut request = get(c, &group);
        request.snapshot_ids = members(&other);
        match c.send(request)? {
            Ok(_) => {
                let expected = "GetVolumeGroupSnapshot answers INVALID_ARGUMENT";
                c.should(false, expected, "it answered OK");
            }
            Err(status) => ensure(
                status.code() == InvalidArgument,
                "GetVolumeGroupSnapshot answers INVALID_ARGUMENT",
                status_text(&status),
            )?,
        }
        Ok(())
    });
}
