//! Makes text from outside safe to show: a driver must not be able to move the cursor or recolour a terminal.

use serde_json::ser::Formatter;
use std::borrow::Cow;
use std::io::{self, Write};

/// `text` with every character escaped that a terminal would act on: control characters, and those that reorder or hide
/// what stands beside them.
pub fn escaped(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_hazardous) {
        return Cow::Borrowed(text);
    }
    let mut out = String::new();
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

/// A formatter that escapes what JSON may carry raw and a terminal would act on, such as C1 controls and directional overrides.
pub struct Escaping<F>(pub F);

macro_rules! as_inner {
    ($($name:ident($($argument:ident: $type:ty),*)),* $(,)?) => {
        $(fn $name<W: ?Sized + Write>(&mut self, writer: &mut W $(, $argument: $type)*) -> io::Result<()> {
            self.0.$name(writer $(, $argument)*)
        })*
    };
}

impl<F: Formatter> Formatter for Escaping<F> {
    fn write_string_fragment<W: ?Sized + Write>(
        &mut self,
        writer: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        if !fragment.chars().any(is_hazardous) {
            return writer.write_all(fragment.as_bytes());
        }
        for letter in fragment.chars() {
            let mut buffer = [0; 4];
            if is_hazardous(letter) {
                // All of them lie in the basic plane: one unit each.
                write!(writer, "\\u{:04x}", u32::from(letter))?;
            } else {
                writer.write_all(letter.encode_utf8(&mut buffer).as_bytes())?;
            }
        }
        Ok(())
    }

    as_inner!(
        begin_array(),
        end_array(),
        begin_array_value(first: bool),
        end_array_value(),
        begin_object(),
        end_object(),
        begin_object_key(first: bool),
        end_object_key(),
        begin_object_value(),
        end_object_value(),
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Serialize as _;

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
    fn json_stays_the_same_text_and_holds_nothing_that_a_terminal_would_act_on() {
        for (text, expected) in [
            ("plain größe \"\\", "\"plain größe \\\"\\\\\""),
            ("a\nb\x1b", "\"a\\nb\\u001b\""),
            ("del\x7f", "\"del\\u007f\""),
            ("größe\u{9b}\u{202e}x", "\"größe\\u009b\\u202ex\""),
        ] {
            let mut out = Vec::new();
            let escaping = Escaping(serde_json::ser::CompactFormatter);
            let mut serializer = serde_json::Serializer::with_formatter(&mut out, escaping);
            text.serialize(&mut serializer).expect("text");
            let json = String::from_utf8(out).expect("UTF-8");
            assert_eq!(json, expected);
            assert_eq!(serde_json::from_str::<String>(&json).expect("JSON"), text);
        }
    }
}
