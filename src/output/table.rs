//! Tables like kubectl's: no borders, upper-case heads, columns as wide as the pages so far needed.
//!
//! A page's cells stand in one text with their ends beside it, so that 10,000 rows cost little more than their letters.

use super::cell::{Reader, Row};
use super::terminal::columns_of;
use csi_proto::value::ValueError;
use std::io::{self, Write};

/// Spaces between two columns.
const GAP: usize = 3;

/// Rows on their way to a table.
#[derive(Debug)]
pub struct Table {
    columns: Vec<Reader>,
    heads: bool,
    /// The columns of the terminal, where a wider table becomes records.
    fit: Option<usize>,
    records: usize,
    widths: Vec<usize>,
    text: String,
    ends: Vec<usize>,
}

impl Table {
    /// An empty table of these columns. One that is wider than `fit` is written as records: a line a cell, its head before
    /// it, so that a terminal does not break it up; without heads there is nothing to tell the lines apart, and it stays a
    /// table.
    pub fn new(columns: Vec<Reader>, heads: bool, fit: Option<usize>) -> Self {
        Self {
            columns,
            heads,
            fit: fit.filter(|_| heads),
            records: 0,
            widths: Vec::new(),
            text: String::new(),
            ends: Vec::new(),
        }
    }

    /// Adds a row.
    ///
    /// # Errors
    /// When the bytes are not the messages.
    pub fn add(&mut self, row: Row<'_>) -> Result<(), ValueError> {
        for column in &self.columns {
            column.write(row, &mut self.text)?;
            self.ends.push(self.text.len());
        }
        Ok(())
    }

    /// Writes the rows added since the last time; the first time with the heads. Columns only ever grow.
    ///
    /// # Errors
    /// When `out` cannot be written.
    pub fn write(&mut self, out: &mut impl Write) -> io::Result<()> {
        let count = self.columns.len();
        if count == 0 || (self.ends.is_empty() && self.widths.is_empty()) {
            return Ok(());
        }
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        let cells: Vec<&str> = starts
            .zip(&self.ends)
            .map(|(start, end)| &self.text[start..*end])
            .collect();
        let mut line = String::new();
        let is_first = self.widths.is_empty();
        if is_first {
            let head = |column: &Reader| {
                if self.heads {
                    columns_of(&column.head)
                } else {
                    0
                }
            };
            self.widths = self.columns.iter().map(head).collect();
        }
        for row in cells.chunks(count) {
            for (widest, cell) in self.widths.iter_mut().zip(row) {
                *widest = columns_of(cell).max(*widest);
            }
        }
        if self.records > 0 || (is_first && self.is_too_wide()) {
            for row in cells.chunks(count) {
                record(&self.columns, row, self.records, &mut line);
                out.write_all(line.as_bytes())?;
                line.clear();
                self.records += 1;
            }
            self.text.clear();
            self.ends.clear();
            return Ok(());
        }
        if is_first && self.heads {
            let heads: Vec<&str> = self
                .columns
                .iter()
                .map(|column| column.head.as_str())
                .collect();
            pad(&heads, &self.widths, &mut line);
            out.write_all(line.as_bytes())?;
        }
        for row in cells.chunks(count) {
            line.clear();
            pad(row, &self.widths, &mut line);
            out.write_all(line.as_bytes())?;
        }
        self.text.clear();
        self.ends.clear();
        Ok(())
    }

    fn is_too_wide(&self) -> bool {
        let gaps = GAP * self.widths.len().saturating_sub(1);
        let all = self.widths.iter().sum::<usize>() + gaps;
        self.fit.is_some_and(|fit| all > fit)
    }
}

/// A row as lines, with a blank line between two.
fn record(columns: &[Reader], row: &[&str], before: usize, lines: &mut String) {
    if before > 0 {
        lines.push('\n');
    }
    let widest = columns.iter().map(|column| columns_of(&column.head)).max();
    for (column, cell) in columns.iter().zip(row) {
        pad(&[&column.head, cell], &[widest.unwrap_or(0), 0], lines);
    }
}

/// One line: every cell but the last is padded to its column.
fn pad(row: &[&str], widths: &[usize], line: &mut String) {
    for (index, (cell, widest)) in row.iter().zip(widths).enumerate() {
        line.push_str(cell);
        if index + 1 < row.len() {
            let missing = widest.saturating_sub(columns_of(cell)) + GAP;
            line.extend(std::iter::repeat_n(' ', missing));
        }
    }
    line.push('\n');
}
