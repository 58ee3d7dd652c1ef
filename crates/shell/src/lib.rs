//! `csi shell`: runs many commands in one session, typed or from a script.
//!
//! Owns the loop that reads and runs them, typed ones and those of scripts. What a line means is in `line`, what it does in
//! `execute`; the commands themselves are the program's own.

mod assertion;
#[doc(hidden)]
pub mod builtins;
mod columns;
mod commands;
mod complete;
mod connections;
mod deferred;
mod describe;
mod edit;
mod ending;
mod execute;
#[doc(hidden)]
pub mod help;
mod history;
mod known_ids;
pub mod line;
mod pipeline;
mod psql;
mod script;
mod settings;
#[doc(hidden)]
pub mod statement;
mod value_path;
mod values;
mod watch;

use clap::{ArgMatches, Args, Command};
use complete::Assistant;
use csi_error::{Error, ErrorKind, say};
use csi_invocation::parse::{self, with_flags};
use csi_invocation::{Defaults, Globals, connect};
#[cfg(test)]
use csi_invocation::{Program, globals::with_global_flags, parse::with_rpcs};
use csi_output::terminal::columns_of;
use execute::{Flow, Shell};
use history::History;
use rustyline::config::{Behavior, BellStyle, CompletionType};
use rustyline::error::ReadlineError;
use rustyline::history::{History as _, MemHistory};
use rustyline::{Config, Editor};
use std::cell::RefCell;
use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::rc::Rc;
use values::{ENVIRONMENT, Variable};

/// The command.
pub fn command() -> Command {
    Command::new("shell")
        .about("Type commands one after the other, with completion of the driver's own ids")
        .defer(with_flags::<ShellFlags>)
}

/// The flags of `csi shell`.
#[derive(Args, Debug)]
#[command(
    after_help = "Without a terminal the lines come from stdin. A script stops at its first failure, with that failure's exit code.

Examples:
  csi -e unix:///csi/csi.sock shell
  csi shell ci.csi --var size=10Gi pvc-1
  csi -e embedded: shell -c 'identity probe; controller list-volumes'"
)]
pub(crate) struct ShellFlags {
    /// Run the lines of this file, and take all words for arguments
    #[arg(long, value_name = "FILE", conflicts_with = "command")]
    file: Option<PathBuf>,
    /// Run these lines, a ; ends each but the last; words are the script's arguments
    #[arg(short, long, value_name = "LINES")]
    command: Option<String>,
    /// Run the lines of standard input; words are the script's arguments
    #[arg(short, long, conflicts_with_all = ["file", "command"])]
    stdin: bool,
    /// Go on after a failure, and exit with the first one's code
    #[arg(long)]
    keep_going: bool,
    /// Set a variable before the first line: $NAME is VALUE
    #[arg(long = "var", value_name = "NAME=VALUE", value_parser = variable)]
    variables: Vec<(String, String)>,
    /// Run the lines of this file; - is standard input
    #[arg(value_name = "FILE")]
    script: Option<PathBuf>,
    /// What the script knows as $1, $2 …
    #[arg(value_name = "ARGUMENT")]
    arguments: Vec<String>,
}

/// Where lines come from.
#[derive(Debug, PartialEq)]
enum Lines {
    File(PathBuf),
    Text(String),
    Stdin,
    Typed,
}

impl ShellFlags {
    /// Where the lines come from, and the script's arguments, as sh understands them.
    fn lines(self, on_terminal: bool) -> (Lines, Vec<String>) {
        let elsewhere = match (self.file, self.command) {
            (Some(file), _) => Some(Lines::File(file)),
            (None, Some(text)) => Some(Lines::Text(text)),
            (None, None) => self.stdin.then_some(Lines::Stdin),
        };
        match (elsewhere, self.script) {
            (Some(lines), script) => {
                let first = script.map(|word| word.to_string_lossy().into_owned());
                (lines, first.into_iter().chain(self.arguments).collect())
            }
            (None, Some(script)) if script.as_os_str() == "-" => (Lines::Stdin, self.arguments),
            (None, Some(script)) => (Lines::File(script), self.arguments),
            (None, None) if on_terminal => (Lines::Typed, self.arguments),
            (None, None) => (Lines::Stdin, self.arguments),
        }
    }
}

