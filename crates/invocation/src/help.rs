//! Help that fits the terminal, with a command's own flags first.
//!
//! clap wraps the texts of commands and flags; this does what it leaves: the texts beside names that fill a narrow terminal,
//! lines of usage, examples, and closing sentences. Owns that the flags which every command takes stand apart, behind
//! `--help-all`.

use super::parse::parse;
use clap::error::ErrorKind;
use clap::{Arg, ArgAction, Command};
use csi_output::terminal::{columns_of, reading_width, wrapped};
use std::ffi::OsString;

/// Narrower than this, texts stand below the names that they are about. clap asks for that by itself only as long as the
/// names leave room, and else writes a word a line.
const NARROW: usize = 60;

/// Wider than this, a paragraph is hard to read.
const WIDEST: usize = 100;

/// The flag that asks for the help of a command with the flags of all commands behind it.
const HELP_ALL: &str = "help-all";

/// Stands below the help of a command that leaves the flags of all commands out.
const POINTER: &str = "Flags of every command (-e ENDPOINT, -o FORMAT, -t, -v …): --help-all";

/// Joins two words that stand in one line. It is shown as a blank.
pub const JOINT: char = '\u{a0}';

/// The flag `--help-all`.
pub(crate) fn help_all() -> Arg {
    Arg::new(HELP_ALL)
        .long(HELP_ALL)
        .global(true)
        .action(ArgAction::HelpLong)
        .help("Print help with the flags that every command takes")
        // Beside --help, which clap puts at the end.
        .display_order(1000)
}

/// The columns that help takes: those of the terminal that a person reads it in, also through a pager; not more than are
/// good to read.
pub fn columns() -> usize {
    reading_width().map_or(WIDEST, |columns| columns.min(WIDEST))
}

/// The help of the commands of a tree, in so many columns.
pub struct HelpPages {
    /// The tree as it was, which has the texts of the flags that every command takes.
    whole: Command,
    /// The tree without them.
    own: Command,
    columns: usize,
}

impl HelpPages {
    /// The pages of a tree.
    pub fn new(whole: Command, columns: usize) -> Self {
        let own = whole.clone().mut_args(|flag| match is_of_all(&flag) {
            true => flag.hide(true),
            false => flag,
        });
        let mut own = own.term_width(columns).next_line_help(columns < NARROW);
        // Some commands have their flags and texts only then.
        own.build();
        Self {
            own: with_whole_examples(own),
            whole,
            columns,
        }
    }

    /// What clap answers to words that ask for help or for the version; `None` where they ask for neither. Below help stand the
    /// flags that every command takes, or where they are.
    pub fn answer<W: Into<OsString> + Clone>(&self, words: &[W]) -> Option<String> {
        let answer = parse(self.own.clone(), words.iter().cloned()).err()?;
        let text = answer.render().to_string();
        if answer.kind() == ErrorKind::DisplayVersion {
            return Some(text);
        }
        let mut words = words.iter().cloned().map(Into::into);
        let below = match words.any(|word: OsString| *word == *format!("--{HELP_ALL}")) {
            true => flags_of_all(&self.whole, self.columns),
            false => fitted(POINTER, self.columns),
        };
        Some(format!("{}\n{below}", fitted(&text, self.columns)))
    }
}

/// The commands with the lines of their examples as one word each, which clap does not break.
fn with_whole_examples(command: Command) -> Command {
    let help = command.get_after_help().map(ToString::to_string);
    let command = match help {
        Some(help) => command.after_help(whole_examples(&help)),
        None => command,
    };
    command.mut_subcommands(with_whole_examples)
}

fn whole_examples(help: &str) -> String {
    let mut in_examples = false;
    let mut out = String::with_capacity(help.len() + 64);
    for line in help.lines() {
        in_examples = goes_on(in_examples, line);
        let (indent, words) = line.split_at(line.len() - line.trim_start().len());
        out.push_str(indent);
        match in_examples {
            true => out.push_str(&words.replace(' ', &JOINT.to_string())),
            false => out.push_str(words),
        }
        out.push('\n');
    }
    out
}

/// Whether a line stands among examples, where the one before it did or did not.
fn goes_on(in_examples: bool, line: &str) -> bool {
    matches!(line, "Example:" | "Examples:") || in_examples && line.starts_with(' ')
}

/// Whether every command takes the flag.
fn is_of_all(flag: &Arg) -> bool {
    flag.is_global_set() && flag.get_id() != HELP_ALL
}

/// The flags that every command takes, under one heading.
pub fn flags_of_all(tree: &Command, columns: usize) -> String {
    let flags = tree.get_arguments().filter(|flag| is_of_all(flag));
    let mut page = Command::new("flags")
        .disable_help_flag(true)
        .help_template("Flags of every command\n\n{all-args}")
        .term_width(columns)
        .next_line_help(columns < NARROW)
        .args(flags.cloned());
    fitted(&page.render_long_help().to_string(), columns)
}

