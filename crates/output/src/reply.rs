//! The input of printing: a reply with its request, the formats and options; and the errors of printing.

use super::cell::Row;
use super::jsonpath::{ExpressionColumn, NameError, Template, TemplateError};
use csi_error::Error;
use csi_proto::path::PathError;
use csi_proto::value::ValueError;
use std::io;
use thiserror::Error;

/// The format of replies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// Columns for people.
    #[default]
    Table,
    /// All columns.
    Wide,
    /// A line for each column of a row.
    Records,
    /// All columns, for programs.
    Csv,
    /// The columns that expressions say.
    CustomColumns,
    /// Canonical JSON over several lines.
    Json,
    /// Canonical JSON, one line a reply, or one line an entry of a list.
    Jsonl,
    /// YAML, one document a reply.
    Yaml,
    /// What expressions find in the JSON of a reply.
    Jsonpath,
    /// Ids or names alone, one a line.
    Name,
    /// The output of csc.
    Csc,
    /// Annotations of GitHub, which no reply has.
    Github,
}

impl Format {
    /// Every format in the order of the help, with its name and a line about it.
    pub const ALL: [(Self, &'static str, &'static str); 12] = [
        (Self::Table, "table", "Columns for people"),
        (Self::Wide, "wide", "All columns"),
        (Self::Records, "records", "A line for each column of a row"),
        (Self::Csv, "csv", "All columns, as RFC 4180 has them"),
        (
            Self::CustomColumns,
            "custom-columns",
            "Columns of your own, such as custom-columns=ID:.volume.volume_id",
        ),
        (Self::Json, "json", "Canonical JSON, one document a reply"),
        (
            Self::Jsonl,
            "jsonl",
            "Canonical JSON, one line a reply or an entry of a list",
        ),
        (Self::Yaml, "yaml", "YAML, one document a reply"),
        (
            Self::Jsonpath,
            "jsonpath",
            "What an expression finds in the JSON, such as jsonpath={.volume.volume_id}",
        ),
        (Self::Name, "name", "Ids or names alone"),
        (Self::Csc, "csc", "What csc prints"),
        (Self::Github, "github", "Annotations, by csi sanity alone"),
    ];

    /// The format of that name.
    pub fn named(name: &str) -> Option<Self> {
        let mut all = Self::ALL.iter();
        all.find_map(|(format, known, _)| (*known == name).then_some(*format))
    }

    /// Whether it prints documents: whole replies, or the entries of a list as one.
    pub(crate) fn has_documents(self) -> bool {
        matches!(self, Self::Json | Self::Jsonl | Self::Yaml | Self::Jsonpath)
    }

    /// Whether it prints rows for people, in the columns that an RPC has by itself.
    pub(crate) fn is_table(self) -> bool {
        matches!(self, Self::Table | Self::Wide | Self::Records)
    }

    /// Whether `--columns` chooses what it prints.
    pub(crate) fn has_columns(self) -> bool {
        self.is_table() || self == Self::Csv
    }

    /// The name of the format.
    pub fn name(self) -> &'static str {
        let mut all = Self::ALL.iter();
        all.find_map(|(format, name, _)| (*format == self).then_some(*name))
            .unwrap_or_default()
    }
}

/// What a format prints, where that stands behind its name.
#[derive(Clone, Debug, Default)]
pub enum Expressions {
    /// Nothing stands there.
    #[default]
    None,
    /// The template of [`Format::Jsonpath`].
    Template(Template),
    /// The columns of [`Format::CustomColumns`].
    Columns(Vec<ExpressionColumn>),
}

/// A format as it is asked for: by its name, some with what to print behind `=`.
#[derive(Clone, Debug)]
pub struct AskedFormat {
    /// The format.
    pub format: Format,
    /// What it prints.
    pub expressions: Expressions,
    /// The text that asks for it.
    pub text: String,
}

