//! Removes the record of a volume or snapshot, with all that lies beside it. Owns what is left of a record's folder and of
//! copies; that the record says deleting, and what else has to go first, is the business of `life`.

use crate::files::beneath;
use crate::files::crash_points::step;
use crate::share::database::Share;
use crate::share::error::{Context, ShareError};
use crate::share::records::leftovers::remove_folder;
use crate::share::records::record::Kind;
use crate::share::records::store::{self, Found};
use crate::share::records::text::{is_attempt, measure_name, parse_file_name};
use crate::share::token::Nonce;
use crate::share::trash;
use rustix::fs::{self, AtFlags};
use rustix::io::Errno;

/// Removes the record, what copies have beside it, and its measure. Its newest generation goes last, so that a crash leaves
/// either a record that says deleting or none.
///
/// # Errors
/// I/O errors, after which it is there still.
pub(in crate::share) fn remove<K: Kind>(share: &Share, found: &Found<K>) -> Result<(), ShareError> {
    let context = || "removing the record".to_owned();
    let promise = found.record.promise();
    let nonce = promise.nonce;
    let names = beneath::if_there(beneath::names_now(&found.folder));
    let Some(names) = names.context(context)? else {
        return Ok(());
    };
    let mut generations = Vec::new();
    for name in names.iter().filter_map(|name| name.to_str().ok()) {
        match parse_file_name(name) {
            Some((owner, generation)) if owner == nonce => generations.push(generation),
            // Whoever copies notices.
            None if is_attempt(name) => match trash::discard(share, &found.folder, name, promise) {
                Err(ShareError::Io { source, .. }) if beneath::is_gone(&source) => {}
                other => drop(other?),
            },
            None if name == measure_name(nonce) => {
                // What stays goes with the folder.
                let _ = fs::unlinkat(&found.folder, name, AtFlags::empty());
            }
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
            Err(error) => return Err(error).context(context),
        }
        step("a generation is removed")?;
    }
    remove_folder::<K>(share, found.record.key(), Some(nonce));
    beneath::sync(K::folder(share)).context(context)
}

/// Moves to the trash what copies had beside the record when it was found and is not the record's: those that still run fail.
pub(in crate::share) fn discard_attempts<K: Kind>(
    share: &Share,
    found: &Found<K>,
) -> Result<(), ShareError> {
    for name in &found.attempts {
        trash::discard(share, &found.folder, name, found.record.promise())?;
    }
    Ok(())
}

/// Moves to the trash what lies beside the record now, but for what belongs to `attempt`, which has claimed the copy. An attempt that
/// has died may have made it after the record was looked at. Where the claim is lost, nothing is moved: it may be on record.
/// Returns whether the claim is held.
pub(in crate::share) fn discard_other_attempts<K: Kind>(
    share: &Share,
    claimed: &Found<K>,
    attempt: Nonce,
) -> Result<bool, ShareError> {
    let context = || "looking for other copies".to_owned();
    let names = beneath::if_there(beneath::names_now(&claimed.folder)).context(context)?;
    let names = names.unwrap_or_default();
    let names: Vec<&str> = names.iter().filter_map(|name| name.to_str().ok()).collect();
    // The question comes after the listing: a later attempt makes its files after it has won a generation. The listing counts too: while
    // this process hung, others may have won several, and have removed the next one.
    let record = &claimed.record;
    let files = names.iter().filter_map(|name| parse_file_name(name));
    let generations = files.filter(|(owner, _)| *owner == record.nonce);
    let newest = generations.map(|(_, generation)| generation).max();
    if newest != Some(record.generation) || store::has_newer(claimed).context(context)? {
        return Ok(false);
    }
    let ours = format!(".{attempt}");
    let is_other = |name: &&str| is_attempt(name) && !name.ends_with(&ours);
    for name in names.into_iter().filter(is_other) {
        trash::discard(share, &claimed.folder, name, record.promise())?;
    }
    Ok(true)
}
