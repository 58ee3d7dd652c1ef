//! Text that came from outside, made safe to show: a driver must not be able to move the cursor or recolour a terminal.

use std::borrow::Cow;
use unicode_width::UnicodeWidthStr;

/// `text` with every character escaped that a terminal would act on: control characters, and those that reorder or hide
/// what stands beside them.
pub fn escaped(text: &str) -> Cow<'_, str> {
    if text.bytes().all(|byte| (0x20..0x7f).contains(&byte)) {
        return Cow::Borrowed(text);
    }
    if !text.chars().any(is_hazardous) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 8);
    for letter in text.chars() {
        if is_hazardous(letter) {
            out.extend(letter.escape_default());
        } else {
            out.push(letter);
        }
    }
    Cow::Owned(out)
}

/// Whether a terminal would act on the character.
pub fn is_hazardous(letter: char) -> bool {
    letter.is_control()
        || matches!(letter,
            // Directional marks, embeddings, overrides and isolates.
            '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
            // Line and paragraph separators, which some terminals and log viewers break lines at.
            | '\u{2028}' | '\u{2029}' | '\u{feff}')
}

/// How many columns of a terminal `text` takes.
pub fn width(text: &str) -> usize {
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
    fn what_a_terminal_would_act_on_is_escaped() {
        for (text, expected) in [
            ("plain", "plain"),
            ("größe", "größe"),
            ("\x1b[31mred", "\\u{1b}[31mred"),
            ("a\nb\tc\r", "a\\nb\\tc\\r"),
            ("\u{9b}31m", "\\u{9b}31m"),
            ("\u{202e}txt", "\\u{202e}txt"),
        ] {
            assert_eq!(escaped(text), expected);
        }
    }

    #[test]
    fn wide_characters_count_twice() {
        assert_eq!(width("abc"), 3);
        assert_eq!(width("日本"), 4);
    }
}
