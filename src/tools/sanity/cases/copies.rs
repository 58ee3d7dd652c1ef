//! CreateVolume from a snapshot or from another volume, and the data in the copy.

use crate::tools::sanity::vocabulary::*;
use std::collections::BTreeSet;

/// The data that a source has from the beginning, and the data that is written into it later, at the same place and at
/// another.
const OLD: Mark = Mark {
    letter: b'a',
    offset: 0,
};
const NEW: Mark = Mark {
    letter: b'b',
    offset: 0,
};
const LATER: Mark = Mark {
    letter: b'c',
    offset: 1 << 16,
};

fn id_of(reply: &v1::CreateVolumeResponse) -> String {
    let volume = reply.volume.as_ref();
    volume.map_or_else(String::new, |one| one.volume_id.clone())
}

/// Demands that a volume is at least as large as its source, as far as both sizes are known.
fn large_enough(volume: &v1::Volume, source: i64) -> Verdict {
    let size = volume.capacity_bytes;
    ensure(
        size == 0 || source == 0 || size >= source,
        &format!("a volume of at least {source} bytes, the size of its source"),
        format!("{size} bytes"),
    )
}

/// Demands that the copy has what its source had then, and not what came later.
fn has_old_data(c: &Context, copy: v1::CreateVolumeRequest) -> Verdict {
    let copy = c.volume_of(copy)?;
    let found = c.has_marks(&copy, &[OLD, NEW, LATER])?;
    let expected =
        "the copy has what was written before it was taken, and nothing that was written later";
    let actual = match found[..] {
        [true, _, false] => return Ok(()),
        [_, true, _] | [_, _, true] => "it has what was written later",
        _ => "it lacks what was written before",
    };
    Err(Stop::failed(expected, actual))
}

