//! Runs one statement: expands its words, leads its output where it says, keeps its reply under its name, and defers.
//!
//! What a line means is in `line`, what a command does in `execute`.

use super::deferred::{Deferred, Expanded};
use super::execute::{self, Flow, Shell};
use super::history::has_secret;
use super::line::{Statement, Word, WordPiece, is_name, quoted};
use super::pipeline::Pipeline;
use super::psql::{self, Meant};
use super::values::{ENVIRONMENT, LAST, Variable};
use csi_error::{Error, ErrorKind, OrError, say};
use csi_proto::escaped;
use std::time::Instant;

/// The file in which what a `;` keeps quiet is lost.
const NOWHERE: &str = "/dev/null";

impl Shell {
    /// Runs one statement; its failure says what may have been meant.
    pub(crate) fn run_statement(&mut self, statement: &Statement) -> Result<Flow, Error> {
        let result = self.perform(statement);
        if let (Err(error), Some(name)) = (&result, &statement.name)
            && !(self.is_interactive() && error.kind() == ErrorKind::Usage)
        {
            // A command that follows would take what was there before. Who mistypes at the prompt types again.
            self.values.remove(name);
        }
        result.map_err(|error| hint_for_text(statement, Self::cut_short(error)))
    }

    /// Runs one statement.
    fn perform(&mut self, statement: &Statement) -> Result<Flow, Error> {
        if statement.is_psql {
            return self.perform_psql(statement);
        }
        if self.settings.echo {
            self.echo(statement)?;
        }
        let typed = statement.words.as_slice();
        if let ([word], true) = (typed, statement.has_no_target())
            && let Some(path) = only_variable(word)
        {
            return match &statement.name {
                Some(name) => self.assign(name, path, word),
                None => self.print_value(path),
            };
        }
        let words = self.expanded(&statement.words)?;
        if let (Some(name), [word], [value]) = (&statement.name, typed, words.as_slice())
            && is_text(word, value)
        {
            self.assignable(name)?;
            self.values.set(name, Variable::Text(value.clone()));
            return Ok(Flow::Continue);
        }
        if let [print, word] = typed
            && print.bare() == Some("print")
            && statement.has_no_target()
            && let Some(path) = only_variable(word)
        {
            return self.print_value(path);
        }
        let mut programs = Vec::new();
        for program in &statement.programs {
            programs.push(self.expanded(program)?);
        }
        let is_quiet = statement.name.is_some() && statement.is_quiet;
        let file = match &statement.file {
            Some((word, append)) => Some((self.values_in(word)?, *append)),
            None if is_quiet && statement.has_no_target() => Some((NOWHERE.to_owned(), false)),
            None => None,
        };
        let expanded = Expanded {
            words,
            typed: statement.words.iter().map(Word::as_typed).collect(),
            programs,
            file,
        };
        if let Some(name) = &statement.name {
            self.assignable(name)?;
        }
        self.run_expanded(statement.name.as_deref(), expanded)
    }

    /// Does what a command of psql is here; its output goes where the line leads it.
    fn perform_psql(&mut self, statement: &Statement) -> Result<Flow, Error> {
        let words = self.expanded(&statement.words)?;
        let line = match psql::meant(&words).or_usage()? {
            Meant::Line(line) => line,
            Meant::OtherRecords => {
                say!("records are {}", self.settings.toggle_records());
                return Ok(Flow::Continue);
            }
        };
        for mut meant in execute::parsed(&line)? {
            meant.programs.clone_from(&statement.programs);
            meant.file.clone_from(&statement.file);
            if self.run_statement(&meant)? == Flow::Leave {
                return Ok(Flow::Leave);
            }
        }
        Ok(Flow::Continue)
    }

