//! The Identity service.

use crate::Defect;
use crate::core::Core;
use crate::service::service;
use csi_proto::v1::identity_server::Identity;
use csi_proto::v1::*;
use tonic::Status;

/// The plugin's name; keys of its topology begin with it.
pub(crate) const NAME: &str = "mock.csi.internal";

service!(Identity(core, request) {
    get_plugin_info(GetPluginInfoRequest) -> GetPluginInfoResponse = {
        let mut reply = GetPluginInfoResponse {
            name: NAME.to_owned(),
            vendor_version: env!("CARGO_PKG_VERSION").to_owned(),
            manifest: [("storage".to_owned(), "memory".to_owned())].into(),
        };
        if core.has(Defect::PluginNameInvalid) {
            reply.name = "mock driver_".to_owned();
        }
        if core.has(Defect::PluginNameTooLong) {
            reply.name = "a".repeat(64);
        }
        if core.has(Defect::PluginVersionMissing) {
            reply.vendor_version.clear();
        }
        if core.has(Defect::ManifestTooLarge) {
            reply.manifest.insert("about".to_owned(), "x".repeat(4097));
        }
        reply
    };
    get_plugin_capabilities(GetPluginCapabilitiesRequest) -> GetPluginCapabilitiesResponse = {
        let options = core.options();
        let services = options.services.iter().map(|service| (*service).into());
        let expansion = options.expansion.map(Into::into);
        let capabilities: Vec<PluginCapability> = services.chain(expansion).collect();
        let capabilities = core.advertised(&capabilities, Defect::PluginCapabilitiesChange);
        GetPluginCapabilitiesResponse { capabilities }
    };
    probe(ProbeRequest) -> ProbeResponse = {
        if core.has(Defect::ProbeFails) {
            return Err(Status::internal("nil pointer dereference"));
        }
        let ready = Some(!core.has(Defect::ProbeNeverReady));
        ProbeResponse { ready }
    };
});
