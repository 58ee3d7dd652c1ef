//! Finishing what a crash has left, at the first use of a share by a process: records that say creating or deleting, folders
//! that wait in the trash, old drafts. Must be safe while other controllers work on the same share.

use super::beneath;
use super::database::Share;
use super::error::{Doing, ShareError};
use super::lifecycle;
use super::record::{Record, State};
use super::store::{self, Kept};
use super::token::NameKey;
use super::trash;
use rustix::fs::{self, AtFlags};
use std::collections::HashMap;

/// Goes through the whole share once. `claim` is asked for each record that needs work, and gives a guard, or nothing when
/// this process works on that volume already. Returns what could not be finished.
///
/// # Errors
/// When the share cannot be gone through.
pub fn recover<G>(
    share: &Share,
    claim: impl Fn(NameKey) -> Option<G>,
) -> Result<Vec<ShareError>, ShareError> {
    let mut failures = Vec::new();
    // Needs room for a file, and so fails on a full share, where the rest matters most.
    failures.extend(trash::sweep_drafts(share).err());
    let mut waiting = HashMap::new();
    for name in trash::entries(share)? {
        if trash::parse_waiting(&name).is_some() {
            let stat = fs::statat(&share.trash, &*name, AtFlags::SYMLINK_NOFOLLOW);
            if let (Ok(stat), Ok(name)) = (stat, name.to_str()) {
                waiting.insert(stat.st_ino, name.to_owned());
            }
        }
    }
    for key in store::keys(share)? {
        let Kept::Found(found) = store::look(share, key)? else {
            continue;
        };
        let record = &found.record;
        let done = match record.state {
            State::Ready => match waiting.get(&record.inode) {
                // Moved by a late deletion of an earlier volume at that path, which died before it gave it back.
                Some(name) => give_back(share, record, name),
                None => Ok(()),
            },
            unfinished => match claim(key) {
                None => Ok(()),
                Some(_guard) if unfinished == State::Creating => {
                    lifecycle::finish_create(share, &found).map(drop)
                }
                Some(_guard) => lifecycle::finish_delete(share, &found),
            },
        };
        failures.extend(done.err());
    }
    Ok(failures)
}

fn give_back(share: &Share, record: &Record, waiting: &str) -> Result<(), ShareError> {
    let path = &record.wanted.sub_dir;
    let there = beneath::folder(&share.root, path.to_path());
    match there {
        Err(error) if beneath::is_gone(&error) => lifecycle::give_back(share, path, waiting),
        Err(error) => Err(error).doing(|| format!("looking for {path}")),
        Ok(_) => Ok(()),
    }
}
