//! Going through a share's volumes or snapshots in order, many records at a time to hide a server's latency, a bounded number in memory.

use super::database::Share;
use super::error::ShareError;
use super::lifecycle;
use super::record::{Record, State};
use super::snapshot::Snapshot;
use super::store::{self, Keep, Kept};
use super::token::{NameKey, Nonce};
use std::ops::ControlFlow;
use std::thread::{self, Builder};

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

/// A kind of record, as a list shows it.
pub trait List: Keep {
    /// What a list shows.
    type Item: Send;
    /// What is kept under `key`, as a list shows it; nothing when there is nothing to show.
    ///
    /// # Errors
    /// I/O errors.
    fn read(share: &Share, key: NameKey) -> Result<Option<Self::Item>, ShareError>;
}

/// Calls `visit` for each of a kind whose key comes after `after`, in the order of the keys, until it breaks. Returns
/// whether it broke.
///
/// # Errors
/// I/O errors.
pub fn walk<R: List>(
    share: &Share,
    after: Option<NameKey>,
    mut visit: impl FnMut(NameKey, R::Item) -> ControlFlow<()>,
) -> Result<bool, ShareError> {
    let keys = store::keys::<R>(share)?;
    let start = after.map_or(0, |after| keys.partition_point(|key| *key <= after));
    for chunk in keys[start..].chunks(CHUNK) {
        for (key, listed) in chunk.iter().zip(read_all::<R>(share, chunk)) {
            if let Some(listed) = listed?
                && visit(*key, listed).is_break()
            {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

fn read_all<R: List>(share: &Share, keys: &[NameKey]) -> Vec<Result<Option<R::Item>, ShareError>> {
    let part = keys.len().div_ceil(THREADS).max(16);
    let read =
        |keys: &[NameKey]| -> Vec<_> { keys.iter().map(|key| R::read(share, *key)).collect() };
    thread::scope(|scope| {
        let parts: Vec<_> = keys
            .chunks(part)
            .map(|keys| (keys, Builder::new().spawn_scoped(scope, move || read(keys))))
            .collect();
        parts
            .into_iter()
            .flat_map(|(keys, thread)| match thread {
                Ok(thread) => thread
                    .join()
                    .unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
                // Where no thread can be had it takes longer.
                Err(_) => read(keys),
            })
            .collect()
    })
}

impl List for Record {
    type Item = Listed;

    fn read(share: &Share, key: NameKey) -> Result<Option<Listed>, ShareError> {
        Ok(match store::look::<Self>(share, key)? {
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
}

impl List for Snapshot {
    type Item = Self;

    /// Only finished ones are shown. The specification forbids those that are being made, and has no word for those that are
    /// being deleted or have a record that cannot be used.
    fn read(share: &Share, key: NameKey) -> Result<Option<Self>, ShareError> {
        Ok(match store::look::<Self>(share, key)? {
            Kept::Found(found) if found.record.state == State::Ready => Some(found.record),
            _ => None,
        })
    }
}
