//! `help`: an overview on one screen, one command with its own flags first, and the flags that all commands take.

use super::builtins::{Builtin, tree};
use crate::invocation::defaults::Program;
use crate::invocation::help::{self, HelpPages};
use crate::output::terminal::{columns_of, wrapped};
use crate::rpc::GROUPS;
use clap::{Command, Subcommand};

/// How far the names of an entry stand in.
const INDENT: usize = 20;

/// The text of `help` alone, in so many columns.
pub fn overview(program: Program, columns: usize) -> String {
    let shown = |command: &&Command| !command.is_hide_set() && command.get_name() != "help";
    let own = Builtin::augment_subcommands(Command::new("own"));
    let own: Vec<&str> = own.get_subcommands().map(Command::get_name).collect();
    let root = tree(program);
    let tools: Vec<&str> = root
        .get_subcommands()
        .filter(shown)
        .map(Command::get_name)
        .filter(|name| !own.contains(name) && GROUPS.iter().all(|group| group.name != *name))
        .collect();
    let mut page = String::from("RPCs of the driver\n");
    for group in GROUPS {
        let verbs: Vec<&str> = group.rpcs.iter().map(|rpc| rpc.verb()).collect();
        page.push_str(&entry(group.name, &verbs, columns));
    }
    page.push_str(&entry("Tools", &tools, columns));
    page.push_str(&entry("The shell's own", &own, columns));
    page.push('\n');
    for sentence in CLOSING {
        page.push_str(&wrapped("", 0, sentence.split(' '), columns));
    }
    page
}

const CLOSING: [&str; 4] = [
    "help COMMAND tells about a command, help flags about the flags of all.",
    "$_ is the last reply; name = COMMAND keeps one; $name.volume is a part of it.",
    "Quotes, # comments, ; > and | are as in other shells.",
    "Tab completes, ids too. psql's \\q, \\d, \\x and others are known. Ctrl-D leaves.",
];

/// A heading with names behind it.
fn entry(heading: &str, names: &[&str], columns: usize) -> String {
    let last = names.len().saturating_sub(1);
    let names = names.iter().enumerate().map(|(index, name)| {
        let comma = if index < last { "," } else { "" };
        format!("{name}{comma}")
    });
    // In a narrow terminal the names begin in a line of their own.
    let indent = if columns < 3 * INDENT { 4 } else { INDENT };
    let heading = format!("  {heading:<width$}", width = indent - 2);
    match columns_of(&heading) > indent {
        true => format!(
            "{}\n{}",
            heading.trim_end(),
            wrapped(&" ".repeat(indent), indent, names, columns)
        ),
        false => wrapped(&heading, indent, names, columns),
    }
}

/// The text of `help flags`: what every command takes.
pub fn flags(program: Program, columns: usize) -> String {
    help::flags_of_all(&tree(program), columns)
}

/// The help of all commands, with a command's own flags first.
pub fn pages(program: Program, columns: usize) -> HelpPages {
    HelpPages::new(tree(program), columns)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::PROGRAM;

    #[test]
    fn what_there_is_fits_one_screen() {
        let page = overview(PROGRAM, 80);
        assert!(page.lines().count() <= 23, "{page}");
        for columns in [40, 80, 200] {
            let page = overview(PROGRAM, columns);
            let widest = page.lines().map(columns_of).max();
            assert!(widest <= Some(columns), "{page}");
            for word in ["create-volume,", "lifecycle", "defer", "Ctrl-D leaves."] {
                assert!(page.contains(word), "{word}\n{page}");
            }
        }
    }

    #[test]
    fn a_command_has_its_own_flags_and_another_page_those_of_all() {
        let words = ["identity", "probe", "-h"].map(str::to_owned);
        let page = pages(PROGRAM, 80).answer(&words).unwrap();
        assert!(page.contains("--request"), "{page}");
        assert!(!page.contains("--timeout"), "{page}");
        let page = flags(PROGRAM, 80);
        assert!(page.contains("--timeout"), "{page}");
        assert!(!page.contains("--request"), "{page}");
    }

    /// The words of every command that is shown.
    fn commands(command: &Command, before: &[String], all: &mut Vec<Vec<String>>) {
        for inner in command.get_subcommands() {
            let name = inner.get_name();
            if inner.is_hide_set() || name == "help" || before.len() > 2 {
                continue;
            }
            let words = [before, &[name.to_owned()]].concat();
            // Some have their flags and commands only once they are built.
            let mut inner = inner.clone();
            inner.build();
            all.push(words.clone());
            commands(&inner, &words, all);
        }
    }

    #[test]
    fn no_help_is_wider_than_the_terminal() {
        let mut all = Vec::new();
        commands(&tree(PROGRAM), &[], &mut all);
        assert!(all.len() > 70, "{all:?}");
        for columns in [40, 80] {
            let help = super::pages(PROGRAM, columns);
            let mut pages = vec![flags(PROGRAM, columns)];
            for words in &all {
                for flag in ["-h", "--help", "--help-all"] {
                    let asked = [words.as_slice(), &[flag.to_owned()]].concat();
                    let page = help.answer(&asked).unwrap();
                    // The command is there, and not another's error.
                    let name = words.last().unwrap();
                    assert!(page.contains(name.as_str()), "{words:?}\n{page}");
                    pages.push(page);
                }
            }
            for page in &pages {
                for line in page.lines() {
                    // What stands in quotes is one word.
                    let words = line.trim_start().trim_end_matches(" \\");
                    let is_quoted = ['\'', '"'].iter().any(|quote| {
                        let inner = words
                            .strip_prefix(*quote)
                            .and_then(|rest| rest.strip_suffix(*quote));
                        inner.is_some_and(|inner| !inner.contains(*quote))
                    });
                    let is_a_word = is_quoted || !words.contains(' ');
                    assert!(is_a_word || columns_of(line) <= columns, "{line:?}\n{page}");
                }
                // No text stands word by word below a name that left it no room.
                let single = |line: &&str| line.starts_with("    ") && !line.trim().contains(' ');
                let lines: Vec<&str> = page.lines().filter(|line| !line.is_empty()).collect();
                let fits = |four: &[&str]| {
                    let words: usize = four.iter().map(|line| columns_of(line.trim())).sum();
                    four.iter().all(single) && words + 14 < columns
                };
                let column = lines.windows(4).find(|four| fits(four));
                assert!(column.is_none(), "{column:?}\n{page}");
            }
        }
    }
}
