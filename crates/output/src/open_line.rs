//! Whether the last line on stdout was ended. A prompt that begins in an open line would hide it.

use std::sync::atomic::{AtomicBool, Ordering};

/// One for the process, as stdout is.
static IS_OPEN: AtomicBool = AtomicBool::new(false);

/// Whether the last line was not ended.
pub fn is_open() -> bool {
    IS_OPEN.load(Ordering::Relaxed)
}

/// Says whether it is open, where stdout leads elsewhere from now on.
pub fn set_open(is_open: bool) {
    IS_OPEN.store(is_open, Ordering::Relaxed);
}

/// Notes what was written.
pub(super) fn note(written: &[u8]) {
    if let Some(last) = written.last() {
        set_open(*last != b'\n');
    }
}

/// What puts the cursor of a terminal of so many columns at the beginning of an empty line, wherever a program has left it, as zsh
/// does: as many blanks as columns stay in a line that is empty, and reach the next one otherwise; then their line is cleared.
pub fn fresh(columns: usize) -> String {
    format!("{:columns$}\r\x1b[K", "")
}
