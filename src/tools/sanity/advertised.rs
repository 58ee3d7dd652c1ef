//! What the driver says it can do, asked once before any case.
//!
//! A driver that answers nonsense here is taken to advertise nothing more: the cases about these RPCs tell what is wrong.

use super::need::Need;
use crate::rpc::facts::{Capability, PluginCapability};
use csi_proto::v1;
use csi_proto::v1::plugin_capability::{self, volume_expansion};

/// The capabilities of a driver, as numbers, so that ones which nobody knows do no harm.
#[derive(Clone, Debug, Default)]
pub struct Advertised {
    /// The driver's name and version.
    pub name: String,
    /// The version.
    pub version: String,
    pub(super) plugin: Vec<i32>,
    pub(super) expansion: Vec<i32>,
    pub(super) controller: Vec<i32>,
    pub(super) node: Vec<i32>,
    pub(super) group: Vec<i32>,
    pub(super) node_service: bool,
    pub(super) controller_service: bool,
    /// What the node said of itself, where it serves Node.
    pub(super) node_info: v1::NodeGetInfoResponse,
}

impl Advertised {
    pub(super) fn add_plugin(&mut self, reply: &v1::GetPluginCapabilitiesResponse) {
        for capability in &reply.capabilities {
            match &capability.r#type {
                Some(plugin_capability::Type::Service(one)) => self.plugin.push(one.r#type),
                Some(plugin_capability::Type::VolumeExpansion(one)) => {
                    self.expansion.push(one.r#type);
                }
                None => {}
            }
        }
    }

    /// Whether what a case needs is advertised; `None` for what has nothing to do with the driver's word.
    pub(super) fn has(&self, need: Need) -> Option<bool> {
        Some(match need {
            Need::Advertised(capability) => self.advertises(capability),
            Need::OneOf(all) => all.iter().any(|one| self.advertises(*one)),
            Need::NodeService => self.node_service,
            _ => return None,
        })
    }

    /// Whether a capability is advertised.
    pub(super) fn advertises(&self, capability: Capability) -> bool {
        match capability {
            Capability::Controller(one) => self.controller.contains(&i32::from(one)),
            Capability::Node(one) => self.node.contains(&i32::from(one)),
            Capability::Group(one) => self.group.contains(&i32::from(one)),
            Capability::Plugin(PluginCapability::ControllerService) => self.controller_service,
            Capability::Plugin(one) => self.plugin.contains(&i32::from(one)),
        }
    }

    /// Whether published volumes can be expanded.
    pub(super) fn expands_online(&self) -> bool {
        let online = i32::from(volume_expansion::Type::Online);
        self.expansion.contains(&online)
    }
}
