//! CreateVolume from a snapshot or from another volume, and the data in the copy.

use super::get_volume::{AS_CREATED, shown_as_created};
use crate::vocabulary::*;

/// The data that a source has from the beginning, and the data that is written into it later, at the same place and at
/// another.
const OLD: Mark = Mark::at(b'a', 0);
const NEW: Mark = Mark::at(b'b', 0);
const LATER: Mark = Mark::at(b'c', 1 << 16);

/// Demands that a volume is at least as large as its source, as far as both sizes are known.
fn large_enough(c: &Context, volume: &v1::Volume, source: i64) -> Verdict {
    let size = volume.capacity_bytes;
    let kept = size == 0 || source == 0 || size >= source;
    let expected = format!("a volume of at least {source} bytes, the size of its source");
    // A volume smaller than the request is another matter.
    c.demands_of("replies/create-volume", || {
        ensure(kept, expected, format!("{size} bytes"))
    })
}

/// Demands that `copy` is there after its source was deleted, where that can be.
fn outlives<Q: csi_proto::Request>(c: &Context, copy: &Volume, delete_source: Q) -> Verdict {
    match c.ok_or(delete_source, &[FailedPrecondition])? {
        // To ask for it by its name would need the source.
        Some(_) => c.ok(c.validate_request(copy)).map(drop),
        None => Ok(()),
    }
}

/// Demands that the copy has what its source had then, and not what came later.
fn has_old_data(c: &Context, copy: &Volume) -> Verdict {
    let found = c.has_marks(copy, &[OLD, NEW, LATER])?;
    let expected =
        "the copy has what was written before it was taken, and nothing that was written later";
    let actual = match found[..] {
        [true, _, false] => return Ok(()),
        [_, true, _] | [_, _, true] => "it has what was written later",
        _ => "it lacks what was written before",
    };
    Err(Stop::failed(expected, actual))
}

