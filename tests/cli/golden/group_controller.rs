//! Golden files of the GroupController service.

use super::snapshots::snapshot;
use super::{goldens, three_days_ago};
use crate::support::scripted::Reply;
use csi_proto::v1::group_controller_service_capability::{Rpc, Type as CapabilityType, rpc};
use csi_proto::v1::{
    CreateVolumeGroupSnapshotResponse, DeleteVolumeGroupSnapshotResponse,
    GetVolumeGroupSnapshotResponse, GroupControllerGetCapabilitiesResponse,
    GroupControllerServiceCapability, VolumeGroupSnapshot,
};

goldens! {
    group_controller_get_capabilities: "group-controller get-capabilities",
        Reply::message(&GroupControllerGetCapabilitiesResponse {
            capabilities: vec![GroupControllerServiceCapability {
                r#type: Some(CapabilityType::Rpc(Rpc {
                    r#type: rpc::Type::CreateDeleteGetVolumeGroupSnapshot.into(),
                })),
            }],
        }),
        Unimplemented "unknown service csi.v1.GroupController";

    create_volume_group_snapshot: "group-controller create-volume-group-snapshot gsnap-1 --source-volume-ids vol-1,vol-2 --params a=b",
        Reply::message(&CreateVolumeGroupSnapshotResponse { group_snapshot: Some(group_snapshot()) }),
        NotFound "no volume vol-2";

    delete_volume_group_snapshot: "group-controller delete-volume-group-snapshot gsnap-1 --snapshot-ids snap-1,snap-2",
        Reply::message(&DeleteVolumeGroupSnapshotResponse {}),
        InvalidArgument "snap-3 is of this group too";

    get_volume_group_snapshot: "group-controller get-volume-group-snapshot gsnap-1 --snapshot-ids snap-1,snap-2",
        Reply::message(&GetVolumeGroupSnapshotResponse { group_snapshot: Some(group_snapshot()) }),
        NotFound "no group snapshot gsnap-1";
}

fn group_snapshot() -> VolumeGroupSnapshot {
    VolumeGroupSnapshot {
        group_snapshot_id: "gsnap-1".into(),
        snapshots: vec![snapshot("snap-1"), snapshot("snap-2")],
        creation_time: Some(three_days_ago()),
        ready_to_use: false,
    }
}
