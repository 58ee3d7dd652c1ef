//! The owner of each folder that a user has chosen for a volume. Owns `folders/` on the share, which keeps two volumes from
//! having one folder, or one inside the other's, also when several controllers ask at the same time. A folder that the driver
//! names needs no claim: nobody else ever has that name.
//!
//! The tree under `folders/` repeats the volumes' paths, each component with a `+` before it; the folder at a path's end
//! holds one file `@<name key>.<nonce>`, its owner. A claim is a draft folder with the owner in it, renamed into place: that
//! replaces an empty folder only, so it fails where there is a claim or something below. On the way down no folder may
//! have an owner; whoever claims a folder on the way replaces it, and our open folder of it is dead from then on. The
//! owner's file bears the nonce in its name, so that no late release can hit a newer claim.

use crate::files::beneath;
use crate::files::crash_points::step;
use crate::share::database::{CLAIMS, Share};
use crate::share::error::{Context, ShareError};
use crate::share::paths::sub_path::{RECORDS_FOLDER, SubPath};
use crate::share::records::record::Record;
use crate::share::records::store::{self, Found, Kept};
use crate::share::records::text::LEAVING;
use crate::share::records::volume::Volume;
use crate::share::repeat::{ATTEMPTS, pause};
use crate::share::token::{NameKey, Nonce};
use rustix::fs::{self, AtFlags};
use rustix::io::Errno;
use std::io;
use std::os::fd::OwnedFd;

/// Who has a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Owner {
    key: NameKey,
    nonce: Nonce,
}

impl Owner {
    /// The owner of the folder of `record`; nothing when it needs none.
    fn of(record: &Record<Volume>) -> Option<Self> {
        record.what.wanted.sub_dir.as_ref().map(|_| Self {
            key: record.key(),
            nonce: record.nonce,
        })
    }

    fn file_name(self) -> String {
        format!("@{}.{}", self.key, self.nonce)
    }

    fn parse(name: &str) -> Option<Self> {
        let (key, nonce) = name.strip_prefix('@')?.split_once('.')?;
        Some(Self {
            key: key.parse().ok()?,
            nonce: nonce.parse().ok()?,
        })
    }
}

/// The top of the tree, as it is now; below it each folder is when it is opened by its name.
fn top(share: &Share) -> io::Result<OwnedFd> {
    beneath::refresh(&share.claims)?;
    beneath::folder(&share.claims, ".")
}

fn step_name(component: &str) -> String {
    format!("+{component}")
}

/// The way down to a path.
fn steps(path: &SubPath) -> Vec<String> {
    path.components().iter().map(|it| step_name(it)).collect()
}

/// What stands at one place of the tree.
struct ClaimedFolder {
    owner: Option<Owner>,
    children: Vec<String>,
}

fn place(folder: &OwnedFd) -> io::Result<ClaimedFolder> {
    let mut place = ClaimedFolder {
        owner: None,
        children: Vec::new(),
    };
    for name in beneath::names(folder)? {
        let Ok(name) = name.to_str() else { continue };
        match Owner::parse(name) {
            Some(owner) => place.owner = Some(owner),
            None => place.children.push(name.to_owned()),
        }
    }
    Ok(place)
}

const IS: &str = "is the folder of";
const INSIDE: &str = "is inside the folder of";
const CONTAINS: &str = "contains the folder of";

/// How an attempt at the tree ended.
enum ClaimEnd {
    /// By this call, with its draft.
    Claimed,
    /// By an equal call; the draft is left.
    AlreadyClaimed,
    /// Somebody has changed the tree meanwhile.
    Again,
    Taken(Claim),
}

/// A claim that keeps others from a path.
struct Claim {
    /// How the two paths lie.
    relation: &'static str,
    owner: Owner,
    /// The folder that has the owner's file.
    folder: OwnedFd,
}

impl Claim {
    /// The error for who wants `path`; nothing when no volume has this claim. A claim is made after its record and released
    /// before it, so one without a record is a leftover.
    fn refusal(&self, share: &Share, path: &SubPath) -> Result<Option<ShareError>, ShareError> {
        let Owner { key, nonce } = self.owner;
        let volume = match store::look::<Volume>(share, key)? {
            Kept::Found(found) if found.record.nonce == nonce => found.record.what.wanted.name,
            Kept::Unreadable(record) if record.may_be(nonce) => nonce.to_string(),
            _ => return Ok(None),
        };
        Ok(Some(ShareError::Overlap {
            path: path.clone(),
            relation: self.relation,
            volume,
        }))
    }
}

/// Claims the path of `record` for it, where that needs a claim; again is fine.
///
/// # Errors
/// [`ShareError::Overlap`] when it is, lies in, or holds the folder of a volume that exists, and I/O errors.
pub(in crate::share) fn claim(share: &Share, record: &Record<Volume>) -> Result<(), ShareError> {
    let (path, Some(owner)) = (&record.what.path, Owner::of(record)) else {
        return Ok(());
    };
    let draft = format!(
        "{}-{}",
        owner.nonce,
        Nonce::random().context(|| "drawing a nonce".to_owned())?
    );
    let result = claim_with(share, path, owner, &draft);
    if !matches!(result, Ok(true)) {
        store::remove_draft(share, &draft);
    }
    result.map(drop)
}

