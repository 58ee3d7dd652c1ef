//! The manual page of each command, made from the tree of commands.
//!
//! clap_mangen words the name, the synopsis, the description, the flags and the inner commands. Global flags are described
//! once, in the page of the program.

use super::environment::heeded;
use super::help_text::HelpText;
use clap::{Arg, Command};
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};
use csi_error::{Style, exit_codes};
use csi_invocation::help::folded;
use csi_rpc::GROUPS;

/// How wide a line of an example may be: a terminal's 80 columns without the page's indent.
const WIDTH: usize = 72;

/// The page of a command.
pub struct Page {
    /// The command's words, joined by `-`.
    pub name: String,
    /// The page as roff.
    pub text: Vec<u8>,
}

/// The pages of a program and of all its commands.
pub fn pages(tree: Command) -> Vec<Page> {
    let mut tree = tree.disable_help_subcommand(true);
    tree.build();
    let mut pages = Vec::new();
    add(&[&tree], &mut pages);
    pages
}

/// Adds the page of the last of these commands, each of which stands in the one before, and those of its inner commands.
fn add(path: &[&Command], pages: &mut Vec<Page>) {
    let Some(command) = path.last() else { return };
    pages.push(Page {
        name: joined(path, "-"),
        text: page(path),
    });
    for inner in inner_commands(path, command) {
        add(&[path, &[inner]].concat(), pages);
    }
}

/// The inner commands that have a page.
fn inner_commands<'a>(
    path: &[&Command],
    command: &'a Command,
) -> impl Iterator<Item = &'a Command> {
    let is_root = path.len() == 1;
    command
        .get_subcommands()
        .filter(move |inner| has_page(inner, is_root))
}

/// Not an RPC below a tool, which loads it: it has its page as a command.
fn has_page(command: &Command, below_root: bool) -> bool {
    let is_group = GROUPS.iter().any(|group| group.name == command.get_name());
    !command.is_hide_set() && (below_root || !is_group)
}

fn joined(path: &[&Command], separator: &str) -> String {
    let names: Vec<&str> = path.iter().map(|command| command.get_name()).collect();
    names.join(separator)
}

fn page(path: &[&Command]) -> Vec<u8> {
    let (Some(root), Some(command)) = (path.first(), path.last()) else {
        return Vec::new();
    };
    let is_root = path.len() == 1;
    let help = help_of(command);
    let mut roff = Roff::new();
    title(root, path, &mut roff);
    // A vector takes every byte.
    let mut text = Vec::new();
    let _ = roff.to_writer(&mut text);
    let man = Man::new(pruned(path));
    let _ = man.render_name_section(&mut text);
    let _ = man.render_synopsis_section(&mut text);
    let _ = man.render_description_section(&mut text);
    let mut notes = Roff::new();
    for note in &help.notes {
        notes.control("PP", []);
        notes.text([roman(note)]);
    }
    let _ = notes.to_writer(&mut text);
    let has_flags = command.get_arguments().any(|arg| is_own(arg, path));
    if has_flags {
        let _ = man.render_options_section(&mut text);
    }
    if inner_commands(path, command).next().is_some() {
        let _ = man.render_subcommands_section(&mut text);
    }
    let mut rest = Roff::new();
    global_flags(path, &mut rest);
    exit_status(&help, path, &mut rest);
    environment(command, is_root, &mut rest);
    examples(path, &mut rest);
    see_also(path, &mut rest);
    let _ = rest.to_writer(&mut text);
    // Each of the library's documents begins with the same definitions; a page needs them once.
    let definitions = Roff::new().render();
    let text = String::from_utf8_lossy(&text).replace(&definitions, "");
    (definitions + &text).into_bytes()
}

fn help_of(command: &Command) -> HelpText {
    let help = command.get_after_long_help().or(command.get_after_help());
    HelpText::read(&help.map(ToString::to_string).unwrap_or_default())
}

/// The page's head and foot. The head has a short name twice and the command between them, so that it fits a terminal.
fn title(root: &Command, path: &[&Command], roff: &mut Roff) {
    let name = root.get_name();
    let version = root.get_version().unwrap_or_default();
    let (title, source) = (name.to_uppercase(), format!("{name} {version}"));
    let command = joined(path, " ");
    // No date: two builds make the same page. Names of flags are not hyphenated, nor words pushed apart.
    roff.control("TH", [title.as_str(), "1", "\"\"", &source, &command]);
    roff.control("nh", []);
    roff.control("ad", ["l"]);
}

/// The command without what other pages describe.
fn pruned(path: &[&Command]) -> Command {
    let command = path.last().map(|command| (*command).clone());
    let command = command.unwrap_or_default().mut_args(|arg| {
        let hidden = !is_own(&arg, path);
        // A page has all of the long help. The library would leave the text of a flag out that the short help hides.
        arg.hide(hidden).hide_short_help(false)
    });
    let command = command.mut_subcommands(|inner| {
        let hidden = !has_page(&inner, path.len() == 1);
        inner.hide(hidden)
    });
    command
        .subcommand_value_name("command")
        .subcommand_help_heading("COMMANDS")
}

