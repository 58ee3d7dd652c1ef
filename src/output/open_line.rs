//! Whether the last line on stdout was ended, so that a prompt does not stand in it, where it would hide it.

use std::sync::atomic::{AtomicBool, Ordering};

/// One for the process, as stdout is.
static IS_OPEN: AtomicBool = AtomicBool::new(false);

/// Whether the last line was not ended.
pub fn is_open() -> bool {
    IS_OPEN.load(Ordering::Relaxed)
}

/// Whether it is open: stdout leads elsewhere now.
pub fn set_open(is_open: bool) {
    IS_OPEN.store(is_open, Ordering::Relaxed);
}

/// Notes what was written.
pub(super) fn note(written: &[u8]) {
    if let Some(last) = written.last() {
        set_open(*last != b'\n');
    }
}

/// What brings a terminal of so many columns to the beginning of an empty line, where nobody knows what a program has left: at
/// the beginning of a line it fills that with blanks and takes them away, and else it reaches the next line, as zsh does it.
pub fn fresh(columns: usize) -> String {
    format!("{:columns$}\r\x1b[K", "")
}
