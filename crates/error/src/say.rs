//! What is said on stderr beside results: notes, warnings, the log of calls.
//!
//! Owns that nothing fails because nobody reads it: `eprintln!` would end the process in the middle of its work.

use csi_proto::line_queue::LineQueue;
use std::fmt::Arguments;
use std::io::{self, Write};
use std::time::Duration;

/// The lines of [`note!`] that are not written yet.
static NOTES: LineQueue = LineQueue::new();

/// How long the end of the program waits for a reader who takes no note, [`ROUNDS`](csi_proto::lock::ROUNDS) times.
const FLUSH_PATIENCE: Duration = Duration::from_secs(1);

/// Says a line on stderr, with the words of `format!`, and waits until it is written.
#[macro_export]
macro_rules! say {
    ($($words:tt)*) => {
        $crate::say::line(format_args!($($words)*))
    };
}

/// Says a line on stderr soon, with the words of `format!`. For a tool that serves: a reader who does not read holds up no call.
#[macro_export]
macro_rules! note {
    ($($words:tt)*) => {
        $crate::say::line_soon(format_args!($($words)*))
    };
}

/// Says a line.
pub fn line(words: Arguments<'_>) {
    let _ = writeln!(io::stderr(), "{words}");
}

/// Says a line soon; not at all, when too many wait already.
pub fn line_soon(words: Arguments<'_>) {
    NOTES.start(io::stderr(), |dropped| {
        format!("note: {dropped} notes are missing: stderr was not read\n")
    });
    NOTES.add(&format!("{words}\n"));
}

/// Waits until all is written, or the reader has taken nothing for a while.
pub fn flush() {
    NOTES.flush(FLUSH_PATIENCE);
}
