//! The life of a volume or snapshot: it is begun, its source is copied, it is finished; it is deleted. Owns the order of these
//! steps, so that each can be repeated and a crash between any two is finished by whoever comes next. What only a volume or a
//! snapshot needs on the way is in `volume` and `snapshots`. Blocking; must not know gRPC.
//!
//! Create: the record says creating, and is published with the claim on the copy of its source, where it has one. The copy is
//! made beside the record (`attempt`). Then the rest is done, and the record says ready. Delete: the record says deleting, what
//! it is about is taken away, the record is removed.

use crate::files::copying::Progress;
use crate::files::crash_points::step;
use crate::files::owner::Owner;
use crate::share::agents;
use crate::share::attempt::{self, Begun, heartbeat};
use crate::share::database::Share;
use crate::share::error::{Context, ShareError};
use crate::share::promised;
use crate::share::records::promise::{Promise, Ratio};
use crate::share::records::record::{Copying, Kind, Record, State};
use crate::share::records::removal;
use crate::share::records::store::{self, Claimed, Found};
use crate::share::repeat::{ATTEMPTS, pause};
use crate::share::token::{NameKey, Nonce};
use rustix::io::Errno;
use std::os::fd::OwnedFd;

/// What a kind of record has to do of its own at the stations of a life.
pub trait Life: Kind {
    /// The new one `nonce` that `wanted` describes, of a source with so many bytes; 0 where there is none.
    ///
    /// # Errors
    /// When it cannot be had, before anything is begun.
    fn begin(
        share: &Share,
        wanted: &Self::Wanted,
        nonce: Nonce,
        source_bytes: i64,
    ) -> Result<Self, ShareError>;

    /// How often the file system may be promised for it to be made; nothing where that has no bound. `of_source` is what its
    /// source was made under.
    fn overcommit(wanted: &Self::Wanted, of_source: Option<Ratio>) -> Option<Ratio>;

    /// Makes ready, in the draft of its record, what is published with it. Returns whether the data are among that.
    fn prepare(_draft: &OwnedFd, _wanted: &Self::Wanted) -> Result<bool, ShareError> {
        Ok(false)
    }

    /// Makes the empty folder of the copy that the `attempt` is about to make what it has to be before there is anything in it.
    ///
    /// # Errors
    /// When it cannot be had now.
    fn begin_copy(
        _share: &Share,
        _record: &Record<Self>,
        _attempt: Nonce,
    ) -> Result<(), ShareError> {
        Ok(())
    }

    /// Makes the copied folder what it is to be, before anybody can see it.
    fn finish_copy(_folder: &OwnedFd, _wanted: &Self::Wanted) -> Result<(), ShareError> {
        Ok(())
    }

    /// Whether one that is not ready cannot be had any more as it was begun, as its `failure` says, and can be if it is begun anew.
    ///
    /// # Errors
    /// I/O errors.
    fn is_to_be_begun_anew(
        _share: &Share,
        _record: &Record<Self>,
        _failure: &ShareError,
    ) -> Result<bool, ShareError> {
        Ok(false)
    }

    /// Finishes a creation whose source is copied. Returns the record as it is then; nothing when it is to be looked at again.
    ///
    /// # Errors
    /// When it cannot be had, and it is withdrawn then; I/O errors leave it to a retry.
    fn finish_creation(
        share: &Share,
        found: &Found<Self>,
    ) -> Result<Option<Record<Self>>, ShareError>;

    /// Looks at one that says ready before it is answered with.
    fn check_ready(share: &Share, found: &Found<Self>) -> Result<(), ShareError>;

    /// The generation that takes `found` away.
    ///
    /// # Errors
    /// When it cannot be taken away, and nothing is begun then.
    fn going(_share: &Share, found: &Found<Self>) -> Result<Record<Self>, ShareError> {
        Ok(found.record.deleting())
    }

    /// The generation that takes `found` back: nobody has used it.
    ///
    /// # Errors
    /// As for [`Life::going`].
    fn withdrawn(_share: &Share, found: &Found<Self>) -> Result<Record<Self>, ShareError> {
        Ok(found.record.deleting())
    }

    /// Takes away what a record that says deleting is about. Returns whether this call has seen it go.
    fn take_away(share: &Share, found: &Found<Self>) -> Result<bool, ShareError>;
}

