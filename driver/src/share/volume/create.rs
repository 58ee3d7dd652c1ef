//! How a volume comes to be, empty, as a copy, or by adoption. Owns the order of the steps, so that each can be repeated and a
//! crash between any two is finished by whoever comes next. Its deletion is in `delete`, what is changed later in `change`.
//! Blocking; must not know gRPC.
//!
//! The record and the folder beside it are published in one rename (`store`), then the path is claimed if a user has chosen it
//! (`claim`), then the folder is moved to it, then the record says ready. A folder that still lies beside its record is not
//! placed; one that does not was placed by us, so nobody else's folder is ever taken for ours. A source is copied to become
//! the folder beside the record (`attempt`) before the rest goes on. An adopted folder is claimed where it is.

use crate::beneath;
use crate::share::attempt::heartbeat;
use crate::share::attempt::{self, Begun};
use crate::share::copying::Progress;
use crate::share::crash_points::step;
use crate::share::database::Share;
use crate::share::error::{Doing, ShareError};
use crate::share::paths::claim;
use crate::share::paths::open::{exists_at, make_parents, open_parent, set_attributes};
use crate::share::paths::sub_path::SubPath;
use crate::share::records::keep::Keep;
use crate::share::records::keep::data_name;
use crate::share::records::removal;
use crate::share::records::store::{self, Claimed};
use crate::share::records::volume::{FoundVolume, OnDelete, Record, State, Wanted};
use crate::share::repeat::{ATTEMPTS, pause};
use crate::share::token::{NameKey, Nonce};
use crate::share::volume::delete;
use rustix::io::Errno;
use std::os::fd::OwnedFd;

/// What a call does next that wants a volume.
#[derive(Debug)]
enum Next {
    Begin,
    FinishDeletion,
    Refuse(ShareError),
    Copy,
    Place,
    /// It is there, if its folder is.
    Answer,
}

/// What follows from what is on record of the name that `wanted` has.
fn next(record: Option<&Record>, wanted: &Wanted) -> Next {
    let Some(record) = record else {
        return Next::Begin;
    };
    if record.wanted.name != wanted.name {
        let other = record.wanted.name.clone();
        return Next::Refuse(ShareError::KeyTaken { other });
    }
    if record.state == State::Deleting {
        return Next::FinishDeletion;
    }
    match record.difference(wanted) {
        Some(difference) => Next::Refuse(ShareError::Different { difference }),
        None if record.state == State::Ready => Next::Answer,
        None if record.needs_copy() => Next::Copy,
        None => Next::Place,
    }
}

/// How often an error is met that another call may have caused before it is believed.
const BELIEVED: usize = 3;

/// Makes the volume that `wanted` describes, or returns the one that answers it. `location` is the share as it is to
/// stand in a new volume's id, `progress` that of copying the source, where there is one.
///
/// # Errors
/// [`ShareError::Different`], [`ShareError::Overlap`], [`ShareError::Foreign`] and the like leave nothing behind;
/// [`ShareError::Unfinished`] says that a retry is needed.
pub fn create(
    share: &Share,
    wanted: &Wanted,
    location: &str,
    progress: &Progress,
) -> Result<Record, ShareError> {
    let key = NameKey::of(&wanted.name);
    let mut doubts = 0;
    for attempt in 0..ATTEMPTS {
        pause(attempt);
        let found = store::find::<Record>(share, key)?;
        match advance(share, found, wanted, location, progress) {
            Ok(Some(record)) => return Ok(record),
            // Overtaken, or lost to somebody else: the next look tells.
            Ok(None) => {}
            Err(error) if error.is_stale() => {}
            Err(error) if may_pass(&error, wanted) && doubts + 1 < BELIEVED => {
                // This very volume, made by another call since the look, will be found.
                doubts += usize::from(!is_own_overlap(&error, wanted));
            }
            Err(error) => return Err(error),
        }
    }
    Err(store::contended::<Record>(key))
}

