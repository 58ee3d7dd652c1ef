//! Requests of controllers to agents, each in a file of its own, and the answers. Owns `requests/` on the share. Why one asks is the
//! business of `quotas`, what is done then that of `limits`.
//!
//! `<nonce>.request` is answered by `<nonce>.answer`. Both appear by a rename, whole, and go when whoever has asked has put on
//! record what came of it. What the dead have left is swept.

use crate::beneath;
use crate::share::database::Share;
use crate::share::error::{Doing, ShareError};
use crate::share::paths::sub_path::RECORDS_FOLDER;
use crate::share::records::format::{FORMAT, check_format};
use crate::share::token::{NameKey, Nonce};
use rustix::fs::{self, AtFlags, Mode, OFlags};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::time::{Duration, SystemTime};

const REQUESTS: &str = "requests";
const REQUEST: &str = ".request";
const ANSWER: &str = ".answer";
/// The longest file that is read, in bytes.
const LONGEST: u64 = 4096;
/// How old a file is, by the server's clock, whose asker has died.
const LIFE: Duration = Duration::from_secs(120);

/// That a volume be held to a size.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Request {
    format: u64,
    /// Its record.
    pub volume: NameKey,
    /// Which of that name.
    pub nonce: Nonce,
    /// The copy of its source that is about to be made, if it is that folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<Nonce>,
    /// The size; 0 for any.
    pub bytes: u64,
    /// How many files and folders; 0 for any.
    pub inodes: u64,
}

impl Request {
    pub(super) fn new(
        (volume, nonce): (NameKey, Nonce),
        attempt: Option<Nonce>,
        [bytes, inodes]: [u64; 2],
    ) -> Self {
        Self {
            format: FORMAT,
            volume,
            nonce,
            attempt,
            bytes,
            inodes,
        }
    }
}

/// What an agent says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Answer {
    /// The volume's folder is this project.
    Project(u32),
    /// It cannot be done, and why.
    Refused(String),
}

/// A request of this process, until this is dropped.
#[derive(Debug)]
pub(super) struct Asked {
    folder: OwnedFd,
    nonce: Nonce,
}

impl Asked {
    /// Asks; nothing where no agent has ever answered.
    ///
    /// # Errors
    /// I/O errors.
    pub(super) fn ask(share: &Share, request: &Request) -> Result<Option<Self>, ShareError> {
        let Some(folder) = if_there(share)? else {
            return Ok(None);
        };
        let nonce = Nonce::random().doing(|| "drawing a nonce".to_owned())?;
        put(share, &folder, &format!("{nonce}{REQUEST}"), request)?;
        Ok(Some(Self { folder, nonce }))
    }

    /// The answer, when it is there.
    ///
    /// # Errors
    /// I/O errors.
    pub(super) fn answer(&self) -> Result<Option<Answer>, ShareError> {
        let look = || {
            beneath::refresh(&self.folder)?;
            beneath::read(&self.folder, &format!("{}{ANSWER}", self.nonce), LONGEST)
        };
        let text =
            beneath::if_there(look()).doing(|| "looking for an agent's answer".to_owned())?;
        let Some(text) = text else { return Ok(None) };
        let answer = serde_json::from_slice(&text);
        answer.map(Some).map_err(|error| ShareError::Damaged {
            what: format!("{RECORDS_FOLDER}/{REQUESTS}/{}{ANSWER}", self.nonce),
            detail: error.to_string(),
        })
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        for kind in [REQUEST, ANSWER] {
            let _ = fs::unlinkat(
                &self.folder,
                format!("{}{kind}", self.nonce),
                AtFlags::empty(),
            );
        }
    }
}

/// Makes the folder, as an agent.
///
/// # Errors
/// I/O errors.
pub(super) fn prepare(share: &Share) -> Result<(), ShareError> {
    share.make_part(REQUESTS).map(drop)
}

/// The folder, which agents make that answer.
///
/// # Errors
/// I/O errors.
pub(super) fn folder(share: &Share) -> Result<OwnedFd, ShareError> {
    let missing = || Err(Errno::NOENT).doing(|| format!("opening {RECORDS_FOLDER}/{REQUESTS}"));
    if_there(share)?.map_or_else(missing, Ok)
}

fn if_there(share: &Share) -> Result<Option<OwnedFd>, ShareError> {
    let path = format!("{RECORDS_FOLDER}/{REQUESTS}");
    let opened = beneath::if_there(beneath::folder(&**share.root(), &path));
    opened.doing(|| format!("opening {path}"))
}

/// The requests that are there, by name, the answered ones included until they are done with.
///
/// # Errors
/// I/O errors.
pub(super) fn all(share: &Share) -> Result<Vec<(String, Request)>, ShareError> {
    let names = beneath::names(folder(share)?).doing(|| "listing the requests".to_owned())?;
    let mut all = Vec::new();
    for name in names.into_iter().filter_map(|name| name.into_string().ok()) {
        if let Some(request) = read(share, &name)? {
            all.push((name, request));
        }
    }
    Ok(all)
}

/// The request in the file `name`; nothing for other files, and for what a newer version asks for.
///
/// # Errors
/// I/O errors.
pub(super) fn read(share: &Share, name: &str) -> Result<Option<Request>, ShareError> {
    if nonce_of(name).is_none() {
        return Ok(None);
    }
    let text = beneath::read(folder(share)?, name, LONGEST);
    let text = beneath::if_there(text).doing(|| format!("reading the request {name}"))?;
    Ok(text.and_then(|text| {
        check_format(&text).ok()?;
        serde_json::from_slice(&text).ok()
    }))
}