/// What a call does next that wants one.
#[derive(Debug)]
enum Next {
    FinishDeletion,
    Refuse(ShareError),
    Copy,
    Finish,
    /// It is there.
    Answer,
}

/// What follows from what is on record of the name that `wanted` has.
fn next<K: Kind>(record: &Record<K>, wanted: &K::Wanted) -> Next {
    let name = K::name(record.what.wanted());
    if name != K::name(wanted) {
        return Next::Refuse(ShareError::KeyTaken(name.to_owned()));
    }
    if record.state == State::Deleting {
        return Next::FinishDeletion;
    }
    match K::difference(record, wanted) {
        Some(difference) => Next::Refuse(ShareError::Different(difference)),
        None if record.state == State::Ready => Next::Answer,
        None if record.needs_copy() => Next::Copy,
        None => Next::Finish,
    }
}

/// How often an error is met that another call may have caused before it is believed.
const BELIEVED: usize = 3;

/// Errors that are about others, and the record beside which they were met: its nonce and generation, if there was one.
#[derive(Default)]
struct Doubts {
    beside: Option<(Nonce, u64)>,
    count: usize,
}

impl Doubts {
    /// Another one was met. Whether it is to be believed: that it was met so often beside one record. One that has changed meanwhile
    /// says that others are at work.
    fn is_believed(&mut self, beside: Option<(Nonce, u64)>) -> bool {
        self.count = match self.beside == beside {
            true => self.count + 1,
            false => 1,
        };
        self.beside = beside;
        self.count >= BELIEVED
    }
}

/// Makes what `wanted` describes, or returns the one that answers it. `location` is the share as it is to stand in a new id,
/// `progress` that of copying the source, where there is one.
///
/// # Errors
/// [`ShareError::Different`], [`ShareError::Overlap`], [`ShareError::Foreign`], those that are final for a copy and the like
/// leave nothing behind. [`ShareError::CopiedElsewhere`], [`ShareError::Unfinished`] and a copy that was stopped want a retry.
pub fn create<K: Life>(
    share: &Share,
    wanted: &K::Wanted,
    location: &str,
    progress: &Progress,
) -> Result<Record<K>, ShareError> {
    let key = NameKey::of(K::name(wanted));
    let mut doubts = Doubts::default();
    for attempt in 0..ATTEMPTS {
        pause(attempt);
        let found = store::find::<K>(share, key)?;
        let record = found.as_ref().map(|found| &found.record);
        let beside = record.map(|record| (record.nonce, record.generation));
        match advance(share, found, wanted, location, progress) {
            Ok(Some(record)) => return Ok(record),
            // Overtaken, or lost to somebody else: the next look tells.
            Ok(None) => {}
            Err(error) if error.is_stale() => {}
            // This very one, made by another call since the look, will be found.
            Err(ShareError::Overlap { volume, .. }) if volume == K::name(wanted) => {}
            Err(error) if error.is_about_others() && !doubts.is_believed(beside) => {}
            Err(error) => return Err(error),
        }
    }
    Err(store::contended::<K>(key))
}

/// The one that answers `wanted`, if it is ready.
///
/// # Errors
/// I/O errors. What is in the way of a creation is said by [`create`].
pub fn existing<K: Life>(
    share: &Share,
    wanted: &K::Wanted,
) -> Result<Option<Record<K>>, ShareError> {
    let found = store::find::<K>(share, NameKey::of(K::name(wanted)))?;
    let answers = |found: &Found<K>| matches!(next(&found.record, wanted), Next::Answer);
    let Some(found) = found.filter(answers) else {
        return Ok(None);
    };
    match K::check_ready(share, &found) {
        Err(error) if error.is_about_others() => Ok(None),
        checked => checked.map(|()| Some(found.record)),
    }
}

/// Does what comes next. Returns the record when it is ready; nothing when it is to be looked at again.
fn advance<K: Life>(
    share: &Share,
    found: Option<Found<K>>,
    wanted: &K::Wanted,
    location: &str,
    progress: &Progress,
) -> Result<Option<Record<K>>, ShareError> {
    let (found, begun) = match found {
        Some(found) => (found, None),
        None => match begin(share, wanted, location)? {
            Some(begun) => begun,
            None => return Ok(None),
        },
    };
    match next(&found.record, wanted) {
        Next::Refuse(refusal) => Err(refusal),
        Next::FinishDeletion => finish_deletion(share, &found).map(|_| None),
        Next::Copy => match copy(share, &found, begun, progress)? {
            Some(copied) if copied.record.state == State::Ready => Ok(Some(copied.record)),
            Some(copied) => K::finish_creation(share, &copied),
            None => Ok(None),
        },
        Next::Finish => K::finish_creation(share, &found),
        Next::Answer => K::check_ready(share, &found).map(|()| Some(found.record)),
    }
}

