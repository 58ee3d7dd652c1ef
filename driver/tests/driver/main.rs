//! The driver from outside: its services in this process, and the real `csi-nfs` as a process. One program, because each
//! test program links the whole driver.
//!
//! The tests of a program share a process: none changes its own folder, environment, user, limits or namespaces. What must,
//! happens in a process that the test starts (see [`rig`]), or in the test program `embedded`.
#![allow(clippy::unwrap_used)]

mod agent;
#[path = "../support/away.rs"]
mod away;
mod controller;
mod copying;
mod frozen;
mod hostile;
mod killed;
mod measuring;
mod observing;
mod parsers;
#[path = "../../../tests/support/placed.rs"]
mod placed;
mod privileges;
mod publishing;
mod registration;
mod relaying;
mod rig;
mod serving;
mod staging;
#[path = "../../../tests/support/strace.rs"]
mod strace;
mod unaccepted;
mod unread_log;
#[path = "../../../tests/support/unserved.rs"]
mod unserved;
#[cfg(feature = "upstream")]
mod upstream;
