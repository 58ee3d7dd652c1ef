//! The age of a driver: what is not there in one of an older specification of CSI 1. It advertises nothing that came later,
//! and its gRPC library answers the RPCs that came later.
//!
//! Tried are 1.0, 1.2 and 1.5; each line below says the first of these that has it, or [`TODAY`].

use crate::options::{Options, TODAY};
use csi_proto::methods;
use csi_proto::v1::controller_service_capability::rpc::Type as ControllerCapability;
use csi_proto::v1::node_service_capability::rpc::Type as NodeCapability;
use csi_proto::v1::plugin_capability::service::Type as PluginService;

impl Options {
    /// A driver of CSI 1 in that minor version, with every capability that this has.
    pub fn of_specification(minor: u32) -> Self {
        let mut options = Self {
            specification: minor,
            ..Self::default()
        };
        options.services.retain(|one| service(*one) <= minor);
        options.controller.retain(|one| controller(*one) <= minor);
        options.node.retain(|one| node(*one) <= minor);
        // The expansion of volumes came with its RPCs.
        options.expansion = options.expansion.filter(|_| minor >= 2);
        options
    }
}

fn service(service: PluginService) -> u32 {
    match service {
        PluginService::ControllerService | PluginService::VolumeAccessibilityConstraints => 0,
        _ => TODAY,
    }
}

fn controller(capability: ControllerCapability) -> u32 {
    use ControllerCapability as C;
    match capability {
        C::ExpandVolume | C::ListVolumesPublishedNodes => 2,
        C::VolumeCondition | C::GetVolume | C::SingleNodeMultiWriter => 5,
        C::ModifyVolume | C::GetSnapshot => TODAY,
        _ => 0,
    }
}

fn node(capability: NodeCapability) -> u32 {
    use NodeCapability as N;
    match capability {
        N::ExpandVolume => 2,
        N::VolumeCondition | N::SingleNodeMultiWriter | N::VolumeMountGroup => 5,
        _ => 0,
    }
}

/// Whether a driver of that minor version has the RPC at this path.
pub(crate) fn has_rpc(minor: u32, path: &str) -> bool {
    let came = methods::by_path(path).map_or(0, |method| match (method.service, method.name) {
        ("GroupController" | "SnapshotMetadata", _) => TODAY,
        (_, "ControllerModifyVolume" | "GetSnapshot") => TODAY,
        (_, "ControllerGetVolume") => 5,
        (_, "ControllerExpandVolume" | "NodeExpandVolume") => 2,
        _ => 0,
    });
    came <= minor
}
