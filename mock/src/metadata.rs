//! The SnapshotMetadata service: which blocks of a snapshot hold data, and which differ between two.

use crate::Defect;
use crate::core::Core;
use crate::data::BLOCK;
use crate::service::service;
use crate::state::Snapshot;
use csi_proto::v1::plugin_capability::service::Type as PluginService;
use csi_proto::v1::snapshot_metadata_server::SnapshotMetadata;
use csi_proto::v1::{
    BlockMetadata, BlockMetadataType, GetMetadataAllocatedRequest,
    GetMetadataAllocatedResponse as Part, GetMetadataDeltaRequest, GetMetadataDeltaResponse,
};
use tonic::Status;
use tonic::codegen::BoxStream;

/// How many ranges a message has where the caller does not want fewer.
const USUAL_RESULTS: usize = 4;

/// The part of a request that both RPCs have: whether it is of the delta, its starting_offset and its max_results.
type Wanted = (bool, i64, i32);

impl Core {
    fn needs_metadata(&self) -> Result<(), Status> {
        if self.has(Defect::SnapshotMetadataMissing) {
            return Err(Status::unimplemented("unknown service"));
        }
        self.needs_service(PluginService::SnapshotMetadataService)
    }

    /// A snapshot; none where the driver has the defect `without` and there is no id, or `unknown` and there is no such snapshot.
    fn snapshot(
        &self,
        id: &str,
        without: Defect,
        unknown: Defect,
    ) -> Result<Option<Snapshot>, Status> {
        let overlooks = if id.is_empty() { without } else { unknown };
        match self.state().snapshots.get(id) {
            Some(snapshot) if !snapshot.is_ready() => {
                Err(Status::unavailable("the snapshot is not ready yet"))
            }
            Some(snapshot) => Ok(Some(snapshot.clone())),
            None if self.has(overlooks) => Ok(None),
            None => Err(Status::not_found(format!("there is no snapshot {id:?}"))),
        }
    }

    fn allocated(&self, request: &GetMetadataAllocatedRequest) -> Result<Vec<Part>, Status> {
        self.needs_metadata()?;
        let without = Defect::MetadataWithoutSnapshotId;
        self.id(&request.snapshot_id, "snapshot_id", without)?;
        self.authenticate(&request.secrets)?;
        let unknown = Defect::MetadataUnknownSnapshot;
        let Some(snapshot) = self.snapshot(&request.snapshot_id, without, unknown)? else {
            return Ok(Vec::new());
        };
        let wanted = (false, request.starting_offset, request.max_results);
        let blocks = snapshot.blocks.keys().copied().collect();
        self.parts(blocks, snapshot.size, wanted)
    }

    fn delta(&self, request: &GetMetadataDeltaRequest) -> Result<Vec<Part>, Status> {
        self.needs_metadata()?;
        let (base, target) = (&request.base_snapshot_id, &request.target_snapshot_id);
        self.id(base, "base_snapshot_id", Defect::DeltaWithoutBase)?;
        self.id(target, "target_snapshot_id", Defect::DeltaWithoutTarget)?;
        self.authenticate(&request.secrets)?;
        let (without, unknown) = (Defect::DeltaWithoutBase, Defect::DeltaUnknownBase);
        let base = self.snapshot(base, without, unknown)?;
        let (without, unknown) = (Defect::DeltaWithoutTarget, Defect::DeltaUnknownTarget);
        let Some(target) = self.snapshot(target, without, unknown)? else {
            return Ok(Vec::new());
        };
        if base
            .as_ref()
            .is_some_and(|base| base.source != target.source)
        {
            let message = "the snapshots are of two volumes";
            return Err(Status::invalid_argument(message));
        }
        let old = base.filter(|_| !self.has(Defect::DeltaIgnoresBase));
        let old = old.map(|base| base.blocks).unwrap_or_default();
        let changed = target.blocks.iter();
        let changed = changed.filter(|(block, write)| old.get(block) != Some(write));
        let wanted = (true, request.starting_offset, request.max_results);
        let blocks = changed.map(|(block, _)| *block).collect();
        self.parts(blocks, target.size, wanted)
    }

