//! Everything about kubernetes-csi's driver, whose volumes and snapshots this driver can serve too.

pub mod ids;
