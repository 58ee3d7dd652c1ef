//! Replies on their way to stdout: the only place that writes there.
//!
//! One walk makes values of bytes (`csi_proto::value`); the formats here only arrange them. Nothing here connects, knows
//! clap, or chooses exit codes.

pub mod cell;
pub mod colour;
pub mod csc;
pub mod figure;
pub mod json;
pub mod lines;
pub mod load;
pub mod redirect;
pub mod replayed;
pub mod shell_word;
pub mod steps;
pub mod table;
pub mod terminal;
pub mod view;

use crate::error::Error;
use cell::{Reader, Row, RowTypes, Source};
use csi_proto::path::{Path, PathError};
use csi_proto::schema::{Cardinality, Field, Kind, Method};
use csi_proto::value::{Secrets, Value, ValueError, decode};
use csi_proto::wire::{Raw, fields};
use std::cmp::Ordering;
use std::io::{self, Write};
use std::rc::Rc;
use view::View;

/// Stdout, for a [`Printer`] or steps.
pub fn stdout() -> impl Write {
    io::BufWriter::new(io::stdout().lock())
}

/// Writes what is not a reply: help, a completion script. A reader who went away is no error.
///
/// # Errors
/// When stdout cannot be written.
pub fn print(bytes: &[u8]) -> Result<(), Error> {
    let mut out = io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Error::because("stdout cannot be written", &error))
        }
        _ => Ok(()),
    }
}

/// How replies are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// Columns for people.
    #[default]
    Table,
    /// All columns.
    Wide,
    /// Canonical JSON over several lines.
    Json,
    /// Canonical JSON, one line a reply, or one line an entry of a list.
    Jsonl,
    /// Ids or names alone, one a line.
    Name,
    /// What csc prints.
    Csc,
}

/// Everything that shapes the output.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The format.
    pub format: Format,
    /// Whether tables go without heads.
    pub no_headers: bool,
    /// Heads or paths of the columns to show; empty for the declared ones.
    pub columns: Vec<String>,
    /// Head or path of the column to sort by.
    pub sort_by: Option<String>,
    /// The columns of a terminal that a table has to fit.
    pub fit: Option<usize>,
}

/// One reply and what it answers.
#[derive(Clone, Copy, Debug)]
pub struct Reply<'a> {
    /// The volume, snapshot or name on the command line; empty where there is none.
    pub subject: &'a str,
    /// The request's bytes.
    pub request: &'a [u8],
    /// The reply's bytes.
    pub bytes: &'a [u8],
    /// Whether another page of the same list follows.
    pub more: bool,
}

/// Output that cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum OutputError {
    /// The reply's bytes are not the message that they should be.
    #[error("the reply is not valid: {0}")]
    Value(#[from] ValueError),
    /// The same, noticed elsewhere.
    #[error("the reply is not valid: {0}")]
    Decode(#[from] prost::DecodeError),
    /// The same, noticed while JSON was written.
    #[error("the reply is not valid: {0}")]
    Json(serde_json::Error),
    /// A column that does not exist.
    #[error("no column {name:?}: {source}{}", heads(.known))]
    Column {
        /// What was asked for.
        name: String,
        /// Why it is not a path either.
        source: PathError,
        /// The declared heads.
        known: Vec<&'static str>,
    },
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

impl OutputError {
    /// Whether the reader of stdout went away, which is no error.
    pub fn is_broken_pipe(&self) -> bool {
        matches!(self, Self::Io(error) if error.kind() == io::ErrorKind::BrokenPipe)
    }
}

/// What a view means for the messages of its method.
#[derive(Debug)]
pub struct Layout {
    /// The method whose replies are shown.
    pub method: &'static Method,
    view: &'static View,
    rows: Option<Path>,
    types: RowTypes,
}

impl Layout {
    /// The layout of a method's replies.
    ///
    /// # Errors
    /// When the view names fields that do not exist.
    pub fn of(method: &'static Method, view: &'static View) -> Result<Self, OutputError> {
        let reply = method.response;
        let (rows, row) = match view.rows {
            "" => (None, reply),
            path => {
                let path = Path::parse(reply, path)?;
                let row = match path.field().map(|field| field.kind) {
                    Some(Kind::Message(row)) => row,
                    _ => reply,
                };
                (Some(path), row)
            }
        };
        Ok(Self {
            method,
            view,
            rows,
            types: RowTypes {
                request: method.request,
                reply,
                row,
            },
        })
    }

    /// The declared columns.
    ///
    /// # Errors
    /// When the declaration names fields that do not exist.
    pub fn columns(&self, wide: bool) -> Result<Vec<Reader>, OutputError> {
        let shown = self
            .view
            .columns
            .iter()
            .filter(|column| wide || !column.wide);
        let read = |column| Reader::new(column, self.types);
        Ok(shown.map(read).collect::<Result<_, _>>()?)
    }

    /// The column of that head, or of that path into the row.
    fn column(&self, name: &str) -> Result<Reader, OutputError> {
        let same = |head: &str| head.eq_ignore_ascii_case(&name.replace(['-', '_'], " "));
        if let Some(column) = self.view.columns.iter().find(|column| same(column.head)) {
            return Ok(Reader::new(column, self.types)?);
        }
        Reader::typed(name, self.types).map_err(|source| OutputError::Column {
            name: name.to_owned(),
            source,
            known: self.view.columns.iter().map(|column| column.head).collect(),
        })
    }

    /// What `-o name` prints for a row.
    ///
    /// # Errors
    /// When the declaration names fields that do not exist.
    pub fn name(&self) -> Result<Source, OutputError> {
        Ok(Source::parse(self.types, self.view.name)?)
    }

    /// The rows of a reply: the elements of its list, or the reply itself.
    ///
    /// # Errors
    /// When the bytes are not the message.
    pub fn rows<'a>(&self, reply: &'a [u8]) -> Result<Vec<&'a [u8]>, ValueError> {
        match &self.rows {
            None => Ok(vec![reply]),
            Some(path) => path.elements(reply),
        }
    }

    /// The list that a page of a paged method holds.
    fn list(&self) -> Option<&'static Field> {
        let field = self.rows.as_ref()?.field()?;
        let paged = self.method.response.field("next_token").is_some();
        (paged && field.cardinality == Cardinality::Repeated).then_some(field)
    }
}

