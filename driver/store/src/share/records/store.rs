//! The records of volumes and of snapshots: find, publish, update. Owns `volumes/` and `snapshots/` on the share and the races
//! about them; how a record goes away is in `removal`, what a state means and what follows from it is the business of `life`.
//!
//! Each has a folder `volumes/<name key>/` with its record in files `<nonce>.<generation>`, the highest one valid.
//! - It is published by renaming a finished draft folder into place. A folder replaces an empty folder and nothing else,
//!   so of two controllers one wins; and the folder's inode belongs to this one volume. Whoever comes late with an
//!   update or a removal for a volume that is gone works through its open folder and hits nothing of a newer one.
//! - It is updated by linking the next generation: link(2) fails when the name is taken, on NFS too, where a rename
//!   without replacing is not to be had. Of a record that is in use the last two generations stay; an update whose own
//!   predecessor is not there any more came too late.
//! - Whatever a rename or link reports, what can be read back decides: a retransmitted request reports failure for its
//!   own success.
//! - The folder is opened by name for each look, which makes an NFS client ask the server whether it has changed.

use crate::files::beneath;
use crate::files::crash_points::step;
use crate::share::database::Share;
use crate::share::error::{Context, ShareError};
use crate::share::paths::sub_path::RECORDS_FOLDER;
use crate::share::records::leftovers;
use crate::share::records::record::{Kind, Record};
use crate::share::records::text::{
    self, MAX_RECORD, data_name, is_attempt, measure_name, parse_file_name,
};
use crate::share::repeat::{ATTEMPTS, pause};
use crate::share::token::{NameKey, Nonce};
use rustix::fs::{self, AtFlags};
use rustix::io::Errno;
use std::collections::BTreeSet;
use std::ffi::CString;
use std::os::fd::OwnedFd;
use std::path::PathBuf;

/// A record and the open folder that it was found in.
#[derive(Debug)]
pub struct Found<K> {
    pub(in crate::share) folder: OwnedFd,
    /// The record's newest generation.
    pub record: Record<K>,
    /// Whether the data lie beside the record: a volume's until its folder is placed, a snapshot's for ever.
    pub(in crate::share) prepared: bool,
    /// What copies have beside the record that are not finished, or not the record's.
    pub(in crate::share) attempts: Vec<String>,
    /// Whether somebody has measured what the record is about.
    pub(in crate::share) has_measure: bool,
    /// The generations that are there.
    generations: Vec<u64>,
    /// The record's text, with what this version does not know of it.
    text: Vec<u8>,
}

impl<K: Kind> Found<K> {
    /// The same, as it is after an update, which has removed all generations but the last two. A copy that takes days renews its
    /// claim so often that asking for those again would take longer than a claim lives.
    pub(in crate::share) fn with(&self, record: Record<K>) -> Result<Self, ShareError> {
        let kept = record.generation.saturating_sub(1);
        Ok(Self {
            folder: self
                .folder
                .try_clone()
                .context(|| "keeping a folder open".to_owned())?,
            generations: vec![kept, record.generation],
            record,
            prepared: self.prepared,
            attempts: self.attempts.clone(),
            has_measure: self.has_measure,
            text: self.text.clone(),
        })
    }

    /// The same, when the copy that the record names has just been made and nothing else lies beside it.
    pub(in crate::share) fn with_data(self) -> Self {
        Self {
            prepared: true,
            attempts: Vec::new(),
            ..self
        }
    }
}

/// A record that is there and cannot be used.
#[derive(Debug)]
pub struct Unreadable {
    /// Its volume's nonce, as its file's name says; nothing where not even that can be read.
    pub nonce: Option<Nonce>,
    /// Where its share is, as it says itself or its generation before.
    pub location: Option<String>,
    /// What is wrong.
    pub detail: String,
}

impl Unreadable {
    /// Whether it may be the record of that volume or snapshot.
    pub(in crate::share) fn may_be(&self, nonce: Nonce) -> bool {
        self.nonce.is_none_or(|its| its == nonce)
    }

