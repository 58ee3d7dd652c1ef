//! Unpacking an archive into an empty private folder: what `tar -x` makes of it, and nothing outside of that folder. Owns what
//! an entry may do; the format is read by `tar`. Must not know volumes or snapshots.
//!
//! An archive is as hostile as whoever could write to the share. So each path is a list of checked components, every entry
//! is made by one name in a folder that was opened beneath the target without following a symlink, and what is there
//! already is removed and never written to. Memory does not grow with the archive, but with the depth of its folders.

use super::tar::{Archive, Entry, Kind};
use super::trouble::Trouble;
use crate::files::beneath;
use crate::files::copying::attributes::{Attribute, Basics};
use crate::files::copying::content::write_around_holes;
use crate::files::copying::named::Named;
use crate::files::copying::{CopyError, LeftOut, Omissions, Progress, Report};
use flate2::bufread::MultiGzDecoder;
use rustix::fs::{self, AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;
use std::collections::BTreeSet;
use std::ffi::{CString, OsStr};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

const BUFFER: usize = 128 << 10;
/// The longest path that the kernel takes, less the NUL byte at its end, and the longest component.
const MAX_PATH: usize = 4095;
const MAX_COMPONENT: usize = 255;
/// The extended attributes of a folder and those above it, which wait until all that is in them is done, in bytes.
const MAX_HELD: usize = 8 << 20;

/// The paths of devices that are kept in memory, in bytes, each with what it costs beside. A link to a device beyond that is
/// refused as one to nothing.
pub(super) const MAX_DEVICES: usize = 4 << 20;
pub(super) const PATH_COST: usize = 64;

/// Unpacks `archive`, a tar file with gzip or without, into the empty folder `target`, and returns when it is on disk.
///
/// Kept are owner and group by number, modes, times, `user.*` attributes, hard links, symbolic links and FIFOs. Devices are
/// left out, under each of their names.
///
/// # Errors
/// [`CopyError::Archive`] for one that is damaged, cut short or would write elsewhere; else as for copying. The target then
/// holds a part.
pub fn unpack(
    archive: &OwnedFd,
    target: &OwnedFd,
    progress: &Progress,
) -> Result<Report, CopyError> {
    let reading = |error| CopyError::io("reading", "the archive".to_owned(), error);
    let archive = archive.try_clone().map_err(reading)?;
    let mut input = BufReader::with_capacity(BUFFER, File::from(archive));
    let packed = input.fill_buf().map_err(reading)?.starts_with(b"\x1f\x8b");
    let input: Box<dyn Read> = match packed {
        true => Box::new(MultiGzDecoder::new(input)),
        false => Box::new(input),
    };
    let omissions = Omissions::default();
    let mut unpacking = Unpacking {
        archive: Archive::new(input),
        target,
        progress,
        omissions: &omissions,
        parent: None,
        open: Vec::new(),
        devices: BTreeSet::new(),
        devices_held: 0,
        buffer: vec![0; BUFFER],
    };
    unpacking.run()?;
    fs::syncfs(target).map_err(|error| CopyError::io("writing to disk", ".".to_owned(), error))?;
    Ok(omissions.into_report(progress.files(), progress.bytes()))
}

struct Unpacking<'a> {
    archive: Archive<Box<dyn Read>>,
    target: &'a OwnedFd,
    progress: &'a Progress,
    omissions: &'a Omissions,
    /// The folder that was last worked in, since entries come folder by folder.
    parent: Option<(Vec<u8>, OwnedFd)>,
    /// The folders from the root to where the archive is now, each with what it gets when all that is in it is done.
    open: Vec<(EntryPath, Basics, Vec<Attribute>)>,
    /// Where devices were left out: a hard link to one is another name of it.
    devices: BTreeSet<Vec<u8>>,
    devices_held: usize,
    buffer: Vec<u8>,
}

fn because<E: Into<io::Error>>(context: &'static str) -> impl Fn(E) -> Trouble {
    move |error| Trouble::Io(context, error.into())
}

/// A path in the archive: components without anything that names another place.
#[derive(Clone, Debug, PartialEq, Eq)]
struct EntryPath(Vec<u8>);

