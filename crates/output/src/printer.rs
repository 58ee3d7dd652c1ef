//! The printer of one command's replies, in the order in which they arrive.

use super::cell::{Reader, Row};
use super::documents::Documents;
use super::jsonpath::Shape;
use super::layout::{Layout, OwnedRow};
use super::reply::{Expressions, Format, Options, OutputError, ShownReply};
use super::sum::Summing;
use super::view::View;
use super::{cell, csc, json, table, view};
use csi_proto::Method;
use csi_proto::schema::Message;
use csi_proto::value::{Secrets, Value, decode};
use serde_json::{Value as Json, json as object};
use std::cmp::Ordering;
use std::io::Write;

/// Writes the replies of one command, in the order in which they arrive.
pub struct Printer<W: Write> {
    out: W,
    options: Options,
    layout: Layout,
    csc: csc::CscWriter,
    table: table::Table,
    sort: Option<Reader>,
    /// Rows held back for `--sort-by`.
    held: Vec<OwnedRow>,
    documents: Documents,
    form: Form,
    has_reply: bool,
    /// What the rows of this call add up to, where a person reads them.
    summing: Option<Summing>,
}

/// The form in which a reply is printed. It is decided once, since nothing in a reply changes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// The output of csc.
    Csc,
    /// Nothing yet: its rows are held back, to be sorted.
    Held,
    /// A sentence that says what has happened to the subject.
    Done,
    /// The whole reply as a document.
    Document,
    /// The subject, where the reply has no name of its own.
    Subject,
    /// The first row: a name that stands in the reply is one name, however many rows the reply has.
    FirstRow,
    /// The rows of the reply.
    Rows,
}

impl Form {
    /// The form of replies, which may be pages of a list; `all_pages` of it are to look like one.
    fn of(options: &Options, view: &View, is_list: bool, all_pages: bool) -> Self {
        let sorts = options.sort_by.is_some();
        let is_merged = is_list && (all_pages || sorts);
        let is_done = !view.done.is_empty() && options.columns.is_empty();
        match options.format {
            Format::Csc => Self::Csc,
            _ if sorts => Self::Held,
            format if format.is_table() && is_done => Self::Done,
            Format::Json | Format::Yaml | Format::Jsonpath if !is_merged => Self::Document,
            Format::Jsonl if !is_list => Self::Document,
            Format::Name if view.name.is_empty() => Self::Subject,
            Format::Name if view.name.starts_with(['/', '?']) => Self::FirstRow,
            _ => Self::Rows,
        }
    }
}

/// What has happened to a row that is watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// It is there, and was not the last time.
    Added,
    /// It is another.
    Modified,
    /// It is not there any more.
    Deleted,
}

impl Event {
    /// The word for it, which is kubectl's.
    pub fn name(self) -> &'static str {
        match self {
            Self::Added => "ADDED",
            Self::Modified => "MODIFIED",
            Self::Deleted => "DELETED",
        }
    }
}

/// How the replies of a command end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// All have arrived.
    Whole,
    /// A call has failed.
    CutOff,
}

impl<W: Write> Printer<W> {
    /// A printer for the replies of `method`; `csc` writes what csc prints, where csc has the RPC;
    /// `all_pages` when the pages of a list are to look like one.
    ///
    /// # Errors
    /// When a column that was asked for does not exist.
    pub fn new(
        method: &'static Method,
        view: &'static View,
        csc: Option<csc::CscWriter>,
        options: &Options,
        all_pages: bool,
        out: W,
    ) -> Result<Self, OutputError> {
        Self::of_documents(method, view, csc, options, all_pages, method.response, out)
    }

    /// As [`Printer::new`], where documents are of this type.
    fn of_documents(
        method: &'static Method,
        view: &'static View,
        csc: Option<csc::CscWriter>,
        options: &Options,
        all_pages: bool,
        document: &'static Message,
        out: W,
    ) -> Result<Self, OutputError> {
        let layout = Layout::of(method, view)?;
        if options.format == Format::Github {
            return Err(OutputError::Useless(
                "-o github has no meaning here: only csi sanity has annotations",
            ));
        }
        if !options.columns.is_empty() && !options.format.has_columns() {
            return Err(OutputError::Useless(
                "--columns is for tables: use it without -o, or with -o wide, records or csv",
            ));
        }
        if options.sort_by.is_some() && options.format == Format::Csc {
            return Err(OutputError::Useless(
                "--sort-by has no meaning with -o csc, which prints a list as the driver gave it",
            ));
        }
        if options.sort_by.is_some() && layout.rows.is_none() {
            return Err(OutputError::Useless(
                "--sort-by is for lists, and the reply of this RPC has no rows",
            ));
        }
        let is_whole = matches!(options.format, Format::Wide | Format::Csv);
        let columns = match (&options.expressions, options.columns.as_slice()) {
            (Expressions::Columns(columns), _) => columns
                .iter()
                .map(|column| cell::Reader::expression(column, layout.types))
                .collect::<Result<_, _>>()?,
            (_, []) => match layout.those_of(&options.usual_columns) {
                usual if !usual.is_empty() && !is_whole => usual,
                _ => layout.columns(options.format)?,
            },
            (_, names) => names
                .iter()
                .map(|name| layout.column(name))
                .collect::<Result<_, _>>()?,
        };
        let sort = options.sort_by.as_deref().map(|name| layout.column(name));
        let table = table::Table::new(columns, options);
        let form = Form::of(options, view, layout.list().is_some(), all_pages);
        let is_document = options.format.has_documents() && options.format != Format::Jsonl;
        if form == Form::Held && is_document && layout.list().is_none() {
            return Err(OutputError::Useless(
                "--sort-by sorts tables and lists that come in pages; this reply is one document: sort it with jq",
            ));
        }
        Ok(Self {
            form,
            has_reply: false,
            out,
            options: options.clone(),
            table,
            sort: sort.transpose()?,
            csc: csc.unwrap_or_else(|| csc::default_of(view)),
            layout,
            held: Vec::new(),
            documents: Documents::new(options, Shape::Message(document))?,
            summing: view
                .sum
                .filter(|_| options.format.is_table())
                .map(|_| Summing::default()),
        })
    }

