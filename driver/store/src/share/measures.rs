//! Measures: the disk usage of volumes whose sizes nobody enforces, as somebody has counted it. Owns the file `measure.…`
//! beside a record, who counts, and which volume is due. How fast it is counted is the caller's business.
//!
//! A measure is written whole and replaces the one before. It is no part of the record, and goes with it. Two processes may count
//! one volume at the same time, which does no harm: the later measure stays.

use crate::files::beneath;
use crate::files::crash_points::step;
use crate::files::walking::usage::UsageCount;
use crate::share::database::{Share, now};
use crate::share::error::{Context, ShareError};
use crate::share::paths::open::blocked;
use crate::share::records::format::{self, FORMAT};
use crate::share::records::leftovers;
use crate::share::records::record::{Record, State};
use crate::share::records::size::Size;
use crate::share::records::store::{self, Found, Kept};
use crate::share::records::text::measure_name;
use crate::share::records::volume::Volume;
use crate::share::token::NameKey;
use csi_proto::random;
use rustix::fs::{self, AtFlags};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;

/// The longest measure that is read, in bytes.
const LONGEST: u64 = 4096;
/// What a volume takes on the disk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Measure {
    pub(super) format: u64,
    /// Bytes on the disk.
    pub bytes: u64,
    /// All that is no folder.
    pub files: u64,
    /// Folders, the volume's own among them.
    pub folders: u64,
    /// Seconds since 1970 when it was counted, by the clock of whoever did.
    pub ended: u64,
    /// How long that took, in milliseconds.
    pub took_ms: u64,
    /// Why there is more than that, where there is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub short: Option<String>,
}

impl Measure {
    /// How long ago it ended, by this machine's clock: for people.
    pub fn age(&self) -> Duration {
        Duration::from_secs(now().saturating_sub(self.ended))
    }

    /// How much more that is than the volume's size. A size of 0 is none.
    pub fn beyond(&self, size: i64) -> Option<u64> {
        let size = u64::try_from(size).ok().filter(|size| *size > 0)?;
        self.bytes.checked_sub(size).filter(|beyond| *beyond > 0)
    }
}

/// Whether a volume is one that is measured. The file system itself counts what has an enforced size.
fn is_measured(record: &Record<Volume>) -> bool {
    record.state == State::Ready && !matches!(record.what.size, Some(Size::Enforced { .. }))
}

/// Whether a measure is to be made beside the last one, `now`. One of the future tells of a clock that was set.
fn is_due(last: Option<&Measure>, now: u64, interval: Duration) -> bool {
    last.is_none_or(|last| now.abs_diff(last.ended) >= interval.as_secs())
}

/// The last measure of a volume, where there is one that can be read.
pub fn of(found: &Found<Volume>) -> Option<Measure> {
    if !found.has_measure || !is_measured(&found.record) {
        return None;
    }
    let name = measure_name(found.record.nonce);
    let text = beneath::read(&found.folder, &name, LONGEST).ok()?;
    format::parse(&text)
}

/// What is known of the measures of one share, or of several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MeasuredShare {
    /// Volumes with a measure.
    pub volumes: usize,
    /// What they take together.
    pub bytes: u64,
    /// Those that take more than their sizes.
    pub beyond: usize,
    /// When the oldest measure ended, in seconds since 1970.
    pub oldest: Option<u64>,
}

impl MeasuredShare {
    /// One volume of this `size`.
    fn of(measure: &Measure, size: i64) -> Self {
        Self {
            volumes: 1,
            bytes: measure.bytes,
            beyond: usize::from(measure.beyond(size).is_some()),
            oldest: Some(measure.ended),
        }
    }

    /// All of both.
    pub fn and(self, other: Self) -> Self {
        Self {
            volumes: self.volumes + other.volumes,
            bytes: self.bytes.saturating_add(other.bytes),
            beyond: self.beyond + other.beyond,
            oldest: self.oldest.into_iter().chain(other.oldest).min(),
        }
    }
}

/// A round through the volumes of a share, which measures those that are due.
pub struct Round {
    interval: Duration,
    /// Those that come, the next one last.
    keys: Vec<NameKey>,
    /// The one that is being measured.
    counting: Option<(Found<Volume>, UsageCount)>,
    /// What is known of each that was looked at.
    seen: BTreeMap<NameKey, MeasuredShare>,
    /// Why one could not be measured.
    pub trouble: Option<ShareError>,
}

impl Round {
    /// Begins a round.
    pub fn begin(share: &Share, interval: Duration) -> Result<Self, ShareError> {
        let mut keys = store::keys::<Volume>(share)?;
        // Each process begins elsewhere, so that few count the same volume at a time.
        let drawn = random::from_kernel().context(|| "drawing a number".to_owned())?;
        let first = usize::from_le_bytes(drawn) % keys.len().max(1);
        keys.rotate_left(first);
        Ok(Self {
            interval,
            keys,
            counting: None,
            seen: BTreeMap::new(),
            trouble: None,
        })
    }

    /// What is known by now.
    pub fn sum(&self) -> MeasuredShare {
        let each = self.seen.values().copied();
        each.fold(MeasuredShare::default(), MeasuredShare::and)
    }

