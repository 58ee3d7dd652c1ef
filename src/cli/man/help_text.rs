//! Splits the text after a command's help for its manual page: notes, examples, exit codes.

/// The parts of the text after a command's help.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct HelpText {
    /// The paragraphs of prose.
    pub notes: Vec<String>,
    /// The command lines of the examples.
    pub examples: Vec<String>,
    /// The meaning of the exit codes that are this command's own.
    pub exit_codes: Option<String>,
}

impl HelpText {
    /// Reads `text`: examples are the indented lines below a line `Examples:`, exit codes stand behind `Exit codes:` up to
    /// the end of the paragraph.
    pub fn read(text: &str) -> Self {
        let mut read = Self::default();
        let mut paragraph = String::new();
        let mut in_examples = false;
        for line in text.lines().chain([""]) {
            if matches!(line, "Examples:" | "Example:") {
                read.end(&mut paragraph);
                in_examples = true;
            } else if in_examples && line.starts_with(' ') {
                read.examples.push(line.trim().to_owned());
            } else if line.is_empty() {
                read.end(&mut paragraph);
            } else {
                in_examples = false;
                if !paragraph.is_empty() {
                    paragraph.push(' ');
                }
                paragraph.push_str(line.trim());
            }
        }
        read
    }

    fn end(&mut self, paragraph: &mut String) {
        let whole = std::mem::take(paragraph);
        let (note, codes) = match whole.split_once("Exit codes:") {
            Some((note, codes)) => (note, Some(codes)),
            None => (whole.as_str(), None),
        };
        if !note.trim().is_empty() {
            self.notes.push(note.trim().to_owned());
        }
        if let Some(codes) = codes {
            self.exit_codes = Some(codes.trim().to_owned());
        }
    }
}

/// A command line in lines of at most `width` where it can be broken before a flag.
pub fn folded(line: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for piece in pieces(line) {
        let last = lines.last().map_or(0, |line| line.chars().count());
        // A space before the piece, and a backslash behind it.
        if last > 0 && last + piece.chars().count() + 3 > width {
            if let Some(last) = lines.last_mut() {
                last.push_str(" \\");
            }
            lines.push(format!("    {piece}"));
        } else if let Some(last) = lines.last_mut() {
            if !last.is_empty() {
                last.push(' ');
            }
            last.push_str(piece);
        }
    }
    lines
}

/// A command line, cut before its flags, but not inside quotes.
fn pieces(line: &str) -> Vec<&str> {
    let mut pieces = Vec::new();
    let mut start = 0;
    let mut quote = None;
    for (at, letter) in line.char_indices() {
        match (quote, letter) {
            (None, '\'' | '"') => quote = Some(letter),
            (Some(open), _) if open == letter => quote = None,
            (None, ' ') if line[at..].starts_with(" -") => {
                pieces.push(&line[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    pieces.push(&line[start..]);
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_examples_and_exit_codes_are_told_apart() {
        let text = "RPC: a; specification: b\nExamples:\n  csi a\n  csi b --c\n";
        let read = HelpText::read(text);
        assert_eq!(read.notes, ["RPC: a; specification: b"]);
        assert_eq!(read.examples, ["csi a", "csi b --c"]);
        assert_eq!(read.exit_codes, None);

        let text = "One\ntwo.\n\nExample:\n  csi x\n\nThree. Exit codes: 0 well,\n3 not.";
        let read = HelpText::read(text);
        assert_eq!(read.notes, ["One two.", "Three."]);
        assert_eq!(read.examples, ["csi x"]);
        assert_eq!(read.exit_codes.as_deref(), Some("0 well, 3 not."));
        assert_eq!(HelpText::read(""), HelpText::default());
    }

    #[test]
    fn long_command_lines_are_broken_before_flags_and_never_in_quotes() {
        assert_eq!(folded("csi a --b c", 40), ["csi a --b c"]);
        assert_eq!(
            folded("csi a --bb cc --dd ee", 16),
            ["csi a --bb cc \\", "    --dd ee"]
        );
        let quoted = "csi -e 'exec:a -- b' c";
        assert_eq!(folded(quoted, 10), ["csi \\", "    -e 'exec:a -- b' c"]);
    }
}
