//! Parses command lines by the tree of commands, and reads the flags of a command. The tree is here as far as it is the same for
//! every program.
//!
//! Owns what is said where a command is missing: clap would name all there are on one line, hidden ones and aliases too;
//! and that a verb may stand without its group. All other words about a wrong line are clap's. Must not know any tool.

use super::verbs;
use clap::builder::{PossibleValue, StringValueParser, StyledStr, TypedValueParser};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, ArgMatches, Args, Command, FromArgMatches, ValueEnum};
use csi_error::{Error, OrError};
use csi_output::terminal::wrapped;
use csi_rpc::{GROUPS, Group};
use std::ffi::{OsStr, OsString};

/// How wide a list of commands may be.
const WIDTH: usize = 80;

/// Adds the commands of all RPCs.
pub fn with_rpcs(root: Command) -> Command {
    root.subcommands(GROUPS.iter().map(Group::command))
}

/// Parses `words` by the commands of `tree`.
///
/// # Errors
/// When they say nothing in it, or ask for help: clap's error.
pub fn parse<W: Into<OsString> + Clone>(
    mut tree: Command,
    words: impl IntoIterator<Item = W>,
) -> Result<ArgMatches, clap::Error> {
    let words = words.into_iter().map(Into::into).collect();
    let words = verbs::with_group_if_missing(&tree, words);
    let parsed = tree.try_get_matches_from_mut(&words);
    parsed.map_err(|mut error| {
        match (error.kind(), error.get(ContextKind::InvalidSubcommand)) {
            (ErrorKind::MissingSubcommand, _) => list_commands(&tree, &mut error),
            (ErrorKind::InvalidSubcommand, Some(ContextValue::String(word))) => {
                let word = word.clone();
                suggest(&tree, &words, &word, &mut error);
            }
            _ => {}
        }
        error
    })
}

/// Names the commands that the word may mean where it stands.
fn suggest(tree: &Command, words: &[OsString], word: &str, error: &mut clap::Error) {
    let before = words.iter().take_while(|other| *other != word);
    let here = before.fold(tree, |command, word| {
        let inner = word.to_str().and_then(|word| command.find_subcommand(word));
        inner.unwrap_or(command)
    });
    let found = verbs::suggestions(here, word);
    error.remove(ContextKind::SuggestedSubcommand);
    // Its advice about its own suggestion, which leaves an empty line where it has none.
    error.remove(ContextKind::Suggested);
    if !found.is_empty() {
        let found = ContextValue::Strings(found);
        error.insert(ContextKind::SuggestedSubcommand, found);
    }
}

/// Puts the commands that may stand next, as help would group them, in the place of clap's list of names.
fn list_commands(tree: &Command, error: &mut clap::Error) {
    let Some(ContextValue::String(path)) = error.get(ContextKind::InvalidSubcommand) else {
        return;
    };
    // The program's own name is no command.
    let command = path.split(' ').fold(tree, |command, word| {
        command.find_subcommand(word).unwrap_or(command)
    });
    let mut usage = format!("Commands:\n{}", listed(command));
    if let Some(ContextValue::StyledStr(line)) = error.get(ContextKind::Usage) {
        usage.push_str(&format!("\n{line}"));
    }
    error.remove(ContextKind::ValidSubcommand);
    let usage = ContextValue::StyledStr(StyledStr::from(usage));
    error.insert(ContextKind::Usage, usage);
}

/// A line a command: what it is about, or which commands it has in turn.
fn listed(command: &Command) -> String {
    let shown = |command: &&Command| !command.is_hide_set() && command.get_name() != "help";
    let commands: Vec<&Command> = command.get_subcommands().filter(shown).collect();
    let longest = commands.iter().map(|command| command.get_name().len());
    let indent = longest.max().unwrap_or(0) + 4;
    let mut out = String::new();
    for command in commands {
        let inner: Vec<&str> = command
            .get_subcommands()
            .filter(shown)
            .map(Command::get_name)
            .collect();
        let text = match inner.as_slice() {
            [] => command.get_about().map(ToString::to_string),
            inner => Some(inner.join(", ")),
        };
        let start = format!("  {:<width$}", command.get_name(), width = indent - 2);
        let text = text.unwrap_or_default();
        out.push_str(&wrapped(&start, indent, text.split(' '), WIDTH));
    }
    out
}

/// The answer to a tool that needs the terminal for itself.
pub const NOT_IN_A_SHELL: &str = "the shell has the terminal: this command is for outside of it";

/// The flags of a command.
///
/// # Errors
/// When the matches are of another command: a usage error in clap's own words.
pub fn flags<T: FromArgMatches>(matches: &ArgMatches) -> Result<T, Error> {
    T::from_arg_matches(matches).or_usage()
}

/// The command with the flags of `T`, and with its own description, which the description of `T` would replace.
pub fn with_flags<T: Args>(command: Command) -> Command {
    let about = command.get_about().cloned();
    let command = T::augment_args(command).long_about(None::<&str>);
    match about {
        Some(about) => command.about(about),
        None => command,
    }
}

/// A value's word on the command line.
pub fn word_of(value: &impl ValueEnum) -> String {
    let word = value.to_possible_value();
    word.map_or_else(String::new, |word| word.get_name().to_owned())
}

/// Takes any text, such as a pattern, and offers these values to completion.
#[derive(Clone)]
pub struct Offered(pub fn() -> Vec<PossibleValue>);

impl TypedValueParser for Offered {
    type Value = String;

    fn parse_ref(
        &self,
        command: &Command,
        arg: Option<&Arg>,
        value: &OsStr,
    ) -> Result<String, clap::Error> {
        StringValueParser::new().parse_ref(command, arg, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new((self.0)().into_iter()))
    }
}
