//! Measures: the disk usage of volumes whose sizes nobody enforces, as somebody has counted it. Owns the file `measure.…`
//! beside a record, who counts, and which volume is due. How fast it is counted is the caller's business.
//!
//! A measure is written whole and replaces the one before. It is no part of the record, and goes with it. Whoever counts has a
//! folder `measuring-…` among the drafts, which is touched meanwhile, so of several processes one counts. Two of them that find a
//! dead one's in the same moment may both count, which does no harm: each writes a measure of its own.

use crate::files::beneath;
use crate::files::crash_points::step;
use crate::files::walking::usage::UsageCount;
use crate::share::attempt::heartbeat::TOUCHED;
use crate::share::database::{Share, now};
use crate::share::error::{Context, ShareError};
use crate::share::paths::open::blocked;
use crate::share::records::format::{FORMAT, check_format};
use crate::share::records::leftovers;
use crate::share::records::record::{Record, State};
use crate::share::records::size::Size;
use crate::share::records::store::{self, Found, Kept};
use crate::share::records::text::measure_name;
use crate::share::records::volume::Volume;
use crate::share::token::{NameKey, Nonce};
use crate::share::trash::server_now;
use rustix::fs::{self, AtFlags, StatxFlags};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

/// The longest measure that is read, in bytes.
const LONGEST: u64 = 4096;
/// How often whoever counts says that he lives.
const TOUCH: Duration = Duration::from_secs(10);
/// How long he is believed to live without that, by the server's clock.
const LIFE: Duration = Duration::from_secs(60);

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

/// Whether a measure is to be made, where the last one is so many seconds old. One of the future tells of a clock that was set.
fn is_due(age: Option<i64>, interval: Duration) -> bool {
    age.is_none_or(|age| age.unsigned_abs() >= interval.as_secs())
}

/// Whether somebody counts who was last heard of so many seconds ago.
fn is_alive(silent: i64) -> bool {
    silent.unsigned_abs() < LIFE.as_secs()
}

/// The last measure of a volume, where there is one that can be read.
pub fn of(found: &Found<Volume>) -> Option<Measure> {
    if !found.has_measure || !is_measured(&found.record) {
        return None;
    }
    let name = measure_name(found.record.nonce);
    let text = beneath::read(&found.folder, &name, LONGEST).ok()?;
    check_format(&text).ok()?;
    serde_json::from_slice(&text).ok()
}

/// The server's clock, as it was asked for once: this machine's may be wrong.
#[derive(Clone, Copy, Debug)]
pub struct ServerClock {
    then: i64,
    asked: Instant,
}

impl ServerClock {
    /// Asks for it.
    ///
    /// # Errors
    /// I/O errors: asking takes a file.
    pub fn ask(share: &Share) -> Result<Self, ShareError> {
        Ok(Self {
            then: server_now(share)?,
            asked: Instant::now(),
        })
    }

    fn now(self) -> i64 {
        let since = i64::try_from(self.asked.elapsed().as_secs());
        self.then.saturating_add(since.unwrap_or(i64::MAX))
    }
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
    clock: ServerClock,
    interval: Duration,
) -> Result<Option<MeasureLook>, ShareError> {
    let Kept::Found(found) = store::look_among::<Volume>(share, key)? else {
        return Ok(None);
    };
    if !is_measured(&found.record) {
        return Ok(None);
    }
    let measure = of(&found);
    let age = match measure {
        Some(_) => match made_at(&found) {
            // Whoever measures it anew is told why. The others are no worse for that.
            Err(_) if share.answers() => None,
            made => made?.map(|made| clock.now().saturating_sub(made)),
        },
        None => None,
    };
    Ok(Some(MeasureLook {
        nonce: found.record.nonce,
        size: u64::try_from(found.record.what.capacity_bytes).unwrap_or_default(),
        measure,
        is_due: is_due(age, interval),
    }))
}

/// When the last measure was written, by the server's clock.
fn made_at(found: &Found<Volume>) -> Result<Option<i64>, ShareError> {
    let name = measure_name(found.record.nonce);
    time_of(&found.folder, &name).context(|| "looking at a measure".to_owned())
}

/// When `name` in `folder` was changed, as the server knows it now; nothing when it is not there.
fn time_of(folder: &OwnedFd, name: &str) -> io::Result<Option<i64>> {
    let how = AtFlags::SYMLINK_NOFOLLOW | AtFlags::STATX_FORCE_SYNC;
    let stat = fs::statx(folder, name, how, StatxFlags::MTIME).map_err(io::Error::from);
    Ok(beneath::if_there(stat)?.map(|stat| stat.stx_mtime.tv_sec))
}

/// The right to count a volume, which others respect as long as it is touched.
#[derive(Debug)]
struct CountingTurn {
    drafts: OwnedFd,
    name: String,
    touched: Instant,
}

impl CountingTurn {
    /// Nothing where somebody else counts.
    fn take(share: &Share, nonce: Nonce) -> Result<Option<Self>, ShareError> {
        let context = || "beginning to measure a volume".to_owned();
        let name = format!("measuring-{nonce}");
        for _ in 0..2 {
            if share.make_folder(&share.drafts, &name).context(context)? {
                return Ok(Some(Self {
                    drafts: share.drafts.try_clone().context(context)?,
                    name,
                    touched: Instant::now(),
                }));
            }
            if let Some(touched) = time_of(&share.drafts, &name).context(context)? {
                if is_alive(server_now(share)?.saturating_sub(touched)) {
                    return Ok(None);
                }
                let _ = fs::unlinkat(&share.drafts, &*name, AtFlags::REMOVEDIR);
            }
        }
        Ok(None)
    }

