//! The capabilities that a driver advertises, and the one way to ask for them.
//!
//! They are kept as numbers, so that ones which nobody knows do no harm.

use csi_proto::v1::plugin_capability::{self, service, volume_expansion};
use csi_proto::v1::{
    controller_service_capability, group_controller_service_capability, node_service_capability,
};
use csi_proto::{Request, v1};

/// The capabilities that a driver advertises, as far as it was asked.
#[derive(Clone, Debug, Default)]
pub struct Advertised {
    plugin: Vec<i32>,
    expansion: Vec<i32>,
    controller: Vec<i32>,
    group_controller: Vec<i32>,
    node: Vec<i32>,
    /// Whether the driver answers what its node can do.
    pub serves_node: bool,
}

/// One end of a driver; both are the same unless its controller is another process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DriverEnd {
    /// The end that serves Node, and Identity.
    Node,
    /// The end that serves the other services.
    Controller,
}

/// A caller that asks for capabilities.
pub trait Asks {
    /// Why there is no answer.
    type Error;

    /// Sends the request; `None` for an answer that counts as nothing advertised. `count` tells how many capabilities there
    /// are in a reply.
    async fn ask<Q: Request>(
        &mut self,
        end: DriverEnd,
        request: Q,
        count: fn(&Q::Reply) -> usize,
    ) -> Result<Option<Q::Reply>, Self::Error>;
}

impl Advertised {
    /// Asks one end for its services. Of a driver in two processes each advertises its own part.
    ///
    /// # Errors
    /// As whoever asks has it; so of the others.
    pub async fn ask_plugin<A: Asks>(
        &mut self,
        asks: &mut A,
        end: DriverEnd,
    ) -> Result<(), A::Error> {
        let request = v1::GetPluginCapabilitiesRequest {};
        let reply = asks
            .ask(end, request, |reply| reply.capabilities.len())
            .await?;
        for capability in reply.unwrap_or_default().capabilities {
            match capability.r#type {
                Some(plugin_capability::Type::Service(one)) => self.plugin.push(one.r#type),
                Some(plugin_capability::Type::VolumeExpansion(one)) => {
                    self.expansion.push(one.r#type);
                }
                None => {}
            }
        }
        Ok(())
    }

    /// Asks for the controller's capabilities.
    pub async fn ask_controller<A: Asks>(&mut self, asks: &mut A) -> Result<(), A::Error> {
        use controller_service_capability::Type;
        let request = v1::ControllerGetCapabilitiesRequest {};
        let reply = asks
            .ask(DriverEnd::Controller, request, |reply| {
                reply.capabilities.len()
            })
            .await?;
        let all = reply.unwrap_or_default().capabilities.into_iter();
        self.controller = all
            .filter_map(|one| one.r#type)
            .map(|Type::Rpc(rpc)| rpc.r#type)
            .collect();
        Ok(())
    }

    /// Asks for the group controller's capabilities.
    pub async fn ask_group_controller<A: Asks>(&mut self, asks: &mut A) -> Result<(), A::Error> {
        use group_controller_service_capability::Type;
        let request = v1::GroupControllerGetCapabilitiesRequest {};
        let reply = asks
            .ask(DriverEnd::Controller, request, |reply| {
                reply.capabilities.len()
            })
            .await?;
        let all = reply.unwrap_or_default().capabilities.into_iter();
        self.group_controller = all
            .filter_map(|one| one.r#type)
            .map(|Type::Rpc(rpc)| rpc.r#type)
            .collect();
        Ok(())
    }

    /// Asks for the node's capabilities.
    pub async fn ask_node<A: Asks>(&mut self, asks: &mut A) -> Result<(), A::Error> {
        use node_service_capability::Type;
        let request = v1::NodeGetCapabilitiesRequest {};
        let reply = asks
            .ask(DriverEnd::Node, request, |reply| reply.capabilities.len())
            .await?;
        self.serves_node = reply.is_some();
        let all = reply.unwrap_or_default().capabilities.into_iter();
        self.node = all
            .filter_map(|one| one.r#type)
            .map(|Type::Rpc(rpc)| rpc.r#type)
            .collect();
        Ok(())
    }

    /// Whether it has a service, or a constraint of it.
    pub fn plugin(&self, one: service::Type) -> bool {
        self.plugin.contains(&one.into())
    }

    /// Whether published volumes can be expanded.
    pub fn expands_online(&self) -> bool {
        self.expansion
            .contains(&volume_expansion::Type::Online.into())
    }

    /// Whether its controller has a capability.
    pub fn controller(&self, one: controller_service_capability::rpc::Type) -> bool {
        self.controller.contains(&one.into())
    }

    /// Whether its group controller has a capability.
    pub fn group_controller(&self, one: group_controller_service_capability::rpc::Type) -> bool {
        self.group_controller.contains(&one.into())
    }

    /// Whether its node has a capability.
    pub fn node(&self, one: node_service_capability::rpc::Type) -> bool {
        self.node.contains(&one.into())
    }
}