/// Whether the page of the last command describes this flag or argument of it: not one that an outer command has already.
fn is_own(arg: &Arg, path: &[&Command]) -> bool {
    let outer = path.iter().rev().nth(1);
    let is_outer = outer.is_some_and(|outer| {
        let mut args = outer.get_arguments();
        (arg.is_global_set() || arg.get_id() == "help")
            && args.any(|one| one.get_id() == arg.get_id())
    });
    !arg.is_hide_set() && !is_outer
}

/// The outer commands whose pages describe flags that this one takes as well.
fn with_more_flags<'a>(path: &'a [&'a Command]) -> impl Iterator<Item = &'a [&'a Command]> {
    let outer = (1..path.len()).map(|length| &path[..length]);
    outer.filter(|outer| {
        let mut args = outer
            .last()
            .into_iter()
            .flat_map(|command| command.get_arguments());
        args.any(|arg| arg.is_global_set() && is_own(arg, outer))
    })
}

fn global_flags(path: &[&Command], roff: &mut Roff) {
    for (index, outer) in with_more_flags(path).enumerate() {
        let flags = match index {
            0 => {
                roff.control("SH", ["GLOBAL FLAGS"]);
                "The flags for the connection, the output and checks"
            }
            _ => "More flags",
        };
        roff.text([roman(format!("{flags} stand in "))]);
        roff.text([bold(joined(outer, "-")), roman("(1).")]);
    }
}

fn exit_status(help: &HelpText, path: &[&Command], roff: &mut Roff) {
    roff.control("SH", ["EXIT STATUS"]);
    if path.len() > 1 {
        let own = help.exit_codes.as_deref().unwrap_or("0 on success.");
        roff.text([roman(format!("{own} All codes stand in "))]);
        roff.text([bold(joined(&path[..1], "-")), roman("(1).")]);
        return;
    }
    for (number, text) in exit_codes(Style::of_program(path[0].get_name())) {
        entry(&number.to_string(), &text, roff);
    }
}

fn entry(name: &str, text: &str, roff: &mut Roff) {
    roff.control("TP", []);
    roff.text([bold(name)]);
    roff.text([roman(text)]);
}

fn environment(command: &Command, is_root: bool, roff: &mut Roff) {
    roff.control("SH", ["ENVIRONMENT"]);
    let mut heeded = heeded(command, is_root).peekable();
    if heeded.peek().is_none() {
        roff.text([roman("No variable changes what it does.")]);
    }
    for (name, text, _) in heeded {
        entry(name, text, roff);
    }
}

/// Its own, or one of each inner command, or those of the outer command.
fn examples(path: &[&Command], roff: &mut Roff) {
    roff.control("SH", ["EXAMPLES"]);
    for example in examples_of(path) {
        roff.control("PP", []);
        roff.control("nf", []);
        for line in folded(&example, WIDTH) {
            roff.text([roman(line)]);
        }
        roff.control("fi", []);
    }
}

fn examples_of(path: &[&Command]) -> Vec<String> {
    let Some((command, outer)) = path.split_last() else {
        return Vec::new();
    };
    let own = help_of(command).examples;
    if !own.is_empty() {
        return own;
    }
    let inner = inner_commands(path, command);
    let inner: Vec<String> = inner
        .filter_map(|inner| help_of(inner).examples.into_iter().next())
        .collect();
    if !inner.is_empty() {
        return inner;
    }
    let outer = examples_of(outer);
    let line = joined(path, " ");
    match outer.iter().any(|example| example.starts_with(&line)) {
        true => {
            let outer = outer.into_iter();
            outer.filter(|example| example.starts_with(&line)).collect()
        }
        false => outer,
    }
}

fn see_also(path: &[&Command], roff: &mut Roff) {
    roff.control("SH", ["SEE ALSO"]);
    let outer = (1..path.len()).map(|length| path[..length].to_vec());
    let inner = path
        .last()
        .into_iter()
        .flat_map(|command| inner_commands(path, command))
        .map(|inner| [path, &[inner]].concat());
    let pages: Vec<Vec<&Command>> = outer.chain(inner).collect();
    for (index, page) in pages.iter().enumerate() {
        let mut line = vec![bold(joined(page, "-")), roman("(1)")];
        if index + 1 < pages.len() {
            line.push(roman(","));
        }
        roff.text(line);
    }
    if path.len() == 1 {
        roff.control("PP", []);
        let version = csi_proto::SPEC_VERSION;
        roff.text([roman(format!(
            "Container Storage Interface Specification, version {version}"
        ))]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli;
    use std::collections::BTreeSet;

    fn all() -> Vec<(String, String)> {
        let pages = pages(cli::command("csi")).into_iter();
        pages
            .map(|page| (page.name, String::from_utf8(page.text).expect("text")))
            .collect()
    }

    /// The lines of a section.
    fn of<'a>(text: &'a str, section: &str) -> Vec<&'a str> {
        let head = format!(".SH {section}");
        let lines = text.lines().skip_while(|line| *line != head).skip(1);
        lines.take_while(|line| !line.starts_with(".SH")).collect()
    }

    #[test]
    fn every_command_has_a_page_with_every_section() {
        let all = all();
        let rpcs = GROUPS.iter().map(|group| group.rpcs.len()).sum::<usize>();
        assert!(all.len() > rpcs + GROUPS.len(), "{} pages", all.len());
        let names: BTreeSet<&str> = all.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names.len(), all.len());
        for name in [
            "csi",
            "csi-man",
            "csi-bench-create-delete",
            "csi-controller",
        ] {
            assert!(names.contains(name), "{name}");
        }
        for (name, text) in &all {
            for section in [
                "NAME",
                "SYNOPSIS",
                "DESCRIPTION",
                "\"EXIT STATUS\"",
                "ENVIRONMENT",
                "EXAMPLES",
                "\"SEE ALSO\"",
            ] {
                assert!(!of(text, section).is_empty(), "{name}: {section}");
            }
        }
    }

    #[test]
    fn the_head_of_every_page_fits_a_terminal() {
        for (name, text) in all() {
            let head = text.lines().find_map(|line| line.strip_prefix(".TH "));
            let head = head.expect("a head");
            let parts = shlex::split(head).expect("words in quotes");
            let [title, section, date, source, command] = parts.as_slice() else {
                panic!("{name}: {head}")
            };
            assert_eq!(command.replace(' ', "-"), name, "{head}");
            let width = 2 * (title.len() + section.len() + 2) + command.len() + 2;
            assert!(width <= 80, "{name}: {head}");
            assert!(date.is_empty() && source.starts_with("csi "), "{head}");
        }
    }

    #[test]
    fn global_flags_stand_in_the_page_of_the_program_alone() {
        let has = |text: &str, flag: &str| {
            text.contains(&format!("\\fB{}\\fR", flag.replace('-', "\\-")))
        };
        for (name, text) in all() {
            let is_root = name == "csi";
            for flag in ["--endpoint", "--timeout", "--with-requires-creds", "--help"] {
                assert_eq!(has(&text, flag), is_root, "{name}: {flag}");
            }
            assert_ne!(of(&text, "\"GLOBAL FLAGS\"").is_empty(), !is_root, "{name}");
        }
        let all = all();
        let create = all
            .iter()
            .find(|(name, _)| name == "csi-controller-create-volume");
        let load = all
            .iter()
            .find(|(name, _)| name == "csi-bench-create-delete");
        let bench = all.iter().find(|(name, _)| name == "csi-bench");
        let (load, bench) = (&load.expect("a page").1, &bench.expect("a page").1);
        assert!(has(bench, "--concurrency") && !has(load, "--concurrency"));
        let more = of(load, "\"GLOBAL FLAGS\"").join(" ");
        assert!(more.contains("\\fBcsi\\-bench\\fR(1)"), "{more}");
        let synopsis = of(&create.expect("a page").1, "SYNOPSIS").join(" ");
        assert!(has(&synopsis, "--req-bytes"), "{synopsis}");
        assert!(synopsis.contains("[\\fINAME\\fR]"), "{synopsis}");
    }

    #[test]
    fn pages_name_only_pages_that_exist() {
        let all = all();
        let names: BTreeSet<String> = all.iter().map(|(name, _)| name.clone()).collect();
        for (name, text) in &all {
            let plain = text
                .replace("\\-", "-")
                .replace("\\fB", "")
                .replace("\\fR", "");
            for (at, _) in plain.match_indices("(1)") {
                let named =
                    plain[..at].rsplit(|letter: char| !letter.is_alphanumeric() && letter != '-');
                let named = named.into_iter().next().unwrap_or_default();
                assert!(names.contains(named), "{name} names {named}");
            }
        }
    }

    #[test]
    fn examples_are_command_lines_that_fit() {
        for (name, text) in all() {
            let lines = of(&text, "EXAMPLES");
            let mut shown = lines.iter().filter(|line| !line.starts_with('.'));
            assert!(shown.clone().any(|line| line.contains("csi")), "{name}");
            // What stands in quotes is not broken.
            let fits = |line: &&str| {
                let plain = line.replace("\\-", "-");
                plain.len() <= WIDTH + 1 || plain.contains("(Aq") || plain.contains('"')
            };
            assert!(shown.all(fits), "{name}: {lines:?}");
        }
    }
}
