//! `csi` as a library: the whole program behind [`main`], so that tests of drivers can use its parts in their own process.
//!
//! Owns the order parse, run, exit code. Must not know what any command does.

mod cli;
#[cfg(test)]
#[path = "../tests/support/corpus.rs"]
mod corpus;
mod tools;

pub use csi_sanity as sanity;

use csi_error::{Error, Style};
use csi_invocation::help::{self, HelpPages};
use csi_output::colour;
use csi_sys::waits;
use std::io::Write;
use std::process::ExitCode;

/// Runs the program with this process's arguments; returns its exit code.
pub fn main() -> ExitCode {
    // The embedded driver mounts in a child that is this program again.
    #[cfg(feature = "embedded")]
    if let Some(code) = csi_nfs::mount::helper::run_if_child() {
        return code;
    }
    let arguments: Vec<_> = std::env::args_os().collect();
    let name = called_as(arguments.first());
    if cli::answer(&arguments, name) {
        return ExitCode::SUCCESS;
    }
    // What is wrong with a line is said by the whole tree.
    let one = cli::command_of_one_rpc(name, &arguments)
        .and_then(|tree| tree.try_get_matches_from(&arguments).ok());
    let parsed = one.map_or_else(
        || csi_invocation::parse::parse(cli::command(name), &arguments),
        Ok,
    );
    let matches = match parsed {
        Ok(matches) => matches,
        Err(error) => return usage(&error, name, &arguments),
    };
    let (result, style) = cli::run(&matches, name);
    ended(result, style)
}

/// The end of the program. Where all went well and not all was shown, since nobody reads stdout any more, its exit code alone
/// says so.
fn ended(result: Result<(), Error>, style: Style) -> ExitCode {
    csi_error::say::flush();
    let result = match result {
        Err(_) if waits::were_cut_short() => Err(Error::interrupted()),
        Ok(()) if csi_output::stdout::reader_is_gone() => Err(Error::unread()),
        result => result,
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            colour::report(&error, style);
            error.exit_code(style)
        }
    }
}

/// Called by another name, for example through a symlink, it is what that name promises.
fn called_as(program: Option<&std::ffi::OsString>) -> &'static str {
    let path = program.map(std::path::Path::new);
    match path
        .and_then(|path| path.file_name())
        .and_then(|name| name.to_str())
    {
        Some("csc") => "csc",
        Some(cli::PLUGIN) => cli::PLUGIN,
        _ => "csi",
    }
}

/// Help and version go to stdout and are a success; everything else is an error of usage.
fn usage(error: &clap::Error, name: &'static str, arguments: &[std::ffi::OsString]) -> ExitCode {
    let asked = || {
        let pages = HelpPages::new(cli::command(name), help::columns());
        pages.answer(arguments).unwrap_or_default()
    };
    if !error.use_stderr() {
        return ended(csi_output::print(asked().as_bytes()), Style::Text);
    }
    let style = match Style::of_program(name) {
        Style::Text if wants_json(arguments) => Style::Json,
        style => style,
    };
    let text = error.to_string();
    let is_help = error.kind() == clap::error::ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand;
    let wrapped = match style {
        // Not the help, which csc's pointer leads to.
        Style::Csc if is_help => Error::usage("a command is missing"),
        Style::Csc | Style::Json => Error::unparsed(&text),
        Style::Text => Error::usage(text.trim_start_matches("error: ").trim_end()),
    };
    let message = match (style, csi_output::terminal::width_of_errors()) {
        (Style::Json | Style::Csc, _) => {
            colour::report(&wrapped, style);
            return wrapped.exit_code(style);
        }
        // clap's own words, with its usage line.
        (Style::Text, _) if is_help => asked(),
        (Style::Text, Some(columns)) => help::fitted(&text, columns),
        (Style::Text, None) => text,
    };
    // When stderr is gone there is nobody to tell.
    let _ = std::io::stderr().write_all(message.as_bytes());
    wrapped.exit_code(style)
}

/// Whether a command line that could not be parsed asks for JSON.
fn wants_json(arguments: &[std::ffi::OsString]) -> bool {
    let words: Vec<_> = arguments
        .iter()
        .map(|word| word.to_string_lossy())
        .collect();
    let flag = |word: &str| {
        matches!(
            word,
            "-ojson" | "-ojsonl" | "-o=json" | "-o=jsonl" | "--output=json" | "--output=jsonl"
        )
    };
    words.iter().any(|word| flag(word))
        || words.windows(2).any(|pair| {
            matches!(&*pair[0], "-o" | "--output") && matches!(&*pair[1], "json" | "jsonl")
        })
}
