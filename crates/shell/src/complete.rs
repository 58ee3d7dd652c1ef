//! Completion and hints while a line is typed: a layer between the line editor and the tree.

use super::builtins;
use super::describe;
use super::execute::Shell;
use super::line::{self, Open, Token, Word, innermost, quoted};
use super::psql::{self, Following};
use super::settings;
use clap::FromArgMatches;
use csi_invocation::Globals;
use csi_invocation::completion::{Candidate, DriverCandidates, Tree, parameters_of};
use csi_output::colour;
use csi_output::terminal::{self, columns_of, cut};
use csi_proto::codes::NAMES as CODE_NAMES;
use csi_proto::escaped;
use csi_rpc::facts::Thing;
use rustyline::completion::{Completer, Pair};
use rustyline::highlight::Highlighter;
use rustyline::hint::{Hint, Hinter};
use rustyline::validate::Validator;
use rustyline::{Context, Helper};
use std::borrow::Cow;
use std::cell::RefCell;
use std::rc::Rc;

/// Answers the line editor while a line is typed.
pub(crate) struct Assistant {
    shell: Rc<RefCell<Shell>>,
    /// The lines before the one that is typed, which goes on from them.
    begun: String,
    /// Built at the first Tab: a prompt must not wait for it.
    tree: RefCell<Option<Tree>>,
}

/// The unfinished end of a line.
struct Unfinished {
    /// The words of the command so far, the last of which is being typed.
    words: Vec<String>,
    /// The start of the last word, in bytes.
    start: usize,
    /// The typed part of that word, with its quotes.
    typed: String,
    /// Whether it is the file of `>`.
    is_file: bool,
    /// The names that can stand there, where these are not commands or arguments.
    names: Option<Vec<String>>,
}

impl Assistant {
    /// For a session.
    pub fn new(shell: Rc<RefCell<Shell>>) -> Self {
        Self {
            shell,
            begun: String::new(),
            tree: RefCell::new(None),
        }
    }

    /// The line that is typed from now on goes on from these.
    pub(crate) fn goes_on_from(&mut self, begun: &str) {
        begun.clone_into(&mut self.begun);
    }

    /// Everything that could stand where the line ends.
    fn candidates(&self, unfinished: &Unfinished) -> Vec<Candidate> {
        let bare = |value: String| Candidate { value, help: None };
        if let Some(names) = &unfinished.names {
            let names = names.iter();
            let fitting = names.filter(|name| name.starts_with(&unfinished.typed));
            return fitting.cloned().map(bare).collect();
        }
        let words = innermost(&unfinished.words);
        let current = words.last().map_or("", String::as_str);
        if unfinished.is_file {
            // `source` takes any file too.
            let words = ["source".to_owned(), current.to_owned()];
            return self.asked(&words);
        }
        let own: Vec<String> = match words {
            [expect, _] if expect == "expect" => {
                let codes = CODE_NAMES.iter().copied().chain(["USAGE", "LOCAL"]);
                codes.map(str::to_owned).collect()
            }
            [set, _] if set == "set" || set == "unset" => {
                let names = settings::NAMES.iter().map(|(name, _)| (*name).to_owned());
                let shell = self.shell.borrow();
                let variables = shell.values.iter().map(|(name, _)| name.to_owned());
                let variables = variables.filter(|_| set == "unset");
                names.chain(variables).collect()
            }
            [set, name, value] if set == "set" => match settings::values(name) {
                [] => return self.setting(name, value),
                values => values.iter().map(|value| (*value).to_owned()).collect(),
            },
            [connect, _] if connect == "connect" => {
                let flags = ["--endpoint", "--context"].map(str::to_owned);
                let asked = flags.map(|flag| self.asked(&[flag, current.to_owned()]));
                return asked.into_iter().flatten().collect();
            }
            [desc, _] if desc == "desc" => describe::names(),
            [edit, _] if edit == "edit" => {
                let methods = csi_proto::tables::METHODS.iter();
                methods.map(|method| method.name.to_owned()).collect()
            }
            // A group and a verb, as they are typed elsewhere.
            [desc, name @ ..] if desc == "desc" || desc == "edit" => return self.asked(name),
            words => {
                let mut asked = self.asked(words);
                // Behind the shell's own commands the flags of all commands are of no use; they are offered behind a -.
                if current.is_empty() && words.first().is_some_and(|name| builtins::has(name)) {
                    asked.retain(|one| !one.value.starts_with('-'));
                }
                return asked;
            }
        };
        let wanted = current.to_lowercase();
        let fitting = own.into_iter();
        let fitting = fitting.filter(|name| name.to_lowercase().starts_with(&wanted));
        fitting.map(bare).collect()
    }