    fn run_expanded(&mut self, name: Option<&str>, expanded: Expanded) -> Result<Flow, Error> {
        if let [defer, first, ..] = expanded.words.as_slice()
            && defer == "defer"
            && !first.starts_with('-')
            && name.is_none()
        {
            let mut later = expanded;
            later.words.remove(0);
            later.typed.remove(0);
            self.defer(later)?;
            return Ok(Flow::Continue);
        }
        let started = Instant::now();
        self.reply = None;
        self.typed = expanded.typed;
        // The line that turns it on is not timed, and not the one that turns it off.
        let is_timed = self.timing;
        let is_piped = !expanded.programs.is_empty();
        self.may_be_open |= is_piped && expanded.file.is_none();
        // Before the programs start: one of them may send such a signal at once.
        let signals = is_piped.then(|| self.end_signals()).flatten();
        // A signal that came earlier ends no program: the shell would wait for it.
        self.interrupts.stop_if_asked()?;
        let pipeline = Pipeline::start(&expanded.programs, expanded.file)?;
        let ender = signals.map(|signals| self.end_with_shell(pipeline.handles(), signals));
        let outer = self.is_piped;
        self.is_piped |= is_piped;
        let result = self.command(expanded.words);
        self.is_piped = outer;
        let piped = pipeline.finish();
        if let Some(ender) = ender {
            ender.abort();
        }
        if is_timed && self.timing {
            let milliseconds = started.elapsed().as_secs_f64() * 1000.0;
            say!("time: {milliseconds:.1} ms");
        }
        let reply = self.reply.take().map(Variable::Reply);
        if let Some(reply) = &reply {
            self.values.set(LAST, reply.clone());
        }
        let flow = result?;
        // The signal that ended a program ends a script, too: also behind its last statement, and before the program's failure counts.
        if is_piped && !self.is_interactive() {
            self.interrupts.stop_if_asked()?;
        }
        piped?;
        match (name, reply) {
            (Some(name), Some(reply)) => self.values.set(name, reply),
            (Some(name), None) => {
                return Err(Error::usage(format!(
                    "the command has no reply that ${name} could be"
                )));
            }
            (None, _) => {}
        }
        Ok(flow)
    }

    /// Keeps a command for the end. A mistake in it is found now, not when it is needed.
    fn defer(&mut self, statement: Expanded) -> Result<(), Error> {
        self.check(&statement.words)?;
        self.deferred.push(Deferred {
            statement,
            place: self.place.clone(),
            settings: self.settings.clone(),
        });
        Ok(())
    }

    /// Keeps these words for the end.
    pub(super) fn defer_words(&mut self, words: Vec<String>) -> Result<(), Error> {
        self.defer(Expanded {
            typed: words.clone(),
            words,
            ..Expanded::default()
        })
    }

    /// Runs what was deferred, the last first. A failure, or Ctrl-C, ends one command and not those that follow; where the shell
    /// was asked to end, each has its share of the time.
    ///
    /// # Errors
    /// The first failure, which is reported.
    pub(crate) fn run_deferred(&mut self) -> Result<(), Error> {
        let mut first = Ok(());
        while let Some(Deferred {
            statement,
            place,
            settings,
        }) = self.deferred.pop()
        {
            self.settings = settings;
            self.interrupts.share_time(self.deferred.len() + 1);
            // What was pressed before was not meant for this one.
            self.forget_interrupts();
            if let Some(ending) = self.interrupts.ending() {
                ending.let_go_of_lost_terminal();
            }
            // What was deferred runs also where nobody can see it.
            let _ = self.end_line();
            if self.settings.echo || self.is_interactive() {
                let words: Vec<String> = statement.words.iter().map(|one| quoted(one)).collect();
                say!("deferred: {}", escaped(&without_secret(None, &words)));
            }
            if let Err(error) = self.run_expanded(None, statement) {
                let error = match place {
                    Some(place) => error.at(place),
                    None => error,
                };
                self.report(&error);
                if first.is_ok() {
                    first = Err(error.reported());
                }
            }
        }
        first
    }

    /// Makes what stands at a path a variable of its own, or its text where the word has a default.
    fn assign(&mut self, name: &str, path: &str, word: &Word) -> Result<Flow, Error> {
        self.assignable(name)?;
        let value = match path.contains(":-") || word.quoted {
            true => Variable::Text(self.values_in(word)?),
            false => self.values.at(path).or_usage()?,
        };
        self.values.set(name, value);
        Ok(Flow::Continue)
    }

    fn assignable(&self, name: &str) -> Result<(), Error> {
        match name == ENVIRONMENT {
            true => Err(Error::usage(
                "$env is the environment: choose another name for the variable",
            )),
            false => Ok(()),
        }
    }

    /// Shows a statement on stderr before it runs, with its variables expanded but for those of the environment.
    fn echo(&self, statement: &Statement) -> Result<(), Error> {
        let mut words = Vec::new();
        for word in &statement.words {
            let shown = self.values.shown(word).or_usage()?;
            words.push(match (word.bare(), only_variable(word)) {
                (Some(bare), _) => bare.to_owned(),
                (None, Some(_)) if statement.words.len() == 1 => word.as_typed(),
                (None, _) => quoted(&shown),
            });
        }
        let name = statement.name.iter().map(|name| format!("{name} = "));
        let line = without_secret(statement.name.as_deref(), &words);
        say!("+ {}{}", name.collect::<String>(), escaped(&line));
        Ok(())
    }

