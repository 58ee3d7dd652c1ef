//! Rows of cells in aligned columns, drawn by comfy-table: every table of this program.
//!
//! Owns the drawing alone; what stands in the cells, and whether a table fits, is decided elsewhere. Cells are safe to
//! show and hold no line breaks. No cell is wrapped or cut.

use super::colour::{Brush, Colour};
use super::terminal::columns_of;
use comfy_table::{CellAlignment, ColumnConstraint, Table, Width, presets};

/// How many rows are drawn at once. The library keeps two copies of every cell: 10,000 rows at once took 21.6 MiB.
const CHUNK: usize = 256;

/// The longest cell in bytes, and with it the widest, that is aligned: the library counts columns in 16 bits, and all
/// other rows would be filled with as many spaces.
const LONGEST: usize = 4096;

/// The columns of one table: how wide its rows made them so far.
#[derive(Debug)]
pub struct Columns {
    widths: Vec<u16>,
    gap: u16,
    /// The first column that is aligned to the right, with all after it.
    right_from: usize,
    has_long_cells: bool,
}

impl Columns {
    /// So many columns, with `gap` spaces between two.
    pub fn new(count: usize, gap: u16) -> Self {
        Self {
            widths: vec![0; count],
            gap,
            right_from: count,
            has_long_cells: false,
        }
    }

    /// Aligns the columns from this one on to the right.
    pub(crate) fn right_from(mut self, from: usize) -> Self {
        self.right_from = from;
        self
    }

    /// Makes the columns wide enough for these rows of cells. They never become narrower.
    pub(crate) fn widen<T: AsRef<str>>(&mut self, cells: &[T]) {
        for row in cells.chunks(self.widths.len().max(1)) {
            if is_long(row) {
                self.has_long_cells = true;
                continue;
            }
            for (width, cell) in self.widths.iter_mut().zip(row) {
                let cell = u16::try_from(columns_of(cell.as_ref())).unwrap_or(u16::MAX);
                *width = cell.max(*width);
            }
        }
    }

    /// How many columns of a terminal the widest row takes.
    pub fn width(&self) -> usize {
        if self.has_long_cells {
            return usize::MAX;
        }
        let gaps = usize::from(self.gap) * self.widths.len().saturating_sub(1);
        self.widths.iter().copied().map(usize::from).sum::<usize>() + gaps
    }

    /// The rows as lines. The columns must be wide enough for them.
    pub fn lines<'a, T: AsRef<str>>(&'a self, cells: &'a [T]) -> impl Iterator<Item = String> + 'a {
        let count = self.widths.len().max(1);
        let chunks = cells.chunks(count * CHUNK);
        chunks.flat_map(move |chunk| {
            let rows = chunk.chunks(count);
            let drawn = self.drawn(rows.clone());
            drawn.into_iter().zip(rows).map(|(mut line, row)| {
                if is_long(row) {
                    let cells: Vec<&str> = row.iter().map(AsRef::as_ref).collect();
                    line = cells.join(&" ".repeat(self.gap.into()));
                } else {
                    trim(&mut line, row);
                }
                line.push('\n');
                line
            })
        })
    }

    /// The line of a row with those of its cells painted that `colour` has a colour for. It is put around the finished cells,
    /// so that it takes no part in their widths. All columns must be aligned to the left.
    pub(crate) fn painted<T: AsRef<str>>(
        &self,
        line: &str,
        row: &[T],
        brush: Brush,
        colour: impl Fn(usize) -> Option<Colour>,
    ) -> String {
        let has_long_cells = is_long(row);
        let mut out = String::new();
        let mut rest = line;
        for (index, (cell, width)) in row.iter().zip(&self.widths).enumerate() {
            let cell = cell.as_ref();
            // Where a cell does not stand as it was given, the rest of the line stays as it is.
            let Some(after) = rest.strip_prefix(cell) else {
                break;
            };
            out.push_str(&match colour(index) {
                Some(colour) => brush.paint(colour, cell),
                None => cell.to_owned(),
            });
            let filling = match has_long_cells {
                true => 0,
                false => usize::from(*width).saturating_sub(columns_of(cell)),
            };
            let blanks = after.len() - after.trim_start_matches(' ').len();
            let (gap, next) = after.split_at(blanks.min(filling + usize::from(self.gap)));
            out.push_str(gap);
            rest = next;
        }
        out + rest
    }