/// A record, and the copy of its source that it was published with, unless that is left to an agent.
type Published<K> = (Found<K>, Option<Begun>);

/// Publishes the record of a new one. Returns it, with the copy of its source that it was published with, unless that is left
/// to an agent; nothing when somebody else was first.
fn begin<K: Life>(
    share: &Share,
    wanted: &K::Wanted,
    location: &str,
) -> Result<Option<Published<K>>, ShareError> {
    let begun = K::source(wanted).map(|source| Begun::of(share, &source));
    let begun = begun.transpose()?;
    let nonce = Nonce::random().context(|| "drawing a nonce".to_owned())?;
    let source = begun.as_ref().map(|begun| begun.source);
    let source_bytes = source.map_or(0, |source| source.size_bytes);
    let what = K::begin(share, wanted, nonce, source_bytes)?;
    let bytes = what.promised_bytes();
    let bound = K::overcommit(wanted, source.and_then(|source| source.overcommit));
    let key = NameKey::of(K::name(wanted));
    // Until it is on record.
    let _reserved = promised::reserve::<K>(share, key, Promise { nonce, bytes }, bound)?;
    let agent = match &begun {
        Some(_) => agents::at_work(share)?,
        None => None,
    };
    let (begun, copying) = match agent {
        Some(agent) => (None, Some(Copying::by(agent.process)?)),
        None => {
            let begun = begun.map(|begun| begun.looking_ahead(share));
            let copying = begun.as_ref().map(|begun| begun.copying.clone());
            (begun, copying)
        }
    };
    let record = Record {
        location: location.to_owned(),
        copying,
        ..Record::new(what, nonce, State::Creating)
    };
    let found = store::publish(share, record, |draft| {
        if let Some(begun) = &begun {
            heartbeat::begin(share, draft, begun.copying.attempt)?;
        }
        K::prepare(draft, wanted)
    })?;
    Ok(found.map(|found| (found, begun)))
}

/// Copies the source of `found`, a record that says creating; `begun` is the copy that it was published with. Returns it with
/// the copy; nothing when it is to be looked at again.
///
/// # Errors
/// Those of copying. What cannot be copied is withdrawn; after an error that may pass it is left to a retry.
fn copy<K: Life>(
    share: &Share,
    found: &Found<K>,
    begun: Option<Begun>,
    progress: &Progress,
) -> Result<Option<Found<K>>, ShareError> {
    let record = &found.record;
    let wanted = record.what.wanted();
    let Some(source) = K::source(wanted) else {
        return Ok(None);
    };
    let finish = |folder: &OwnedFd| K::finish_copy(folder, wanted);
    let begin = |record: &_, attempt| K::begin_copy(share, record, attempt);
    match attempt::make(share, found, &source, begun, progress, (begin, finish)) {
        Err(error) if error.is_stale() => Ok(None),
        Err(error) => {
            let is_anew = K::is_to_be_begun_anew(share, record, &error)?;
            if !is_anew && !error.is_final() {
                return Err(error.unfinished());
            }
            // Whatever generation the record has by now.
            let withdrawn = |now: &Found<K>| {
                let needs_copy = now.record.needs_copy();
                needs_copy.then(|| K::withdrawn(share, now)).transpose()
            };
            delete_as(share, record.key(), record.nonce, withdrawn)
                .map_err(ShareError::unfinished)?;
            match is_anew {
                true => Ok(None),
                false => Err(error),
            }
        }
        copied => copied,
    }
}

/// Goes on with a creation, if a copy that its record wants is all that holds it up.
///
/// # Errors
/// As for [`create`].
pub fn resume<K: Life>(share: &Share, key: NameKey, progress: &Progress) -> Result<(), ShareError> {
    match store::find::<K>(share, key)? {
        Some(found) if found.record.needs_copy() => {
            let record = &found.record;
            create(share, record.what.wanted(), &record.location, progress).map(|_: Record<K>| ())
        }
        _ => Ok(()),
    }
}

