//! `csi` as a library: the whole program behind [`main`], so that tests of drivers can use its parts in their own process.
//!
//! Owns the order parse, run, exit code. Must not know what any command does.

mod arguments;
mod call;
mod cli;
mod error;
mod invocation;
mod output;
mod recording;
mod rpc;
mod tools;
mod undo;

pub use tools::sanity;

use error::{Error, Style};
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
    let tree = invocation::help::for_columns(cli::command(name), output::terminal::width());
    let matches = match invocation::parse::parse(tree, &arguments) {
        Ok(matches) => matches,
        Err(error) => return usage(&error, name, &arguments),
    };
    let (result, style) = cli::run(&matches, name);
    output::notes::flush();
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            report(&error, style);
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
fn usage(error: &clap::Error, name: &str, arguments: &[std::ffi::OsString]) -> ExitCode {
    if !error.use_stderr() {
        let style = Style::Text;
        let mut help = error.render().to_string();
        if let Some(columns) = output::terminal::width() {
            help = invocation::help::fitted(&help, columns);
        }
        return match output::print(help.as_bytes()) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                report(&error, style);
                error.exit_code(style)
            }
        };
    }
    let style = match name {
        "csc" => Style::Csc,
        _ if wants_json(arguments) => Style::Json,
        _ => Style::Text,
    };
    let text = error.to_string();
    let wrapped = match (style, error.kind()) {
        // Not the help, which csc's pointer leads to.
        (Style::Csc, clap::error::ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand) => {
            Error::usage("a command is missing")
        }
        (Style::Csc, _) => Error::unparsed(&text),
        _ => Error::usage(text.trim_start_matches("error: ").trim_end()),
    };
    match style {
        Style::Json | Style::Csc => report(&wrapped, style),
        // clap's own words, with its colours and its usage line; when stderr is gone there is nobody to tell.
        Style::Text => {
            let _ = error.print();
        }
    }
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

fn report(error: &Error, style: Style) {
    if !error.is_reported() {
        // When stderr is gone too, the exit code is all that is left.
        let text = output::colour::of_error(error, style);
        let _ = std::io::stderr().write_all(text.as_bytes());
    }
}
