//! Words that stand where a command should: a full verb without its group, and what an unknown word may have meant.
//!
//! Owns both. The tree of commands has neither: it would take longer to build, in every call. Aliases name nothing without
//! their group, since most of them are a letter or two.

use clap::{Arg, Command};
use csi_arguments::likest::likest;
use csi_proto::schema::summary;
use csi_rpc::{GROUPS, Group};
use std::ffi::OsStr;

/// The command before which no group has to stand: it takes whole commands.
pub const HELP: &str = "help";

/// How many suggestions help.
const MOST: usize = 5;

/// The words of a line with the group of a verb that stands without it. `tree` tells which flags have values in the next word.
pub fn with_group_if_missing<W: AsRef<OsStr> + From<&'static str>>(
    tree: &Command,
    mut words: Vec<W>,
) -> Vec<W> {
    let texts = words.iter().map(|word| word.as_ref().to_str());
    let texts: Vec<&str> = texts.map(Option::unwrap_or_default).collect();
    let mut has_help = false;
    let first = neither_flag_nor_value(tree, &texts).find_map(|place| {
        if texts[place] == HELP && std::mem::replace(&mut has_help, true) {
            return Some((place, None));
        }
        let group = group_of(texts[place]);
        let is_known = group.is_some() || is_command(tree, texts[place]);
        is_known.then_some((place, group))
    });
    if let Some((place, Some(group))) = first {
        words.insert(place, group.name.into());
    }
    words
}

/// The verbs that may stand without their group where the last of `words` is typed, and what each is about; none where a
/// command stands before it, or a flag whose value it is.
pub fn begun<'a>(
    tree: &Command,
    words: &'a [String],
) -> impl Iterator<Item = (&'static str, &'static str)> + use<'a> {
    let typed = words.last().map_or("", String::as_str);
    let last = words.len().saturating_sub(1);
    let mut places = neither_flag_nor_value(tree, words);
    let first = places.find(|place| *place == last || is_command(tree, &words[*place]));
    let is_first = !typed.is_empty() && first == Some(last);
    let verbs = csi_rpc::with_groups().filter(move |(_, rpc)| {
        let verb = rpc.verb();
        is_first && verb.starts_with(typed) && group_of(verb).is_some()
    });
    verbs.map(|(_, rpc)| (rpc.verb(), summary(rpc.method.doc)))
}

/// Whether the word is a command before which no group has to stand.
fn is_command(tree: &Command, word: &str) -> bool {
    tree.find_subcommand(word).is_some() && word != HELP
}

/// The places of the words that are neither flags of `tree`'s root nor their values.
pub fn neither_flag_nor_value<'a>(
    tree: &'a Command,
    words: &'a [impl AsRef<str>],
) -> impl Iterator<Item = usize> + 'a {
    // The program's own name is no word of a line.
    let name = usize::from(!tree.is_no_binary_name_set());
    let mut is_value = false;
    let words = words.iter().enumerate().skip(name);
    words.filter_map(move |(place, word)| {
        if std::mem::take(&mut is_value) {
            return None;
        }
        let word = word.as_ref();
        let is_flag = word.starts_with('-');
        is_value = is_flag && has_value_behind(tree, word);
        (!is_flag).then_some(place)
    })
}

/// Whether the value of a flag is the word behind it. In `-ve`, as in `-e`, it is; in `-eve` it is the rest of the word.
fn has_value_behind(tree: &Command, word: &str) -> bool {
    let mut flags = tree.get_arguments();
    if let Some(long) = word.strip_prefix("--") {
        return flags.any(|flag| flag.get_long() == Some(long) && needs_value(flag));
    }
    let takes_value = |letter: char| {
        let flag = tree
            .get_arguments()
            .find(|flag| flag.get_short() == Some(letter));
        flag.is_some_and(needs_value)
    };
    let letters = word.strip_prefix('-').unwrap_or_default();
    letters.find(takes_value) == letters.char_indices().next_back().map(|(place, _)| place)
        && !letters.is_empty()
}

fn needs_value(flag: &Arg) -> bool {
    let needs_one = flag
        .get_num_args()
        .is_none_or(|count| count.min_values() > 0);
    flag.get_action().takes_values() && needs_one
}

/// The one group that has a full verb.
pub fn group_of(verb: &str) -> Option<&'static Group> {
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
    let rpcs = csi_rpc::with_groups().map(|(group, rpc)| {
        let names = rpc.names.iter().copied().chain([rpc.method.kebab_name]);
        (names.collect(), group.command_of(rpc))
    });
    // In a group its own commands are named as they are typed there.
    let is_here = |name: &str| {
        name.strip_prefix(here.get_name())
            .is_some_and(|rest| rest.starts_with(' '))
    };
    // Where no RPC can follow, none is meant.
    let leads_to =
        |group: &Group| group.name == here.get_name() || here.find_subcommand(group.name).is_some();
    let leads_to_rpcs = here.get_name() == HELP || GROUPS.iter().any(leads_to);
    let rpcs = rpcs.filter(|(_, name)| leads_to_rpcs && !is_here(name));
    let mut like = likest(word, known.chain(rpcs));
    like.truncate(MOST);
    like
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::globals::with_global_flags;
    use crate::parse::with_rpcs;

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
        let mut tree =
            with_rpcs(with_global_flags(Command::new("csi")).subcommand(Command::new("bench")));
        tree.build();
        for (line, expected) in [
            ("csi list-volumes", "csi controller list-volumes"),
            ("csi -e stage stage", "csi -e stage node stage"),
            (
                "csi --endpoint=x -v probe",
                "csi --endpoint=x -v identity probe",
            ),
            ("csi -ve probe probe", "csi -ve probe identity probe"),
            ("csi -eprobe probe", "csi -eprobe identity probe"),
            ("probe -v", "probe -v"),
            ("csi controller stage", "csi controller stage"),
            ("csi publish", "csi publish"),
            ("csi help list-volumes", "csi help controller list-volumes"),
            ("csi help bench list-volumes", "csi help bench list-volumes"),
            ("csi help help list-volumes", "csi help help list-volumes"),
            ("csi", "csi"),
        ] {
            let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            let words = with_group_if_missing(&tree, words);
            assert_eq!(words.join(" "), expected);
        }
    }

    #[test]
    fn a_verb_is_begun_where_no_command_stands() {
        let mut tree =
            with_rpcs(with_global_flags(Command::new("csi")).subcommand(Command::new("bench")));
        tree.build();
        for (line, expected) in [
            ("csi list-v", &["list-volumes"][..]),
            ("csi -e list- list-v", &["list-volumes"]),
            (
                "csi help get-metadata",
                &["get-metadata-allocated", "get-metadata-delta"],
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
}
