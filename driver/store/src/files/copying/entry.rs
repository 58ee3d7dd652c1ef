//! One entry of a tree that is copied, whatever it is: file, symlink, FIFO, socket, device. Owns the order of its calls.
//! Folders are the business of `tree`.
//!
//! What calls a regular file takes over NFS, and what each is for, stands in `docs/volumes.md`.

use super::attributes::{self, Basics};
use super::content::{self, Way};
use super::course::Course;
use super::error::CopyError;
use super::links::FileIdentity;
use super::named::Named;
use super::node::Pair;
use super::report::LeftOut;
use crate::files::beneath;
use crate::files::crash_points;
use rustix::fs::{self, AtFlags, FileType, OFlags, Stat};
use rustix::io::Errno;
use std::ffi::{CStr, OsStr};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

/// What copies entries: the course of the copy, and one thread's buffers.
pub(super) struct EntryCopier<'a> {
    pub course: &'a Course<'a>,
    pub bytes: Vec<u8>,
    pub names: Vec<u8>,
}

/// How often an entry may turn out to be of another kind than it was a moment ago.
const TURNS: usize = 16;

impl<'a> EntryCopier<'a> {
    /// Copies the entry `name` of a folder, of which the listing said `kind`. Returns false when it is a folder.
    pub(super) fn copy(
        &mut self,
        pair: &Pair,
        name: &CStr,
        mut kind: FileType,
        path: impl Fn() -> String,
    ) -> Result<bool, CopyError> {
        for _ in 0..TURNS {
            let step = match kind {
                FileType::Directory => return Ok(false),
                FileType::RegularFile => self.file(pair, name, &path),
                _ => self.other(pair, name, &path),
            };
            match step.map_err(|(context, error)| CopyError::io(context, path(), error))? {
                EntryStep::Done(bytes) => {
                    self.course.progress.count(bytes);
                    return Ok(true);
                }
                EntryStep::LeftOut(what) => {
                    self.course.omissions.add(what, &path);
                    return Ok(true);
                }
                EntryStep::Stopped => return Err(CopyError::Stopped),
                EntryStep::Unseen => return Err(CopyError::Unseen(path())),
                EntryStep::Is(other) => kind = other,
            }
        }
        Err(CopyError::Changing(path()))
    }

    fn file(&mut self, pair: &Pair, name: &CStr, path: &impl Fn() -> String) -> Result_ {
        let [from, to] = pair.named(name);
        let source = match self.open(from) {
            Ok(Ok(source)) => source,
            Ok(Err(other)) => return Ok(EntryStep::Is(other)),
            Err(error) => return changed(from, error, "opening"),
        };
        let stat = match fs::fstat(&source) {
            Ok(stat) => stat,
            Err(Errno::STALE) => return Ok(EntryStep::Is(FileType::Unknown)),
            Err(error) => return Err(("looking at", error.into())),
        };
        let kind = FileType::from_raw_mode(stat.st_mode);
        if kind != FileType::RegularFile {
            return Ok(EntryStep::Is(kind));
        }
        let size = u64::try_from(stat.st_size).unwrap_or(0);
        let identity = || FileIdentity::of(&source, c"", &stat);
        let links = &self.course.links;
        let turn = links.turn(&pair.view.links, &stat, identity, to);
        let Some(first) = turn.map_err(because("linking"))? else {
            return Ok(EntryStep::Done(0));
        };
        match self.regular(&source, &stat, to, path) {
            Ok(Way::Settled | Way::Written) => {}
            Ok(Way::Stopped) => return Ok(EntryStep::Stopped),
            Ok(Way::Unseen) => return Ok(EntryStep::Unseen),
            // A server of version 3 does not know that a file is open, and has it no more when its last name goes.
            Err((_, error)) if is_stale(&error) && beneath::refresh(&source).is_err() => {
                return match fs::unlinkat(to.folder, to.name, AtFlags::empty()) {
                    // Gone, or replaced by another one.
                    Ok(()) | Err(Errno::NOENT) => Ok(EntryStep::Is(FileType::Unknown)),
                    Err(error) => Err(("removing the half copy of", error.into())),
                };
            }
            Err(failure) => return Err(failure),
        }
        first.keep(to).map_err(because("linking"))?;
        Ok(EntryStep::Done(size))
    }

    /// Copies the open file `source`, which `stat` describes, to `to`. Returns how its bytes got over, where they did.
    fn regular(
        &mut self,
        source: &OwnedFd,
        stat: &Stat,
        to: Named<'_>,
        path: &impl Fn() -> String,
    ) -> Result<Way, (&'static str, io::Error)> {
        let basics = Basics::of(stat);
        let names = attributes::names(source, self.course, &mut self.names, path)
            .map_err(because("reading the attributes of"))?;
        // Without EXCL, which takes one more call over NFS: nobody else works in the target.
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let target = fs::openat(to.folder, to.name, flags, basics.first_mode())
            .map_err(because("making"))?;
        // Asked now, while the kernel knows it from the making.
        let made = fs::fstat(&target).map_err(because("making"))?;
        let way = content::copy(source, &target, stat, self.course, &mut self.bytes)
            .map_err(because("copying"))?;
        match way {
            Way::Stopped | Way::Unseen => return Ok(way),
            // Closing would flush it as well, and not say what went wrong.
            Way::Written if self.course.remote => {
                fs::fsync(&target).map_err(because("writing"))?;
            }
            Way::Written | Way::Settled => {}
        }
        let omissions = &self.course.omissions;
        let give_attributes = || {
            let mut acl = false;
            let from = (source, &*names);
            attributes::each(
                from,
                self.course,
                &mut self.names,
                path,
                |_| true,
                |name, value| {
                    acl |= attributes::is_acl(name);
                    attributes::set(&target, name, value, omissions, path)
                },
            )?;
            Ok(acl)
        };
        basics
            .give(&target, &made, give_attributes, omissions, path)
            .map_err(because("giving its attributes to"))?;
        Ok(way)
    }

