//! Tables like kubectl's: no borders, upper-case heads, and columns as wide as the rows printed so far need.
//!
//! A page's cells stand in one text with their ends beside it, so that 10,000 rows cost little more than their letters.

use super::cell::{Reader, Row};
use super::colour::{Brush, Colour};
use super::columns::Columns;
use super::terminal::columns_of;
use csi_proto::value::ValueError;
use std::io::{self, Write};

/// Spaces between two columns.
const GAP: u16 = 3;

/// Rows on their way to a table.
#[derive(Debug)]
pub struct Table {
    readers: Vec<Reader>,
    /// The head of a column before those of the readers.
    lead: Option<&'static str>,
    heads: bool,
    /// The columns of the terminal, where a wider table becomes records.
    fit: Option<usize>,
    brush: Brush,
    shape: Shape,
    columns: Columns,
    text: String,
    ends: Vec<usize>,
}

/// The shape of a table, which its first page decides for all pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    /// Nothing is written yet.
    Open,
    Columns,
    Records,
}

impl Table {
    /// An empty table of these columns. One that is wider than `fit` is written as records: a line a cell, its head before
    /// it, so that a terminal does not break it up; without heads there is nothing to tell the lines apart, and it stays a
    /// table.
    pub fn new(readers: Vec<Reader>, heads: bool, fit: Option<usize>) -> Self {
        Self {
            columns: Columns::new(readers.len(), GAP),
            readers,
            lead: None,
            heads,
            fit: fit.filter(|_| heads),
            brush: Brush(false),
            shape: Shape::Open,
            text: String::new(),
            ends: Vec::new(),
        }
    }

    /// Paints heads and conditions with this brush.
    pub fn paint_with(&mut self, brush: Brush) {
        self.brush = brush;
    }

    /// Puts a column of this head before all others; its cells are given with the rows.
    pub fn lead_with(&mut self, head: &'static str) {
        self.lead = Some(head);
        self.columns = Columns::new(self.readers.len() + 1, GAP);
    }

    /// Adds a row with its cell for the column before all others.
    ///
    /// # Errors
    /// When the bytes are not the messages.
    pub fn add_led(&mut self, cell: &str, row: Row<'_>) -> Result<(), ValueError> {
        self.text.push_str(cell);
        self.ends.push(self.text.len());
        self.add(row)
    }

    /// Whether it had no row so far.
    pub fn is_empty(&self) -> bool {
        self.shape == Shape::Open && self.ends.is_empty()
    }

    /// Adds a row.
    ///
    /// # Errors
    /// When the bytes are not the messages.
    pub fn add(&mut self, row: Row<'_>) -> Result<(), ValueError> {
        for reader in &self.readers {
            reader.write(row, &mut self.text)?;
            self.ends.push(self.text.len());
        }
        Ok(())
    }

    /// The colour of a cell of a row.
    fn colour(&self, index: usize, row: &[&str]) -> Option<Colour> {
        let index_of_reader = index.checked_sub(usize::from(self.lead.is_some()))?;
        let reader = self.readers.get(index_of_reader)?;
        reader.colour(row.get(index)?)
    }

    /// Writes the rows added since the last time; the first time with the heads. Columns only ever grow.
    ///
    /// # Errors
    /// When `out` cannot be written.
    pub fn write(&mut self, out: &mut impl Write) -> io::Result<()> {
        if self.ends.is_empty() {
            return Ok(());
        }
        let names = self.readers.iter().map(|reader| reader.head.as_str());
        let names: Vec<&str> = self.lead.into_iter().chain(names).collect();
        let mut cells: Vec<&str> = Vec::with_capacity(names.len() + self.ends.len());
        let is_first = self.shape == Shape::Open;
        let has_heads = is_first && self.heads;
        if has_heads {
            cells.extend(&names);
        }
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        cells.extend(
            starts
                .zip(&self.ends)
                .map(|(start, end)| &self.text[start..*end]),
        );
        self.columns.widen(&cells);
        if is_first {
            let is_too_wide = self.fit.is_some_and(|fit| self.columns.width() > fit);
            self.shape = if is_too_wide {
                Shape::Records
            } else {
                Shape::Columns
            };
        }
        if self.shape == Shape::Columns {
            let rows = cells.chunks(names.len().max(1)).enumerate();
            for (line, (index, row)) in self.columns.lines(&cells).zip(rows) {
                let is_head = has_heads && index == 0;
                let colour = |index: usize| match is_head {
                    true => Some(Colour::Bold),
                    false => self.colour(index, row),
                };
                match self.brush {
                    Brush(false) => out.write_all(line.as_bytes())?,
                    brush => {
                        let line = self.columns.painted(&line, row, brush, colour);
                        out.write_all(line.as_bytes())?;
                    }
                }
            }
        } else {
            let heads = if has_heads { names.len() } else { 0 };
            let rows = cells[heads..].chunks(names.len());
            for (index, row) in rows.enumerate() {
                if index > 0 || !is_first {
                    out.write_all(b"\n")?;
                }
                let colour = |index: usize| self.colour(index, row);
                out.write_all(record(&names, row, self.brush, colour).as_bytes())?;
            }
        }
        self.text.clear();
        self.ends.clear();
        Ok(())
    }
}

/// A row as lines: its heads in a column, a cell behind each.
fn record(
    heads: &[&str],
    row: &[&str],
    brush: Brush,
    colour: impl Fn(usize) -> Option<Colour>,
) -> String {
    let widest = heads.iter().map(|head| columns_of(head)).max();
    let widest = widest.unwrap_or(0) + usize::from(GAP);
    let mut lines = String::new();
    for (index, (head, cell)) in heads.iter().zip(row).enumerate() {
        lines.push_str(&brush.paint(Colour::Bold, head));
        lines.extend(std::iter::repeat_n(' ', widest - columns_of(head)));
        match colour(index) {
            Some(colour) => lines.push_str(&brush.paint(colour, cell)),
            None => lines.push_str(cell),
        }
        lines.push('\n');
    }
    lines
}
