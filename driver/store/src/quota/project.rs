//! A folder as a project of its own, with limits. Owns the order in which that is done: the ledger, the folder, the limits; so
//! that after an end at any moment a repeat finishes it, and no limit is without an entry.

use crate::files::beneath;
use crate::quota::draw;
use crate::quota::error::{Context, QuotaError};
use crate::quota::ledger::Ledger;
use crate::quota::project_id::ProjectId;
use csi_sys::file_attributes;
use csi_sys::project_quota::{self, Amounts, Quota};
use std::os::fd::AsFd;

/// What says to which project a folder belongs, and what is made in it.
pub type Attributes = file_attributes::Attributes;

/// How many ids are drawn before one gives up.
const TRIES: usize = 16;

/// Makes the empty folder a project of its own with these limits, for `owner`. A folder that is one of this owner's already
/// gets the limits.
///
/// # Errors
/// [`QuotaError::NotEmpty`], [`QuotaError::NoFreeId`], and I/O errors, after which a repeat finishes it.
pub fn assign(
    ledger: &Ledger,
    folder: impl AsFd,
    owner: &str,
    limits: Amounts,
) -> Result<ProjectId, QuotaError> {
    let folder = folder.as_fd();
    let is_empty = beneath::names(folder)
        .context("looking into a folder")?
        .is_empty();
    let id = match (begun(ledger, folder, owner)?, is_empty) {
        (Some(id), false) => id,
        (None, false) => return Err(QuotaError::NotEmpty),
        (begun, true) => tag_alone(ledger, folder, owner, begun)?,
    };
    set_limits(folder, id, limits)?;
    Ok(id)
}

/// Makes a folder with files a project of its own, without limits, for `owner`; what is in it stays outside for now. A folder that
/// is one of this owner's already stays that.
///
/// # Errors
/// [`QuotaError::OtherProject`], [`QuotaError::NoFreeId`], and I/O errors, after which a repeat finishes it.
pub fn begin(ledger: &Ledger, folder: impl AsFd, owner: &str) -> Result<ProjectId, QuotaError> {
    let folder = folder.as_fd();
    match (begun(ledger, folder, owner)?, number_of(folder)?) {
        (Some(id), _) => Ok(id),
        (None, 0) => tag_alone(ledger, folder, owner, None),
        (None, found) => Err(QuotaError::OtherProject(found)),
    }
}

/// The project of a folder, where the ledger has it for this owner.
fn begun(ledger: &Ledger, folder: impl AsFd, owner: &str) -> Result<Option<ProjectId>, QuotaError> {
    Ok(match of(folder)? {
        Some(id) if ledger.is_of(id, owner)? => Some(id),
        _ => None,
    })
}

/// Tags a folder alone, with the id that a try before this one has begun with, or a new one; nothing else has the id then.
fn tag_alone(
    ledger: &Ledger,
    folder: impl AsFd,
    owner: &str,
    begun: Option<ProjectId>,
) -> Result<ProjectId, QuotaError> {
    let folder = folder.as_fd();
    let mut begun = begun;
    for _ in 0..TRIES {
        let id = match begun.take() {
            Some(id) => Some(id),
            None => draw::draw(|id| quota(folder, id))?,
        };
        let Some(id) = id else { continue };
        if !ledger.enter(id, owner)? {
            continue;
        }
        tag(folder, id)?;
        // Another share's process, which has a ledger of its own, may have drawn the same id in this moment: both see it, and
        // both draw again.
        if quota(folder, id)?.used.inodes == 1 {
            return Ok(id);
        }
        untag(folder)?;
        ledger.forget(id)?;
    }
    Err(QuotaError::NoFreeId(TRIES))
}

/// The project of an open file or folder; nothing where it is in none, or in one that this driver never draws.
pub fn of(file: impl AsFd) -> Result<Option<ProjectId>, QuotaError> {
    Ok(ProjectId::new(number_of(file)?))
}

/// The attributes of an open folder that say to which project it and what is made in it belong.
pub fn attributes(folder: impl AsFd) -> Result<Attributes, QuotaError> {
    file_attributes::get(folder).context("reading the project of a folder")
}

/// The project of an open file or folder, whoever has put it there; 0 where it is in none.
pub(super) fn number_of(file: impl AsFd) -> Result<u32, QuotaError> {
    let attributes = file_attributes::get(file).context("reading the project of a file")?;
    Ok(attributes.project())
}

/// Puts an open folder into a project, and what is made in it.
pub(super) fn tag(folder: impl AsFd, id: ProjectId) -> Result<(), QuotaError> {
    let folder = folder.as_fd();
    let context = "putting a folder into its project";
    let attributes = file_attributes::get(folder).context(context)?;
    let tagged = attributes.with_project(id.number()).with_inheritance();
    if tagged == attributes {
        return Ok(());
    }
    file_attributes::set(folder, tagged).context(context)
}

/// Puts an open regular file into a project.
pub(super) fn tag_file(file: impl AsFd, id: ProjectId) -> Result<(), QuotaError> {
    let file = file.as_fd();
    let context = "putting a file into its folder's project";
    let attributes = file_attributes::get(file).context(context)?;
    file_attributes::set(file, attributes.with_project(id.number())).context(context)
}

fn untag(folder: impl AsFd) -> Result<(), QuotaError> {
    let folder = folder.as_fd();
    let context = "taking a folder out of a project";
    let attributes = file_attributes::get(folder).context(context)?;
    file_attributes::set(folder, attributes.with_project(0)).context(context)
}

/// The limits and the usage of a project on the file system of `root`.
pub fn quota(root: impl AsFd, id: ProjectId) -> Result<Quota, QuotaError> {
    project_quota::get(root, id.number()).context("reading the quota of a project")
}

/// Gives a project these limits, whatever they were. Those that are smaller than the usage only refuse more.
pub fn set_limits(root: impl AsFd, id: ProjectId, limits: Amounts) -> Result<(), QuotaError> {
    project_quota::set_limits(root, id.number(), limits).context("setting the limits of a project")
}

/// Takes the limits from a project whose folder is kept, or is being purged: it keeps its id.
pub fn lift_limits(root: impl AsFd, id: ProjectId) -> Result<(), QuotaError> {
    set_limits(root, id, Amounts::default())
}