/// Returns whether the draft was used.
fn claim_with(
    share: &Share,
    path: &SubPath,
    owner: Owner,
    draft: &str,
) -> Result<bool, ShareError> {
    let context = || format!("claiming the folder {path}");
    beneath::make_folder(&share.drafts, draft, 0o700).context(context)?;
    let folder = beneath::folder(&share.drafts, draft).context(context)?;
    beneath::write_new(&folder, &owner.file_name(), b"").context(context)?;
    step("a claim is drafted")?;
    for attempt in 0..ATTEMPTS {
        pause(attempt);
        match try_claim(share, path, owner, draft) {
            Ok(ClaimEnd::Claimed) => {
                step("the folder is claimed")?;
                return Ok(true);
            }
            Ok(ClaimEnd::AlreadyClaimed) => return Ok(false),
            Ok(ClaimEnd::Again) => {}
            Ok(ClaimEnd::Taken(claim)) => match claim.refusal(share, path)? {
                Some(refusal) => return Err(refusal),
                // What is empty then is in nobody's way.
                None => {
                    let leftover = claim.owner.file_name();
                    let _ = fs::unlinkat(&claim.folder, leftover, AtFlags::empty());
                }
            },
            Err(error) if beneath::is_gone(&error) => {}
            Err(error) => return Err(error).context(context),
        }
    }
    Err(ShareError::Contended(format!("the folder {path}")))
}

fn try_claim(share: &Share, path: &SubPath, owner: Owner, draft: &str) -> io::Result<ClaimEnd> {
    let mut at = top(share)?;
    let (leaf, above) = match path.components() {
        [above @ .., leaf] => (step_name(leaf), above),
        [] => return Err(Errno::INVAL.into()),
    };
    for component in above {
        let name = step_name(component);
        beneath::make_folder(&at, &name, 0o700)?;
        let next = beneath::folder(&at, &name)?;
        if let Some(owner) = place(&next)?.owner {
            return Ok(ClaimEnd::Taken(Claim {
                relation: INSIDE,
                owner,
                folder: next,
            }));
        }
        at = next;
    }
    let renamed = beneath::rename(&share.drafts, draft, &at, &leaf);
    if renamed.is_ok() {
        beneath::sync(&at)?;
        return Ok(ClaimEnd::Claimed);
    }
    let folder = beneath::folder(&at, &leaf)?;
    match any_claim(folder, IS, 0)? {
        Some(claim) if claim.owner == owner && claim.relation == IS => {
            return Ok(ClaimEnd::AlreadyClaimed);
        }
        Some(claim) => return Ok(ClaimEnd::Taken(claim)),
        None => {}
    }
    // Only empty folders are in the way: left by a crash, or on somebody's way down in this moment.
    prune_empty(&at, &leaf, 0);
    Ok(ClaimEnd::Again)
}

/// The depth of the tree is that of the longest path: 1024 bytes.
const DEEPEST: usize = 513;

/// The claim of `folder`, which is as `relation` says, or of one below it.
fn any_claim(folder: OwnedFd, relation: &'static str, depth: usize) -> io::Result<Option<Claim>> {
    let ClaimedFolder { owner, children } = place(&folder)?;
    if let Some(owner) = owner {
        return Ok(Some(Claim {
            relation,
            owner,
            folder,
        }));
    }
    for child in children {
        if depth < DEEPEST
            && let Some(below) = beneath::if_there(beneath::folder(&folder, child))?
            && let Some(claim) = any_claim(below, CONTAINS, depth + 1)?
        {
            return Ok(Some(claim));
        }
    }
    Ok(None)
}

/// Removes the folder `name` in `at` when there is nothing in it but empty folders.
fn prune_empty(at: &OwnedFd, name: &str, depth: usize) {
    if depth < DEEPEST
        && let Ok(folder) = beneath::folder(at, name)
        && let Ok(ClaimedFolder {
            owner: None,
            children,
        }) = place(&folder)
    {
        for child in children {
            prune_empty(&folder, &child, depth + 1);
        }
    }
    let _ = fs::unlinkat(at, name, AtFlags::REMOVEDIR);
}

/// Whether the path of `record` is its now.
pub(in crate::share) fn holds(share: &Share, record: &Record<Volume>) -> Result<bool, ShareError> {
    let (path, Some(owner)) = (&record.what.path, Owner::of(record)) else {
        return Ok(true);
    };
    let steps = steps(path).join("/");
    let is_ours = |place: &ClaimedFolder| place.owner == Some(owner);
    let known = beneath::folder(&share.claims, &steps).and_then(|folder| place(&folder));
    if known.is_ok_and(|place| is_ours(&place)) {
        return Ok(true);
    }
    // A client may know folders by these names that are gone.
    let now = beneath::folder_now(&share.claims, &steps).and_then(|folder| place(&folder));
    let now = beneath::if_there(now).context(|| format!("looking up the claim of {path}"))?;
    Ok(now.is_some_and(|place| is_ours(&place)))
}