/// The cases.
pub fn cases(list: &mut Cases) {
    list.about("controller/create-volume", "CreateVolume");
    list.needs(&[CREATE_DELETE_SNAPSHOT, CREATE_DELETE_VOLUME]);
    list.rule("CreateVolume from a snapshot names the snapshot as its source, and makes a volume that is not smaller");
    list.also(&[EACH_ACCESS]).changes("from-snapshot", |c| {
        let volume = c.volume()?;
        let snapshot = c.ready_snapshot(c.snapshot_request(&volume))?;
        let request = c.restore(&snapshot)?;
        let copy = c.volume_of(request.clone())?;
        ensure(
            copy.id() != volume.id(),
            "a volume of its own",
            "it is the snapshot's source",
        )?;
        large_enough(&copy.volume, snapshot.size_bytes)?;
        let again = c.ok(request)?;
        same_id("volume", &copy.id(), &id_of(&again))
    });
    list.rule("CreateVolume from a snapshot that is larger than required_bytes makes a volume of the snapshot's size, or answers OUT_OF_RANGE");
    list.changes("from-larger-snapshot", |c| {
        let volume = c.volume()?;
        let snapshot = c.ready_snapshot(c.snapshot_request(&volume))?;
        let mut request = c.restore(&snapshot)?;
        request.capacity_range = Some(v1::CapacityRange {
            required_bytes: (c.settings().volume_size / 2).max(1),
            limit_bytes: 0,
        });
        match c.send(request)? {
            Ok(reply) => large_enough(&reply.volume.unwrap_or_default(), snapshot.size_bytes)?,
            Err(status) => ensure(
                matches!(status.code(), OutOfRange | InvalidArgument),
                "CreateVolume answers OK or OUT_OF_RANGE",
                status_text(&status),
            )?,
        }
        Ok(())
    });
    list.error_rule("CreateVolume from a snapshot that does not exist answers NOT_FOUND");
    list.changes("from-unknown-snapshot", |c| {
        let gone = c.deleted_snapshot()?;
        c.refused(c.restore(&gone)?, &[NotFound])
    });
    list.needs(&[CLONE_VOLUME, CREATE_DELETE_VOLUME]);
    list.error_rule("CreateVolume from a volume that does not exist answers NOT_FOUND");
    list.changes("from-unknown-volume", |c| {
        let gone = c.deleted_volume()?;
        c.refused(c.clone_of(gone.id())?, &[NotFound])
    });
    list.rule("CreateVolume from another volume names it as its source, and makes a volume that is not smaller");
    list.also(&[EACH_ACCESS]).changes("from-volume", |c| {
        let volume = c.volume()?;
        let request = c.clone_of(volume.id())?;
        let copy = c.volume_of(request.clone())?;
        ensure(
            copy.id() != volume.id(),
            "a volume of its own",
            "it is its source",
        )?;
        large_enough(&copy.volume, volume.volume.capacity_bytes)?;
        let again = c.ok(request)?;
        same_id("volume", &copy.id(), &id_of(&again))?;
        // And of a copy.
        c.ok(c.clone_of(copy.id())?)
    });
    list.needs(&[CREATE_DELETE_SNAPSHOT, CREATE_DELETE_VOLUME]);
    list.error_rule("CreateVolume with the name of a volume that came from another source answers ALREADY_EXISTS");
    list.changes("name-of-a-volume-from-elsewhere", |c| {
        let volume = c.volume()?;
        let snapshot = c.ready_snapshot(c.snapshot_request(&volume))?;
        let other = c.ready_snapshot(c.snapshot_request(&volume))?;
        let made = c.volume_of(c.restore(&snapshot)?)?.request;
        let of_another = v1::CreateVolumeRequest {
            volume_content_source: c.restore(&other)?.volume_content_source,
            ..made.clone()
        };
        c.refused(of_another, &[AlreadyExists])?;
        let of_nothing = v1::CreateVolumeRequest {
            volume_content_source: None,
            ..made.clone()
        };
        c.refused(of_nothing, &[AlreadyExists])?;
        let instead = v1::CreateVolumeRequest {
            name: volume.request.name.clone(),
            ..made
        };
        c.refused(instead, &[AlreadyExists])
    });
    list.rule("CreateVolume calls with different names from one snapshot at the same time make a volume each");
    list.changes("from-one-snapshot-at-once", |c| {
        let volume = c.volume()?;
        let snapshot = c.ready_snapshot(c.snapshot_request(&volume))?;
        let requests = (0..4).map(|_| c.restore(&snapshot));
        let requests: Vec<_> = requests.collect::<Result<_, _>>()?;
        let mut ids = BTreeSet::new();
        // A driver may do one of them at a time.
        for reply in c.all_ok_in_the_end(requests)? {
            let id = id_of(&reply);
            let actual = format!("{id} for two names");
            ensure(ids.insert(id), "a volume for each name", actual)?;
        }
        Ok(())
    });
    list.error_rule("Equal CreateVolume calls from a source at the same time make one volume: each answers with it, or ABORTED");
    list.changes("equal-copies-at-once", |c| {
        let volume = c.volume()?;
        let snapshot = c.ready_snapshot(c.snapshot_request(&volume))?;
        let request = c.restore(&snapshot)?;
        let mut answers = c.together(vec![request.clone(); 6])?;
        answers.push(Ok(c.ok_in_the_end(request)?));
        one_id(&answers, id_of)
    });
    list.rule("CreateVolume from a source whose caller went away can be repeated");
    list.changes("copy-given-up", |c| {
        let volume = c.volume()?;
        let snapshot = c.ready_snapshot(c.snapshot_request(&volume))?;
        for after in SOON {
            let request = c.restore(&snapshot)?;
            c.cancelled(request.clone(), after)?;
            c.ok_in_the_end(request)?;
        }
        Ok(())
    });
    list.rule("A volume from a snapshot is there when the snapshot is deleted, or the snapshot cannot be deleted before it");
    list.under("DeleteSnapshot Errors")
        .changes("outlives-its-snapshot", |c| {
            let volume = c.volume()?;
            let snapshot = c.ready_snapshot(c.snapshot_request(&volume))?;
            let copy = c.volume_of(c.restore(&snapshot)?)?;
            match c.send(c.delete_snapshot(&snapshot.snapshot_id))? {
                Ok(_) => {
                    let again = c.ok(copy.request.clone())?;
                    same_id("volume", &copy.id(), &id_of(&again))?;
                }
                Err(status) => ensure(
                    status.code() == FailedPrecondition,
                    "DeleteSnapshot answers OK or FAILED_PRECONDITION",
                    status_text(&status),
                )?,
            }
            Ok(())
        });
    list.rule("A volume from a snapshot has the data of that time, and not what was written into the source later");
    list.also(&[NODE_SERVICE, EACH_ACCESS, PATHS])
        .changes("data-of-the-snapshot", |c| {
            let volume = c.volume()?;
            c.write_marks(&volume, &[OLD])?;
            let snapshot = c.ready_snapshot(c.snapshot_request(&volume))?;
            c.write_marks(&volume, &[NEW, LATER])?;
            has_old_data(c, c.restore(&snapshot)?)
        });
    list.needs(&[
        CLONE_VOLUME,
        CREATE_DELETE_VOLUME,
        NODE_SERVICE,
        EACH_ACCESS,
        PATHS,
    ]);
    list.rule("A clone has the data of that time, and neither it nor its source sees what is written into the other");
    list.changes("data-of-the-volume", |c| {
        let volume = c.volume()?;
        c.write_marks(&volume, &[OLD])?;
        let request = c.clone_of(volume.id())?;
        let copy = c.volume_of(request.clone())?;
        c.write_marks(&volume, &[NEW, LATER])?;
        has_old_data(c, request)?;
        c.write_marks(&copy, &[OLD])?;
        let found = c.has_marks(&volume, &[NEW])?;
        ensure(
            found == [true],
            "the source keeps its data",
            "it changed with its copy",
        )
    });
}
