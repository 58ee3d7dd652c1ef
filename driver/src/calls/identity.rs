//! The Identity service: who this driver is and whether this instance can work.

use crate::process::health::{Health, Obstacle};
use csi_proto::v1::identity_server::Identity;
use csi_proto::v1::plugin_capability::service::Type as ServiceType;
use csi_proto::v1::plugin_capability::volume_expansion::Type as ExpansionType;
use csi_proto::v1::{
    GetPluginCapabilitiesRequest, GetPluginCapabilitiesResponse, GetPluginInfoRequest,
    GetPluginInfoResponse, ProbeRequest, ProbeResponse,
};
use tonic::{Request, Response, Status};

/// The Identity service of one instance.
#[tonic::async_trait]
impl Identity for Health {
    async fn get_plugin_info(
        &self,
        _: Request<GetPluginInfoRequest>,
    ) -> Result<Response<GetPluginInfoResponse>, Status> {
        Ok(Response::new(GetPluginInfoResponse {
            name: self.config.driver_name.clone(),
            vendor_version: env!("CARGO_PKG_VERSION").to_owned(),
            manifest: [("csi".to_owned(), csi_proto::SPEC_VERSION.to_owned())].into(),
        }))
    }

    async fn get_plugin_capabilities(
        &self,
        _: Request<GetPluginCapabilitiesRequest>,
    ) -> Result<Response<GetPluginCapabilitiesResponse>, Status> {
        // The same of every instance, whichever services it has.
        Ok(Response::new(GetPluginCapabilitiesResponse {
            capabilities: vec![
                ServiceType::ControllerService.into(),
                ExpansionType::Online.into(),
            ],
        }))
    }

    async fn probe(&self, _: Request<ProbeRequest>) -> Result<Response<ProbeResponse>, Status> {
        let ready = match self.obstacle().await {
            None => true,
            Some(Obstacle::NoNfsClient(_)) => false,
            Some(Obstacle::Fault(why)) => return Err(Status::failed_precondition(why)),
        };
        Ok(Response::new(ProbeResponse { ready: Some(ready) }))
    }
}