/// Writes the replies of one command, in the order in which they arrive.
pub struct Printer<W: Write> {
    out: W,
    options: Options,
    layout: Layout,
    table: table::Table,
    sort: Option<Reader>,
    /// Rows held back for `--sort-by`.
    held: Vec<Held>,
    pages: json::Pages,
    all_pages: bool,
}

/// A row with its own copy of what its columns read.
struct Held {
    /// Shared by all rows of one reply.
    request: Rc<[u8]>,
    /// The reply without its rows, shared too.
    reply: Rc<[u8]>,
    row: Vec<u8>,
}

impl Held {
    fn row(&self) -> Row<'_> {
        Row {
            request: &self.request,
            reply: &self.reply,
            row: &self.row,
        }
    }
}

impl<W: Write> Printer<W> {
    /// A printer for the replies of `method`; `all_pages` when the pages of a list are to look like one.
    ///
    /// # Errors
    /// When a column that was asked for does not exist.
    pub fn new(
        method: &'static Method,
        view: &'static View,
        options: &Options,
        all_pages: bool,
        out: W,
    ) -> Result<Self, OutputError> {
        let layout = Layout::of(method, view)?;
        let is_table = matches!(options.format, Format::Table | Format::Wide);
        if !options.columns.is_empty() && !is_table {
            return Err(OutputError::Useless(
                "--columns is for tables: use it without -o, or with -o wide",
            ));
        }
        if options.sort_by.is_some() && layout.rows.is_none() {
            return Err(OutputError::Useless(
                "--sort-by is for lists, and the reply of this RPC has no rows",
            ));
        }
        let columns = match options.columns.as_slice() {
            [] => layout.columns(options.format == Format::Wide)?,
            names => names
                .iter()
                .map(|name| layout.column(name))
                .collect::<Result<_, _>>()?,
        };
        let sort = options.sort_by.as_deref().map(|name| layout.column(name));
        Ok(Self {
            out,
            options: options.clone(),
            table: table::Table::new(columns, !options.no_headers, options.fit),
            sort: sort.transpose()?,
            layout,
            held: Vec::new(),
            pages: json::Pages::default(),
            all_pages,
        })
    }

    /// Whether rows are held back until the end, to sort them.
    pub fn buffers(&self) -> bool {
        self.sort.is_some() && self.layout.rows.is_some() && self.options.format != Format::Csc
    }

    /// Writes a reply, or a page, or an element of a stream.
    ///
    /// # Errors
    /// When the bytes are not the reply's message, or stdout cannot be written.
    pub fn reply(&mut self, reply: &Reply<'_>) -> Result<(), OutputError> {
        if self.options.format == Format::Csc {
            let mut text = String::new();
            (self.layout.view.csc)(&self.layout, reply, &mut text)?;
            self.out.write_all(text.as_bytes())?;
        } else if self.buffers() {
            // What a row's columns read from the reply is small once the rows are taken out of it.
            let rest: Rc<[u8]> = self.without_rows(reply.bytes)?.into();
            let request: Rc<[u8]> = reply.request.into();
            for row in self.layout.rows(reply.bytes)? {
                self.held.push(Held {
                    request: Rc::clone(&request),
                    reply: Rc::clone(&rest),
                    row: row.to_vec(),
                });
            }
        } else {
            self.write(reply)?;
        }
        Ok(self.out.flush()?)
    }

