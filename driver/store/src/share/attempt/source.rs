//! The sources of copies: opens a source, and finds out whether it is still there. Must not change it.

#[cfg(feature = "upstream")]
use crate::files::archive;
use crate::files::beneath;
use crate::files::copying::{self, CopyError, Distance, LinksFolder, Progress, Report, View};
use crate::files::roots::{Mounting, Root};
use crate::share::archives;
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
    /// A folder, its path on the share, and what is known of its copy.
    Tree(OwnedFd, PathBuf, Ahead),
    /// An archive.
    Archive(OwnedFd),
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

impl OpenSource {
    fn opened(&self) -> &OwnedFd {
        let (Self::Tree(opened, ..) | Self::Archive(opened)) = self;
        opened
    }

    /// What [`Source::still_there`] looks for. While it is held its inode number is nobody else's.
    ///
    /// # Errors
    /// When there are no descriptors left.
    pub(in crate::share) fn keep_open(&self) -> Result<OwnedFd, ShareError> {
        let opened = self.opened().try_clone();
        opened.context(|| "keeping the source open".to_owned())
    }

    /// Looks how far the source is, and begins the mounts that its copy will want: they take as long as what comes first.
    pub(in crate::share) fn look_ahead(&mut self, share: &Share) {
        if let Self::Tree(from, _, ahead) = self {
            let (distance, views) = copying::outlook(from);
            let mounts = (1..views).map_while(|_| share.mount_again());
            *ahead = Ahead {
                distance: Some(distance),
                mounts: Mutex::new(mounts.collect()),
            };
        }
    }

    /// Copies it to the empty folder `target`, which is `data` beside the record `claimed`. What files with several names need
    /// meanwhile is `links` there.
    ///
    /// # Errors
    /// Those of copying.
    pub(in crate::share) fn copy<K: Kind>(
        &self,
        share: &Share,
        claimed: &Found<K>,
        target: &OwnedFd,
        [data, links]: [&str; 2],
        progress: &Progress,
    ) -> Result<Report, CopyError> {
        let (from, path, ahead) = match self {
            Self::Tree(from, path, ahead) => (from, path, ahead),
            #[cfg(feature = "upstream")]
            Self::Archive(from) => return archive::unpack(from, target, progress),
            #[cfg(not(feature = "upstream"))]
            Self::Archive(_) => {
                return Err(CopyError::Archive {
                    path: ".".to_owned(),
                    problem: "this build of the driver does not unpack archives".to_owned(),
                });
            }
        };
        let more = || {
            let begun = lock(&ahead.mounts).pop();
            let mount = begun.or_else(|| share.mount_again())?.wait()?;
            let record = store::path_of::<K>(claimed.record.key());
            let beside = beneath::folder(&**mount.root(), record).ok()?;
            // Nothing but this very share has a folder of that name, which was drawn for this attempt.
            let target = beneath::folder(&beside, data).ok()?;
            let from = beneath::folder(&**mount.root(), path).ok()?;
            let mut view = View::new(from, target, LinksFolder::new(beside, links));
            view.mount = Some(mount);
            Some(view)
        };
        let first = || {
            let links = LinksFolder::new(claimed.folder.try_clone()?, links);
            let links = links.made_by(share.maker()?);
            let mut view = View::new(from.try_clone()?, target.try_clone()?, links);
            (view.owner, view.distance) = (share.owner(), ahead.distance);
            io::Result::Ok(view)
        };
        let first =
            first().map_err(|error| CopyError::io("opening", RECORDS_FOLDER.to_owned(), error))?;
        copying::copy(first, &more, progress)
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
                let path = origin.path.as_ref().ok_or_else(|| self.gone())?;
                let archive = archives::open(&share.root, path)?;
                let archive = archive.ok_or_else(|| self.gone())?;
                return Ok((OpenSource::Archive(archive), SourceRecord::default()));
            }
            Self::Volume(origin) => {
                let found = self.ready::<Volume>(share, origin)?;
                if !claim::still_holds(share, &found)? {
                    return Err(self.gone());
                }
                let record = found.record;
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
        Ok((OpenSource::Tree(folder, path, Ahead::default()), on_record))
    }

    /// Looks whether it is still what it was when it was opened: a deletion is on record before anything is taken away, so
    /// what was read until now was complete. To the path of one without a record another one may have come meanwhile.
    ///
    /// # Errors
    /// As for [`Source::open`].
    pub(in crate::share) fn still_there(
        &self,
        share: &Share,
        seen: &OwnedFd,
    ) -> Result<(), ShareError> {
        let origin = self.origin();
        if let Some(path) = &origin.path {
            ask_for(&share.root, path).context(|| format!("looking for {path}"))?;
            let same = is_one(seen, self.open(share)?.0.opened());
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