    /// Looks at `most` more records, files and folders, and tells what is measured. Returns at how many it did: fewer at the end.
    pub fn go_on(&mut self, share: &Share, most: usize, tell: impl Fn(&str)) -> usize {
        let mut looked = 0;
        while looked < most {
            let step = match self.counting.take() {
                Some(counting) => self.count(share, counting, most - looked, &tell),
                None => match self.keys.pop() {
                    Some(key) => self.look(share, key, &tell).map(|()| 1),
                    None => break,
                },
            };
            // The others are no worse for that.
            looked += step.unwrap_or_else(|error| {
                self.trouble.get_or_insert(error);
                1
            });
        }
        looked
    }

    /// Looks at what is kept under `key`, and begins to measure it where that is due.
    fn look(&mut self, share: &Share, key: NameKey, tell: impl Fn(&str)) -> Result<(), ShareError> {
        let found = match store::look_among::<Volume>(share, key)? {
            Kept::Found(found) if is_measured(&found.record) => found,
            _ => return Ok(()),
        };
        let last = of(&found);
        self.see(&found.record, last.as_ref());
        if !is_due(last.as_ref(), now(), self.interval) {
            return Ok(());
        }
        let path = &found.record.what.path;
        let context = || format!("opening the folder of {path}");
        let folder = beneath::if_there(beneath::folder(&share.root, path.to_path()));
        if let Some(folder) = folder.map_err(blocked(path, context))? {
            tell(&format!("measuring volumes/{key}"));
            let count = UsageCount::begin(&folder).context(context)?;
            self.counting = Some((found, count));
        }
        Ok(())
    }

    /// Goes on with a volume, and puts its measure beside the record when fewer than `most` entries are left.
    fn count(
        &mut self,
        share: &Share,
        (found, mut count): (Found<Volume>, UsageCount),
        most: usize,
        tell: impl Fn(&str),
    ) -> Result<usize, ShareError> {
        let looked = count.go_on(most);
        let looked = looked.context(|| format!("measuring {}", found.record.what.path))?;
        if looked == most {
            self.counting = Some((found, count));
            return Ok(looked);
        }
        let measure = Measure {
            format: FORMAT,
            bytes: count.bytes,
            files: count.files,
            folders: count.folders,
            ended: now(),
            took_ms: u64::try_from(count.begun.elapsed().as_millis()).unwrap_or(u64::MAX),
            short: count.short,
        };
        if put(share, &found, &measure)? {
            self.see(&found.record, Some(&measure));
            tell(&format!(
                "measured volumes/{}: {} bytes in {} files and {} folders, in {} ms",
                found.record.key(),
                measure.bytes,
                measure.files,
                measure.folders,
                measure.took_ms
            ));
        }
        Ok(looked)
    }

    fn see(&mut self, record: &Record<Volume>, measure: Option<&Measure>) {
        let seen = measure.map(|it| MeasuredShare::of(it, record.what.capacity_bytes));
        self.seen.extend(seen.map(|seen| (record.key(), seen)));
    }
}

/// Puts a measure beside its record. Returns whether that is there still.
fn put(share: &Share, found: &Found<Volume>, measure: &Measure) -> Result<bool, ShareError> {
    let nonce = found.record.nonce;
    let name = measure_name(nonce);
    match share.replace(&found.folder, &name, measure) {
        Err(ShareError::Io { source, .. }) if beneath::is_gone(&source) => return Ok(false),
        put => put?,
    }
    step("a measure is beside its record")?;
    if beneath::exists(&found.folder, &found.record.file_name()).is_ok_and(|is_there| is_there) {
        return Ok(true);
    }
    // Changed since, or removed: then it came too late to go with the record.
    let key = found.record.key();
    match store::look::<Volume>(share, key)? {
        Kept::Found(now) if now.record.nonce == nonce => return Ok(true),
        Kept::Unreadable(record) if record.may_be(nonce) => return Ok(true),
        _ => {}
    }
    let _ = fs::unlinkat(&found.folder, &name, AtFlags::empty());
    leftovers::remove_folder::<Volume>(share, key, Some(nonce));
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn which_volume_is_due() {
        const NOW: u64 = 1_800_000_000;
        let last = |age: i64| Measure {
            format: FORMAT,
            bytes: 0,
            files: 0,
            folders: 1,
            ended: NOW.saturating_add_signed(-age),
            took_ms: 1,
            short: None,
        };
        let hour = Duration::from_secs(3600);
        for (age, interval, expected) in [
            (None, hour, true),
            (Some(0), hour, false),
            (Some(3599), hour, false),
            (Some(3600), hour, true),
            (Some(i64::MAX), hour, true),
            // A little ahead, as of a clock that was set; and far ahead.
            (Some(-5), hour, false),
            (Some(-3600), hour, true),
            (Some(-i64::MAX), hour, true),
            (Some(0), Duration::from_secs(1), false),
            (Some(1), Duration::from_secs(1), true),
        ] {
            let last = age.map(last);
            let due = is_due(last.as_ref(), NOW, interval);
            assert_eq!(due, expected, "{age:?} {interval:?}");
        }
    }

    #[test]
    fn measures_are_summed_up() {
        let measure = |bytes, ended| Measure {
            format: FORMAT,
            bytes,
            files: 0,
            folders: 1,
            ended,
            took_ms: 1,
            short: None,
        };
        let one = MeasuredShare::of(&measure(11, 100), 10);
        let one = one.and(MeasuredShare::of(&measure(500, 300), 0));
        let other = MeasuredShare::of(&measure(10, 200), 10);
        let expected = MeasuredShare {
            volumes: 3,
            bytes: 521,
            beyond: 1,
            oldest: Some(100),
        };
        assert_eq!(one.and(other), expected);
        assert_eq!(one.and(MeasuredShare::default()), one);
    }
}