/// The text in lines of so many columns, without blank lines at its end. Lines are broken between words, and those of examples so
/// that they can be run; what goes on stands under what it goes on from.
pub fn fitted(text: &str, columns: usize) -> String {
    let mut out = String::new();
    let mut in_examples = false;
    for line in text.trim_end().lines() {
        let words = line.trim_start_matches(' ');
        let start = &line[..line.len() - words.len()];
        in_examples = goes_on(in_examples, line);
        if columns_of(line) <= columns {
            out.push_str(line);
            out.push('\n');
        } else if in_examples {
            let words = words.replace(JOINT, " ");
            for line in folded(&words, columns.saturating_sub(start.len())) {
                out.push_str(&format!("{start}{line}\n"));
            }
        } else {
            let indent = match words.strip_prefix("Usage: ") {
                Some(_) => "Usage: ".len(),
                None => start.len(),
            };
            out.push_str(&wrapped(start, indent, words.split(' '), columns));
        }
    }
    out.replace(JOINT, " ")
}

/// A command line in lines of at most `width`, where it can be broken before a flag, or else before another word.
pub fn folded(line: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    // Four blanks before a piece, and a backslash behind it.
    let is_long = |piece: &&str| columns_of(piece) + 6 > width;
    let before_flags = cut_before(line, " -").into_iter();
    let pieces = before_flags.flat_map(|piece| match is_long(&piece) {
        true => cut_before(piece, " "),
        false => vec![piece],
    });
    for piece in pieces {
        let last = lines.last().map_or(0, |line| columns_of(line));
        // A space before the piece, and a backslash behind it.
        if last > 0 && last + columns_of(piece) + 3 > width {
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

/// A command line, cut at the blanks with which `sign` begins, but not inside quotes.
fn cut_before<'a>(line: &'a str, sign: &str) -> Vec<&'a str> {
    let mut pieces = Vec::new();
    let mut start = 0;
    let mut quote = None;
    for (at, letter) in line.char_indices() {
        match (quote, letter) {
            (None, '\'' | '"') => quote = Some(letter),
            (Some(open), _) if open == letter => quote = None,
            (None, ' ') if line[at..].starts_with(sign) => {
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
    use crate::globals::with_global_flags;
    use crate::parse::with_rpcs;

    #[test]
    fn a_page_has_what_is_its_own_and_examples_that_can_be_run() {
        let page = |columns, flag: &str| {
            let pages = HelpPages::new(with_rpcs(with_global_flags(Command::new("csi"))), columns);
            let page = pages.answer(&["csi", "controller", "create-volume", flag]);
            page.unwrap()
        };
        for (columns, example) in [
            (40, "\n      --lim-bytes 20Gi \\\n"),
            (80, " --lim-bytes 20Gi \\\n      --cap 5,mount,nfs "),
        ] {
            let own = page(columns, "-h");
            assert!(own.contains("--req-bytes"), "{own}");
            assert!(!own.contains("--endpoint"), "{own}");
            assert!(own.contains(example), "{own}");
            let all = page(columns, "--help-all");
            let (own, of_all) = all.split_once("\nFlags of every command\n").unwrap();
            assert!(
                own.contains(example) && !own.contains("--endpoint"),
                "{all}"
            );
            assert!(
                of_all.contains("--endpoint") && !of_all.contains("--req-bytes"),
                "{all}"
            );
            let value = of_all.lines().find(|line| line.contains("- csv:"));
            assert!(value.is_some(), "{all}");
        }
    }

    #[test]
    fn lines_are_broken_between_words() {
        for (text, expected) in [
            ("a b\n\nc\n", "a b\n\nc\n"),
            ("one two three\n", "one two\nthree\n"),
            ("  one two three\n", "  one two\n  three\n"),
            ("Usage: a b c d\n", "Usage: a b\n       c d\n"),
            ("averyverylongword x\n", "averyverylongword\nx\n"),
            ("a b c d\u{a0}e f\n", "a b c d e\nf\n"),
            ("a b c d f\u{a0}efg\n", "a b c d\nf efg\n"),
            (
                "Examples:\n  csi a -b c\nx\n  one two\n",
                "Examples:\n  csi a \\\n      -b \\\n      c\nx\n  one two\n",
            ),
        ] {
            assert_eq!(fitted(text, 10), expected, "{text}");
        }
    }

    #[test]
    fn long_command_lines_are_broken_before_flags_and_never_in_quotes() {
        for (line, width, expected) in [
            ("csi a --b c", 40, &["csi a --b c"][..]),
            (
                "csi a --bb cc --dd ee",
                16,
                &["csi a --bb cc \\", "    --dd ee"],
            ),
            (
                "csi -e 'exec:a -- b' c",
                10,
                &["csi -e \\", "    'exec:a -- b' \\", "    c"],
            ),
        ] {
            assert_eq!(folded(line, width), expected, "{line}");
        }
    }
}
