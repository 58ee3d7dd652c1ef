//! What a driver advertises, as the messages that say so. Owns their wrapping; which capabilities a driver has is its own business.

use crate::v1::{
    ControllerServiceCapability, GroupControllerServiceCapability, NodeServiceCapability,
    PluginCapability, controller_service_capability, group_controller_service_capability,
    node_service_capability, plugin_capability,
};

macro_rules! of_a_service {
    ($($message:ident: $part:ident),* $(,)?) => { $(
        impl From<$part::rpc::Type> for $message {
            fn from(capability: $part::rpc::Type) -> Self {
                let r#type = capability.into();
                let r#type = Some($part::Type::Rpc($part::Rpc { r#type }));
                Self { r#type }
            }
        }
    )* };
}

of_a_service! {
    ControllerServiceCapability: controller_service_capability,
    GroupControllerServiceCapability: group_controller_service_capability,
    NodeServiceCapability: node_service_capability,
}

impl From<plugin_capability::service::Type> for PluginCapability {
    fn from(service: plugin_capability::service::Type) -> Self {
        let r#type = service.into();
        let r#type = Some(plugin_capability::Type::Service(
            plugin_capability::Service { r#type },
        ));
        Self { r#type }
    }
}

impl From<plugin_capability::volume_expansion::Type> for PluginCapability {
    fn from(expansion: plugin_capability::volume_expansion::Type) -> Self {
        let r#type = expansion.into();
        let r#type = Some(plugin_capability::Type::VolumeExpansion(
            plugin_capability::VolumeExpansion { r#type },
        ));
        Self { r#type }
    }
}
