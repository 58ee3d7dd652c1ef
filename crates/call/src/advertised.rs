//! The capabilities that a driver advertises, and the one way to ask for them.
//!
//! They are kept as numbers, so that ones which nobody knows do no harm.

use super::session::CallError;
use csi_proto::schema::Message;
use csi_proto::v1::plugin_capability::{service, volume_expansion};
use csi_proto::v1::{
    controller_service_capability, group_controller_service_capability, node_service_capability,
};
use csi_proto::wire::{self, Raw};
use csi_proto::{Request, contents, v1};
use prost::Message as _;
use tonic::Code;

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

/// The reply, or nothing where the driver does not serve the RPC: it advertises nothing of it then.
///
/// # Errors
/// Any other failure of the call.
pub fn if_served<T>(answer: Result<T, CallError>) -> Result<Option<T>, CallError> {
    match answer {
        Err(error) if error.status.code() == Code::Unimplemented => Ok(None),
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
        let reply = ask(asks, end, request).await?;
        self.plugin.extend(types(&reply, "capabilities.service"));
        let expansion = types(&reply, "capabilities.volume_expansion");
        self.expansion.extend(expansion);
        Ok(())
    }

    /// Asks for the controller's capabilities.
    pub async fn ask_controller<A: Asks>(&mut self, asks: &mut A) -> Result<(), A::Error> {
        let request = v1::ControllerGetCapabilitiesRequest {};
        let reply = ask(asks, DriverEnd::Controller, request).await?;
        self.controller = types(&reply, "capabilities.rpc");
        Ok(())
    }

    /// Asks for the group controller's capabilities.
    pub async fn ask_group_controller<A: Asks>(&mut self, asks: &mut A) -> Result<(), A::Error> {
        let request = v1::GroupControllerGetCapabilitiesRequest {};
        let reply = ask(asks, DriverEnd::Controller, request).await?;
        self.group_controller = types(&reply, "capabilities.rpc");
        Ok(())
    }

    /// Asks for the node's capabilities.
    pub async fn ask_node<A: Asks>(&mut self, asks: &mut A) -> Result<(), A::Error> {
        let request = v1::NodeGetCapabilitiesRequest {};
        let reply = ask(asks, DriverEnd::Node, request).await?;
        self.serves_node = reply.is_some();
        self.node = types(&reply, "capabilities.rpc");
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

    /// Whether volumes can be expanded that are not published.
    pub fn expands_offline(&self) -> bool {
        self.expansion
            .contains(&volume_expansion::Type::Offline.into())
    }

    /// What a driver with these capabilities advertises; whether it expands online, and its node as well as its controller
    /// where it says anything of itself.
    pub fn of_driver(
        plugin: &[service::Type],
        expands_online: bool,
        controller: &[controller_service_capability::rpc::Type],
        node: &[node_service_capability::rpc::Type],
    ) -> Self {
        let expansion = expands_online.then_some(volume_expansion::Type::Online.into());
        Self {
            plugin: plugin.iter().map(|one| (*one).into()).collect(),
            expansion: expansion.into_iter().collect(),
            controller: controller.iter().map(|one| (*one).into()).collect(),
            group_controller: Vec::new(),
            node: node.iter().map(|one| (*one).into()).collect(),
            serves_node: true,
        }
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

/// The reply to a request for capabilities.
type CapabilitiesReply = Option<(&'static Message, Vec<u8>)>;

async fn ask<A: Asks, Q: Request>(
    asks: &mut A,
    end: DriverEnd,
    request: Q,
) -> Result<CapabilitiesReply, A::Error> {
    let reply = asks.ask(end, request).await?;
    Ok(reply.map(|reply| (Q::METHOD.response, reply.encode_to_vec())))
}

/// The `type` in each message at a path: the replies of all services have the same form.
fn types(reply: &CapabilitiesReply, path: &str) -> Vec<i32> {
    let Some((message, bytes)) = reply else {
        return Vec::new();
    };
    let all = contents(message, bytes, path).into_iter();
    let fields = all.flat_map(|one| wire::fields(one).map_while(Result::ok));
    let numbers = fields.filter_map(|(_, raw)| match raw {
        Raw::Varint(number) => i32::try_from(number).ok(),
        _ => None,
    });
    numbers.collect()
}
