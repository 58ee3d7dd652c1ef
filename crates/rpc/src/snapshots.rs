//! The RPCs of the Controller service about snapshots.

use super::vocabulary::*;

/// The columns of a snapshot.
const SNAPSHOT: View = View::new(&[
    text("SNAPSHOT ID", "snapshot.snapshot_id"),
    text("SOURCE VOLUME", "snapshot.source_volume_id"),
    size("SIZE", "snapshot.size_bytes"),
    text("READY", "snapshot.ready_to_use"),
    text("AGE", "snapshot.creation_time").format(CellFormat::Age),
    text("GROUP", "snapshot.group_snapshot_id"),
    text("CREATED", "snapshot.creation_time").wide(),
])
.name("snapshot.snapshot_id");

/// `controller create-snapshot`.
impl Declare for v1::CreateSnapshotRequest {
    const EFFECT: Effect = Makes(Making {
        thing: Thing::Snapshot,
        undone_by: &tables::CONTROLLER_DELETE_SNAPSHOT,
        id_path: &[("snapshot_id", "snapshot.snapshot_id")],
    });
    const NEEDS: Needs = &[Controller(C::CreateDeleteSnapshot)];
    const REQUEST_RULES: Rules = &[SUGGESTED_NAME];
    const AGREEMENTS: Agreements = &[Same("source_volume_id", "snapshot.source_volume_id")];
    const NAMES: Words = &["create-snapshot", "snap", "s"];
    const FLAGS: Flags = &[
        NAMES,
        flag(&["source-volume", "source-volume-id"], "ID"),
        OWN_PARAMETERS,
    ];
    const VIEW: View = SNAPSHOT;
    const CSC: Csc = Some(csc::snapshots);
    const EXAMPLES: Words = &["create-snapshot snap-1 --source-volume vol-1 --params a=b"];
}

/// `controller delete-snapshot`.
impl Declare for v1::DeleteSnapshotRequest {
    const EFFECT: Effect = Undoes;
    const NEEDS: Needs = &[Controller(C::CreateDeleteSnapshot)];
    const NAMES: Words = &["delete-snapshot", "delsnap", "ds"];
    const FLAGS: Flags = &[SNAPSHOT_IDS];
    const VIEW: View = View::done("deleted");
    const EXAMPLES: Words = &["delete-snapshot snap-1"];
}

/// `controller list-snapshots`.
impl Declare for v1::ListSnapshotsRequest {
    const EFFECT: Effect = Reads;
    const NEEDS: Needs = &[Controller(C::ListSnapshots)];
    const GIVES: Gives = &[
        (Given::Ids(IdKind::Snapshot), "entries.snapshot.snapshot_id"),
        (
            Given::Ids(IdKind::GroupSnapshot),
            "entries.snapshot.group_snapshot_id",
        ),
    ];
    const AGREEMENTS: Agreements = &[
        PAGE,
        NewToken,
        Check(exchange::of_the_volume),
        EveryEntry("snapshot_id", "snapshot.snapshot_id"),
    ];
    const NAMES: Words = &["list-snapshots", "snap-list", "snapshots", "sl"];
    const FLAGS: Flags = &[
        MAX_ENTRIES,
        STARTING_TOKEN,
        ALL_PAGES,
        flag(&["source-volume-id"], "ID"),
        flag(&["snapshot-id"], "ID"),
    ];
    const VIEW: View = SNAPSHOT.rows("entries");
    const CSC: Csc = Some(csc::snapshots);
    const EXAMPLES: Words = &[
        "list-snapshots --source-volume-id vol-1 --snapshot-id snap-1 --max-entries 10 --starting-token t1",
        "list-snapshots --all --sort-by AGE",
    ];
}

/// `controller get-snapshot`.
impl Declare for v1::GetSnapshotRequest {
    const EFFECT: Effect = Reads;
    const NEEDS: Needs = &[Controller(C::GetSnapshot)];
    const AGREEMENTS: Agreements = &[Same("snapshot_id", "snapshot.snapshot_id")];
    const NAMES: Words = &["get-snapshot"];
    const FLAGS: Flags = &[SNAPSHOT_IDS];
    const VIEW: View = SNAPSHOT;
    const CSC: Csc = Some(csc::snapshots);
    const EXAMPLES: Words = &["get-snapshot snap-1"];
}