impl EntryPath {
    /// Checks a path, which may begin with `./` and end with slashes. The root is an empty place.
    fn parse(path: &[u8]) -> Result<Self, &'static str> {
        if path.starts_with(b"/") {
            return Err("its path is absolute");
        }
        if path.is_empty() {
            return Err("it has no path");
        }
        let mut rest = path;
        while let Some(after) = rest.strip_prefix(b"./") {
            rest = after;
        }
        while let Some(before) = rest.strip_suffix(b"/") {
            rest = before;
        }
        if matches!(rest, b"" | b".") {
            return Ok(Self(Vec::new()));
        }
        if rest.len() > MAX_PATH {
            return Err("its path is longer than a path can be");
        }
        for component in rest.split(|byte| *byte == b'/') {
            match component {
                b"" | b"." => return Err("its path has an empty component or '.' in it"),
                b".." => return Err("its path has '..' in it"),
                long if long.len() > MAX_COMPONENT => {
                    return Err("its path has a component that is longer than a name can be");
                }
                odd if odd.contains(&0) => return Err("its path has a NUL byte in it"),
                _ => {}
            }
        }
        Ok(Self(rest.to_vec()))
    }

    fn is_root(&self) -> bool {
        self.0.is_empty()
    }

    fn is_below(&self, other: &Self) -> bool {
        (other.is_root() && !self.is_root())
            || (self.0.starts_with(&other.0) && self.0.get(other.0.len()) == Some(&b'/'))
    }

    /// The folder's path and the name in it.
    fn split(&self) -> (&[u8], &[u8]) {
        match self.0.iter().rposition(|byte| *byte == b'/') {
            Some(slash) => (&self.0[..slash], &self.0[slash + 1..]),
            None => (b"", &self.0),
        }
    }

    fn shown(&self) -> String {
        shown(&self.0)
    }
}

fn shown(path: &[u8]) -> String {
    let text = String::from_utf8_lossy(path);
    match text.char_indices().nth(400) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None if text.is_empty() => ".".to_owned(),
        None => text.into_owned(),
    }
}

fn as_path(bytes: &[u8]) -> &Path {
    match bytes {
        b"" => Path::new("."),
        bytes => Path::new(OsStr::from_bytes(bytes)),
    }
}

