//! The Node service: the gRPC face of [`volumes::Volumes`]. Requests become plain arguments here, and results become
//! replies; nothing below knows gRPC but the codes of [`error`].

pub mod error;
pub mod ownership;
pub mod publish;
pub mod questions;
pub mod record;
pub mod request;
pub mod stats;
pub mod target;
pub mod unpublish;
pub mod volumes;

use crate::config::Config;
use crate::controller::deadline;
use crate::limits;
use csi_proto::v1::node_server::Node;
use csi_proto::v1::node_service_capability::rpc::Type as Capability;
use csi_proto::v1::node_service_capability::{Rpc, Type};
use csi_proto::v1::volume_usage::Unit;
use csi_proto::v1::{
    NodeExpandVolumeRequest, NodeExpandVolumeResponse, NodeGetCapabilitiesRequest,
    NodeGetCapabilitiesResponse, NodeGetInfoRequest, NodeGetInfoResponse,
    NodeGetVolumeStatsRequest, NodeGetVolumeStatsResponse, NodePublishVolumeRequest,
    NodePublishVolumeResponse, NodeServiceCapability, NodeStageVolumeRequest,
    NodeStageVolumeResponse, NodeUnpublishVolumeRequest, NodeUnpublishVolumeResponse,
    NodeUnstageVolumeRequest, NodeUnstageVolumeResponse, VolumeCondition, VolumeUsage,
};
use error::NodeError;
use stats::Condition;
use std::sync::Arc;
use std::time::Duration;
use tonic::metadata::{MetadataMap, MetadataValue};
use tonic::{Request, Response, Status};
use volumes::Volumes;

/// The metadata key of a reply that carries a note for the user.
pub const NOTE_KEY: &str = "csi-nfs-note";

/// What the service advertises, and all of it works.
const CAPABILITIES: [Capability; 3] = [
    Capability::GetVolumeStats,
    Capability::VolumeCondition,
    Capability::SingleNodeMultiWriter,
];

/// The Node service of one instance.
pub struct NodeService {
    config: Arc<Config>,
    volumes: Volumes,
}

impl NodeService {
    /// The service over `volumes`.
    pub fn new(config: Arc<Config>, volumes: Volumes) -> Self {
        Self { config, volumes }
    }

    /// How long a call may wait for its operation. The work has bounds of its own; ours is for what they do not cover.
    fn patience(&self, metadata: &MetadataMap) -> Duration {
        let bounds = self.config.bounds;
        let ours = bounds.mount + bounds.unmount;
        deadline::patience(metadata, ours).min(ours)
    }
}

#[tonic::async_trait]
impl Node for NodeService {
    async fn node_publish_volume(
        &self,
        request: Request<NodePublishVolumeRequest>,
    ) -> Result<Response<NodePublishVolumeResponse>, Status> {
        let patience = self.patience(request.metadata());
        let request = request::publish(request.get_ref(), &self.config)?;
        let note = self.volumes.publish(request, patience).await?;
        let mut reply = Response::new(NodePublishVolumeResponse {});
        if let Some(note) = note {
            // Header values are ASCII.
            let ascii: String = note
                .chars()
                .map(|c| {
                    if c == ' ' || c.is_ascii_graphic() {
                        c
                    } else {
                        '?'
                    }
                })
                .collect();
            if let Ok(value) = MetadataValue::try_from(ascii) {
                reply.metadata_mut().insert(NOTE_KEY, value);
            }
        }
        Ok(reply)
    }

    async fn node_unpublish_volume(
        &self,
        request: Request<NodeUnpublishVolumeRequest>,
    ) -> Result<Response<NodeUnpublishVolumeResponse>, Status> {
        let patience = self.patience(request.metadata());
        let request = request.get_ref();
        limits::required("volume_id", &request.volume_id).map_err(NodeError::from)?;
        let target = request::absolute("target_path", &request.target_path)?;
        self.volumes
            .unpublish(request.volume_id.clone(), &target, patience)
            .await?;
        Ok(Response::new(NodeUnpublishVolumeResponse {}))
    }

    async fn node_get_volume_stats(
        &self,
        request: Request<NodeGetVolumeStatsRequest>,
    ) -> Result<Response<NodeGetVolumeStatsResponse>, Status> {
        let stats = self.config.bounds.stats;
        let patience = deadline::patience(request.metadata(), stats).min(stats);
        let request = request.get_ref();
        limits::required("volume_id", &request.volume_id).map_err(NodeError::from)?;
        let path = request::absolute("volume_path", &request.volume_path)?;
        let condition = self
            .volumes
            .condition(&request.volume_id, &path, patience)
            .await?;
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
        let capabilities = CAPABILITIES
            .into_iter()
            .map(|capability| NodeServiceCapability {
                r#type: Some(Type::Rpc(Rpc {
                    r#type: capability.into(),
                })),
            });
        Ok(Response::new(NodeGetCapabilitiesResponse {
            capabilities: capabilities.collect(),
        }))
    }

    async fn node_stage_volume(
        &self,
        _: Request<NodeStageVolumeRequest>,
    ) -> Result<Response<NodeStageVolumeResponse>, Status> {
        Err(Status::unimplemented(
            "NodeStageVolume: NFS volumes are published without staging",
        ))
    }

    async fn node_unstage_volume(
        &self,
        _: Request<NodeUnstageVolumeRequest>,
    ) -> Result<Response<NodeUnstageVolumeResponse>, Status> {
        Err(Status::unimplemented(
            "NodeUnstageVolume: NFS volumes are published without staging",
        ))
    }

    async fn node_expand_volume(
        &self,
        _: Request<NodeExpandVolumeRequest>,
    ) -> Result<Response<NodeExpandVolumeResponse>, Status> {
        Err(Status::unimplemented(
            "NodeExpandVolume: an expanded NFS volume needs nothing done on its nodes",
        ))
    }
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
        "the volume answers; the usage is that of the file system behind the share, which its volumes have in common"
            .to_owned()
    });
    NodeGetVolumeStatsResponse {
        usage: entries,
        volume_condition: Some(VolumeCondition { abnormal, message }),
    }
}
