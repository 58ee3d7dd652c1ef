//! Asks the driver, before a lifecycle begins, for its name, its readiness and its capabilities.

use super::calls::StepRunner;
use csi_call::Advertised;
use csi_call::advertised::{Asks, DriverEnd};
use csi_error::{Error, ErrorKind};
use csi_proto::schema::Method;
use csi_proto::v1::plugin_capability::service::Type::ControllerService;
use csi_proto::{Request, contents, v1};
use prost::Message as _;
use std::io::Write;
use tonic::Code;

impl<W: Write> StepRunner<'_, '_, W> {
    /// Identity, capabilities, node: what everything else depends on.
    pub(super) async fn ask(mut self) -> Result<Advertised, Error> {
        let mut advertised = Advertised::default();
        let named = |reply: &v1::GetPluginInfoResponse| match reply.name.is_empty() {
            true => {
                let problem = "the driver has no name, which the specification requires";
                Err(Error::local(problem).doing("identity plugin-info"))
            }
            false => Ok(format!("{} {}", reply.name, reply.vendor_version)),
        };
        self.step_judged(&v1::GetPluginInfoRequest {}, |_| true, named)
            .await?;
        advertised.ask_plugin(&mut self, DriverEnd::Node).await?;
        let ready = |reply: &v1::ProbeResponse| match reply.ready {
            Some(false) => {
                let problem = "the driver says that it is not ready";
                let error = Error::rpc(Code::Unavailable, problem).doing("identity probe");
                Err(error.hint("--wait 1m waits until it is"))
            }
            _ => Ok("ready".to_owned()),
        };
        self.step_judged(&v1::ProbeRequest {}, |_| true, ready)
            .await?;
        // A process advertises a controller also where another one serves it, and some do not.
        if advertised.plugin(ControllerService) || self.run.flags.controller_endpoint.is_some() {
            advertised.ask_controller(&mut self).await?;
        }
        advertised.ask_node(&mut self).await?;
        Ok(advertised)
    }

    /// Whether another process has the controller, for this one does not serve what it advertises.
    pub(super) fn is_elsewhere(&self, method: &Method, error: &Error) -> bool {
        method.name == v1::ControllerGetCapabilitiesRequest::METHOD.name
            && error.kind() == ErrorKind::Rpc(Code::Unimplemented)
            && self.run.flags.controller_endpoint.is_none()
    }
}

/// Each question is a step, and must be answered.
impl<W: Write> Asks for StepRunner<'_, '_, W> {
    type Error = Error;

    async fn ask<Q: Request>(
        &mut self,
        _end: DriverEnd,
        request: Q,
    ) -> Result<Option<Q::Reply>, Error> {
        let describe = |reply: &Q::Reply| {
            let bytes = reply.encode_to_vec();
            match contents(Q::METHOD.response, &bytes, "capabilities").len() {
                1 => "1 capability".to_owned(),
                count => format!("{count} capabilities"),
            }
        };
        match self.step(&request, describe).await {
            Err(error) if self.is_elsewhere(Q::METHOD, &error) => Ok(None),
            reply => reply.map(Some),
        }
    }
}
