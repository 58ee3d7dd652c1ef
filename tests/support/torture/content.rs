//! What is in a volume: read from its disk, changed at random, and compared byte by byte. Knows no driver.

use crate::support::dice::Dice;
use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::io::{self, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

/// All entries below a folder, by their path in it.
pub type Content = BTreeMap<PathBuf, Entry>;

/// One of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    mode: u32,
    /// Of files and folders, in nanoseconds.
    modified: i128,
    kind: Kind,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Kind {
    Folder,
    Link(PathBuf),
    File { bytes: Vec<u8>, names: u64 },
}

/// What is in `folder`.
pub fn read(folder: &Path) -> io::Result<Content> {
    let mut content = Content::new();
    // An error names the path that it is about.
    read_into(folder, Path::new(""), &mut content)?;
    Ok(content)
}

fn read_into(folder: &Path, below: &Path, content: &mut Content) -> io::Result<()> {
    let about = |path: &Path, error: io::Error| {
        io::Error::new(error.kind(), format!("{}: {error}", path.display()))
    };
    let entries = fs::read_dir(folder).map_err(|error| about(folder, error))?;
    for entry in entries {
        let (path, name) = match entry {
            Ok(entry) => (entry.path(), entry.file_name()),
            Err(error) => return Err(about(folder, error)),
        };
        let found = path
            .symlink_metadata()
            .map_err(|error| about(&path, error))?;
        let inside = below.join(name);
        let kind = if found.is_dir() {
            Kind::Folder
        } else if found.is_symlink() {
            Kind::Link(fs::read_link(&path)?)
        } else {
            Kind::File {
                bytes: fs::read(&path).map_err(|error| about(&path, error))?,
                names: found.nlink(),
            }
        };
        let modified = match kind {
            Kind::Link(_) => 0,
            _ => i128::from(found.mtime()) * 1_000_000_000 + i128::from(found.mtime_nsec()),
        };
        let is_folder = kind == Kind::Folder;
        let entry = Entry {
            mode: found.mode(),
            modified,
            kind,
        };
        content.insert(inside.clone(), entry);
        if is_folder {
            read_into(&path, &inside, content)?;
        }
    }
    Ok(())
}

/// The first entries in which `found` is not `expected`; nothing when there is none.
pub fn difference(expected: &Content, found: &Content) -> Option<String> {
    let paths = expected.keys().chain(found.keys());
    let mut wrong: Vec<String> = paths
        .filter(|path| expected.get(*path) != found.get(*path))
        .map(|path| {
            let [was, is] = [expected, found].map(|it| it.get(path).map(Entry::described));
            format!("{}: {is:?} instead of {was:?}", path.display())
        })
        .collect();
    wrong.sort();
    wrong.dedup();
    let count = wrong.len();
    wrong.truncate(5);
    (count > 0).then(|| format!("{count} entries differ: {}", wrong.join("; ")))
}

impl Entry {
    fn described(&self) -> String {
        let kind = match &self.kind {
            Kind::Folder => "folder".to_owned(),
            Kind::Link(to) => format!("link to {}", to.display()),
            Kind::File { bytes, names } => {
                let start = &bytes[..bytes.len().min(8)];
                format!(
                    "file of {} bytes {start:02x?} with {names} names",
                    bytes.len()
                )
            }
        };
        format!("{kind}, mode {:o}, of {}", self.mode, self.modified)
    }
}

/// Makes some changes below `folder`: files, folders, links, holes, and their ends.
pub fn change(folder: &Path, dice: &mut Dice, changes: u64) -> io::Result<()> {
    for _ in 0..changes {
        let files: Vec<PathBuf> = read(folder)?
            .into_iter()
            .filter(|(_, entry)| matches!(entry.kind, Kind::File { .. }))
            .map(|(path, _)| folder.join(path))
            .collect();
        let files: Vec<&Path> = files.iter().map(PathBuf::as_path).collect();
        let one = dice.one_of(&files);
        let new = place(folder, dice)?.join(format!("{:08x}", dice.next() as u32));
        match (dice.below(12), one) {
            // Longer than before: a client of NFS 3 tells versions of one clock tick apart by their sizes alone.
            (0..2, Some(file)) => {
                let length = file.symlink_metadata()?.len();
                fs::write(file, bytes(dice, length + 1, 4000))?;
            }
            (2, Some(file)) => fs::remove_file(file)?,
            (3, Some(file)) => fs::hard_link(file, new)?,
            (4, _) => symlink("../somewhere", new)?,
            (5, _) => {
                let mut file = fs::File::create(new)?;
                file.seek(SeekFrom::Start(1 << 18))?;
                file.write_all(b"behind a hole")?;
            }
            _ => {
                let most = [1, 200, 5000, 100_000][dice.below(4) as usize];
                fs::write(&new, bytes(dice, 0, most))?;
                let mode = [0o600, 0o644, 0o755][dice.below(3) as usize];
                fs::set_permissions(new, Permissions::from_mode(mode))?;
            }
        }
    }
    Ok(())
}

/// A folder to make something in, which may be new.
fn place(folder: &Path, dice: &mut Dice) -> io::Result<PathBuf> {
    let mut place = folder.to_owned();
    for _ in 0..dice.below(3) {
        place.push(format!("folder-{}", dice.below(3)));
    }
    fs::create_dir_all(&place)?;
    Ok(place)
}

/// At least `least` bytes, and up to `more` besides.
fn bytes(dice: &mut Dice, least: u64, more: u64) -> Vec<u8> {
    let length = (least + dice.below(more)) as usize;
    let words = (0..length.div_ceil(8)).flat_map(|_| dice.next().to_le_bytes());
    words.take(length).collect()
}