    /// Writes what was held back and closes what is open.
    ///
    /// # Errors
    /// As [`Printer::reply`].
    pub fn finish(mut self) -> Result<(), OutputError> {
        if let Some(sort) = self.sort.take() {
            let held = std::mem::take(&mut self.held);
            let mut keyed = Vec::with_capacity(held.len());
            for held in &held {
                keyed.push((sort.value(held.row())?, held));
            }
            keyed.sort_by(|(a, _), (b, _)| compare(a, b));
            for (_, held) in keyed {
                self.row(held.row())?;
            }
            self.table.write(&mut self.out)?;
        }
        if let (Format::Json, true, Some(list)) =
            (self.options.format, self.is_merged(), self.layout.list())
        {
            self.pages.finish(list.json_name, &mut self.out)?;
        }
        Ok(self.out.flush()?)
    }

    /// Whether the output is one document made of rows, not one document a reply.
    fn is_merged(&self) -> bool {
        self.layout.list().is_some() && (self.all_pages || self.options.sort_by.is_some())
    }

    fn write(&mut self, reply: &Reply<'_>) -> Result<(), OutputError> {
        let is_table = matches!(self.options.format, Format::Table | Format::Wide);
        if is_table && !self.layout.view.done.is_empty() && self.options.columns.is_empty() {
            let subject = csi_proto::text::escaped(reply.subject);
            let done = self.layout.view.done;
            let space = if subject.is_empty() { "" } else { " " };
            return Ok(writeln!(self.out, "{subject}{space}{done}")?);
        }
        let document = json::Document {
            message: self.layout.method.response,
            bytes: reply.bytes,
            secrets: Secrets::Mask,
        };
        match self.options.format {
            Format::Json if !self.is_merged() => return json::pretty(&document, &mut self.out),
            Format::Jsonl if self.layout.list().is_none() => {
                return json::line(&document, &mut self.out);
            }
            Format::Name if self.layout.view.name.is_empty() => {
                return Ok(writeln!(
                    self.out,
                    "{}",
                    csi_proto::text::escaped(reply.subject)
                )?);
            }
            _ => {}
        }
        let mut last = None;
        for row in self.layout.rows(reply.bytes)? {
            let row = Row {
                request: reply.request,
                reply: reply.bytes,
                row,
            };
            // A name that stands in the reply is one name, however many rows the reply has.
            if self.options.format == Format::Name
                && self.layout.view.name.starts_with(['/', '?'])
                && last.is_some()
            {
                break;
            }
            self.row(row)?;
            last = Some(row);
        }
        Ok(self.table.write(&mut self.out)?)
    }

    fn row(&mut self, row: Row<'_>) -> Result<(), OutputError> {
        let value = || decode(self.layout.types.row, row.row, Secrets::Mask);
        match self.options.format {
            Format::Table | Format::Wide | Format::Csc => self.table.add(row)?,
            Format::Json => {
                let list = self.layout.list().map_or("", |list| list.json_name);
                self.pages.entry(list, &value()?, &mut self.out)?;
            }
            Format::Jsonl => json::line(&value()?, &mut self.out)?,
            Format::Name => {
                let mut text = String::new();
                let format = match self.layout.view.name {
                    "ready" => view::Format::Ready,
                    _ => view::Format::Plain,
                };
                cell::write(&self.layout.name()?.read(row)?, format, &mut text);
                writeln!(self.out, "{text}")?;
            }
        }
        Ok(())
    }

    fn without_rows(&self, reply: &[u8]) -> Result<Vec<u8>, OutputError> {
        let mut rest = Vec::new();
        let list = self.layout.rows.as_ref().and_then(Path::field);
        for part in fields(reply) {
            let (number, raw) = part.map_err(|source| ValueError::Wire {
                message: self.layout.method.response.name,
                source,
            })?;
            match raw {
                Raw::Bytes(_) if list.is_some_and(|list| list.number == number) => {}
                Raw::Bytes(bytes) => csi_proto::wire::put_bytes(&mut rest, number, bytes),
                Raw::Varint(value) => csi_proto::wire::put_varint(&mut rest, number, value),
                Raw::Fixed32(_) | Raw::Fixed64(_) => {}
            }
        }
        Ok(rest)
    }
}

/// Numbers and times by size, all else by its text; what is not set comes first.
fn compare(a: &Value<'_>, b: &Value<'_>) -> Ordering {
    match (a, b) {
        (Value::Int64(a), Value::Int64(b)) => a.cmp(b),
        (Value::Int32(a), Value::Int32(b)) => a.cmp(b),
        (Value::Timestamp(a), Value::Timestamp(b)) => {
            (a.seconds, a.nanos).cmp(&(b.seconds, b.nanos))
        }
        (a, b) => {
            let text = |value: &Value<'_>| {
                let mut text = String::new();
                cell::write(value, view::Format::Plain, &mut text);
                text
            };
            text(a).cmp(&text(b))
        }
    }
}