    /// The error of whoever needs what is kept under `key`.
    pub fn error<K: Kind>(self, key: NameKey) -> ShareError {
        let kind = K::FOLDER;
        let what = match self.nonce {
            Some(nonce) => format!("the record {kind}/{key}/{nonce}"),
            None => format!("{RECORDS_FOLDER}/{kind}/{key}"),
        };
        let detail = self.detail;
        ShareError::Damaged { what, detail }
    }
}

/// What is kept under a key.
#[derive(Debug)]
pub enum Kept<K> {
    /// Nothing.
    Nothing,
    /// A record.
    Found(Found<K>),
    /// A record that cannot be used.
    Unreadable(Unreadable),
}

/// How an attempt to update ended.
#[derive(Debug)]
pub(in crate::share) enum Claimed {
    /// It is ours.
    Won,
    /// Somebody else was first: look again.
    Lost,
}

/// The path on a share of the folder that has the record under `key`.
pub(in crate::share) fn path_of<K: Kind>(key: NameKey) -> PathBuf {
    [RECORDS_FOLDER, K::FOLDER, &key.to_string()]
        .iter()
        .collect()
}

/// The error of who finds each time that others have changed what is kept under `key`.
pub(in crate::share) fn contended<K: Kind>(key: NameKey) -> ShareError {
    ShareError::Contended(format!("the record {}/{key}", K::FOLDER))
}

/// The record under `key`, or nothing.
///
/// # Errors
/// [`ShareError::Damaged`] when it cannot be used, and I/O errors.
pub fn find<K: Kind>(share: &Share, key: NameKey) -> Result<Option<Found<K>>, ShareError> {
    match look(share, key)? {
        Kept::Nothing => Ok(None),
        Kept::Found(found) => Ok(Some(found)),
        Kept::Unreadable(record) => Err(record.error::<K>(key)),
    }
}

/// As [`look`], for those who go through many records: an error of one, or something else in its place, keeps nobody from the
/// others as long as the share itself answers.
pub fn look_among<K: Kind>(share: &Share, key: NameKey) -> Result<Kept<K>, ShareError> {
    let error = match look(share, key) {
        Err(error) if !error.is_stale() && share.answers() => error,
        looked => return looked,
    };
    let files = beneath::folder(K::folder(share), key.to_string()).and_then(|it| list(&it));
    let files = files.ok().filter(|files| !files.mixed);
    let nonce = files.and_then(|files| Some(files.newest?.0));
    Ok(unreadable(nonce, error.to_string()))
}

/// As [`find`], for those who can do something with a record that cannot be used.
pub fn look<K: Kind>(share: &Share, key: NameKey) -> Result<Kept<K>, ShareError> {
    let name = key.to_string();
    let kind = K::FOLDER;
    let mut seen_empty = false;
    for attempt in 0..ATTEMPTS {
        pause(attempt);
        let folder = match beneath::folder(K::folder(share), &name) {
            Ok(folder) => folder,
            Err(error) if beneath::errno(&error) == Some(Errno::NOENT) => return Ok(Kept::Nothing),
            Err(error) if beneath::is_gone(&error) => continue,
            Err(error) => return Err(error).context(|| format!("opening {kind}/{name}")),
        };
        let files = match beneath::names_of_opened(&folder).map(files) {
            Ok(files) => files,
            Err(error) if beneath::is_gone(&error) => continue,
            Err(error) => return Err(error).context(|| format!("reading {kind}/{name}")),
        };
        let Some((nonce, generation)) = files.newest else {
            // A listing is not one moment, and a folder that a client knows by this name may be one that is gone and that
            // the server has open still: look twice before saying that there is nothing.
            if seen_empty {
                return Ok(Kept::Nothing);
            }
            beneath::ask(K::folder(share), &name).context(|| format!("reading {kind}"))?;
            seen_empty = true;
            continue;
        };
        if files.mixed {
            let detail = "its folder has records of two".to_owned();
            return Ok(unreadable(Some(nonce), detail));
        }
        let listed = generation;
        let generation = match newest_from(&folder, nonce, listed) {
            Ok(generation) => generation,
            Err(error) if beneath::is_gone(&error) => continue,
            Err(error) => return Err(error).context(|| format!("reading {kind}/{name}")),
        };
        let content = match beneath::read(&folder, &format!("{nonce}.{generation}"), MAX_RECORD) {
            Ok(content) => content,
            // Pruned or removed in this moment.
            Err(error) if beneath::is_gone(&error) => continue,
            Err(error) if beneath::errno(&error).is_none() => {
                return Ok(unreadable(Some(nonce), error.to_string()));
            }
            Err(error) => return Err(error).context(|| format!("reading {kind}/{name}")),
        };
        return Ok(match text::read::<K>(&content, key, nonce, generation) {
            Ok(record) => {
                let data = data_name(record.copy);
                let mut beside = files.beside;
                let mut generations = files.generations;
                generations.extend(listed + 1..=generation);
                Kept::Found(Found {
                    folder,
                    prepared: beside.remove(&data),
                    has_measure: beside.contains(&measure_name(nonce)),
                    attempts: beside.into_iter().filter(|it| is_attempt(it)).collect(),
                    record,
                    generations,
                    text: content,
                })
            }
            Err(detail) => {
                let before = format!("{nonce}.{}", generation.saturating_sub(1));
                let before = || beneath::read(&folder, &before, MAX_RECORD).ok();
                let location = text::location(&content);
                Kept::Unreadable(Unreadable {
                    nonce: Some(nonce),
                    location: location.or_else(|| text::location(&before()?)),
                    detail,
                })
            }
        });
    }
    Err(contended::<K>(key))
}

