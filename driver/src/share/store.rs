//! The records of volumes: find, publish, update, remove. Owns `volumes/` on the share and the races about it; what a
//! state means and what follows from it is the business of `lifecycle`.
//!
//! Each volume has a folder `volumes/<name key>/` with its record in files `<nonce>.<generation>`, the highest one valid.
//! - It is published by renaming a finished draft folder into place. A folder replaces an empty folder and nothing else,
//!   so of two controllers one wins; and the folder's inode belongs to this one volume. Whoever comes late with an
//!   update or a removal for a volume that is gone works through its open folder and hits nothing of a newer one.
//! - It is updated by linking the next generation: link(2) fails when the name is taken, on NFS too, where a rename
//!   without replacing is not to be had.
//! - Whatever a rename or link reports, what can be read back decides: a retransmitted request reports failure for its
//!   own success.
//! - The folder is opened by name for each look, which makes an NFS client ask the server whether it has changed.

use super::beneath;
use super::crash::step;
use super::database::Share;
use super::error::{Doing, ShareError};
use super::record::{MAX_RECORD, Record};
use super::token::{NameKey, Nonce};
use rustix::fs::{self, AtFlags, Gid, Mode, Uid};
use rustix::io::Errno;
use std::os::fd::OwnedFd;
use std::time::Duration;

/// The volume's own folder, made ready beside the record, until it is moved to its place.
pub(super) const PREPARED: &str = "data";

/// How often a look is repeated when others change what is looked at.
pub(super) const ATTEMPTS: usize = 64;

/// A record and the open folder that it was found in.
#[derive(Debug)]
pub struct Found {
    pub(super) folder: OwnedFd,
    /// The record's newest generation.
    pub record: Record,
    /// Whether the volume's folder still waits beside the record.
    pub(super) prepared: bool,
}

/// A record that is there and cannot be used.
#[derive(Debug)]
pub struct Unreadable {
    /// Its volume's nonce, as its file's name says.
    pub nonce: Nonce,
    /// What is wrong.
    pub detail: String,
}

/// What is kept under a key.
#[derive(Debug)]
pub enum Kept {
    /// Nothing.
    Nothing,
    /// A record.
    Found(Found),
    /// A record that cannot be used.
    Unreadable(Unreadable),
}

/// How an attempt to publish or update ended.
#[derive(Debug)]
pub(super) enum Claimed {
    /// It is ours.
    Won,
    /// Somebody else was first: look again.
    Lost,
}

/// The record under `key`, or nothing.
///
/// # Errors
/// [`ShareError::Damaged`] when it cannot be used, and I/O errors.
pub fn find(share: &Share, key: NameKey) -> Result<Option<Found>, ShareError> {
    match look(share, key)? {
        Kept::Nothing => Ok(None),
        Kept::Found(found) => Ok(Some(found)),
        Kept::Unreadable(record) => Err(ShareError::Damaged {
            what: format!("the record volumes/{key}/{}", record.nonce),
            detail: record.detail,
        }),
    }
}

