//! What this driver knows of kubernetes-csi's driver, whose volumes and snapshots it can serve: their ids and attributes. What
//! it has left on a share is the business of the store; the calls about it are `calls::controller::upstream`.

pub(crate) mod attributes;
pub mod ids;