fn unreadable<K>(nonce: Option<Nonce>, detail: String) -> Kept<K> {
    Kept::Unreadable(Unreadable {
        nonce,
        location: None,
        detail,
    })
}

/// Whether the record has a newer generation than the one that was found.
///
/// # Errors
/// Whatever stat(2) says. ENOENT and ESTALE: the record is gone.
pub(in crate::share) fn has_newer<K: Kind>(found: &Found<K>) -> std::io::Result<bool> {
    let generation = found.record.generation;
    Ok(newest_from(&found.folder, found.record.nonce, generation)? > generation)
}

/// The newest generation, asked for by name: a listing may be an old one. With NFSv3 a client knows that a folder has changed
/// by its times only, and misses a second change within one tick of the server's clock.
fn newest_from(folder: &OwnedFd, nonce: Nonce, mut generation: u64) -> std::io::Result<u64> {
    while let Some(next) = generation.checked_add(1) {
        // What is not there a client asks for each time.
        match fs::statat(folder, format!("{nonce}.{next}"), AtFlags::SYMLINK_NOFOLLOW) {
            Ok(_) => generation = next,
            Err(Errno::NOENT) => break,
            Err(error) => return Err(error.into()),
        }
    }
    Ok(generation)
}

#[derive(Default)]
struct Files {
    newest: Option<(Nonce, u64)>,
    generations: Vec<u64>,
    mixed: bool,
    /// What lies beside the record's generations.
    beside: BTreeSet<String>,
}

fn list(folder: &OwnedFd) -> std::io::Result<Files> {
    beneath::names(folder).map(files)
}

fn files(names: Vec<CString>) -> Files {
    let mut files = Files::default();
    for name in names {
        let Ok(name) = name.into_string() else {
            continue;
        };
        if let Some((nonce, generation)) = parse_file_name(&name) {
            files.generations.push(generation);
            match files.newest {
                Some((other, _)) if other != nonce => files.mixed = true,
                Some((_, newest)) if newest >= generation => {}
                _ => files.newest = Some((nonce, generation)),
            }
        } else {
            files.beside.insert(name);
        }
    }
    files
}

/// Publishes the first generation of `record`, with what `prepare` puts beside it into the open draft folder; it says whether the
/// data are there. Returns the record as it is found then; nothing when somebody
/// else was first.
///
/// # Errors
/// I/O errors, after which nothing is left behind but drafts, which the recovery sweeps.
pub(in crate::share) fn publish<K: Kind>(
    share: &Share,
    record: Record<K>,
    prepare: impl FnOnce(&OwnedFd) -> Result<bool, ShareError>,
) -> Result<Option<Found<K>>, ShareError> {
    let draft = record.nonce.to_string();
    let result = draft_and_rename(share, record, &draft, prepare);
    if !matches!(result, Ok(Some(_))) {
        remove_draft(share, &draft);
    }
    result
}