/// As [`find`], for those who can do something with a record that cannot be used.
///
/// # Errors
/// I/O errors.
pub fn look(share: &Share, key: NameKey) -> Result<Kept, ShareError> {
    let name = key.to_string();
    let mut seen_empty = false;
    for attempt in 0..ATTEMPTS {
        pause(attempt);
        let folder = match beneath::folder(&share.volumes, &name) {
            Ok(folder) => folder,
            Err(error) if beneath::errno(&error) == Some(Errno::NOENT) => return Ok(Kept::Nothing),
            Err(error) if beneath::is_gone(&error) => continue,
            Err(error) => return Err(error).doing(|| format!("opening volumes/{name}")),
        };
        let files = match list(&folder) {
            Ok(files) => files,
            Err(error) if beneath::is_gone(&error) => continue,
            Err(error) => return Err(error).doing(|| format!("reading volumes/{name}")),
        };
        let Some((nonce, generation)) = files.newest else {
            // A listing is not one moment: look twice before saying that there is nothing.
            if seen_empty {
                return Ok(Kept::Nothing);
            }
            seen_empty = true;
            continue;
        };
        if files.mixed {
            let detail = "its folder has files of two volumes".to_owned();
            return Ok(Kept::Unreadable(Unreadable { nonce, detail }));
        }
        let generation = match newest_from(&folder, nonce, generation) {
            Ok(generation) => generation,
            Err(error) if beneath::is_gone(&error) => continue,
            Err(error) => return Err(error).doing(|| format!("reading volumes/{name}")),
        };
        let content = match beneath::read(&folder, &format!("{nonce}.{generation}"), MAX_RECORD) {
            Ok(content) => content,
            // Pruned or removed in this moment.
            Err(error) if beneath::is_gone(&error) => continue,
            Err(error) if beneath::errno(&error).is_none() => {
                let detail = error.to_string();
                return Ok(Kept::Unreadable(Unreadable { nonce, detail }));
            }
            Err(error) => return Err(error).doing(|| format!("reading volumes/{name}")),
        };
        return Ok(match Record::from_bytes(&content, key, nonce, generation) {
            Ok(record) => Kept::Found(Found {
                folder,
                record,
                prepared: files.prepared,
            }),
            Err(detail) => Kept::Unreadable(Unreadable { nonce, detail }),
        });
    }
    Err(ShareError::Contended {
        what: format!("the record volumes/{name}"),
    })
}

/// The newest generation, asked for by name: a listing may be an old one. With NFSv3 a client knows that a folder has changed
/// by its times only, and misses a second change within one tick of the server's clock.
fn newest_from(folder: &OwnedFd, nonce: Nonce, mut generation: u64) -> std::io::Result<u64> {
    while beneath::exists(folder, &format!("{nonce}.{}", generation + 1))? {
        generation += 1;
    }
    Ok(generation)
}

struct Files {
    newest: Option<(Nonce, u64)>,
    mixed: bool,
    prepared: bool,
}

fn list(folder: &OwnedFd) -> std::io::Result<Files> {
    let mut files = Files {
        newest: None,
        mixed: false,
        prepared: false,
    };
    for name in beneath::names(folder)? {
        let Ok(name) = name.to_str() else { continue };
        if name == PREPARED {
            files.prepared = true;
        } else if let Some((nonce, generation)) = parse_file_name(name) {
            match files.newest {
                Some((other, _)) if other != nonce => files.mixed = true,
                Some((_, newest)) if newest >= generation => {}
                _ => files.newest = Some((nonce, generation)),
            }
        }
    }
    Ok(files)
}

fn parse_file_name(name: &str) -> Option<(Nonce, u64)> {
    let (nonce, generation) = name.split_once('.')?;
    let number: u64 = generation.parse().ok()?;
    (number > 0 && number.to_string() == generation).then_some((nonce.parse().ok()?, number))
}

/// Publishes the first generation of `record`, with the volume's folder ready beside it. The record's inode is filled in.
///
/// # Errors
/// I/O errors, after which nothing is left behind but drafts, which the recovery sweeps.
pub(super) fn publish(share: &Share, record: &mut Record) -> Result<Claimed, ShareError> {
    let draft = record.nonce.to_string();
    let result = draft_and_rename(share, record, &draft);
    if !matches!(result, Ok(Claimed::Won)) && !is_crash(&result) {
        remove_draft(share, &draft);
    }
    result
}