    /// Opens what should be a regular file. A device does things when it is opened, so where it could be one it is looked
    /// at first. Returns what it is instead, when it is no file.
    fn open(&self, from: Named<'_>) -> io::Result<Result<OwnedFd, FileType>> {
        crash_points::ask()?;
        let path = OsStr::from_bytes(from.name.to_bytes());
        if self.course.harmless {
            return beneath::file(from.folder, path).map(Ok);
        }
        let seen = beneath::handle(from.folder, path)?;
        let kind = FileType::from_raw_mode(fs::fstat(&seen)?.st_mode);
        if kind != FileType::RegularFile {
            return Ok(Err(kind));
        }
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let again = format!("/proc/self/fd/{}", seen.as_raw_fd());
        // Reading must not change the source, not even the time of its last access; only its owner may ask for that.
        match fs::open(&*again, flags | OFlags::NOATIME, fs::Mode::empty()) {
            Err(Errno::PERM) => Ok(fs::open(&*again, flags, fs::Mode::empty()).map(Ok)?),
            other => Ok(other.map(Ok)?),
        }
    }

    fn other(&mut self, pair: &Pair, name: &CStr, path: &impl Fn() -> String) -> Result_ {
        let [from, to] = pair.named(name);
        let look = || fs::statat(from.folder, from.name, AtFlags::SYMLINK_NOFOLLOW);
        let stat = match crash_points::ask().and_then(|()| look()) {
            Ok(stat) => stat,
            Err(error) => return changed(from, error.into(), "looking at"),
        };
        let kind = FileType::from_raw_mode(stat.st_mode);
        if matches!(kind, FileType::RegularFile | FileType::Directory) {
            return Ok(EntryStep::Is(kind));
        }
        let identity = || FileIdentity::of(from.folder, from.name, &stat);
        let links = &self.course.links;
        let turn = links.turn(&pair.view.links, &stat, identity, to);
        let Some(first) = turn.map_err(because("linking"))? else {
            return Ok(EntryStep::Done(0));
        };
        let basics = Basics::of(&stat);
        if kind == FileType::Symlink {
            match fs::readlinkat(from.folder, from.name, Vec::new()) {
                Ok(text) => fs::symlinkat(&*text, to.folder, to.name).map_err(because("making"))?,
                Err(error) => return changed(from, error.into(), "reading the symlink"),
            }
        } else {
            match make_special(to, kind, &basics, &stat) {
                Ok(()) => {}
                Err(Errno::PERM | Errno::OPNOTSUPP | Errno::INVAL | Errno::ACCESS) => {
                    return Ok(EntryStep::LeftOut(LeftOut::Special));
                }
                Err(error) => return Err(("making", error.into())),
            }
        }
        let made =
            fs::statat(to.folder, to.name, AtFlags::SYMLINK_NOFOLLOW).map_err(because("making"))?;
        basics
            .give_by_name(to, &made, &self.course.omissions, path)
            .map_err(because("giving its attributes to"))?;
        first.keep(to).map_err(because("linking"))?;
        Ok(EntryStep::Done(0))
    }
}

enum EntryStep {
    /// So many bytes are copied.
    Done(u64),
    LeftOut(LeftOut),
    Stopped,
    /// It has too many holes that cannot be seen.
    Unseen,
    /// It is something else than was said.
    Is(FileType),
}

type Result_ = Result<EntryStep, (&'static str, io::Error)>;

fn because<E: Into<io::Error>>(context: &'static str) -> impl Fn(E) -> (&'static str, io::Error) {
    move |error| (context, error.into())
}

fn is_stale(error: &io::Error) -> bool {
    beneath::errno(error) == Some(Errno::STALE)
}

/// What it means that the entry `from` is not there as it was listed.
fn changed(from: Named<'_>, error: io::Error, context: &'static str) -> Result_ {
    match beneath::errno(&error) {
        Some(Errno::NOENT) => Ok(EntryStep::LeftOut(LeftOut::Vanished)),
        // Its folder is there, and tells. Otherwise it is the folder that is to be looked for.
        Some(Errno::STALE) if beneath::refresh(from.folder).is_ok() => {
            Ok(EntryStep::Is(FileType::Unknown))
        }
        Some(Errno::XDEV) => Ok(EntryStep::LeftOut(LeftOut::Mount)),
        // A symlink, a socket, a device without a driver, no symlink any more.
        Some(Errno::LOOP | Errno::NXIO | Errno::NODEV | Errno::INVAL) => {
            Ok(EntryStep::Is(FileType::Unknown))
        }
        _ => Err((context, error)),
    }
}

fn make_special(
    to: Named<'_>,
    kind: FileType,
    basics: &Basics,
    stat: &Stat,
) -> rustix::io::Result<()> {
    let device = match kind {
        FileType::CharacterDevice | FileType::BlockDevice => stat.st_rdev,
        _ => 0,
    };
    fs::mknodat(to.folder, to.name, kind, basics.first_mode(), device)
}
