//! `help`: an overview on one screen, one command with its own flags first, and the flags that all commands take.

use super::builtins::{Builtin, tree};
use clap::{Command, Subcommand};
use csi_invocation::Program;
use csi_invocation::help::{self, HelpPages};
use csi_output::terminal::{columns_of, wrapped};
use csi_rpc::GROUPS;

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
    use crate::PROGRAM;

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
}
