//! Golden files of the Controller service, volumes.

use super::goldens;
use crate::support::scripted::Reply;
use csi_proto::v1::controller_service_capability::{Rpc, Type as CapabilityType, rpc};
use csi_proto::v1::volume_capability::{AccessMode, AccessType, MountVolume, access_mode};
use csi_proto::v1::volume_content_source::{SnapshotSource, Type as SourceType};
use csi_proto::v1::{
    ControllerExpandVolumeResponse, ControllerGetCapabilitiesResponse, ControllerGetVolumeResponse,
    ControllerModifyVolumeResponse, ControllerPublishVolumeResponse, ControllerServiceCapability,
    ControllerUnpublishVolumeResponse, CreateVolumeResponse, DeleteVolumeResponse,
    GetCapacityResponse, ListVolumesResponse, Topology, ValidateVolumeCapabilitiesResponse, Volume,
    VolumeCapability, VolumeCondition, VolumeContentSource, controller_get_volume_response,
    list_volumes_response, validate_volume_capabilities_response::Confirmed,
};

goldens! {
    create_volume: "controller create-volume pvc-1 --req-bytes 10Gi --lim-bytes 20Gi --cap MULTI_NODE_MULTI_WRITER,mount,nfs,ro,hard --params server=10.0.0.4,share=/export --mutable-params iops=500 --source-snapshot snap-1",
        Reply::message(&CreateVolumeResponse { volume: Some(volume()) }),
        AlreadyExists "pvc-1 exists with a capacity of 5368709120";

    delete_volume: "controller delete-volume vol-1",
        Reply::message(&DeleteVolumeResponse {}),
        FailedPrecondition "volume vol-1 is still published";

    controller_publish_volume: "controller publish vol-1 --node-id node-1 --cap SINGLE_NODE_WRITER,block --read-only --vol-context a=b",
        Reply::message(&ControllerPublishVolumeResponse {
            publish_context: [("device".into(), "/dev/sdb".into()), ("lun".into(), "7".into())].into(),
        }),
        NotFound "there is no node node-1";

    controller_unpublish_volume: "controller unpublish vol-1 --node-id node-1",
        Reply::message(&ControllerUnpublishVolumeResponse {}),
        DeadlineExceeded "the array did not answer";

    validate_volume_capabilities: "controller validate-volume-capabilities vol-1 --cap 5,mount --vol-context a=b --params c=d --mutable-params e=f",
        Reply::message(&ValidateVolumeCapabilitiesResponse {
            confirmed: Some(Confirmed {
                volume_context: [("a".into(), "b".into())].into(),
                volume_capabilities: vec![VolumeCapability {
                    access_mode: Some(AccessMode { mode: access_mode::Mode::MultiNodeMultiWriter.into() }),
                    access_type: Some(AccessType::Mount(MountVolume {
                        fs_type: "nfs".into(),
                        mount_flags: vec!["hard".into()],
                        volume_mount_group: "1000".into(),
                    })),
                }],
                parameters: [("c".into(), "d".into())].into(),
                mutable_parameters: [("e".into(), "f".into())].into(),
            }),
            message: "all of them".into(),
        }),
        InvalidArgument "volume_context: unknown key \"a\"";

    list_volumes: "controller list-volumes --max-entries 3 --starting-token first",
        Reply::message(&ListVolumesResponse {
            entries: vec![
                list_volumes_response::Entry {
                    volume: Some(volume()),
                    status: Some(list_volumes_response::VolumeStatus {
                        published_node_ids: vec!["node-1".into(), "node-2".into()],
                        volume_condition: Some(VolumeCondition { abnormal: true, message: "read-only since noon".into() }),
                    }),
                },
                list_volumes_response::Entry {
                    volume: Some(Volume { volume_id: "vol-2 \u{1b}[31m\nred".into(), capacity_bytes: 1_500_000_000, ..Volume::default() }),
                    status: Some(list_volumes_response::VolumeStatus::default()),
                },
                list_volumes_response::Entry::default(),
            ],
            next_token: "second".into(),
        }),
        Aborted "starting_token \"first\" is not mine";

    get_capacity: "controller get-capacity --cap 5,mount --params server=10.0.0.4,share=/export --accessible-topology zone=a",
        Reply::message(&GetCapacityResponse {
            available_capacity: 3 << 40,
            maximum_volume_size: Some(1 << 40),
            minimum_volume_size: Some(0),
        }),
        Unimplemented "no GetCapacity here";

    controller_get_capabilities: "controller get-capabilities",
        Reply::message(&ControllerGetCapabilitiesResponse {
            capabilities: [rpc::Type::CreateDeleteVolume.into(), rpc::Type::ListVolumes.into(), 99]
                .map(|r#type| ControllerServiceCapability { r#type: Some(CapabilityType::Rpc(Rpc { r#type })) })
                .into(),
        }),
        Unavailable "starting up";

    controller_expand_volume: "controller expand-volume vol-1 --req-bytes 20Gi --lim-bytes 30Gi --cap 5,mount",
        Reply::message(&ControllerExpandVolumeResponse { capacity_bytes: 20 << 30, node_expansion_required: true }),
        OutOfRange "at most 15Gi";

    controller_get_volume: "controller get-volume vol-1",
        Reply::message(&ControllerGetVolumeResponse {
            volume: Some(volume()),
            status: Some(controller_get_volume_response::VolumeStatus {
                published_node_ids: vec!["node-1".into()],
                volume_condition: Some(VolumeCondition { abnormal: false, message: "fine".into() }),
            }),
        }),
        NotFound "no volume vol-1";

    controller_modify_volume: "controller modify-volume vol-1 --mutable-params iops=500,tier=gold",
        Reply::message(&ControllerModifyVolumeResponse {}),
        ResourceExhausted "no iops left";
}

/// A volume with everything.
fn volume() -> Volume {
    let segments = |zone: &str| Topology {
        segments: [("rack".into(), "7".into()), ("zone".into(), zone.into())].into(),
    };
    Volume {
        capacity_bytes: 10 << 30,
        volume_id: "vol-1".into(),
        volume_context: [
            ("server".into(), "10.0.0.4".into()),
            ("share".into(), "/export".into()),
        ]
        .into(),
        content_source: Some(VolumeContentSource {
            r#type: Some(SourceType::Snapshot(SnapshotSource {
                snapshot_id: "snap-1".into(),
            })),
        }),
        accessible_topology: vec![segments("a"), segments("b")],
    }
}
