//! Data in published volumes: written, read back, and compared; and the kinds of files at their paths.

use super::context::Context;
use super::fixtures::Placed;
use super::paths::{FileKind, look, on_disk};
use super::settings::Access;
use super::verdict::{Stop, Verdict, ensure};
use std::fs::{self, File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};

/// The file in a mounted volume that holds the data.
const FILE: &str = "csi-sanity-data";

impl Context {
    /// Writes data through a published volume, down to its storage.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn put_data(&self, placed: &Placed, data: &str) -> Verdict {
        let (path, data) = (data_path(placed), data.to_owned());
        let create = access_of(placed) == Access::Mount;
        on_disk(move || {
            let mut file = OpenOptions::new().write(true).create(create).open(&path)?;
            file.write_all(data.as_bytes())?;
            file.sync_all()
        })
    }

    /// Demands that a published volume holds this data.
    ///
    /// # Errors
    /// When it does not.
    pub fn holds(&self, placed: &Placed, data: &str) -> Verdict {
        let (path, size) = (data_path(placed), data.len());
        let found = on_disk(move || {
            let mut found = Vec::new();
            match File::open(&path) {
                Ok(file) => file.take(size as u64).read_to_end(&mut found).map(|_| ())?,
                // A volume without the file holds nothing.
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
            Ok(found)
        })?;
        let found = String::from_utf8_lossy(&found).into_owned();
        ensure(
            found == data,
            &format!("the volume holds what was written, {data:?}"),
            format!("it holds {found:?}"),
        )
    }

    /// Demands that a volume stands at its target path in the way of its access type.
    ///
    /// # Errors
    /// When it does not.
    pub fn is_published(&self, placed: &Placed) -> Verdict {
        let (wanted, what) = match access_of(placed) {
            Access::Mount => (FileKind::Folder, "a folder stands at the target path"),
            Access::Block => (FileKind::File, "a file or device stands at the target path"),
        };
        let found = look(&placed.target)?;
        ensure(
            found == wanted,
            what,
            format!("{found:?} is at {}", placed.target),
        )
    }

    /// Demands that nothing stands at a target path.
    ///
    /// # Errors
    /// When something does.
    pub fn is_gone(&self, placed: &Placed) -> Verdict {
        let found = look(&placed.target)?;
        ensure(
            found == FileKind::Nothing,
            "NodeUnpublishVolume removes the target path",
            format!("{found:?} is at {}", placed.target),
        )
    }

    /// Whether a file in a published volume can be written.
    ///
    /// # Errors
    /// When that cannot be told.
    pub fn accepts_writes(&self, placed: &Placed) -> Result<bool, Stop> {
        let path = data_path(placed);
        let create = access_of(placed) == Access::Mount;
        on_disk(move || {
            let opened = OpenOptions::new().write(true).create(create).open(&path);
            Ok(opened.and_then(|mut file| file.write_all(b"x")).is_ok())
        })
    }
}

/// The file in a published volume that data is written to.
pub fn data_path(placed: &Placed) -> PathBuf {
    match access_of(placed) {
        Access::Mount => Path::new(&placed.target).join(FILE),
        Access::Block => PathBuf::from(&placed.target),
    }
}

fn access_of(placed: &Placed) -> Access {
    Access::of(&placed.volume.capability)
}

/// Whether a target path is a mount of its own, as far as this process sees.
///
/// # Errors
/// When that cannot be told.
pub fn is_mount(path: &str) -> Result<bool, Stop> {
    let path = PathBuf::from(path);
    on_disk(move || {
        Ok(super::paths::is_mount(
            &fs::canonicalize(&path).unwrap_or(path),
        ))
    })
}

/// Whether a path is a block device, and not a file in place of one.
///
/// # Errors
/// When that cannot be told.
pub fn is_device(path: &str) -> Result<bool, Stop> {
    let path = PathBuf::from(path);
    on_disk(move || Ok(fs::metadata(&path)?.file_type().is_block_device()))
}
