//! Stdout: its reader, who may go away, as `head` does; whether its last line was ended, for a prompt that begins in an open line would
//! hide it.
//!
//! Chooses no exit code and knows no command.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::{self, BufWriter, ErrorKind, StdoutLock, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The pause between two looks whether the reader is still there, while nothing is written.
const LOOK_PAUSE: Duration = Duration::from_millis(500);

/// Whether a write to stdout has found no reader. One for the process, as stdout is.
static GONE: AtomicBool = AtomicBool::new(false);

/// Whether the last line was not ended. One for the process too.
static LINE_IS_OPEN: AtomicBool = AtomicBool::new(false);

/// Whether something was not shown because nobody reads stdout any more.
pub fn reader_is_gone() -> bool {
    GONE.load(Ordering::Relaxed)
}

/// Whether the reader of stdout has gone: it leads elsewhere now, or a program that writes to the same reader has found out.
pub fn set_reader_gone(gone: bool) {
    GONE.store(gone, Ordering::Relaxed);
}

/// Whether the last line was not ended.
pub fn line_is_open() -> bool {
    LINE_IS_OPEN.load(Ordering::Relaxed)
}

/// Says whether the last line is open, where stdout leads elsewhere from now on.
pub fn set_line_open(is_open: bool) {
    LINE_IS_OPEN.store(is_open, Ordering::Relaxed);
}

/// Notes whether what was written ends its line.
fn note_line(written: &[u8]) {
    if let Some(last) = written.last() {
        set_line_open(*last != b'\n');
    }
}

/// What puts the cursor of a terminal of so many columns at the beginning of an empty line, wherever a program has left it, as zsh
/// does: as many blanks as columns stay in a line that is empty, and reach the next one otherwise; then their line is cleared.
pub fn fresh_line(columns: usize) -> String {
    format!("{:columns$}\r\x1b[K", "")
}

/// Waits until nobody reads stdout any more. Where stdout is a file, it waits for ever.
pub async fn reader_leaves() {
    let stdout = io::stdout();
    loop {
        // poll(2) reports a closed reader whatever it is asked for.
        let asked = &mut [PollFd::new(&stdout, PollFlags::empty())];
        if poll(asked, Some(&Timespec::default())).is_ok_and(|count| count > 0) {
            return set_reader_gone(true);
        }
        tokio::time::sleep(LOOK_PAUSE).await;
    }
}

/// Stdout, whose lost reader is remembered.
pub struct Stdout(StdoutLock<'static>);

impl Stdout {
    /// Stdout in one piece, for what is written at once.
    pub(super) fn lock() -> Self {
        Self(io::stdout().lock())
    }

    /// Stdout for what is written in many small pieces.
    pub(super) fn buffered() -> BufWriter<Self> {
        BufWriter::new(Self::lock())
    }
}

/// The same for a thread that writes now and then, and keeps nobody else from it meanwhile.
pub(super) struct SharedStdout;

impl Write for SharedStdout {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Stdout::lock().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Stdout::lock().flush()
    }
}

impl Write for Stdout {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = remembered(self.0.write(bytes))?;
        note_line(&bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        remembered(self.0.flush())
    }
}

fn remembered<T>(result: io::Result<T>) -> io::Result<T> {
    if matches!(&result, Err(error) if error.kind() == ErrorKind::BrokenPipe) {
        set_reader_gone(true);
    }
    result
}
