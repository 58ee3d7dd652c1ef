//! What kubernetes-csi's driver has left on a share: the folders of its volumes, and its archives among them. Its ids are the driver's
//! business.

#[expect(clippy::disallowed_methods, reason = "threads of shares call it")]
pub mod folders;
pub mod other_shares;
