//! CreateVolume from a snapshot or from another volume.

use super::create_volume::range;
use crate::sanity::case::needs::{
    CLONE_VOLUME, CREATE_DELETE_SNAPSHOT, CREATE_DELETE_VOLUME, EACH_ACCESS, NODE_SERVICE, PATHS,
};
use crate::sanity::case::{Case, Stop, Verdict, case, ensure};
use crate::sanity::context::Context;
use crate::sanity::fixtures::Volume;
use csi_proto::v1;
use csi_proto::v1::volume_content_source::{SnapshotSource, Type, VolumeSource};
use std::time::Duration;
use tonic::Code;

pub const CASES: &[Case] = &[
    case!(
        Changes,
        "controller/create-volume/from-snapshot",
        "CreateVolume from a snapshot answers with a volume that names this source and is not smaller",
        "CreateVolume",
        [CREATE_DELETE_VOLUME, CREATE_DELETE_SNAPSHOT, EACH_ACCESS],
        |c| {
            let volume = c.volume().await?;
            let snapshot = ready_snapshot(&c, &volume).await?;
            let restored = from(
                &c,
                of_snapshot(&snapshot.snapshot_id),
                volume.volume.capacity_bytes,
            )
            .await?;
            let size = restored.volume.capacity_bytes;
            let told = format!(
                "{size} bytes, and the snapshot needs {}",
                snapshot.size_bytes
            );
            ensure(
                size == 0 || size >= snapshot.size_bytes,
                "room for the snapshot",
                told,
            )?;
        }
    ),
    case!(
        Changes,
        "controller/create-volume/from-snapshot-is-idempotent",
        "CreateVolume from a snapshot answers with the same volume again",
        "CreateVolume",
        [CREATE_DELETE_VOLUME, CREATE_DELETE_SNAPSHOT],
        |c| {
            let volume = c.volume().await?;
            let snapshot = ready_snapshot(&c, &volume).await?;
            let restored = from(
                &c,
                of_snapshot(&snapshot.snapshot_id),
                volume.volume.capacity_bytes,
            )
            .await?;
            let again = c
                .ok(restored.request.clone())
                .await?
                .volume
                .unwrap_or_default();
            ensure(
                again.volume_id == restored.id(),
                &restored.id(),
                again.volume_id,
            )?;
        }
    ),
    case!(
        Changes,
        "controller/create-volume/from-snapshot-that-is-too-large",
        "CreateVolume from a snapshot with a limit below what the snapshot needs answers OUT_OF_RANGE",
        "CreateVolume Errors",
        [CREATE_DELETE_VOLUME, CREATE_DELETE_SNAPSHOT],
        |c| {
            let volume = c.volume().await?;
            let snapshot = ready_snapshot(&c, &volume).await?;
            if snapshot.size_bytes < 2 {
                return Err(Stop::Skipped("the snapshot needs no size".to_owned()));
            }
            let mut request = c.create_request()?;
            request.volume_content_source = Some(of_snapshot(&snapshot.snapshot_id));
            request.capacity_range = Some(range(0, snapshot.size_bytes / 2));
            let codes = [Code::OutOfRange, Code::InvalidArgument];
            c.refused(request, &codes).await?;
        }
    ),
    case!(
        Changes,
        "controller/create-volume/from-unknown-snapshot",
        "CreateVolume from a snapshot that does not exist answers NOT_FOUND",
        "CreateVolume Errors",
        [CREATE_DELETE_VOLUME, CREATE_DELETE_SNAPSHOT],
        |c| {
            let volume = c.volume().await?;
            let snapshot = c.snapshot(&volume).await?;
            c.ok(v1::DeleteSnapshotRequest {
                snapshot_id: snapshot.snapshot_id.clone(),
                secrets: c.secrets(),
            })
            .await?;
            missing_source(&c, of_snapshot(&snapshot.snapshot_id)).await?;
        }
    ),
    case!(
        Changes,
        "controller/create-volume/from-volume",
        "CreateVolume from a volume answers with another volume that names this source",
        "CreateVolume",
        [CREATE_DELETE_VOLUME, CLONE_VOLUME, EACH_ACCESS],
        |c| {
            let volume = c.volume().await?;
            let clone = from(&c, of_volume(&volume.id()), volume.volume.capacity_bytes).await?;
            ensure(clone.id() != volume.id(), "another volume", clone.id())?;
            let again = c
                .ok(clone.request.clone())
                .await?
                .volume
                .unwrap_or_default();
            ensure(again.volume_id == clone.id(), &clone.id(), again.volume_id)?;
        }
    ),
    case!(
        Changes,
        "controller/create-volume/from-unknown-volume",
        "CreateVolume from a volume that does not exist answers NOT_FOUND",
        "CreateVolume Errors",
        [CREATE_DELETE_VOLUME, CLONE_VOLUME],
        |c| {
            let gone = c.deleted_volume().await?;
            missing_source(&c, of_volume(&gone.id())).await?;
        }
    ),
    case!(
        Changes,
        "controller/create-volume/with-another-source",
        "CreateVolume with the name of a volume from another source answers ALREADY_EXISTS",
        "CreateVolume Errors",
        [CREATE_DELETE_VOLUME, CLONE_VOLUME],
        |c| {
            let first = c.volume().await?;
            let second = c.volume().await?;
            let clone = from(&c, of_volume(&first.id()), first.volume.capacity_bytes).await?;
            let mut request = clone.request.clone();
            request.volume_content_source = Some(of_volume(&second.id()));
            c.refused(request.clone(), &[Code::AlreadyExists]).await?;
            request.volume_content_source = None;
            c.refused(request, &[Code::AlreadyExists]).await?;
        }
    ),
    case!(
        Changes,
        "controller/create-volume/with-a-source-of-no-type",
        "CreateVolume with a volume_content_source that names neither a snapshot nor a volume is refused",
        "CreateVolume Errors",
        [CREATE_DELETE_VOLUME],
        |c| {
            let mut request = c.create_request()?;
            request.volume_content_source = Some(v1::VolumeContentSource { r#type: None });
            c.refused(request, &[Code::InvalidArgument]).await?;
        }
    ),
    case!(
        Changes,
        "controller/create-volume/from-a-source-that-is-not-advertised",
        "CreateVolume from a kind of source that the plugin does not advertise is refused",
        "CreateVolume Errors",
        [CREATE_DELETE_VOLUME],
        |c| {
            let volume = c.volume().await?;
            let sources = [
                (
                    CREATE_DELETE_SNAPSHOT,
                    of_snapshot("csi-sanity-no-snapshot"),
                ),
                (CLONE_VOLUME, of_volume(&volume.id())),
            ];
            let mut tried = false;
            for (_, source) in sources.into_iter().filter(|(need, _)| !c.has(*need)) {
                tried = true;
                let mut request = c.create_request()?;
                request.volume_content_source = Some(source);
                let codes = [Code::InvalidArgument, Code::NotFound, Code::Unimplemented];
                c.refused(request, &codes).await?;
            }
            if !tried {
                return Err(Stop::Skipped(
                    "both kinds of sources are advertised".to_owned(),
                ));
            }
        }
    ),
    case!(
        Changes,
        "controller/create-volume/clone-holds-the-data",
        "A clone holds what its source held, and what is written to one of them afterwards is not in the other",
        "CreateVolume",
        [
            CREATE_DELETE_VOLUME,
            CLONE_VOLUME,
            NODE_SERVICE,
            EACH_ACCESS,
            PATHS
        ],
        |c| {
            let source = c.published().await?;
            c.write(&source, "before").await?;
            // Data on its way may miss the clone as long as the volume is in use.
            c.ok(source.unpublish()).await?;
            let size = source.volume.volume.capacity_bytes;
            let clone = from(&c, of_volume(&source.id()), size).await?;
            c.ok(source.publish()).await?;
            c.write(&source, "later!").await?;
            shows(&c, clone, "before").await?;
            c.holds(&source, "later!").await?;
        }
    ),
    case!(
        Changes,
        "controller/create-volume/restored-volume-holds-the-data",
        "A volume from a snapshot holds what the snapshot's volume held then, whatever became of it since",
        "CreateVolume",
        [
            CREATE_DELETE_VOLUME,
            CREATE_DELETE_SNAPSHOT,
            NODE_SERVICE,
            EACH_ACCESS,
            PATHS
        ],
        |c| {
            let source = c.published().await?;
            c.write(&source, "before").await?;
            c.ok(source.unpublish()).await?;
            let snapshot = ready_snapshot(&c, &source.volume).await?;
            c.ok(source.publish()).await?;
            c.write(&source, "later!").await?;
            c.ok(source.unpublish()).await?;
            let size = source.volume.volume.capacity_bytes;
            let restored = from(&c, of_snapshot(&snapshot.snapshot_id), size).await?;
            shows(&c, restored, "before").await?;
        }
    ),
];

/// A snapshot as a source.
pub fn of_snapshot(id: &str) -> v1::VolumeContentSource {
    v1::VolumeContentSource {
        r#type: Some(Type::Snapshot(SnapshotSource {
            snapshot_id: id.to_owned(),
        })),
    }
}

