//! What a driver advertises, as the messages that say so. Owns their wrapping; which capabilities a driver has is its own business.

use crate::v1::{
    ControllerServiceCapability, GroupControllerServiceCapability, NodeServiceCapability,
    PluginCapability, controller_service_capability, group_controller_service_capability,
    node_service_capability, plugin_capability,
};

macro_rules! wrapped {
    ($($message:ident: $part:ident, $kind:ident, $name:ident;)*) => { $(
        impl From<$part::$kind::Type> for $message {
            fn from(capability: $part::$kind::Type) -> Self {
                let r#type = capability.into();
                let r#type = Some($part::Type::$name($part::$name { r#type }));
                Self { r#type }
            }
        }
    )* };
}

wrapped! {
    ControllerServiceCapability: controller_service_capability, rpc, Rpc;
    GroupControllerServiceCapability: group_controller_service_capability, rpc, Rpc;
    NodeServiceCapability: node_service_capability, rpc, Rpc;
    PluginCapability: plugin_capability, service, Service;
    PluginCapability: plugin_capability, volume_expansion, VolumeExpansion;
}
