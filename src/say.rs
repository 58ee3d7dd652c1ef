//! What is said on stderr beside results: notes, warnings, the log of calls.
//!
//! Owns that nothing fails because nobody hears it: `eprintln!` would end the process in the middle of its work.

use std::fmt::Arguments;
use std::io::{self, Write};

/// Says a line on stderr, with the words of `format!`.
macro_rules! say {
    ($($words:tt)*) => {
        $crate::say::line(format_args!($($words)*))
    };
}
pub(crate) use say;

/// Says a line.
pub fn line(words: Arguments<'_>) {
    let _ = writeln!(io::stderr(), "{words}");
}