/// Whether it may be said of what has changed since the look.
fn may_pass(error: &ShareError, wanted: &Wanted) -> bool {
    is_own_overlap(error, wanted)
        || matches!(
            error,
            ShareError::Overlap { .. }
                | ShareError::Foreign { .. }
                | ShareError::Blocked { .. }
                | ShareError::NothingToAdopt { .. }
                | ShareError::FolderGone { .. }
        )
}

fn is_own_overlap(error: &ShareError, wanted: &Wanted) -> bool {
    matches!(error, ShareError::Overlap { volume, .. } if *volume == wanted.name)
}

/// Does what comes next. Returns the volume when it is ready; nothing when it is to be looked at again.
fn advance(
    share: &Share,
    found: Option<FoundVolume>,
    wanted: &Wanted,
    location: &str,
    progress: &Progress,
) -> Result<Option<Record>, ShareError> {
    let (found, begun) = match found {
        Some(found) => (found, None),
        None => match begin(share, wanted, location)? {
            Some(begun) => begun,
            None => return Ok(None),
        },
    };
    match next(Some(&found.record), wanted) {
        Next::Begin => Ok(None),
        Next::Refuse(refusal) => Err(refusal),
        Next::FinishDeletion => delete::finish(share, &found).map(|_| None),
        Next::Copy => match copy_source(share, &found, begun, progress)? {
            Some(copied) => finish_create(share, &copied),
            None => Ok(None),
        },
        Next::Place => finish_create(share, &found),
        Next::Answer => match exists_at(share, &found.record.path)? {
            true => Ok(Some(found.record)),
            false => Err(ShareError::FolderGone {
                path: found.record.path,
            }),
        },
    }
}

/// Publishes the record of a new volume. Returns it, with the copy of its source that it was published with; nothing when
/// somebody else was first.
fn begin(
    share: &Share,
    wanted: &Wanted,
    location: &str,
) -> Result<Option<(FoundVolume, Option<Begun>)>, ShareError> {
    let begun = wanted.source.as_ref().map(|it| Begun::of(share, it));
    let begun = begun.transpose()?;
    let capacity_bytes = capacity(wanted, begun.as_ref().map(|begun| begun.size_bytes))?;
    refuse_taken(share, wanted)?;
    let nonce = Nonce::random().doing(|| "drawing a nonce".to_owned())?;
    let record = Record {
        location: location.to_owned(),
        capacity_bytes,
        copying: begun.as_ref().map(|begun| begun.copying.clone()),
        ..Record::new(wanted.clone(), nonce, State::Creating)
    };
    let found = store::publish(share, record, |draft| {
        prepare(draft, wanted, begun.as_ref())
    })?;
    Ok(found.map(|found| (found, begun)))
}

/// The volume that answers `wanted`, if it is ready.
///
/// # Errors
/// I/O errors. What is in the way of a creation is said by [`create`].
pub fn existing(share: &Share, wanted: &Wanted) -> Result<Option<Record>, ShareError> {
    let found = store::find::<Record>(share, NameKey::of(&wanted.name))?;
    let record = found.map(|found| found.record).filter(|record| {
        record.state == State::Ready
            && record.wanted.name == wanted.name
            && record.difference(wanted).is_none()
    });
    match record {
        Some(record) if exists_at(share, &record.path)? => Ok(Some(record)),
        _ => Ok(None),
    }
}

/// The capacity of a new volume. One that is a copy is not smaller than its source.
fn capacity(wanted: &Wanted, source_bytes: Option<i64>) -> Result<i64, ShareError> {
    let Some(source_bytes) = source_bytes else {
        return Ok(wanted.capacity());
    };
    for allowed in [wanted.required_bytes, wanted.limit_bytes] {
        if allowed > 0 && allowed < source_bytes {
            return Err(ShareError::SmallerThanSource {
                source_bytes,
                allowed,
            });
        }
    }
    Ok(wanted.required_bytes.max(source_bytes))
}