fn draft_and_rename<K: Kind>(
    share: &Share,
    record: Record<K>,
    draft: &str,
    prepare: impl FnOnce(&OwnedFd) -> Result<bool, ShareError>,
) -> Result<Option<Found<K>>, ShareError> {
    let context = || "preparing the record on the share".to_owned();
    beneath::make_folder(&share.drafts, draft, 0o700).context(context)?;
    let folder = beneath::folder(&share.drafts, draft).context(context)?;
    step("the draft's folder is made")?;
    let prepared = prepare(&folder)?;
    step("what lies beside the record is prepared")?;
    let text = text_of(&record, None)?;
    beneath::write_new(&folder, &record.file_name(), &text).context(context)?;
    beneath::sync(&folder).context(context)?;
    step("the draft is written")?;

    let key = record.key();
    let name = key.to_string();
    for attempt in 0..ATTEMPTS {
        pause(attempt);
        let renamed = beneath::rename(&share.drafts, draft, K::folder(share), &name);
        step("the record is published")?;
        let Err(error) = renamed else {
            beneath::sync(K::folder(share))
                .context(context)
                .map_err(ShareError::unfinished)?;
            return Ok(Some(Found {
                folder,
                prepared,
                attempts: Vec::new(),
                has_measure: false,
                generations: vec![record.generation],
                record,
                text,
            }));
        };
        match look::<K>(share, key).map_err(ShareError::unfinished)? {
            Kept::Found(found) if found.record.nonce == record.nonce => {
                return Ok(Some(found));
            }
            Kept::Found(_) | Kept::Unreadable(_) => return Ok(None),
            // The draft was taken for a leftover: this process hung, or the server's clock has jumped.
            Kept::Nothing if error == Errno::NOENT => break,
            Kept::Nothing => {
                // An empty folder that the server does not let us replace, or that just went.
                if !matches!(error, Errno::EXIST | Errno::NOTEMPTY) {
                    return Err(error).context(|| "publishing the record".to_owned());
                }
                leftovers::clear_leftovers::<K>(share, key)?;
            }
        }
    }
    Err(contended::<K>(key))
}

/// Best effort: what stays is swept later.
pub(in crate::share) fn remove_draft(share: &Share, draft: &str) {
    if let Ok(folder) = beneath::folder(&share.drafts, draft) {
        for name in beneath::names(&folder).unwrap_or_default() {
            if fs::unlinkat(&folder, &*name, AtFlags::empty()).is_err() {
                let _ = fs::unlinkat(&folder, &*name, AtFlags::REMOVEDIR);
            }
        }
        let _ = fs::unlinkat(&share.drafts, draft, AtFlags::REMOVEDIR);
    }
}

fn text_of<K: Kind>(record: &Record<K>, before: Option<&[u8]>) -> Result<Vec<u8>, ShareError> {
    text::write(record, before).map_err(|error| ShareError::Damaged {
        what: "a record that is to be written".to_owned(),
        detail: error.to_string(),
    })
}

/// Replaces `found` by `next`, its following generation, unless somebody has changed it since it was found.
///
/// # Errors
/// I/O errors, after which the update may or may not have taken effect.
pub(in crate::share) fn update<K: Kind>(
    share: &Share,
    found: &Found<K>,
    next: &Record<K>,
) -> Result<Claimed, ShareError> {
    let context = || "updating the record".to_owned();
    let text = text_of(next, Some(&found.text))?;
    let draft = format!("{}-{}", next.file_name(), Nonce::random().context(context)?);
    let drafted = beneath::write_new(&share.drafts, &draft, &text);
    if let Err(error) = drafted.and_then(|()| share.give(&share.drafts, &draft)) {
        let _ = fs::unlinkat(&share.drafts, &draft, AtFlags::empty());
        return Err(error).context(context);
    }
    step("an update is drafted")?;
    let linked = fs::linkat(
        &share.drafts,
        &draft,
        &found.folder,
        next.file_name(),
        AtFlags::empty(),
    );
    step("an update is linked")?;
    let _ = fs::unlinkat(&share.drafts, &draft, AtFlags::empty());
    match linked {
        Ok(()) => {
            if is_late(share, found, next).context(context)? {
                return Ok(Claimed::Lost);
            }
            // Removed with its folder in this moment: then fsync may say so, and the next look tells.
            let _ = beneath::sync(&found.folder);
            prune(found, next.generation);
            Ok(Claimed::Won)
        }
        Err(error) => match look::<K>(share, next.key())? {
            // An equal update by another controller is as good as ours.
            Kept::Found(now) if now.record == *next => Ok(Claimed::Won),
            // As above; or the folder is gone, and then there is no such record any more.
            Kept::Found(now) if now.record == found.record && error != Errno::NOENT => {
                Err(error).context(context)
            }
            _ => Ok(Claimed::Lost),
        },
    }
}

