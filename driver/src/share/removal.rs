//! How a record of a volume or snapshot goes away, with all that lies beside it. Owns what is left of a record's folder and of
//! copies; that the record says deleting, and what else has to go first, is the business of `deletion` and `snapshots`.

use super::beneath;
use super::crash_points::step;
use super::database::Share;
use super::error::{Doing, ShareError};
use super::keep::Keep;
use super::store::{ATTEMPTS, Found, is_attempt, parse_file_name, pause};
use super::token::{NameKey, Nonce};
use super::trash;
use rustix::fs::{self, AtFlags};
use rustix::io::Errno;

/// Removes the record and what copies have beside it, its newest generation last, so that a crash leaves either a record that
/// says deleting or none.
///
/// # Errors
/// I/O errors, after which it is there still.
pub(super) fn remove<R: Keep>(share: &Share, found: &Found<R>) -> Result<(), ShareError> {
    let doing = || "removing the record".to_owned();
    let nonce = found.record.nonce();
    let names = match beneath::names_now(&found.folder) {
        Err(error) if beneath::is_gone(&error) => return Ok(()),
        names => names.doing(doing)?,
    };
    let mut generations = Vec::new();
    for name in names.iter().filter_map(|name| name.to_str().ok()) {
        match parse_file_name(name) {
            Some((owner, generation)) if owner == nonce => generations.push(generation),
            // Whoever copies notices.
            None if is_attempt(name) => match trash::discard(share, &found.folder, name, nonce) {
                Err(ShareError::Io { source, .. }) if beneath::is_gone(&source) => {}
                other => drop(other?),
            },
            _ => {}
        }
    }
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
    remove_folder::<R>(share, found.record.key(), Some(nonce));
    beneath::sync(R::shelf(share)).doing(doing)
}

/// Removes a record's folder if it is empty, but for updates of the record `gone`, which is removed, that came too late: a
/// newer volume's stays. A file that a thread of this process still reads is there under another name over NFS, until that is
/// done.
pub(super) fn remove_folder<R: Keep>(share: &Share, key: NameKey, gone: Option<Nonce>) {
    let name = key.to_string();
    for attempt in 0..ATTEMPTS {
        pause(attempt);
        let removed = fs::unlinkat(R::shelf(share), &name, AtFlags::REMOVEDIR);
        if !matches!(removed, Err(Errno::EXIST | Errno::NOTEMPTY)) {
            return;
        }
        // Not one of this name that is gone.
        let folder = beneath::refresh(R::shelf(share))
            .and_then(|()| beneath::folder(R::shelf(share), &name));
        let Ok(folder) = folder else { return };
        for left in beneath::names(&folder).unwrap_or_default() {
            let Ok(left) = left.to_str() else { return };
            match parse_file_name(left) {
                Some((nonce, _)) if Some(nonce) == gone => {
                    let _ = fs::unlinkat(&folder, left, AtFlags::empty());
                }
                _ if left.starts_with(".nfs") => {}
                _ => return,
            }
        }
    }
}

/// Clears a folder without a record, where somebody who came late has left something, or nothing.
///
/// # Errors
/// I/O errors.
pub(super) fn clear_leftovers<R: Keep>(share: &Share, key: NameKey) -> Result<(), ShareError> {
    let doing = || format!("clearing {}/{key}", R::SHELF);
    let name = key.to_string();
    let folder = match beneath::folder(R::shelf(share), &name) {
        Ok(folder) => folder,
        Err(error) if beneath::is_gone(&error) => return Ok(()),
        Err(error) => return Err(error).doing(doing),
    };
    let names = match beneath::names_now(&folder) {
        Ok(names) => names,
        Err(error) if beneath::is_gone(&error) => return Ok(()),
        Err(error) => return Err(error).doing(doing),
    };
    let names: Vec<&str> = names.iter().filter_map(|name| name.to_str().ok()).collect();
    // A newer one has come to the same place, its record with it.
    if names.iter().any(|name| parse_file_name(name).is_some()) {
        return Ok(());
    }
    for name in names {
        trash::discard(share, &folder, name, Nonce::random().doing(doing)?)?;
    }
    remove_folder::<R>(share, key, None);
    Ok(())
}

/// Moves to the trash what copies had beside the record when it was found and is not the record's: those that still run fail.
///
/// # Errors
/// I/O errors.
pub(super) fn discard_attempts<R: Keep>(share: &Share, found: &Found<R>) -> Result<(), ShareError> {
    for name in &found.attempts {
        trash::discard(share, &found.folder, name, found.record.nonce())?;
    }
    Ok(())
}
