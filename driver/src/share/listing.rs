//! Going through a share's volumes in order, many records at a time to hide a server's latency, a bounded number in memory.

use super::database::Share;
use super::error::ShareError;
use super::lifecycle;
use super::record::Record;
use super::store::{self, Kept};
use super::token::{NameKey, Nonce};
use std::ops::ControlFlow;
use std::thread;

const THREADS: usize = 8;
const CHUNK: usize = 256;

/// A volume as a list shows it.
#[derive(Debug)]
pub enum Listed {
    /// With its record, and what is wrong with it.
    Volume(Box<Record>, Option<String>),
    /// With a record that cannot be used, and why.
    Unreadable(Nonce, String),
}

/// Calls `visit` for each volume whose key comes after `after`, in the order of the keys, until it breaks. Returns whether
/// it broke.
///
/// # Errors
/// I/O errors.
pub fn walk(
    share: &Share,
    after: Option<NameKey>,
    mut visit: impl FnMut(NameKey, Listed) -> ControlFlow<()>,
) -> Result<bool, ShareError> {
    let keys = store::keys(share)?;
    let start = after.map_or(0, |after| keys.partition_point(|key| *key <= after));
    for chunk in keys[start..].chunks(CHUNK) {
        for (key, listed) in chunk.iter().zip(read_all(share, chunk)) {
            if let Some(listed) = listed?
                && visit(*key, listed).is_break()
            {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

type Read = Result<Option<Listed>, ShareError>;

fn read_all(share: &Share, keys: &[NameKey]) -> Vec<Read> {
    let part = keys.len().div_ceil(THREADS).max(16);
    thread::scope(|scope| {
        let threads: Vec<_> = keys
            .chunks(part)
            .map(|keys| {
                scope.spawn(|| keys.iter().map(|key| read(share, *key)).collect::<Vec<_>>())
            })
            .collect();
        threads
            .into_iter()
            .flat_map(|thread| {
                thread
                    .join()
                    .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            })
            .collect()
    })
}

/// The volume under `key` as a list shows it; nothing when there is none.
///
/// # Errors
/// I/O errors.
pub fn read(share: &Share, key: NameKey) -> Read {
    Ok(match store::look(share, key)? {
        Kept::Nothing => None,
        Kept::Found(found) => {
            let trouble = lifecycle::trouble(share, &found.record)?;
            Some(Listed::Volume(Box::new(found.record), trouble))
        }
        Kept::Unreadable(record) => Some(Listed::Unreadable(
            record.nonce,
            format!("its record cannot be read: {}", record.detail),
        )),
    })
}
