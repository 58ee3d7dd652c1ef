//! Going through a share's volumes or snapshots in order, many records at a time to hide a server's latency, a bounded number in memory.

use crate::files::admission::ExtraThreads;
use crate::files::pool::of_each;
use crate::share::compared::{self, SizeKnown};
use crate::share::database::Share;
use crate::share::error::ShareError;
use crate::share::measures::{self, Measure};
use crate::share::records::record::{Kind, Record};
use crate::share::records::snapshot::Snapshot;
use crate::share::records::store::{self, Kept, Unreadable};
use crate::share::records::volume::Volume;
use crate::share::snapshots;
use crate::share::token::NameKey;
use crate::share::volume::create;
use std::ops::ControlFlow;

/// Keys whose records are in memory at a time.
const CHUNK: usize = 256;

/// A volume with a record.
#[derive(Debug)]
pub struct ListedVolume {
    /// The record.
    pub record: Record<Volume>,
    /// What is wrong with it.
    pub trouble: Option<String>,
    /// What is known of its size, where something is.
    pub size: Option<SizeKnown>,
    /// What it takes on the disk, where somebody has measured that.
    pub measure: Option<Measure>,
}

/// A volume as a list shows it; or a record that cannot be used, or something in a record's place, of which not even the nonce is
/// known.
pub type Listed = Result<ListedVolume, Unreadable>;

/// A kind of record, as a list shows it.
pub trait List: Kind {
    /// What a list shows.
    type Item: Send;
    /// What is kept under `key`, as a list shows it; nothing when there is nothing to show.
    fn read(share: &Share, key: NameKey) -> Result<Option<Self::Item>, ShareError>;
}

/// How far a walk has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Walked {
    /// The last key that was dealt with.
    pub last: Option<NameKey>,
    /// Whether it has ended before the last.
    pub is_part: bool,
}

/// Calls `visit` for each of a kind whose key comes after `after`, in the order of the keys, until it breaks; what it breaks
/// for counts as not dealt with. When `is_over` says so, the walk ends as well, but deals with at least one key. Besides this
/// thread `threads` read, at first as many records as are likely to be `wanted`.
pub fn walk<R: List>(
    share: &Share,
    threads: &ExtraThreads,
    after: Option<NameKey>,
    wanted: usize,
    is_over: impl Fn() -> bool + Sync,
    mut visit: impl FnMut(NameKey, R::Item) -> ControlFlow<()>,
) -> Result<Walked, ShareError> {
    let keys = store::keys::<R>(share)?;
    let start = after.map_or(0, |after| keys.partition_point(|key| *key <= after));
    let mut walked = Walked::default();
    let (mut rest, mut size) = (&keys[start..], wanted.clamp(1, CHUNK));
    while !rest.is_empty() {
        let (chunk, later) = rest.split_at(size.min(rest.len()));
        (rest, size) = (later, CHUNK.min(size * 2));
        let read = of_each(threads, chunk, &is_over, |key| R::read(share, *key));
        let is_whole = read.len() == chunk.len();
        for (key, listed) in chunk.iter().zip(read) {
            if let Some(listed) = listed?
                && visit(*key, listed).is_break()
            {
                walked.is_part = true;
                return Ok(walked);
            }
            walked.last = Some(*key);
        }
        if !is_whole {
            walked.is_part = true;
            break;
        }
    }
    Ok(walked)
}

impl List for Volume {
    type Item = Listed;

    fn read(share: &Share, key: NameKey) -> Result<Option<Listed>, ShareError> {
        Ok(match store::look_among::<Self>(share, key)? {
            Kept::Nothing => None,
            Kept::Found(found) => Some(Ok(ListedVolume {
                trouble: match create::trouble(share, &found) {
                    Err(error) if !error.is_stale() && share.answers() => Some(error.to_string()),
                    trouble => trouble?,
                },
                size: compared::size(share, &found.record),
                measure: measures::of(&found),
                record: found.record,
            })),
            Kept::Unreadable(record) => Some(Err(Unreadable {
                detail: format!("its record cannot be read: {}", record.detail),
                ..record
            })),
        })
    }
}

impl List for Snapshot {
    type Item = Result<Record<Self>, ShareError>;

    /// Only finished ones are shown. The specification forbids those that are being made, and has no word for those that are
    /// being deleted. Of those with a record that cannot be used, or without their data, the error is known.
    fn read(share: &Share, key: NameKey) -> Result<Option<Self::Item>, ShareError> {
        Ok(match store::look_among::<Self>(share, key)? {
            Kept::Nothing => None,
            Kept::Found(found) => match snapshots::finished(share, found) {
                Err(error) if !error.is_stale() && share.answers() => Some(Err(error)),
                finished => finished?.map(Ok),
            },
            Kept::Unreadable(record) => Some(Err(record.error::<Self>(key))),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::share::database::Expect;
    use std::fs::{self, File};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn not_many_more_records_are_read_than_are_wanted() {
        let folder = tempfile::tempdir().unwrap();
        let root = File::open(folder.path()).unwrap();
        let share = Share::open(Arc::new(root.into()), Expect::Any).unwrap();
        let all = 2 * CHUNK;
        for number in 0..all {
            let key = NameKey::of(&number.to_string());
            fs::create_dir(folder.path().join(format!(".csi-nfs/volumes/{key}"))).unwrap();
            let record = format!(".csi-nfs/volumes/{key}/0000000000000000.1");
            fs::write(folder.path().join(record), "{").unwrap();
        }
        for wanted in [1, 2, 5, all] {
            // It is asked before each record but the first.
            let (asked, mut seen) = (AtomicUsize::new(1), 0);
            let is_over = || asked.fetch_add(1, Ordering::Relaxed) > all;
            let walked = walk::<Volume>(
                &share,
                &Default::default(),
                None,
                wanted,
                is_over,
                |_, _| {
                    seen += 1;
                    match seen < wanted {
                        true => ControlFlow::Continue(()),
                        false => ControlFlow::Break(()),
                    }
                },
            );
            assert!(walked.unwrap().is_part);
            assert!(asked.into_inner() <= wanted);
            let mut seen = 0;
            let whole = walk::<Volume>(
                &share,
                &Default::default(),
                None,
                wanted,
                || false,
                |_, _| {
                    seen += 1;
                    ControlFlow::Continue(())
                },
            );
            assert!(!whole.unwrap().is_part);
            assert_eq!(seen, all);
        }
    }
}
