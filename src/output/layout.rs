//! The layout of a method's replies: rows, columns and names as paths into its messages.

use super::cell::{CellSource, Reader, RowTypes};
use super::reply::OutputError;
use super::view::View;
use csi_proto::path::Path;
use csi_proto::schema::{Cardinality, Field, Kind, Method};
use csi_proto::value::ValueError;

/// The checked form of a view, for the messages of its method.
#[derive(Debug)]
pub struct Layout {
    /// The method whose replies are shown.
    pub method: &'static Method,
    pub(super) view: &'static View,
    pub(super) rows: Option<Path>,
    pub(super) types: RowTypes,
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
    ///
    /// # Errors
    /// When there is none.
    pub fn column(&self, name: &str) -> Result<Reader, OutputError> {
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

    /// The list that a page of a paged method holds.
    pub fn list(&self) -> Option<&'static Field> {
        let field = self.rows.as_ref()?.field()?;
        let paged = self.method.response.field("next_token").is_some();
        (paged && field.cardinality == Cardinality::Repeated).then_some(field)
    }
}