    /// The values of a setting are those of the flag of that name.
    fn setting(&self, name: &str, current: &str) -> Vec<Candidate> {
        let words = match name {
            "endpoint" | "output" | "columns" => vec![format!("--{name}"), current.to_owned()],
            "cap" => match csi_rpc::maker(Thing::Volume) {
                Some((group, rpc)) => [group.name, rpc.verb(), "--cap", current]
                    .map(str::to_owned)
                    .into(),
                None => return Vec::new(),
            },
            "secrets-file" => ["source", current].map(str::to_owned).into(),
            _ => return Vec::new(),
        };
        self.asked(&words)
    }

    fn asked(&self, words: &[String]) -> Vec<Candidate> {
        let mut tree = self.tree.borrow_mut();
        let program = self.shell.borrow().program;
        let tree = tree.get_or_insert_with(|| Tree::new(builtins::tree(program)));
        tree.candidates(words, &mut |wanted| {
            let mut shell = self.shell.borrow_mut();
            let before = words.split_last().map_or(words, |(_, before)| before);
            let globals = line_globals(&shell, before);
            match wanted {
                DriverCandidates::Ids(kind) => shell.offered_ids(&globals, kind),
                DriverCandidates::Parameters => parameters_of(shell.driver_name()),
            }
        })
    }
}

/// The flags of an unfinished line, and the settings where it says nothing.
fn line_globals(shell: &Shell, words: &[String]) -> Globals {
    let tree = builtins::tree(shell.program).ignore_errors(true);
    let parsed = tree.try_get_matches_from(words).ok().and_then(|matches| {
        let globals = Globals::from_arg_matches(&matches).ok()?;
        Some(shell.settings.globals(globals, &matches))
    });
    parsed.unwrap_or_else(|| shell.settings.globals_of_shell())
}

/// The unfinished end of `text`; `None` where nothing can be offered.
fn unfinished(shell: &Shell, text: &str) -> Option<Unfinished> {
    let lexed = line::lex(text);
    if lexed.in_comment {
        return None;
    }
    if lexed.open == Some(Open::Backslash) {
        // Only a command of psql begins so.
        let begins = lexed.tokens.last().is_none_or(Token::is_end);
        return begins.then(|| Unfinished {
            words: Vec::new(),
            start: text.len() - 1,
            typed: "\\".to_owned(),
            is_file: false,
            names: Some(psql_names()),
        });
    }
    let mut statement: &[Token] = lexed
        .tokens
        .rsplit(Token::is_end)
        .next()
        .unwrap_or_default();
    if statement.contains(&Token::Pipe) {
        // A program's words are its own business, but for a file at the end.
        let redirect = |token: &Token| matches!(token, Token::Redirect { .. });
        let at = statement.iter().position(redirect)?;
        statement = &statement[at..];
    }
    let mut words: Vec<&Word> = Vec::new();
    let mut is_file = false;
    for token in statement {
        match token {
            Token::Word(word) => words.push(word),
            Token::Redirect { .. } => is_file = true,
            Token::Pipe | Token::End(_) | Token::Foreign(_) => {}
        }
    }
    let (mut start, mut typed) = match words.last() {
        Some(word) if lexed.in_word => (word.start, text.get(word.start..)?),
        _ => (text.len(), ""),
    };
    let mut names = None;
    if let Some((at, sign)) = variable_at(typed) {
        (start, typed) = (start + at, &typed[at..]);
        let paths = shell.values.continuations(&typed[sign.len()..]).into_iter();
        names = Some(paths.map(|path| format!("{sign}{path}")).collect());
    }
    // What a variable is matters only for words that are finished.
    let expand = |word: &&Word| {
        let expanded = shell.values.expand(word);
        expanded.unwrap_or_else(|_| word.as_typed())
    };
    let is_psql = words
        .first()
        .is_some_and(|word| line::is_psql(&text[word.start..]));
    let mut words: Vec<String> = words.iter().map(expand).collect();
    if !lexed.in_word {
        words.push(String::new());
    }
    if is_psql && words.len() > 1 {
        let before: Vec<&str> = words[..words.len() - 1]
            .iter()
            .map(String::as_str)
            .collect();
        match psql::following(&before)? {
            Following::Command(command, count) => {
                words.splice(..count, command.split(' ').map(str::to_owned));
            }
            Following::Names(known) => {
                names = Some(known.iter().map(|name| (*name).to_owned()).collect());
            }
        }
    } else if is_psql {
        names = Some(psql_names());
    }
    Some(Unfinished {
        words,
        start,
        typed: typed.to_owned(),
        is_file,
        names,
    })
}

