//! The archives that kubernetes-csi's driver has made of volumes, as sources of copies: the format is read by `tar`, what an
//! entry may do is decided by `unpack`.

mod tar;
#[cfg(test)]
mod tests;
mod unpack;

use super::folders;
use crate::files::copying::{CopyError, Progress, Report};
use crate::files::roots::Root;
use crate::share::archives::Archives;
use crate::share::error::ShareError;
use crate::share::paths::sub_path::SubPath;
use std::os::fd::OwnedFd;

/// Finds those archives, and unpacks them.
#[derive(Debug)]
pub(super) struct UpstreamArchives;

impl Archives for UpstreamArchives {
    fn open(&self, root: &Root, path: &SubPath) -> Result<Option<OwnedFd>, ShareError> {
        folders::archive(root, path)
    }

    fn unpack(
        &self,
        archive: OwnedFd,
        target: &OwnedFd,
        progress: &Progress,
    ) -> Result<Report, CopyError> {
        unpack::unpack(archive, target, progress)
    }
}
