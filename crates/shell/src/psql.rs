//! psql's own commands, which begin with a backslash, in words of this shell: a line that does the same, or what does.
//!
//! Decides only; `statement` runs the line.

use super::line::{is_name, quoted};
use super::settings;
use csi_rpc::facts::IdKind;
use thiserror::Error;

/// What a command of psql is here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Meant {
    /// This line.
    Line(String),
    /// Records where there are none, and as it fits again.
    OtherRecords,
}

/// A command of psql that this shell has not.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub(crate) enum PsqlError {
    /// Something else does it.
    #[error("\\{name} is psql's; here: {instead}")]
    Instead {
        /// The command.
        name: String,
        /// What does it.
        instead: &'static str,
    },
    /// Nothing like it.
    #[error("there is no \\{0} here: help lists the commands")]
    Unknown(String),
}

/// What stands for a command of psql.
#[derive(Clone, Copy)]
enum Here {
    /// This command, with the arguments behind it.
    Command(&'static str),
    /// The list of all volumes, with these flags.
    Volumes(&'static str),
    /// What does it is said.
    Says(&'static str),
}

use Here::{Command, Says, Volumes};

const REDIRECT: &str =
    "> FILE or >> FILE behind a command keeps its output, | PROGRAM hands it over";
const FORMAT: &str =
    "set output json, yaml, wide or name; --no-headers leaves the heads of a table out";
const KEEP: &str = "name = COMMAND keeps its reply, and !! runs the last line again";
const SETTINGS: &str =
    "set lists the settings, such as output, records and pager; set NAME VALUE changes one";
const LEAVE: &str =
    "Ctrl-Z leaves the shell until fg; | PROGRAM runs a program on what a command prints";
const VARIABLES: &str =
    "$env.NAME is a variable of the environment; csi shell --var NAME=VALUE sets $NAME";
const ENDPOINT: &str = "set endpoint";
const LISTS: &str = "\\d lists the volumes; desc NAME describes an RPC or a message";

/// Names of psql, what stands for them alone, and what with arguments.
type Row = (&'static [&'static str], Here, Here);

const fn always(names: &'static [&'static str], here: Here) -> Row {
    (names, here, here)
}

const COMMANDS: &[Row] = &[
    always(&["q", "quit"], Command("exit")),
    always(&["?", "h", "help"], Command("help")),
    always(&["l", "list"], Command("context list")),
    (&["d", "dt"], Volumes(""), Command("controller get-volume")),
    (
        &["d+", "dt+"],
        Volumes(" -o wide"),
        Command("controller get-volume -o wide"),
    ),
    (&["c", "connect"], Command(ENDPOINT), Command("connect")),
    always(&["conninfo"], Command(ENDPOINT)),
    always(&["timing"], Command("timing")),
    (
        &["i", "ir", "include", "include_relative"],
        Says("source FILE"),
        Command("source"),
    ),
    (
        &["e", "edit"],
        Says("edit RPC writes the request of an RPC, by any of its names"),
        Command("edit"),
    ),
    (&["s"], Command("history"), Says("history > FILE")),
    (&["set"], Command("vars"), Says("name = VALUE")),
    (&["unset"], Says("unset NAME"), Command("unset")),
    (&["echo", "qecho"], Command("print ''"), Command("print")),
    always(&["o", "out", "w", "copy"], Says(REDIRECT)),
    always(&["a", "t", "f", "H", "C", "T"], Says(FORMAT)),
    (&["pset"], Command("set"), Says(SETTINGS)),
    always(&["g", "gx", "gset", "p", "r"], Says(KEEP)),
    always(&["watch"], Says("watch -n SECONDS COMMAND")),
    always(&["!", "cd"], Says(LEAVE)),
    always(&["getenv", "setenv", "prompt"], Says(VARIABLES)),
    always(&["errverbose"], Says("set verbose 3, before the command")),
];

/// What the words of a command mean, the first of which is its name without the backslash.
///
/// # Errors
/// That this shell has no such command, with what does it.
pub fn meant(words: &[String]) -> Result<Meant, PsqlError> {
    let (name, arguments) = match words {
        [name, arguments @ ..] => (name.as_str(), arguments),
        [] => ("", words),
    };
    let texts: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match setting_of(name, &texts) {
        Some(("records", [])) => return Ok(Meant::OtherRecords),
        Some(("output", ["aligned"])) => return setting("output", "table"),
        Some((changed, [value])) => return setting(changed, value),
        _ => {}
    }
    match (name, texts.as_slice()) {
        ("set", ["ECHO", value]) => {
            let echo = if *value == "none" { "off" } else { "on" };
            return setting("echo", echo);
        }
        ("set", [name, value]) if settings::NAMES.iter().any(|(one, _)| one == name) => {
            return setting(name, value);
        }
        // A word behind the sign is text where it is quoted.
        ("set", [name, values @ ..]) if is_name(name) => {
            let value = values.concat().replace('\'', "'\\''");
            return Ok(Meant::Line(format!("{name} = '{value}'")));
        }
        _ => {}
    }
    // A + at the end of a name asks psql for more. `\d` with flags alone lists, and does not show one volume.
    let row = row(name).or_else(|| name.strip_suffix('+').and_then(self::row));
    let has_flags = texts.first().is_some_and(|first| first.starts_with('-'));
    let here = row.map(|(_, alone, with)| match alone {
        Volumes(_) if has_flags => alone,
        _ if texts.is_empty() => alone,
        _ => with,
    });
    let typed = arguments.iter().map(|one| format!(" {}", quoted(one)));
    let typed = typed.collect::<String>();
    match here {
        Some(Volumes(flags)) => {
            let lister =
                csi_rpc::lister(IdKind::Volume).and_then(|(method, _)| csi_rpc::of_method(method));
            let command = lister.map(|(group, rpc)| group.command_of(rpc));
            Ok(Meant::Line(command.unwrap_or_default() + flags + &typed))
        }
        Some(Command(command)) => Ok(Meant::Line(format!("{command}{typed}"))),
        Some(Says(instead)) => Err(PsqlError::Instead {
            name: name.to_owned(),
            instead,
        }),
        // Of the many lists of psql.
        None if name.starts_with('d') => Err(PsqlError::Instead {
            name: name.to_owned(),
            instead: LISTS,
        }),
        None => Err(PsqlError::Unknown(name.to_owned())),
    }
}

fn row(name: &str) -> Option<&'static Row> {
    COMMANDS.iter().find(|(names, ..)| names.contains(&name))
}

