//! The defaults of a command: they apply where its own flags are not given.

use super::globals::Globals;
use crate::arguments::capability;
use crate::error::{Error, Style};
use crate::output::Format;
use clap::{ArgMatches, Command};
use csi_proto::v1::VolumeCapability;

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
    /// The required capability that is sent when no flag names one.
    pub capability: Option<VolumeCapability>,
    /// The file of the secrets.
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
            capability: (name != "csc").then(capability::default),
            secrets_file: None,
            in_shell: false,
        }
    }

    /// The file of the secrets: the one that a flag names, or that of these defaults.
    pub fn secrets_file<'a>(&'a self, flag: &'a Option<String>) -> Option<&'a str> {
        flag.as_deref().or(self.secrets_file.as_deref())
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
