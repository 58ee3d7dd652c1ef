//! The RPCs of the Controller service about volumes: create, list, show, modify, expand and delete.

use super::vocabulary::*;

/// The columns of a volume with its status.
const VOLUME: View = View::new(&[
    text("VOLUME ID", "volume.volume_id"),
    size("CAPACITY", "volume.capacity_bytes"),
    text("SOURCE", "volume.content_source"),
    text("NODES", "status.published_node_ids"),
    text("CONDITION", "status.volume_condition").format(CellFormat::Condition),
    text("TOPOLOGY", "volume.accessible_topology"),
    text("CONTEXT", "volume.volume_context").wide(),
    text("MESSAGE", "status.volume_condition.message").wide(),
])
.name("volume.volume_id");

/// `controller create-volume`.
impl Declare for v1::CreateVolumeRequest {
    const EFFECT: Effect = Makes(Making {
        thing: Thing::Volume,
        undone_by: &tables::CONTROLLER_DELETE_VOLUME,
        id_path: &[("volume_id", "volume.volume_id")],
    });
    const NEEDS: Needs = &[Controller(C::CreateDeleteVolume)];
    const GIVES: Gives = &[(Given::VolumeContext, "volume.volume_context")];
    const REQUEST_RULES: Rules = &[SUGGESTED_NAME];
    const AGREEMENTS: Agreements = &[
        InCapacityRange("volume.capacity_bytes"),
        Check(exchange::created_volume),
    ];
    const NAMES: Words = &["create-volume", "new", "create", "n", "c"];
    const FLAGS: Flags = &[
        NAMES,
        CAPACITY,
        CAPABILITY,
        PARAMETERS.of_new_volumes(),
        MUTABLE_PARAMETERS,
        CONTENT_SOURCE,
        TOPOLOGY_REQUIREMENT,
    ];
    const VIEW: View = View::new(&[
        text("VOLUME ID", "volume.volume_id"),
        size("CAPACITY", "volume.capacity_bytes"),
        text("SOURCE", "volume.content_source"),
        text("TOPOLOGY", "volume.accessible_topology"),
        text("CONTEXT", "volume.volume_context").wide(),
    ])
    .name("volume.volume_id");
    const CSC: Csc = Some(csc::volumes);
    const EXAMPLES: Words = &[
        "create-volume pvc-1 --req-bytes 10Gi --lim-bytes 20Gi --cap 5,mount,nfs --params server=10.0.0.4,share=/export",
        "create-volume pvc-2 --source-snapshot snap-1 --cap mode=1,type=mount,fs=ext4,flag=noatime,group=1000 --requisite zone=a --preferred zone=a --mutable-params iops=500",
        "create-volume pvc-3 --source-volume vol-1 --cap 1,block",
    ];
}

/// `controller delete-volume`.
impl Declare for v1::DeleteVolumeRequest {
    const EFFECT: Effect = Undoes;
    const NEEDS: Needs = &[Controller(C::CreateDeleteVolume)];
    const NAMES: Words = &["delete-volume", "rm", "del", "delete", "d"];
    const FLAGS: Flags = &[VOLUME_IDS];
    const VIEW: View = View::done("deleted");
    const EXAMPLES: Words = &["delete-volume vol-1 vol-2"];
}

/// `controller list-volumes`.
impl Declare for v1::ListVolumesRequest {
    const EFFECT: Effect = Reads;
    const NEEDS: Needs = &[Controller(C::ListVolumes)];
    const GIVES: Gives = &[(Given::Ids(IdKind::Volume), "entries.volume.volume_id")];
    const AGREEMENTS: Agreements = &[PAGE, NewToken];
    const NAMES: Words = &["list-volumes", "ls", "list", "volumes", "l"];
    const FLAGS: Flags = &[MAX_ENTRIES, STARTING_TOKEN, ALL_PAGES];
    const VIEW: View = VOLUME.rows("entries");
    const CSC: Csc = Some(csc::volumes);
    const EXAMPLES: Words = &[
        "list-volumes --max-entries 100 --starting-token t1",
        "list-volumes --all -o wide",
    ];
}

/// `controller get-volume`.
impl Declare for v1::ControllerGetVolumeRequest {
    const EFFECT: Effect = Reads;
    const NEEDS: Needs = &[Controller(C::GetVolume)];
    const AGREEMENTS: Agreements = &[Same("volume_id", "volume.volume_id")];
    const NAMES: Words = &["get-volume"];
    const FLAGS: Flags = &[VOLUME_IDS];
    const VIEW: View = VOLUME;
    const CSC: Csc = Some(csc::volumes);
    const EXAMPLES: Words = &["get-volume vol-1"];
}

/// `controller modify-volume`.
impl Declare for v1::ControllerModifyVolumeRequest {
    const EFFECT: Effect = Changes;
    const NEEDS: Needs = &[Controller(C::ModifyVolume)];
    const NAMES: Words = &["modify-volume", "modify"];
    const FLAGS: Flags = &[VOLUME_IDS, MUTABLE_PARAMETERS];
    const VIEW: View = View::done("modified");
    const EXAMPLES: Words = &["modify-volume vol-1 --mutable-params iops=500"];
}

/// `controller expand-volume`.
impl Declare for v1::ControllerExpandVolumeRequest {
    const EFFECT: Effect = Changes;
    const NEEDS: Needs = &[Controller(C::ExpandVolume)];
    const REPLY_RULES: Rules = &[Required("capacity_bytes")];
    const AGREEMENTS: Agreements = &[NotBelowRequired("capacity_bytes")];
    const NAMES: Words = &["expand-volume", "expand", "exp"];
    const FLAGS: Flags = &[VOLUME_IDS, CAPACITY, CAPABILITY];
    const VIEW: View = View::new(&[
        text("VOLUME ID", "?volume_id"),
        size("CAPACITY", "capacity_bytes"),
        text("NODE EXPANSION REQUIRED", "node_expansion_required"),
    ])
    .name("?volume_id");
    const CSC: Csc = Some(|layout, reply, out| csc::field(layout, reply, "capacity_bytes", out));
    const EXAMPLES: Words =
        &["expand-volume vol-1 --req-bytes 20Gi --lim-bytes 30Gi --cap 5,mount"];
}
