//! Completion in shells: the scripts that ask this program, and its answers.

pub mod answer;
pub mod script;

use crate::error::{Error, OrError};
use crate::invocation::defaults::Defaults;
use crate::invocation::globals::Globals;
use crate::invocation::parse::{self, with_flags};
use crate::output;
use clap::{ArgMatches, Args, Command};
use script::{CompletionShell, script};

#[derive(Args)]
struct CompletionFlags {
    /// The shell
    #[arg(value_enum)]
    shell: CompletionShell,
}

/// The command.
pub fn command() -> Command {
    Command::new("completions")
        .about("Print a completion script")
        .after_help("Example:\n  source <(csi completions bash)")
        .defer(with_flags::<CompletionFlags>)
}

/// Prints a script.
///
/// # Errors
/// When stdout cannot be written.
pub fn run(matches: &ArgMatches, _: &Globals, defaults: &Defaults) -> Result<(), Error> {
    let flags = parse::flags::<CompletionFlags>(matches)?;
    let script = script(flags.shell, defaults.name).or_because("the script cannot be made")?;
    output::print(&script)
}