/// The commands of psql as they are typed.
fn psql_names() -> Vec<String> {
    psql::names().map(|name| format!("\\{name}")).collect()
}

/// Where the variable at the end of an unfinished word begins, and the sign before its path.
fn variable_at(typed: &str) -> Option<(usize, &'static str)> {
    let at = typed.rfind('$')?;
    let is_text = typed.starts_with('\'') || typed[..at].ends_with('\\');
    let rest = &typed[at + 1..];
    let (path, sign) = match rest.strip_prefix('{') {
        Some(path) => (path, "${"),
        None => (rest, "$"),
    };
    let is_path = path
        .chars()
        .all(|c| c.is_ascii_alphanumeric() || "_.[]\"".contains(c));
    (is_path && !is_text).then_some((at, sign))
}

/// The line editor counts what it lists in 16 bits; nobody reads more either.
const MOST: usize = 20_000;

/// Columns that the line editor leaves between two candidates.
const GAP: usize = 2;

/// A candidate shortened to one line of the list: only its end is shown, in which ids differ.
fn shortened(text: &str, columns: usize) -> String {
    let room = columns.saturating_sub(GAP).max(2);
    if columns_of(text) <= room {
        return text.to_owned();
    }
    let mut end = String::new();
    for letter in text.chars().rev() {
        if columns_of(&end) + columns_of(letter.encode_utf8(&mut [0; 4])) >= room {
            break;
        }
        end.insert(0, letter);
    }
    format!("…{end}")
}

/// The common start of all replacements.
fn common_start(pairs: &[Pair]) -> &str {
    let Some((first, rest)) = pairs.split_first() else {
        return "";
    };
    let first = first.replacement.as_str();
    let same = |other: &Pair| {
        let both = first.char_indices().zip(other.replacement.chars());
        let mut differing = both.filter(|((_, a), b)| a != b);
        let shorter = first.len().min(other.replacement.len());
        differing.next().map_or(shorter, |((at, _), _)| at)
    };
    let length = rest.iter().map(same).min().unwrap_or(first.len());
    first.get(..length).unwrap_or_default()
}

/// After a list the line editor (rustyline 19) draws the line again as many rows above the list's end as the line's cursor
/// had rows above it, over what was listed last. Those rows are added to what it lists last, as blank lines.
fn keep_last_row(pairs: &mut [Pair], columns: usize, rows_above: usize) {
    let widest = pairs.iter().map(|pair| columns_of(&pair.display)).max();
    let Some(widest) = widest.filter(|_| pairs.len() > 1 && rows_above > 0) else {
        return;
    };
    let across = (columns / (widest + GAP).min(columns).max(1)).max(1);
    let down = pairs.len().div_ceil(across);
    let last = (0..across).map(|column| column * down + down - 1);
    if let Some(pair) = last
        .rev()
        .find(|index| *index < pairs.len())
        .and_then(|index| pairs.get_mut(index))
    {
        pair.display.push_str(&"\n".repeat(rows_above));
    }
}

impl Completer for Assistant {
    type Candidate = Pair;

    fn complete(
        &self,
        line: &str,
        position: usize,
        _: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<Pair>)> {
        let typed = line.get(..position).unwrap_or(line);
        let whole = format!("{}{typed}", self.begun);
        let Some(unfinished) = unfinished(&self.shell.borrow(), &whole) else {
            return Ok((position, Vec::new()));
        };
        // A word that began in a line before cannot be replaced in this one.
        let Some(place) = unfinished.start.checked_sub(self.begun.len()) else {
            return Ok((position, Vec::new()));
        };
        let mut candidates = self.candidates(&unfinished);
        candidates.truncate(MOST);
        let only = candidates.len() == 1;
        // Names stand as they are.
        let is_name = unfinished.names.is_some();
        let columns = terminal::width().unwrap_or(80);
        let pairs = candidates.into_iter().map(|Candidate { value, .. }| {
            let mut replacement = match is_name {
                true => value.clone(),
                false => quoted(&value),
            };
            // After these more may follow in the same word.
            if only && !value.starts_with('$') && !value.ends_with(['/', '=', ':', ',']) {
                replacement.push(' ');
            }
            Pair {
                display: shortened(&escaped(&value), columns),
                replacement,
            }
        });
        let mut pairs: Vec<Pair> = pairs.collect();
        // The list comes at the second Tab, when the first has put in what all have in common.
        let start = typed.get(..place).unwrap_or_default();
        let common = columns_of(common_start(&pairs)).max(columns_of(&unfinished.typed));
        let typed = columns_of(self.shell.borrow().last_prompt()) + columns_of(start) + common;
        keep_last_row(&mut pairs, columns, typed / columns.max(1));
        Ok((place, pairs))
    }
}

