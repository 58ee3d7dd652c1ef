//! Rows in columns like kubectl's, as records, or as CSV.
//!
//! Owns which of them it is. Columns have no borders, upper-case heads, and are as wide as the rows printed so far need. A
//! page's cells stand in one text with their ends beside it, so that 10,000 rows cost little more than their letters.

use super::cell::{Reader, Row, RowJson};
use super::colour::{Brush, Colour};
use super::columns::Columns;
use super::reply::{Format, Options};
use super::terminal::columns_of;
use csi_proto::value::ValueError;
use std::borrow::Cow;
use std::io::{self, Write};

/// Spaces between two columns.
const GAP: u16 = 3;

/// Rows on their way out.
#[derive(Debug)]
pub struct Table {
    readers: Vec<Reader>,
    /// The head of a column before those of the readers.
    lead: Option<&'static str>,
    heads: bool,
    /// Whether the heads are there without rows too.
    heads_alone: bool,
    brush: Brush,
    shape: Shape,
    /// Whether something is written.
    has_begun: bool,
    columns: Columns,
    text: String,
    ends: Vec<usize>,
}

/// The shape of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    /// A line a row, in columns that are aligned.
    Columns,
    /// The same as long as rows fit so many columns of a terminal, and records from the first page on that has a wider one:
    /// a terminal would break its lines up.
    ColumnsWithin(usize),
    /// A line a cell, its head before it, and a blank line between two rows. Without their heads nothing would tell the lines
    /// apart, so they have them always, as psql's have.
    Records,
    /// As RFC 4180 has it; perhaps for a terminal.
    Csv { is_terminal: bool },
}

impl Shape {
    /// The shape that is asked for: the one rule, in a terminal, behind a pipe and in the shell.
    fn asked(options: &Options) -> Self {
        match (options.format, options.records, options.terminal) {
            (Format::Csv, _, terminal) => Self::Csv {
                is_terminal: terminal.is_some(),
            },
            (Format::Records, ..) | (_, Some(true), _) => Self::Records,
            (_, None, Some(columns)) => Self::ColumnsWithin(columns),
            (_, Some(false), _) | (_, _, None) => Self::Columns,
        }
    }
}

impl Table {
    /// An empty table of these columns, as the options shape it.
    pub fn new(readers: Vec<Reader>, options: &Options) -> Self {
        Self {
            columns: Columns::new(readers.len(), GAP),
            readers,
            lead: None,
            heads: !options.no_headers,
            heads_alone: matches!(options.format, Format::Csv | Format::CustomColumns),
            brush: Brush(options.colour),
            shape: Shape::asked(options),
            has_begun: false,
            text: String::new(),
            ends: Vec::new(),
        }
    }

    /// Puts a column of this head before all others, with room for `widest`; its cells are given with the rows.
    pub(crate) fn lead_with(&mut self, head: &'static str, widest: &str) {
        self.lead = Some(head);
        self.columns = Columns::new(self.readers.len() + 1, GAP);
        self.columns.widen(&[widest]);
    }

    /// Adds a row with its cell for the column before all others.
    ///
    /// # Errors
    /// When the bytes are not the messages.
    pub(crate) fn add_led(&mut self, cell: &str, row: Row<'_>) -> Result<(), ValueError> {
        self.text.push_str(cell);
        self.ends.push(self.text.len());
        self.add(row)
    }

    /// Whether it had no row so far.
    pub fn is_empty(&self) -> bool {
        !self.has_begun && self.ends.is_empty()
    }

