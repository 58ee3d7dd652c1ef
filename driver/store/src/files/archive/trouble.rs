//! Why an archive is not unpacked. Must not read or write.

/// Why an entry cannot be unpacked: its own fault, or the file system's.
pub(super) enum Trouble {
    Refused(String),
    Io(&'static str, std::io::Error),
    Stopped,
}

impl Trouble {
    pub(super) fn refused(problem: impl Into<String>) -> Self {
        Self::Refused(problem.into())
    }
}
