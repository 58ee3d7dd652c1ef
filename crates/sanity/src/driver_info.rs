//! The driver's name, version and capabilities, asked for once before any case.
//!
//! A driver that answers nonsense here is taken to advertise nothing more: the cases about these RPCs tell what is wrong.

use super::need::Need;
use csi_call::advertised::{Advertised, Asks, DriverEnd};
use csi_proto::v1;
use csi_rpc::facts::{Capability, PluginCapability};

/// The driver's name, version and capabilities.
#[derive(Clone, Debug, Default)]
pub struct DriverInfo {
    /// The driver's name.
    pub name: String,
    /// The version.
    pub version: String,
    /// The reply of NodeGetInfo, where the driver serves Node.
    pub(super) node_info: v1::NodeGetInfoResponse,
    /// Whether there is a controller to ask, perhaps in a process of its own.
    controller_service: bool,
    advertised: Advertised,
}

impl DriverInfo {
    /// Asks the driver, whose node and controller may be two processes.
    ///
    /// # Errors
    /// As whoever asks has it.
    pub(super) async fn ask<A: Asks>(asks: &mut A, two_processes: bool) -> Result<Self, A::Error> {
        let info = asks.ask(DriverEnd::Node, v1::GetPluginInfoRequest {});
        let info = info.await?.unwrap_or_default();
        let advertised = Advertised::ask_all(asks, two_processes).await?;
        let node_info = match advertised.serves_node {
            true => asks.ask(DriverEnd::Node, v1::NodeGetInfoRequest {}).await?,
            false => None,
        };
        Ok(Self {
            name: info.name,
            version: info.vendor_version,
            node_info: node_info.unwrap_or_default(),
            // Each process of a plugin advertises what any of them serves.
            controller_service: two_processes
                || advertised.plugin(PluginCapability::ControllerService)
                    && (advertised.serves_controller || !advertised.serves_node),
            advertised,
        })
    }

    /// Whether what a case needs is advertised; `None` for what has nothing to do with the driver's word.
    pub(super) fn has(&self, need: Need) -> Option<bool> {
        Some(match need {
            Need::Advertised(capability) => self.advertises(capability),
            Need::OneOf(all) => all.iter().any(|one| self.advertises(*one)),
            Need::NodeService => self.advertised.serves_node,
            _ => return None,
        })
    }

    /// Whether a capability is advertised.
    pub(super) fn advertises(&self, capability: Capability) -> bool {
        match capability {
            Capability::Controller(one) => self.advertised.controller(one),
            Capability::Node(one) => self.advertised.node(one),
            Capability::Group(one) => self.advertised.group_controller(one),
            Capability::Plugin(PluginCapability::ControllerService) => self.controller_service,
            // A process without the controller has nothing else that an orchestrator calls beside the node.
            Capability::Plugin(
                PluginCapability::GroupControllerService
                | PluginCapability::SnapshotMetadataService,
            ) if self.controller_is_elsewhere() => false,
            Capability::Plugin(one) => self.advertised.plugin(one),
        }
    }

    /// Whether the driver says that it has a controller, in a process that is not asked.
    pub(super) fn controller_is_elsewhere(&self) -> bool {
        let service = PluginCapability::ControllerService;
        !self.controller_service && self.advertised.plugin(service)
    }

    /// Whether volumes can be expanded that are not published.
    pub(super) fn expands_offline(&self) -> bool {
        self.advertised.expands_offline()
    }

    /// Whether published volumes can be expanded.
    pub(super) fn expands_online(&self) -> bool {
        self.advertised.expands_online()
    }
}