pub fn cases(list: &mut Cases) {
    list.about("controller/create-volume", "CreateVolume");
    list.needs(&[CREATE_DELETE_SNAPSHOT, CREATE_DELETE_VOLUME]);
    list.rule("CreateVolume from a snapshot, and ControllerGetVolume after it, name the snapshot as the source, and the volume is not smaller");
    list.also(EACH_ACCESS).changes("from-snapshot", |c| {
        let (volume, snapshot) = c.volume_and_snapshot()?;
        let copy = c.volume_of(c.restore(&snapshot)?)?;
        let is_own = copy.id() != volume.id();
        ensure(is_own, "a volume of its own", "it is the snapshot's source")?;
        if c.has(GET_VOLUME) {
            c.demands_of(AS_CREATED, || shown_as_created(c, &copy))?;
        }
        large_enough(c, &copy.volume, snapshot.size_bytes)
    });
    list.rule("CreateVolume from a snapshot, repeated, answers with the volume that it has made");
    list.also(EACH_ACCESS)
        .changes("from-snapshot-is-idempotent", |c| {
            let (_, snapshot) = c.volume_and_snapshot()?;
            let copy = c.volume_of(c.restore(&snapshot)?)?;
            c.is_made_again(&copy)
        });
    list.rule("CreateVolume from a snapshot that is larger than required_bytes makes a volume of the snapshot's size, or answers OUT_OF_RANGE");
    list.changes("from-larger-snapshot", |c| {
        let (_, snapshot) = c.volume_and_snapshot()?;
        let mut request = c.restore(&snapshot)?;
        request.capacity_range = range((c.size() / 2).max(1), 0);
        match c.send(request)? {
            Ok(reply) => large_enough(c, &reply.volume.unwrap_or_default(), snapshot.size_bytes),
            Err(status) => {
                let expected = "CreateVolume answers OK or OUT_OF_RANGE";
                same_code(&status, &[OutOfRange, InvalidArgument], expected)
            }
        }
    });
    list.error("CreateVolume from a snapshot that does not exist answers NOT_FOUND");
    list.changes("from-unknown-snapshot", |c| {
        let gone = c.deleted_snapshot()?;
        c.refused(c.restore(&gone)?, &[NotFound])
    });
    list.needs(&[CLONE_VOLUME, CREATE_DELETE_VOLUME]);
    list.error("CreateVolume from a volume that does not exist answers NOT_FOUND");
    list.changes("from-unknown-volume", |c| {
        let gone = c.deleted_volume()?;
        c.refused(c.clone_of(&gone)?, &[NotFound])
    });
    list.rule("CreateVolume from another volume names it as its source, and makes a volume that is not smaller");
    list.also(EACH_ACCESS).changes("from-volume", |c| {
        let volume = c.volume()?;
        let copy = c.volume_of(c.clone_of(&volume)?)?;
        let is_own = copy.id() != volume.id();
        ensure(is_own, "a volume of its own", "it is its source")?;
        large_enough(c, &copy.volume, volume.volume.capacity_bytes)?;
        // And of a copy.
        c.ok(c.clone_of(&copy)?)
    });
    list.rule(
        "CreateVolume from another volume, repeated, answers with the volume that it has made",
    );
    list.also(EACH_ACCESS)
        .changes("from-volume-is-idempotent", |c| {
            let volume = c.volume()?;
            let copy = c.volume_of(c.clone_of(&volume)?)?;
            c.is_made_again(&copy)
        });
    list.about("controller/delete-volume", "DeleteVolume");
    list.needs(&[CLONE_VOLUME, CREATE_DELETE_VOLUME]);
    list.rule("DeleteVolume of a volume leaves its clones, or answers FAILED_PRECONDITION");
    list.changes("leaves-clones-whole", |c| {
        let volume = c.volume()?;
        let copy = c.volume_of(c.clone_of(&volume)?)?;
        let delete = c.delete_request(volume.id());
        outlives(c, &copy, delete)
    });
    list.about("controller/create-volume", "CreateVolume");
    list.needs(&[CREATE_DELETE_SNAPSHOT, CREATE_DELETE_VOLUME]);
    list.error("CreateVolume with the name of a volume that came from another source answers ALREADY_EXISTS");
    list.changes("name-of-a-volume-from-elsewhere", |c| {
        let (volume, snapshot) = c.volume_and_snapshot()?;
        let other = c.ready_snapshot(&volume)?;
        let mut request = c.volume_of(c.restore(&snapshot)?)?.request;
        let refused = |request| match c.has(NEWER_THAN_1_2) {
            true => c.refused(request, &[AlreadyExists]).map(drop),
            // The specification of that time did not compare sources.
            false => c.should_refuse(request, &[AlreadyExists], "ALREADY_EXISTS"),
        };
        let source = request.volume_content_source.take();
        // Whether a volume from elsewhere fits a request that names no source no sentence says.
        c.recommended(|| c.refused(request.clone(), &[AlreadyExists]).map(drop))?;
        request.volume_content_source = c.restore(&other)?.volume_content_source;
        refused(request.clone())?;
        request.volume_content_source = source;
        refused(request.named(volume.request.name))
    });
    list.rule("CreateVolume calls with different names from one snapshot at the same time make a volume each");
    list.changes("from-one-snapshot-at-once", |c| {
        let (_, snapshot) = c.volume_and_snapshot()?;
        let requests = (0..4).map(|_| c.restore(&snapshot));
        c.one_of_each_call(requests.collect::<Result<_, _>>()?)
    });
    list.error("Equal CreateVolume calls from a source at the same time make one volume: each answers with it, or ABORTED");
    list.changes("equal-copies-at-once", |c| {
        let (_, snapshot) = c.volume_and_snapshot()?;
        let request = c.restore(&snapshot)?;
        c.demands_of("controller/create-volume/at-the-same-time", || {
            c.one_of_equal_calls(request)
        })
    });
    list.rule("CreateVolume from a source whose caller went away can be repeated");
    list.changes("copy-given-up", |c| {
        let (_, snapshot) = c.volume_and_snapshot()?;
        each(SOON, |after| c.given_up(c.restore(&snapshot)?, after))
    });
    list.rule("A volume from a snapshot is there when the snapshot is deleted, or the snapshot cannot be deleted before it");
    list.under("DeleteSnapshot Errors");
    list.changes("outlives-its-snapshot", |c| {
        let (_, snapshot) = c.volume_and_snapshot()?;
        let copy = c.volume_of(c.restore(&snapshot)?)?;
        let delete = c.delete_snapshot(&snapshot.snapshot_id);
        outlives(c, &copy, delete)
    });
    list.rule("A volume from a snapshot has the data of that time, and not what was written into the source later");
    list.also(&[NODE_SERVICE]).also(SEEN);
    list.changes("data-of-the-snapshot", |c| {
        let volume = c.volume()?;
        c.write_marks(&volume, &[OLD])?;
        let snapshot = c.ready_snapshot(&volume)?;
        c.write_marks(&volume, &[NEW, LATER])?;
        has_old_data(c, &c.volume_of(c.restore(&snapshot)?)?)
    });
    list.needs(&[CLONE_VOLUME, CREATE_DELETE_VOLUME, NODE_SERVICE]);
    list.rule("A clone has the data of that time, and neither it nor its source sees what is written into the other");
    list.also(SEEN);
    list.changes("data-of-the-volume", |c| {
        let volume = c.volume()?;
        c.write_marks(&volume, &[OLD])?;
        let copy = c.volume_of(c.clone_of(&volume)?)?;
        c.write_marks(&volume, &[NEW, LATER])?;
        has_old_data(c, &copy)?;
        c.write_marks(&copy, &[OLD])?;
        let kept = c.has_marks(&volume, &[NEW])? == [true];
        let actual = "it changed with its copy";
        ensure(kept, "the source keeps its data", actual)
    });
}
