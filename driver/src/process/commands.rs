//! Runs the commands of `csi-nfs` besides serving, which are words in the place of its first argument: the agent on a server, and
//! small things that a container with no other program needs. Owns their command lines.

use crate::agent::take_in::{self, TakeIn};
use crate::agent::{self, flags::AgentFlags};
use crate::process::config::{ConfigError, Endpoint};
use crate::process::http::{self, HttpAddress};
use crate::process::log;
use crate::process::relay::relay;
use crate::process::server::Ended;
use clap::error::ErrorKind;
use clap::{CommandFactory, Parser, Subcommand};
use std::io::{self, Write};
use std::process::ExitCode;

#[derive(Debug, Parser)]
#[command(name = "csi-nfs", disable_help_subcommand = true)]
struct CommandLine {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Work on the NFS server itself for the controllers elsewhere: make copies with its disks, by reflink where the file
    /// system can; purge; and enforce the sizes of volumes (--quotas)
    ///
    /// It finds its work on the shares and needs neither a port nor a socket. Run it as root on the server that exports
    /// them; it keeps the rights that it needs for files, and gives up all others.
    Agent(AgentFlags),
    /// Hold volumes that exist to their sizes from now on: put the folder of each into a project of its own (a dry run, unless
    /// told otherwise)
    ///
    /// It runs on the server, as the agent does, and needs an agent with --quotas from then on to expand them. Symlinks, FIFOs and
    /// files with names outside of the volume are named: they stay as they are, and some cannot be renamed any more.
    TakeIn(TakeIn),
    /// Carry a connection between standard input and output and a driver's socket, for csi -e pod:NAMESPACE/POD
    Relay {
        /// The driver's socket
        #[arg(env = "CSI_ENDPOINT")]
        socket: Endpoint,
    },
    /// Ask a driver for /healthz, /readyz or /metrics, and end with 0 when it says yes: for probes
    Get {
        /// What --http of the driver names
        address: HttpAddress,
        /// The path, such as /readyz
        path: String,
    },
}

/// Does what the first argument names. Nothing where it names none of this.
pub fn run_if_named() -> Option<ExitCode> {
    let word = std::env::args_os().nth(1)?;
    CommandLine::command().find_subcommand(word)?;
    let done = match CommandLine::parse().command {
        Command::Agent(flags) => {
            let shares = match flags.shares() {
                Ok(shares) => shares,
                Err(problem) => return Some(unusable(problem)),
            };
            let ended = agent::run(&flags, &shares).map(|ended| ended == Ended::Drained);
            ended.map_err(|error| format!("agent: {error}"))
        }
        Command::TakeIn(command) => {
            let share = match command.share() {
                Ok(share) => share,
                Err(problem) => return Some(unusable(problem)),
            };
            take_in::run(&command, &share).map_err(|error| format!("take-in: {error}"))
        }
        Command::Relay { socket } => match &socket {
            Endpoint::Unix(path) => match relay(path) {
                Ok(()) => Ok(true),
                Err(error) => Err(format!("relay: {}: {error}", path.display())),
            },
            Endpoint::Tcp(_) => Err(format!("relay: {socket} is no socket: give its path")),
        },
        Command::Get { address, path } => match http::get(&address, &path) {
            // Who does not read the answer may still want the exit code.
            Ok((success, text)) => {
                let _ = io::stdout().write_all(text.as_bytes());
                Ok(success)
            }
            Err(error) => Err(format!("get: {address}: {error}")),
        },
    };
    let code = match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(problem) => {
            log::tell(&format!("csi-nfs {problem}"));
            ExitCode::FAILURE
        }
    };
    log::flush();
    Some(code)
}

/// Says what is wrong with a flag as of every other one that cannot be used: with the usage, and 2.
fn unusable(problem: ConfigError) -> ExitCode {
    let kind = ErrorKind::ValueValidation;
    let _ = CommandLine::command().error(kind, problem).print();
    ExitCode::from(2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_commands_are_well_formed() {
        CommandLine::command().debug_assert();
    }
}
