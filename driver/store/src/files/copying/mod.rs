//! Copying a tree from one folder of a share to another, with all that a file system lets travel. Owns the order of its
//! parts; what a copy is told and what it tells are `progress`, `report` and `error`, what its threads share is `course`, the
//! walk is `tree`, its folders are `folders`, one entry is `entry`, the bytes of a file are `content`, the rest of it is
//! `attributes`, files with several names are `links`, several mounts at a time `view`, what a far server makes worth its cost
//! `distance`. Must not know volumes or snapshots.
//!
//! The source may be changed, and by somebody hostile, while it is copied: every entry is opened by one name below a folder
//! that is held open, no symlink is followed, no mount is crossed and no device is opened. The target is a private folder
//! in which nobody else works.

pub mod attributes;
pub mod content;
mod course;
mod distance;
mod entry;
mod error;
mod folders;
mod links;
pub mod named;
mod node;
mod progress;
mod report;
#[cfg(test)]
mod tests;
mod tree;
mod view;

pub use distance::Distance;
pub use error::CopyError;
pub use links::LinksFolder;
pub use progress::Progress;
pub use report::{LeftOut, Omission, Omissions, Report};
pub use view::{More, View};

use crate::files::walking::listing::Listing;
use course::Course;
use std::os::fd::OwnedFd;
use view::Views;

/// How far the server of `source` is, and how many views a copy of it will ask for at once. For a folder that was opened a
/// moment ago, and from which nobody reads.
pub fn outlook(source: &OwnedFd) -> (Distance, usize) {
    let distance = Distance::of(source);
    match distance.is_quick() {
        true => (distance, 1),
        false => (distance, distance.views(Listing::first_names(source))),
    }
}

/// Copies all that is in the source of `first`, and the folder's own attributes, to its empty target, and returns when it is
/// on disk. `more` views of the same folders are asked for where that pays.
///
/// # Errors
/// [`CopyError`]; the target then holds a part, and the folder of links may be there.
pub fn copy(first: View, more: More<'_>, progress: &Progress) -> Result<Report, CopyError> {
    let course = Course::of(&first, progress)
        .map_err(|error| CopyError::io("looking at", ".".to_owned(), error))?;
    let views = Views::new(first, more);
    tree::copy(&views, &course)?;
    views.finish(&progress.threads)?;
    let omissions = course.omissions;
    Ok(omissions.into_report(progress.files(), progress.bytes()))
}
