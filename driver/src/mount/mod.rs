//! Mounting and unmounting: NFS exports and local folders, in helper processes that a deadline can kill.
//!
//! Everything that may block on a server that is gone happens in a helper ([`helper`], [`task`]); this process reads
//! mountinfo instead of touching what may be a dead mount. What asks no server is done by a thread (`direct`). Nothing here
//! knows CSI.

// What runs in the driver's own process is denied what blocks; starting processes and reading mountinfo are its exceptions.

pub mod address;
mod below;
mod bind;
#[cfg_attr(not(test), deny(clippy::disallowed_methods))]
pub mod control;
pub mod control_options;
#[cfg_attr(not(test), deny(clippy::disallowed_methods))]
mod direct;
mod gssd;
#[cfg_attr(not(test), deny(clippy::disallowed_methods))]
pub mod helper;
mod kernel;
mod launch;
mod messages;
pub mod mountinfo;
mod nfs;
mod nursery;
pub mod option_names;
pub mod options;
mod perform;
pub(crate) mod private;
pub(crate) mod redaction;
pub mod task;