fn draft_and_rename(
    share: &Share,
    record: &mut Record,
    draft: &str,
) -> Result<Claimed, ShareError> {
    let doing = || "preparing the record on the share".to_owned();
    beneath::make_folder(&share.drafts, draft, 0o700).doing(doing)?;
    let folder = beneath::folder(&share.drafts, draft).doing(doing)?;
    step("the draft's folder is made")?;
    record.inode = prepare_folder(&folder, record)?;
    step("the volume's folder is prepared")?;
    let text = record.to_bytes().map_err(|detail| ShareError::Damaged {
        what: "the new record".to_owned(),
        detail,
    })?;
    beneath::write_new(&folder, &record.file_name(), &text).doing(doing)?;
    beneath::sync(&folder).doing(doing)?;
    step("the draft is written")?;

    let key = record.key();
    let name = key.to_string();
    for attempt in 0..ATTEMPTS {
        pause(attempt);
        let renamed = beneath::rename(&share.drafts, draft, &share.volumes, &name);
        step("the record is published")?;
        let Err(error) = renamed else {
            beneath::sync(&share.volumes)
                .doing(doing)
                .map_err(ShareError::unfinished)?;
            return Ok(Claimed::Won);
        };
        match look(share, key).map_err(ShareError::unfinished)? {
            Kept::Found(found) if found.record.nonce == record.nonce => return Ok(Claimed::Won),
            Kept::Found(_) | Kept::Unreadable(_) => return Ok(Claimed::Lost),
            Kept::Nothing => {
                // An empty folder that the server does not let us replace, or that just went.
                if !matches!(error, Errno::EXIST | Errno::NOTEMPTY) {
                    return Err(error).doing(|| "publishing the record".to_owned());
                }
                let _ = fs::unlinkat(&share.volumes, &name, AtFlags::REMOVEDIR);
            }
        }
    }
    Err(ShareError::Contended {
        what: format!("the record volumes/{name}"),
    })
}

/// Makes the volume's folder in the draft, where nobody else can reach it, and gives it its owner and mode.
fn prepare_folder(draft: &OwnedFd, record: &Record) -> Result<u64, ShareError> {
    let doing = || "making the volume's folder".to_owned();
    beneath::make_folder(draft, PREPARED, 0o700).doing(doing)?;
    let folder = beneath::folder(draft, PREPARED).doing(doing)?;
    let wanted = &record.wanted;
    if wanted.uid.is_some() || wanted.gid.is_some() {
        fs::fchown(&folder, wanted.uid.map(Uid::from_raw), wanted.gid.map(Gid::from_raw)).doing(|| {
            "giving the volume's folder its owner (uid, gid); an export with root_squash does not let this driver do so"
                .to_owned()
        })?;
    }
    // After the owner, since a change of owner clears the set-id bits.
    fs::fchmod(&folder, Mode::from_raw_mode(wanted.mode))
        .doing(|| "giving the volume's folder its mode (mountPermissions)".to_owned())?;
    beneath::sync(&folder).doing(doing)?;
    Ok(fs::fstat(&folder).doing(doing)?.st_ino)
}

/// Best effort: what stays is swept later.
fn remove_draft(share: &Share, draft: &str) {
    if let Ok(folder) = beneath::folder(&share.drafts, draft) {
        for name in beneath::names(&folder).unwrap_or_default() {
            if fs::unlinkat(&folder, &*name, AtFlags::empty()).is_err() {
                let _ = fs::unlinkat(&folder, &*name, AtFlags::REMOVEDIR);
            }
        }
        let _ = fs::unlinkat(&share.drafts, draft, AtFlags::REMOVEDIR);
    }
}

