//! `csi` and `csi-nfs` as processes, against a real kernel NFS server and client. `tests/run` starts this program
//! where there is such a server (`tests/nfs-guest`, `tests/nfs-host`), as root, with `EXPORT` in its environment.
//!
//! Every test has a folder of the export to itself, which is a share of its own: they run side by side.
#![allow(clippy::unwrap_used)]

#[path = "../support/mod.rs"]
mod support;

mod addresses;
mod agent;
mod away;
// Reads the driver's table.
#[cfg(feature = "embedded")]
mod control_mounts;
mod controllers;
mod dead_servers;
mod failures;
mod far;
mod flex;
mod frozen;
mod hostile;
mod killed;
mod known_names;
mod leaks;
mod lifecycle;
mod measuring;
mod privileges;
mod relay;
mod restarts;
mod sanity;
mod scene;
mod server;
mod staging;
mod stale;
mod storms;
mod symlinks;
mod torture;
mod upstream;
mod volumes;