/// Makes ready what is published with the record of a volume. A source is copied when the record is there. Returns whether the
/// folder lies in the draft.
fn prepare(draft: &OwnedFd, wanted: &Wanted, begun: Option<&Begun>) -> Result<bool, ShareError> {
    if let Some(begun) = begun {
        heartbeat::begin(draft, begun.copying.attempt)?;
    }
    if wanted.sub_dir.is_some() && !wanted.adopt {
        delete::prepare_to_leave(draft)?;
    }
    if wanted.adopt || wanted.source.is_some() {
        return Ok(false);
    }
    let doing = || "making the volume's folder".to_owned();
    let name = data_name(None);
    beneath::make_folder(draft, &name, 0o700).doing(doing)?;
    let folder = beneath::folder(draft, name).doing(doing)?;
    set_attributes(&folder, wanted.mode, wanted.uid, wanted.gid)?;
    beneath::sync(&folder).doing(doing)?;
    Ok(true)
}

/// Copies the source of `found`, a record that says creating; `begun` is the copy that it was published with. Returns it with
/// the copy; nothing when it is to be looked at again.
///
/// # Errors
/// Those of copying; a volume whose source cannot be copied is withdrawn, and after an error that may pass left to a retry.
pub(in crate::share) fn copy_source(
    share: &Share,
    found: &FoundVolume,
    begun: Option<Begun>,
    progress: &Progress,
) -> Result<Option<FoundVolume>, ShareError> {
    let wanted = &found.record.wanted;
    let Some(source) = &wanted.source else {
        return Ok(None);
    };
    let filled = attempt::make(share, found, source, begun, progress, |folder| {
        set_attributes(folder, wanted.mode, wanted.uid, wanted.gid)
    });
    match filled {
        Err(error) if error.is_stale() => Ok(None),
        Err(error) if error.is_final() => {
            // By now the record has other generations.
            for attempt in 0..ATTEMPTS {
                pause(attempt);
                match store::find::<Record>(share, found.record.key())? {
                    Some(now)
                        if now.record.nonce == found.record.nonce && now.record.needs_copy() =>
                    {
                        if let Claimed::Won = withdraw(share, &now)? {
                            break;
                        }
                    }
                    _ => break,
                }
            }
            Err(error)
        }
        other => other.map_err(ShareError::unfinished),
    }
}

/// Finishes what `found`, a record that says creating, has begun. Nothing when somebody else has changed it meanwhile.
///
/// # Errors
/// When the folder cannot be had, the volume is withdrawn and the reason returned; I/O errors leave it to a retry.
pub(in crate::share) fn finish_create(
    share: &Share,
    found: &FoundVolume,
) -> Result<Option<Record>, ShareError> {
    let record = &found.record;
    let adopts = record.wanted.adopt;
    if !found.prepared && !adopts && !claim::holds(share, record)? {
        return refuse_misplaced(share, found);
    }
    removal::discard_attempts(share, found).map_err(ShareError::unfinished)?;
    let placed = claim::claim(share, record).and_then(|()| match found.prepared {
        true => place(share, found),
        false if exists_at(share, &record.path)? => Ok(()),
        false if adopts => Err(nothing_to_adopt(&record.path)),
        false => Err(ShareError::Vanished {
            path: record.path.clone(),
        }),
    });
    match placed {
        Ok(()) => {}
        Err(
            refusal @ (ShareError::Overlap { .. }
            | ShareError::Foreign { .. }
            | ShareError::Blocked { .. }
            | ShareError::NothingToAdopt { .. }),
        ) => {
            // Changed by others meanwhile, the refusal may be about a volume that is gone.
            return match withdraw(share, found)? {
                Claimed::Won => Err(refusal),
                Claimed::Lost => Ok(None),
            };
        }
        // Nobody has written to it yet, so a new one is as good.
        Err(ShareError::Vanished { .. }) => return withdraw(share, found).map(|_| None),
        Err(other) => return Err(other.unfinished()),
    }
    let mut next = record.next();
    next.state = State::Ready;
    match store::update(share, found, &next).map_err(ShareError::unfinished)? {
        Claimed::Won => Ok(Some(next)),
        Claimed::Lost => Ok(None),
    }
}

