//! The command line: the tree of commands, made from the RPC declarations and the tools, and the dispatch of a parsed
//! line.
//!
//! Nobody imports it but the program's entry.

mod completion;
mod dispatch;
mod man;
#[cfg(test)]
mod shipped_files;
#[cfg(test)]
#[cfg(feature = "embedded")]
mod surface;
mod tree;
#[cfg(test)]
mod whole_tree;

pub use completion::answer::answer;
#[cfg(test)]
use dispatch::PROGRAM;
pub use dispatch::run;
pub use tree::{PLUGIN, command, command_of_one_rpc};