/// What `\pset` can set here.
const PRINTING: [&str; 3] = ["expanded", "format", "pager"];

/// The commands of psql that work here, for completion, without those that only say what to type instead.
pub fn names() -> impl Iterator<Item = &'static str> {
    let done = COMMANDS
        .iter()
        .filter(|(_, alone, with)| !matches!((alone, with), (Says(_), Says(_))));
    done.flat_map(|(names, ..)| names.iter().copied())
        .chain(["x"])
}

/// The setting of this shell that a command of psql changes, and the words behind its name.
fn setting_of<'a>(name: &str, arguments: &'a [&'a str]) -> Option<(&'static str, &'a [&'a str])> {
    match (name, arguments) {
        ("x", values) | ("pset", ["x" | "expanded", values @ ..]) => Some(("records", values)),
        ("pset", ["format", values @ ..]) => Some(("output", values)),
        ("pset", ["pager", values @ ..]) => Some(("pager", values)),
        _ => None,
    }
}

/// What may follow a command of psql, for completion.
pub(crate) enum Following {
    /// What may follow this command of the shell, which stands for so many of the words.
    Command(String, usize),
    /// These.
    Names(&'static [&'static str]),
}

/// What may follow these words, which begin with a command of psql.
pub fn following(words: &[&str]) -> Option<Following> {
    let (name, arguments) = words.split_first()?;
    match (setting_of(name, arguments), row(name)) {
        (Some((setting, values)), _) => {
            let count = words.len() - values.len();
            Some(Following::Command(format!("set {setting}"), count))
        }
        _ if *name == "pset" && arguments.is_empty() => Some(Following::Names(&PRINTING)),
        (None, Some((.., Command(command)))) => Some(Following::Command((*command).to_owned(), 1)),
        _ => None,
    }
}

