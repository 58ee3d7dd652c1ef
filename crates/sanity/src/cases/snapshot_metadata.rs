//! The SnapshotMetadata service: streams of the ranges that hold data, or differ between two snapshots.
//!
//! That the ranges of a stream are in order, do not overlap, end after the offset that was asked for, and are cut as the
//! stream says, are rules of its messages, which hold in every case here. How a driver cuts ranges beyond that is its own
//! business, and they may hold more than was written: cases demand what must not be missing.

use super::made_snapshots::strange_ids;
use crate::need::Need;
use crate::verdict::answers_ok;
use crate::vocabulary::*;
use csi_proto::Request;
use std::collections::BTreeSet;
use std::time::Duration;

/// A request for a stream, of either RPC.
trait RangeRequest: Request + Clone {
    fn starting_at(self, offset: i64) -> Self;
    fn at_most(self, results: i32) -> Self;
    fn ranges(reply: Self::Reply) -> (i64, Vec<v1::BlockMetadata>);
}

macro_rules! wanted {
    ($($request:ident),*) => {
        $(impl RangeRequest for v1::$request {
            fn starting_at(self, starting_offset: i64) -> Self {
                Self { starting_offset, ..self }
            }

            fn at_most(self, max_results: i32) -> Self {
                Self { max_results, ..self }
            }

            fn ranges(reply: Self::Reply) -> (i64, Vec<v1::BlockMetadata>) {
                (reply.volume_capacity_bytes, reply.block_metadata)
            }
        })*
    };
}

wanted!(GetMetadataAllocatedRequest, GetMetadataDeltaRequest);

/// The content of a stream: the volume's size, where the stream has it, and the ranges in order.
struct Ranges {
    capacity: i64,
    ranges: Vec<v1::BlockMetadata>,
}

fn ranges<Q: RangeRequest>(c: &Context, request: Q) -> Result<Ranges, Stop> {
    let expected = answers_ok(Q::METHOD);
    let messages = c.stream(request)?;
    let messages = messages.map_err(|status| Stop::failed(expected, status_text(&status)));
    messages.map(all_of::<Q>)
}

/// Joins the messages of a stream.
fn all_of<Q: RangeRequest>(messages: Vec<Q::Reply>) -> Ranges {
    let mut all = Ranges {
        capacity: 0,
        ranges: Vec::new(),
    };
    for message in messages {
        let (capacity, ranges) = Q::ranges(message);
        all.capacity = capacity;
        all.ranges.extend(ranges);
    }
    // Their own order is a rule of the messages.
    all.ranges.sort_by_key(|one| one.byte_offset);
    all
}

/// GetMetadataAllocated of a snapshot.
pub fn allocated(c: &Context, snapshot: &v1::Snapshot) -> v1::GetMetadataAllocatedRequest {
    v1::GetMetadataAllocatedRequest {
        snapshot_id: snapshot.snapshot_id.clone(),
        secrets: c.secrets(),
        ..Default::default()
    }
}

/// GetMetadataDelta between two snapshots.
pub fn delta(
    c: &Context,
    base: &v1::Snapshot,
    target: &v1::Snapshot,
) -> v1::GetMetadataDeltaRequest {
    v1::GetMetadataDeltaRequest {
        base_snapshot_id: base.snapshot_id.clone(),
        target_snapshot_id: target.snapshot_id.clone(),
        secrets: c.secrets(),
        ..Default::default()
    }
}

/// A new block volume: the service is about those.
pub fn block_volume(c: &Context) -> Result<Volume, Stop> {
    c.volume_of(c.create_request_for(Access::Block)?)
}

/// The places where data is written: far enough from each other to lie in different ranges of most drivers.
const FIRST: Mark = Mark::at(b'a', 8 << 20);
const SECOND: Mark = Mark::at(b'b', 48 << 20);

/// The offset behind a range.
fn end(range: &v1::BlockMetadata) -> i64 {
    range.byte_offset.saturating_add(range.size_bytes)
}

fn covers(ranges: &[v1::BlockMetadata], mark: Mark) -> bool {
    let at = i64::try_from(mark.offset).unwrap_or(i64::MAX);
    let mut ranges = ranges.iter();
    ranges.any(|range| range.byte_offset <= at && at < end(range))
}