/// A volume as a source.
pub fn of_volume(id: &str) -> v1::VolumeContentSource {
    v1::VolumeContentSource {
        r#type: Some(Type::Volume(VolumeSource {
            volume_id: id.to_owned(),
        })),
    }
}

/// A volume from a source, not smaller than that. That it names its source is a rule of the message.
async fn from(c: &Context, source: v1::VolumeContentSource, size: i64) -> Result<Volume, Stop> {
    let mut request = c.create_request()?;
    request.capacity_range = Some(range(size.max(c.settings().volume_size), 0));
    request.volume_content_source = Some(source);
    c.volume_of(request).await
}

async fn missing_source(c: &Context, source: v1::VolumeContentSource) -> Verdict {
    let mut request = c.create_request()?;
    request.volume_content_source = Some(source);
    c.refused(request, &[Code::NotFound]).await.map(drop)
}

/// A snapshot that can be used as a source.
pub async fn ready_snapshot(c: &Context, volume: &Volume) -> Result<v1::Snapshot, Stop> {
    let request = c.snapshot_request(volume);
    let mut pause = Duration::from_millis(5);
    loop {
        let snapshot = c.ok(request.clone()).await?.snapshot.unwrap_or_default();
        if snapshot.ready_to_use {
            return Ok(snapshot);
        }
        // The case's limit ends this.
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(Duration::from_secs(1));
    }
}

/// Publishes a volume, and demands that it holds the data.
async fn shows(c: &Context, volume: Volume, data: &str) -> Verdict {
    let placed = c.place(volume).await?;
    if !placed.staging.is_empty() {
        c.ok(placed.stage()).await?;
    }
    c.ok(placed.publish()).await?;
    c.holds(&placed, data).await
}
