//! Makes the copy that a record promises, exactly once, whichever controllers try or die. Owns the claim on the copy;
//! how trees are copied is the business of `copying`, what follows is that of the record's life.
//!
//! The claim is a generation of the record that names the attempt. It is link(2), so of two one wins. A claim whose holder is
//! dead (`heartbeat`) is another's to take.
//! The copy is made as `data.<attempt>` beside the record and flushed. Then an update names the attempt in the record. Only
//! that makes it the record's copy, so exactly one attempt wins, also where a living controller was taken for dead. Who takes
//! a claim over moves what the others have begun to the trash, so that they notice soon.
//! A controller leaves a copy to an agent: it writes a claim in the name of the agent's process. That claim lives and dies as
//! any other: the agent takes it at once, or the controller takes it over when it was never renewed.

pub mod heartbeat;
pub mod process;
pub mod source;

use self::source::{OpenSource, SourceRecord};
use crate::files::beneath;
use crate::files::copying::{self, Progress};
use crate::files::crash_points::step;
use crate::share::database::Share;
use crate::share::error::{Context, ShareError};
use crate::share::records::leftovers;
use crate::share::records::origin::Source;
use crate::share::records::record::{Copying, Kind, Record};
use crate::share::records::removal;
use crate::share::records::store::{self, Claimed, Found};
use crate::share::records::text::COPYING;
use crate::share::token::Nonce;
use crate::share::trash;
use csi_proto::lock::lock;
use rustix::fs::{self, AtFlags};
use std::os::fd::OwnedFd;
use std::sync::{Mutex, mpsc};
use std::thread::Builder;

/// What this process copies now.
static ATTEMPTS: Mutex<Vec<Nonce>> = Mutex::new(Vec::new());

/// A copy that is about to be made. It is among the attempts of this process for as long as this lives.
pub(in crate::share) struct Begun {
    from: OpenSource,
    /// What is on record of the source.
    pub source: SourceRecord,
    /// The claim, which a record may be published with.
    pub copying: Copying,
}

impl Begun {
    /// Opens `source` for a copy.
    ///
    /// # Errors
    /// As for [`Source::open`].
    pub(in crate::share) fn of(share: &Share, source: &Source) -> Result<Self, ShareError> {
        let (from, source) = source.open(share)?;
        let copying = Copying::by(process::own().to_owned())?;
        lock(&ATTEMPTS).push(copying.attempt);
        Ok(Self {
            from,
            source,
            copying,
        })
    }

    /// The same, which this process makes: what it will want is on its way from now on.
    pub(in crate::share) fn looking_ahead(mut self, share: &Share) -> Self {
        self.from.look_ahead(share);
        self
    }
}

impl Drop for Begun {
    fn drop(&mut self) {
        lock(&ATTEMPTS).retain(|attempt| *attempt != self.copying.attempt);
    }
}

impl Copying {
    /// A claim in the name of `process`: this one, or an agent to which the copy is left.
    pub(in crate::share) fn by(process: String) -> Result<Self, ShareError> {
        let attempt = Nonce::random().context(|| "drawing a nonce".to_owned())?;
        Ok(Self { attempt, process })
    }

    /// Whether it is in this process's name.
    pub(in crate::share) fn is_ours(&self) -> bool {
        self.process == process::own()
    }

    /// Whether this process has been left the copy, and has not tried it yet. What it has claimed itself stands in a later
    /// generation than the first: that it has failed to make, and leaves it to others.
    pub(in crate::share) fn is_left_to_us<K: Kind>(&self, record: &Record<K>) -> bool {
        self.is_ours() && record.generation == 1
    }
}

