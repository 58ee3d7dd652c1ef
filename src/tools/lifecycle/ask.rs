//! Asks the driver, before a lifecycle begins, for its name, its readiness and its capabilities.

use super::calls::StepRunner;
use csi_call::Advertised;
use csi_call::advertised::{Asks, DriverEnd};
use csi_error::Error;
use csi_proto::v1::plugin_capability::service::Type::ControllerService;
use csi_proto::{Request, contents, v1};
use prost::Message as _;
use std::io::Write;
use tonic::Code;

impl<W: Write> StepRunner<'_, '_, W> {
    /// Identity, capabilities, node: what everything else depends on.
    pub(super) async fn ask(mut self) -> Result<Advertised, Error> {
        let mut advertised = Advertised::default();
        let info = self
            .step(&v1::GetPluginInfoRequest {}, |reply| {
                format!("{} {}", reply.name, reply.vendor_version)
            })
            .await?;
        if info.name.is_empty() {
            return Err(
                Error::local("the driver has no name, which the specification requires")
                    .doing("identity plugin-info"),
            );
        }
        advertised.ask_plugin(&mut self, DriverEnd::Node).await?;
        let request = v1::ProbeRequest {};
        let probe = self
            .step(&request, |reply| {
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
        // A node-only process advertises no controller although the driver has one elsewhere.
        if advertised.plugin(ControllerService) || self.run.flags.controller_endpoint.is_some() {
            advertised.ask_controller(&mut self).await?;
        }
        advertised.ask_node(&mut self).await?;
        Ok(advertised)
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
        self.step(&request, describe).await.map(Some)
    }
}
