//! Stdout: its reader, who may go away, as `head` does; whether its last line was ended, for a prompt that begins in an open line would
//! hide it.
//!
//! Owns what the end of the reader ends: what only reads, quietly, and never what changes something. Chooses no exit code and knows no
//! command.

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

/// What the end of the reader does to whoever writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WithoutReader {
    /// It stops: a write fails.
    Stop,
    /// It goes on: writes do nothing.
    GoOn,
}

/// An output whose reader may go away.
pub struct ReadOutput<W> {
    out: W,
    without: WithoutReader,
    has_lost: bool,
}

impl<W: Write> ReadOutput<W> {
    /// Writes to `out` as long as somebody reads there.
    pub fn new(out: W, without: WithoutReader) -> Self {
        Self {
            out,
            without,
            has_lost: false,
        }
    }

    fn write_with<T>(
        &mut self,
        done: T,
        write: impl FnOnce(&mut W) -> io::Result<T>,
    ) -> io::Result<T> {
        if self.has_lost {
            return Ok(done);
        }
        match write(&mut self.out) {
            Err(error)
                if error.kind() == ErrorKind::BrokenPipe && self.without == WithoutReader::GoOn =>
            {
                self.has_lost = true;
                Ok(done)
            }
            written => written,
        }
    }
}

impl<W: Write> Write for ReadOutput<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_with(bytes.len(), |out| out.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.write_with((), |out| out.flush())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An output of which each write ends so.
    struct Ends(ErrorKind, usize);

    impl Write for Ends {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            self.1 += 1;
            Err(self.0.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Err(self.0.into())
        }
    }

    #[test]
    fn a_lost_reader_ends_or_silences_and_other_errors_are_errors() {
        use WithoutReader::{GoOn, Stop};
        for (kind, without, goes_on) in [
            (ErrorKind::BrokenPipe, Stop, false),
            (ErrorKind::BrokenPipe, GoOn, true),
            (ErrorKind::StorageFull, Stop, false),
            (ErrorKind::StorageFull, GoOn, false),
        ] {
            let mut out = ReadOutput::new(Ends(kind, 0), without);
            for _ in 0..2 {
                let written = out.write_all(b"a line\n").and_then(|()| out.flush());
                assert_eq!(written.is_ok(), goes_on, "{kind:?} {without:?}");
            }
            assert_eq!(
                out.out.1,
                if goes_on { 1 } else { 2 },
                "{kind:?} {without:?}"
            );
        }
    }
}
