//! The Node service: the gRPC face of [`volumes::Volumes`]. Requests become plain arguments here, and results become
//! replies; nothing below knows gRPC but the codes of [`error`].

pub mod arguments;
pub mod error;
pub mod inline;
pub mod ownership;
pub mod publish;
pub mod questions;
pub mod record;
pub mod request;
pub mod second_publish;
pub mod stage;
pub mod stats;
#[expect(clippy::disallowed_methods, reason = "in closures for `off_thread`")]
pub mod target;
pub mod unpublish;
pub mod volumes;

use crate::calls::controller::deadline;
use crate::calls::operations::reading;
use crate::process::disk_thread;
use csi_proto::v1::node_server::Node;
use csi_proto::v1::node_service_capability::rpc::Type as Capability;
use csi_proto::v1::volume_usage::Unit;
use csi_proto::v1::{
    NodeGetCapabilitiesRequest, NodeGetCapabilitiesResponse, NodeGetInfoRequest,
    NodeGetInfoResponse, NodeGetVolumeStatsRequest, NodeGetVolumeStatsResponse,
    NodePublishVolumeRequest, NodePublishVolumeResponse, NodeStageVolumeRequest,
    NodeStageVolumeResponse, NodeUnpublishVolumeRequest, NodeUnpublishVolumeResponse,
    NodeUnstageVolumeRequest, NodeUnstageVolumeResponse, VolumeCondition, VolumeUsage,
};
use error::NodeError;
use stats::Condition;
use std::time::Duration;
use tokio::time::Instant;
use tonic::metadata::{MetadataMap, MetadataValue};
use tonic::{Request, Response, Status};
use volumes::Volumes;

/// The metadata key of a reply that carries a note for the user.
pub const NOTE_KEY: &str = "csi-nfs-note";

/// What the service advertises always; staging comes to it where the configuration says so. All of it works.
const CAPABILITIES: [Capability; 3] = [
    Capability::GetVolumeStats,
    Capability::VolumeCondition,
    Capability::SingleNodeMultiWriter,
];

impl Volumes {
    /// How long a call may wait for its operation. The work has bounds of its own; ours is for what they do not cover.
    fn deadline(&self, metadata: &MetadataMap) -> Instant {
        let bounds = self.config.bounds;
        deadline_within(bounds.mount + bounds.unmount, metadata)
    }

    fn check_volume_id(&self, id: &str) -> Result<(), NodeError> {
        Ok(self.config.check_volume_id(id)?)
    }
}

/// When a call has to be answered that may take as long as `ours`.
fn deadline_within(ours: Duration, metadata: &MetadataMap) -> Instant {
    Instant::now() + deadline::timeout(metadata, ours).min(ours)
}

/// The Node service of one instance.
#[tonic::async_trait]
impl Node for Volumes {
    async fn node_publish_volume(
        &self,
        request: Request<NodePublishVolumeRequest>,
    ) -> Result<Response<NodePublishVolumeResponse>, Status> {
        let deadline = self.deadline(request.metadata());
        let request = request::publish(request.get_ref(), &self.config)?;
        let note = self.publish(request, deadline).await?;
        Ok(with_note(NodePublishVolumeResponse {}, note))
    }

    async fn node_unpublish_volume(
        &self,
        request: Request<NodeUnpublishVolumeRequest>,
    ) -> Result<Response<NodeUnpublishVolumeResponse>, Status> {
        let deadline = self.deadline(request.metadata());
        let request = request.get_ref();
        self.check_volume_id(&request.volume_id)?;
        let target = request::absolute("target_path", &request.target_path)?;
        self.unpublish(request.volume_id.clone(), &target, deadline)
            .await?;
        Ok(Response::new(NodeUnpublishVolumeResponse {}))
    }

    async fn node_get_volume_stats(
        &self,
        request: Request<NodeGetVolumeStatsRequest>,
    ) -> Result<Response<NodeGetVolumeStatsResponse>, Status> {
        // A short bound for servers is none for the node's own disks.
        let ours = self.config.bounds.stats.max(disk_thread::BOUND);
        let deadline = deadline_within(ours, request.metadata());
        let request = request.get_ref();
        self.check_volume_id(&request.volume_id)?;
        let path = request::stats_path(&request.volume_id, &request.volume_path)?;
        // Read by nobody, since the volume's path says it all.
        request::check_length("staging_target_path", &request.staging_target_path)?;
        let _turn = reading().map_err(NodeError::from)?;
        let condition = self.condition(&request.volume_id, &path, deadline).await?;
        Ok(Response::new(stats_reply(condition)))
    }

    async fn node_get_info(
        &self,
        _: Request<NodeGetInfoRequest>,
    ) -> Result<Response<NodeGetInfoResponse>, Status> {
        Ok(Response::new(NodeGetInfoResponse {
            node_id: self.config.node_id.clone(),
            max_volumes_per_node: 0,
            accessible_topology: None,
        }))
    }

    async fn node_get_capabilities(
        &self,
        _: Request<NodeGetCapabilitiesRequest>,
    ) -> Result<Response<NodeGetCapabilitiesResponse>, Status> {
        let staging = self.config.stage.then_some(Capability::StageUnstageVolume);
        let capabilities = CAPABILITIES.into_iter().chain(staging);
        Ok(Response::new(NodeGetCapabilitiesResponse {
            capabilities: capabilities.map(Into::into).collect(),
        }))
    }

