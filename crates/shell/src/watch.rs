//! `watch`: runs a command again and again, and marks the lines that changed.

use super::execute::Shell;
use csi_error::{Error, ErrorKind, Style, say};
use csi_output::redirected::Redirected;
use csi_output::terminal::{self, cut};
use rustix::fs::{MemfdFlags, memfd_create};
use std::fs::File;
use std::io::{Read, Seek};
use std::time::Duration;

/// Clears the screen and goes to its upper left corner.
const CLEAR: &str = "\x1b[H\x1b[2J";

/// Stands before a line that was not there the last time.
const CHANGED: &str = "* ";

/// Shows the command's output every `pause`, until Ctrl-C, or until the program behind `|` reads no more.
///
/// # Errors
/// When nobody watches, or the terminal cannot be written.
pub fn run(shell: &mut Shell, command: &[String], pause: Duration) -> Result<(), Error> {
    if !shell.is_interactive() {
        return Err(Error::usage(
            "watch needs somebody who watches: in a script write repeat N COMMAND",
        ));
    }
    let title = format!("every {} s: {}", pause.as_secs_f64(), command.join(" "));
    let mut before: Option<String> = None;
    loop {
        let size = terminal::size().unwrap_or((24, 80));
        shell.page = Some(size.1.saturating_sub(CHANGED.len()));
        let page = page(shell, command);
        shell.page = None;
        let page = match page {
            Err(error) if error.kind() == ErrorKind::Interrupted => {
                say!("");
                return Ok(());
            }
            page => page?,
        };
        let clear = match std::env::var("TERM").as_deref() {
            Ok("dumb") => "\n",
            _ => CLEAR,
        };
        let screen = screen(&title, before.as_deref(), &page, size);
        csi_output::print(format!("{clear}{screen}").as_bytes())?;
        if shell.has_lost_program() {
            return Ok(());
        }
        before = Some(page);
        if shell.pause(pause).is_err() {
            // Behind the ^C that the terminal shows.
            say!("");
            return Ok(());
        }
    }
}

/// The output of the command, and the error with which it ends.
fn page(shell: &mut Shell, command: &[String]) -> Result<String, Error> {
    let failed = |error: &dyn std::error::Error| {
        Error::local(format!("the output cannot be caught: {error}"))
    };
    let memory = memfd_create("csi-watch", MemfdFlags::CLOEXEC).map_err(|error| failed(&error))?;
    let mut memory = File::from(memory);
    let redirected = Redirected::to(&memory).map_err(|error| failed(&error))?;
    let result = shell.command(command.to_vec());
    drop(redirected);
    let mut bytes = Vec::new();
    memory
        .rewind()
        .and_then(|()| memory.read_to_end(&mut bytes))
        .map_err(|error| failed(&error))?;
    let mut page = String::from_utf8_lossy(&bytes).into_owned();
    match result {
        Ok(_) => Ok(page),
        // What cannot get better ends it.
        Err(error) if matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::Usage) => {
            Err(error)
        }
        Err(error) => {
            page.push_str(&error.render(Style::Text));
            Ok(page)
        }
    }
}

/// A page as it fits the terminal: changed lines marked, what does not fit cut with a mark.
fn screen(
    title: &str,
    before: Option<&str>,
    page: &str,
    (rows, columns): (usize, usize),
) -> String {
    let known: Vec<&str> = before.unwrap_or(page).lines().collect();
    let mut screen = cut(title, columns);
    screen.push_str("\n\n");
    // The title, the blank line, and the line where the cursor is left.
    let room = rows.saturating_sub(3).max(1);
    let count = page.lines().count();
    let shown = if count > room { room - 1 } else { count };
    for line in page.lines().take(shown) {
        let mark = if known.contains(&line) { "  " } else { CHANGED };
        screen.push_str(&cut(&format!("{mark}{line}"), columns));
        screen.push('\n');
    }
    if shown < count {
        let more = format!("… {} more lines", count - shown);
        screen.push_str(&cut(&more, columns));
        screen.push('\n');
    }
    screen
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_marked_and_cuts_are_seen() {
        let first = screen("t", None, "a\nb\n", (24, 80));
        assert_eq!(first, "t\n\n  a\n  b\n");
        let second = screen("t", Some("a\nb\n"), "a\nc\n", (24, 80));
        assert_eq!(second, "t\n\n  a\n* c\n");
        let narrow = screen("a long title", None, "a long line\n", (24, 8));
        assert_eq!(narrow, "a long …\n\n  a lon…\n");
        let low = screen("t", None, "a\nb\nc\nd\n", (6, 80));
        assert_eq!(low, "t\n\n  a\n  b\n… 2 more lines\n");
    }
}
