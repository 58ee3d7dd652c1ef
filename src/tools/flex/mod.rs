//! `csi flex serve`: serves a FlexVolume executable as a CSI driver.
//!
//! `services.rs` lists the RPCs. A call is decided first (`plan.rs`, `options.rs`, `answer.rs`: pure), then carried out by
//! call-outs, one at a time for a volume (`driver.rs`, `call_out.rs`). What is attached, staged and published stands in a
//! folder (`state.rs`), since FlexVolume's unmount gets no more than a path.

mod answer;
mod call_out;
pub mod command;
mod controller;
mod driver;
mod error;
mod node;
mod options;
mod orphans;
mod paths;
mod plan;
mod request;
mod services;
mod state;
mod taken;
