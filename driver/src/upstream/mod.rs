//! Names of kubernetes-csi's driver, whose volumes and snapshots this driver can serve too: its ids, which `ids.rs` reads.

pub mod ids;
