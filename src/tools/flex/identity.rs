//! The Identity service.

use super::driver::Flex;
use csi_proto::v1::identity_server::Identity;
use csi_proto::v1::plugin_capability::{service, volume_expansion};
use csi_proto::v1::{
    GetPluginCapabilitiesRequest, GetPluginCapabilitiesResponse, GetPluginInfoRequest,
    GetPluginInfoResponse, PluginCapability, ProbeRequest, ProbeResponse,
};
use std::collections::BTreeMap;
use tonic::{Request, Response, Status};

#[tonic::async_trait]
impl Identity for Flex {
    async fn get_plugin_info(
        &self,
        _: Request<GetPluginInfoRequest>,
    ) -> Result<Response<GetPluginInfoResponse>, Status> {
        Ok(Response::new(GetPluginInfoResponse {
            name: self.identity().name.clone(),
            vendor_version: env!("CARGO_PKG_VERSION").to_owned(),
            manifest: BTreeMap::new(),
        }))
    }

    async fn get_plugin_capabilities(
        &self,
        _: Request<GetPluginCapabilitiesRequest>,
    ) -> Result<Response<GetPluginCapabilitiesResponse>, Status> {
        let able = self.abilities();
        let all = [
            (able.attaches, service::Type::ControllerService.into()),
            (able.expands, volume_expansion::Type::Online.into()),
        ];
        let capabilities = all.into_iter().filter(|(able, _)| *able);
        let capabilities = capabilities.map(|(_, one): (bool, PluginCapability)| one);
        Ok(Response::new(GetPluginCapabilitiesResponse {
            capabilities: capabilities.collect(),
        }))
    }

    async fn probe(&self, _: Request<ProbeRequest>) -> Result<Response<ProbeResponse>, Status> {
        self.is_there().map_err(|error| error.status(&[]))?;
        Ok(Response::new(ProbeResponse { ready: Some(true) }))
    }
}