fn variable(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if line::is_name(name) && name != ENVIRONMENT => {
            Ok((name.to_owned(), value.to_owned()))
        }
        _ => Err("write NAME=VALUE, with a name of letters, digits and _".to_owned()),
    }
}

/// Runs the lines of a script, or those that are typed.
///
/// # Errors
/// The first failure of a script; of what is typed only a terminal that cannot be used.
pub fn run(matches: &ArgMatches, globals: &Globals, defaults: &Defaults) -> Result<(), Error> {
    if defaults.in_shell {
        return Err(Error::usage(parse::NOT_IN_A_SHELL).hint("source FILE runs a script here"));
    }
    let flags = parse::flags::<ShellFlags>(matches)?;
    let mut globals = globals.clone();
    globals.endpoint = connect::named(&globals);
    let (keep_going, variables) = (flags.keep_going, flags.variables.clone());
    let (lines, arguments) = flags.lines(io::stdin().is_terminal());
    let typed = lines == Lines::Typed;
    // In the namespace everyone is root, whose home this would be.
    let history = match typed {
        true => History::load(),
        false => History::default(),
    };
    // Before any thread starts.
    if globals.endpoint.is_some() {
        connect::private_mounts(&connect::endpoint(&globals)?, defaults)?;
    }
    // Waiting is for the start: no line waits again.
    let patient = globals.clone();
    globals.wait = None;
    let mut shell = Shell::new(defaults.program, globals, history, typed)?;
    for (name, value) in variables {
        shell.values.set(&name, Variable::Text(value));
    }
    shell.values.set_arguments(arguments);
    if patient.wait.is_some() {
        shell.wait(&patient)?;
    }
    let ended = match lines {
        Lines::Typed => return interact(shell),
        Lines::File(file) => {
            script::file(&mut shell, &file, keep_going).map_err(|error| match file.exists() {
                true => error,
                false => error.hint(
                    "lines follow -c, and arguments of what stdin says -s: csi shell -c 'identity probe', csi shell -s ARGUMENT",
                ),
            })
        }
        Lines::Text(text) => script::text(&mut shell, &text, keep_going),
        Lines::Stdin => script::stdin(&mut shell, keep_going),
    };
    // Told here, in the words that the script has set, and before what was deferred says more.
    let ended = ended.map(drop).map_err(|error| {
        shell.report(&error);
        error.reported()
    });
    let deferred = shell.run_deferred();
    shell.settle();
    ended.and(deferred)
}

/// A line, with those in which it goes on.
fn read(
    editor: &mut Editor<Assistant, MemHistory>,
    shell: &Rc<RefCell<Shell>>,
) -> Result<String, ReadlineError> {
    let mut prompt = shell.borrow_mut().prompt();
    let mut text = String::new();
    loop {
        if let Some(assistant) = editor.helper_mut() {
            assistant.goes_on_from(&text);
        }
        match editor.readline(&prompt) {
            // As in other shells it leaves what is begun first.
            Err(ReadlineError::Eof) if !text.is_empty() => return Err(ReadlineError::Interrupted),
            line => text.push_str(&line?),
        }
        if line::open(&text).is_none() {
            return Ok(text);
        }
        text.push('\n');
        prompt = format!("{:>width$}", "...> ", width = columns_of(&prompt));
    }
}

fn failed(error: ReadlineError) -> Error {
    Error::because("the terminal cannot be used", &error)
}

/// A line editor that knows what was typed before. It keeps what is typed ahead.
fn editor(shell: &Rc<RefCell<Shell>>) -> Result<Editor<Assistant, MemHistory>, Error> {
    let config = Config::builder()
        .completion_type(CompletionType::List)
        .bell_style(BellStyle::None)
        .history_ignore_dups(true)
        .map_err(failed)?
        // Stdout is for data.
        .behavior(Behavior::PreferTerm)
        .build();
    let mut editor: Editor<Assistant, MemHistory> =
        Editor::with_history(config, MemHistory::new()).map_err(failed)?;
    editor.set_helper(Some(Assistant::new(Rc::clone(shell))));
    for line in shell.borrow().history.lines() {
        editor.history_mut().add(line).map_err(failed)?;
    }
    Ok(editor)
}

