//! Redirects stdout for a while: into a file, a program, or a page that is compared with the last one.

use rustix::fd::{AsFd, OwnedFd};
use std::io::{self, Write};

/// Stdout leads elsewhere until this is dropped.
pub struct Redirected {
    before: OwnedFd,
}

impl Redirected {
    /// Leads stdout to `target`.
    ///
    /// # Errors
    /// When the system refuses, or stdout cannot take what was written before.
    pub fn to(target: impl AsFd) -> io::Result<Self> {
        io::stdout().flush()?;
        let before = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdout(), 3)?;
        rustix::stdio::dup2_stdout(target)?;
        Ok(Self { before })
    }
}

impl Drop for Redirected {
    fn drop(&mut self) {
        // Whoever reads it may have gone away.
        let _ = io::stdout().flush();
        let _ = rustix::stdio::dup2_stdout(&self.before);
    }
}
