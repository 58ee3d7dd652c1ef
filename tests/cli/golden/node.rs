//! Golden files of the Node service.

use super::goldens;
use crate::support::scripted::Reply;
use csi_proto::v1::node_service_capability::{Rpc, Type as CapabilityType, rpc};
use csi_proto::v1::volume_usage::Unit;
use csi_proto::v1::{
    NodeExpandVolumeResponse, NodeGetCapabilitiesResponse, NodeGetInfoResponse,
    NodeGetVolumeStatsResponse, NodePublishVolumeResponse, NodeServiceCapability,
    NodeStageVolumeResponse, NodeUnpublishVolumeResponse, NodeUnstageVolumeResponse, Topology,
    VolumeCondition, VolumeUsage,
};

goldens! {
    node_stage_volume: "node stage vol-1 --staging-target-path /var/lib/staging/vol-1 --cap 1,mount,ext4 --vol-context a=b --pub-context c=d",
        Reply::message(&NodeStageVolumeResponse {}),
        Internal "mkfs.ext4: no such file";

    node_unstage_volume: "node unstage vol-1 --staging-target-path /var/lib/staging/vol-1",
        Reply::message(&NodeUnstageVolumeResponse {}),
        NotFound "no volume vol-1";

    node_publish_volume: "node publish nfstestvol --target-path /mnt/nfs --pub-context server=10.0.0.4,share=nfs_share --read-only",
        Reply::message(&NodePublishVolumeResponse {}),
        PermissionDenied "mount: only root can do that";

    node_unpublish_volume: "node unpublish vol-1 --target-path /mnt/vol-1",
        Reply::message(&NodeUnpublishVolumeResponse {}),
        Unavailable "the server is gone";

    node_get_volume_stats: "node stats vol-1:/mnt/vol-1:/var/lib/staging/vol-1",
        Reply::message(&NodeGetVolumeStatsResponse {
            usage: vec![
                VolumeUsage { available: 6 << 30, total: 10 << 30, used: 4 << 30, unit: Unit::Bytes.into() },
                VolumeUsage { available: 655_000, total: 655_360, used: 360, unit: Unit::Inodes.into() },
            ],
            volume_condition: Some(VolumeCondition { abnormal: true, message: "nearly full".into() }),
        }),
        NotFound "vol-1 is not mounted at /mnt/vol-1";

    node_expand_volume: "node expand-volume vol-1 /mnt/vol-1 --req-bytes 20Gi --lim-bytes 30Gi --staging-target-path /var/lib/staging/vol-1 --cap 5,mount",
        Reply::message(&NodeExpandVolumeResponse { capacity_bytes: 20 << 30 }),
        OutOfRange "at most 15Gi";

    node_get_capabilities: "node get-capabilities",
        Reply::message(&NodeGetCapabilitiesResponse {
            capabilities: [rpc::Type::StageUnstageVolume, rpc::Type::GetVolumeStats]
                .map(|r#type| NodeServiceCapability {
                    r#type: Some(CapabilityType::Rpc(Rpc { r#type: r#type.into() })),
                })
                .into(),
        }),
        Unavailable "starting up";

    node_get_info: "node get-info",
        Reply::message(&NodeGetInfoResponse {
            node_id: "node-1".into(),
            max_volumes_per_node: 64,
            accessible_topology: Some(Topology {
                segments: [("rack".into(), "7".into()), ("zone".into(), "a".into())].into(),
            }),
        }),
        Internal "no node id was given";
}