    /// Whether rows are held back until the end, to sort them.
    pub fn buffers(&self) -> bool {
        self.form == Form::Held
    }

    /// Whether a table of many had no row so far: then nothing stands there, not even heads.
    pub fn is_empty_table(&self) -> bool {
        let has_many = self.layout.rows.is_some();
        self.options.format.is_table() && has_many && self.held.is_empty() && self.table.is_empty()
    }

    /// What the rows of the call that has ended add up to, in words; the next call begins anew.
    pub fn take_sum(&mut self) -> Option<String> {
        let summed = std::mem::take(self.summing.as_mut()?);
        Some(summed.text(self.layout.view.sum.as_ref()?))
    }

    /// Writes a reply, or a page, or an element of a stream.
    ///
    /// # Errors
    /// When the bytes are not the reply's message, or stdout cannot be written.
    pub fn reply(&mut self, reply: &ShownReply<'_>) -> Result<(), OutputError> {
        let document = json::Document {
            message: self.layout.method.response,
            bytes: reply.bytes,
            secrets: Secrets::Mask,
        };
        let subject = csi_proto::text::escaped(reply.subject);
        self.has_reply = true;
        if let (Some(summing), Some(sum)) = (&mut self.summing, &self.layout.view.sum) {
            summing.add(sum, &self.layout, reply)?;
        }
        match self.form {
            Form::Csc => {
                let mut text = String::new();
                (self.csc)(&self.layout, reply, &mut text)?;
                self.out.write_all(text.as_bytes())?;
            }
            Form::Held => self.held.extend(self.layout.owned_rows(reply)?),
            Form::Done => {
                let space = if subject.is_empty() { "" } else { " " };
                writeln!(self.out, "{subject}{space}{}", self.layout.view.done)?;
            }
            Form::Document => self.documents.write(&document, &mut self.out)?,
            Form::Subject => writeln!(self.out, "{subject}")?,
            Form::FirstRow => self.rows(reply, 1)?,
            Form::Rows => self.rows(reply, usize::MAX)?,
        }
        Ok(self.out.flush()?)
    }

    /// A printer for the events of a watch over the replies of `method`.
    ///
    /// # Errors
    /// As [`Printer::new`], and when the format has no events.
    pub fn of_events(
        method: &'static Method,
        view: &'static View,
        options: &Options,
        out: W,
    ) -> Result<Self, OutputError> {
        if options.sort_by.is_some() {
            return Err(OutputError::Useless(
                "--sort-by sorts a list that ends, and a watch does not end",
            ));
        }
        if matches!(options.format, Format::Csc | Format::Github) {
            return Err(OutputError::Useless(
                "--watch has no events in this format: what csc prints, and annotations, are of whole replies",
            ));
        }
        let row = Layout::of(method, view)?.types.row;
        let mut printer = Self::of_documents(method, view, None, options, false, row, out)?;
        // The first page has no other event than ADDED.
        printer.table.lead_with("EVENT", Event::Modified.name());
        Ok(printer)
    }

    /// Writes what has happened to a row. A table is written by [`Printer::flush`].
    ///
    /// # Errors
    /// As [`Printer::reply`].
    pub fn event(&mut self, event: Event, row: Row<'_>) -> Result<(), OutputError> {
        let document = || -> Result<Json, OutputError> {
            Ok(object!({"type": event.name(), "object": self.layout.json_of(row)?}))
        };
        match self.options.format {
            Format::Json | Format::Jsonl => Ok(json::line(&document()?, &mut self.out)?),
            Format::Yaml => {
                let document = document()?;
                self.documents.write(&document, &mut self.out)
            }
            // As with kubectl, an expression sees the thing itself.
            Format::Jsonpath => {
                let value = self.layout.json_of(row)?;
                self.documents.write(&value, &mut self.out)
            }
            Format::Name => self.row(row),
            _ => Ok(self.table.add_led(event.name(), row)?),
        }
    }

