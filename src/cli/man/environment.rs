//! The variables of the environment that a user may set, and which commands heed them.

use clap::Command;
use csi_arguments::secrets;

/// A variable of the environment that a user may set: its name, what it does, and whether a command heeds it.
pub type Variable = (&'static str, &'static str, fn(&Command) -> bool);

const VARIABLES: &[Variable] = &[
    (
        "CSI_ENDPOINT",
        "The driver, where --endpoint does not name one.",
        calls_a_driver,
    ),
    (
        "CSI_CONTEXT",
        "The context, where neither --context, --endpoint nor CSI_ENDPOINT say which driver is meant.",
        calls_a_driver,
    ),
    (
        "XDG_CONFIG_HOME",
        "Where contexts are kept; ~/.config without it.",
        calls_a_driver,
    ),
    (
        secrets::VARIABLE,
        "Secrets as K=V,…, where no flag gives any.",
        |command| {
            let mut flags = command.get_arguments();
            flags.any(|arg| arg.get_id() == "secrets_file")
        },
    ),
    (
        "X_CSI_DEBUG",
        "Shows requests and replies on stderr, as -vv does, unless it is 0, f or false.",
        calls_a_driver,
    ),
    (
        "XDG_STATE_HOME",
        "Where the embedded driver keeps its share, the mock and flex their state and the shell its history; ~/.local/state without it.",
        calls_a_driver,
    ),
    (
        "NO_COLOR",
        "Takes the colours away, unless it is empty.",
        draws,
    ),
    (
        "TERM",
        "The kind of terminal; a dumb one gets neither colours nor a cursor that moves.",
        draws,
    ),
    (
        "VISUAL",
        "The editor for requests; EDITOR without it, and vi without both.",
        edits,
    ),
    ("EDITOR", "The editor where VISUAL is not set.", edits),
    (
        "PAGER",
        "What shows output that does not fit the terminal: less or more without it, nothing where it is empty.",
        edits,
    ),
    (
        "LESS",
        "The flags of the pager less; FRX without it.",
        edits,
    ),
];

fn draws(command: &Command) -> bool {
    ["proxy", "shell"].contains(&command.get_name())
}

fn edits(command: &Command) -> bool {
    command.get_name() == "shell"
}

fn calls_a_driver(command: &Command) -> bool {
    !["man", "completions"].contains(&command.get_name())
}

/// The variables that a command heeds; all of them for the program.
pub fn heeded(command: &Command, is_root: bool) -> impl Iterator<Item = &'static Variable> {
    let heeds = move |(.., concerns): &&Variable| is_root || concerns(command);
    VARIABLES.iter().filter(heeds)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_variable_that_the_program_reads_is_described() {
        // Of completion scripts and of the tests.
        const OTHERS: &[&str] = &["_CLAP_COMPLETE_INDEX", "UPDATE_GENERATED"];
        fn read(folder: &std::path::Path, found: &mut BTreeSet<String>) {
            for entry in std::fs::read_dir(folder).expect("a folder") {
                let path = entry.expect("an entry").path();
                if path.is_dir() {
                    read(&path, found);
                    continue;
                }
                let text = std::fs::read_to_string(&path).expect("a source");
                for call in ["env::var(\"", "env::var_os(\"", "::variable(\"", " set(\""] {
                    let calls = text.split(call).skip(1);
                    let names = calls.filter_map(|rest| rest.split('"').next());
                    let is_name = |name: &&str| {
                        name.chars()
                            .all(|letter| letter.is_ascii_uppercase() || letter == '_')
                    };
                    found.extend(names.filter(is_name).map(ToOwned::to_owned));
                }
            }
        }
        let mut found = BTreeSet::new();
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
        for folder in ["src", "crates"] {
            read(&root.join(folder), &mut found);
        }
        assert!(found.contains("CSI_ENDPOINT"), "{found:?}");
        for name in found {
            let described = VARIABLES.iter().any(|(known, ..)| *known == name);
            assert!(described || OTHERS.contains(&name.as_str()), "{name}");
        }
    }
}