impl Unpacking<'_> {
    fn run(&mut self) -> Result<(), CopyError> {
        // What cannot be read comes after what was.
        let mut last = Vec::new();
        let mut all = || {
            while let Some(entry) = self.archive.next()? {
                last.clone_from(&entry.path);
                self.unpack(&entry)?;
            }
            self.finish_folders(None)
        };
        all().map_err(|trouble| match trouble {
            Trouble::Stopped => CopyError::Stopped,
            Trouble::Refused(problem) => CopyError::Archive {
                path: shown(&last),
                problem,
            },
            Trouble::Io(context, error) => CopyError::io(context, shown(&last), error),
        })
    }

    fn unpack(&mut self, entry: &Entry) -> Result<(), Trouble> {
        if self.progress.is_stopped() {
            return Err(Trouble::Stopped);
        }
        let place = EntryPath::parse(&entry.path).map_err(Trouble::refused)?;
        self.finish_folders(Some(&place))?;
        let times = [entry.accessed.unwrap_or(entry.modified), entry.modified];
        let basics = Basics::new(entry.uid, entry.gid, entry.mode, times);
        let attributes = self.attributes(entry, &place);
        if entry.kind == Kind::Folder {
            if !place.is_root() {
                self.make_folder(&place)?;
            }
            let held = self.open.iter().map(|(.., attributes)| attributes);
            let held: usize = held
                .chain([&attributes])
                .flatten()
                .map(Attribute::size)
                .sum();
            if held > MAX_HELD {
                return Err(Trouble::Refused(format!(
                    "the folders that it is in have {held} bytes of extended attributes, and at most {MAX_HELD} are kept in memory"
                )));
            }
            self.open.push((place, basics, attributes));
            self.progress.count(0);
            return Ok(());
        }
        if place.is_root() {
            return Err(Trouble::refused("the volume's own folder is no folder"));
        }
        if entry.kind == Kind::Device {
            self.leave_out(&place);
            return Ok(());
        }
        let (above, name) = place.split();
        let (above, name) = (above.to_vec(), terminated(name)?);
        self.enter(&above)?;
        match entry.kind {
            Kind::File => self.file(entry, &place, &name, &basics, &attributes)?,
            Kind::HardLink => self.hard_link(entry, &place, &name)?,
            _ => self.special(entry, &place, &name, &basics)?,
        }
        self.progress.count(entry.size);
        Ok(())
    }

    /// Leaves out a device, or another name of one.
    fn leave_out(&mut self, place: &EntryPath) {
        self.omissions.add(LeftOut::Special, || place.shown());
        let cost = place.0.len() + PATH_COST;
        if self.devices_held + cost <= MAX_DEVICES && self.devices.insert(place.0.clone()) {
            self.devices_held += cost;
        }
    }

    /// The attributes that an archive can give: those of users. The others are the system's, and not an archive's to say.
    fn attributes(&self, entry: &Entry, place: &EntryPath) -> Vec<Attribute> {
        let mut kept = Vec::new();
        for (name, value) in &entry.attributes {
            match CString::new(name.as_slice()) {
                Ok(text) if name.starts_with(b"user.") => {
                    kept.push(Attribute::new(text, value.clone()));
                }
                _ => {
                    let space = name.split(|byte| *byte == b'.').next().unwrap_or_default();
                    let space = String::from_utf8_lossy(space).chars().take(16).collect();
                    self.omissions
                        .add(LeftOut::Attributes(space), || place.shown());
                }
            }
        }
        kept
    }

    /// The folder that was entered last.
    fn here(&self) -> &OwnedFd {
        self.parent
            .as_ref()
            .map_or(self.target, |(_, folder)| folder)
    }

    /// Opens the folder `path`, and makes what is missing of it, as tar does.
    fn enter(&mut self, path: &[u8]) -> Result<(), Trouble> {
        if self.parent.as_ref().is_some_and(|(at, _)| at == path) {
            return Ok(());
        }
        let folder = match beneath::folder(self.target, as_path(path)) {
            Err(error) if beneath::errno(&error) == Some(Errno::NOENT) => {
                let mut at =
                    beneath::folder(self.target, ".").map_err(because("opening the folder of"))?;
                for component in path.split(|byte| *byte == b'/') {
                    let name = terminated(component)?;
                    match fs::mkdirat(&at, &name, Mode::from_raw_mode(0o755)) {
                        Ok(()) | Err(Errno::EXIST) => {}
                        Err(error) => return Err(because("making the folder of")(error)),
                    }
                    at = beneath::folder(&at, as_path(component)).map_err(in_the_way)?;
                }
                at
            }
            other => other.map_err(in_the_way)?,
        };
        self.parent = Some((path.to_vec(), folder));
        Ok(())
    }

    fn make_folder(&mut self, place: &EntryPath) -> Result<(), Trouble> {
        let (above, name) = place.split();
        let (above, name) = (above.to_vec(), terminated(name)?);
        self.enter(&above)?;
        let made = || fs::mkdirat(self.here(), &name, Mode::RWXU);
        match made() {
            Ok(()) => Ok(()),
            // Said twice; or something else said so before, which goes.
            Err(Errno::EXIST) => match beneath::folder(self.here(), as_path(name.to_bytes())) {
                Ok(_) => Ok(()),
                Err(_) => {
                    self.clear(&name)?;
                    made().map_err(because("making"))
                }
            },
            Err(error) => Err(because("making")(error)),
        }
    }

    /// Removes what an earlier entry of the same path has made.
    fn clear(&self, name: &CString) -> Result<(), Trouble> {
        match fs::unlinkat(self.here(), name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(Errno::ISDIR | Errno::PERM) => Err(Trouble::refused(
                "it takes the place of a folder that came before it",
            )),
            Err(error) => Err(because("replacing")(error)),
        }
    }

    /// Makes something by name, in the place of what an earlier entry has made.
    fn make<T>(
        &self,
        name: &CString,
        make: impl Fn(&OwnedFd) -> rustix::io::Result<T>,
    ) -> Result<T, Trouble> {
        let made = match make(self.here()) {
            Err(Errno::EXIST) => {
                self.clear(name)?;
                make(self.here())
            }
            other => other,
        };
        made.map_err(because("making"))
    }

    fn file(
        &mut self,
        entry: &Entry,
        place: &EntryPath,
        name: &CString,
        basics: &Basics,
        attributes: &[Attribute],
    ) -> Result<(), Trouble> {
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = self.make(name, |folder| {
            fs::openat(folder, name, flags, Mode::RUSR | Mode::WUSR)
        })?;
        let mut at = 0;
        loop {
            if self.progress.is_stopped() {
                return Err(Trouble::Stopped);
            }
            // Full, but for the last, so that holes lie where they lay.
            let filled = self.archive.read(&mut self.buffer)?;
            if filled == 0 {
                break;
            }
            write_around_holes(&file, &self.buffer[..filled], at).map_err(because("writing"))?;
            at += filled as u64;
        }
        if at > 0 {
            // Zeros at the end were not written.
            fs::ftruncate(&file, at).map_err(because("writing"))?;
        }
        debug_assert_eq!(at, entry.size);
        self.give(&file, place, basics, attributes)
    }

    /// Gives what was made at `place`, and is complete, all that it is to have.
    fn give(
        &self,
        made: &OwnedFd,
        place: &EntryPath,
        basics: &Basics,
        attributes: &[Attribute],
    ) -> Result<(), Trouble> {
        let stat = fs::fstat(made).map_err(because("looking at"))?;
        let (omissions, path) = (self.omissions, || place.shown());
        let give_attributes = || Attribute::set_all(attributes, made, omissions, path);
        basics
            .give(made, &stat, give_attributes, omissions, path)
            .map_err(because("giving its attributes to"))
    }

    fn hard_link(
        &mut self,
        entry: &Entry,
        place: &EntryPath,
        name: &CString,
    ) -> Result<(), Trouble> {
        let first = EntryPath::parse(&entry.link).map_err(astray)?;
        if first == *place {
            return Err(astray("it is a link to itself"));
        }
        let (above, first_name) = first.split();
        let from = match beneath::folder(self.target, as_path(above)) {
            Err(error) if beneath::errno(&error) == Some(Errno::NOENT) => {
                return self.link_to_nothing(&first, place);
            }
            other => other.map_err(in_the_way)?,
        };
        let first_name = terminated(first_name)?;
        match fs::statat(&from, &first_name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) if FileType::from_raw_mode(stat.st_mode) == FileType::Directory => {
                return Err(astray("it names a folder"));
            }
            Ok(_) => {}
            Err(Errno::NOENT) => return self.link_to_nothing(&first, place),
            Err(error) => return Err(because("looking at the first name of")(error)),
        }
        self.make(name, |folder| {
            fs::linkat(&from, &first_name, folder, name, AtFlags::empty())
        })
    }

    /// A hard link to what is not there, which is well only of a device.
    fn link_to_nothing(&mut self, first: &EntryPath, place: &EntryPath) -> Result<(), Trouble> {
        if !self.devices.contains(&first.0) {
            return Err(astray("nothing of that name came before it"));
        }
        self.leave_out(place);
        Ok(())
    }

    /// A symlink, whose text is nobody's business as long as nothing follows it, or a FIFO.
    fn special(
        &mut self,
        entry: &Entry,
        place: &EntryPath,
        name: &CString,
        basics: &Basics,
    ) -> Result<(), Trouble> {
        if entry.kind == Kind::Symlink {
            let text = CString::new(entry.link.as_slice())
                .ok()
                .filter(|text| (1..=MAX_PATH).contains(&text.to_bytes().len()))
                .ok_or_else(|| Trouble::refused("its symlink leads nowhere"))?;
            self.make(name, |folder| fs::symlinkat(&*text, folder, name))?;
        } else {
            let mode = Mode::RUSR | Mode::WUSR;
            self.make(name, |folder| {
                fs::mknodat(folder, name, FileType::Fifo, mode, 0)
            })?;
        }
        let folder = self.here();
        let made =
            fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW).map_err(because("looking at"))?;
        basics
            .give_by_name(Named { folder, name }, &made, self.omissions, || {
                place.shown()
            })
            .map_err(because("giving its attributes to"))
    }

    /// Gives the folders that the archive has left what they are to have; all of them, when there is no next place.
    fn finish_folders(&mut self, next: Option<&EntryPath>) -> Result<(), Trouble> {
        while let Some((place, ..)) = self.open.last() {
            if next.is_some_and(|next| next.is_below(place)) {
                return Ok(());
            }
            let Some((place, basics, attributes)) = self.open.pop() else {
                return Ok(());
            };
            // Its mode may keep this process out from now on.
            self.parent = None;
            let folder = match beneath::folder(self.target, as_path(&place.0)) {
                Ok(folder) => folder,
                // Replaced by a later entry.
                Err(error)
                    if matches!(
                        beneath::errno(&error),
                        Some(Errno::NOENT | Errno::NOTDIR | Errno::LOOP)
                    ) =>
                {
                    continue;
                }
                Err(error) => return Err(because("opening")(error)),
            };
            self.give(&folder, &place, &basics, &attributes)?;
        }
        Ok(())
    }
}

fn astray(problem: &str) -> Trouble {
    Trouble::Refused(format!("its hard link leads astray: {problem}"))
}

fn terminated(name: &[u8]) -> Result<CString, Trouble> {
    CString::new(name).map_err(|_| Trouble::refused("its path has a NUL byte in it"))
}

/// What it means that the folder of an entry cannot be opened.
fn in_the_way(error: io::Error) -> Trouble {
    match beneath::errno(&error) {
        Some(Errno::LOOP | Errno::NOTDIR | Errno::XDEV) => Trouble::refused(
            "its path leads through something that is no folder, such as a symlink",
        ),
        _ => Trouble::Io("opening the folder of", error),
    }
}
