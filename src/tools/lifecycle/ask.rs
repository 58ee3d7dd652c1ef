//! What a lifecycle asks the driver first: who it is, whether it is ready, and what it can do.

use super::Lifecycle;
use crate::error::Error;
use csi_proto::v1;
use csi_proto::v1::controller_service_capability::rpc::Type as ControllerCapability;
use csi_proto::v1::node_service_capability::rpc::Type as NodeCapability;
use std::io::Write;
use tonic::Code;

/// What the driver advertises.
#[derive(Debug, Default)]
pub(super) struct Advertised {
    controller: Vec<i32>,
    node: Vec<i32>,
}

impl Advertised {
    pub(super) fn controller(&self, capability: ControllerCapability) -> bool {
        self.controller.contains(&i32::from(capability))
    }

    pub(super) fn node(&self, capability: NodeCapability) -> bool {
        self.node.contains(&i32::from(capability))
    }
}

impl<W: Write> Lifecycle<'_, W> {
    /// Identity, capabilities, node: what everything else depends on.
    pub(super) async fn ask(&mut self) -> Result<Advertised, Error> {
        let mut advertised = Advertised::default();
        let info = self
            .node(&v1::GetPluginInfoRequest {}, |reply| {
                format!("{} {}", reply.name, reply.vendor_version)
            })
            .await?;
        if info.name.is_empty() {
            return Err(
                Error::local("the driver has no name, which the specification requires")
                    .doing("identity plugin-info"),
            );
        }
        let request = v1::GetPluginCapabilitiesRequest {};
        let plugin = self
            .node(&request, |reply| {
                count(reply.capabilities.len(), "capability", "capabilities")
            })
            .await?;
        let request = v1::ProbeRequest {};
        let probe = self
            .node(&request, |reply| {
                let ready = reply.ready.unwrap_or(true);
                if ready { "ready" } else { "not ready" }.to_owned()
            })
            .await?;
        if probe.ready == Some(false) {
            return Err(
                Error::rpc(Code::Unavailable, "the driver says that it is not ready")
                    .doing("identity probe")
                    .hint("--wait 1m waits until it is"),
            );
        }
        let has_controller = plugin.capabilities.iter().any(|capability| {
            use v1::plugin_capability::{Type, service};
            matches!(&capability.r#type, Some(Type::Service(one)) if one.r#type == i32::from(service::Type::ControllerService))
        });
        // A node-only process advertises no controller although the driver has one elsewhere.
        if has_controller || self.flags.controller_endpoint.is_some() {
            let request = v1::ControllerGetCapabilitiesRequest {};
            let reply = self
                .controller(&request, |reply| {
                    count(reply.capabilities.len(), "capability", "capabilities")
                })
                .await?;
            advertised.controller = reply
                .capabilities
                .into_iter()
                .filter_map(|one| {
                    let v1::controller_service_capability::Type::Rpc(rpc) = one.r#type?;
                    Some(rpc.r#type)
                })
                .collect();
        }
        let request = v1::NodeGetCapabilitiesRequest {};
        let reply = self
            .node(&request, |reply| {
                count(reply.capabilities.len(), "capability", "capabilities")
            })
            .await?;
        advertised.node = reply
            .capabilities
            .into_iter()
            .filter_map(|one| {
                let v1::node_service_capability::Type::Rpc(rpc) = one.r#type?;
                Some(rpc.r#type)
            })
            .collect();
        Ok(advertised)
    }
}

fn count(number: usize, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}
