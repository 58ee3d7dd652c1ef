//! NodePublishVolume, NodeUnpublishVolume and NodeGetVolumeStats on a local share, in a mount namespace of the test's own.
mod access;
mod full;
mod hangs;
mod inline;
mod kept;
mod targets;

use crate::rig::{Client, Rig};
use csi_proto::v1::{NodeGetVolumeStatsRequest, NodeGetVolumeStatsResponse};
use tonic::{Code, Status};

fn code(result: Result<(), Status>) -> Code {
    result.map_or_else(|status| status.code(), |()| Code::Ok)
}

fn make_volume(rig: &Rig, name: &str) {
    std::fs::create_dir(rig.path("export").join(name)).unwrap();
    std::fs::write(rig.path("export").join(name).join("file"), name).unwrap();
}

async fn stats(
    client: &Client,
    volume: &str,
    path: &std::path::Path,
) -> Result<NodeGetVolumeStatsResponse, Status> {
    let request = NodeGetVolumeStatsRequest {
        volume_id: volume.to_owned(),
        volume_path: path.display().to_string(),
        ..Default::default()
    };
    client.call(request).await
}

/// The flags of the mount at `target`, as mountinfo has them.
fn flags_of(rig: &Rig, target: &str) -> String {
    let mounts = rig.mounts(target);
    assert_eq!(mounts.len(), 1, "{mounts:?}");
    mounts[0].split(' ').nth(5).unwrap().to_owned()
}
