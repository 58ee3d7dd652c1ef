//! The defaults of a command: they apply where its own flags are not given.

use super::contexts::chosen::{Sources, value};
use super::globals::Globals;
use super::interrupt;
use clap::{ArgMatches, Command};
use csi_arguments::capability;
use csi_arguments::secrets::{self, PromptError, Secrets};
use csi_error::{Error, OrError as _, Style};
use csi_output::Format;
use csi_proto::v1::VolumeCapability;
use csi_rpc::context::RequestContext;

/// The program whose commands a shell runs.
#[derive(Clone, Copy, Debug)]
pub struct Program {
    /// Makes the program's tree of commands.
    pub tree: fn() -> Command,
    /// Runs the tool that the matches of that tree name.
    pub run_tool: fn(&ArgMatches, &Globals, &Defaults) -> Result<(), Error>,
}

/// The defaults of a command, and the place where it runs.
#[derive(Clone, Debug)]
pub struct Defaults {
    /// The name by which the program was called.
    pub name: &'static str,
    /// The program itself, whose commands a shell runs.
    pub program: Program,
    /// The required capability that a session sends when no flag names one.
    pub capability: Option<VolumeCapability>,
    /// The file of the secrets of a session.
    pub secrets_file: Option<String>,
    /// Whether the process is a shell, which goes on after this command.
    pub in_shell: bool,
}

impl Defaults {
    /// The defaults of a process that runs one command.
    pub fn of(name: &'static str, program: Program) -> Self {
        Self {
            name,
            program,
            capability: None,
            secrets_file: None,
            in_shell: false,
        }
    }

    /// The capability where no flag of the command names one.
    pub fn capability(&self, globals: &Globals) -> Option<VolumeCapability> {
        let chosen = globals.chosen.as_ref();
        let of_context = chosen.and_then(|one| Some((one.selection, one.capability.clone()?)));
        let found = value(Sources {
            flag: self.capability.clone(),
            variable: None,
            context: of_context,
            default: (!self.is_csc()).then(capability::default),
        });
        found.map(|(capability, _)| capability)
    }

    /// The file of the secrets: the one that a flag names, or the session, or the context. The variable with secrets comes
    /// before a context that nobody named.
    pub fn secrets_file(&self, flag: &Option<String>, globals: &Globals) -> Option<String> {
        let chosen = globals.chosen.as_ref();
        let of_context =
            chosen.and_then(|one| Some((one.selection, one.context.secrets_file.clone()?)));
        let found = value(Sources {
            flag: flag.clone().or(self.secrets_file.clone()).map(Some),
            variable: secrets::are_in_environment().then_some(None),
            context: of_context.map(|(selection, file)| (selection, Some(file))),
            default: None,
        });
        found.and_then(|(file, _)| file)
    }

    /// What requests are built from beside their own flags, with these secrets.
    pub fn request_context(&self, globals: &Globals, secrets: Secrets) -> RequestContext {
        RequestContext {
            default_capability: self.capability(globals),
            parameters: globals.parameters(),
            secrets,
            base: None,
        }
    }

    /// Whether the program was called as csc.
    pub fn is_csc(&self) -> bool {
        self.name == "csc"
    }

    /// The format of errors.
    pub fn style(&self, globals: &Globals) -> Style {
        match globals.output(self.is_csc()).format {
            _ if self.is_csc() => Style::Csc,
            Format::Json | Format::Jsonl => Style::Json,
            _ => Style::Text,
        }
    }
}

/// The secrets of the environment, then those of a file, then those typed in.
pub fn secrets(file: Option<&str>, prompt: &[String]) -> Result<Secrets, Error> {
    let mut all = Secrets::from_environment().or_usage()?;
    if let Some(file) = file {
        all.extend(Secrets::from_file(file).or_usage()?);
    }
    if !prompt.is_empty() {
        interrupt::end_waits().or_because(interrupt::UNWATCHED)?;
        all.extend(secrets::prompt(prompt).map_err(|error| match error {
            PromptError::Interrupted => Error::interrupted(),
            error => Error::usage(error.to_string()),
        })?);
    }
    Ok(all)
}
