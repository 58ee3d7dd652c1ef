//! What this driver knows of kubernetes-csi's driver, whose volumes and snapshots it can serve: their ids, their attributes, their
//! folders. The calls about them are `calls::controller::upstream`.

pub(crate) mod attributes;
#[expect(clippy::disallowed_methods, reason = "threads of shares call it")]
pub(crate) mod folders;
pub mod ids;