/// As an agent: makes a copy that a record waits for, whether it was left to this process or its claim is dead. All else, and what
/// is to become of a copy that fails, is left to those who want it: the claim is given back, and their own try meets the
/// failure. What was given back is not taken again.
///
/// # Errors
/// [`ShareError::CopiedElsewhere`] while another process makes it; those of copying.
pub fn assist<K: Life>(share: &Share, key: NameKey, progress: &Progress) -> Result<(), ShareError> {
    let Some(found) = store::find::<K>(share, key)? else {
        return Ok(());
    };
    let record = &found.record;
    let wanted = record.what.wanted();
    let (Some(source), Some(copying)) = (K::source(wanted), &record.copying) else {
        return Ok(());
    };
    if !record.needs_copy() || (copying.is_ours() && !copying.is_left_to_us(record)) {
        return Ok(());
    }
    let finish = |folder: &OwnedFd| {
        let context = || "giving the copy to the owner of the records".to_owned();
        let Some(owner) = share.owner() else {
            return K::finish_copy(folder, wanted);
        };
        owner.give_open(folder).context(context)?;
        K::finish_copy(folder, wanted)?;
        match Owner::of(folder).context(context)?.uid == owner.uid {
            true => Ok(()),
            // A controller that may do no more than that owner could never delete it.
            false => Err(Errno::PERM).context(context),
        }
    };
    let begin = |record: &_, attempt| K::begin_copy(share, record, attempt);
    match attempt::make(share, &found, &source, None, progress, (begin, finish)) {
        Err(elsewhere @ ShareError::CopiedElsewhere(_)) => Err(elsewhere),
        Err(error) => {
            give_back::<K>(share, key, record.nonce)?;
            Err(error)
        }
        Ok(_) => Ok(()),
    }
}

/// Gives back a claim of this process on a copy.
fn give_back<K: Kind>(share: &Share, key: NameKey, nonce: Nonce) -> Result<(), ShareError> {
    let Some(found) = store::find::<K>(share, key)? else {
        return Ok(());
    };
    let record = &found.record;
    let is_ours = record.copying.as_ref().is_some_and(Copying::is_ours);
    if record.nonce == nonce && record.needs_copy() && is_ours {
        store::update(share, &found, &record.with_copying(None))?;
    }
    Ok(())
}

/// Takes back one that cannot be had, if `found` is as it is now. Returns whether it was.
///
/// # Errors
/// I/O errors leave it to a retry.
pub(super) fn withdraw<K: Life>(share: &Share, found: &Found<K>) -> Result<bool, ShareError> {
    let record = &found.record;
    let withdrawn = |now: &Found<K>| {
        let is_same = now.record == *record;
        is_same.then(|| K::withdrawn(share, now)).transpose()
    };
    delete_as(share, record.key(), record.nonce, withdrawn).map_err(ShareError::unfinished)
}

/// Deletes the one with this `nonce` of the name with `key`. One that is not there (any more) is fine.
///
/// # Errors
/// [`ShareError::Unfinished`] says that a retry is needed; others that nothing was begun.
pub fn delete<K: Life>(share: &Share, key: NameKey, nonce: Nonce) -> Result<(), ShareError> {
    let going = |found: &Found<K>| K::going(share, found).map(Some);
    delete_as(share, key, nonce, going).map(drop)
}

/// Deletes as [`delete`] does, by the generation that `deleting` makes of the record; not, when it makes none. Returns whether
/// this call has deleted it.
fn delete_as<K: Life>(
    share: &Share,
    key: NameKey,
    nonce: Nonce,
    deleting: impl Fn(&Found<K>) -> Result<Option<Record<K>>, ShareError>,
) -> Result<bool, ShareError> {
    for attempt in 0..ATTEMPTS {
        pause(attempt);
        let found = match store::find::<K>(share, key)? {
            Some(found) if found.record.nonce == nonce => found,
            // Another nonce: a newer one of that name, which a late retry must not hit.
            _ => return Ok(false),
        };
        let is_ours = found.record.state != State::Deleting;
        let found = if is_ours {
            let next = match deleting(&found) {
                Err(error) if error.is_stale() => continue,
                next => next?,
            };
            let Some(next) = next else {
                return Ok(false);
            };
            match store::update(share, &found, &next) {
                Ok(Claimed::Won) => {}
                Ok(Claimed::Lost) => continue,
                // On a full share a deletion must still be possible: all its other steps take no room. Should it die half
                // way, the record still says what it said, and the repeated call does the rest.
                Err(error) if error.is_full() => {}
                // The first step of all: nothing was begun.
                Err(error) if error.is_read_only() => return Err(error),
                Err(other) => return Err(other.unfinished()),
            }
            found.with(next)?
        } else {
            found
        };
        match finish_deletion(share, &found) {
            Err(error) if error.is_stale() => {}
            other => return other.map(|_| is_ours),
        }
    }
    Err(store::contended::<K>(key))
}

