//! Runs lines that come from a file, from standard input or from `-c`.

use super::execute::{self, Flow, Shell};
use super::line::{self, Statement};
use crate::error::{Error, ErrorKind, OrError};
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

/// Runs the lines of a file.
///
/// # Errors
/// As [`lines`]; also when it cannot be read.
pub fn file(shell: &mut Shell, path: &Path, keep_going: bool) -> Result<Flow, Error> {
    let name = path.display().to_string();
    let file = File::open(path).or_because(format_args!("{name} cannot be read"))?;
    lines(shell, &name, BufReader::new(file), keep_going)
}

/// Runs lines up to the first failure, or all of them with `keep_going`; then the failures on the way are told, and the
/// first of them is the result. `name` is where the lines come from, for errors.
///
/// # Errors
/// The first failure, with its line.
pub fn lines(
    shell: &mut Shell,
    name: &str,
    mut input: impl BufRead,
    keep_going: bool,
) -> Result<Flow, Error> {
    let mut first = None;
    let mut number = 0;
    loop {
        let mut text = String::new();
        let mut start = 0;
        let whole = loop {
            let mut next = String::new();
            let read = input
                .read_line(&mut next)
                .or_because(format_args!("{name} cannot be read"))?;
            number += 1;
            if read == 0 {
                break false;
            }
            if start == 0 {
                start = number;
            }
            text.push_str(&next);
            // The line's own end does not count: a backslash before it does.
            if !line::goes_on(text.trim_end_matches(['\n', '\r'])) {
                break true;
            }
        };
        let results: Vec<Result<Statement, Error>> = match execute::parsed(&text) {
            Ok(statements) => statements.into_iter().map(Ok).collect(),
            Err(error) => vec![Err(error)],
        };
        for result in results {
            let ended = result.and_then(|statement| shell.statement(&statement));
            match ended {
                Ok(Flow::Continue) => {}
                Ok(Flow::Leave) => return first.map_or(Ok(Flow::Leave), Err),
                Err(error) => {
                    let error = error.at(format!("{name}:{start}"));
                    if !keep_going || error.kind() == ErrorKind::Interrupted {
                        return Err(error);
                    }
                    shell.report(&error);
                    first.get_or_insert(error.reported());
                }
            }
        }
        if !whole {
            return first.map_or(Ok(Flow::Continue), Err);
        }
    }
}
