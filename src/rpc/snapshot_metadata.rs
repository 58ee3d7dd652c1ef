//! The SnapshotMetadata service: the blocks of a snapshot that hold data, and the blocks that differ between two
//! snapshots. Replies are streams.

use super::declare::{Declare, Group, Rpc};
use super::facts::{Capability, Effect, Facts, PluginCapability as P};
use super::flags::{RequestContext, RequestError, SnapshotIds, Subjects, fill_text, put};
use super::validation::rpc_rules::{RANGES, RpcRules};
use super::validation::rule::Rule::Required;
use crate::output::view::{View, size, text};
use clap::Args;
use csi_proto::{help, v1};

/// The service's RPCs.
pub const GROUP: Group = Group {
    name: "snapshot-metadata",
    aliases: &["sm"],
    at_node: false,
    about: "Blocks of snapshots: allocated, or changed between two",
    rpcs: &[
        Rpc::of::<GetMetadataAllocated>(),
        Rpc::of::<GetMetadataDelta>(),
    ],
};

/// The start of the range and the number of entries in a message.
#[derive(Args, Debug)]
struct RangeFlags {
    #[arg(long, value_name = "BYTES", allow_negative_numbers = true, help = help::get_metadata_allocated_request::STARTING_OFFSET)]
    starting_offset: Option<i64>,
    #[arg(long, value_name = "N", allow_negative_numbers = true, help = help::get_metadata_allocated_request::MAX_RESULTS)]
    max_results: Option<i32>,
}

impl RangeFlags {
    fn fill(&self, starting_offset: &mut i64, max_results: &mut i32) {
        *starting_offset = self.starting_offset.unwrap_or(*starting_offset);
        *max_results = self.max_results.unwrap_or(*max_results);
    }
}

/// The flags of `snapshot-metadata get-metadata-allocated`.
#[derive(Args)]
pub struct GetMetadataAllocated {
    #[command(flatten)]
    ids: SnapshotIds,
    #[command(flatten)]
    range: RangeFlags,
}

impl Declare for GetMetadataAllocated {
    type Request = v1::GetMetadataAllocatedRequest;
    const FACTS: Facts = Facts {
        effect: Effect::Reads,
        needs: &[Capability::Plugin(P::SnapshotMetadataService)],
        required: &["snapshot_id"],
        gives: &[],
        section: "GetMetadataAllocated",
    };
    const RULES: RpcRules = RpcRules {
        reply: &[
            Required("block_metadata_type"),
            Required("volume_capacity_bytes"),
        ],
        exchange: RANGES,
        ..RpcRules::NONE
    };
    const NAMES: &'static [&'static str] = &["get-metadata-allocated", "allocated"];
    const EXAMPLES: &'static [&'static str] =
        &["get-metadata-allocated snap-1 --starting-offset 4096 --max-results 100"];
    const VIEW: View = View::new(&[
        text("OFFSET", "byte_offset"),
        text("LENGTH", "size_bytes"),
        size("SIZE", "size_bytes"),
        text("TYPE", "/block_metadata_type").wide(),
        text("VOLUME CAPACITY", "/volume_capacity_bytes").wide(),
    ])
    .rows("block_metadata")
    .name("byte_offset");

    fn subjects(&self) -> Option<Subjects<'_>> {
        Some(self.ids.subjects())
    }

    fn fill(
        &self,
        subject: Option<&str>,
        context: &RequestContext,
        request: &mut Self::Request,
    ) -> Result<(), RequestError> {
        put(subject, &mut request.snapshot_id);
        self.range
            .fill(&mut request.starting_offset, &mut request.max_results);
        context.add_secrets(&mut request.secrets);
        Ok(())
    }
}

/// The flags of `snapshot-metadata get-metadata-delta`.
#[derive(Args)]
pub struct GetMetadataDelta {
    #[arg(value_name = "BASE-ID", help = help::get_metadata_delta_request::BASE_SNAPSHOT_ID)]
    base: Option<String>,
    #[arg(value_name = "TARGET-ID", help = help::get_metadata_delta_request::TARGET_SNAPSHOT_ID)]
    target: Option<String>,
    /// The same as the first argument
    #[arg(
        long,
        value_name = "ID",
        hide_short_help = true,
        conflicts_with = "base"
    )]
    base_snapshot_id: Option<String>,
    /// The same as the second argument
    #[arg(
        long,
        value_name = "ID",
        hide_short_help = true,
        conflicts_with = "target"
    )]
    target_snapshot_id: Option<String>,
    #[command(flatten)]
    range: RangeFlags,
}

impl Declare for GetMetadataDelta {
    type Request = v1::GetMetadataDeltaRequest;
    const FACTS: Facts = Facts {
        effect: Effect::Reads,
        needs: &[Capability::Plugin(P::SnapshotMetadataService)],
        required: &["base_snapshot_id", "target_snapshot_id"],
        gives: &[],
        section: "GetMetadataDelta",
    };
    const RULES: RpcRules = RpcRules {
        reply: &[
            Required("block_metadata_type"),
            Required("volume_capacity_bytes"),
        ],
        exchange: RANGES,
        ..RpcRules::NONE
    };
    const NAMES: &'static [&'static str] = &["get-metadata-delta", "delta"];
    const EXAMPLES: &'static [&'static str] = &[
        "get-metadata-delta snap-1 snap-2 --starting-offset 4096 --max-results 100",
        "get-metadata-delta --base-snapshot-id snap-1 --target-snapshot-id snap-2",
    ];
    const VIEW: View = View::new(&[
        text("OFFSET", "byte_offset"),
        text("LENGTH", "size_bytes"),
        size("SIZE", "size_bytes"),
        text("TYPE", "/block_metadata_type").wide(),
        text("VOLUME CAPACITY", "/volume_capacity_bytes").wide(),
    ])
    .rows("block_metadata")
    .name("byte_offset");

    fn fill(
        &self,
        _: Option<&str>,
        context: &RequestContext,
        request: &mut Self::Request,
    ) -> Result<(), RequestError> {
        fill_text(
            self.base.as_ref().or(self.base_snapshot_id.as_ref()),
            &mut request.base_snapshot_id,
        );
        fill_text(
            self.target.as_ref().or(self.target_snapshot_id.as_ref()),
            &mut request.target_snapshot_id,
        );
        self.range
            .fill(&mut request.starting_offset, &mut request.max_results);
        context.add_secrets(&mut request.secrets);
        Ok(())
    }
}
