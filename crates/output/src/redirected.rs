//! Where stdout leads for a while: into a file, a program, or a page that is compared with the last one; and away from a terminal that
//! is gone.

use super::stdout::{line_is_open, reader_is_gone, set_line_open, set_reader_gone};
use rustix::fd::{AsFd, OwnedFd};
use std::fs::File;
use std::io::{self, ErrorKind, IsTerminal as _, Write as _};

/// Stdout leads elsewhere until this is dropped.
pub struct Redirected {
    before: OwnedFd,
    /// Whether the reader there had gone.
    had_lost: bool,
    /// Whether the last line there was open.
    was_open: bool,
}

impl Redirected {
    /// Leads stdout to `target`.
    ///
    /// # Errors
    /// When the system refuses, or stdout cannot take what was written before though somebody reads it.
    pub fn to(target: impl AsFd) -> io::Result<Self> {
        let before = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdout(), 3)?;
        let had_lost = match io::stdout().flush() {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => {
                lose_what_is_held();
                true
            }
            flushed => flushed.map(|()| reader_is_gone())?,
        };
        rustix::stdio::dup2_stdout(target)?;
        let was_open = line_is_open();
        set_reader_gone(false);
        set_line_open(false);
        Ok(Self {
            before,
            had_lost,
            was_open,
        })
    }
}

impl Drop for Redirected {
    fn drop(&mut self) {
        // Whoever reads it may have gone away. What was not taken there belongs nowhere else.
        if io::stdout().flush().is_err() {
            lose_what_is_held();
        }
        let _ = rustix::stdio::dup2_stdout(&self.before);
        set_reader_gone(self.had_lost);
        set_line_open(self.was_open);
    }
}

/// Empties stdout of what nobody takes.
fn lose_what_is_held() {
    if let Ok(nowhere) = nowhere() {
        let _ = rustix::stdio::dup2_stdout(&nowhere);
        let _ = io::stdout().flush();
    }
}

/// Which of stdout and stderr lead to a terminal.
pub struct Terminals {
    stdout: bool,
    stderr: bool,
}

impl Terminals {
    /// As it is now.
    pub fn now() -> Self {
        Self {
            stdout: io::stdout().is_terminal(),
            stderr: io::stderr().is_terminal(),
        }
    }

    /// Leads those nowhere whose terminal is gone: writing there fails, and what is only shown must not keep the rest from
    /// being done.
    pub fn let_go_of_lost(&self) {
        let now = Self::now();
        let (stdout, stderr) = (self.stdout && !now.stdout, self.stderr && !now.stderr);
        if !stdout && !stderr {
            return;
        }
        // What cannot be led elsewhere fails as before.
        let Ok(nowhere) = nowhere() else {
            return;
        };
        if stdout {
            let _ = rustix::stdio::dup2_stdout(&nowhere);
        }
        if stderr {
            let _ = rustix::stdio::dup2_stderr(&nowhere);
        }
    }
}

fn nowhere() -> io::Result<File> {
    File::options().write(true).open("/dev/null")
}
