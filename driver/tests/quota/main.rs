//! Project quotas on a real file system, XFS or ext4, that a kernel NFS server exports: what clients see of them, and what the
//! driver does with them. `tests/run` starts this program as root in a guest, with `EXPORT` in its environment.
#![allow(clippy::unwrap_used)]

mod agent;
#[path = "../support/away.rs"]
mod away;
mod clients;
mod copies;
mod counting;
mod hazards;
mod immutable;
mod in_process;
#[path = "../../../tests/support/patience.rs"]
mod patience;
mod reconciling;
mod scene;
mod site;
#[path = "../../../tests/support/strace.rs"]
mod strace;
mod taking_in;
mod tenants;
mod tools;
mod truth;
