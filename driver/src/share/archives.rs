//! The interface by which a share makes a volume of an archive. Must not know the format of archives, nor which driver wrote
//! them.

use crate::files::copying::{CopyError, Progress, Report};
use crate::files::roots::Root;
use crate::share::error::ShareError;
use crate::share::paths::sub_path::SubPath;
use std::fmt::Debug;
use std::os::fd::OwnedFd;

/// Finds archives on a share, and unpacks them.
pub trait Archives: Debug + Send + Sync {
    /// The archive at `path`, open for reading; nothing when it is not there.
    ///
    /// # Errors
    /// [`ShareError::NotPlain`] and [`ShareError::Blocked`] when what is there is no file, and I/O errors.
    fn open(&self, root: &Root, path: &SubPath) -> Result<Option<OwnedFd>, ShareError>;

    /// Unpacks `archive` into the empty folder `target`, and returns when it is on disk.
    ///
    /// # Errors
    /// [`CopyError::Archive`] for one that is damaged or would write elsewhere; else as for copying. The target then holds a
    /// part.
    fn unpack(
        &self,
        archive: OwnedFd,
        target: &OwnedFd,
        progress: &Progress,
    ) -> Result<Report, CopyError>;
}