/// Replaces `found` by `next`, its following generation, unless somebody has changed it since it was found.
///
/// # Errors
/// I/O errors, after which the update may or may not have taken effect.
pub(super) fn update(share: &Share, found: &Found, next: &Record) -> Result<Claimed, ShareError> {
    let doing = || "updating the volume's record".to_owned();
    let text = next.to_bytes().map_err(|detail| ShareError::Damaged {
        what: "the updated record".to_owned(),
        detail,
    })?;
    let draft = format!("{}-{}", next.file_name(), Nonce::random().doing(doing)?);
    if let Err(error) = beneath::write_new(&share.drafts, &draft, &text) {
        let _ = fs::unlinkat(&share.drafts, &draft, AtFlags::empty());
        return Err(error).doing(doing);
    }
    step("an update is drafted")?;
    let linked = fs::linkat(
        &share.drafts,
        &draft,
        &found.folder,
        next.file_name(),
        AtFlags::empty(),
    );
    step("an update is linked")?;
    let _ = fs::unlinkat(&share.drafts, &draft, AtFlags::empty());
    match linked {
        Ok(()) => {
            // Removed with its folder in this moment: then fsync may say so, and the next look tells.
            let _ = beneath::sync(&found.folder);
            prune(found, next.generation);
            Ok(Claimed::Won)
        }
        Err(error) => match look(share, next.key())? {
            // An equal update by another controller is as good as ours.
            Kept::Found(now) if now.record == *next => Ok(Claimed::Won),
            Kept::Found(now) if now.record == found.record => Err(error).doing(doing),
            _ => Ok(Claimed::Lost),
        },
    }
}

/// Removes generations before the last but one, which nobody reads any more.
fn prune(found: &Found, newest: u64) {
    if newest > 2 {
        let old = format!("{}.{}", found.record.nonce, newest - 2);
        let _ = fs::unlinkat(&found.folder, &old, AtFlags::empty());
    }
}

/// Removes the record, its newest generation last, so that a crash leaves either a record that says deleting or none.
///
/// # Errors
/// I/O errors, after which it is there still.
pub(super) fn remove(share: &Share, found: &Found) -> Result<(), ShareError> {
    let doing = || "removing the volume's record".to_owned();
    let nonce = found.record.nonce;
    let mut generations: Vec<u64> = match beneath::names(&found.folder) {
        Ok(names) => names
            .iter()
            .filter_map(|name| parse_file_name(name.to_str().ok()?))
            .filter(|(owner, _)| *owner == nonce)
            .map(|(_, generation)| generation)
            .collect(),
        Err(error) if beneath::is_gone(&error) => return Ok(()),
        Err(error) => return Err(error).doing(doing),
    };
    generations.sort_unstable();
    for generation in generations {
        match fs::unlinkat(
            &found.folder,
            format!("{nonce}.{generation}"),
            AtFlags::empty(),
        ) {
            Ok(()) | Err(Errno::NOENT | Errno::STALE) => {}
            Err(error) => return Err(error).doing(doing),
        }
        step("a generation is removed")?;
    }
    // Only an empty folder goes: a newer volume's stays.
    let _ = fs::unlinkat(
        &share.volumes,
        found.record.key().to_string(),
        AtFlags::REMOVEDIR,
    );
    beneath::sync(&share.volumes).doing(doing)
}

/// All keys that have a folder, sorted. A folder may turn out to hold nothing.
///
/// # Errors
/// I/O errors.
pub fn keys(share: &Share) -> Result<Vec<NameKey>, ShareError> {
    // Opened anew: an open folder's position is shared, and an NFS client asks the server for changes only then.
    let mut keys: Vec<NameKey> = beneath::folder(&share.volumes, ".")
        .and_then(beneath::names)
        .doing(|| "listing the volumes".to_owned())?
        .iter()
        .filter_map(|name| name.to_str().ok()?.parse().ok())
        .collect();
    keys.sort_unstable();
    Ok(keys)
}

/// Waits a little before the second and later attempts, longer each time and not in step with others.
pub(super) fn pause(attempt: usize) {
    if attempt > 2 {
        let spread = u64::from(std::process::id()) % 7 + attempt as u64 % 5;
        std::thread::sleep(Duration::from_millis((attempt as u64).min(20) + spread));
    }
}

/// Whether a test let the process die here; then nothing may be cleaned up.
pub(super) fn is_crash<T>(result: &Result<T, ShareError>) -> bool {
    #[cfg(test)]
    return matches!(result, Err(ShareError::Crash(_)));
    #[cfg(not(test))]
    {
        let _ = result;
        false
    }
}
