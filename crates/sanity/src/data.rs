//! Data in published volumes: written, read back, and compared; and the kinds of files at their paths.

use super::context::Context;
use super::fixtures::{Placed, Volume};
use super::paths::{FileKind, barred, look, mounts_below, on_disk};
use super::settings::Access;
use super::verdict::{Stop, Verdict, each, ensure, skip_unless};
use csi_arguments::capability::allows_writes;
use csi_output::shell_word::word;
use csi_proto::v1;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::{FileExt as _, FileTypeExt as _};
use std::path::{Path, PathBuf};

/// The number of bytes of one mark: a block of most devices.
const MARK_BYTES: usize = 4096;

/// The cases about the target, that volumes are apart, and that their data stays.
const MAKES_THE_TARGET: &str = "node/publish/makes-the-target";
const APART: &str = "node/publish/volumes-are-apart";
const KEEPS_DATA: &str = "node/publish/keeps-data";

/// The file in a mounted volume that holds the data.
const FILE: &str = "csi-sanity-data";

impl Context {
    /// Writes data through a published volume, down to its storage.
    pub fn put_data(&self, placed: &Placed, data: &str) -> Verdict {
        let file = shell_file(placed);
        self.did(format!(
            "printf %s {} | dd of={file} conv=notrunc,fsync status=none",
            word(data)
        ));
        let write = || write_at(placed, data.as_bytes().to_vec(), 0);
        self.demands_of(APART, || self.demands_of(MAKES_THE_TARGET, write))
    }

    /// Demands that a published volume holds this data.
    pub fn holds(&self, placed: &Placed, data: &str) -> Verdict {
        self.did(format!(
            "head -c {} {}; echo",
            data.len(),
            shell_file(placed)
        ));
        let read = || read_at(placed, data.len(), 0);
        self.demands_of(APART, || {
            let found = self.demands_of(MAKES_THE_TARGET, read)?;
            let found = String::from_utf8_lossy(&found).into_owned();
            let expected = format!("the volume holds what was written, {data:?}");
            ensure(found == data, expected, format!("it holds {found:?}"))
        })
    }

    /// Publishes a volume, writes into it, and takes it down again: what was written is on the storage then.
    pub fn write_marks(&self, volume: &Volume, marks: &[Mark]) -> Verdict {
        let placed = self.publish(volume.clone())?;
        each(marks, |mark| {
            let (letter, at, file) = (char::from(mark.letter), mark.offset, shell_file(&placed));
            self.did(format!("head -c {MARK_BYTES} /dev/zero | tr '\\0' {letter} | dd of={file} oflag=seek_bytes seek={at} conv=notrunc,fsync status=none"));
            let write = || write_at(&placed, mark.bytes(), mark.offset);
            self.demands_of(MAKES_THE_TARGET, write)
        })?;
        // Whoever looks for the marks again depends on that.
        self.depends_on(APART);
        self.depends_on(KEEPS_DATA);
        self.unpublish(&placed)
    }

    /// Publishes a volume, reads what stands at the places of the marks, and takes it down again. Whether each mark is there.
    pub fn has_marks(&self, volume: &Volume, marks: &[Mark]) -> Result<Vec<bool>, Stop> {
        let placed = self.publish(volume.clone())?;
        let is_there = |mark: &Mark| {
            let (at, file) = (mark.offset + 1, shell_file(&placed));
            self.did(format!(
                "tail -c +{at} {file} | head -c {MARK_BYTES} | od -c"
            ));
            let read = || read_at(&placed, MARK_BYTES, mark.offset);
            Ok(self.demands_of(MAKES_THE_TARGET, read)? == mark.bytes())
        };
        let found = marks.iter().map(is_there).collect::<Result<_, Stop>>()?;
        self.unpublish(&placed)?;
        Ok(found)
    }

    /// Demands that a volume stands at its target path in the way of its access type.
    pub fn is_published(&self, placed: &Placed) -> Verdict {
        let (wanted, what) = match access_of(placed) {
            Access::Mount => (FileKind::Folder, "a folder stands at the target path"),
            Access::Block => (FileKind::File, "a file or device stands at the target path"),
        };
        let found = look(&placed.target)?;
        self.did(format!("stat -c %F {}", word(&placed.target)));
        let actual = format!("{found} is at {}", placed.target);
        self.demands_of(MAKES_THE_TARGET, || ensure(found == wanted, what, actual))
    }

