//! A name in an open folder, by which one entry is reached and nothing else.

use std::ffi::CStr;
use std::os::fd::OwnedFd;

/// A name in an open folder.
#[derive(Clone, Copy, Debug)]
pub struct Named<'a> {
    /// The folder.
    pub folder: &'a OwnedFd,
    /// The name in it.
    pub name: &'a CStr,
}
