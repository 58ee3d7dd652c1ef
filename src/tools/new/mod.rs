//! `csi new`: begins a project. `csi new driver` writes a CSI driver in Rust that builds at once and passes `csi sanity`.
//!
//! Owns the command, the checks of names, and the files of `template/`, which is a project of its own: it is compiled as what
//! it has become, never as a part of this one. Calls no driver.

pub mod command;
mod folder;
mod names;
mod services;
mod template;