/// Refuses a record whose folder is said to be placed, though it has no claim to the path: it was forged or damaged, and with
/// a claim now, what lies there would be taken for its own. Nothing when it is to be looked at again.
fn refuse_misplaced(share: &Share, found: &FoundVolume) -> Result<Option<Record>, ShareError> {
    let record = &found.record;
    match store::find::<Record>(share, record.key())? {
        Some(now) if now.record == *record && !now.prepared => Err(ShareError::Damaged {
            what: format!("the record volumes/{}/{}", record.key(), record.nonce),
            detail: format!(
                "it has no claim to {}, where its folder is to be",
                record.path
            ),
        }),
        // Finished, and perhaps deleted, since the look.
        _ => Ok(None),
    }
}

/// Moves the prepared folder to its path.
fn place(share: &Share, found: &FoundVolume) -> Result<(), ShareError> {
    let path = &found.record.path;
    let doing = || format!("moving the volume's folder to {path}");
    let parent = make_parents(share, path)?;
    step("the parents are made")?;
    let prepared = data_name(found.record.copy);
    if found.record.wanted.sub_dir.is_some()
        && let Some(there) = beneath::inode(&parent, path.leaf()).doing(doing)?
    {
        // Ours, when another call for this volume has placed it since we looked; then it does not lie beside the record any
        // more, which an NFSv3 client may be late to see.
        let ours = beneath::inode(&found.folder, &prepared).doing(doing)?;
        return match ours.is_none_or(|ours| ours == there) {
            true => Ok(()),
            false => Err(ShareError::Foreign { path: path.clone() }),
        };
    }
    match beneath::rename(&found.folder, &prepared, &parent, path.leaf()) {
        Ok(()) => {}
        // Placed by another call.
        Err(Errno::NOENT) => return Ok(()),
        Err(Errno::NOTEMPTY | Errno::EXIST | Errno::NOTDIR) => {
            return Err(ShareError::Foreign { path: path.clone() });
        }
        Err(error) => return Err(error).doing(doing),
    }
    step("the volume's folder is placed")?;
    beneath::sync(&parent).doing(doing)?;
    beneath::sync(&found.folder).doing(doing)
}

/// Takes back a volume whose folder cannot be had.
fn withdraw(share: &Share, found: &FoundVolume) -> Result<Claimed, ShareError> {
    let mut next = found.record.next();
    next.state = State::Deleting;
    next.copying = None;
    if !found.record.wanted.adopt {
        // Should another call have placed the folder after all, it is ours and nobody has used it.
        next.changes.on_delete = Some(OnDelete::Delete);
    }
    match store::update(share, found, &next) {
        Ok(Claimed::Lost) => return Ok(Claimed::Lost),
        Ok(Claimed::Won) => {}
        // All the other steps take no room.
        Err(error) if error.is_full() => {}
        Err(error) => return Err(error.unfinished()),
    }
    delete::finish(share, &found.with(next)?)?;
    Ok(Claimed::Won)
}

/// What is wrong with the volume, for its condition; nothing when all is well.
///
/// # Errors
/// I/O errors that tell nothing about this volume.
pub fn trouble(share: &Share, found: &FoundVolume) -> Result<Option<String>, ShareError> {
    let record = &found.record;
    Ok(match record.state {
        State::Creating if record.needs_copy() => Some(format!(
            "its source is being copied, {}",
            match &record.copying {
                Some(copying) => match heartbeat::progress(&found.folder, copying.attempt) {
                    Some((files, bytes)) => format!("{files} entries and {bytes} bytes so far"),
                    None => "and has just begun".to_owned(),
                },
                None => "or waits for that: repeat CreateVolume".to_owned(),
            }
        )),
        State::Creating => Some("its creation is not finished: repeat CreateVolume".to_owned()),
        State::Deleting => Some("its deletion is not finished: repeat DeleteVolume".to_owned()),
        State::Ready => match exists_at(share, &record.path) {
            Ok(true) => None,
            Ok(false) => Some(format!("its folder {} is missing", record.path)),
            Err(blocked @ ShareError::Blocked { .. }) => Some(blocked.to_string()),
            Err(other) => return Err(other),
        },
    })
}

