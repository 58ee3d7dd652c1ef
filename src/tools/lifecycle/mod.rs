//! `csi lifecycle`: does with a volume what a container orchestrator does, in its order and by the driver's
//! capabilities, and undoes everything in reverse, also after a failure or Ctrl-C.
//!
//! `calls.rs` owns the state of a lifecycle and makes its calls, `run.rs` the order of the steps; what to ask first is in
//! `ask.rs`, the steps of every volume are in `volume.rs`, which others there are is decided in `plan.rs` and done in
//! `further.rs`; data in `data.rs`, `work.rs` and `writer.rs`, the way down in `way_down.rs`.
//! Printing steps is `output::steps`, taking back what was made is `undo`.

mod ask;
mod calls;
pub mod command;
mod data;
mod flags;
mod further;
mod plan;
mod run;
mod volume;
mod way_down;
mod work;
mod writer;
