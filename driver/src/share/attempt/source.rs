//! The sources of copies: opens a source, and finds out whether it is still there. Must not change it.

use crate::files::beneath;
use crate::files::copying::{self, CopyError, Distance, LinksFolder, Progress, Report, View};
use crate::files::roots::{Mounting, Root};
use crate::share::archives::Archives;
use crate::share::database::Share;
use crate::share::error::{Context, ShareError};
use crate::share::paths::claim;
use crate::share::paths::sub_path::{RECORDS_FOLDER, SubPath};
use crate::share::records::origin::{Origin, Source};
use crate::share::records::promise::Ratio;
use crate::share::records::record::{Kind, State};
use crate::share::records::snapshot::Snapshot;
use crate::share::records::store::{self, Found};
use crate::share::records::text;
use crate::share::records::volume::Volume;
use csi_proto::lock::lock;
use rustix::fs;
use rustix::io::Errno;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Mutex;

/// A source that is open for reading.
pub(in crate::share) enum OpenSource {
    /// A folder, and its path on the share.
    Tree(OwnedFd, PathBuf),
    /// An archive, and who can unpack it.
    Archive(OwnedFd, &'static dyn Archives),
}

/// Where a copy goes.
pub(in crate::share) struct Target<'a> {
    /// The empty folder.
    pub folder: OwnedFd,
    /// The folder that it lies in.
    pub beside: OwnedFd,
    /// The path of that one on the share.
    pub path: PathBuf,
    /// The names in it of the folder, and of what files with several names need meanwhile.
    pub names: [&'a str; 2],
}

/// What is known of a copy before it begins.
#[derive(Default)]
pub(in crate::share) struct Ahead {
    distance: Option<Distance>,
    /// Mounts that it will want.
    mounts: Mutex<Vec<Mounting>>,
}

/// What is on record of a source.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::share) struct SourceRecord {
    /// Its size, in bytes; 0 where none was recorded.
    pub size_bytes: i64,
    /// How often its file system may be promised, where it is a volume that says so.
    pub overcommit: Option<Ratio>,
}

/// What a source was when it was opened. While this is held its inode number is nobody else's.
pub(in crate::share) struct Seen(OwnedFd);

impl OpenSource {
    /// What [`Source::still_there`] looks for.
    ///
    /// # Errors
    /// When there are no descriptors left.
    pub(in crate::share) fn seen(&self) -> Result<Seen, ShareError> {
        let (Self::Tree(opened, _) | Self::Archive(opened, _)) = self;
        let seen = opened.try_clone().map(Seen);
        seen.context(|| "keeping the source open".to_owned())
    }

    /// Looks how far the source is, and begins the mounts that its copy will want: they take as long as what comes first.
    pub(in crate::share) fn look_ahead(&self, share: &Share) -> Ahead {
        let Self::Tree(from, _) = self else {
            return Ahead::default();
        };
        let (distance, views) = copying::outlook(from);
        let mounts = (1..views).map_while(|_| share.mount_again());
        Ahead {
            distance: Some(distance),
            mounts: Mutex::new(mounts.collect()),
        }
    }

    /// Copies it to an empty folder, as `ahead` has found out.
    ///
    /// # Errors
    /// Those of copying.
    pub(in crate::share) fn copy(
        self,
        share: &Share,
        to: Target<'_>,
        ahead: Ahead,
        progress: &Progress,
    ) -> Result<Report, CopyError> {
        match self {
            Self::Tree(from, path) => {
                let more = || {
                    let begun = lock(&ahead.mounts).pop();
                    let mount = begun.or_else(|| share.mount_again())?.wait()?;
                    let beside = beneath::folder(&**mount.root(), &to.path).ok()?;
                    // Nothing but this very share has a folder of that name, which was drawn for this attempt.
                    let folder = beneath::folder(&beside, to.names[0]).ok()?;
                    let from = beneath::folder(&**mount.root(), &path).ok()?;
                    let links = LinksFolder::new(beside, to.names[1]);
                    Some(View::new(from, folder, links).keeping(mount))
                };
                let maker = share
                    .maker()
                    .map_err(|error| CopyError::io("opening", RECORDS_FOLDER.to_owned(), error))?;
                let links = LinksFolder::new(to.beside, to.names[1]).made_by(maker);
                let first = View::new(from, to.folder, links)
                    .owned_by(share.owner())
                    .at(ahead.distance);
                copying::copy(first, &more, progress)
            }
            Self::Archive(from, archives) => archives.unpack(from, &to.folder, progress),
        }
    }
}

