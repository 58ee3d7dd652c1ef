//! The GroupController service: snapshots of several volumes at one point in time.

use super::vocabulary::*;

/// The service's RPCs.
pub(crate) const GROUP: Group = Group {
    name: "group-controller",
    aliases: &["g", "group"],
    at_node: false,
    about: "Snapshots of several volumes at one point in time",
    rpcs: &[
        Rpc::of::<v1::GroupControllerGetCapabilitiesRequest>(),
        Rpc::of::<v1::CreateVolumeGroupSnapshotRequest>(),
        Rpc::of::<v1::DeleteVolumeGroupSnapshotRequest>(),
        Rpc::of::<v1::GetVolumeGroupSnapshotRequest>(),
    ],
};

/// `--snapshot-ids`.
const SNAPSHOT_IDS: Flag = flag(&["snapshot-ids", "snapshot-id"], "ID,…");

/// The columns of a snapshot of a group.
const MEMBERS: View = View::new(&[
    text("GROUP SNAPSHOT ID", "/group_snapshot.group_snapshot_id"),
    text("SNAPSHOT ID", "snapshot_id"),
    text("SOURCE VOLUME", "source_volume_id"),
    size("SIZE", "size_bytes"),
    text("READY", "ready_to_use"),
    text("AGE", "/group_snapshot.creation_time").format(CellFormat::Age),
    text("GROUP READY", "/group_snapshot.ready_to_use").wide(),
    text("CREATED", "/group_snapshot.creation_time").wide(),
])
.rows("group_snapshot.snapshots")
.name("/group_snapshot.group_snapshot_id");

/// `group-controller get-capabilities`.
impl Declare for v1::GroupControllerGetCapabilitiesRequest {
    const EFFECT: Effect = Reads;
    const NEEDS: Needs = &[Plugin(P::GroupControllerService)];
    const NAMES: Words = &["get-capabilities", "capabilities"];
    const VIEW: View = CAPABILITIES;
    const CSC: Csc = Some(csc::capabilities);
    const EXAMPLES: Words = &["get-capabilities"];
}

/// `group-controller create-volume-group-snapshot`.
impl Declare for v1::CreateVolumeGroupSnapshotRequest {
    const EFFECT: Effect = Makes(Making {
        thing: Thing::GroupSnapshot,
        undone_by: &tables::GROUP_CONTROLLER_DELETE_VOLUME_GROUP_SNAPSHOT,
        id_path: &[
            ("group_snapshot_id", "group_snapshot.group_snapshot_id"),
            ("snapshot_ids", "group_snapshot.snapshots.snapshot_id"),
        ],
    });
    const NEEDS: Needs = &[GroupController(G::CreateDeleteGetVolumeGroupSnapshot)];
    const REQUEST_RULES: Rules = &[SUGGESTED_NAME];
    const AGREEMENTS: Agreements = &[Check(exchange::group_is_complete)];
    const NAMES: Words = &["create-volume-group-snapshot", "create", "new"];
    const FLAGS: Flags = &[
        NAMES,
        flag(
            &["source-volume-ids", "source-volume", "source-volume-id"],
            "ID,…",
        ),
        OWN_PARAMETERS,
    ];
    const VIEW: View = MEMBERS;
    const EXAMPLES: Words =
        &["create-volume-group-snapshot gsnap-1 --source-volume-ids vol-1,vol-2 --params a=b"];
}

/// `group-controller delete-volume-group-snapshot`.
impl Declare for v1::DeleteVolumeGroupSnapshotRequest {
    const EFFECT: Effect = Undoes;
    const NEEDS: Needs = &[GroupController(G::CreateDeleteGetVolumeGroupSnapshot)];
    const NAMES: Words = &["delete-volume-group-snapshot", "delete", "rm"];
    const FLAGS: Flags = &[GROUP_SNAPSHOT_IDS, SNAPSHOT_IDS];
    const VIEW: View = View::done("deleted");
    const EXAMPLES: Words = &["delete-volume-group-snapshot gsnap-1 --snapshot-ids snap-1,snap-2"];
}

/// `group-controller get-volume-group-snapshot`.
impl Declare for v1::GetVolumeGroupSnapshotRequest {
    const EFFECT: Effect = Reads;
    const NEEDS: Needs = &[GroupController(G::CreateDeleteGetVolumeGroupSnapshot)];
    const AGREEMENTS: Agreements = &[Same(
        "group_snapshot_id",
        "group_snapshot.group_snapshot_id",
    )];
    const NAMES: Words = &["get-volume-group-snapshot", "get"];
    const FLAGS: Flags = &[GROUP_SNAPSHOT_IDS, SNAPSHOT_IDS];
    const VIEW: View = MEMBERS;
    const EXAMPLES: Words = &["get-volume-group-snapshot gsnap-1 --snapshot-ids snap-1,snap-2"];
}