/// Whether `next` was linked too late, to a name that was free again: others are generations ahead and have removed what it
/// would have met there, or the record is deleted. Then what was linked would bring it back, and is removed.
fn is_late<K: Kind>(share: &Share, found: &Found<K>, next: &Record<K>) -> std::io::Result<bool> {
    // An NFS client lists a folder anew that it has changed itself.
    let files = match list(&found.folder) {
        Err(error) if beneath::is_gone(&error) => return Ok(true),
        other => other?,
    };
    if files.newest != Some((next.nonce, next.generation)) {
        return Ok(true);
    }
    if files.generations.iter().any(|it| *it < next.generation) {
        return Ok(false);
    }
    let _ = fs::unlinkat(&found.folder, next.file_name(), AtFlags::empty());
    leftovers::remove_folder::<K>(share, next.key(), Some(next.nonce));
    Ok(true)
}

/// Removes generations before the last but one, which nobody reads any more. Only those that were seen: between two there may be a
/// gap, in which a hand has left any number.
fn prune<K: Kind>(found: &Found<K>, newest: u64) {
    let kept = newest.saturating_sub(1);
    for generation in found.generations.iter().filter(|it| **it < kept) {
        let old = format!("{}.{generation}", found.record.nonce);
        let _ = fs::unlinkat(&found.folder, &old, AtFlags::empty());
    }
}

/// Removes the generations that a crash has left.
pub(in crate::share) fn prune_leftovers<K: Kind>(found: &Found<K>) {
    prune(found, found.record.generation);
}

/// All keys that have a folder, sorted. A folder may turn out to hold nothing.
pub fn keys<K: Kind>(share: &Share) -> Result<Vec<NameKey>, ShareError> {
    let mut keys: Vec<NameKey> = beneath::names_now(K::folder(share))
        .context(|| format!("listing the {}", K::FOLDER))?
        .iter()
        .filter_map(|name| name.to_str().ok()?.parse().ok())
        .collect();
    keys.sort_unstable();
    Ok(keys)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::share::database::Expect;
    use crate::share::life;
    use crate::share::records::volume::{Volume, Wanted};
    use std::fs::File;
    use std::sync::Arc;

    #[test]
    fn what_an_update_has_removed_is_not_removed_again() {
        let folder = tempfile::tempdir().unwrap();
        let share = Share::open(
            Arc::new(File::open(folder.path()).unwrap().into()),
            Expect::Any,
        );
        let share = share.unwrap();
        let wanted = Wanted {
            name: "v".to_owned(),
            required_bytes: 1,
            ..Wanted::default()
        };
        let _: Record<Volume> = life::create(&share, &wanted, "s:/a", &Default::default()).unwrap();
        let key = NameKey::of("v");
        let mut current = find::<Volume>(&share, key).unwrap().unwrap();
        for _ in 0..20 {
            let next = current.record.next();
            let updated = update(&share, &current, &next).unwrap();
            assert!(matches!(updated, Claimed::Won));
            current = current.with(next).unwrap();
            let mut there = list(&current.folder).unwrap().generations;
            there.sort_unstable();
            // One less and nothing more is left for the next update to remove.
            assert_eq!(current.generations, there);
            assert_eq!(there[0], current.record.generation - 1);
        }
    }
}
