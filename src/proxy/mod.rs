//! `csi proxy`: carrying connections between an orchestrator and a driver.

pub mod stdio;
