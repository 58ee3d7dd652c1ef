//! Answers the completion scripts: the words typed so far come as arguments, candidates go to stdout in the shell's own
//! notation.
//!
//! Nothing here fails aloud: a completion that cannot be had must not disturb the line that is being typed.

use super::script::VARIABLE;
use crate::cli::tree;
use clap::FromArgMatches;
use csi_call::Session;
use csi_invocation::completion::{Candidate, DriverCandidates, Tree, limit, parameters_of};
use csi_invocation::{Globals, connect, live_ids};
use csi_proto::text::is_hazardous;
use csi_shell::line::{Lexed, Open, Token, Word, WordPiece, lex};
use std::collections::HashMap;
use std::ffi::OsString;
use std::fmt::Write as _;
use tokio::time::{Instant, timeout_at};

/// Whether a script asked, and so was answered.
pub fn answer(arguments: &[OsString], name: &'static str) -> bool {
    let Some(shell) = std::env::var_os(VARIABLE) else {
        return false;
    };
    let rest = arguments.iter().skip_while(|word| *word != "--").skip(1);
    let words: Vec<String> = rest
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    let text = match shell.to_str() {
        Some("bash") => bash(&words, name),
        Some("zsh") => zsh(words, name),
        Some("fish" | "powershell" | "pwsh") => listed(&candidates(&words, name)),
        // kubectl reads a number after the last candidate: 4 keeps files from being offered.
        Some("kubectl") => listed(&candidates(&words, name)) + ":4\n",
        _ => String::new(),
    };
    let _ = csi_output::print(text.as_bytes());
    true
}

fn candidates(words: &[String], name: &'static str) -> Vec<Candidate> {
    // The driver is asked once.
    let mut known = HashMap::new();
    let mut ask = |wanted| {
        let answer = || asked(words, name, wanted).unwrap_or_default();
        known.entry(wanted).or_insert_with(answer).clone()
    };
    let all = Tree::new(tree::command(name)).candidates(words, &mut ask);
    // No shell takes a control character as it is: what arrived would be another id. The others the terminal would act on.
    let can_be_typed = |candidate: &Candidate| !candidate.value.contains(is_hazardous);
    all.into_iter().filter(can_be_typed).collect()
}

/// A line a candidate, with what is known about it behind a tab.
fn listed(candidates: &[Candidate]) -> String {
    let mut text = String::new();
    for Candidate { value, help } in candidates {
        let _ = match help {
            Some(help) => writeln!(text, "{value}\t{help}"),
            None => writeln!(text, "{value}"),
        };
    }
    text
}

/// Zsh's `_describe` takes `value:description`. Its words come as they were typed.
fn zsh(words: Vec<String>, name: &'static str) -> String {
    let index = std::env::var("_CLAP_COMPLETE_INDEX");
    let index = index.ok().and_then(|index| index.parse().ok());
    let mut words: Vec<String> = words.iter().map(|word| unquoted(word)).collect();
    words.resize(index.unwrap_or(words.len()) + 1, String::new());
    let shown = candidates(&words, name).into_iter().map(|candidate| {
        let value = candidate.value.replace('\\', "\\\\").replace(':', "\\:");
        match candidate.help {
            Some(help) => format!("{value}:{}", help.replace('\\', "\\\\")),
            None => value,
        }
    });
    shown.collect::<Vec<_>>().join("\n")
}

fn bash(arguments: &[String], name: &'static str) -> String {
    let [line, replaced] = arguments else {
        return String::new();
    };
    let Lexed {
        tokens,
        in_word,
        open,
        ..
    } = lex(line);
    let words = tokens.iter().filter_map(|token| match token {
        Token::Word(word) => Some(word),
        _ => None,
    });
    // NAME=VALUE before the command is no part of it.
    let assigns = |word: &&Word| word.bare().is_some_and(|word| word.contains('='));
    let words: Vec<&Word> = words.skip_while(assigns).collect();
    let typed = match (in_word, words.last()) {
        (true, Some(word)) => &line[word.start..],
        _ => "",
    };
    let mut all: Vec<String> = words.iter().map(|word| expanded(word)).collect();
    if !in_word {
        all.push(String::new());
    }
    // Bash replaces what stands behind the last of its own separators, or behind the open quote, which it closes. What stands before
    // is kept as it was typed.
    let kept = typed.strip_suffix(replaced.as_str()).unwrap_or_default();
    let kept = unquoted(kept);
    let mut text = String::new();
    for Candidate { value, .. } in candidates(&all, name) {
        if let Some(rest) = value.strip_prefix(&kept) {
            let _ = writeln!(text, "{}", written(rest, open, kept.is_empty()));
        }
    }
    text
}

/// `text` as bash takes it for a word, or for the rest of one, where that quote is open.
fn written(text: &str, open: Option<Open>, begins: bool) -> String {
    let mut out = String::new();
    for (index, letter) in text.chars().enumerate() {
        let special = match open {
            Some(Open::Single) => letter == '\'',
            Some(Open::Double) => "\"\\$`".contains(letter),
            _ if begins && index == 0 && "#~".contains(letter) => true,
            _ => " '\"\\$;&|<>()*?[]{}!`".contains(letter),
        };
        match (special, open, letter) {
            (false, ..) => out.push(letter),
            (true, Some(Open::Single), _) => out.push_str(r"'\''"),
            (true, ..) => out.extend(['\\', letter]),
        }
    }
    out
}

/// The word with the environment's variables put in.
fn expanded(word: &Word) -> String {
    let pieces = word.pieces.iter().map(|piece| match piece {
        WordPiece::Text(text) => text.clone(),
        WordPiece::Variable(name) => std::env::var(name).unwrap_or_default(),
    });
    pieces.collect()
}

/// A word as it was typed, without its quotes.
fn unquoted(word: &str) -> String {
    let lexed = lex(word);
    let words = lexed.tokens.iter().filter_map(|token| match token {
        Token::Word(word) => Some(expanded(word)),
        _ => None,
    });
    words.collect::<Vec<_>>().join(" ")
}

/// What the driver that an unfinished line names, by the flags that are there, answers in time.
fn asked(words: &[String], name: &'static str, wanted: DriverCandidates) -> Option<Vec<String>> {
    let (_, before) = words.split_last()?;
    let command = tree::command(name).ignore_errors(true);
    let matches = command.try_get_matches_from(before).ok()?;
    let mut globals = Globals::from_arg_matches(&matches).ok()?;
    if name != "csc" {
        globals.choose_context().ok()?;
    }
    let endpoint = connect::endpoint(&globals).ok()?;
    let runtime = connect::runtime().ok()?;
    let answer = runtime.block_on(async {
        let end = Instant::now() + limit(&globals);
        let options = globals.connect_options();
        let opened = timeout_at(end, Session::open(&endpoint, &options)).await;
        let session = connect::with_deadline_and_metadata(opened.ok()?.ok()?, &globals).ok()?;
        let left = end.saturating_duration_since(Instant::now());
        Some(match wanted {
            DriverCandidates::Ids(kind) => live_ids::fetch(&session, kind, left).await,
            DriverCandidates::Parameters => {
                parameters_of(&live_ids::driver_name(&session, left).await?)
            }
        })
    });
    // A command of an exec: endpoint that hangs must not hold up the answer.
    runtime.shutdown_background();
    answer
}
