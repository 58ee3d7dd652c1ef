//! The Identity service.

use crate::Defect;
use crate::core::Core;
use csi_proto::v1::identity_server::Identity;
use csi_proto::v1::{
    GetPluginCapabilitiesRequest, GetPluginCapabilitiesResponse, GetPluginInfoRequest,
    GetPluginInfoResponse, PluginCapability, ProbeRequest, ProbeResponse,
};
use tonic::{Request, Response, Status};

/// The plugin's name; keys of its topology begin with it.
pub(crate) const NAME: &str = "mock.csi.internal";

#[tonic::async_trait]
impl Identity for Core {
    async fn get_plugin_info(
        &self,
        _: Request<GetPluginInfoRequest>,
    ) -> Result<Response<GetPluginInfoResponse>, Status> {
        let mut reply = GetPluginInfoResponse {
            name: NAME.to_owned(),
            vendor_version: env!("CARGO_PKG_VERSION").to_owned(),
            manifest: [("storage".to_owned(), "memory".to_owned())].into(),
        };
        if self.has(Defect::PluginNameInvalid) {
            reply.name = "mock driver_".to_owned();
        }
        if self.has(Defect::PluginNameTooLong) {
            reply.name = "a".repeat(64);
        }
        if self.has(Defect::PluginVersionMissing) {
            reply.vendor_version.clear();
        }
        if self.has(Defect::ManifestTooLarge) {
            reply.manifest.insert("about".to_owned(), "x".repeat(4097));
        }
        Ok(Response::new(reply))
    }

    async fn get_plugin_capabilities(
        &self,
        _: Request<GetPluginCapabilitiesRequest>,
    ) -> Result<Response<GetPluginCapabilitiesResponse>, Status> {
        let options = self.options();
        let services = options.services.iter().map(|service| (*service).into());
        let expansion = options.expansion.map(Into::into);
        let capabilities: Vec<PluginCapability> = services.chain(expansion).collect();
        let changes = Defect::PluginCapabilitiesChange;
        Ok(Response::new(GetPluginCapabilitiesResponse {
            capabilities: self.advertised(&capabilities, changes),
        }))
    }

    async fn probe(&self, _: Request<ProbeRequest>) -> Result<Response<ProbeResponse>, Status> {
        if self.has(Defect::ProbeFails) {
            return Err(Status::internal("nil pointer dereference"));
        }
        let ready = !self.has(Defect::ProbeNeverReady);
        Ok(Response::new(ProbeResponse { ready: Some(ready) }))
    }
}