    async fn node_stage_volume(
        &self,
        request: Request<NodeStageVolumeRequest>,
    ) -> Result<Response<NodeStageVolumeResponse>, Status> {
        if !self.config.stage {
            return Err(Status::unimplemented(
                "NodeStageVolume: this driver publishes without staging (--stage is off)",
            ));
        }
        let deadline = self.deadline(request.metadata());
        let request = request::stage(request.into_inner(), &self.config)?;
        let note = self.publish(request, deadline).await?;
        Ok(with_note(NodeStageVolumeResponse {}, note))
    }

    async fn node_unstage_volume(
        &self,
        request: Request<NodeUnstageVolumeRequest>,
    ) -> Result<Response<NodeUnstageVolumeResponse>, Status> {
        let deadline = self.deadline(request.metadata());
        let request = request.get_ref();
        let staging = request::absolute("staging_target_path", &request.staging_target_path);
        // Before every other check: what is not advertised is not there, whatever the request says.
        if !self.config.stage {
            let is_left = match &staging {
                Ok(staging) => self.has_stage(staging, deadline).await?,
                Err(_) => false,
            };
            if !is_left {
                return Err(Status::unimplemented(
                    "NodeUnstageVolume: this driver publishes without staging (--stage is off), and nothing is staged there",
                ));
            }
        }
        self.check_volume_id(&request.volume_id)?;
        let staging = staging?;
        self.unstage(request.volume_id.clone(), &staging, deadline)
            .await?;
        Ok(Response::new(NodeUnstageVolumeResponse {}))
    }
}

/// A reply with a note in its metadata.
fn with_note<R>(reply: R, note: Option<String>) -> Response<R> {
    let mut reply = Response::new(reply);
    // Header values are ASCII.
    let ascii = note.map(|note| {
        let shown = |c: char| c == ' ' || c.is_ascii_graphic();
        note.replace(|c| !shown(c), "?")
    });
    if let Some(Ok(value)) = ascii.map(MetadataValue::try_from) {
        reply.metadata_mut().insert(NOTE_KEY, value);
    }
    reply
}

fn stats_reply(condition: Condition) -> NodeGetVolumeStatsResponse {
    let size = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
    let usage = condition.usage;
    let mut entries = vec![VolumeUsage {
        available: size(usage.available_bytes),
        total: size(usage.total_bytes),
        used: size(usage.used_bytes),
        unit: Unit::Bytes.into(),
    }];
    // Some file systems count no inodes.
    if usage.total_inodes > 0 {
        entries.push(VolumeUsage {
            available: size(usage.free_inodes),
            total: size(usage.total_inodes),
            used: size(usage.total_inodes.saturating_sub(usage.free_inodes)),
            unit: Unit::Inodes.into(),
        });
    }
    let abnormal = condition.problem.is_some();
    let message = condition.problem.unwrap_or_else(|| {
        "the volume answers; the usage is that of the share's file system, unless the volume's size is enforced"
            .to_owned()
    });
    NodeGetVolumeStatsResponse {
        usage: entries,
        volume_condition: Some(VolumeCondition { abnormal, message }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mount::helper::Helpers;
    use crate::process::log::Log;
    use request::tests::config;
    use std::pin::{Pin, pin};
    use std::sync::{Arc, mpsc};
    use std::task::{Context, Poll, Waker};
    use tonic::Code;

    #[tokio::test]
    async fn no_look_up_outlasts_its_deadline() {
        let dir = tempfile::tempdir().unwrap();
        let mut config = config();
        config.work_dir = dir.path().to_owned();
        let mut request = request::publish(&request::tests::request(), &config).unwrap();
        let volumes = Volumes::open(Arc::new(config), Helpers::new(Log::off()), Log::off());
        let (volumes, path) = (volumes.unwrap(), dir.path().join("target"));
        request.target.clone_from(&path);
        let now = &mut Context::from_waker(Waker::noop());
        // The disk of the target hangs.
        let (release, released) = mpsc::channel::<()>();
        let hanging = move || Ok(released.recv().is_ok());
        let mut hanging = pin!(target::off_thread(String::new(), &path, hanging));
        assert!(hanging.as_mut().poll(now).is_pending());
        // Long ago, so that nothing waits for the clock.
        let deadline = Instant::now() - Duration::from_secs(1);
        type Asking<'a> = Pin<Box<dyn Future<Output = Option<NodeError>> + 'a>>;
        let calls: [Asking<'_>; 5] = [
            Box::pin(async { volumes.publish(request, deadline).await.err() }),
            Box::pin(async { volumes.unpublish("v".into(), &path, deadline).await.err() }),
            Box::pin(async { volumes.condition("v", &path, deadline).await.err() }),
            Box::pin(async { volumes.has_stage(&path, deadline).await.err() }),
            Box::pin(async { volumes.unstage("v".into(), &path, deadline).await.err() }),
        ];
        for mut call in calls {
            let Poll::Ready(Some(error)) = call.as_mut().poll(now) else {
                panic!("it waits longer than its caller");
            };
            let status = Status::from(error);
            assert_eq!(status.code(), Code::Unavailable, "{status}");
            assert!(status.message().contains("work folder"), "{status}");
        }
        drop(release);
        assert!(!hanging.await.unwrap());
    }
}
