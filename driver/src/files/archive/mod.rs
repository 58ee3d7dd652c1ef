//! Archives as sources of copies: the format is read by `tar`, what an entry may do is decided by `unpack`.

#[cfg(feature = "upstream")]
mod tar;
#[cfg(all(test, feature = "upstream"))]
mod tests;
#[cfg(feature = "upstream")]
mod unpack;

#[cfg(feature = "upstream")]
pub use unpack::unpack;

/// Why an entry cannot be unpacked: its own fault, or the file system's.
#[cfg(feature = "upstream")]
enum Trouble {
    Refused(String),
    Io(&'static str, std::io::Error),
    Stopped,
}

#[cfg(feature = "upstream")]
impl Trouble {
    fn refused(problem: impl Into<String>) -> Self {
        Self::Refused(problem.into())
    }
}

/// Unpacks nothing: this build has no reader of archives.
///
/// # Errors
/// [`CopyError::Archive`] in any case.
#[cfg(not(feature = "upstream"))]
pub fn unpack(
    _: &std::os::fd::OwnedFd,
    _: &std::os::fd::OwnedFd,
    _: &super::copying::Progress,
) -> Result<super::copying::Report, super::copying::CopyError> {
    Err(super::copying::CopyError::Archive {
        path: ".".to_owned(),
        problem: "this build of the driver does not unpack archives".to_owned(),
    })
}