    fn parts(&self, blocks: Vec<i64>, capacity: i64, wanted: Wanted) -> Result<Vec<Part>, Status> {
        let (of_delta, start, max_results) = wanted;
        // Each of the two RPCs has its own cases: these are mistakes of one.
        let has = |defect| !of_delta && self.has(defect);
        if start < 0 && !has(Defect::MetadataNegativeOffset) {
            return Err(Status::out_of_range("starting_offset is negative"));
        }
        if start > capacity && !has(Defect::MetadataOffsetBeyondEnd) {
            let message = "starting_offset is beyond the end";
            return Err(Status::out_of_range(message));
        }
        let most = match usize::try_from(max_results) {
            Err(_) => return Err(Status::invalid_argument("max_results is negative")),
            _ if has(Defect::MetadataIgnoresMaxResults) => USUAL_RESULTS,
            Ok(0) => USUAL_RESULTS,
            Ok(most) => most,
        };
        let any_start = has(Defect::MetadataIgnoresStartingOffset);
        let mut ranges: Vec<_> = blocks
            .into_iter()
            .filter(|block| any_start || (block + 1) * BLOCK > start)
            .map(|block| BlockMetadata {
                byte_offset: block * BLOCK,
                size_bytes: BLOCK,
            })
            .collect();
        if has(Defect::MetadataUnordered) {
            ranges.reverse();
        }
        if has(Defect::MetadataRangeIsEmpty)
            && let Some(first) = ranges.first().copied()
        {
            let mut empty = first;
            empty.size_bytes = 0;
            ranges.insert(0, empty);
        }
        if has(Defect::MetadataBeyondEnd) {
            ranges.push(BlockMetadata {
                byte_offset: capacity,
                size_bytes: BLOCK,
            });
        }
        if has(Defect::MetadataSkipsAfterOffset) && start > 0 && !ranges.is_empty() {
            ranges.remove(0);
        }
        let kind = match has(Defect::MetadataTypeMissing) {
            true => BlockMetadataType::Unknown,
            false => BlockMetadataType::FixedLength,
        };
        let part = |block_metadata| Part {
            block_metadata_type: kind.into(),
            volume_capacity_bytes: capacity,
            block_metadata,
        };
        let parts = ranges.chunks(most).map(|ranges| part(ranges.to_vec()));
        let mut parts: Vec<_> = parts.collect();
        if parts.is_empty() {
            parts.push(part(Vec::new()));
        }
        if has(Defect::MetadataCapacityChanges)
            && let Some(second) = parts.get_mut(1)
        {
            second.volume_capacity_bytes += BLOCK;
        }
        if has(Defect::MetadataOverlaps) {
            // The last range once more, in a message of its own.
            let last = parts.last().and_then(|one| one.block_metadata.last());
            let last: Vec<_> = last.copied().into_iter().collect();
            parts.push(part(last));
        }
        if has(Defect::MetadataLostBetweenMessages) {
            for part in parts.iter_mut().skip(1) {
                part.block_metadata.remove(0);
            }
        }
        Ok(parts)
    }
}

/// The parts of a reply, one message each.
fn stream<T: Send + 'static>(parts: Vec<Part>, message: fn(Part) -> T) -> BoxStream<T> {
    let messages = parts.into_iter().map(move |part| Ok(message(part)));
    Box::pin(tokio_stream::iter(messages))
}

service!(SnapshotMetadata(core, request) {
    get_metadata_allocated(GetMetadataAllocatedRequest) -> BoxStream<Part> = {
        core.one_at_a_time(&request.snapshot_id).await?;
        let parts = core.allocated(&request);
        let parts = parts.map_err(|status| core.worded(status, &request.secrets))?;
        stream(parts, |part| part)
    };
    get_metadata_delta(GetMetadataDeltaRequest) -> BoxStream<GetMetadataDeltaResponse> = {
        core.one_at_a_time(&request.target_snapshot_id).await?;
        let parts = core.delta(&request);
        let parts = parts.map_err(|status| core.worded(status, &request.secrets))?;
        stream(parts, |part| GetMetadataDeltaResponse {
            block_metadata_type: part.block_metadata_type,
            volume_capacity_bytes: part.volume_capacity_bytes,
            block_metadata: part.block_metadata,
        })
    };
});