/// Finishes a deletion that the record tells of. Returns whether this call has seen go what it is about.
///
/// # Errors
/// As for [`delete`].
pub(super) fn finish_deletion<K: Life>(
    share: &Share,
    found: &Found<K>,
) -> Result<bool, ShareError> {
    step("the record says deleting")?;
    let taken = K::take_away(share, found).map_err(ShareError::unfinished)?;
    removal::remove(share, found).map_err(ShareError::unfinished)?;
    Ok(taken)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::share::records::origin::{Origin, Source};
    use crate::share::records::volume::Volume;
    use crate::share::tests::wanted;

    /// What follows from a record that `change` has made of one in this state, for who wants a volume "v".
    fn after(state: State, change: impl Fn(&mut Record<Volume>)) -> Next {
        let nonce = Nonce::random().unwrap();
        let mut record = Record::new(Volume::new(wanted("v", "v"), nonce), nonce, state);
        record.what.capacity_bytes = 1 << 30;
        change(&mut record);
        let mut wanted = record.what.wanted.clone();
        wanted.name = "v".to_owned();
        wanted.gid = None;
        next(&record, &wanted)
    }

    #[test]
    fn what_a_call_does_follows_from_the_record() {
        use State::{Creating, Deleting, Ready};
        let same = |_: &mut Record<Volume>| {};
        let other_name = |record: &mut Record<Volume>| record.what.wanted.name = "w".to_owned();
        let other_gid = |record: &mut Record<Volume>| record.what.wanted.gid = Some(1);
        let nonce = Nonce::random().unwrap();
        let source = Source::Snapshot(Origin::new("s", NameKey::of("s"), nonce));
        let of_source =
            |record: &mut Record<Volume>| record.what.wanted.source = Some(source.clone());
        let copied = |record: &mut Record<Volume>| {
            of_source(record);
            record.copy = Some(Nonce::random().unwrap());
        };
        assert!(matches!(after(Creating, same), Next::Finish));
        assert!(matches!(after(Creating, of_source), Next::Copy));
        assert!(matches!(after(Creating, copied), Next::Finish));
        assert!(matches!(after(Ready, same), Next::Answer));
        assert!(matches!(after(Ready, copied), Next::Answer));
        for state in [Creating, Ready] {
            let refusal = after(state, other_gid);
            assert!(matches!(refusal, Next::Refuse(ShareError::Different(_))));
        }
        // Whatever it was, it is on its way out.
        for change in [
            &same as &dyn Fn(&mut Record<Volume>),
            &other_gid,
            &of_source,
            &copied,
        ] {
            assert!(matches!(after(Deleting, change), Next::FinishDeletion));
        }
        for state in [Creating, Ready, Deleting] {
            let refusal = after(state, other_name);
            assert!(matches!(refusal, Next::Refuse(ShareError::KeyTaken(_))));
        }
    }

    #[test]
    fn an_error_is_believed_that_is_met_three_times_beside_one_record() {
        let [a, b] = [(); 2].map(|()| Nonce::random().expect("random"));
        for (met, expected) in [
            (vec![None, None], false),
            (vec![None, None, None], true),
            (vec![Some((a, 1)); 3], true),
            (vec![Some((a, 1)), Some((b, 1)), Some((a, 1))], false),
            (vec![Some((a, 1)), Some((a, 1)), Some((a, 2))], false),
            (
                vec![None, None, Some((a, 1)), Some((a, 1)), Some((a, 1))],
                true,
            ),
        ] {
            let mut doubts = Doubts::default();
            let believed = met.iter().map(|one| doubts.is_believed(*one));
            assert_eq!(believed.last(), Some(expected), "{met:?}");
        }
    }
}
