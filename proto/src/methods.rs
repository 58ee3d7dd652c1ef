//! Finds an RPC's description by its name, in either spelling, or by its path.

use crate::schema::Method;
use crate::tables::METHODS;

/// The method of a gRPC path such as `/csi.v1.Identity/Probe`.
pub fn by_path(path: &str) -> Option<&'static Method> {
    METHODS.iter().copied().find(|method| method.path == path)
}

/// The method of an RPC's name such as `Probe`; CSI uses every name once.
pub fn by_name(name: &str) -> Option<&'static Method> {
    METHODS.iter().copied().find(|method| method.name == name)
}

/// The methods of an RPC's name in either spelling, such as `NodePublishVolume` or `node-publish-volume`; with a service
/// before it (`Node/NodePublishVolume`) the one there. None where no RPC has that name.
pub fn named(text: &str) -> Vec<&'static Method> {
    let (service, name) = text.rsplit_once('/').unwrap_or(("", text));
    let mut found = METHODS.to_vec();
    found.retain(|method| {
        (service.is_empty() || method.service.eq_ignore_ascii_case(service))
            && (method.kebab_name == name || method.name.eq_ignore_ascii_case(name))
    });
    found
}
