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
}
