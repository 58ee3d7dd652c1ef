//! Dispatches a parsed command line: calls an RPC, or runs a tool.

use super::tree::{self, PLUGIN, PodFlags, TOOLS};
use clap::{ArgMatches, FromArgMatches};
use csi_error::{Error, Style};
use csi_invocation::connect::with_driver;
use csi_invocation::rpc_command::Command;
use csi_invocation::watch::watch;
use csi_invocation::{Defaults, Globals, Program};
use csi_rpc::Called;

/// This program, as the shell runs its commands.
pub const PROGRAM: Program = Program {
    tree: || tree::command("csi"),
    run_tool,
};

/// Runs what the command line asks for; also returns how its errors are worded.
pub fn run(matches: &ArgMatches, name: &'static str) -> (Result<(), Error>, Style) {
    let defaults = Defaults::of(name, PROGRAM);
    let globals = match globals(matches, name) {
        Ok(globals) => globals,
        Err(error) => return (Err(Error::usage(error.to_string())), Style::Text),
    };
    let style = defaults.style(&globals);
    if globals.context.is_some() && defaults.is_csc() {
        return (Err(Error::usage("csc knows no contexts: csi does")), style);
    }
    let result = match csi_rpc::called(matches) {
        Some(called) => call(&called, globals, &defaults),
        None => run_tool(matches, &globals, &defaults),
    };
    (result, style)
}

fn globals(matches: &ArgMatches, name: &str) -> Result<Globals, clap::Error> {
    let mut globals = Globals::from_arg_matches(matches)?;
    if name == PLUGIN {
        PodFlags::from_arg_matches(matches)?.name_driver(&mut globals);
    }
    Ok(globals)
}

/// Runs the tool that the matches of a command line name.
///
/// # Errors
/// The tool's own; that there is none of that name.
pub fn run_tool(matches: &ArgMatches, globals: &Globals, defaults: &Defaults) -> Result<(), Error> {
    let named = matches.subcommand().and_then(|(name, matches)| {
        let tool = TOOLS
            .iter()
            .find(|tool| (tool.command)().get_name() == name)?;
        Some((tool, matches))
    });
    match named {
        Some((tool, matches)) => {
            let mut globals = globals.clone();
            if tool.calls_a_driver && !defaults.is_csc() {
                globals.choose_context()?;
            }
            (tool.run)(matches, &globals, defaults)
        }
        None => Err(Error::usage("no such command")),
    }
}

fn call(called: &Called<'_>, mut globals: Globals, defaults: &Defaults) -> Result<(), Error> {
    if !defaults.is_csc() {
        globals.choose_context()?;
    }
    let globals = &globals;
    let mut command = Command::new(called, globals, defaults)?;
    command.output.colour = csi_output::colour::is_wanted();
    command.output.terminal = csi_output::terminal::width();
    let out = csi_output::stdout();
    if command.dry_run {
        return command.dry_run(out);
    }
    with_driver(globals, defaults, async |driver| match command.watch {
        Some(pause) => watch(&command, driver, pause, out).await,
        None => command.send(driver, out, &mut |_| Ok(())).await,
    })
}
