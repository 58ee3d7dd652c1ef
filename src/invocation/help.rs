//! Help that fits the terminal. clap wraps the texts of commands and flags; this does what it leaves: the texts beside names
//! that fill a narrow terminal, lines of usage, and closing sentences.

use crate::output::terminal::{columns_of, wrapped};
use clap::Command;

/// Narrower than this, texts stand below the names that they are about. clap asks for that by itself only as long as the
/// names leave room, and else writes a word a line.
const NARROW: usize = 60;

/// The tree, for help in so many columns; none for no terminal.
pub fn for_columns(tree: Command, columns: Option<usize>) -> Command {
    match columns {
        Some(columns) if columns < NARROW => tree.next_line_help(true),
        _ => tree,
    }
}

/// The text in lines of so many columns. Lines are broken between words; what goes on stands under what it goes on from.
pub fn fitted(text: &str, columns: usize) -> String {
    let mut out = String::new();
    for line in text.lines() {
        if columns_of(line) <= columns {
            out.push_str(line);
            out.push('\n');
            continue;
        }
        let words = line.trim_start_matches(' ');
        let indent = match words.strip_prefix("Usage: ") {
            Some(_) => "Usage: ".len(),
            None => line.len() - words.len(),
        };
        let start = &line[..line.len() - words.len()];
        out.push_str(&wrapped(start, indent, words.split(' '), columns));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_broken_between_words() {
        for (text, expected) in [
            ("a b\n\nc\n", "a b\n\nc\n"),
            ("one two three\n", "one two\nthree\n"),
            ("  one two three\n", "  one two\n  three\n"),
            ("Usage: a b c d\n", "Usage: a b\n       c d\n"),
            ("averyverylongword x\n", "averyverylongword\nx\n"),
        ] {
            assert_eq!(fitted(text, 10), expected, "{text}");
        }
    }
}
