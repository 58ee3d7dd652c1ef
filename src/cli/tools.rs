//! The table of the tools: the name, the command line and the function of each.

use super::{completion, man};
use crate::tools::{context, doctor, flex, lifecycle, mock, new, version, wait};
use clap::{ArgMatches, Command};
use csi_error::Error;
use csi_invocation::defaults::Defaults;
use csi_invocation::globals::Globals;
use csi_traffic::{proxy, replay, serve};
use {csi_bench as bench, csi_sanity as sanity, csi_shell as shell};

/// A command that is no RPC.
pub struct Tool {
    /// The tool's part of the tree.
    pub command: fn() -> Command,
    /// Runs it with the matches of that part.
    pub run: Run,
    /// Whether it may call a driver, and so needs to know the context.
    pub calls_a_driver: bool,
}

type Run = fn(&ArgMatches, &Globals, &Defaults) -> Result<(), Error>;

const fn tool(command: fn() -> Command, run: Run) -> Tool {
    Tool {
        command,
        run,
        calls_a_driver: true,
    }
}

const fn without_driver(command: fn() -> Command, run: Run) -> Tool {
    Tool {
        command,
        run,
        calls_a_driver: false,
    }
}

/// Every tool, in the order of the help.
pub static TOOLS: &[Tool] = &[
    tool(lifecycle::command::command, lifecycle::command::run),
    tool(bench::command, bench::run),
    tool(sanity::command::command, sanity::command::run),
    tool(proxy::command::command, proxy::command::run),
    tool(replay::command::command, replay::command::run),
    without_driver(serve::command::command, serve::command::run),
    without_driver(mock::command::command, mock::command::run),
    without_driver(flex::command::command, flex::command::run),
    without_driver(new::command::command, new::command::run),
    tool(shell::command, shell::run),
    tool(doctor::command, doctor::run),
    tool(wait::command, wait::run),
    tool(version::command, version::run),
    without_driver(context::command, context::run),
    without_driver(completion::command, completion::run),
    without_driver(man::command, man::run),
];
