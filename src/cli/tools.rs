//! The table of the tools: the name, the command line and the function of each.

use super::{completion, man};
use crate::error::Error;
use crate::invocation::defaults::Defaults;
use crate::invocation::globals::Globals;
use crate::tools::{bench, lifecycle, proxy, replay, sanity, shell};
use clap::{ArgMatches, Command};

/// A command that is no RPC.
pub struct Tool {
    /// The tool's part of the tree.
    pub command: fn() -> Command,
    /// Runs it with the matches of that part.
    pub run: fn(&ArgMatches, &Globals, &Defaults) -> Result<(), Error>,
}

/// Every tool, in the order of the help.
pub static TOOLS: &[Tool] = &[
    Tool {
        command: lifecycle::command::command,
        run: lifecycle::command::run,
    },
    Tool {
        command: bench::command,
        run: bench::run,
    },
    Tool {
        command: sanity::command::command,
        run: sanity::command::run,
    },
    Tool {
        command: proxy::command::command,
        run: proxy::command::run,
    },
    Tool {
        command: replay::command::command,
        run: replay::command::run,
    },
    Tool {
        command: shell::command,
        run: shell::run,
    },
    Tool {
        command: completion::command,
        run: completion::run,
    },
    Tool {
        command: man::command,
        run: man::run,
    },
];
