//! Archives as sources of copies: the format is read by `tar`, what an entry may do is decided by `unpack`.

mod tar;
#[cfg(test)]
mod tests;
mod unpack;

pub use unpack::unpack;

/// Why an entry cannot be unpacked: its own fault, or the file system's.
enum Trouble {
    Refused(String),
    Io(&'static str, std::io::Error),
    Stopped,
}

impl Trouble {
    fn refused(problem: impl Into<String>) -> Self {
        Self::Refused(problem.into())
    }
}
