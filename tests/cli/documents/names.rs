//! The pages name every command, alias and flag that the programs have, and no flag that they have not.

use super::pages::{page, pages};
use crate::support::driver;
use crate::support::program::Csi;
use std::collections::BTreeSet;
use std::process::Command;

/// The commands in a help text, each with its aliases.
fn commands(help: &str) -> Vec<(String, Vec<String>)> {
    let list = help.split("Commands:\n").nth(1).unwrap_or_default();
    let list = list.split("\n\n").next().unwrap_or_default();
    // What a command does may go on in the next line, and so may its aliases.
    let list = list.replace("\n   ", " ");
    let one_line = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    let entries: Vec<String> = list.lines().map(one_line).collect();
    let entry = |line: &str| {
        let name = line.split_whitespace().next()?.to_owned();
        let aliases = line
            .rsplit_once("[alias")
            .and_then(|(_, rest)| rest.split_once(": "));
        let aliases = aliases.map_or("", |(_, rest)| rest.trim_end().trim_end_matches(']'));
        let aliases = aliases.split(", ").filter(|alias| !alias.is_empty());
        Some((name, aliases.map(str::to_owned).collect()))
    };
    entries
        .iter()
        .filter_map(|line| entry(line))
        .filter(|(name, _)| name != "help")
        .collect()
}

/// The long flags in a help text, as they begin their lines.
fn flags(help: &str) -> BTreeSet<String> {
    let long = |line: &str| {
        let line = line.trim_start();
        let line = line
            .split_once(", ")
            .filter(|(short, _)| short.len() == 2)
            .map_or(line, |(_, long)| long);
        let end = line.find([' ', '.', '[', '=']).unwrap_or(line.len());
        line[..end]
            .starts_with("--")
            .then(|| line[..end].to_owned())
    };
    let flags = help
        .lines()
        // What a flag does stands further in.
        .filter(|line| line.starts_with("  ") && !line.starts_with("        "))
        .filter_map(long);
    flags
        .filter(|flag| flag != "--help" && flag != "--version")
        .collect()
}

/// Whether a text names a flag, and not only a longer one.
fn names(text: &str, flag: &str) -> bool {
    text.split(flag)
        .skip(1)
        .any(|after| !after.starts_with(|letter: char| letter == '-' || letter.is_alphanumeric()))
}

/// The row of a table that begins with this cell.
fn row<'a>(text: &'a str, cell: &str) -> Option<&'a str> {
    text.lines()
        .find(|line| line.starts_with(&format!("| {cell} |")))
}

#[test]
fn every_rpc_stands_with_its_aliases_and_what_it_does() {
    let (csi, client) = (Csi::new(), page("docs/client.md").text);
    let groups = [
        "identity",
        "controller",
        "node",
        "group-controller",
        "snapshot-metadata",
    ];
    let overview = csi.run("--help").succeeds().stdout;
    for (group, aliases) in commands(&overview)
        .into_iter()
        .filter(|(name, _)| groups.contains(&name.as_str()))
    {
        for alias in aliases {
            assert!(
                client.contains(&format!("`{alias}`")),
                "docs/client.md names no alias `{alias}` of {group}"
            );
        }
        let help = csi.run(&format!("{group} --help")).succeeds().stdout;
        let verbs = commands(&help);
        assert!(!verbs.is_empty(), "{help}");
        for (verb, aliases) in verbs {
            let command = format!("`{group} {verb}`");
            let row = row(&client, &command).unwrap_or_else(|| {
                panic!("docs/client.md has no row {command} in its table of commands")
            });
            for alias in aliases {
                assert!(
                    row.contains(&format!("`{alias}`")),
                    "the row {command} of docs/client.md lacks `{alias}`"
                );
            }
        }
    }
    for (command, _) in commands(&overview)
        .iter()
        .filter(|(name, _)| !groups.contains(&name.as_str()))
    {
        assert!(
            client.contains(&format!("`{command}")),
            "docs/client.md does not name `{command}`"
        );
    }
}

