//! Leftovers of a record's folder: its record is gone, or was never published.

use crate::files::beneath;
use crate::share::database::Share;
use crate::share::error::{Context, ShareError};
use crate::share::records::promise::Promise;
use crate::share::records::record::Kind;
use crate::share::records::text::{measure_name, parse_file_name};
use crate::share::repeat::{ATTEMPTS, pause};
use crate::share::token::{NameKey, Nonce};
use crate::share::trash;
use rustix::fs::{self, AtFlags};
use rustix::io::Errno;

/// Removes a record's folder if it is empty, but for updates of the record `gone`, which is removed, and a measure, that came
/// too late: a newer volume's stays. A file that a thread of this process still reads is there under another name over NFS,
/// until that is done.
pub(in crate::share) fn remove_folder<K: Kind>(share: &Share, key: NameKey, gone: Option<Nonce>) {
    let name = key.to_string();
    for attempt in 0..ATTEMPTS {
        pause(attempt);
        let removed = fs::unlinkat(K::folder(share), &name, AtFlags::REMOVEDIR);
        if !matches!(removed, Err(Errno::EXIST | Errno::NOTEMPTY)) {
            return;
        }
        // Not one of this name that is gone.
        let Ok(folder) = beneath::folder_now(K::folder(share), &name) else {
            return;
        };
        for left in beneath::names(&folder).unwrap_or_default() {
            let Ok(left) = left.to_str() else { return };
            match parse_file_name(left) {
                Some((nonce, _)) if Some(nonce) == gone => {
                    let _ = fs::unlinkat(&folder, left, AtFlags::empty());
                }
                None if gone.is_some_and(|gone| left == measure_name(gone)) => {
                    let _ = fs::unlinkat(&folder, left, AtFlags::empty());
                }
                _ if left.starts_with(".nfs") => {}
                _ => return,
            }
        }
    }
}

/// Clears a folder without a record, where somebody who came late has left something, or nothing.
pub(in crate::share) fn clear_leftovers<K: Kind>(
    share: &Share,
    key: NameKey,
) -> Result<(), ShareError> {
    let context = || format!("clearing {}/{key}", K::FOLDER);
    let name = key.to_string();
    let look = || {
        let folder = beneath::folder(K::folder(share), &name)?;
        let names = beneath::names_now(&folder)?;
        Ok((folder, names))
    };
    let Some((folder, names)) = beneath::if_there(look()).context(context)? else {
        return Ok(());
    };
    let names: Vec<&str> = names.iter().filter_map(|name| name.to_str().ok()).collect();
    // A newer one has come to the same place, its record with it.
    if names.iter().any(|name| parse_file_name(name).is_some()) {
        return Ok(());
    }
    for name in names {
        let promise = Promise::none(Nonce::random().context(context)?);
        trash::discard(share, &folder, name, promise)?;
    }
    remove_folder::<K>(share, key, None);
    Ok(())
}