/// Claims the copy that `found`'s record promises, unless it was published with the claim of `begun`. Nothing when somebody
/// else was first.
fn claim<K: Kind>(
    share: &Share,
    found: &Found<K>,
    source: &Source,
    begun: Option<Begun>,
) -> Result<Option<(Found<K>, Begun)>, ShareError> {
    if let Some(begun) = begun
        && found.record.copying.as_ref() == Some(&begun.copying)
    {
        return Ok(Some((found.with(found.record.clone())?, begun)));
    }
    if let Some(copying) = &found.record.copying
        && is_alive(found, copying)?
    {
        return Err(ShareError::CopiedElsewhere(format!(
            "{}/{}",
            K::FOLDER,
            found.record.key()
        )));
    }
    // Before anything is claimed, so that what cannot be copied costs nothing.
    let begun = Begun::of(share, source)?.looking_ahead(share);
    let next = found.record.with_copying(Some(begun.copying.clone()));
    let claimed = match store::update(share, found, &next)? {
        Claimed::Lost => return Ok(None),
        Claimed::Won => found.with(next)?,
    };
    step("the copy is claimed")?;
    heartbeat::begin(share, &claimed.folder, begun.copying.attempt)?;
    if !removal::discard_other_attempts(share, &claimed, begun.copying.attempt)? {
        let beat = heartbeat::name(begun.copying.attempt);
        let _ = fs::unlinkat(&claimed.folder, beat, AtFlags::empty());
        return Ok(None);
    }
    step("other attempts are discarded")?;
    Ok(Some((claimed, begun)))
}

/// Copies `source` to the data beside `found`'s record and puts that on record; `begun` is the copy that the record was
/// published with. `begin_folder` is told of the empty folder, `finish_folder` is given the copied one before anybody can see it.
/// Returns the record as it is then; nothing when others have changed it, and it is to be looked at again.
///
/// # Errors
/// [`ShareError::CopiedElsewhere`] while another controller does it, [`ShareError::NoSource`] when the source was deleted
/// meanwhile, [`ShareError::Copy`], and I/O errors. What was copied is in the trash then, unless an update may have put it on
/// record.
pub(in crate::share) fn make<K: Kind>(
    share: &Share,
    found: &Found<K>,
    source: &Source,
    begun: Option<Begun>,
    progress: &Progress,
    (begin_folder, finish_folder): (
        impl FnOnce(&Record<K>, Nonce) -> Result<(), ShareError>,
        impl FnOnce(&OwnedFd) -> Result<(), ShareError>,
    ),
) -> Result<Option<Found<K>>, ShareError> {
    let Some((claimed, begun)) = claim(share, found, source, begun)? else {
        return Ok(None);
    };
    let Begun { from, copying, .. } = &begun;
    let nonce = copying.attempt;
    let seen = from.keep_open()?;
    let names = COPYING.map(|kind| format!("{kind}.{nonce}"));
    let [data, links, beat] = &names;
    let begin = || begin_folder(&claimed.record, nonce);
    let is_gone = || {
        let there = source.still_there(share, &seen);
        matches!(there, Err(ShareError::NoSource(_)))
    };
    let copied = copy_beating(
        share,
        &claimed,
        (from, nonce),
        (begin, is_gone),
        [data, links],
        progress,
    );
    let copied = match copied {
        // Was stopped, or has failed, because there is nothing to copy any more?
        Err(error @ ShareError::Copy(_)) => match source.still_there(share, &seen) {
            Err(gone @ ShareError::NoSource(_)) => Err(gone),
            _ => Err(error),
        },
        other => other,
    };
    let filled = copied.and_then(|copied| {
        let Some((folder, report)) = copied else {
            return Ok(None);
        };
        step("the copy is made")?;
        source.still_there(share, &seen)?;
        finish_folder(&folder)?;
        let synced = beneath::sync(&folder).and_then(|()| beneath::sync(&claimed.folder));
        synced.context(|| "finishing the copy".to_owned())?;
        Ok(Some(claimed.record.filled(nonce, report.omissions())))
    });
    let result = match filled {
        Ok(Some(next)) => match store::update(share, &claimed, &next) {
            Ok(Claimed::Won) => {
                step("the copy is on record")?;
                // What stays is discarded as what other attempts have left.
                let _ = fs::unlinkat(&claimed.folder, beat, AtFlags::empty());
                return claimed.with(next).map(|filled| Some(filled.with_data()));
            }
            // Taken over, or deleted.
            Ok(Claimed::Lost) => Ok(None),
            // It may be on record, and then it must stay.
            Err(error) => return Err(error.unfinished()),
        },
        Ok(None) => Ok(None),
        Err(error) => Err(error),
    };
    let promise = claimed.record.promise();
    for name in [links, data, beat] {
        // Nothing of it when it was moved away.
        let _ = trash::discard(share, &claimed.folder, name, promise);
    }
    // It may have been deleted meanwhile, and then this attempt has kept the folder.
    leftovers::remove_folder::<K>(share, claimed.record.key(), None);
    result
}