#[test]
fn every_flag_stands_on_the_page_of_its_command() {
    let csi = Csi::new();
    let rpc = flags(&csi.run("identity probe --help-all").succeeds().stdout);
    let client = page("docs/client.md").text;
    for flag in &rpc {
        assert!(names(&client, flag), "client.md: {flag}");
    }
    for (tool, page_of_it) in [
        ("lifecycle", "lifecycle"),
        ("sanity", "sanity"),
        ("proxy", "proxy"),
        ("replay", "proxy"),
        ("bench", "bench"),
        ("bench lifecycle", "bench"),
        ("shell", "shell"),
        ("version", "client"),
        ("wait", "client"),
    ] {
        let text = page(&format!("docs/{page_of_it}.md")).text;
        let own = flags(&csi.run(&format!("{tool} --help")).succeeds().stdout);
        for flag in own.difference(&rpc) {
            assert!(names(&text, flag), "{page_of_it}.md: {flag} of {tool}");
        }
    }
}

#[test]
fn every_command_of_the_shell_stands_on_its_page() {
    let shell = page("docs/shell.md").text;
    let help = Csi::new()
        .run_args(["shell", "-c", "help"])
        .succeeds()
        .stdout;
    let own = help.split("The shell's own").nth(1).unwrap_or_default();
    let own = own.split("\n\n").next().unwrap_or_default();
    let own = own.split([',', ' ', '\n']).filter(|name| !name.is_empty());
    let own: Vec<&str> = own.chain(["quit", "help"]).collect();
    assert!(own.len() > 10, "{help}");
    for name in own {
        let named = [' ', '`']
            .iter()
            .any(|end| shell.contains(&format!("`{name}{end}")));
        assert!(named, "{name}");
    }
}

/// Whether a line of a help text is where a flag begins.
fn begins_a_flag(line: &str) -> bool {
    !flags(line).is_empty()
}

/// Whether a line of a help text is where this flag begins.
fn flags_of_line(line: &str, flag: &str) -> bool {
    flags(line).contains(flag)
}

/// The help of the driver, or of a command of it.
fn driver_help(command: Option<&str>) -> String {
    let run = Command::new(driver::binary())
        .args(command)
        .arg("--help")
        .env_clear()
        .output()
        .unwrap();
    String::from_utf8(run.stdout).unwrap()
}

#[test]
fn the_table_of_the_driver_s_flags_is_its_help() {
    let (help, text) = (driver_help(None), page("docs/driver.md").text);
    let table = text
        .split("\n## Flags\n")
        .nth(1)
        .unwrap()
        .split("\n## ")
        .next()
        .unwrap();
    let rows: Vec<Vec<&str>> = table
        .lines()
        .filter(|line| line.starts_with("| `-"))
        .map(|line| line.trim_matches('|').split(" | ").map(str::trim).collect())
        .collect();
    let flags = flags(&help);
    assert_eq!(rows.len(), flags.len(), "{flags:?}");
    for flag in flags {
        let row = rows
            .iter()
            .find(|row| row[0].ends_with(&format!("`{flag}`")));
        let row = row.unwrap_or_else(|| panic!("{flag} has no row"));
        let lines = help.lines().skip_while(|line| !flags_of_line(line, &flag));
        let piece = lines
            .enumerate()
            .take_while(|(index, line)| *index == 0 || !begins_a_flag(line));
        let piece: String = piece.map(|(_, line)| line.to_owned() + "\n").collect();
        let fact = |name: &str| {
            let (_, rest) = piece.split_once(&format!("[{name}: "))?;
            rest.split(']')
                .next()
                .map(|value| value.split_whitespace().collect::<Vec<_>>().join(" "))
        };
        let variable = fact("env").unwrap();
        assert_eq!(
            row[1],
            format!("`{}`", variable.trim_end_matches('=')),
            "{flag}"
        );
        // The table says "every server" in its own way, but no value.
        if let Some(default) = fact("default").filter(|default| !default.contains(' ')) {
            assert_eq!(row[2].trim_matches('`'), default, "{flag}");
        }
    }
}

#[test]
fn command_lines_of_the_driver_have_flags_that_it_has() {
    let mut seen = 0;
    for page in pages() {
        for line in page
            .text
            .lines()
            .filter(|line| line.starts_with("$ csi-nfs "))
        {
            seen += 1;
            let words: Vec<_> = line.split_whitespace().collect();
            let command = words.get(2).filter(|word| !word.starts_with('-'));
            let known = flags(&driver_help(command.copied()));
            for word in words.into_iter().filter(|word| word.starts_with("--")) {
                assert!(
                    known.contains(word),
                    "{}: {word} in {line}",
                    page.path.display()
                );
            }
        }
    }
    assert!(seen > 3);
}
