//! Calls to a driver over its socket without the client's program between, for tests that make many of them at a time.

use crate::support::patience::{Patience, patiently};
use csi_proto::v1::volume_capability::access_mode::Mode;
use csi_proto::v1::volume_capability::{AccessMode, AccessType, MountVolume};
use csi_proto::v1::*;
use http::uri::PathAndQuery;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request, Status};

/// The deadline of calls that need none. A driver that does not answer is given up when nothing moves any more.
pub const HOUR: Duration = Duration::from_secs(3600);

/// A connection to a driver. Cheap to copy.
#[derive(Clone)]
pub struct Calls {
    grpc: tonic::client::Grpc<Channel>,
    deadline: Option<Duration>,
}

/// String maps, as requests have them.
pub type Map = BTreeMap<String, String>;

/// A map of these entries.
pub fn map(entries: &[(&str, &str)]) -> Map {
    let owned = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
    entries.iter().map(owned).collect()
}

/// What every volume of these tests is asked to be.
pub fn capability() -> VolumeCapability {
    VolumeCapability {
        access_mode: Some(AccessMode {
            mode: Mode::MultiNodeMultiWriter.into(),
        }),
        access_type: Some(AccessType::Mount(MountVolume::default())),
    }
}

/// A request for a volume of 1 GiB.
pub fn volume(name: &str, parameters: &Map) -> CreateVolumeRequest {
    CreateVolumeRequest {
        name: name.to_owned(),
        capacity_range: Some(CapacityRange {
            required_bytes: 1 << 30,
            limit_bytes: 0,
        }),
        volume_capabilities: vec![capability()],
        parameters: parameters.clone(),
        ..Default::default()
    }
}

/// The content of a volume as a source.
pub fn of_volume(id: &str) -> Option<VolumeContentSource> {
    let volume_id = id.to_owned();
    let source = volume_content_source::VolumeSource { volume_id };
    Some(VolumeContentSource {
        r#type: Some(volume_content_source::Type::Volume(source)),
    })
}

/// The content of a snapshot as a source.
pub fn of_snapshot(id: &str) -> Option<VolumeContentSource> {
    let snapshot_id = id.to_owned();
    let source = volume_content_source::SnapshotSource { snapshot_id };
    Some(VolumeContentSource {
        r#type: Some(volume_content_source::Type::Snapshot(source)),
    })
}

/// Whether an orchestrator repeats the call.
pub fn may_be_repeated(status: &Status) -> bool {
    matches!(
        status.code(),
        Code::Aborted | Code::Unavailable | Code::DeadlineExceeded | Code::Cancelled
    )
}

/// Makes a call until its answer is final, as an orchestrator does.
pub async fn repeated<T, F>(mut call: impl FnMut() -> F) -> Result<T, Status>
where
    F: Future<Output = Result<T, Status>>,
{
    let mut patience = Patience::default();
    loop {
        match call().await {
            Err(status) if may_be_repeated(&status) && patience.lasts() => {
                tokio::time::sleep(patience.pause()).await;
            }
            answer => return answer,
        }
    }
}

impl Calls {
    /// To the driver at `unix:///…`; nothing is connected before the first call.
    pub fn to(endpoint: &str) -> Self {
        let endpoint = Endpoint::try_from(endpoint.to_owned()).expect("an endpoint");
        Self {
            grpc: tonic::client::Grpc::new(endpoint.connect_lazy()),
            deadline: Some(HOUR),
        }
    }

    /// The same, each call with that deadline, or with none.
    pub fn within(&self, deadline: Option<Duration>) -> Self {
        Self {
            deadline,
            ..self.clone()
        }
    }

    /// One call.
    pub async fn call<Q: csi_proto::Request>(&self, request: Q) -> Result<Q::Reply, Status> {
        let mut grpc = self.grpc.clone();
        grpc.ready()
            .await
            .map_err(|error| Status::unavailable(error.to_string()))?;
        let path = PathAndQuery::from_static(Q::METHOD.path);
        let mut request = Request::new(request);
        if let Some(deadline) = self.deadline {
            request.set_timeout(deadline);
        }
        let codec = tonic_prost::ProstCodec::<Q, Q::Reply>::default();
        let answer = patiently(Q::METHOD.path, grpc.unary(request, path, codec));
        Ok(answer.await?.into_inner())
    }

