//! The SnapshotMetadata service: the blocks of a snapshot that hold data, and the blocks that differ between two
//! snapshots. Replies are streams.

use super::vocabulary::*;

/// The service's RPCs.
pub(crate) const GROUP: Group = Group {
    name: "snapshot-metadata",
    aliases: &["sm"],
    at_node: false,
    about: "Blocks of snapshots: allocated, or changed between two",
    rpcs: &[
        Rpc::of::<v1::GetMetadataAllocatedRequest>(),
        Rpc::of::<v1::GetMetadataDeltaRequest>(),
    ],
};

/// `--starting-offset`.
const STARTING_OFFSET: Flag = flag(&["starting-offset"], "BYTES");
/// `--max-results`.
const MAX_RESULTS: Flag = flag(&["max-results"], "N");

/// What the first message of a stream says of all.
const OF_FIRST: Rules = &[Required("volume_capacity_bytes")];

/// The columns of a range of blocks.
const BLOCKS: View = View::new(&[
    text("OFFSET", "byte_offset"),
    text("LENGTH", "size_bytes"),
    size("SIZE", "size_bytes"),
    text("TYPE", "/block_metadata_type").wide(),
    text("VOLUME CAPACITY", "/volume_capacity_bytes").wide(),
])
.rows("block_metadata")
.name("byte_offset")
.sum(Sum {
    part: "size_bytes",
    whole: "/volume_capacity_bytes",
    noun: "range",
});

/// `snapshot-metadata get-metadata-allocated`.
impl Declare for v1::GetMetadataAllocatedRequest {
    const EFFECT: Effect = Reads;
    const NEEDS: Needs = &[Plugin(P::SnapshotMetadataService)];
    const REPLY_RULES: Rules = OF_FIRST;
    const AGREEMENTS: Agreements = RANGES;
    const NAMES: Words = &["get-metadata-allocated", "allocated"];
    const FLAGS: Flags = &[SNAPSHOT_IDS, STARTING_OFFSET, MAX_RESULTS];
    const VIEW: View = BLOCKS;
    const EXAMPLES: Words =
        &["get-metadata-allocated snap-1 --starting-offset 4096 --max-results 100"];
}

/// `snapshot-metadata get-metadata-delta`.
impl Declare for v1::GetMetadataDeltaRequest {
    const EFFECT: Effect = Reads;
    const NEEDS: Needs = &[Plugin(P::SnapshotMetadataService)];
    const REPLY_RULES: Rules = OF_FIRST;
    const AGREEMENTS: Agreements = RANGES;
    const NAMES: Words = &["get-metadata-delta", "delta"];
    const FLAGS: Flags = &[
        first(&["base-snapshot-id"], "BASE-ID"),
        second(&["target-snapshot-id"], "TARGET-ID"),
        STARTING_OFFSET,
        MAX_RESULTS,
    ];
    const VIEW: View = BLOCKS;
    const EXAMPLES: Words = &[
        "get-metadata-delta snap-1 snap-2 --starting-offset 4096 --max-results 100",
        "get-metadata-delta --base-snapshot-id snap-1 --target-snapshot-id snap-2",
    ];
}
