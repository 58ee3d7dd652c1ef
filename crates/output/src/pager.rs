//! Output for a person: what does not fit the terminal goes through `$PAGER`, page by page.
//!
//! Owns when a pager starts, and which. Whoever writes here decides whether anybody looks.

use super::stdout::Stdout;
use super::terminal::{self, columns_of};
use csi_proto::lock;
use rustix::fd::OwnedFd;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::io::{self, Write};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;

/// What `less` is told where nobody has set `LESS`, as git does it: end at once where all fits, show colours, and leave the
/// text on the screen.
const LESS: &str = "FRX";

/// The pager that somebody reads in.
static SHOWN: Mutex<Option<OwnedFd>> = Mutex::new(None);

/// Ends the pager that somebody reads in, if there is one.
pub fn end() {
    if let Some(pager) = &*lock(&SHOWN) {
        // This fails only where it has ended.
        let _ = pidfd_send_signal(pager, Signal::TERM);
    }
}

/// Stdout, by way of a pager where more is written than the terminal has rows.
pub struct Paged(Way);

enum Way {
    /// Nothing is shown yet, because it may all fit.
    Held(Held),
    Through(Child),
    Direct,
}

impl Paged {
    /// Stdout; with a pager only where `wanted`, and where stdout is a terminal.
    pub fn stdout(wanted: bool) -> Self {
        let is_dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
        let size = terminal::size().filter(|_| wanted && !is_dumb);
        Self(match (size, programs().is_empty()) {
            (Some(size), false) => Way::Held(Held::new(size)),
            _ => Way::Direct,
        })
    }

    /// Shows what is held, or waits until the person has read.
    pub fn finish(self) -> io::Result<()> {
        match self.0 {
            Way::Held(held) => direct(&held.bytes),
            Way::Direct => Stdout::lock().flush(),
            Way::Through(mut child) => {
                drop(child.stdin.take());
                let waited = child.wait().map(drop);
                *lock(&SHOWN) = None;
                waited
            }
        }
    }

    /// Starts the pager with what was held; without one it goes to stdout.
    fn start(&mut self, held: &[u8]) -> io::Result<()> {
        let started = programs().into_iter().find_map(|words| start(&words));
        let Some(mut child) = started else {
            self.0 = Way::Direct;
            return direct(held);
        };
        *lock(&SHOWN) = pidfd_open(Pid::from_child(&child), PidfdFlags::empty()).ok();
        let written = match &mut child.stdin {
            Some(stdin) => stdin.write_all(held),
            None => Ok(()),
        };
        self.0 = Way::Through(child);
        written
    }
}

impl Write for Paged {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.0 {
            Way::Direct => return Stdout::lock().write(bytes),
            Way::Through(child) => {
                return match &mut child.stdin {
                    Some(stdin) => stdin.write(bytes),
                    None => Ok(bytes.len()),
                };
            }
            Way::Held(held) => {
                held.add(bytes);
                if held.fits() {
                    return Ok(bytes.len());
                }
            }
        }
        if let Way::Held(held) = std::mem::replace(&mut self.0, Way::Direct) {
            self.start(&held.bytes)?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.0 {
            Way::Direct => Stdout::lock().flush(),
            Way::Through(Child {
                stdin: Some(stdin), ..
            }) => stdin.flush(),
            _ => Ok(()),
        }
    }
}

/// Text that may fit the terminal.
struct Held {
    bytes: Vec<u8>,
    /// Where the first line begins that is not counted yet.
    counted: usize,
    rows: usize,
    size: (usize, usize),
}

impl Held {
    fn new(size: (usize, usize)) -> Self {
        Self {
            bytes: Vec::new(),
            counted: 0,
            rows: 0,
            size,
        }
    }

    fn add(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        let rest = &self.bytes[self.counted..];
        let Some(end) = rest.iter().rposition(|byte| *byte == b'\n') else {
            return;
        };
        let lines = String::from_utf8_lossy(&rest[..end]);
        self.rows += lines
            .split('\n')
            .map(|line| rows_of(line, self.size.1))
            .sum::<usize>();
        self.counted += end + 1;
    }

    /// Whether it fits above the row of the next prompt.
    fn fits(&self) -> bool {
        self.rows < self.size.0
    }
}

/// The rows of a terminal that a line takes. Sequences that colour it take no room.
fn rows_of(line: &str, columns: usize) -> usize {
    let mut width = 0;
    for (index, piece) in line.split("\x1b[").enumerate() {
        let text = match (index, piece.split_once('m')) {
            (0, _) | (_, None) => piece,
            (_, Some((_, text))) => text,
        };
        width += columns_of(text);
    }
    width.div_ceil(columns.max(1)).max(1)
}

/// The pagers to try, each as its words: that of `$PAGER`, or those that most systems have. None where `$PAGER` is empty.
fn programs() -> Vec<Vec<String>> {
    match std::env::var("PAGER") {
        Ok(pager) => {
            let words = shlex::split(&pager).unwrap_or_default();
            Vec::from_iter((!words.is_empty()).then_some(words))
        }
        Err(_) => ["less", "more"].map(|name| vec![name.to_owned()]).into(),
    }
}

fn start(words: &[String]) -> Option<Child> {
    let (program, arguments) = words.split_first()?;
    let mut command = Command::new(program);
    if std::env::var_os("LESS").is_none() {
        command.env("LESS", LESS);
    }
    let started = command.args(arguments).stdin(Stdio::piped()).spawn();
    started.ok()
}

fn direct(bytes: &[u8]) -> io::Result<()> {
    let mut out = Stdout::lock();
    out.write_all(bytes)?;
    out.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_takes_as_many_rows_as_it_is_wide() {
        for (line, columns, rows) in [
            ("", 10, 1),
            ("abc", 10, 1),
            ("0123456789", 10, 1),
            ("0123456789a", 10, 2),
            ("日本日本日本", 10, 2),
            ("\x1b[1m0123456789\x1b[0m", 10, 1),
            ("\x1b[1m01234\x1b[0m56789a", 10, 2),
        ] {
            assert_eq!(rows_of(line, columns), rows, "{line:?}");
        }
    }

    #[test]
    fn what_leaves_room_for_the_prompt_fits() {
        let mut held = Held::new((3, 10));
        held.add(b"a\nb");
        assert!(held.fits());
        held.add(b"\n");
        assert!(held.fits());
        held.add("größer als zehn\n".as_bytes());
        assert!(!held.fits());
        // Letters may arrive in pieces.
        let mut held = Held::new((3, 4));
        for byte in "日本\n日本\n".bytes() {
            held.add(&[byte]);
        }
        assert_eq!((held.rows, held.fits()), (2, true));
    }
}
