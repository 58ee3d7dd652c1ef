//! The session's flags, set by `set`: no line has to repeat them.

use super::columns;
use clap::ArgMatches;
use clap::parser::ValueSource;
use csi_arguments::capability;
use csi_call::Endpoint;
use csi_invocation::{Defaults, Globals, Program};
use csi_output::AskedFormat;
use csi_output::columns::{Columns, aligned};
use csi_proto::v1::VolumeCapability;
use csi_proto::{duration, escaped};
use csi_sys::waits;
use std::error::Error as StdError;
use thiserror::Error;

/// The names that `set` knows, with what each is.
pub const NAMES: &[(&str, &str)] = &[
    ("endpoint", "the driver"),
    (
        "output",
        "the format, as behind -o, such as json or records",
    ),
    ("timeout", "how long a call may take, such as 30s"),
    ("verbose", "0 to 3, as -v, -vv and -vvv"),
    ("cap", "the capability where none is given"),
    ("secrets-file", "the secrets of every call that takes some"),
    ("echo", "on or off: show each command before it runs"),
    (
        "records",
        "on or off: a line a column, or else a line a row; auto: what fits",
    ),
    (
        "columns",
        "the columns of tables, heads or paths, where a reply has them",
    ),
    ("pager", "on or off: what does not fit goes through $PAGER"),
];

/// The values that the setting of this name can have, where these are words.
pub fn values(name: &str) -> &'static [&'static str] {
    match name {
        "echo" | "pager" => &["on", "off"],
        "records" => &["on", "off", "auto"],
        "verbose" => &["0", "1", "2", "3"],
        _ => &[],
    }
}

/// A switch by its word.
fn switch(value: &str) -> Result<bool, &'static str> {
    match value {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err("write on or off"),
    }
}

/// The word of a switch.
fn word_of(switch: bool) -> String {
    if switch { "on" } else { "off" }.to_owned()
}

/// The values of the settings; what is not set is as it was on the command line of the shell.
#[derive(Clone, Debug)]
pub(crate) struct SessionSettings {
    program: Program,
    /// The command line of the shell itself.
    base: Globals,
    /// The same as `set` has changed it.
    now: Globals,
    cap: Option<(String, VolumeCapability)>,
    secrets_file: Option<String>,
    /// Whether commands are shown before they run.
    pub echo: bool,
    /// Whether tables are records; without it those that would not fit are.
    records: Option<bool>,
    /// The columns of tables; none for those that each table has by itself.
    columns: Vec<String>,
    /// Whether what does not fit the terminal goes through a pager.
    pub pager: bool,
}

/// A setting that cannot be.
#[derive(Debug, Error)]
pub(crate) enum SettingError {
    /// No such setting.
    #[error("there is no setting {0:?}; there is {names}", names = names())]
    Name(String),
    /// Not a value of it.
    #[error("{name}: {problem}")]
    Value {
        /// The setting.
        name: &'static str,
        /// The problem, with the remedy.
        problem: Box<dyn StdError>,
    },
}

/// The setting of that name.
fn known(name: &str) -> Result<&'static str, SettingError> {
    let found = NAMES.iter().find(|(known, _)| *known == name);
    let found = found.map(|(name, _)| *name);
    found.ok_or_else(|| SettingError::Name(name.to_owned()))
}

fn names() -> String {
    let names: Vec<&str> = NAMES.iter().map(|(name, _)| *name).collect();
    names.join(", ")
}

impl SessionSettings {
    /// The settings of the shell's own command line.
    pub fn new(program: Program, base: Globals) -> Self {
        Self {
            program,
            now: base.clone(),
            base,
            cap: None,
            secrets_file: None,
            echo: false,
            records: None,
            columns: Vec::new(),
            pager: true,
        }
    }

    /// Shapes the output of a command as the session wants it, in a terminal of so many columns.
    pub fn shape(&self, output: &mut csi_output::Options, columns: Option<usize>) {
        output.records = self.records;
        output.terminal = columns;
        output.usual_columns.clone_from(&self.columns);
    }

