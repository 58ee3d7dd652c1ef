//! Finds an RPC's description by its name or its path.

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