/// A block volume, written to before each of two snapshots where its paths can be seen.
fn two_snapshots(c: &Context) -> Result<(v1::Snapshot, v1::Snapshot), Stop> {
    let offset = SECOND.offset;
    let fits = i64::try_from(offset + (1 << 20)).is_ok_and(|least| least <= c.size());
    let reason = format!("it writes at {offset}: --volume-size is too small");
    skip_unless(fits, &reason)?;
    let volume = block_volume(c)?;
    if c.can_publish_here() {
        c.write_marks(&volume, &[FIRST])?;
    }
    let base = c.ready_snapshot(&volume)?;
    if c.can_publish_here() {
        c.write_marks(&volume, &[SECOND])?;
    }
    Ok((base, c.ready_snapshot(&volume)?))
}

/// GetMetadataDelta between two snapshots, unless changed block tracking is off.
fn compared(
    c: &Context,
    base: &v1::Snapshot,
    target: &v1::Snapshot,
) -> Result<v1::GetMetadataDeltaRequest, Stop> {
    let request = delta(c, base, target);
    let answer = c.stream(request.clone())?;
    let is_off = answer.is_err_and(|status| status.code() == FailedPrecondition);
    let reason = "changed block tracking is off: it answers FAILED_PRECONDITION";
    skip_unless(!is_off, reason)?;
    Ok(request)
}

/// GetMetadataDelta between two snapshots of a volume, and the second of them.
fn two_compared(c: &Context) -> Result<(v1::GetMetadataDeltaRequest, v1::Snapshot), Stop> {
    let (base, target) = two_snapshots(c)?;
    Ok((compared(c, &base, &target)?, target))
}

/// Demands that ranges hold all bytes that others hold from an offset on. Both are in order.
fn hold_all(
    wanted: &[v1::BlockMetadata],
    offset: i64,
    found: &[v1::BlockMetadata],
    when: &str,
) -> Verdict {
    let mut rest = found.iter().peekable();
    let mut held = offset;
    for range in wanted {
        held = held.max(range.byte_offset);
        while held < end(range)
            && let Some(one) = rest.next_if(|one| one.byte_offset <= held)
        {
            held = held.max(end(one));
        }
        let expected = format!("{when} ranges that hold all of {}", ranges_text(wanted));
        ensure(held >= end(range), expected, ranges_text(found))?;
    }
    Ok(())
}

/// Demands that a stream which begins at an offset has what the whole stream has after it.
fn begins_at<Q: RangeRequest>(c: &Context, request: Q) -> Verdict {
    let whole = ranges(c, request.clone())?;
    let mut offsets = BTreeSet::from([0, 1]);
    // The byte after each range is where a stream that broke is continued.
    offsets.extend(whole.ranges.iter().map(end));
    // Whether the very end is beyond the end is left to the driver.
    let within = |offset: &i64| whole.capacity <= 0 || *offset < whole.capacity;
    each(offsets.into_iter().take(8).filter(within), |offset| {
        let rest = ranges(c, request.clone().starting_at(offset))?.ranges;
        let when = format!("from offset {offset} on");
        hold_all(&whole.ranges, offset, &rest, &when)
    })
}

/// Demands that a stream of small messages has what one of large messages has.
fn in_small_messages<Q: RangeRequest>(c: &Context, request: Q) -> Verdict {
    let whole = ranges(c, request.clone())?.ranges;
    each([1, 2, 1000], |most| {
        // That no message has more is a rule of the message.
        let small = ranges(c, request.clone().at_most(most))?.ranges;
        hold_all(&whole, 0, &small, &format!("with max_results {most}"))
    })
}

/// Demands of offsets that cannot be that they are refused.
fn refuses_offsets<Q: RangeRequest>(c: &Context, request: Q, size: i64) -> Verdict {
    c.refused(request.clone().starting_at(-1), &[OutOfRange])?;
    let capacity = ranges(c, request.clone())?.capacity.max(size);
    if capacity > 0 {
        let beyond = capacity.saturating_add(1 << 20);
        c.refused(request.starting_at(beyond), &[OutOfRange])?;
    }
    Ok(())
}

/// Demands that calls at the same time each give what was given before, or are ABORTED.
fn all_at_once<Q: RangeRequest + Sync>(c: &Context, request: Q, before: &Ranges) -> Verdict {
    each(
        c.often_at_once(4, || c.stream(request.clone()))?,
        |answer| match ok_or_aborted(answer?)? {
            Some(messages) => given_again(before, &all_of::<Q>(messages)),
            None => Ok(()),
        },
    )
}

fn given_again(before: &Ranges, now: &Ranges) -> Verdict {
    hold_all(&before.ranges, 0, &now.ranges, "again")
}

fn ranges_text(ranges: &[v1::BlockMetadata]) -> String {
    let shown = ranges.iter().take(8);
    let mut shown: Vec<_> = shown
        .map(|one| format!("{}+{}", one.byte_offset, one.size_bytes))
        .collect();
    if ranges.len() > shown.len() {
        shown.push(format!("… {} in all", ranges.len()));
    }
    format!("[{}]", shown.join(", "))
}

