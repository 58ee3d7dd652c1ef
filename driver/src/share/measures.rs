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
use crate::share::token::{NameKey, Nonce};
use rustix::fs::{self, AtFlags};
use serde::{Deserialize, Serialize};
use std::time::{Duration, Instant};

/// The longest measure that is read, in bytes.
const LONGEST: u64 = 4096;
/// What a volume takes on the disk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Measure {
    format: u64,
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

/// What a look at a volume has found that is measured.
#[derive(Debug)]
pub struct MeasureLook {
    /// The volume.
    pub nonce: Nonce,
    /// Its size, as it is on record; 0 where it has none.
    pub size: u64,
    /// Its last measure.
    pub measure: Option<Measure>,
    /// Whether it is time for another one.
    pub is_due: bool,
}

/// Looks at what is kept under `key`. Nothing where it is not to be measured.
///
/// # Errors
/// I/O errors.
pub fn look(
    share: &Share,
    key: NameKey,
    interval: Duration,
) -> Result<Option<MeasureLook>, ShareError> {
    let Kept::Found(found) = store::look_among::<Volume>(share, key)? else {
        return Ok(None);
    };
    if !is_measured(&found.record) {
        return Ok(None);
    }
    let measure = of(&found);
    Ok(Some(MeasureLook {
        nonce: found.record.nonce,
        size: u64::try_from(found.record.what.capacity_bytes).unwrap_or_default(),
        is_due: is_due(measure.as_ref(), now(), interval),
        measure,
    }))
}

/// A volume that is being measured.
pub struct Measuring {
    found: Found<Volume>,
    count: UsageCount,
    begun: Instant,
}

/// Begins to measure the volume `nonce` under `key`. Nothing where somebody else has just done so, or it has gone.
///
/// # Errors
/// I/O errors.
pub fn begin(
    share: &Share,
    (key, nonce): (NameKey, Nonce),
    interval: Duration,
) -> Result<Option<Measuring>, ShareError> {
    let Kept::Found(found) = store::look::<Volume>(share, key)? else {
        return Ok(None);
    };
    let is_it = found.record.nonce == nonce && is_measured(&found.record);
    if !is_it || !is_due(of(&found).as_ref(), now(), interval) {
        return Ok(None);
    }
    let path = &found.record.what.path;
    let context = || format!("opening the folder of {path}");
    let folder = beneath::if_there(beneath::folder(&share.root, path.to_path()));
    let Some(folder) = folder.map_err(blocked(path, context))? else {
        return Ok(None);
    };
    let count = UsageCount::begin(&folder).context(context)?;
    Ok(Some(Measuring {
        found,
        count,
        begun: Instant::now(),
    }))
}

impl Measuring {
    /// Looks at `most` more entries. Returns at how many it did: fewer at the end.
    ///
    /// # Errors
    /// I/O errors.
    pub fn go_on(&mut self, most: usize) -> Result<usize, ShareError> {
        let path = &self.found.record.what.path;
        let looked = self.count.go_on(most);
        looked.context(|| format!("measuring {path}"))
    }

    /// Puts the measure beside the record. Nothing when the volume has gone meanwhile.
    ///
    /// # Errors
    /// I/O errors.
    pub fn finish(self, share: &Share) -> Result<Option<Measure>, ShareError> {
        let (usage, short) = self.count.so_far();
        let took = self.begun.elapsed().as_millis();
        let measure = Measure {
            format: FORMAT,
            bytes: usage.bytes,
            files: usage.files,
            folders: usage.folders,
            ended: now(),
            took_ms: u64::try_from(took).unwrap_or(u64::MAX),
            short: short.map(|short| short.to_string()),
        };
        Ok(put(share, &self.found, &measure)?.then_some(measure))
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
}