/// Text that names no format.
#[derive(Debug, Error)]
pub enum FormatError {
    /// Not a name.
    #[error("{0:?} is not one of {names}", names = Format::ALL.map(|(_, name, _)| name).join(", "))]
    Name(String),
    /// Expressions that cannot be read.
    #[error("{0}")]
    Template(#[from] TemplateError),
}

impl AskedFormat {
    /// The format that `text` asks for.
    ///
    /// # Errors
    /// When there is none of that name, or its expressions cannot be read.
    pub fn parse(text: &str) -> Result<Self, FormatError> {
        let (name, behind) = match text.split_once('=') {
            Some((name, behind)) => (name, Some(behind)),
            None => (text, None),
        };
        let unknown = || FormatError::Name(text.to_owned());
        let format = Format::named(name).ok_or_else(unknown)?;
        let expressions = match (format, behind) {
            (Format::Jsonpath, behind) => {
                Expressions::Template(Template::parse(behind.unwrap_or_default())?)
            }
            (Format::CustomColumns, behind) => {
                Expressions::Columns(ExpressionColumn::parse_all(behind.unwrap_or_default())?)
            }
            (_, None) => Expressions::None,
            _ => return Err(unknown()),
        };
        let text = text.to_owned();
        Ok(Self {
            format,
            expressions,
            text,
        })
    }
}

/// Everything that shapes the output.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The format.
    pub format: Format,
    /// What the format prints, where that stands behind its name.
    pub expressions: Expressions,
    /// Whether tables go without heads.
    pub no_headers: bool,
    /// Heads or paths of the columns to show; empty for the declared ones.
    pub columns: Vec<String>,
    /// The columns to show where none are asked for and the table is not wide: those of them that a reply has.
    pub usual_columns: Vec<String>,
    /// Head or path of the column to sort by.
    pub sort_by: Option<String>,
    /// Whether the rows of a table are records, or else lines; `None` for what fits the terminal.
    pub records: Option<bool>,
    /// The columns of the terminal behind the output.
    pub terminal: Option<usize>,
    /// Whether heads and conditions are painted.
    pub colour: bool,
}

/// One reply and its request.
#[derive(Clone, Copy, Debug)]
pub struct ShownReply<'a> {
    /// The volume, snapshot or name on the command line; empty where there is none.
    pub subject: &'a str,
    /// The request's bytes.
    pub request: &'a [u8],
    /// The reply's bytes.
    pub bytes: &'a [u8],
    /// Whether another page of the same list follows.
    pub more: bool,
}

impl<'a> ShownReply<'a> {
    /// A row of it.
    pub fn row(&self, row: &'a [u8]) -> Row<'a> {
        Row {
            request: self.request,
            reply: self.bytes,
            row,
        }
    }
}

/// Output that cannot be made.
#[derive(Debug, Error)]
pub enum OutputError {
    /// The reply's bytes are not the message that they should be.
    #[error("the reply is not valid: {0}")]
    Value(#[from] ValueError),
    /// The reply cannot be decoded into its type.
    #[error("the reply is not valid: {0}")]
    Decode(#[from] prost::DecodeError),
    /// The reply cannot be decoded while JSON is written.
    #[error("the reply is not valid: {0}")]
    Json(serde_json::Error),
    /// The reply cannot be decoded while YAML is written.
    #[error("the reply is not valid: {0}")]
    Yaml(String),
    /// A column that does not exist.
    #[error("no column {name:?}: {source}{}", heads(.known))]
    Column {
        /// The name of the column that was asked for.
        name: String,
        /// Why it is not a path either.
        source: PathError,
        /// The declared heads.
        known: Vec<&'static str>,
    },
    /// A name in an expression that no reply can have.
    #[error("{0}")]
    Name(#[from] NameError),
    /// A flag that would do nothing.
    #[error("{0}")]
    Useless(&'static str),
    /// A declaration that does not fit the protocol: a defect of this program.
    #[error("the declaration of the output is wrong: {0}")]
    Declaration(#[from] PathError),
    /// Stdout cannot be written.
    #[error("stdout cannot be written: {0}")]
    Io(#[from] io::Error),
}

fn heads(known: &[&str]) -> String {
    match known {
        [] => String::new(),
        known => format!("; the columns are {}", known.join(", ")),
    }
}

impl From<OutputError> for Error {
    fn from(error: OutputError) -> Self {
        match error {
            OutputError::Column { .. } | OutputError::Name(_) | OutputError::Useless(_) => {
                Self::usage(error.to_string())
            }
            error => Self::local(error.to_string()),
        }
    }
}

impl OutputError {
    /// Whether the reader of stdout went away, which is no error.
    pub fn is_broken_pipe(&self) -> bool {
        matches!(self, Self::Io(error) if error.kind() == io::ErrorKind::BrokenPipe)
    }
}
