//! The capabilities that a driver advertises, and the one way to ask for them.

use super::answered::Teller;
use super::session::CallError;
use csi_proto::v1::plugin_capability::{service, volume_expansion};
use csi_proto::v1::{
    controller_service_capability, group_controller_service_capability, node_service_capability,
};
use csi_proto::{Request, v1};
use tonic::Code;

/// The capabilities that a driver advertises, as far as it was asked.
#[derive(Clone, Debug, Default)]
pub struct Advertised {
    /// Its services, and how it expands volumes.
    pub plugin: Vec<v1::PluginCapability>,
    /// What its controller can do.
    pub controller: Vec<v1::ControllerServiceCapability>,
    /// What its group controller can do.
    pub group_controller: Vec<v1::GroupControllerServiceCapability>,
    /// What its node can do.
    pub node: Vec<v1::NodeServiceCapability>,
    /// Whether the driver answers what its controller can do.
    pub serves_controller: bool,
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

/// The reply, or nothing where the driver does not serve the RPC: it advertises nothing of it then.
///
/// # Errors
/// Any other failure of the call.
pub fn if_served<T>(answer: Result<T, CallError>) -> Result<Option<T>, CallError> {
    match answer {
        Err(error)
            if error.status.code() == Code::Unimplemented
                && error.teller == Some(Teller::Driver) =>
        {
            Ok(None)
        }
        answer => answer.map(Some),
    }
}

/// A caller that asks for capabilities.
// One task waits for it: that it is `Send` is nowhere needed.
#[expect(async_fn_in_trait)]
pub trait Asks {
    /// Why there is no answer.
    type Error;

    /// Sends the request; `None` for an answer that counts as nothing advertised.
    async fn ask<Q: Request>(
        &mut self,
        end: DriverEnd,
        request: Q,
    ) -> Result<Option<Q::Reply>, Self::Error>;
}

impl Advertised {
    /// Everything that a driver advertises, whose node and controller may be two processes.
    ///
    /// # Errors
    /// As whoever asks has it; so of the others.
    pub async fn ask_all<A: Asks>(asks: &mut A, two_processes: bool) -> Result<Self, A::Error> {
        let mut all = Self::default();
        all.ask_plugin(asks, DriverEnd::Node).await?;
        if two_processes {
            all.ask_plugin(asks, DriverEnd::Controller).await?;
        }
        if all.plugin(service::Type::ControllerService) || two_processes {
            all.ask_controller(asks).await?;
        }
        if all.plugin(service::Type::GroupControllerService) {
            let request = v1::GroupControllerGetCapabilitiesRequest {};
            let reply = asks.ask(DriverEnd::Controller, request).await?;
            all.group_controller = reply.unwrap_or_default().capabilities;
        }
        all.ask_node(asks).await?;
        Ok(all)
    }

    /// Asks one end for its services. Of a driver in two processes each should advertise both parts, and some do not.
    pub async fn ask_plugin<A: Asks>(
        &mut self,
        asks: &mut A,
        end: DriverEnd,
    ) -> Result<(), A::Error> {
        let request = v1::GetPluginCapabilitiesRequest {};
        let reply = asks.ask(end, request).await?.unwrap_or_default();
        self.plugin.extend(reply.capabilities);
        Ok(())
    }

    /// Asks for the controller's capabilities.
    pub async fn ask_controller<A: Asks>(&mut self, asks: &mut A) -> Result<(), A::Error> {
        let request = v1::ControllerGetCapabilitiesRequest {};
        let reply = asks.ask(DriverEnd::Controller, request).await?;
        self.serves_controller = reply.is_some();
        self.controller = reply.unwrap_or_default().capabilities;
        Ok(())
    }

    /// Asks for the node's capabilities.
    pub async fn ask_node<A: Asks>(&mut self, asks: &mut A) -> Result<(), A::Error> {
        let request = v1::NodeGetCapabilitiesRequest {};
        let reply = asks.ask(DriverEnd::Node, request).await?;
        self.serves_node = reply.is_some();
        self.node = reply.unwrap_or_default().capabilities;
        Ok(())
    }

    /// Whether it has a service, or a constraint of it.
    pub fn plugin(&self, one: service::Type) -> bool {
        self.plugin.contains(&one.into())
    }

    /// Whether published volumes can be expanded.
    pub fn expands_online(&self) -> bool {
        self.plugin.contains(&volume_expansion::Type::Online.into())
    }

    /// Whether volumes can be expanded that are not published.
    pub fn expands_offline(&self) -> bool {
        self.plugin
            .contains(&volume_expansion::Type::Offline.into())
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