impl Source {
    /// Its folder or archive, open for reading, and what is on record.
    ///
    /// # Errors
    /// [`ShareError::NoSource`], [`ShareError::SourceNotReady`], and I/O errors.
    pub(in crate::share) fn open(
        &self,
        share: &Share,
    ) -> Result<(OpenSource, SourceRecord), ShareError> {
        let (folder, path, on_record) = match self {
            // Whoever made it has recorded no size.
            Self::Volume(Origin {
                path: Some(path), ..
            }) => (
                beneath::folder(&share.root, path.to_path()),
                path.to_path(),
                SourceRecord::default(),
            ),
            Self::Archive(origin) => {
                let archives = share.archives.ok_or_else(|| CopyError::Archive {
                    path: ".".to_owned(),
                    problem: "this build of the driver does not unpack archives".to_owned(),
                })?;
                let path = origin.path.as_ref().ok_or_else(|| self.gone())?;
                let archive = archives.open(&share.root, path)?;
                let archive = archive.ok_or_else(|| self.gone())?;
                let unrecorded = SourceRecord::default();
                return Ok((OpenSource::Archive(archive, archives), unrecorded));
            }
            Self::Volume(origin) => {
                let record = self.ready::<Volume>(share, origin)?.record;
                if !claim::holds(share, &record)? {
                    return Err(self.gone());
                }
                let path = record.what.path.to_path();
                (
                    beneath::folder(&share.root, &path),
                    path,
                    SourceRecord {
                        size_bytes: record.what.capacity_bytes,
                        overcommit: record.what.wanted.overcommit,
                    },
                )
            }
            Self::Snapshot(origin) => {
                let found = self.ready::<Snapshot>(share, origin)?;
                let data = text::data_name(found.record.copy);
                let folder = beneath::folder(&found.folder, &data);
                let path = store::path_of::<Snapshot>(origin.key).join(data);
                let on_record = SourceRecord {
                    size_bytes: found.record.what.size_bytes,
                    overcommit: None,
                };
                (folder, path, on_record)
            }
        };
        let folder = beneath::if_there(folder).context(|| format!("opening the {self}"))?;
        let folder = folder.ok_or_else(|| self.gone())?;
        Ok((OpenSource::Tree(folder, path), on_record))
    }

    /// Looks whether it is still what it was when it was opened: a deletion is on record before anything is taken away, so
    /// what was read until now was complete. To the path of one without a record another one may have come meanwhile.
    ///
    /// # Errors
    /// As for [`Source::open`].
    pub(in crate::share) fn still_there(
        &self,
        share: &Share,
        seen: &Seen,
    ) -> Result<(), ShareError> {
        let (Self::Volume(origin) | Self::Snapshot(origin) | Self::Archive(origin)) = self;
        if let Some(path) = &origin.path {
            ask_for(&share.root, path).context(|| format!("looking for {path}"))?;
            let (OpenSource::Tree(now, _) | OpenSource::Archive(now, _)) = self.open(share)?.0;
            let same = is_one(&seen.0, &now);
            return match same.context(|| format!("looking at the {self} again"))? {
                true => Ok(()),
                false => Err(self.gone()),
            };
        }
        match self {
            Self::Snapshot(_) => self.ready::<Snapshot>(share, origin).map(drop),
            _ => self.ready::<Volume>(share, origin).map(drop),
        }
    }

    fn gone(&self) -> ShareError {
        ShareError::NoSource(self.to_string())
    }

    /// The record of the source, which says that it can be copied.
    fn ready<K: Kind>(&self, share: &Share, origin: &Origin) -> Result<Found<K>, ShareError> {
        let found = store::find::<K>(share, origin.key)?
            .filter(|found| found.record.nonce == origin.nonce)
            .ok_or_else(|| self.gone())?;
        match found.record.state {
            State::Ready => Ok(found),
            State::Creating => Err(ShareError::SourceNotReady(self.to_string())),
            State::Deleting => Err(self.gone()),
        }
    }
}

/// Has the server say what is at `path` and above it: an NFS client may believe for half a minute that it is what was there
/// before.
fn ask_for(root: &Root, path: &SubPath) -> io::Result<()> {
    match beneath::if_there(beneath::folder_now(root, path.parent()))? {
        Some(above) => beneath::ask(above, path.leaf()),
        // Whoever opens what lies there meets it again.
        None => Ok(()),
    }
}

/// Whether `now` is what was opened as `before`, and that is not deleted.
fn is_one(before: &OwnedFd, now: &OwnedFd) -> io::Result<bool> {
    match beneath::refresh(before) {
        Err(error) if beneath::errno(&error) == Some(Errno::STALE) => return Ok(false),
        other => other?,
    }
    let (before, now) = (fs::fstat(before)?, fs::fstat(now)?);
    Ok(before.st_nlink > 0 && (before.st_dev, before.st_ino) == (now.st_dev, now.st_ino))
}