    /// One line for each row, filled up with spaces; a row of spaces in place of one that has a long cell.
    fn drawn<'a, T: AsRef<str> + 'a>(&self, rows: impl Iterator<Item = &'a [T]>) -> Vec<String> {
        let mut table = Table::new();
        table.load_style(presets::NOTHING);
        for row in rows {
            let is_long = is_long(row);
            let cell = |cell: &'a T| if is_long { "" } else { cell.as_ref() };
            table.add_row(row.iter().map(cell));
        }
        for (column, width) in table.column_iter_mut().zip(&self.widths) {
            column.set_padding((0, self.gap));
            column.set_constraint(ColumnConstraint::Absolute(Width::Fixed(width + self.gap)));
            if column.index >= self.right_from {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        table.lines().collect()
    }
}

/// Whole tables: rows as lines, in columns that are as wide as these rows need.
pub fn aligned<T: AsRef<str>>(mut columns: Columns, cells: &[T]) -> String {
    columns.widen(cells);
    columns.lines(cells).collect()
}

fn is_long<T: AsRef<str>>(row: &[T]) -> bool {
    row.iter().any(|cell| cell.as_ref().len() > LONGEST)
}

/// Takes the filling off the end of a line, but not the spaces with which its last cell ends.
fn trim<T: AsRef<str>>(line: &mut String, row: &[T]) {
    let end = |text: &str| text.trim_end_matches(' ').len();
    let last = row.last().map_or("", AsRef::as_ref);
    let own = match end(last) {
        0 => 0,
        end => last.len() - end,
    };
    line.truncate(end(line) + own);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell_and_lines_end_without_filling() {
        let cells = ["ID", "SIZE", "日本", "10Gi", "a", ""];
        assert_eq!(
            aligned(Columns::new(2, 3), &cells),
            "ID     SIZE\n日本   10Gi\na\n"
        );
        assert_eq!(
            aligned(Columns::new(2, 2).right_from(1), &cells),
            "ID    SIZE\n日本  10Gi\na\n"
        );
        assert_eq!(aligned(Columns::new(2, 3), &["a", "  "]), "a\n");
        assert_eq!(aligned(Columns::new(0, 3), &[""; 0]), "");
    }

    #[test]
    fn a_table_is_as_wide_as_its_columns_and_gaps() {
        let mut columns = Columns::new(3, 2);
        columns.widen(&["a", "日", "c", "aa", "b", "c"]);
        assert_eq!(columns.width(), 2 + 2 + 2 + 2 + 1);
        // No terminal is wide enough.
        columns.widen(&["a", &"b".repeat(LONGEST + 1), "c"]);
        assert_eq!(columns.width(), usize::MAX);
        assert_eq!(Columns::new(0, 2).width(), 0);
    }

    #[test]
    fn columns_grow_from_page_to_page_and_nothing_wraps() {
        let mut columns = Columns::new(2, 1);
        let mut page = |cells: [&str; 2]| {
            columns.widen(&cells);
            columns.lines(&cells).collect::<String>()
        };
        assert_eq!(page(["a", "b"]), "a b\n");
        assert_eq!(page(["wide one", "b c d"]), "wide one b c d\n");
        assert_eq!(page(["a", "b"]), "a        b\n");
    }

    #[test]
    fn colour_stands_around_finished_cells() {
        let cells = ["ID", "CONDITION", "日本", "ok", "a", "abnormal: x"];
        let mut columns = Columns::new(2, 3);
        columns.widen(&cells);
        let lines: Vec<String> = columns.lines(&cells).collect();
        let colour = |index| (index == 1).then_some(Colour::Green);
        for ((line, row), expected) in lines.iter().zip(cells.chunks(2)).zip([
            "ID     \x1b[32mCONDITION\x1b[0m\n",
            "日本   \x1b[32mok\x1b[0m\n",
            "a      \x1b[32mabnormal: x\x1b[0m\n",
        ]) {
            assert_eq!(columns.painted(line, row, Brush(true), colour), expected);
            assert_eq!(columns.painted(line, row, Brush(false), colour), *line);
        }
    }

    #[test]
    fn a_cell_that_begins_with_spaces_is_painted_with_them() {
        let long = "x".repeat(LONGEST + 1);
        let cells = ["ID", "", "a", " ok", &long, " ok"];
        let mut columns = Columns::new(2, 3);
        columns.widen(&cells);
        let lines: Vec<String> = columns.lines(&cells).collect();
        for (line, row) in lines.iter().zip(cells.chunks(2)).skip(1) {
            let painted = columns.painted(line, row, Brush(true), |index| {
                (index == 1).then_some(Colour::Green)
            });
            let end = painted.trim_start_matches(['a', 'x', ' ']);
            assert_eq!(end, "\x1b[32m ok\x1b[0m\n");
        }
    }

    #[test]
    fn a_very_long_cell_is_whole_and_widens_no_other_row() {
        let long = "x ".repeat(70_000);
        let cells = ["a", "b", &long, "c", "aa", "b"];
        let expected = format!("a    b\n{long}   c\naa   b\n");
        assert_eq!(aligned(Columns::new(2, 3), &cells), expected);
    }

    #[test]
    fn a_table_of_many_chunks_has_one_width() {
        let mut cells: Vec<String> = (0..2 * CHUNK).map(|_| "a".to_owned()).collect();
        cells.push("the last is the widest".to_owned());
        cells.push("b".to_owned());
        let text = aligned(Columns::new(2, 1), &cells);
        assert_eq!(text.lines().count(), CHUNK + 1);
        let first = format!("a{}a", " ".repeat(22));
        assert!(text.lines().take(CHUNK).all(|line| line == first), "{text}");
    }

    proptest! {
        #[test]
        fn every_cell_stands_whole_in_its_row(
            cells in proptest::collection::vec("[^\\p{Cc}]{0,40}", 1..12),
            right in 0usize..4,
        ) {
            let cells = &cells[..cells.len() / 3 * 3];
            let text = aligned(Columns::new(3, 2).right_from(right), cells);
            prop_assert_eq!(text.matches('\n').count(), cells.len() / 3);
            for (line, row) in text.split('\n').zip(cells.chunks(3)) {
                let mut rest = line;
                for cell in row {
                    let cell = if cell.trim_matches(' ').is_empty() { "" } else { cell.as_str() };
                    let at = rest.find(cell);
                    prop_assert!(at.is_some(), "{:?} in {:?}", cell, line);
                    rest = &rest[at.unwrap_or(0) + cell.len()..];
                }
                prop_assert_eq!(rest.trim_matches(' '), "", "{:?}", line);
            }
        }
    }
}