fn nothing_to_adopt(path: &SubPath) -> ShareError {
    ShareError::NothingToAdopt { path: path.clone() }
}

/// Refuses a path that cannot be had before anything is begun. The claim decides races; this gives the better answer.
fn refuse_taken(share: &Share, wanted: &Wanted) -> Result<(), ShareError> {
    let Some(path) = &wanted.sub_dir else {
        return Ok(());
    };
    if wanted.adopt {
        return match exists_at(share, path)? {
            true => claim::refuse_taken(share, path),
            false => Err(nothing_to_adopt(path)),
        };
    }
    let parent = match open_parent(share, path) {
        Ok(parent) => parent,
        Err(ShareError::Io { source, .. }) if beneath::is_gone(&source) => return Ok(()),
        Err(other) => return Err(other),
    };
    if !beneath::exists(&parent, path.leaf()).doing(|| format!("looking for {path}"))? {
        return Ok(());
    }
    claim::refuse_taken(share, path)?;
    Err(ShareError::Foreign { path: path.clone() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::share::records::origin::{Origin, Source};
    use crate::share::tests::wanted;

    /// What follows from a record that `change` has made of one in this state, for who wants a volume "v".
    fn after(state: State, change: impl Fn(&mut Record)) -> Next {
        let nonce = Nonce::random().unwrap();
        let mut record = Record::new(wanted("v", "v"), nonce, state);
        record.capacity_bytes = 1 << 30;
        change(&mut record);
        let mut wanted = record.wanted.clone();
        wanted.name = "v".to_owned();
        wanted.gid = None;
        next(Some(&record), &wanted)
    }

    #[test]
    fn what_a_call_does_follows_from_the_record() {
        use State::{Creating, Deleting, Ready};
        let same = |_: &mut Record| {};
        let other_name = |record: &mut Record| record.wanted.name = "w".to_owned();
        let other_gid = |record: &mut Record| record.wanted.gid = Some(1);
        let source = Source::Snapshot(Origin {
            id: "s".to_owned(),
            key: NameKey::of("s"),
            nonce: Nonce::random().unwrap(),
            path: None,
        });
        let of_source = |record: &mut Record| record.wanted.source = Some(source.clone());
        let copied = |record: &mut Record| {
            of_source(record);
            record.copy = Some(Nonce::random().unwrap());
        };
        assert!(matches!(next(None, &wanted("v", "")), Next::Begin));
        assert!(matches!(after(Creating, same), Next::Place));
        assert!(matches!(after(Creating, of_source), Next::Copy));
        assert!(matches!(after(Creating, copied), Next::Place));
        assert!(matches!(after(Ready, same), Next::Answer));
        assert!(matches!(after(Ready, copied), Next::Answer));
        for state in [Creating, Ready] {
            let refusal = after(state, other_gid);
            assert!(matches!(
                refusal,
                Next::Refuse(ShareError::Different { .. })
            ));
        }
        // Whatever it was, it is on its way out.
        for change in [
            &same as &dyn Fn(&mut Record),
            &other_gid,
            &of_source,
            &copied,
        ] {
            assert!(matches!(after(Deleting, change), Next::FinishDeletion));
        }
        for state in [Creating, Ready, Deleting] {
            let refusal = after(state, other_name);
            assert!(matches!(refusal, Next::Refuse(ShareError::KeyTaken { .. })));
        }
    }
}
