//! `help`: an overview on one screen, one command with its own flags first, and the flags that all commands take.

use super::builtins::{Builtin, tree};
use crate::invocation::defaults::Program;
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
    "Tab completes, the driver's own ids too. Ctrl-D leaves.",
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
pub fn flags(program: Program) -> String {
    let root = tree(program);
    let mut page = Command::new("flags")
        .disable_help_flag(true)
        .override_usage("COMMAND [FLAG…]");
    for flag in root.get_arguments() {
        page = page.arg(flag.clone());
    }
    page.render_help().to_string()
}

/// The tree for help: the flags that all commands take are left to `help flags`.
pub fn own_flags(program: Program) -> Command {
    tree(program).mut_args(|flag| flag.hide(true))
}

/// What stands below the help of a command.
pub const MORE: &str =
    "\nCOMMAND --help tells more; help flags: the flags that every command takes\n";

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
        let words = ["identity", "probe", "-h"];
        let error = own_flags(PROGRAM).try_get_matches_from(words).unwrap_err();
        let page = error.render().to_string();
        assert!(page.contains("--request"), "{page}");
        assert!(!page.contains("--timeout"), "{page}");
        let page = flags(PROGRAM);
        assert!(page.contains("--timeout"), "{page}");
        assert!(!page.contains("--request"), "{page}");
    }
}