    /// Adds a row.
    ///
    /// # Errors
    /// When the bytes are not the messages.
    pub fn add(&mut self, row: Row<'_>) -> Result<(), ValueError> {
        let json = RowJson::new();
        for reader in &self.readers {
            match self.shape {
                Shape::Csv { is_terminal } => {
                    reader.write_bare(row, &json, is_terminal, &mut self.text)?;
                }
                _ => reader.write(row, &json, &mut self.text)?,
            }
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
    pub fn write(&mut self, out: &mut impl Write) -> io::Result<()> {
        if self.ends.is_empty() {
            return Ok(());
        }
        self.put(out)
    }

    /// Ends the table: without rows some have heads all the same.
    pub fn finish(&mut self, out: &mut impl Write) -> io::Result<()> {
        match self.heads_alone && !self.has_begun && !self.readers.is_empty() {
            true => self.put(out),
            false => Ok(()),
        }
    }

    fn put(&mut self, out: &mut impl Write) -> io::Result<()> {
        let heads = self.readers.iter().map(|reader| reader.head.as_str());
        let heads: Vec<&str> = self.lead.into_iter().chain(heads).collect();
        let mut cells: Vec<&str> = Vec::with_capacity(heads.len() + self.ends.len());
        let is_first = !self.has_begun;
        let has_heads = is_first && self.heads;
        if has_heads {
            cells.extend(&heads);
        }
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        cells.extend(
            starts
                .zip(&self.ends)
                .map(|(start, end)| &self.text[start..*end]),
        );
        let count = heads.len().max(1);
        self.columns.widen(&cells);
        if let Shape::ColumnsWithin(most) = self.shape
            && self.columns.width() > most
        {
            self.shape = Shape::Records;
        }
        match self.shape {
            Shape::Columns | Shape::ColumnsWithin(_) => {
                let rows = cells.chunks(count).enumerate();
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
            }
            Shape::Records => {
                let rows = cells[if has_heads { heads.len() } else { 0 }..].chunks(count);
                for (index, row) in rows.enumerate() {
                    if index > 0 || !is_first {
                        out.write_all(b"\n")?;
                    }
                    let colour = |index: usize| self.colour(index, row);
                    out.write_all(record(&heads, row, self.brush, colour).as_bytes())?;
                }
            }
            Shape::Csv { .. } => {
                for row in cells.chunks(count) {
                    out.write_all(csv_line(row).as_bytes())?;
                }
            }
        }
        self.has_begun = true;
        self.text.clear();
        self.ends.clear();
        Ok(())
    }
}

/// A line of CSV. A cell is in quotes where it holds a comma, a quote or a line break.
fn csv_line(row: &[&str]) -> String {
    let cells = row
        .iter()
        .map(|cell| match cell.contains([',', '"', '\r', '\n']) {
            true => Cow::Owned(format!("\"{}\"", cell.replace('"', "\"\""))),
            false => Cow::Borrowed(*cell),
        });
    // A line that is empty could be no row at all.
    match row {
        [""] => "\"\"\r\n".to_owned(),
        _ => cells.collect::<Vec<_>>().join(",") + "\r\n",
    }
}

/// Rows of finished cells below their heads, or as records where they do not fit so many columns of a terminal.
pub fn of_cells(
    heads: &[&str],
    cells: &[String],
    terminal: Option<usize>,
    has_heads: bool,
) -> String {
    let mut columns = Columns::new(heads.len(), GAP);
    if has_heads {
        columns.widen(heads);
    }
    columns.widen(cells);
    let rows = cells.chunks(heads.len().max(1));
    if terminal.is_some_and(|most| columns.width() > most) {
        let records = rows.map(|cells| {
            let cells: Vec<&str> = cells.iter().map(String::as_str).collect();
            record(heads, &cells, Brush(false), |_| None)
        });
        return records.collect::<Vec<_>>().join("\n");
    }
    let heads = if has_heads { heads } else { &[] };
    columns.lines(heads).chain(columns.lines(cells)).collect()
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
        if !cell.is_empty() {
            lines.extend(std::iter::repeat_n(' ', widest - columns_of(head)));
        }
        match colour(index) {
            Some(colour) => lines.push_str(&brush.paint(colour, cell)),
            None => lines.push_str(cell),
        }
        lines.push('\n');
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shape_follows_from_the_format_the_setting_and_the_terminal() {
        for (format, records, terminal, expected) in [
            (Format::Table, None, None, Shape::Columns),
            (Format::Table, None, Some(80), Shape::ColumnsWithin(80)),
            (Format::Wide, None, Some(80), Shape::ColumnsWithin(80)),
            (Format::Table, Some(true), Some(80), Shape::Records),
            (Format::Table, Some(true), None, Shape::Records),
            (Format::Table, Some(false), Some(80), Shape::Columns),
            (Format::Records, None, None, Shape::Records),
            (Format::Records, Some(false), Some(80), Shape::Records),
            (
                Format::Csv,
                None,
                Some(80),
                Shape::Csv { is_terminal: true },
            ),
            (
                Format::Csv,
                Some(true),
                None,
                Shape::Csv { is_terminal: false },
            ),
            (Format::CustomColumns, None, None, Shape::Columns),
            (
                Format::CustomColumns,
                None,
                Some(80),
                Shape::ColumnsWithin(80),
            ),
        ] {
            let options = Options {
                format,
                records,
                terminal,
                ..Options::default()
            };
            assert_eq!(Shape::asked(&options), expected, "{options:?}");
        }
    }

    #[test]
    fn finished_cells_are_columns_or_records_as_they_fit() {
        let cells = ["a", "", "b", "long"].map(str::to_owned);
        let columns = "ID   X\na\nb    long\n";
        assert_eq!(of_cells(&["ID", "X"], &cells, Some(9), true), columns);
        assert_eq!(of_cells(&["ID", "X"], &cells, None, true), columns);
        let records = "ID   a\nX\n\nID   b\nX    long\n";
        assert_eq!(of_cells(&["ID", "X"], &cells, Some(8), true), records);
        let rows = "a\nb   long\n";
        assert_eq!(of_cells(&["ID", "X"], &cells, None, false), rows);
    }

    #[test]
    fn a_line_of_csv_is_quoted_as_rfc_4180_says() {
        for (row, expected) in [
            (&["a", "b c"][..], "a,b c\r\n"),
            (&["a,b", ""], "\"a,b\",\r\n"),
            (&["say \"x\"", "1\n2"], "\"say \"\"x\"\"\",\"1\n2\"\r\n"),
            (&[""], "\"\"\r\n"),
        ] {
            assert_eq!(csv_line(row), expected);
        }
    }
}