    /// CreateVolume.
    pub async fn create(&self, request: CreateVolumeRequest) -> Result<Volume, Status> {
        let reply = self.call(request).await?;
        Ok(reply.volume.unwrap_or_default())
    }

    /// DeleteVolume.
    pub async fn delete(&self, id: &str) -> Result<(), Status> {
        let request = DeleteVolumeRequest {
            volume_id: id.to_owned(),
            ..Default::default()
        };
        self.call(request).await.map(drop)
    }

    /// ControllerExpandVolume; the size that it has then.
    pub async fn expand(&self, id: &str, bytes: i64) -> Result<i64, Status> {
        let request = ControllerExpandVolumeRequest {
            volume_id: id.to_owned(),
            capacity_range: Some(CapacityRange {
                required_bytes: bytes,
                limit_bytes: 0,
            }),
            ..Default::default()
        };
        let reply = self.call(request).await?;
        Ok(reply.capacity_bytes)
    }

    /// CreateSnapshot.
    pub async fn snapshot(&self, name: &str, of: &str) -> Result<Snapshot, Status> {
        let request = CreateSnapshotRequest {
            name: name.to_owned(),
            source_volume_id: of.to_owned(),
            ..Default::default()
        };
        let reply = self.call(request).await?;
        Ok(reply.snapshot.unwrap_or_default())
    }

    /// CreateSnapshot until it is made.
    pub async fn ready_snapshot(&self, name: &str, of: &str) -> Result<Snapshot, Status> {
        let made = repeated(|| self.snapshot(name, of)).await?;
        assert!(made.ready_to_use, "{made:?}");
        Ok(made)
    }

    /// DeleteSnapshot.
    pub async fn delete_snapshot(&self, id: &str) -> Result<(), Status> {
        let request = DeleteSnapshotRequest {
            snapshot_id: id.to_owned(),
            ..Default::default()
        };
        self.call(request).await.map(drop)
    }

    /// The volumes of ListVolumes, with what is wrong with each.
    pub async fn volumes(&self) -> Result<Vec<(Volume, Option<String>)>, Status> {
        let request = ListVolumesRequest::default();
        let reply = self.call(request).await?;
        let entry = |entry: list_volumes_response::Entry| {
            let condition = entry.status.and_then(|status| status.volume_condition);
            let wrong = condition.filter(|condition| condition.abnormal);
            (entry.volume.unwrap_or_default(), wrong.map(|it| it.message))
        };
        Ok(reply.entries.into_iter().map(entry).collect())
    }

    /// The snapshots of ListSnapshots.
    pub async fn snapshots(&self) -> Result<Vec<Snapshot>, Status> {
        let request = ListSnapshotsRequest::default();
        let reply = self.call(request).await?;
        let entries = reply.entries.into_iter();
        Ok(entries.filter_map(|entry| entry.snapshot).collect())
    }

    /// NodePublishVolume.
    pub async fn publish(&self, id: &str, context: &Map, target: &Path) -> Result<(), Status> {
        let request = NodePublishVolumeRequest {
            volume_id: id.to_owned(),
            target_path: target.display().to_string(),
            volume_capability: Some(capability()),
            volume_context: context.clone(),
            ..Default::default()
        };
        self.call(request).await.map(drop)
    }

    /// NodeUnpublishVolume.
    pub async fn unpublish(&self, id: &str, target: &Path) -> Result<(), Status> {
        let request = NodeUnpublishVolumeRequest {
            volume_id: id.to_owned(),
            target_path: target.display().to_string(),
        };
        self.call(request).await.map(drop)
    }

    /// NodeGetVolumeStats.
    pub async fn stats(
        &self,
        id: &str,
        target: &Path,
    ) -> Result<NodeGetVolumeStatsResponse, Status> {
        let request = NodeGetVolumeStatsRequest {
            volume_id: id.to_owned(),
            volume_path: target.display().to_string(),
            ..Default::default()
        };
        self.call(request).await
    }
}

/// What runs the calls of a test that is a plain function. [`Calls::to`] must be called within it.
pub fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime")
}