    /// Says that this process lives. Returns false when somebody has taken it for dead.
    fn touch(&mut self) -> bool {
        if self.touched.elapsed() < TOUCH {
            return true;
        }
        self.touched = Instant::now();
        let how = AtFlags::SYMLINK_NOFOLLOW;
        let touched = fs::utimensat(&self.drafts, &*self.name, &TOUCHED, how);
        !matches!(touched, Err(Errno::NOENT | Errno::STALE))
    }

    fn end(self) {
        // What stays is dead soon, and swept like any draft.
        let _ = fs::unlinkat(&self.drafts, &*self.name, AtFlags::REMOVEDIR);
    }
}

/// A volume that is being measured. One that is dropped leaves its turn behind, which is dead soon.
pub struct Measuring {
    found: Found<Volume>,
    turn: CountingTurn,
    count: UsageCount,
    begun: Instant,
}

/// Begins to measure the volume `nonce` under `key`. Nothing where somebody else does, or has just done so, or it has gone.
///
/// # Errors
/// I/O errors.
pub fn begin(
    share: &Share,
    (key, nonce): (NameKey, Nonce),
    interval: Duration,
) -> Result<Option<Measuring>, ShareError> {
    let Some(turn) = CountingTurn::take(share, nonce)? else {
        return Ok(None);
    };
    step("a turn to measure is taken")?;
    match count_of(share, (key, nonce), interval) {
        Ok(Some((found, count))) => Ok(Some(Measuring {
            found,
            turn,
            count,
            begun: Instant::now(),
        })),
        nothing => {
            turn.end();
            nothing.map(|_| None)
        }
    }
}

/// The volume and the begun count of it, if it is due now that it is this process's turn.
fn count_of(
    share: &Share,
    (key, nonce): (NameKey, Nonce),
    interval: Duration,
) -> Result<Option<(Found<Volume>, UsageCount)>, ShareError> {
    let Kept::Found(found) = store::look::<Volume>(share, key)? else {
        return Ok(None);
    };
    if found.record.nonce != nonce || !is_measured(&found.record) {
        return Ok(None);
    }
    if of(&found).is_some()
        && let Some(made) = made_at(&found)?
        && !is_due(Some(server_now(share)?.saturating_sub(made)), interval)
    {
        return Ok(None);
    }
    let path = &found.record.what.path;
    let context = || format!("opening the folder of {path}");
    let folder = beneath::if_there(beneath::folder(&share.root, path.to_path()));
    let Some(folder) = folder.map_err(blocked(path, context))? else {
        return Ok(None);
    };
    let count = UsageCount::begin(&folder).context(context)?;
    Ok(Some((found, count)))
}

impl Measuring {
    /// Looks at `most` more entries. Returns at how many it did: fewer at the end. Nothing where somebody has taken its turn.
    ///
    /// # Errors
    /// I/O errors, after which it is to be [given up](Self::give_up).
    pub fn go_on(&mut self, most: usize) -> Result<Option<usize>, ShareError> {
        let path = &self.found.record.what.path;
        let looked = self.count.go_on(most);
        let looked = looked.context(|| format!("measuring {path}"))?;
        Ok(self.turn.touch().then_some(looked))
    }

    /// Ends it without a measure.
    pub fn give_up(self) {
        self.turn.end();
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
        let put = put(share, &self.found, &measure);
        if !store::is_crash(&put) {
            self.turn.end();
        }
        Ok(put?.then_some(measure))
    }
}

/// Puts a measure beside its record. Returns whether that is there still.
fn put(share: &Share, found: &Found<Volume>, measure: &Measure) -> Result<bool, ShareError> {
    let context = || "keeping a measure".to_owned();
    let nonce = found.record.nonce;
    let text = serde_json::to_vec(measure).map_err(|error| ShareError::Damaged {
        what: "a measure that is to be written".to_owned(),
        detail: error.to_string(),
    })?;
    let draft = format!("measure-{nonce}-{}", Nonce::random().context(context)?);
    let name = measure_name(nonce);
    let drafted = share.write_new(&share.drafts, &draft, &text);
    step("a measure is drafted")?;
    let kept = match drafted {
        Ok(()) => beneath::rename(&share.drafts, &draft, &found.folder, &name),
        Err(error) => {
            let _ = fs::unlinkat(&share.drafts, &draft, AtFlags::empty());
            return Err(error).context(context);
        }
    };
    step("a measure is beside its record")?;
    if let Err(error) = kept {
        let _ = fs::unlinkat(&share.drafts, &draft, AtFlags::empty());
        return match error {
            Errno::NOENT | Errno::STALE => Ok(false),
            error => Err(error).context(context),
        };
    }
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
        let hour = Duration::from_secs(3600);
        for (age, interval, expected) in [
            (None, hour, true),
            (Some(0), hour, false),
            (Some(3599), hour, false),
            (Some(3600), hour, true),
            (Some(i64::MAX), hour, true),
            // A little ahead, as after a step of the server's clock; and far ahead.
            (Some(-5), hour, false),
            (Some(-3600), hour, true),
            (Some(i64::MIN), hour, true),
            (Some(0), Duration::from_secs(1), false),
            (Some(1), Duration::from_secs(1), true),
        ] {
            assert_eq!(is_due(age, interval), expected, "{age:?} {interval:?}");
        }
    }

    #[test]
    fn who_is_believed_to_count() {
        for (silent, expected) in [
            (0, true),
            (10, true),
            (59, true),
            (60, false),
            (-3, true),
            (-60, false),
        ] {
            assert_eq!(is_alive(silent), expected, "{silent}");
        }
    }
}
