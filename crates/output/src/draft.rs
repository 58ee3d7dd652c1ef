//! Files that appear whole or not at all: written beside their place, and renamed.

use std::fs::Permissions;
use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use tempfile::{Builder, NamedTempFile};

/// A file that is to take a place. Until then, and where nothing comes of it, what was there stays.
#[derive(Debug)]
pub struct Draft {
    place: PathBuf,
    file: NamedTempFile,
}

impl Draft {
    /// Begins a file of that mode, less the umask.
    ///
    /// # Errors
    /// When no file can be made there.
    pub fn create(path: &Path, mode: u32) -> io::Result<Self> {
        // A link stays one.
        let place = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let folder = place
            .parent()
            .filter(|folder| !folder.as_os_str().is_empty());
        let file = Builder::new()
            .prefix(".csi-draft-")
            .permissions(Permissions::from_mode(mode))
            .tempfile_in(folder.unwrap_or(Path::new(".")))?;
        Ok(Self { place, file })
    }

    /// Where it is to be.
    pub fn place(&self) -> &Path {
        &self.place
    }

    /// Writes it, and takes the place.
    ///
    /// # Errors
    /// When it cannot be written; what was there stays then.
    pub fn write(mut self, content: &[u8]) -> io::Result<()> {
        self.file.write_all(content)?;
        self.file.as_file().sync_all()?;
        self.file.persist(&self.place)?;
        Ok(())
    }
}
