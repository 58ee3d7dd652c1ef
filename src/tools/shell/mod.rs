//! `csi shell`: runs many commands in one session, typed or from a script.
//!
//! Owns the loop that reads and runs them, typed ones and those of scripts. What a line means is in `line`, what it does in
//! `execute`; the commands themselves are the program's own.

mod assertion;
mod builtins;
mod columns;
mod commands;
mod complete;
mod connections;
mod deferred;
mod describe;
mod edit;
mod ending;
mod execute;
mod help;
mod history;
mod known_ids;
pub mod line;
mod listing;
mod pipeline;
mod script;
mod settings;
mod statement;
mod value_path;
mod values;
mod watch;

use crate::error::{Error, ErrorKind};
use crate::invocation::connect;
use crate::invocation::defaults::Defaults;
use crate::invocation::globals::Globals;
use crate::invocation::parse::{self, with_flags};
use crate::output::terminal::columns_of;
use crate::say::say;
use clap::{ArgMatches, Args, Command};
use complete::Assistant;
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
  csi shell --file ci.csi --var size=10Gi pvc-1
  csi -e embedded: shell -c 'identity probe; controller list-volumes'"
)]
pub struct ShellFlags {
    /// Run the lines of this file
    #[arg(long, value_name = "FILE", conflicts_with = "command")]
    file: Option<PathBuf>,
    /// Run these lines; a ; ends each but the last
    #[arg(short, long, value_name = "LINES")]
    command: Option<String>,
    /// Go on after a failure, and exit with the first one's code
    #[arg(long)]
    keep_going: bool,
    /// Set a variable before the first line: $NAME is VALUE
    #[arg(long = "var", value_name = "NAME=VALUE", value_parser = variable)]
    variables: Vec<(String, String)>,
    /// What the script knows as $1, $2 …
    #[arg(value_name = "ARGUMENT")]
    arguments: Vec<String>,
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
        return Err(Error::usage(parse::NOT_IN_A_SHELL));
    }
    let flags = parse::flags::<ShellFlags>(matches)?;
    let mut globals = globals.clone();
    if globals.endpoint.is_none() {
        globals.endpoint = std::env::var("CSI_ENDPOINT").ok();
    }
    let typed = flags.file.is_none() && flags.command.is_none() && io::stdin().is_terminal();
    if let (true, Some(argument)) = (typed, flags.arguments.first()) {
        return Err(Error::usage(format!(
            "{argument:?} is an argument, and there is no script: write csi shell --file FILE [ARGUMENT…]"
        )));
    }
    // In the namespace everyone is root, whose home this would be.
    let history = match typed {
        true => History::load(),
        false => History::default(),
    };
    // Before any thread starts.
    if globals
        .endpoint
        .as_deref()
        .is_some_and(|text| !text.is_empty())
    {
        connect::private_mounts(&connect::endpoint(&globals)?, defaults)?;
    }
    // Waiting is for the start: no line waits again.
    let patient = globals.clone();
    globals.wait = None;
    let mut shell = Shell::new(defaults.program, globals, history, typed)?;
    for (name, value) in flags.variables {
        shell.values.set(&name, Variable::Text(value));
    }
    shell.values.set_arguments(flags.arguments);
    if patient.wait.is_some() {
        shell.wait(&patient)?;
    }
    if typed {
        return interact(shell);
    }
    let ended = match (&flags.file, &flags.command) {
        (Some(file), _) => script::file(&mut shell, file, flags.keep_going),
        (None, Some(text)) => script::text(&mut shell, text, flags.keep_going),
        (None, None) => script::stdin(&mut shell, flags.keep_going),
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
        text.push_str(&editor.readline(&prompt)?);
        if !line::goes_on(&text) {
            return Ok(text);
        }
        text.push('\n');
        prompt = format!("{:>width$}", "...> ", width = columns_of(&prompt));
    }
}

fn interact(shell: Shell) -> Result<(), Error> {
    let failed = |error: ReadlineError| Error::because("the terminal cannot be used", &error);
    let shell = Rc::new(RefCell::new(shell));
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
    editor.set_helper(Some(Assistant::new(Rc::clone(&shell))));
    for line in shell.borrow().history.lines() {
        editor.history_mut().add(line).map_err(failed)?;
    }
    let ending = shell.borrow().ending.clone();
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
        let mut shell = shell.borrow_mut();
        let ran = shell.run(&text);
        let_go();
        match ran {
            Ok(Flow::Continue) => {}
            Ok(Flow::Leave) => break Ok(()),
            Err(error) if error.kind() == ErrorKind::Interrupted => say!("interrupted"),
            Err(error) => shell.report(&error),
        }
    };
    let_go();
    let mut shell = shell.borrow_mut();
    let deferred = shell.run_deferred();
    shell.settle();
    left.and(deferred)
}
