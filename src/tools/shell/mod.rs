//! `csi shell`: runs many commands in one session, typed or from a script.
//!
//! Owns the loop that reads and runs them, typed ones and those of scripts. What a line means is in `line`, what it does in
//! `execute`; the commands themselves are the program's own.

mod assertion;
mod builtins;
mod commands;
mod complete;
mod connections;
mod describe;
mod edit;
mod execute;
mod history;
mod known_ids;
pub mod line;
mod listing;
mod pipeline;
mod script;
mod settings;
mod values;
mod watch;

use crate::error::{Error, ErrorKind, OrError};
use crate::invocation::connect;
use crate::invocation::defaults::Defaults;
use crate::invocation::globals::Globals;
use crate::invocation::interrupt;
use crate::invocation::parse::{self, with_flags};
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
use std::sync::atomic::Ordering;

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
  csi shell --file ci.csi
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
    if patient.wait.is_some() {
        shell.wait(&patient)?;
    }
    if typed {
        return interact(shell);
    }
    let ended = match (&flags.file, &flags.command) {
        (Some(file), _) => script::file(&mut shell, file, flags.keep_going),
        (None, Some(text)) => script::lines(&mut shell, "-c", text.as_bytes(), flags.keep_going),
        (None, None) => script::lines(&mut shell, "stdin", io::stdin().lock(), flags.keep_going),
    };
    shell.settle();
    // Told here, in the words that the script has set.
    ended.map(drop).map_err(|error| {
        shell.report(&error);
        error.reported()
    })
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
    let at_prompt = interrupt::ends_while_set().or_because("signals cannot be watched")?;
    loop {
        let prompt = shell.borrow_mut().prompt();
        at_prompt.store(true, Ordering::Relaxed);
        let line = editor.readline(&prompt);
        at_prompt.store(false, Ordering::Relaxed);
        let text = match line {
            Ok(text) => text,
            Err(ReadlineError::Interrupted) => continue,
            Err(ReadlineError::Eof) => break,
            Err(error) => return Err(failed(error)),
        };
        let recalled = shell.borrow().history.recalled(&text);
        let text = match recalled {
            Ok(None) => text,
            Ok(Some(line)) => {
                eprintln!("{line}");
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
        match shell.run(&text) {
            Ok(Flow::Continue) => {}
            Ok(Flow::Leave) => break,
            Err(error) if error.kind() == ErrorKind::Interrupted => eprintln!("interrupted"),
            Err(error) => shell.report(&error),
        }
    }
    shell.borrow_mut().settle();
    Ok(())
}
