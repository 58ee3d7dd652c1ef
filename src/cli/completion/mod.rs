//! Completion in shells: the scripts that ask this program, and its answers.

pub mod answer;
pub mod script;

use clap::{ArgMatches, Args, Command};
use csi_error::{Error, OrError};
use csi_invocation::parse::{self, with_flags};
use csi_invocation::{Defaults, Globals};
use script::{CompletionShell, script};

#[derive(Args)]
struct CompletionFlags {
    /// The shell
    #[arg(value_enum)]
    shell: CompletionShell,
}

pub fn command() -> Command {
    Command::new("completions")
        .about("Print a completion script")
        .after_help("Example:\n  source <(csi completions bash)")
        .defer(with_flags::<CompletionFlags>)
}

/// Prints a script.
pub fn run(matches: &ArgMatches, _: &Globals, defaults: &Defaults) -> Result<(), Error> {
    let flags = parse::flags::<CompletionFlags>(matches)?;
    let script = script(flags.shell, defaults.name).or_because("the script cannot be made")?;
    csi_output::print(&script)
}