/// Whether the ready volume `found` still has its path. A deletion releases that.
///
/// # Errors
/// [`ShareError::Damaged`] when it has no claim and its folder has not left: a deletion has not begun. I/O errors.
pub(in crate::share) fn still_holds(
    share: &Share,
    found: &Found<Volume>,
) -> Result<bool, ShareError> {
    let (record, path) = (&found.record, &found.record.what.path);
    let Some(owner) = Owner::of(record) else {
        return Ok(true);
    };
    if holds(share, record)? {
        return Ok(true);
    }
    // A way out goes before the claim.
    let way_out = beneath::if_there(beneath::folder_now(&found.folder, LEAVING));
    match way_out.context(|| format!("looking for {LEAVING} beside the record"))? {
        None => Ok(false),
        Some(_) => Err(ShareError::Damaged {
            what: format!("the claim of volume {:?}", record.what.wanted.name),
            detail: format!(
                "the empty file {RECORDS_FOLDER}/{CLAIMS}/{}/{} is missing: put it back",
                steps(path).join("/"),
                owner.file_name()
            ),
        }),
    }
}

/// Refuses `path` when somebody keeps others from it.
///
/// # Errors
/// [`ShareError::Overlap`], and I/O errors.
pub fn refuse_taken(share: &Share, path: &SubPath) -> Result<(), ShareError> {
    if let Some(name) = path.own_name() {
        return Err(ShareError::Overlap {
            path: path.clone(),
            relation: if name == path.leaf() { IS } else { INSIDE },
            volume: name.to_owned(),
        });
    }
    let found = beneath::if_there(look_down(share, path));
    let found = found.context(|| format!("looking up the claim of {path}"))?;
    match found.flatten() {
        Some(claim) => claim.refusal(share, path)?.map_or(Ok(()), Err),
        None => Ok(()),
    }
}

fn look_down(share: &Share, path: &SubPath) -> io::Result<Option<Claim>> {
    let mut at = top(share)?;
    let [above @ .., leaf] = path.components() else {
        return Err(Errno::INVAL.into());
    };
    for component in above {
        at = beneath::folder(&at, step_name(component))?;
        if let Some(owner) = place(&at)?.owner {
            return Ok(Some(Claim {
                relation: INSIDE,
                owner,
                folder: at,
            }));
        }
    }
    any_claim(beneath::folder(&at, step_name(leaf))?, IS, 0)
}

/// Releases the claim of `record` to its path; again, or without one, is fine.
///
/// # Errors
/// I/O errors, after which the claim stands.
pub(in crate::share) fn release(share: &Share, record: &Record<Volume>) -> Result<(), ShareError> {
    let (path, Some(owner)) = (&record.what.path, Owner::of(record)) else {
        return Ok(());
    };
    let mut steps = steps(path);
    let released = beneath::folder(&share.claims, steps.join("/"))
        .and_then(|folder| Ok(fs::unlinkat(&folder, owner.file_name(), AtFlags::empty())?));
    beneath::if_there(released).context(|| format!("releasing the folder {path}"))?;
    step("the owner's file is removed")?;
    while let Some(last) = steps.pop() {
        let Ok(at) = beneath::folder(&share.claims, format!("./{}", steps.join("/"))) else {
            break;
        };
        if fs::unlinkat(&at, &last, AtFlags::REMOVEDIR).is_err() {
            break;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::share::database::Expect;
    use crate::share::records::record::State;
    use crate::share::tests::wanted;
    use std::fs::File;
    use std::sync::Arc;

    #[test]
    fn an_equal_claim_that_was_first_leaves_the_draft_to_be_removed() {
        let folder = tempfile::tempdir().unwrap();
        let root = Arc::new(File::open(folder.path()).unwrap().into());
        let share = Share::open(root, Expect::Any).unwrap();
        let nonce = Nonce::random().unwrap();
        let volume = Volume::new(wanted("v", "a/b"), nonce);
        let record = Record::new(volume, nonce, State::Creating);
        let owner = Owner::of(&record).unwrap();
        claim(&share, &record).unwrap();
        let draft = folder.path().join(".csi-nfs/drafts/late");
        std::fs::create_dir(&draft).unwrap();
        std::fs::write(draft.join(owner.file_name()), "").unwrap();
        let attempt = try_claim(&share, &record.what.path, owner, "late").unwrap();
        assert!(matches!(attempt, ClaimEnd::AlreadyClaimed));
        assert!(draft.exists() && holds(&share, &record).unwrap());
    }
}
