//! Words that stand where a command should: a full verb without its group, and what an unknown word may have meant.
//!
//! Owns both. The tree of commands has neither: it would take longer to build, in every call. Aliases name nothing without
//! their group, since most of them are a letter or two.

use crate::arguments::likest::likest;
use crate::rpc::{GROUPS, Group, Rpc};
use clap::Command;
use csi_proto::schema::summary;
use std::borrow::Cow;
use std::ffi::OsString;

/// The command before which no group has to stand: it takes whole commands.
pub const HELP: &str = "help";

/// How many suggestions help.
const MOST: usize = 5;

/// The lines that `words` may stand for, whose command `verb` is: with the verb's group before it, wherever the word
/// stands. Empty where no group has that verb, or several have.
pub fn with_group(words: &[OsString], verb: &str) -> Vec<Vec<OsString>> {
    let Some(group) = group_of(verb) else {
        return Vec::new();
    };
    let places = words.iter().enumerate();
    let places = places.filter(|(_, word)| *word == verb);
    let line = |(place, _)| {
        let mut line = words.to_vec();
        line.insert(place, group.name.into());
        line
    };
    places.map(line).collect()
}

/// The words of an unfinished line with the group of a verb that stands without it. `tree` tells which flags have values in
/// the next word; the last word is still typed.
pub fn with_group_if_missing<'a>(tree: &Command, words: &'a [String]) -> Cow<'a, [String]> {
    for place in commands(tree, words) {
        let word = &words[place];
        if let Some(group) = group_of(word) {
            let mut words = words.to_vec();
            words.insert(place, group.name.to_owned());
            return Cow::Owned(words);
        }
        if tree.find_subcommand(word).is_some() && word != HELP {
            break;
        }
    }
    Cow::Borrowed(words)
}

/// The verbs that may stand without their group where the last of `words` is typed, and what each is about; none where a
/// command stands before it, or a flag whose value it is.
pub fn begun<'a>(
    tree: &Command,
    words: &'a [String],
) -> impl Iterator<Item = (&'static str, &'static str)> + use<'a> {
    let typed = words.last().map_or("", String::as_str);
    let is_command = |place: usize| {
        let word = &words[place];
        tree.find_subcommand(word).is_some() && word != HELP
    };
    let last = words.len().saturating_sub(1);
    let is_value = !neither_flag_nor_value(tree, words).any(|place| place == last);
    let is_first = !typed.is_empty() && !is_value && !commands(tree, words).any(is_command);
    let verbs = all().filter(move |(_, rpc)| {
        let verb = rpc.verb();
        is_first && verb.starts_with(typed) && group_of(verb).is_some()
    });
    verbs.map(|(_, rpc)| (rpc.verb(), summary(rpc.method.doc)))
}

/// The places of the words before the last that are neither flags nor their values.
fn commands<'a>(tree: &'a Command, words: &'a [String]) -> impl Iterator<Item = usize> + 'a {
    let last = words.len().saturating_sub(1);
    neither_flag_nor_value(tree, &words[..last])
}

/// The places of such words.
fn neither_flag_nor_value<'a>(
    tree: &'a Command,
    words: &'a [String],
) -> impl Iterator<Item = usize> + 'a {
    let mut is_value = false;
    words.iter().enumerate().filter_map(move |(place, word)| {
        if std::mem::take(&mut is_value) {
            return None;
        }
        let is_flag = word.starts_with('-');
        is_value = is_flag && has_value_behind(tree, word);
        (!is_flag).then_some(place)
    })
}

/// Whether the value of a flag is the word behind it.
fn has_value_behind(tree: &Command, word: &str) -> bool {
    let flag = tree
        .get_arguments()
        .find(|flag| match word.strip_prefix("--") {
            Some(long) => flag.get_long() == Some(long),
            None => flag.get_short().map(|short| format!("-{short}")).as_deref() == Some(word),
        });
    flag.is_some_and(|flag| {
        let needs_one = flag
            .get_num_args()
            .is_none_or(|count| count.min_values() > 0);
        flag.get_action().takes_values() && needs_one
    })
}

/// The one group that has a full verb.
fn group_of(verb: &str) -> Option<&'static Group> {
    let mut groups = GROUPS
        .iter()
        .filter(|group| group.rpcs.iter().any(|rpc| rpc.verb() == verb));
    let group = groups.next()?;
    groups.next().is_none().then_some(group)
}

