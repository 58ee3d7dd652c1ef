//! Runs lines that come from a file, from standard input or from `-c`.

use super::execute::{self, Flow, Shell};
use super::line::{self, Open, Statement};
use super::statement::without_secret;
use csi_arguments::text::LIMIT;
use csi_error::{Error, ErrorKind, OrError};
use csi_output::terminal::cut;
use csi_sys::waits;
use std::io::{self, BufRead, BufReader, Read as _};
use std::path::Path;

/// The columns that the command of a failed line may take in its error.
const MOST: usize = 60;

/// Where the lines of a script come from; none for stdin, which its commands may read too.
type Source<'a> = Option<Box<dyn BufRead + 'a>>;

/// Runs the lines of a file.
///
/// # Errors
/// The first failure, with its line; also when it cannot be read.
pub fn file(shell: &mut Shell, path: &Path, keep_going: bool) -> Result<Flow, Error> {
    let name = path.display().to_string();
    let file = waits::open(path).or_unusable(format_args!("{name} cannot be read"))?;
    let source = Some(Box::new(BufReader::new(file)) as _);
    lines(shell, &name, source, keep_going)
}

/// Runs the lines of a text, that of `-c`.
///
/// # Errors
/// The first failure, with its line.
pub fn text(shell: &mut Shell, text: &str, keep_going: bool) -> Result<Flow, Error> {
    let source = Some(Box::new(text.as_bytes()) as _);
    lines(shell, "-c", source, keep_going)
}

/// Runs the lines of standard input, as they come.
///
/// # Errors
/// The first failure, with its line.
pub fn stdin(shell: &mut Shell, keep_going: bool) -> Result<Flow, Error> {
    lines(shell, "stdin", None, keep_going)
}

/// Runs lines up to the first failure, or all of them with `keep_going`; then the failures on the way are told, and the
/// first of them is the result. `name` is where the lines come from, for errors.
fn lines(
    shell: &mut Shell,
    name: &str,
    mut source: Source<'_>,
    keep_going: bool,
) -> Result<Flow, Error> {
    let outer = shell.place.take();
    let mut first = None;
    let mut number = 0;
    let ended = loop {
        let (text, start, is_last) = match whole_line(name, &mut source, &mut number) {
            Ok(line) => line,
            Err(error) => break Err(error),
        };
        let place = format!("{name}:{start}");
        match line(shell, &text, &place, keep_going, &mut first) {
            Ok(Flow::Continue) if !is_last => {}
            ended => break ended,
        }
    };
    shell.place = outer;
    match first {
        Some(error) if ended.is_ok() => Err(error),
        _ => ended,
    }
}

/// The next line with those that it goes on in, the number of its first, and whether it is the last.
fn whole_line(
    name: &str,
    source: &mut Source<'_>,
    number: &mut usize,
) -> Result<(String, usize, bool), Error> {
    let mut text = String::new();
    let mut open = None;
    let start = *number + 1;
    loop {
        let mut next = String::new();
        let read = match source {
            None => read_line(&mut *waits::stdin(), &mut next),
            Some(source) => read_line(source, &mut next),
        };
        read.or_unusable(format_args!("{name} cannot be read"))
            .map_err(Shell::cut_short)?;
        *number += 1;
        // Editors of other systems begin a file with it.
        let next = match *number {
            1 => next.trim_start_matches('\u{feff}').to_owned(),
            _ => next,
        };
        text.push_str(&next);
        // To read all of it again after each line of a long quote would take the square of its length.
        if open.is_none_or(|open: Open| open.may_end_in(&next)) {
            // The line's own end does not count: a backslash before it does.
            open = line::open(text.trim_end_matches(['\n', '\r']));
        }
        if next.is_empty() || open.is_none() {
            return Ok((text, start, next.is_empty()));
        }
    }
}

fn read_line(input: &mut dyn BufRead, line: &mut String) -> io::Result<()> {
    match input.take(LIMIT).read_line(line)? as u64 {
        LIMIT => Err(io::Error::new(
            io::ErrorKind::InvalidData,
            format!("a line holds {} MiB or more", LIMIT >> 20),
        )),
        _ => Ok(()),
    }
}

/// Runs the statements of a line. With `keep_going` a failure is told, and the first kept.
fn line(
    shell: &mut Shell,
    text: &str,
    place: &str,
    keep_going: bool,
    first: &mut Option<Error>,
) -> Result<Flow, Error> {
    let results: Vec<Result<Statement, Error>> = match execute::parsed(text) {
        Ok(statements) => statements.into_iter().map(Ok).collect(),
        Err(error) => vec![Err(error)],
    };
    for result in results {
        shell.place = Some(place.to_owned());
        let ran = result.and_then(|statement| {
            let ran = shell.run_statement(&statement);
            ran.map_err(|error| naming(error, &statement))
        });
        match ran {
            Ok(Flow::Continue) => {}
            Ok(Flow::Leave) => return Ok(Flow::Leave),
            Err(error) => {
                let error = error.at(place);
                if !keep_going || error.kind() == ErrorKind::Interrupted {
                    return Err(error);
                }
                shell.report(&error);
                first.get_or_insert(error.reported());
            }
        }
    }
    Ok(Flow::Continue)
}

/// An error that says which command of a line it is: a call has said so, and a comparison is shown by its failure.
fn naming(error: Error, statement: &Statement) -> Error {
    // A secret may stand in any word but the first.
    let words: Vec<String> = statement
        .source
        .split_whitespace()
        .map(str::to_owned)
        .collect();
    match words.first().map(String::as_str) {
        Some("assert") => error,
        _ => error.doing(cut(
            &without_secret(statement.name.as_deref(), &words),
            MOST,
        )),
    }
}
