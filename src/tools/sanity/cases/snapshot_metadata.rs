//! The SnapshotMetadata service: streams of the ranges that hold data, or differ between two snapshots.
//!
//! That the ranges of a stream are in order, do not overlap, and are cut as the stream says, are rules of its messages,
//! which hold in every case here.

use super::made_snapshots::strange_ids;
use crate::tools::sanity::vocabulary::*;
use csi_proto::Request;
use std::collections::BTreeSet;
use std::time::Duration;

/// Snapshots of block volumes can be had.

/// The needs of cases that also write to volumes.

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

/// The content of a stream: the volume's size, where the stream has it, and the ranges.
#[derive(Clone, Debug, PartialEq)]
struct Ranges {
    capacity: i64,
    ranges: Vec<v1::BlockMetadata>,
}

fn ranges<Q: RangeRequest>(c: &Context, request: Q) -> Result<Ranges, Stop> {
    c.stream_in_the_end(request).map(all_of::<Q>)
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
///
/// # Errors
/// When it cannot be created.
pub fn block_volume(c: &Context) -> Result<Volume, Stop> {
    let mut request = c.create_request()?;
    request.volume_capabilities = vec![c.capability_of(Access::Block)?];
    c.volume_of(request)
}

/// A snapshot of a volume, ready to use.
///
/// # Errors
/// When it cannot be created.
pub fn snapshot_of(c: &Context, volume: &Volume) -> Result<v1::Snapshot, Stop> {
    c.ready_snapshot(c.snapshot_request(volume))
}

/// The places where data is written: far enough from each other to lie in different ranges of most drivers.
const FIRST: Mark = Mark {
    letter: b'a',
    offset: 8 << 20,
};
const SECOND: Mark = Mark {
    letter: b'b',
    offset: 48 << 20,
};

fn covers(ranges: &[v1::BlockMetadata], mark: Mark) -> bool {
    let at = i64::try_from(mark.offset).unwrap_or(i64::MAX);
    ranges
        .iter()
        .any(|range| range.byte_offset <= at && at < range.byte_offset + range.size_bytes)
}

/// A block volume, written to before each of two snapshots where its paths can be seen.
fn two_snapshots(c: &Context) -> Result<(v1::Snapshot, v1::Snapshot), Stop> {
    let least = SECOND.offset + (1 << 20);
    if i64::try_from(least).is_ok_and(|least| c.settings().volume_size < least) {
        return Err(Stop::Skipped(format!(
            "it writes at {}: --volume-size is too small",
            SECOND.offset
        )));
    }
    let volume = block_volume(c)?;
    if c.can_publish_here() {
        c.write_marks(&volume, &[FIRST])?;
    }
    let base = snapshot_of(c, &volume)?;
    if c.can_publish_here() {
        c.write_marks(&volume, &[SECOND])?;
    }
    Ok((base, snapshot_of(c, &volume)?))
}

/// Demands that a stream which begins at an offset has what the whole stream has after it.
fn begins_at<Q: RangeRequest>(c: &Context, request: Q) -> Verdict {
    let whole = ranges(c, request.clone())?;
    let mut offsets = BTreeSet::from([0, 1]);
    // The byte after each range is where a stream that broke is continued.
    offsets.extend(
        whole
            .ranges
            .iter()
            .map(|one| one.byte_offset + one.size_bytes),
    );
    for offset in offsets.into_iter().take(8) {
        // Whether the very end is beyond the end is left to the driver.
        if whole.capacity > 0 && offset >= whole.capacity {
            continue;
        }
        let rest = ranges(c, request.clone().starting_at(offset))?.ranges;
        let wanted = whole.ranges.iter();
        let wanted = wanted.filter(|one| one.byte_offset + one.size_bytes > offset);
        let wanted: Vec<_> = wanted.copied().collect();
        // A driver may begin a range of variable length at the offset itself.
        let end = |ranges: &[v1::BlockMetadata]| {
            ranges
                .iter()
                .map(|one| one.byte_offset + one.size_bytes)
                .collect::<Vec<_>>()
        };
        let expected = format!(
            "from offset {offset} on the ranges {}",
            ranges_text(&wanted)
        );
        ensure(end(&rest) == end(&wanted), &expected, ranges_text(&rest))?;
    }
    Ok(())
}

/// Demands that a stream of small messages has what one of large messages has.
fn in_small_messages<Q: RangeRequest>(c: &Context, request: Q) -> Verdict {
    let whole = ranges(c, request.clone())?;
    for most in [1, 2, 1000] {
        // That no message has more is a rule of the message.
        let small = ranges(c, request.clone().at_most(most))?;
        let expected = format!(
            "with max_results {most} the ranges {}",
            ranges_text(&whole.ranges)
        );
        ensure(whole == small, &expected, ranges_text(&small.ranges))?;
    }
    Ok(())
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

/// Demands that calls at the same time each give the same ranges, or are ABORTED.
fn all_at_once<Q: RangeRequest + Sync>(c: &Context, request: Q, wanted: &Ranges) -> Verdict {
    for answer in c.often_at_once(4, || c.stream(request.clone()))? {
        let Some(messages) = ok_or_aborted(answer?)? else {
            continue;
        };
        let again = all_of::<Q>(messages);
        ensure(
            *wanted == again,
            &ranges_text(&wanted.ranges),
            ranges_text(&again.ranges),
        )?;
    }
    Ok(())
}

fn ranges_text(ranges: &[v1::BlockMetadata]) -> String {
    let mut ranges_text: Vec<_> = ranges
        .iter()
        .take(8)
        .map(|one| format!("{}+{}", one.byte_offset, one.size_bytes))
        .collect();
    if ranges.len() > ranges_text.len() {
        ranges_text.push(format!("… {} in all", ranges.len()));
    }
    format!("[{}]", ranges_text.join(", "))
}

/// The cases.
pub fn cases(list: &mut Cases) {
    list.about(
        "snapshot-metadata/get-metadata-allocated",
        "GetMetadataAllocated",
    );
    list.needs(&[
        SNAPSHOT_METADATA_SERVICE,
        CREATE_DELETE_SNAPSHOT,
        CREATE_DELETE_VOLUME,
        BLOCK,
    ]);
    list.needs(&[
        SNAPSHOT_METADATA_SERVICE,
        CREATE_DELETE_SNAPSHOT,
        CREATE_DELETE_VOLUME,
    ]);
    list.error_rule("GetMetadataAllocated of a snapshot that does not exist answers NOT_FOUND");
    list.changes("unknown", |c| {
        let gone = c.deleted_snapshot()?;
        c.refused(allocated(c, &gone), &[NotFound])
    });
    list.rule("GetMetadataAllocated gives ranges within the volume, its size, and the same every time, also to calls at the same time");
    list.also(&[BLOCK]).changes("describes-the-snapshot", |c| {
        let (_, snapshot) = two_snapshots(c)?;
        let request = allocated(c, &snapshot);
        let first = ranges(c, request.clone())?;
        let end = first
            .ranges
            .last()
            .map_or(0, |last| last.byte_offset + last.size_bytes);
        let actual = format!("one that ends at {end} of {}", first.capacity);
        ensure(
            end <= first.capacity,
            "ranges that end within the volume",
            actual,
        )?;
        all_at_once(c, request, &first)
    });
    list.rule("GetMetadataAllocated with a starting_offset has every range that ends after it, and none that ends before");
    list.also(&[BLOCK]).changes("begins-at-the-offset", |c| {
        let (_, snapshot) = two_snapshots(c)?;
        begins_at(c, allocated(c, &snapshot))
    });
    list.rule("GetMetadataAllocated keeps max_results, and has the same ranges whatever it is");
    list.also(&[BLOCK]).changes("in-small-messages", |c| {
        let (_, snapshot) = two_snapshots(c)?;
        in_small_messages(c, allocated(c, &snapshot))
    });
    list.error_rule("GetMetadataAllocated with a starting_offset that is negative or beyond the end answers OUT_OF_RANGE");
    list.also(&[BLOCK]).changes("impossible-offset", |c| {
        let snapshot = snapshot_of(c, &block_volume(c)?)?;
        refuses_offsets(c, allocated(c, &snapshot), snapshot.size_bytes)
    });
    list.rule("GetMetadataAllocated answers whole after a caller went away");
    list.under("Special considerations for processing a snapshot metadata gRPC stream")
        .also(&[BLOCK])
        .changes("given-up", |c| {
            let (_, snapshot) = two_snapshots(c)?;
            let request = allocated(c, &snapshot);
            let before = ranges(c, request.clone())?;
            c.cancelled(request.clone(), Duration::from_millis(1))?;
            let after = ranges(c, request)?;
            ensure(
                before == after,
                &ranges_text(&before.ranges),
                ranges_text(&after.ranges),
            )
        });
    list.rule("GetMetadataAllocated has the ranges that were written before the snapshot");
    list.also(&[BLOCK, NODE_SERVICE, PATHS])
        .changes("has-what-was-written", |c| {
            let (base, target) = two_snapshots(c)?;
            let before = ranges(c, allocated(c, &base))?.ranges;
            let after = ranges(c, allocated(c, &target))?.ranges;
            let found = covers(&before, FIRST) && covers(&after, FIRST) && covers(&after, SECOND);
            let expected = format!("ranges around {} and {}", FIRST.offset, SECOND.offset);
            let actual = format!("{}, then {}", ranges_text(&before), ranges_text(&after));
            ensure(found, &expected, actual)
        });
    list.about("snapshot-metadata/get-metadata-delta", "GetMetadataDelta");
    list.needs(&[SNAPSHOT_METADATA_SERVICE]);
    list.error_rule("GetMetadataDelta without a base or a target answers INVALID_ARGUMENT");
    list.reads("without-ids", |c| {
        let none = v1::Snapshot::default();
        c.refused(delta(c, &none, &none), &[InvalidArgument])
    });
    list.error_rule("GetMetadataDelta of a base or a target that does not exist answers NOT_FOUND");
    list.also(&[CREATE_DELETE_SNAPSHOT, CREATE_DELETE_VOLUME, BLOCK])
        .changes("unknown", |c| {
            let volume = block_volume(c)?;
            let snapshot = snapshot_of(c, &volume)?;
            let gone = snapshot_of(c, &volume)?;
            c.ok_in_the_end(c.delete_snapshot(&gone.snapshot_id))?;
            c.refused(delta(c, &gone, &snapshot), &[NotFound])?;
            c.refused(delta(c, &snapshot, &gone), &[NotFound])
        });
    list.about(
        "snapshot-metadata/get-metadata-allocated",
        "GetMetadataAllocated",
    );
    list.needs(&[SNAPSHOT_METADATA_SERVICE]);
    list.error_rule("GetMetadataAllocated with an id that no driver makes answers NOT_FOUND, or INVALID_ARGUMENT");
    list.reads("strange-ids", |c| {
        for id in strange_ids() {
            let request = v1::GetMetadataAllocatedRequest {
                snapshot_id: id,
                secrets: c.secrets(),
                ..Default::default()
            };
            c.refused_in_the_end(request, &[NotFound, InvalidArgument])?;
        }
        Ok(())
    });
    list.about("snapshot-metadata/get-metadata-delta", "GetMetadataDelta");
    list.needs(&[
        SNAPSHOT_METADATA_SERVICE,
        CREATE_DELETE_SNAPSHOT,
        CREATE_DELETE_VOLUME,
        BLOCK,
    ]);
    list.rule("GetMetadataDelta gives the same every time, to calls at the same time and after one that was given up");
    list.changes("is-constant", |c| {
        let (base, target) = two_snapshots(c)?;
        let request = delta(c, &base, &target);
        let first = ranges(c, request.clone())?;
        c.cancelled(request.clone(), Duration::from_millis(1))?;
        all_at_once(c, request, &first)
    });
    list.rule("GetMetadataDelta with a starting_offset has every range that ends after it, and none that ends before");
    list.changes("begins-at-the-offset", |c| {
        let (base, target) = two_snapshots(c)?;
        begins_at(c, delta(c, &base, &target))
    });
    list.rule("GetMetadataDelta keeps max_results, and has the same ranges whatever it is");
    list.changes("in-small-messages", |c| {
        let (base, target) = two_snapshots(c)?;
        in_small_messages(c, delta(c, &base, &target))
    });
    list.error_rule("GetMetadataDelta with a starting_offset that is negative or beyond the end answers OUT_OF_RANGE");
    list.changes("impossible-offset", |c| {
        let (base, target) = two_snapshots(c)?;
        refuses_offsets(c, delta(c, &base, &target), target.size_bytes)
    });
    list.rule("GetMetadataDelta has what was written between the two snapshots, and should not have what was written before them");
    list.also(&[NODE_SERVICE, PATHS])
        .changes("has-what-changed", |c| {
            let (base, target) = two_snapshots(c)?;
            let changed = ranges(c, delta(c, &base, &target))?.ranges;
            let expected = format!("a range around {}", SECOND.offset);
            ensure(covers(&changed, SECOND), &expected, ranges_text(&changed))?;
            // Ranges may be as large as a driver likes.
            let expected = format!("no range around {}, which did not change", FIRST.offset);
            c.should(!covers(&changed, FIRST), &expected, ranges_text(&changed));
            Ok(())
        });
}
