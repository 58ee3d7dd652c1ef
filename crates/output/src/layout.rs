//! The layout of a method's replies: rows, columns and names as paths into its messages.

use super::cell::{self, CellSource, Reader, Row, RowTypes};
use super::reply::{Format, OutputError, ShownReply};
use super::view::{CellFormat, View};
use csi_proto::Method;
use csi_proto::path::Path;
use csi_proto::schema::{Cardinality, Field, Kind};
use csi_proto::value::{Secrets, ValueError, decode};
use csi_proto::wire::{self, fields};
use serde_json::Value as Json;
use std::rc::Rc;

/// The checked form of a view, for the messages of its method.
#[derive(Debug)]
pub struct Layout {
    /// The method whose replies are shown.
    pub method: &'static Method,
    pub(super) view: &'static View,
    pub(super) rows: Option<Path>,
    pub(super) types: RowTypes,
}

/// A row with its own copy of what its columns read.
#[derive(Debug, Default)]
pub struct OwnedRow {
    /// Shared by all rows of one reply.
    request: Rc<[u8]>,
    /// The reply without its rows, shared too.
    reply: Rc<[u8]>,
    row: Vec<u8>,
}

impl OwnedRow {
    /// The row.
    pub fn row(&self) -> Row<'_> {
        Row {
            request: &self.request,
            reply: &self.reply,
            row: &self.row,
        }
    }
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

    /// The declared columns that a format shows. An age is for people: programs have the time itself in another column.
    ///
    /// # Errors
    /// When the declaration names fields that do not exist.
    pub fn columns(&self, format: Format) -> Result<Vec<Reader>, OutputError> {
        let columns = self.view.columns.iter();
        let shown = columns.filter(|column| match format {
            Format::Wide => true,
            Format::Csv => column.format != CellFormat::Age,
            _ => !column.wide,
        });
        let read = |column| Reader::new(column, self.types);
        Ok(shown.map(read).collect::<Result<_, _>>()?)
    }

    /// The column of that head, or of that path into the row.
    pub fn column(&self, name: &str) -> Result<Reader, OutputError> {
        let name = name.trim();
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

    /// Those of the columns of these names that there are.
    pub(crate) fn those_of(&self, names: &[String]) -> Vec<Reader> {
        let columns = names.iter().map(|name| self.column(name));
        columns.filter_map(Result::ok).collect()
    }

    /// The source of the text that `-o name` prints for a row.
    ///
    /// # Errors
    /// When the declaration names fields that do not exist.
    pub fn name(&self) -> Result<CellSource, OutputError> {
        Ok(CellSource::parse(self.types, self.view.name)?)
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

    /// The rows of a reply with their own copies of what their columns read.
    ///
    /// # Errors
    /// When the bytes are not the message.
    pub fn owned_rows(&self, reply: &ShownReply<'_>) -> Result<Vec<OwnedRow>, ValueError> {
        // What a row's columns read from the reply is small once the rows are taken out of it.
        let list = self.rows.as_ref().and_then(Path::field);
        let list = list.map(|list| list.number);
        let mut rest = Vec::new();
        for (number, raw) in fields(reply.bytes).map_while(Result::ok) {
            if Some(number) != list {
                wire::put(&mut rest, number, raw);
            }
        }
        let rest: Rc<[u8]> = rest.into();
        let request: Rc<[u8]> = reply.request.into();
        let owned = |row: &[u8]| OwnedRow {
            request: Rc::clone(&request),
            reply: Rc::clone(&rest),
            row: row.to_vec(),
        };
        Ok(self.rows(reply.bytes)?.into_iter().map(owned).collect())
    }

    /// What `-o name` prints for a row.
    ///
    /// # Errors
    /// When the bytes are not the messages.
    pub fn name_of(&self, row: Row<'_>) -> Result<String, OutputError> {
        let mut text = String::new();
        let format = match self.view.name {
            "ready" => CellFormat::Ready,
            _ => CellFormat::Plain,
        };
        cell::write(&self.name()?.read(row)?, format, &mut text);
        Ok(text)
    }

    /// A row as JSON, with secrets masked.
    ///
    /// # Errors
    /// When the bytes are not the message.
    pub fn json_of(&self, row: Row<'_>) -> Result<Json, OutputError> {
        let value = decode(self.types.row, row.row, Secrets::Mask)?;
        serde_json::to_value(value).map_err(OutputError::Json)
    }

    /// The list that a page of a paged method holds.
    pub fn list(&self) -> Option<&'static Field> {
        let field = self.rows.as_ref()?.field()?;
        let paged = self.method.response.field("next_token").is_some();
        (paged && field.cardinality == Cardinality::Repeated).then_some(field)
    }
}
