//! Runs the shell's own commands.

use super::builtins::{Builtin, Switch};
use super::execute::{Flow, Shell};
use super::line::is_name;
use super::{assertion, describe, edit, listing, script, watch};
use crate::error::{CODE_NAMES, Error, ErrorKind, OrError, Style, code_name};
use crate::invocation::globals::Globals;
use crate::output;
use std::time::Duration;

/// How deep scripts may run scripts, so that one that runs itself ends.
const MAX_DEPTH: usize = 16;

impl Shell {
    /// Runs it.
    ///
    /// # Errors
    /// Its failure.
    pub(super) fn builtin(&mut self, builtin: Builtin) -> Result<Flow, Error> {
        match builtin {
            Builtin::Exit => return Ok(Flow::Leave),
            Builtin::Set { name: None, .. } => output::print(self.settings.listing().as_bytes())?,
            Builtin::Set {
                name: Some(name),
                value,
            } => {
                let value = value.join(" ");
                let set = self.settings.set(&name, &value);
                set.or_usage()?;
            }
            Builtin::Unset { name } => self.unset(&name)?,
            Builtin::Connect { endpoint } => self.connect(&endpoint.join(" "))?,
            Builtin::Vars => output::print(listing::variables(&self.values).as_bytes())?,
            Builtin::History => output::print(self.history.listing().as_bytes())?,
            Builtin::Timing { state } => {
                self.timing = state.map_or(!self.timing, |state| state == Switch::On);
                let state = if self.timing { "on" } else { "off" };
                eprintln!("timing is {state}");
            }
            Builtin::Watch { seconds, command } => {
                watch::run(self, &command.words(), Duration::from_secs_f64(seconds))?;
            }
            Builtin::Repeat { count, command } => {
                let words = command.words();
                for _ in 0..count {
                    if self.command(words.clone())? == Flow::Leave {
                        return Ok(Flow::Leave);
                    }
                }
            }
            Builtin::Expect { code, command } => self.expect(&code, command.words())?,
            Builtin::Assert { expression } => assertion::check(&expression)?,
            Builtin::Desc { name } => output::print(describe::describe(&name)?.as_bytes())?,
            Builtin::Edit { rpc } => {
                let mut edited = edit::edit(&rpc)?;
                let Some(words) = edited.words() else {
                    eprintln!("note: nothing was changed, so nothing is sent");
                    return Ok(Flow::Continue);
                };
                let sent = self.command(words);
                if matches!(&sent, Err(error) if error.kind() == ErrorKind::Usage) {
                    let kept = edited.keep();
                    return sent.map_err(|error| {
                        error.hint(format!(
                            "what was written is kept: mend it and send it with --request {kept}"
                        ))
                    });
                }
                return sent;
            }
            Builtin::Source { file } => {
                if self.depth >= MAX_DEPTH {
                    let message = format!("{} runs itself", file.display());
                    return Err(Error::usage(message));
                }
                self.depth += 1;
                let ended = script::file(self, &file, false);
                self.depth -= 1;
                return ended;
            }
        }
        Ok(Flow::Continue)
    }

    fn unset(&mut self, name: &str) -> Result<(), Error> {
        let plain = name.trim_start_matches('$');
        match self.settings.unset(name) {
            Ok(()) => Ok(()),
            Err(_) if is_name(plain) && self.values.remove(plain) => Ok(()),
            Err(error) => Err(Error::usage(format!(
                "{error}; and no variable of that name"
            ))),
        }
    }

    /// Waits for the driver as `--wait` says.
    ///
    /// # Errors
    /// When it is not ready in time.
    pub fn wait(&mut self, globals: &Globals) -> Result<(), Error> {
        let connections = self.connections.clone();
        self.until_interrupted(async move { connections.get(globals).await.map(drop) })
    }

    /// Another driver from now on, if it can be reached.
    fn connect(&mut self, endpoint: &str) -> Result<(), Error> {
        let mut globals = self.settings.globals_of_shell();
        globals.endpoint = Some(endpoint.to_owned());
        let connections = self.connections.clone();
        self.until_interrupted(async move { connections.get(&globals).await.map(drop) })?;
        let set = self.settings.set("endpoint", endpoint);
        set.or_usage()
    }

    fn expect(&mut self, code: &str, command: Vec<String>) -> Result<(), Error> {
        let wanted = code.to_uppercase();
        let known = CODE_NAMES
            .iter()
            .copied()
            .chain(["USAGE", "LOCAL", "FAILED"]);
        if !known.clone().any(|name| name == wanted) {
            let names: Vec<&str> = known.collect();
            return Err(Error::usage(format!(
                "{code:?} is no code; the codes are {}",
                names.join(", ")
            )));
        }
        let result = self.command(command);
        let got = match &result {
            Ok(_) => "OK",
            Err(error) => match error.kind() {
                ErrorKind::Rpc(code) => code_name(code),
                ErrorKind::Usage => "USAGE",
                ErrorKind::Local => "LOCAL",
                ErrorKind::Failed => "FAILED",
                ErrorKind::Interrupted => return Err(Error::interrupted()),
            },
        };
        if got == wanted {
            return Ok(());
        }
        let message = format!("expected {wanted}, got {got}");
        Err(match result {
            Err(error) => Error::because(message, &Said(error.render(Style::Text))),
            Ok(_) => Error::local(message),
        })
    }
}

/// An error's own text as a cause of another.
#[derive(Debug, thiserror::Error)]
#[error("{}", .0.trim_end().trim_start_matches("error: "))]
struct Said(String);