    /// Writes all that is not written yet.
    pub fn flush(&mut self) -> Result<(), OutputError> {
        self.table.write(&mut self.out)?;
        Ok(self.out.flush()?)
    }

    /// Writes what was held back, and closes what is open where all of it has arrived.
    ///
    /// # Errors
    /// As [`Printer::reply`].
    pub fn finish(mut self, end: End) -> Result<(), OutputError> {
        // An empty list, or heads alone, would say that there is nothing, which nobody knows without a reply.
        if !self.has_reply {
            return Ok(self.out.flush()?);
        }
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
        self.table.finish(&mut self.out)?;
        let is_merged = matches!(self.form, Form::Held | Form::Rows);
        let has_documents = is_merged && self.options.format.has_documents();
        if let Some(list) = self.layout.list().filter(|_| has_documents) {
            match end {
                End::Whole => self.documents.finish(list.json_name, &mut self.out)?,
                End::CutOff => self.documents.cut_off(&mut self.out)?,
            }
        }
        Ok(self.out.flush()?)
    }

    /// Writes the first rows of a reply.
    fn rows(&mut self, reply: &ShownReply<'_>, most: usize) -> Result<(), OutputError> {
        for row in self.layout.rows(reply.bytes)?.into_iter().take(most) {
            self.row(reply.row(row))?;
        }
        Ok(self.table.write(&mut self.out)?)
    }

    fn row(&mut self, row: Row<'_>) -> Result<(), OutputError> {
        let value = || decode(self.layout.types.row, row.row, Secrets::Mask);
        match self.options.format {
            Format::Table
            | Format::Wide
            | Format::Records
            | Format::Csv
            | Format::CustomColumns
            | Format::Csc
            | Format::Github => self.table.add(row)?,
            Format::Json | Format::Jsonl | Format::Yaml | Format::Jsonpath => {
                let list = self.layout.list().map_or("", |list| list.json_name);
                self.documents.entry(list, &value()?, &mut self.out)?;
            }
            Format::Name => {
                let name = self.layout.name_of(row)?;
                writeln!(self.out, "{name}")?;
            }
        }
        Ok(())
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
                cell::write(value, view::CellFormat::Plain, &mut text);
                text
            };
            text(a).cmp(&text(b))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_form_of_a_reply_follows_from_the_format_and_the_flags() {
        let (none, name) = (View::new(&[]), "volume.volume_id");
        let list = (none.name(name), [false, false, true, false]);
        let all = (none.name(name), [false, false, true, true]);
        let sorted = (none.name(name), [true, false, true, false]);
        let done = (View::done("deleted"), [false; 4]);
        let columns = (View::done("deleted"), [false, true, false, false]);
        let of_reply = (none.name("/group_snapshot.group_snapshot_id"), [false; 4]);
        let of_request = (none.name("?volume_id"), [false; 4]);
        for (format, (view, [sorts, has_columns, is_list, all_pages]), expected) in [
            (Format::Csc, list, Form::Csc),
            (Format::Csc, done, Form::Csc),
            (Format::Table, sorted, Form::Held),
            (Format::Json, sorted, Form::Held),
            (Format::Name, sorted, Form::Held),
            (Format::Table, done, Form::Done),
            (Format::Wide, done, Form::Done),
            (Format::Records, done, Form::Done),
            (Format::Records, list, Form::Rows),
            (Format::Csv, done, Form::Rows),
            (Format::Csv, sorted, Form::Held),
            (Format::CustomColumns, all, Form::Rows),
            (Format::CustomColumns, sorted, Form::Held),
            (Format::Table, columns, Form::Rows),
            (Format::Json, done, Form::Document),
            (Format::Json, list, Form::Document),
            (Format::Json, all, Form::Rows),
            (Format::Yaml, done, Form::Document),
            (Format::Yaml, list, Form::Document),
            (Format::Yaml, all, Form::Rows),
            (Format::Yaml, sorted, Form::Held),
            (Format::Jsonpath, list, Form::Document),
            (Format::Jsonpath, all, Form::Rows),
            (Format::Jsonl, done, Form::Document),
            (Format::Jsonl, list, Form::Rows),
            (Format::Jsonl, all, Form::Rows),
            (Format::Name, done, Form::Subject),
            (Format::Name, list, Form::Rows),
            (Format::Name, of_reply, Form::FirstRow),
            (Format::Name, of_request, Form::FirstRow),
            (Format::Table, of_reply, Form::Rows),
            (Format::Table, list, Form::Rows),
            (Format::Wide, all, Form::Rows),
        ] {
            let options = Options {
                format,
                sort_by: sorts.then(|| "name".to_owned()),
                columns: Vec::from_iter(has_columns.then(|| "name".to_owned())),
                ..Options::default()
            };
            let found = Form::of(&options, &view, is_list, all_pages);
            assert_eq!(found, expected, "{format:?} {view:?} {sorts} {all_pages}");
        }
    }
}