/// The commands that an unknown word may mean, the likeliest first: those of `here`, and the RPCs of all groups.
pub fn suggestions(here: &Command, word: &str) -> Vec<String> {
    let known = here
        .get_subcommands()
        .filter(|command| !command.is_hide_set())
        .map(|command| {
            let names = command.get_all_aliases().chain([command.get_name()]);
            (names.collect(), command.get_name().to_owned())
        });
    let rpcs = all().map(|(group, rpc)| {
        let names = rpc.names.iter().copied().chain([rpc.method.kebab_name]);
        (names.collect(), group.command_of(rpc))
    });
    // In a group its own commands are named as they are typed there.
    let is_here = |name: &str| {
        name.strip_prefix(here.get_name())
            .is_some_and(|rest| rest.starts_with(' '))
    };
    let rpcs = rpcs.filter(|(_, name)| !is_here(name));
    let mut like = likest(word, known.chain(rpcs));
    like.truncate(MOST);
    like
}

fn all() -> impl Iterator<Item = (&'static Group, &'static Rpc)> {
    GROUPS
        .iter()
        .flat_map(|group| group.rpcs.iter().map(move |rpc| (group, rpc)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli;

    #[test]
    fn a_verb_of_one_group_stands_for_itself() {
        for (verb, group) in [
            ("list-volumes", Some("controller")),
            ("plugin-info", Some("identity")),
            ("stage", Some("node")),
            ("get-metadata-delta", Some("snapshot-metadata")),
            ("publish", None),
            ("get-capabilities", None),
            ("ls", None),
            ("volumes", None),
            ("nonsense", None),
        ] {
            assert_eq!(group_of(verb).map(|group| group.name), group, "{verb}");
        }
    }

    #[test]
    fn a_line_that_is_typed_gets_the_group_of_its_verb() {
        let mut tree = cli::command("csi");
        tree.build();
        for (line, expected) in [
            ("csi list-volumes ", "csi controller list-volumes "),
            ("csi -e stage stage ", "csi -e stage node stage "),
            (
                "csi --endpoint=x -v probe -",
                "csi --endpoint=x -v identity probe -",
            ),
            ("csi controller stage ", "csi controller stage "),
            ("csi list-volumes", "csi list-volumes"),
            ("csi publish ", "csi publish "),
            (
                "csi help list-volumes ",
                "csi help controller list-volumes ",
            ),
            (
                "csi help bench list-volumes ",
                "csi help bench list-volumes ",
            ),
            ("csi ", "csi "),
        ] {
            let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            let words = with_group_if_missing(&tree, &words);
            assert_eq!(words.join(" "), expected);
        }
    }

    #[test]
    fn a_verb_is_begun_where_no_command_stands() {
        let mut tree = cli::command("csi");
        tree.build();
        for (line, expected) in [
            ("csi list-v", &["list-volumes"][..]),
            ("csi -e list- list-v", &["list-volumes"]),
            (
                "csi help get-volume",
                &["get-volume", "get-volume-group-snapshot"],
            ),
            ("csi controller list-v", &[]),
            // Two groups have it.
            ("csi publi", &[]),
            // A value is typed.
            ("csi -o list-v", &[]),
            ("csi --output list-v", &[]),
            ("csi ", &[]),
        ] {
            let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            let found = begun(&tree, &words).map(|(verb, _)| verb);
            assert_eq!(found.collect::<Vec<_>>(), expected, "{line}");
        }
    }

    #[test]
    fn no_verb_hides_a_command() {
        for command in cli::command("csi").get_subcommands() {
            assert!(
                group_of(command.get_name()).is_none(),
                "{}",
                command.get_name()
            );
        }
    }

    #[test]
    fn the_group_may_stand_before_each_such_word() {
        let words = ["csi", "-e", "stage", "stage"].map(OsString::from);
        let lines = with_group(&words, "stage");
        let expected = [
            ["csi", "-e", "node", "stage", "stage"],
            ["csi", "-e", "stage", "node", "stage"],
        ];
        assert_eq!(
            lines,
            expected.map(|line| line.map(OsString::from).to_vec())
        );
    }

    #[test]
    fn the_likest_comes_first_from_whatever_group() {
        let root = cli::command("csi");
        let group = root.find_subcommand("controller").expect("a group");
        for (here, word, first) in [
            (&root, "lst-volumes", &["controller list-volumes"][..]),
            (&root, "publish", &["controller publish", "node publish"]),
            (&root, "attach", &["controller publish"]),
            (&root, "lifecyle", &["lifecycle"]),
            (&root, "contoller", &["controller"]),
            (group, "stats", &["node stats"]),
            (group, "list-volume", &["list-volumes"]),
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
}
