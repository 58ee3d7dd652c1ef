//! Golden files of the Controller service, snapshots.

use super::{goldens, three_days_ago};
use crate::support::scripted::Reply;
use csi_proto::v1::{
    CreateSnapshotResponse, DeleteSnapshotResponse, GetSnapshotResponse, ListSnapshotsResponse,
    Snapshot, list_snapshots_response,
};

goldens! {
    create_snapshot: "controller create-snapshot snap-1 --source-volume vol-1 --params a=b",
        Reply::message(&CreateSnapshotResponse { snapshot: Some(snapshot("snap-1")) }),
        Aborted "vol-1 is being deleted";

    delete_snapshot: "controller delete-snapshot snap-1",
        Reply::message(&DeleteSnapshotResponse {}),
        FailedPrecondition "vol-2 was made from snap-1 and needs it";

    list_snapshots: "controller list-snapshots --source-volume-id vol-1 --snapshot-id snap-1 --max-entries 2 --starting-token first",
        Reply::message(&ListSnapshotsResponse {
            entries: vec![
                list_snapshots_response::Entry { snapshot: Some(snapshot("snap-1")) },
                list_snapshots_response::Entry {
                    snapshot: Some(Snapshot { snapshot_id: "snap-2".into(), ..Snapshot::default() }),
                },
            ],
            next_token: "second".into(),
        }),
        Aborted "starting_token \"first\" is not mine";

    get_snapshot: "controller get-snapshot snap-1",
        Reply::message(&GetSnapshotResponse { snapshot: Some(snapshot("snap-1")) }),
        NotFound "no snapshot snap-1";
}

/// A snapshot with everything.
pub fn snapshot(id: &str) -> Snapshot {
    Snapshot {
        size_bytes: 512 << 20,
        snapshot_id: id.into(),
        source_volume_id: "vol-1".into(),
        creation_time: Some(three_days_ago()),
        ready_to_use: true,
        group_snapshot_id: "gsnap-1".into(),
    }
}
