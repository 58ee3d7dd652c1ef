//! Small files of this user, which are replaced whole: whoever reads one, also after a crash, finds the old or the new one.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::Path;
use tempfile::NamedTempFile;

/// Replaces the file at a path, readable for its owner alone from its beginning, and returns when it is on the disk.
///
/// # Errors
/// Whatever the system says; the old file stays then.
pub fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("/"));
    let mut new = NamedTempFile::new_in(folder)?;
    new.write_all(content)?;
    new.as_file().sync_all()?;
    new.persist(path)?;
    File::open(folder)?.sync_all()
}
