//! Runs the shell's own commands.

use super::builtins::{Builtin, Switch};
use super::execute::{Flow, Shell};
use super::line::is_name;
use super::values::Variable;
use super::{assertion, describe, script, value_path, watch};
use csi_error::{Error, ErrorKind, OrError, code_name, say};
use csi_invocation::Globals;
use csi_output::documents::Documents;
use csi_output::jsonpath::Shape;
use csi_proto::codes::NAMES as CODE_NAMES;
use csi_proto::escaped;
use csi_proto::value::Value;
use std::path::Path;
use std::time::Duration;

/// How deep scripts may run scripts, so that one that runs itself ends.
const MAX_DEPTH: usize = 16;

impl Shell {
    /// Runs it.
    pub(super) fn builtin(&mut self, builtin: Builtin) -> Result<Flow, Error> {
        match builtin {
            Builtin::Exit => return Ok(Flow::Leave),
            Builtin::Set { name: None, .. } => self.show(&self.settings.listing())?,
            Builtin::Set {
                name: Some(name),
                value,
            } => match value.is_empty() {
                true => {
                    let value = self.settings.value(&name).or_usage()?;
                    self.show(&format!("{value}\n"))?;
                }
                false => self.settings.set(&name, &value.join(" ")).or_usage()?,
            },
            Builtin::Unset { name } => self.unset(&name)?,
            Builtin::Connect { endpoint } => self.connect(&endpoint.join(" "))?,
            Builtin::Vars => self.show(&self.values.listing())?,
            Builtin::History => self.show(&self.history.listing())?,
            Builtin::Timing { state } => {
                self.timing = state.map_or(!self.timing, |state| state == Switch::On);
                let state = if self.timing { "on" } else { "off" };
                say!("timing is {state}");
            }
            Builtin::Watch { seconds, command } => {
                watch::run(self, &command.command, Duration::from_secs_f64(seconds))?;
            }
            Builtin::Repeat { count, command } => {
                let words = command.command;
                for _ in 0..count {
                    if self.command(words.clone())? == Flow::Leave {
                        return Ok(Flow::Leave);
                    }
                    if self.has_lost_program() {
                        break;
                    }
                }
            }
            Builtin::Expect { code, command } => self.expect(&code, command.command)?,
            Builtin::Assert { expression } => {
                let typed = self.typed.len().saturating_sub(expression.len());
                assertion::check(&expression, &self.typed[typed..])?;
            }
            Builtin::Print { values } => self.print_text(&values.join(" "))?,
            Builtin::Defer { command } => self.defer_words(command.command)?,
            Builtin::Desc { name } => self.describe(name)?,
            Builtin::Edit { new, rpc } => {
                // In this order, as before a pipeline: a signal that comes while the editor starts is not lost.
                let signals = self.end_signals();
                self.interrupts.stop_if_end_asked()?;
                let mut drafts = std::mem::take(&mut self.drafts);
                let edited = drafts.edit(&rpc, new, |editor| self.ended(editor, signals));
                self.drafts = drafts;
                self.interrupts.stop_if_end_asked()?;
                let Some(edited) = edited? else {
                    say!("note: nothing was changed, so nothing is sent");
                    return Ok(Flow::Continue);
                };
                let sent = self.command(edited.words.clone());
                return self.drafts.sent(&edited, sent);
            }
            Builtin::Source { file, arguments } => {
                if self.depth >= MAX_DEPTH {
                    let message = format!("{} runs itself", file.display());
                    return Err(Error::usage(message));
                }
                self.depth += 1;
                let inner = !arguments.is_empty();
                let outer = inner.then(|| self.values.set_arguments(arguments));
                let ended = script::file(self, &file, false);
                if let Some(outer) = outer {
                    self.values.set_arguments(outer);
                }
                self.depth -= 1;
                return ended;
            }
        }
        Ok(Flow::Continue)
    }

    /// Shows what the specification says about a name, or the help of a command that is none of the specification's.
    fn describe(&mut self, name: Vec<String>) -> Result<(), Error> {
        let columns = self.columns().unwrap_or(80);
        let error = match describe::describe(&name, columns) {
            Ok(text) => return self.show(&text),
            Err(error) => error,
        };
        let help = ["help".to_owned()].into_iter().chain(name);
        match self.parsed(help.collect()) {
            Ok(Err(help)) => self.show(&help),
            _ => Err(error),
        }
    }

    /// Prints what stands at a path: text as it is, all else as a document.
    pub(super) fn print_value(&mut self, path: &str) -> Result<Flow, Error> {
        let found = match path.contains(":-") {
            true => Variable::Text(self.values.text(path).or_usage()?),
            false => self.values.at(path).or_usage()?,
        };
        let reply = match found {
            Variable::Text(text) => return self.print_text(&text).map(|()| Flow::Continue),
            Variable::Reply(reply) => reply,
        };
        let found = reply.value("", "").or_usage()?;
        let value = found.value;
        if !matches!(value, Value::Message(_) | Value::List(_) | Value::Map(_)) {
            self.print_text(&value_path::text(&value))?;
            return Ok(Flow::Continue);
        }
        let options = self.settings.globals_of_shell().output(false);
        let mut text = Vec::new();
        // The type of a list is that of its entries.
        let shape = match (&value, found.message) {
            (Value::List(_), Some(entry)) => Shape::List(Some(entry)),
            (_, Some(message)) => Shape::Message(message),
            (_, None) => Shape::Unknown,
        };
        Documents::new(&options, shape)?.write(&value, &mut text)?;
        self.show(&String::from_utf8_lossy(&text))?;
        Ok(Flow::Continue)
    }

    /// Prints text as it is. It may be a driver's: only its line breaks act on a terminal.
    fn print_text(&self, text: &str) -> Result<(), Error> {
        if self.columns().is_none() {
            return self.show(&format!("{text}\n"));
        }
        let mut out = String::new();
        for line in text.split('\n') {
            out.push_str(&escaped(line));
            out.push('\n');
        }
        self.show(&out)
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

    /// Another driver from now on, if it can be reached: the one at an endpoint, or that of a context.
    fn connect(&mut self, name: &str) -> Result<(), Error> {
        let mut globals = self.settings.globals_of_shell();
        match name.contains([':', '/']) {
            true => globals.name_driver(name),
            // One word may be a socket, too.
            false => globals.name_context(name).or_else(|error| {
                globals.name_driver(name);
                if Path::new(name).exists() {
                    Ok(())
                } else {
                    Err(error)
                }
            })?,
        }
        let (connections, wanted) = (self.connections.clone(), globals.clone());
        self.until_interrupted(async move { connections.get(&wanted).await.map(drop) })?;
        self.settings.name_driver(globals);
        Ok(())
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
                ErrorKind::Failed | ErrorKind::Incomplete => "FAILED",
                ErrorKind::Interrupted => return Err(Error::interrupted()),
            },
        };
        if got == wanted {
            return Ok(());
        }
        let message = format!("expected {wanted}, got {got}");
        Err(match result {
            Err(error) => error.led_to(message),
            Ok(_) => Error::local(message),
        })
    }
}