    /// Makes tables records, or lets them be what fits again; says which.
    pub(crate) fn toggle_records(&mut self) -> &'static str {
        self.records = match self.records {
            Some(true) => None,
            _ => Some(true),
        };
        self.records_word()
    }

    fn records_word(&self) -> &'static str {
        match self.records {
            Some(true) => "on",
            Some(false) => "off",
            None => "auto",
        }
    }

    /// Sets `name` to `value`.
    ///
    /// # Errors
    /// When there is no such setting, or it cannot have that value.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), SettingError> {
        let name = known(name)?;
        self.change(name, value)
            .map_err(|problem| SettingError::Value { name, problem })
    }

    fn change(&mut self, name: &str, value: &str) -> Result<(), Box<dyn StdError>> {
        match name {
            "endpoint" => {
                Endpoint::parse(value)?;
                self.now.name_driver(value);
            }
            "output" => self.now.set_format(AskedFormat::parse(value)?),
            "timeout" => self.now.timeout = duration::parse(value)?,
            "verbose" => match value.parse() {
                Ok(level @ 0..=3) => self.now.verbose = level,
                _ => return Err("write 0, 1, 2 or 3".into()),
            },
            "cap" => self.cap = Some((value.to_owned(), capability::parse(value)?)),
            "secrets-file" => {
                waits::open(value.as_ref()).map_err(|error| format!("{value}: {error}"))?;
                self.secrets_file = Some(value.to_owned());
            }
            "echo" => self.echo = switch(value)?,
            "pager" => self.pager = switch(value)?,
            "records" if value == "auto" => self.records = None,
            "records" => {
                self.records = Some(switch(value).map_err(|_| "write on, off or auto")?);
            }
            _ => {
                self.columns = columns::parse(value)?;
                // Those of the shell's own command line counted until now.
                self.now.columns.clear();
            }
        }
        Ok(())
    }

    /// The driver, and its context, are those of `globals` from now on.
    pub fn name_driver(&mut self, globals: Globals) {
        self.now = globals;
    }

    /// Lets `name` be as it was on the command line of the shell.
    pub fn unset(&mut self, name: &str) -> Result<(), SettingError> {
        match known(name)? {
            "cap" => self.cap = None,
            "secrets-file" => self.secrets_file = None,
            "echo" => self.echo = false,
            "records" => self.records = None,
            "pager" => self.pager = true,
            flag => {
                if flag == "columns" {
                    self.columns.clear();
                }
                self.now.inherit(&self.base, |id| id != flag);
            }
        }
        Ok(())
    }

    /// The flags of a parsed line: what stands in it counts, then the settings, then the shell's own command line.
    pub fn globals(&self, mut line: Globals, matches: &ArgMatches) -> Globals {
        let typed = |id: &str| matches.value_source(id) == Some(ValueSource::CommandLine);
        line.inherit(&self.now, typed);
        line
    }

    /// The flags where a line says nothing.
    pub(crate) fn globals_of_shell(&self) -> Globals {
        self.now.clone()
    }

    /// The defaults of the session's commands.
    pub fn defaults(&self) -> Defaults {
        let defaults = Defaults::of("csi", self.program);
        Defaults {
            capability: match &self.cap {
                Some((_, cap)) => Some(cap.clone()),
                None => defaults.capability,
            },
            secrets_file: self.secrets_file.clone(),
            in_shell: true,
            ..defaults
        }
    }

    /// The value of one setting.
    pub fn value(&self, name: &str) -> Result<String, SettingError> {
        let name = known(name)?;
        let mut values = NAMES.iter().zip(self.values());
        let found = values.find(|((known, _), _)| *known == name);
        Ok(found.map_or_else(String::new, |(_, value)| value))
    }

    /// Lists all settings, one on each line.
    pub fn listing(&self) -> String {
        let names = NAMES.iter().map(|(name, _)| (*name).to_owned());
        let rows = names.zip(self.values());
        let cells: Vec<String> = rows.flat_map(<[String; 2]>::from).collect();
        aligned(Columns::new(2, 2), &cells)
    }

    /// The values that count, in the order of [`NAMES`]: those of the context too.
    fn values(&self) -> Vec<String> {
        let globals = &self.now;
        let context = globals.chosen.as_ref().map(|chosen| &chosen.context);
        let cap_of_context = context.and_then(|context| context.cap.clone());
        let secrets_file = self.defaults().secrets_file(&None, globals);
        let timeout = globals.timeout();
        let values = [
            globals.endpoint.clone().unwrap_or_else(|| "<none>".into()),
            globals.format_as_asked().to_owned(),
            timeout.map_or_else(|| "none".to_owned(), duration::human),
            globals.verbosity().to_string(),
            match &self.cap {
                Some((text, _)) => text.clone(),
                None => cap_of_context.unwrap_or_else(|| "SINGLE_NODE_WRITER,mount".into()),
            },
            secrets_file.unwrap_or_else(|| "<none>".into()),
            word_of(self.echo),
            self.records_word().to_owned(),
            match [self.columns.as_slice(), &globals.columns] {
                [[], []] => "<those of each table>".to_owned(),
                [[], names] | [names, _] => names.join(","),
            },
            word_of(self.pager),
        ];
        values.map(|value| escaped(&value).into_owned()).into()
    }
}
