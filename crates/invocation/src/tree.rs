//! The tree of commands as far as it is the same for every program: the RPCs, and the flags that every command takes.
//!
//! Must not know any tool.

use super::globals::Globals;
use super::help::help_all;
use clap::{Args as _, Command};
use csi_rpc::{GROUPS, Group};

/// Adds the flags of every command.
pub fn with_global_flags(root: Command) -> Command {
    Globals::augment_args(root.arg(help_all()))
}

/// Adds the commands of all RPCs.
pub fn with_rpcs(root: Command) -> Command {
    root.subcommands(GROUPS.iter().map(Group::command))
}