fn interact(shell: Shell) -> Result<(), Error> {
    let shell = Rc::new(RefCell::new(shell));
    let mut editor = self::editor(&shell)?;
    let ending = shell.borrow().interrupts.ending();
    let is_ending = || {
        ending
            .as_ref()
            .is_some_and(|ending| ending.until().is_some())
    };
    // What is shown must not fail where nobody is left who sees it.
    let let_go = || {
        if let Some(ending) = &ending {
            ending.let_go_of_lost_terminal();
        }
    };
    let left = loop {
        if is_ending() {
            break Err(Error::interrupted());
        }
        let line = match &ending {
            Some(ending) => ending.reading(|| read(&mut editor, &shell)),
            None => read(&mut editor, &shell),
        };
        let text = match line {
            Ok(text) => text,
            Err(ReadlineError::Interrupted) => continue,
            // In the background nothing can be read any more.
            Err(_) if is_ending() => continue,
            Err(ReadlineError::Eof) => break Ok(()),
            Err(error) => break Err(failed(error)),
        };
        let recalled = shell.borrow().history.recalled(&text);
        let text = match recalled {
            Ok(None) => text,
            Ok(Some(line)) => {
                say!("{line}");
                line
            }
            Err(message) => {
                shell.borrow().report(&Error::usage(message));
                continue;
            }
        };
        if shell.borrow_mut().history.add(&text) {
            editor.history_mut().add(&text).map_err(failed)?;
        }
        let ran = shell.borrow_mut().run(&text);
        let_go();
        let ended = shell.borrow_mut().end_line();
        match ended.and(ran) {
            Ok(Flow::Continue) => {}
            Ok(Flow::Leave) => break Ok(()),
            Err(error) if error.kind() == ErrorKind::Interrupted => {
                say!("interrupted");
                // Another one has nothing of what was typed ahead.
                editor = self::editor(&shell)?;
            }
            Err(error) => shell.borrow().report(&error),
        }
    };
    let_go();
    let mut shell = shell.borrow_mut();
    let deferred = shell.run_deferred();
    shell.settle();
    left.and(deferred)
}

/// The program of the tests: the RPCs, and of the tools those that the shell knows by name.
#[cfg(test)]
const PROGRAM: Program = Program {
    tree: || {
        let context = Command::new("context").subcommand(Command::new("list"));
        let tools = [Command::new("shell"), Command::new("proxy"), context];
        with_rpcs(with_global_flags(Command::new("csi")).subcommands(tools))
    },
    run_tool: |_, _, _| Ok(()),
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_a_script_and_its_arguments_unless_the_lines_come_from_elsewhere() {
        let file = |name: &str| Lines::File(name.into());
        for (line, lines, arguments) in [
            ("", Lines::Typed, ""),
            ("a.csi", file("a.csi"), ""),
            ("a.csi b c", file("a.csi"), "b c"),
            ("--file a.csi b c", file("a.csi"), "b c"),
            ("-c lines b c", Lines::Text("lines".to_owned()), "b c"),
            ("-s", Lines::Stdin, ""),
            ("-s b c", Lines::Stdin, "b c"),
            ("- b c", Lines::Stdin, "b c"),
        ] {
            let words = ["shell"].into_iter().chain(line.split_whitespace());
            let matches = with_flags::<ShellFlags>(Command::new("shell")).get_matches_from(words);
            let flags = parse::flags::<ShellFlags>(&matches).unwrap();
            let arguments: Vec<String> = arguments.split_whitespace().map(str::to_owned).collect();
            assert_eq!(flags.lines(true), (lines, arguments), "{line}");
        }
        let none = with_flags::<ShellFlags>(Command::new("shell")).get_matches_from(["shell"]);
        let flags = parse::flags::<ShellFlags>(&none).unwrap();
        assert_eq!(flags.lines(false).0, Lines::Stdin);
    }
}
