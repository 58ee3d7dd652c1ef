//! Golden files of the Identity service.

use super::goldens;
use crate::support::scripted::Reply;
use csi_proto::v1::plugin_capability::{self, Service, VolumeExpansion, service, volume_expansion};
use csi_proto::v1::{
    GetPluginCapabilitiesResponse, GetPluginInfoResponse, PluginCapability, ProbeResponse,
};

goldens! {
    get_plugin_info: "identity plugin-info",
        Reply::message(&GetPluginInfoResponse {
            name: "scripted.csi.example".into(),
            vendor_version: "1.2.3-rc.1".into(),
            manifest: [("commit".into(), "5f3e1a".into()), ("built".into(), "by hand".into())].into(),
        }),
        Internal "cannot read my own name";

    get_plugin_capabilities: "identity plugin-capabilities",
        Reply::message(&GetPluginCapabilitiesResponse {
            capabilities: vec![
                capability(plugin_capability::Type::Service(Service {
                    r#type: service::Type::ControllerService.into(),
                })),
                capability(plugin_capability::Type::Service(Service {
                    r#type: service::Type::VolumeAccessibilityConstraints.into(),
                })),
                capability(plugin_capability::Type::VolumeExpansion(VolumeExpansion {
                    r#type: volume_expansion::Type::Online.into(),
                })),
                // A service of a later CSI.
                capability(plugin_capability::Type::Service(Service { r#type: 77 })),
            ],
        }),
        Unimplemented "unknown method GetPluginCapabilities for service csi.v1.Identity";

    probe: "identity probe",
        Reply::message(&ProbeResponse { ready: Some(false) }),
        FailedPrecondition "the export is not mounted on the server";
}

fn capability(of: plugin_capability::Type) -> PluginCapability {
    PluginCapability { r#type: Some(of) }
}
