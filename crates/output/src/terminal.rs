//! The size of the terminal behind stdout, and the number of its columns that a text takes.

use rustix::fd::BorrowedFd;
use std::io::IsTerminal;
use unicode_width::UnicodeWidthStr;

/// The terminal's columns; `None` where stdout is no terminal. A terminal that does not know its size counts as 80 wide.
pub fn width() -> Option<usize> {
    size().map(|(_, columns)| columns)
}

/// The columns of the terminal in which somebody reads what stdout gets, perhaps through a pager: that behind stdout, or else
/// that behind stderr.
pub fn reading_width() -> Option<usize> {
    width().or_else(width_of_errors)
}

/// The columns of the terminal behind stderr; `None` where there is none.
pub fn width_of_errors() -> Option<usize> {
    size_of(rustix::stdio::stderr()).map(|(_, columns)| columns)
}

/// The terminal's rows and columns; `None` where stdout is no terminal.
pub fn size() -> Option<(usize, usize)> {
    size_of(rustix::stdio::stdout())
}

fn size_of(stream: BorrowedFd<'_>) -> Option<(usize, usize)> {
    if !stream.is_terminal() {
        return None;
    }
    Some(match rustix::termios::tcgetwinsize(stream) {
        Ok(size) if size.ws_col > 0 && size.ws_row > 0 => {
            (usize::from(size.ws_row), usize::from(size.ws_col))
        }
        _ => (24, 80),
    })
}

/// `text`, or what of it fits so many columns with a mark behind it.
pub fn cut(text: &str, columns: usize) -> String {
    if columns_of(text) <= columns {
        return text.to_owned();
    }
    let mut out = String::new();
    for letter in text.chars() {
        out.push(letter);
        if columns_of(&out) >= columns {
            out.pop();
            break;
        }
    }
    out + "…"
}

/// Words behind `start`, in lines of so many columns; the further ones begin `indent` columns in. No word is cut.
pub fn wrapped<T: AsRef<str>>(
    start: &str,
    indent: usize,
    words: impl IntoIterator<Item = T>,
    columns: usize,
) -> String {
    let mut out = String::new();
    let mut line = start.to_owned();
    let mut is_empty = true;
    for word in words {
        let word = word.as_ref();
        if columns_of(&line) + columns_of(word) > columns && !is_empty {
            out.push_str(line.trim_end());
            out.push('\n');
            line = " ".repeat(indent);
        }
        line.push_str(word);
        line.push(' ');
        is_empty = false;
    }
    out + line.trim_end() + "\n"
}

/// The number of a terminal's columns that `text` takes.
pub fn columns_of(text: &str) -> usize {
    if text.is_ascii() {
        text.len()
    } else {
        text.width()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_stand_in_lines_behind_their_beginning() {
        for (start, words, expected) in [
            ("a: ", "b c", "a: b c\n"),
            ("a: ", "bcd efg hi", "a: bcd efg\n   hi\n"),
            ("a: ", "bcdefghijkl m", "a: bcdefghijkl\n   m\n"),
            ("a: ", "", "a:\n"),
        ] {
            assert_eq!(wrapped(start, 3, words.split(' '), 10), expected);
        }
    }

    #[test]
    fn wide_characters_count_twice() {
        assert_eq!(columns_of("abc"), 3);
        assert_eq!(columns_of("日本"), 4);
    }
}
