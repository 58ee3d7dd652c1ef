//! Golden files of the SnapshotMetadata service, whose replies are streams.

use super::goldens;
use crate::support::scripted::Reply;
use csi_proto::v1::{
    BlockMetadata, BlockMetadataType, GetMetadataAllocatedResponse, GetMetadataDeltaResponse,
};

goldens! {
    get_metadata_allocated: "snapshot-metadata get-metadata-allocated snap-1 --starting-offset 4096 --max-results 2",
        Reply::encoded(&[
            GetMetadataAllocatedResponse {
                block_metadata_type: BlockMetadataType::VariableLength.into(),
                volume_capacity_bytes: 1 << 30,
                block_metadata: vec![block(4096, 4096), block(65_536, 1 << 20)],
            },
            GetMetadataAllocatedResponse {
                block_metadata_type: BlockMetadataType::VariableLength.into(),
                volume_capacity_bytes: 1 << 30,
                block_metadata: vec![block(1 << 29, 512)],
            },
        ]),
        OutOfRange "starting_offset is beyond the volume's end";

    get_metadata_delta: "snapshot-metadata get-metadata-delta snap-1 snap-2 --starting-offset 4096 --max-results 2",
        Reply::encoded(&[GetMetadataDeltaResponse {
            block_metadata_type: BlockMetadataType::FixedLength.into(),
            volume_capacity_bytes: 1 << 30,
            block_metadata: vec![block(4096, 4096), block(8192, 4096)],
        }]),
        NotFound "no snapshot snap-2";
}

fn block(byte_offset: i64, size_bytes: i64) -> BlockMetadata {
    BlockMetadata {
        byte_offset,
        size_bytes,
    }
}
