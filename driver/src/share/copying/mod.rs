//! Copying a tree from one folder of a share to another, with all that a file system lets travel. Owns the order of its
//! parts; what a copy is told and what it tells are `progress`, `report` and `error`, the walk is `tree`, its folders are `folders`, one entry is `entry`, the bytes of a file are `content`,
//! the rest of it is `attributes`, files with several names are `links`; an archive instead of a tree is read by `tar` and
//! unpacked by `unpack`. Must not know volumes or snapshots.
//!
//! The source may be changed, and by somebody hostile, while it is copied: every entry is opened by one name below a folder
//! that is held open, no symlink is followed, no mount is crossed and no device is opened. The target is a private folder
//! in which nobody else works.

mod attributes;
mod content;
mod entry;
mod error;
mod folders;
mod links;
mod listing;
mod means;
mod named;
mod node;
mod progress;
mod report;
#[cfg(feature = "upstream")]
mod tar;
#[cfg(test)]
mod tests;
mod tree;
#[cfg(feature = "upstream")]
mod unpack;
#[cfg(test)]
#[cfg(feature = "upstream")]
mod unpack_tests;

pub use error::CopyError;
pub use links::LinksFolder;
pub use progress::Progress;
pub use report::{LeftOut, Omission, Report};
#[cfg(feature = "upstream")]
pub use unpack::unpack;

use means::Means;
use progress::Course;
use report::Omissions;
use std::os::fd::OwnedFd;

/// Copies all that is in `source`, and the folder's own attributes, to the empty folder `target`, and returns when it is on
/// disk. In `links` files with several names are kept by inode for the time of the copy.
///
/// # Errors
/// [`CopyError`]; the target then holds a part, and the folder of links may be there.
pub fn copy(
    source: &OwnedFd,
    target: &OwnedFd,
    links: &LinksFolder<'_>,
    progress: &Progress,
) -> Result<Report, CopyError> {
    let means = Means::of(source, target)
        .map_err(|error| CopyError::io("looking at", ".".to_owned(), error))?;
    let (course, omissions) = (Course::of(progress), Omissions::default());
    tree::copy(source, target, links, &course, &means, &omissions)?;
    links
        .remove(means.threads, &progress.threads)
        .map_err(|error| CopyError::io("clearing the links of", ".".to_owned(), error))?;
    // Once for the whole file system, which is the cheapest; it reports what a write in the background met.
    rustix::fs::syncfs(target)
        .map_err(|error| CopyError::io("writing to disk", ".".to_owned(), error))?;
    Ok(omissions.into_report(progress.files(), progress.bytes()))
}
