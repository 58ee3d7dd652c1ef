//! What holds of the whole tree of commands: of the RPCs and all tools together.
//!
//! The rooms below test the same functions with the commands that they know.

use super::{PROGRAM, command, command_of_one_rpc};
use clap::Command;
use csi_invocation::completion::{DriverCandidates, Tree};
use csi_invocation::parse::parse;
use csi_invocation::verbs::{group_of, suggestions};
use csi_output::terminal::columns_of;
use csi_shell::line::statements;
use csi_shell::{builtins, help, statement};

fn tree() -> Command {
    command("csi")
}

/// What completes a line, with ids and parameters that stand for the driver's.
fn after(line: &str) -> Vec<String> {
    let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
    let found = Tree::new(tree()).candidates(&words, &mut |wanted| match wanted {
        DriverCandidates::Ids(kind) => vec![format!("{kind:?}#1")],
        DriverCandidates::Parameters => Vec::new(),
    });
    found.into_iter().map(|one| one.value).collect()
}

fn error_text(line: &str) -> String {
    let error = parse(tree(), line.split(' ')).expect_err(line);
    error.render().to_string()
}

/// Every command with those inside it, as they are once their flags are there.
fn all(command: &Command, found: &mut Vec<Command>) {
    for inner in command.get_subcommands() {
        let mut inner = inner.clone();
        inner.build();
        all(&inner, found);
        found.push(inner);
    }
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
fn a_paragraph_below_help_has_no_line_breaks_of_its_own() {
    let mut commands = Vec::new();
    all(&tree(), &mut commands);
    assert!(commands.len() > 70);
    for command in commands {
        let help = command.get_after_help().map(ToString::to_string);
        let help = help.unwrap_or_default();
        let lines: Vec<&str> = help.lines().collect();
        for pair in lines.windows(2) {
            let goes_on = pair
                .iter()
                .all(|line| !line.is_empty() && !line.starts_with(' '));
            assert!(!goes_on, "{}: {pair:?}", command.get_name());
        }
    }
}

#[test]
fn no_verb_hides_a_command() {
    for command in tree().get_subcommands() {
        assert!(
            group_of(command.get_name()).is_none(),
            "{}",
            command.get_name()
        );
    }
}

#[test]
fn the_likest_comes_first_from_whatever_group() {
    let root = tree();
    let group = root.find_subcommand("controller").expect("a group");
    let mut built = tree();
    built.build();
    let context = built.find_subcommand("context").expect("a tool");
    for (here, word, first) in [
        (&root, "lst-volumes", &["controller list-volumes"][..]),
        (&root, "publish", &["controller publish", "node publish"]),
        (&root, "attach", &["controller publish"]),
        (&root, "lifecyle", &["lifecycle"]),
        (&root, "contoller", &["controller"]),
        (group, "stats", &["node stats"]),
        (group, "list-volume", &["list-volumes"]),
        (context, "use-context", &["use"]),
        (context, "stats", &[]),
        (&root, "xyzzy", &[]),
    ] {
        let found = suggestions(here, word);
        assert!(
            found.len() >= first.len() && found.iter().zip(first).all(|(a, b)| a == b),
            "{word}: {found:?}"
        );
        assert!(!first.is_empty() || found.is_empty(), "{word}: {found:?}");
    }
}

#[test]
fn ids_are_offered_for_every_way_to_name_them_and_once() {
    for (line, ids) in [
        ("csi wait volume ", &["Volume#1"][..]),
        ("csi wait snapshot ", &["Snapshot#1"]),
        ("csi delete-volume ", &["Volume#1"]),
        ("csi -e stage stage ", &["Volume#1"]),
        ("csi -o json delete-snapshot ", &["Snapshot#1"]),
        ("csi controller delete-volume Volume#1 ", &[]),
        ("csi delete-volume Volume#1 ", &[]),
        ("csi controller delete-volume other ", &["Volume#1"]),
    ] {
        assert_eq!(after(line), ids, "{line}");
    }
    assert_eq!(after("csi wait vol"), ["volume"]);
    let conditions = ["ready", "healthy", "abnormal", "gone"];
    assert_eq!(after("csi wait volume v --for "), conditions);
    assert_eq!(after("csi wait snapshot s --for "), ["ready", "gone"]);
    assert_eq!(after("csi wait snapshot s --for=h"), [""; 0]);
}

#[test]
fn formats_and_defects_complete() {
    assert_eq!(after("csi -o c"), ["csv", "custom-columns=", "csc"]);
    assert_eq!(after("csi -o rec"), ["records"]);
    // What a command refuses is not offered after it.
    let has = |line: &str, value: &str| after(line).contains(&value.to_owned());
    assert!(has("csi -o ", "github") && has("csi identity probe -o ", "csc"));
    assert!(!has("csi identity probe -o ", "github"));
    let lines = ["table", "json", "jsonl"];
    for command in [
        "version",
        "bench identity",
        "doctor",
        "wait volume v",
        "context use",
    ] {
        let line = format!("csi {command}");
        assert_eq!(after(&format!("{line} -o ")), lines, "{line}");
        assert_eq!(after(&format!("{line} --columns ")), [""; 0], "{line}");
        assert_eq!(after(&format!("{line} --sort-by ")), [""; 0], "{line}");
    }
    assert_eq!(after("csi context list -o n"), ["name"]);
    assert_eq!(after("csi sanity explain -o "), ["table"]);
    for (line, own) in [("csi sanity", "github"), ("csi sanity --list", "name")] {
        let formats = [&lines[..], &[own]].concat();
        assert_eq!(after(&format!("{line} -o ")), formats, "{line}");
    }
    assert_eq!(
        after("csi mock --defect ListVolumesLosesEnt"),
        ["ListVolumesLosesEntries"]
    );
    assert!(after("csi mock --defect ").len() > 200);
    assert_eq!(after("csi mock --fail create-s"), ["create-snapshot="]);
    assert_eq!(after("csi proxy --drop probe"), ["probe"]);
    assert_eq!(after("csi mock --capability +CLONE"), ["+CLONE_VOLUME"]);
}

#[test]
fn a_missing_command_is_answered_by_a_list_that_fits() {
    for (line, parts) in [
        (
            "csi bench --count 5",
            [
                "\n  create-delete      Create a volume and delete it\n",
                "\n  identity           plugin-info, plugin-capabilities, probe\n",
            ],
        ),
        (
            "csi -e x",
            [
                "\n  node               stage, unstage, publish,",
                "\n  proxy ",
            ],
        ),
        (
            "csi group-controller -e x",
            ["\n  create-volume-group-snapshot ", "\n  get-capabilities "],
        ),
    ] {
        let error_text = error_text(line);
        assert!(!error_text.contains("[subcommands:"), "{error_text}");
        assert!(error_text.contains("\n\nCommands:\n"), "{error_text}");
        assert!(error_text.contains("\n\nUsage: csi "), "{error_text}");
        for part in parts {
            assert!(error_text.contains(part), "{part}\n{error_text}");
        }
        let widest = error_text.lines().map(|line| line.chars().count()).max();
        assert!(widest <= Some(80), "{error_text}");
    }
}

#[test]
fn a_verb_may_stand_without_its_group() {
    for (line, group, verb) in [
        ("csi list-volumes --all", "controller", "list-volumes"),
        ("csi -o json plugin-info", "identity", "plugin-info"),
        (
            "csi -e stage stage v --staging-target-path /s",
            "node",
            "stage",
        ),
    ] {
        let matches = parse(tree(), line.split(' ')).expect(line);
        let called = csi_rpc::called(&matches).expect(line);
        assert_eq!(
            (called.group.name, called.rpc.verb()),
            (group, verb),
            "{line}"
        );
    }
    let in_shell = tree().no_binary_name(true);
    let matches = parse(in_shell, ["probe"]).expect("a line of the shell");
    assert!(csi_rpc::called(&matches).is_some());
    for (line, part) in [
        ("csi help list-volumes", "csi controller list-volumes"),
        ("csi help ls", "'controller list-volumes'"),
        ("csi volumes", "'controller list-volumes'"),
        ("csi publish v", "'controller publish', 'node publish'"),
        ("csi controller stats v", "'node stats'"),
        ("csi list-volums", "'controller list-volumes'"),
        ("csi ls", "unrecognized subcommand 'ls'"),
        ("csi list-volumes --nonsense", "--nonsense"),
        ("csi bench publish", "'controller publish', 'node publish'"),
        ("csi context stats", "'stats'\n\nUsage"),
    ] {
        let error_text = error_text(line);
        assert!(error_text.contains(part), "{part}\n{error_text}");
    }
}

#[test]
fn what_there_is_fits_one_screen() {
    let page = help::overview(PROGRAM, 80);
    assert!(page.lines().count() <= 23, "{page}");
    for columns in [40, 80, 200] {
        let page = help::overview(PROGRAM, columns);
        let widest = page.lines().map(columns_of).max();
        assert!(widest <= Some(columns), "{page}");
        for word in ["create-volume,", "lifecycle", "defer", "Ctrl-D leaves."] {
            assert!(page.contains(word), "{word}\n{page}");
        }
    }
}

#[test]
fn no_help_is_wider_than_the_terminal() {
    let mut all = Vec::new();
    commands(&builtins::tree(PROGRAM), &[], &mut all);
    assert!(all.len() > 70, "{all:?}");
    for columns in [40, 80] {
        let pages_of = help::pages(PROGRAM, columns);
        let mut pages = vec![help::flags(PROGRAM, columns)];
        for words in &all {
            for flag in ["-h", "--help", "--help-all"] {
                let asked = [words.as_slice(), &[flag.to_owned()]].concat();
                let page = pages_of.answer(&asked).unwrap();
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

#[test]
fn every_command_is_called_like_one() {
    fn names(command: &Command) -> Vec<String> {
        let own = command.get_subcommands().flat_map(|inner| {
            let aliases = inner.get_all_aliases().map(str::to_owned);
            [inner.get_name().to_owned()].into_iter().chain(aliases)
        });
        own.chain(command.get_subcommands().flat_map(names))
            .collect()
    }
    let tree = builtins::tree(PROGRAM);
    for name in names(&tree) {
        let word = &statements(&name).unwrap()[0].words[0];
        assert!(!statement::is_text(word, &name), "{name}");
    }
}

#[test]
fn an_rpc_is_found_among_the_flags_before_it() {
    for (line, is_found) in [
        ("csi controller delete-volume v", true),
        ("csi -e x controller rm v", true),
        ("csi --endpoint x -v controller --context y ls", true),
        ("csi -ex -o=json node stats", true),
        ("csi -e controller bench", false),
        ("csi help controller ls", false),
        ("csi shell controller ls", false),
        ("csi -e x", false),
    ] {
        let words: Vec<_> = line.split(' ').map(Into::into).collect();
        let tree = command_of_one_rpc("csi", &words);
        assert_eq!(tree.is_some(), is_found, "{line}");
    }
}