const ALLOCATED: &str = "snapshot-metadata/get-metadata-allocated";
const DELTA: &str = "snapshot-metadata/get-metadata-delta";

/// What snapshots need, and those of block volumes.
const SNAPSHOTS: &[Need] = &[CREATE_DELETE_SNAPSHOT, CREATE_DELETE_VOLUME];
const BLOCK_SNAPSHOTS: &[Need] = &[CREATE_DELETE_SNAPSHOT, CREATE_DELETE_VOLUME, BLOCK];

pub fn cases(list: &mut Cases) {
    list.about(ALLOCATED, "GetMetadataAllocated");
    list.needs(&[SNAPSHOT_METADATA_SERVICE]);
    list.error("GetMetadataAllocated of a snapshot that does not exist answers NOT_FOUND");
    list.also(SNAPSHOTS).changes("unknown", |c| {
        c.refused(allocated(c, &c.deleted_snapshot()?), &[NotFound])
    });
    list.rule("GetMetadataAllocated gives ranges that begin within the volume, and leaves none out later, nor of calls at the same time");
    list.also(BLOCK_SNAPSHOTS);
    list.changes("describes-the-snapshot", |c| {
        let (_, snapshot) = two_snapshots(c)?;
        let request = allocated(c, &snapshot);
        let first = ranges(c, request.clone())?;
        let size = first.capacity;
        c.demands_of("replies/create-volume", || {
            each(first.ranges.iter().map(|one| one.byte_offset), |begin| {
                // The last range of a fixed length may end beyond a volume that is no multiple of it.
                let actual = format!("one begins at {begin} of {size}");
                ensure(begin < size, "ranges that begin within the volume", actual)
            })
        })?;
        all_at_once(c, request, &first)
    });
    list.rule("GetMetadataAllocated with a starting_offset has everything that comes after it");
    list.also(BLOCK_SNAPSHOTS);
    list.changes("begins-at-the-offset", |c| {
        c.depends_on("snapshot-metadata/get-metadata-allocated/in-small-messages");
        begins_at(c, allocated(c, &two_snapshots(c)?.1))
    });
    list.rule("GetMetadataAllocated has everything whatever max_results is");
    list.also(BLOCK_SNAPSHOTS);
    list.changes("in-small-messages", |c| {
        in_small_messages(c, allocated(c, &two_snapshots(c)?.1))
    });
    list.error("GetMetadataAllocated with a starting_offset that is negative or beyond the end answers OUT_OF_RANGE");
    list.also(BLOCK_SNAPSHOTS);
    list.changes("impossible-offset", |c| {
        let snapshot = c.ready_snapshot(&block_volume(c)?)?;
        refuses_offsets(c, allocated(c, &snapshot), snapshot.size_bytes)
    });
    list.rule("GetMetadataAllocated answers whole after a caller went away");
    list.under("Special considerations for processing a snapshot metadata gRPC stream");
    list.also(BLOCK_SNAPSHOTS).changes("given-up", |c| {
        let request = allocated(c, &two_snapshots(c)?.1);
        let before = ranges(c, request.clone())?;
        c.cancelled(request.clone(), Duration::from_millis(1))?;
        given_again(&before, &ranges(c, request)?)
    });
    list.rule("GetMetadataAllocated has the ranges that were written before the snapshot");
    list.also(BLOCK_SNAPSHOTS).also(&[NODE_SERVICE, PATHS]);
    list.changes("has-what-was-written", |c| {
        let (base, target) = two_snapshots(c)?;
        let before = ranges(c, allocated(c, &base))?.ranges;
        let after = ranges(c, allocated(c, &target))?.ranges;
        c.depends_on("snapshot-metadata/get-metadata-allocated/in-small-messages");
        let found = covers(&before, FIRST) && covers(&after, FIRST) && covers(&after, SECOND);
        let expected = format!("ranges around {} and {}", FIRST.offset, SECOND.offset);
        let actual = format!("{}, then {}", ranges_text(&before), ranges_text(&after));
        ensure(found, expected, actual)
    });
    list.about(DELTA, "GetMetadataDelta");
    list.needs(&[SNAPSHOT_METADATA_SERVICE]);
    list.error("GetMetadataDelta without a base or a target answers INVALID_ARGUMENT");
    list.reads("without-ids", |c| {
        let none = v1::Snapshot::default();
        c.refused(delta(c, &none, &none), &[InvalidArgument])
    });
    list.error("GetMetadataDelta of a base or a target that does not exist answers NOT_FOUND");
    list.also(BLOCK_SNAPSHOTS).changes("unknown", |c| {
        let volume = block_volume(c)?;
        let snapshot = c.ready_snapshot(&volume)?;
        let gone = c.ready_snapshot(&volume)?;
        compared(c, &snapshot, &gone)?;
        c.ok(c.delete_snapshot(&gone.snapshot_id))?;
        c.depends_on("controller/delete-snapshot/deletes");
        c.refused(delta(c, &gone, &snapshot), &[NotFound])?;
        c.refused(delta(c, &snapshot, &gone), &[NotFound])
    });
    list.about(ALLOCATED, "GetMetadataAllocated");
    list.needs(&[SNAPSHOT_METADATA_SERVICE]);
    list.error("GetMetadataAllocated with an id that no driver makes answers NOT_FOUND, or INVALID_ARGUMENT");
    list.reads("strange-ids", |c| {
        c.demands_of("snapshot-metadata/get-metadata-allocated/unknown", || {
            each(strange_ids(), |snapshot_id| {
                let mut request = allocated(c, &v1::Snapshot::default());
                request.snapshot_id = snapshot_id;
                c.refused(request, &[NotFound, InvalidArgument])
            })
        })
    });
    list.about(DELTA, "GetMetadataDelta");
    list.needs(&[SNAPSHOT_METADATA_SERVICE]);
    list.rule("GetMetadataDelta leaves nothing out later, of calls at the same time, or after one that was given up");
    list.also(BLOCK_SNAPSHOTS).changes("is-constant", |c| {
        let (request, _) = two_compared(c)?;
        let first = ranges(c, request.clone())?;
        c.cancelled(request.clone(), Duration::from_millis(1))?;
        all_at_once(c, request, &first)
    });
    list.rule("GetMetadataDelta with a starting_offset has everything that comes after it");
    list.also(BLOCK_SNAPSHOTS);
    list.changes("begins-at-the-offset", |c| begins_at(c, two_compared(c)?.0));
    list.rule("GetMetadataDelta has everything whatever max_results is");
    list.also(BLOCK_SNAPSHOTS);
    list.changes("in-small-messages", |c| {
        in_small_messages(c, two_compared(c)?.0)
    });
    list.error("GetMetadataDelta with a starting_offset that is negative or beyond the end answers OUT_OF_RANGE");
    list.also(BLOCK_SNAPSHOTS);
    list.changes("impossible-offset", |c| {
        let (request, target) = two_compared(c)?;
        refuses_offsets(c, request, target.size_bytes)
    });
    list.rule("GetMetadataDelta has what was written between the two snapshots, and should not have what was written before them");
    list.also(BLOCK_SNAPSHOTS).also(&[NODE_SERVICE, PATHS]);
    list.changes("has-what-changed", |c| {
        let changed = ranges(c, two_compared(c)?.0)?.ranges;
        let text = ranges_text(&changed);
        let expected = format!("a range around {}", SECOND.offset);
        ensure(covers(&changed, SECOND), expected, &*text)?;
        // Ranges may be as large as a driver likes.
        let expected = format!("no range around {}, which did not change", FIRST.offset);
        c.should(!covers(&changed, FIRST), expected, text);
        Ok(())
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_may_be_cut_otherwise_and_hold_more_but_not_less() {
        let of = |all: &[(i64, i64)]| -> Vec<_> {
            let ranges = all
                .iter()
                .map(|&(byte_offset, size_bytes)| v1::BlockMetadata {
                    byte_offset,
                    size_bytes,
                });
            ranges.collect()
        };
        let wanted = of(&[(0, 10), (20, 10), (30, 5)]);
        let mut wrong = Vec::new();
        for (offset, found, held) in [
            (0, &[(0, 10), (20, 10), (30, 5)][..], true),
            (0, &[(0, 100)], true),
            (0, &[(0, 5), (5, 5), (20, 15)], true),
            (0, &[(0, 5), (6, 4), (20, 15)], false),
            (0, &[(0, 10), (20, 14)], false),
            (0, &[(0, 10)], false),
            (0, &[], false),
            (10, &[(20, 15)], true),
            (25, &[(20, 10), (30, 5)], true),
            (25, &[(25, 10)], true),
            (25, &[(26, 9)], false),
            (35, &[], true),
            (0, &[(0, i64::MAX), (i64::MAX, i64::MAX)], true),
        ] {
            if hold_all(&wanted, offset, &of(found), "").is_ok() != held {
                wrong.push(format!("{found:?} from {offset}"));
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }
}
