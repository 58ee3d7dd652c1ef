//! A name in an open folder, by which one entry is reached and nothing else.

use std::ffi::CStr;
use std::os::fd::OwnedFd;

/// A name in an open folder.
#[derive(Clone, Copy, Debug)]
pub(super) struct Named<'a> {
    pub folder: &'a OwnedFd,
    pub name: &'a CStr,
}
