//! What a volume or snapshot is a copy of: how it is opened, and whether it is still there. Must not change it.

use crate::beneath;
use crate::share::copying::{self, CopyError, LinksFolder, Progress, Report, View};
use crate::share::database::Share;
use crate::share::error::{Doing, ShareError};
use crate::share::paths::claim;
use crate::share::records::keep;
use crate::share::records::origin::{Origin, Source};
use crate::share::records::snapshot::Snapshot;
use crate::share::records::store;
use crate::share::records::volume::{Record, State};
use crate::share::upstream;
use std::os::fd::OwnedFd;
use std::path::PathBuf;

/// A source that is open for reading.
pub(in crate::share) enum Opened {
    /// A folder, and its path on the share.
    Tree(OwnedFd, PathBuf),
    Archive(OwnedFd),
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

/// What a source was when it was opened. While this is held its inode number is nobody else's.
pub(in crate::share) struct Seen(OwnedFd);

impl Opened {
    /// What [`Source::still_there`] looks for.
    ///
    /// # Errors
    /// When there are no descriptors left.
    pub(in crate::share) fn seen(&self) -> Result<Seen, ShareError> {
        let (Self::Tree(opened, _) | Self::Archive(opened)) = self;
        let seen = opened.try_clone().map(Seen);
        seen.doing(|| "keeping the source open".to_owned())
    }

    /// Copies it to an empty folder.
    ///
    /// # Errors
    /// Those of copying.
    pub(in crate::share) fn copy(
        self,
        share: &Share,
        to: Target<'_>,
        progress: &Progress,
    ) -> Result<Report, CopyError> {
        match self {
            Self::Tree(from, path) => {
                let more = || {
                    let mount = share.mount_again()?;
                    let beside = beneath::folder(&**mount.root(), &to.path).ok()?;
                    // Nothing but this very share has a folder of that name, which was drawn for this attempt.
                    let folder = beneath::folder(&beside, to.names[0]).ok()?;
                    let from = beneath::folder(&**mount.root(), &path).ok()?;
                    let links = LinksFolder::new(beside, to.names[1]);
                    Some(View::new(from, folder, links).keeping(mount))
                };
                let links = LinksFolder::new(to.beside, to.names[1]);
                copying::copy(View::new(from, to.folder, links), &more, progress)
            }
            #[cfg(feature = "upstream")]
            Self::Archive(from) => copying::unpack(from, &to.folder, progress),
            #[cfg(not(feature = "upstream"))]
            Self::Archive(from) => {
                drop(from);
                Err(CopyError::Archive {
                    path: ".".to_owned(),
                    problem: "this build of the driver does not unpack archives".to_owned(),
                })
            }
        }
    }
}

impl Source {
    /// Its folder or archive, open for reading, and the size that is on record, in bytes.
    ///
    /// # Errors
    /// [`ShareError::NoSource`], [`ShareError::SourceNotReady`], and I/O errors.
    pub(in crate::share) fn open(&self, share: &Share) -> Result<(Opened, i64), ShareError> {
        let (folder, path, size_bytes) = match self {
            // Whoever made it has recorded no size.
            Self::Volume(Origin {
                path: Some(path), ..
            }) => (
                beneath::folder(&share.root, path.to_path()),
                path.to_path(),
                0,
            ),
            Self::Archive(origin) => {
                let archive = origin
                    .path
                    .as_ref()
                    .map(|path| upstream::archive(&share.root, path));
                return match archive.transpose()?.flatten() {
                    Some(archive) => Ok((Opened::Archive(archive), 0)),
                    None => Err(self.gone()),
                };
            }
            Self::Volume(origin) => {
                let record = self.volume(share, origin)?;
                if !claim::holds(share, &record)? {
                    return Err(self.gone());
                }
                let path = record.path.to_path();
                (
                    beneath::folder(&share.root, &path),
                    path,
                    record.capacity_bytes,
                )
            }
            Self::Snapshot(origin) => {
                let found = self.snapshot(share, origin)?;
                let data = keep::data_name(found.record.copy);
                let folder = beneath::folder(&found.folder, &data);
                let path = store::path_of::<Snapshot>(origin.key).join(data);
                (folder, path, found.record.size_bytes)
            }
        };
        match folder {
            Err(error) if beneath::is_gone(&error) => Err(self.gone()),
            other => other
                .map(|folder| (Opened::Tree(folder, path), size_bytes))
                .doing(|| format!("opening the {self}")),
        }
    }

    /// Looks whether it is still what it was when it was opened: a deletion is on record before anything is taken away, so
    /// what was read until now was complete. Where kubernetes-csi's driver keeps no records, another one may have come to its
    /// path meanwhile.
    ///
    /// # Errors
    /// As for [`Source::open`].
    pub(in crate::share) fn still_there(
        &self,
        share: &Share,
        seen: &Seen,
    ) -> Result<(), ShareError> {
        match self {
            Self::Volume(Origin {
                path: Some(path), ..
            })
            | Self::Archive(Origin {
                path: Some(path), ..
            }) => {
                upstream::refresh_above(&share.root, path)?;
                let (Opened::Tree(now, _) | Opened::Archive(now)) = self.open(share)?.0;
                let same = upstream::is_one(&seen.0, &now);
                match same.doing(|| format!("looking at the {self} again"))? {
                    true => Ok(()),
                    false => Err(self.gone()),
                }
            }
            Self::Archive(_) => self.open(share).map(drop),
            Self::Volume(origin) => self.volume(share, origin).map(drop),
            Self::Snapshot(origin) => self.snapshot(share, origin).map(drop),
        }
    }

    fn gone(&self) -> ShareError {
        ShareError::NoSource(self.to_string())
    }

    fn not_ready(&self) -> ShareError {
        ShareError::SourceNotReady(self.to_string())
    }

    fn volume(&self, share: &Share, origin: &Origin) -> Result<Record, ShareError> {
        let found = store::find::<Record>(share, origin.key)?
            .filter(|found| found.record.nonce == origin.nonce)
            .ok_or_else(|| self.gone())?;
        match found.record.state {
            State::Ready => Ok(found.record),
            State::Creating => Err(self.not_ready()),
            State::Deleting => Err(self.gone()),
        }
    }

    fn snapshot(
        &self,
        share: &Share,
        origin: &Origin,
    ) -> Result<store::Found<Snapshot>, ShareError> {
        let found = store::find::<Snapshot>(share, origin.key)?
            .filter(|found| found.record.nonce == origin.nonce)
            .ok_or_else(|| self.gone())?;
        match found.record.state {
            State::Ready => Ok(found),
            State::Creating => Err(self.not_ready()),
            State::Deleting => Err(self.gone()),
        }
    }
}