/// Whether the request in the file `name` has its answer.
///
/// # Errors
/// I/O errors.
pub(super) fn is_answered(share: &Share, name: &str) -> Result<bool, ShareError> {
    let Some(nonce) = nonce_of(name) else {
        return Ok(true);
    };
    beneath::exists(folder(share)?, &format!("{nonce}{ANSWER}"))
        .doing(|| format!("looking for the answer to {name}"))
}

/// Answers the request in the file `name`.
///
/// # Errors
/// I/O errors.
pub(super) fn reply(share: &Share, name: &str, answer: &Answer) -> Result<(), ShareError> {
    match nonce_of(name) {
        Some(nonce) => put(share, &folder(share)?, &format!("{nonce}{ANSWER}"), answer),
        None => Ok(()),
    }
}

/// Removes what the dead have left, by the clock of this machine, which is the server.
///
/// # Errors
/// I/O errors.
pub(super) fn sweep(share: &Share) -> Result<(), ShareError> {
    let folder = folder(share)?;
    let doing = || "sweeping the requests".to_owned();
    for name in beneath::names(&folder).doing(doing)? {
        let Ok(stat) = fs::statat(&folder, &name, AtFlags::SYMLINK_NOFOLLOW) else {
            continue;
        };
        let written = SystemTime::UNIX_EPOCH + Duration::from_secs(stat.st_mtime.unsigned_abs());
        if written.elapsed().is_ok_and(|age| age > LIFE) {
            let _ = fs::unlinkat(&folder, &name, AtFlags::empty());
        }
    }
    Ok(())
}

fn nonce_of(name: &str) -> Option<Nonce> {
    name.strip_suffix(REQUEST)?.parse().ok()
}

/// Writes a file that appears whole.
fn put(
    share: &Share,
    folder: &OwnedFd,
    name: &str,
    what: &impl Serialize,
) -> Result<(), ShareError> {
    let doing = || format!("writing {REQUESTS}/{name}");
    let text = serde_json::to_vec(what).map_err(|error| ShareError::Damaged {
        what: name.to_owned(),
        detail: error.to_string(),
    })?;
    let draft = format!("{name}-{}", Nonce::random().doing(doing)?);
    // Need not be on disk: after a power cut nobody waits for it.
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mode = Mode::RUSR | Mode::WUSR;
    let drafted = fs::openat(&share.drafts, &*draft, flags, mode)
        .map_err(io::Error::from)
        .and_then(|file| File::from(file).write_all(&text))
        .and_then(|()| share.give(&share.drafts, &draft));
    let put = drafted.and_then(|()| Ok(beneath::rename(&share.drafts, &draft, folder, name)?));
    if put.is_err() {
        let _ = fs::unlinkat(&share.drafts, &*draft, AtFlags::empty());
    }
    put.doing(doing)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::share::database::Expect;
    use std::sync::Arc;

    fn share(folder: &tempfile::TempDir) -> Share {
        let root = Arc::new(File::open(folder.path()).unwrap().into());
        Share::open(root, Expect::Any).unwrap()
    }

    #[test]
    fn a_request_is_there_until_it_is_done_with() {
        let folder = tempfile::tempdir().unwrap();
        let share = share(&folder);
        let request = Request::new((NameKey::of("v"), Nonce::random().unwrap()), None, [10, 0]);
        assert!(
            Asked::ask(&share, &request).unwrap().is_none(),
            "no agent has made the folder"
        );
        prepare(&share).unwrap();
        let asked = Asked::ask(&share, &request).unwrap().unwrap();
        let there = all(&share).unwrap();
        let [(name, found)] = there.as_slice() else {
            panic!("{there:?}");
        };
        assert_eq!(*found, request);
        assert!(!is_answered(&share, name).unwrap());
        assert_eq!(asked.answer().unwrap(), None);
        reply(&share, name, &Answer::Project(7)).unwrap();
        assert!(is_answered(&share, name).unwrap());
        assert_eq!(asked.answer().unwrap(), Some(Answer::Project(7)));
        drop(asked);
        let requests = folder.path().join(".csi-nfs/requests");
        assert_eq!(std::fs::read_dir(requests).unwrap().count(), 0);
        let drafts = folder.path().join(".csi-nfs/drafts");
        assert_eq!(std::fs::read_dir(drafts).unwrap().count(), 0);
    }

    #[test]
    fn what_is_no_request_is_left_and_what_is_old_is_swept() {
        let folder = tempfile::tempdir().unwrap();
        let share = share(&folder);
        prepare(&share).unwrap();
        let (newer, odd) = (Nonce::random().unwrap(), Nonce::random().unwrap());
        let requests = folder.path().join(".csi-nfs/requests");
        for (name, text) in [
            (format!("{newer}{REQUEST}"), r#"{"format": 99}"#),
            (format!("{odd}{REQUEST}"), "odd"),
            ("odd".to_owned(), "odd"),
        ] {
            std::fs::write(requests.join(&name), text).unwrap();
            assert_eq!(read(&share, &name).unwrap(), None, "{name}");
        }
        sweep(&share).unwrap();
        assert_eq!(std::fs::read_dir(&requests).unwrap().count(), 3);
        for file in std::fs::read_dir(&requests).unwrap() {
            let file = File::open(file.unwrap().path()).unwrap();
            file.set_modified(SystemTime::now() - 2 * LIFE).unwrap();
        }
        sweep(&share).unwrap();
        assert_eq!(std::fs::read_dir(&requests).unwrap().count(), 0);
    }
}