fn setting(name: &str, value: &str) -> Result<Meant, PsqlError> {
    Ok(Meant::Line(format!("set {name} {}", quoted(value))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PROGRAM;
    use crate::builtins::tree;
    use crate::line::statements;

    fn of(line: &str) -> Result<Meant, PsqlError> {
        let statement = statements(line).unwrap().remove(0);
        assert!(statement.is_psql, "{line}");
        let words = statement.words.iter().map(|word| word.as_typed());
        meant(&words.collect::<Vec<_>>())
    }

    #[test]
    fn what_psql_does_is_done() {
        for (typed, line) in [
            ("\\q", "exit"),
            ("\\?", "help"),
            ("\\h create-volume", "help create-volume"),
            ("\\l", "context list"),
            ("\\d", "controller list-volumes"),
            ("\\dt;", "controller list-volumes"),
            ("\\d+", "controller list-volumes -o wide"),
            ("\\d vol-1 vol-2", "controller get-volume vol-1 vol-2"),
            ("\\c unix:///csi/csi.sock", "connect unix:///csi/csi.sock"),
            ("\\c", "set endpoint"),
            ("\\c -", "connect -"),
            ("\\conninfo", "set endpoint"),
            ("\\x on", "set records on"),
            ("\\x auto", "set records auto"),
            ("\\pset format csv", "set output csv"),
            ("\\pset format aligned", "set output table"),
            ("\\pset pager off", "set pager off"),
            ("\\pset", "set"),
            ("\\l+", "context list"),
            ("\\d -o json", "controller list-volumes -o json"),
            ("\\d+ --all", "controller list-volumes -o wide --all"),
            ("\\timing", "timing"),
            ("\\timing on", "timing on"),
            ("\\i 'set up.csi' pvc-1", "source 'set up.csi' pvc-1"),
            ("\\e create-volume", "edit create-volume"),
            ("\\e --new create-volume", "edit --new create-volume"),
            ("\\s", "history"),
            ("\\set", "vars"),
            ("\\set size 10Gi", "size = '10Gi'"),
            ("\\set note it\\'s", "note = 'it'\\''s'"),
            ("\\set none", "none = ''"),
            ("\\set output json", "set output json"),
            ("\\set ECHO all", "set echo on"),
            ("\\unset size", "unset size"),
            ("\\echo made it", "print made it"),
            ("\\echo -5", "print -5"),
        ] {
            assert_eq!(of(typed), Ok(Meant::Line(line.to_owned())), "{typed}");
        }
        for typed in ["\\x", "\\pset expanded"] {
            assert_eq!(of(typed), Ok(Meant::OtherRecords), "{typed}");
        }
    }

    #[test]
    fn what_it_does_not_do_says_what_does() {
        for (typed, part) in [
            ("\\o out.txt", "> FILE"),
            ("\\i", "source FILE"),
            ("\\e", "edit RPC"),
            ("\\g", "!!"),
            ("\\gset", "name = COMMAND"),
            ("\\watch 2", "watch -n SECONDS"),
            ("\\t", "--no-headers"),
            ("\\! ls", "Ctrl-Z"),
            ("\\dn", "\\d lists the volumes"),
            ("\\pset border 2", "set NAME VALUE"),
            ("\\set 5 6", "name = VALUE"),
            ("\\nonsense", "there is no \\nonsense here: help"),
        ] {
            let error = of(typed).expect_err(typed).to_string();
            assert!(error.contains(part), "{typed}: {error}");
        }
    }

    #[test]
    fn every_name_stands_once_for_a_command_that_there_is() {
        let mut seen = std::collections::HashSet::new();
        let mut tree = tree(PROGRAM);
        tree.build();
        for (names, alone, with) in COMMANDS {
            assert!(names.iter().all(|name| seen.insert(*name)), "{names:?}");
            for here in [alone, with] {
                if let Command(line) = here {
                    let mut words = line.split(' ');
                    let first = tree.find_subcommand(words.next().unwrap());
                    let command = first.expect(line);
                    if let Some(verb) = words.next().filter(|_| command.has_subcommands()) {
                        assert!(command.find_subcommand(verb).is_some(), "{line}");
                    }
                }
            }
        }
    }
}