    /// Demands that nothing stands at a target path.
    pub fn is_gone(&self, placed: &Placed) -> Verdict {
        let found = look(&placed.target)?;
        let expected = "NodeUnpublishVolume removes the target path";
        self.did(format!("stat -c %F {}", word(&placed.target)));
        let actual = format!("{found} is at {}", placed.target);
        let gone = || ensure(found == FileKind::Nothing, expected, actual);
        self.demands_of("node/unpublish/removes-the-target", gone)
    }

    /// Whether a file in a published volume can be written.
    pub fn accepts_writes(&self, placed: &Placed) -> Result<bool, Stop> {
        self.did(format!(
            "printf x | dd of={} conv=notrunc status=none",
            shell_file(placed)
        ));
        let (path, create) = data_file(placed);
        on_disk(move || {
            let opened = open_to_write(&path, create);
            match opened.and_then(|file| file.write_all_at(b"x", 0)) {
                Err(error) if barred(&error).is_some() => Err(error),
                written => Ok(written.is_ok()),
            }
        })
    }
}

/// Something to write, and to find again.
#[derive(Clone, Copy, Debug)]
pub struct Mark {
    /// Which one it is.
    letter: u8,
    /// The offset of the mark, in bytes.
    pub offset: u64,
}

impl Mark {
    /// A mark of this letter at this offset.
    pub const fn at(letter: u8, offset: u64) -> Self {
        Self { letter, offset }
    }

    fn bytes(self) -> Vec<u8> {
        vec![self.letter; MARK_BYTES]
    }
}

/// The file in a published volume that data is written to; `create` in a mounted one.
fn data_file(placed: &Placed) -> (PathBuf, bool) {
    match access_of(placed) {
        Access::Mount => (Path::new(&placed.target).join(FILE), true),
        Access::Block => (PathBuf::from(&placed.target), false),
    }
}

/// That file as a word of the shell.
fn shell_file(placed: &Placed) -> String {
    word(&data_file(placed).0.to_string_lossy())
}

fn open_to_write(path: &Path, create: bool) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create(create).open(path)
}

/// Skips a case about writing, or about readonly, which changes nothing where the access mode allows no writes.
pub fn writable(capability: &v1::VolumeCapability) -> Verdict {
    let reason = "its access mode allows no writes: --cap names another one";
    skip_unless(allows_writes(capability), reason)
}

fn write_at(placed: &Placed, bytes: Vec<u8>, offset: u64) -> Verdict {
    writable(&placed.volume.capability)?;
    let (path, create) = data_file(placed);
    on_disk(move || {
        let file = open_to_write(&path, create)?;
        file.write_all_at(&bytes, offset)?;
        file.sync_all()
    })
}

/// The bytes at a place, up to the end of what is there. A volume without the file holds nothing.
fn read_at(placed: &Placed, size: usize, offset: u64) -> Result<Vec<u8>, Stop> {
    let (path, _) = data_file(placed);
    on_disk(move || {
        let mut found = Vec::new();
        match File::open(&path) {
            Ok(mut file) => {
                file.seek(SeekFrom::Start(offset))?;
                file.take(size as u64).read_to_end(&mut found)?;
                Ok(found)
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(found),
            Err(error) => Err(error),
        }
    })
}

fn access_of(placed: &Placed) -> Access {
    Access::of(&placed.volume.capability)
}

/// Whether a target path is a mount of its own, as far as this process sees.
pub fn is_mount(path: &str) -> Result<bool, Stop> {
    let path = PathBuf::from(path);
    on_disk(move || {
        let path = fs::canonicalize(&path).unwrap_or(path);
        Ok(mounts_below(&path).contains(&path))
    })
}

/// Whether a path is a block device, and not a file in place of one.
pub fn is_device(path: &str) -> Result<bool, Stop> {
    let path = PathBuf::from(path);
    on_disk(move || Ok(fs::metadata(&path)?.file_type().is_block_device()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mount_is_at_its_own_path_alone() {
        assert!(is_mount("/").unwrap());
        assert!(!is_mount("/no/such/mount").unwrap());
    }
}
