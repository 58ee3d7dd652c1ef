//! `csi serve`: answers calls as a recording says that a driver has answered them.

mod answers;
pub mod command;
mod differences;