/// What stands behind the line while it is typed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Suggestion {
    shown: String,
    /// What the right arrow adds to the line.
    rest: Option<String>,
}

impl Suggestion {
    /// The rest of a line that was typed before, cut to the room that there is.
    fn of_history(rest: &str, room: usize) -> Self {
        Self {
            shown: cut(rest, room),
            rest: Some(rest.to_owned()),
        }
    }
}

impl Hint for Suggestion {
    fn display(&self) -> &str {
        &self.shown
    }

    fn completion(&self) -> Option<&str> {
        self.rest.as_deref()
    }
}

impl Assistant {
    /// The arguments that a command still lacks, behind a blank.
    fn wanted(&self, line: &str) -> Option<String> {
        let whole = format!("{}{line}", self.begun);
        if !line.ends_with(' ') {
            return None;
        }
        let unfinished = unfinished(&self.shell.borrow(), &whole)?;
        let words = innermost(&unfinished.words);
        let (current, words) = words.split_last()?;
        if !current.is_empty() || unfinished.is_file {
            return None;
        }
        builtins::wants(self.shell.borrow().program, words)
    }
}

impl Hinter for Assistant {
    type Hint = Suggestion;

    /// The arguments that a command still lacks, or else the rest of the last line that began so.
    fn hint(&self, line: &str, position: usize, _: &Context<'_>) -> Option<Suggestion> {
        if position < line.len() {
            return None;
        }
        if let Some(shown) = self.wanted(line) {
            return Some(Suggestion { shown, rest: None });
        }
        // Without colours it would look like what was typed.
        if !colour::is_wanted() {
            return None;
        }
        let shell = self.shell.borrow();
        let rest = shell
            .history
            .rest_of(line)
            .filter(|_| self.begun.is_empty())?;
        let columns = terminal::width().unwrap_or(80).max(2);
        let typed = columns_of(shell.last_prompt()) + columns_of(line);
        let room = columns - typed % columns;
        (room > 2).then(|| Suggestion::of_history(rest, room - 1))
    }
}

impl Highlighter for Assistant {
    /// Fainter than what is typed, where that is wanted.
    fn highlight_hint<'h>(&self, hint: &'h str) -> Cow<'h, str> {
        match std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty()) {
            true => Cow::Borrowed(hint),
            false => Cow::Owned(format!("\x1b[2m{hint}\x1b[0m")),
        }
    }
}

// A line that goes on is read in lines of their own, each with a prompt.
impl Validator for Assistant {}

impl Helper for Assistant {}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(of: &[&str]) -> Vec<Pair> {
        let pair = |text: &&str| Pair {
            display: (*text).to_owned(),
            replacement: (*text).to_owned(),
        };
        of.iter().map(pair).collect()
    }

    #[test]
    fn what_is_listed_fits_its_line() {
        assert_eq!(shortened("abc", 10), "abc");
        assert_eq!(shortened("abcdefghijkl", 10), "…fghijkl");
        assert_eq!(shortened("日本日本日本", 10), "…本日本");
    }

    #[test]
    fn a_suggestion_shows_what_fits_and_adds_the_whole() {
        let suggestion = Suggestion::of_history("-volume vol-1", 8);
        assert_eq!(suggestion.display(), "-volume…");
        assert_eq!(suggestion.completion(), Some("-volume vol-1"));
        assert_eq!(Suggestion::of_history("x", 8).display(), "x");
    }

    #[test]
    fn replacements_have_a_common_start() {
        assert_eq!(common_start(&pairs(&["abc", "abd", "ab"])), "ab");
        assert_eq!(common_start(&pairs(&["größe", "größer"])), "größe");
        assert_eq!(common_start(&pairs(&["x", "y"])), "");
        assert_eq!(common_start(&[]), "");
    }

    #[test]
    fn the_row_that_is_drawn_over_is_a_blank_one() {
        let shown = |of: &[&str], rows| {
            let mut all = pairs(of);
            keep_last_row(&mut all, 20, rows);
            all.into_iter().map(|pair| pair.display).collect::<Vec<_>>()
        };
        // One column: the last is listed last.
        let long = ["aaaaaaaaaaaa", "bbbbbbbbbbbb"];
        assert_eq!(shown(&long, 2), ["aaaaaaaaaaaa", "bbbbbbbbbbbb\n\n"]);
        // Two columns of two rows: `a c` and `b`, of which `b` is listed last.
        let short = ["aaaaaaaa", "bbbbbbbb", "cccccccc"];
        assert_eq!(shown(&short, 1), ["aaaaaaaa", "bbbbbbbb\n", "cccccccc"]);
        assert_eq!(shown(&short, 0), short);
    }
}