    fn expanded(&self, words: &[Word]) -> Result<Vec<String>, Error> {
        words.iter().map(|word| self.values_in(word)).collect()
    }

    fn values_in(&self, word: &Word) -> Result<String, Error> {
        let expanded = self.values.expand(word);
        expanded.or_usage()
    }
}

/// Words as they may be shown: of what may hold a secret the command alone, and nothing of what is kept under a name.
pub(crate) fn without_secret(name: Option<&str>, words: &[String]) -> String {
    let line = words.join(" ");
    let whole = name.map(|name| format!("{name}={line}"));
    match (name, words) {
        _ if !has_secret(whole.as_ref().unwrap_or(&line)) => line,
        (None, [first, ..]) => format!("{first} … (it may hold a secret)"),
        _ => "… (it may hold a secret)".to_owned(),
    }
}

/// The path of a word that is one variable and nothing else.
fn only_variable(word: &Word) -> Option<&str> {
    match word.pieces.as_slice() {
        [WordPiece::Variable(path)] => Some(path),
        _ => None,
    }
}

/// Whether the one word behind `name =` is text and not a command: what is quoted or expanded, and what no command can be
/// called, such as `5`, `10Gi` and `/csi/csi.sock`.
pub fn is_text(word: &Word, value: &str) -> bool {
    let has_variable = word
        .pieces
        .iter()
        .any(|piece| matches!(piece, WordPiece::Variable(_)));
    let letters = |letter: char| letter.is_ascii_lowercase() || letter == '-';
    let is_command_like = value.chars().all(letters) && value.starts_with(char::is_alphabetic);
    word.quoted || has_variable || matches!(value, "true" | "false") || !is_command_like
}

/// The words of a failed command that only a person could have meant as text get a word about that.
fn hint_for_text(statement: &Statement, error: Error) -> Error {
    match (&statement.name, statement.words.as_slice(), error.kind()) {
        (Some(name), [word], ErrorKind::Usage) if name != ENVIRONMENT => match word.bare() {
            Some(text) => error.hint(format!("text is quoted: {name} = \"{text}\"")),
            None => error,
        },
        (None, words, ErrorKind::Usage) => error.with_hint(hint_for_assignment(words)),
        _ => error,
    }
}

/// What is wrong with `x=5`, `x =5` or `5 = x`, which other shells or people would take for an assignment.
fn hint_for_assignment(words: &[Word]) -> Option<String> {
    // The value may be quoted, or a variable.
    let begin = |word: &Word| match word.pieces.first() {
        Some(WordPiece::Text(text)) => Some(text.clone()),
        _ => None,
    };
    let first = begin(words.first()?)?;
    let (first, second) = (first.as_str(), words.get(1).and_then(begin));
    let second = second.as_deref().unwrap_or_default();
    if words.get(1).and_then(Word::bare) == Some("=") {
        return Some(format!(
            "{first:?} can be no name: a name has letters, digits and _, and begins with no digit"
        ));
    }
    let name = match first.split_once('=') {
        Some((name, _)) => name,
        None if second.starts_with('=') && !second.starts_with("==") => first,
        None => return None,
    };
    is_name(name).then(|| format!("blanks stand around the sign: {name} = VALUE"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::line::statements;

    #[test]
    fn numbers_paths_and_quoted_words_are_text_and_names_of_commands_are_not() {
        let text = |line: &str| {
            let statement = statements(line).unwrap().remove(0);
            let word = &statement.words[0];
            is_text(word, &word.as_typed())
        };
        for line in [
            "x = 5",
            "x = -1",
            "x = 10Gi",
            "x = /csi/csi.sock",
            "x = unix:///csi/csi.sock",
            "x = \"text\"",
            "x = 'probe'",
            "x = $y",
            "x = a-$y",
            "x = true",
            "x = pvc-1",
            "x = k=v,l=w",
        ] {
            assert!(text(line), "{line}");
        }
        for line in ["x = probe", "x = help", "x = list-volumes", "x = c"] {
            assert!(!text(line), "{line}");
        }
    }
}