/// Copies `from`, once `begin` has had its turn with the empty folder, and renews the claim of the attempt `nonce` meanwhile. Ends
/// when the source `is_gone`. Nothing when the claim was lost.
fn copy_beating<K: Kind>(
    share: &Share,
    claimed: &Found<K>,
    (from, nonce): (&OpenSource, Nonce),
    (begin, is_gone): (
        impl FnOnce() -> Result<(), ShareError>,
        impl Fn() -> bool + Sync,
    ),
    [data, links]: [&str; 2],
    progress: &Progress,
) -> Result<Option<(OwnedFd, copying::Report)>, ShareError> {
    let made = share
        .make_folder(&claimed.folder, data)
        .and_then(|_| beneath::folder(&claimed.folder, data));
    let made = beneath::if_there(made).context(|| "making the folder of the copy".to_owned())?;
    // Deleted meanwhile, by another controller.
    let Some(target) = made else { return Ok(None) };
    step("the folder of the copy is made")?;
    let (copied, is_held) = std::thread::scope(|scope| {
        // Dropped when the copy has ended, also by a panic.
        let (runs, over) = mpsc::channel();
        let is_gone = &is_gone;
        let beating = Builder::new()
            .name("heart".to_owned())
            .spawn_scoped(scope, move || {
                heartbeat::beat(share, claimed, nonce, progress, is_gone, &over)
            })
            .context(|| "starting a thread to copy".to_owned())?;
        let copied = begin()
            .and_then(|()| Ok(from.copy(share, claimed, &target, [data, links], progress)?));
        drop::<mpsc::Sender<()>>(runs);
        let is_held = beating
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        Ok::<_, ShareError>((copied, is_held))
    })?;
    match copied {
        Ok(report) if is_held => Ok(Some((target, report))),
        Err(error) if is_held && is_ours(claimed, data)? => Err(error),
        // The trash folder that it was moved to is being purged, perhaps.
        _ => Ok(None),
    }
}

/// Whether the claim on a copy that has failed is still this attempt's. Who takes it over moves the copy away, which fails then
/// before the heart has noticed; and the record is another's, which such a failure must not withdraw.
fn is_ours<K: Kind>(claimed: &Found<K>, data: &str) -> Result<bool, ShareError> {
    let there = beneath::if_there(beneath::exists(&claimed.folder, data));
    let there = there.context(|| "looking for the copy".to_owned())? == Some(true);
    Ok(there && heartbeat::is_unchanged(claimed))
}

/// Whether a claim is held by somebody who lives.
fn is_alive<K: Kind>(found: &Found<K>, copying: &Copying) -> Result<bool, ShareError> {
    // One that runs in this process may hang, at another address of the share.
    if copying.is_ours() && !lock(&ATTEMPTS).contains(&copying.attempt) {
        return Ok(false);
    }
    let Copying { attempt, process } = copying;
    let (beat, generation) = (heartbeat::name(*attempt), found.record.generation);
    let is_dead = heartbeat::has_stopped(&found.folder, &beat, *attempt, generation, process);
    let is_dead = is_dead.context(|| "looking for a sign of life of a copy".to_owned());
    Ok(!is_dead?)
}
