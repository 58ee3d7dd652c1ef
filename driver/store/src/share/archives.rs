//! The archives on a share of which volumes are made: where one lies. Must not know who wrote it.

use crate::files::beneath;
use crate::files::roots::Root;
use crate::share::error::{Context, ShareError};
use crate::share::paths::open::blocked;
use crate::share::paths::sub_path::SubPath;
use rustix::fs::{self, FileType};
use std::os::fd::OwnedFd;

/// What an archive may be called after the name of its volume, the likelier one first.
pub const ENDINGS: [&str; 2] = ["tar.gz", "tar"];

/// The archive at `path`, which is its name less the ending, open for reading; nothing when it is not there.
///
/// # Errors
/// [`ShareError::NotPlain`] and [`ShareError::Blocked`] when what is there is no file, and I/O errors.
pub(crate) fn open(root: &Root, path: &SubPath) -> Result<Option<OwnedFd>, ShareError> {
    for ending in ENDINGS {
        let file = path
            .to_path()
            .with_file_name(format!("{}.{ending}", path.leaf()));
        let context = || format!("opening the archive {path}.{ending}");
        let seen =
            beneath::if_there(beneath::handle(root, &file)).map_err(blocked(path, context))?;
        let Some(seen) = seen else { continue };
        // A device does things when it is opened, and a FIFO blocks.
        let kind = FileType::from_raw_mode(fs::fstat(&seen).context(context)?.st_mode);
        if kind != FileType::RegularFile {
            return Err(ShareError::NotPlain {
                path: path.clone(),
                why: format!("the archive {path}.{ending} is no regular file"),
            });
        }
        return beneath::if_there(beneath::file(root, &file)).map_err(blocked(path, context));
    }
    Ok(None)
}
