//! Requests of controllers to agents, each in a file of its own, and the answers. Owns `requests/` on the share. Why one asks is the
//! business of `quotas`, what is done then that of `limits`.
//!
//! `<nonce>.request` is answered by `<nonce>.answer`. Both appear by a rename, whole, and go when whoever has asked has put on
//! record what came of it. What the dead have left is swept. A new record may be a request by itself. Its
//! answer is named by the volume's own nonce; if none comes soon, the controller writes a file as well.

use crate::files::beneath;
use crate::quota::amounts::Amounts;
use crate::share::database::Share;
use crate::share::error::{Context, ShareError};
use crate::share::paths::sub_path::RECORDS_FOLDER;
use crate::share::records::format::{self, FORMAT};
use crate::share::token::{NameKey, Nonce};
use rustix::fs::{self, AtFlags};
use serde::{Deserialize, Serialize};
use std::os::fd::OwnedFd;
use std::time::{Duration, SystemTime};

/// The folder, which an agent makes.
pub(super) const REQUESTS: &str = "requests";
/// What the name of a request ends in.
pub const REQUEST: &str = ".request";
const ANSWER: &str = ".answer";
/// The longest file that is read, in bytes.
const LONGEST: u64 = 4096;
/// How old a file is, by the server's clock, whose asker has died.
const LIFE: Duration = Duration::from_secs(120);

/// That a size be enforced.
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
        Amounts { bytes, inodes }: Amounts,
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
    /// Whether it is in a file.
    is_written: bool,
    /// Whether an answer was looked for.
    has_looked: bool,
}

impl Asked {
    /// Asks by the record of the volume with this `nonce`, which has just appeared; nothing where no agent has ever answered.
    pub(super) fn by_record(share: &Share, nonce: Nonce) -> Result<Option<Self>, ShareError> {
        let folder = share.part_if_there(REQUESTS)?;
        Ok(folder.map(|folder| Self {
            folder,
            nonce,
            is_written: false,
            has_looked: false,
        }))
    }

    /// Asks by a file; nothing where no agent has ever answered.
    pub(super) fn ask(share: &Share, request: &Request) -> Result<Option<Self>, ShareError> {
        let nonce = Nonce::random().context(|| "drawing a nonce".to_owned())?;
        let Some(mut asked) = Self::by_record(share, nonce)? else {
            return Ok(None);
        };
        asked.write(share, request)?;
        Ok(Some(asked))
    }

    /// Asks by a file too, if that was not done yet.
    pub(super) fn write(&mut self, share: &Share, request: &Request) -> Result<(), ShareError> {
        if self.is_written {
            return Ok(());
        }
        // Also what is written in part goes in the end.
        self.is_written = true;
        let name = format!("{}{REQUEST}", self.nonce);
        share.replace(&self.folder, &name, request)
    }

    /// The answer, when it is there.
    pub(super) fn answer(&mut self) -> Result<Option<Answer>, ShareError> {
        let has_looked = std::mem::replace(&mut self.has_looked, true);
        let look = || {
            // What an NFS client has never looked for it asks for anyway.
            if has_looked {
                beneath::refresh(&self.folder)?;
            }
            beneath::read(&self.folder, &format!("{}{ANSWER}", self.nonce), LONGEST)
        };
        let text =
            beneath::if_there(look()).context(|| "looking for an agent's answer".to_owned())?;
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
        let remove = |kind| {
            let name = format!("{}{kind}", self.nonce);
            let _ = fs::unlinkat(&self.folder, name, AtFlags::empty());
        };
        // The answer last: an agent that finds the one without the other would answer again.
        if self.is_written {
            remove(REQUEST);
        }
        remove(ANSWER);
    }
}

/// The requests to an agent: the folder, which it has made.
#[derive(Debug)]
pub(super) struct Requests<'a> {
    pub share: &'a Share,
    folder: OwnedFd,
}

impl<'a> Requests<'a> {
    /// Opens them; nothing where no agent has ever lived.
    pub(super) fn if_there(share: &'a Share) -> Result<Option<Self>, ShareError> {
        Ok(share
            .part_if_there(REQUESTS)?
            .map(|folder| Self { share, folder }))
    }

    /// Those that are there, the answered ones included until they are done with, and why others cannot be read. What a newer
    /// version asks for is left to that.
    #[allow(clippy::type_complexity)]
    pub(super) fn all(&self) -> Result<(Vec<(Nonce, Request)>, Vec<ShareError>), ShareError> {
        let names = beneath::names(&self.folder).context(|| "listing the requests".to_owned())?;
        let (mut all, mut unread) = (Vec::new(), Vec::new());
        for name in names.into_iter().filter_map(|name| name.into_string().ok()) {
            let nonce = name.strip_suffix(REQUEST).map(str::parse::<Nonce>);
            let Some(Ok(nonce)) = nonce else { continue };
            let text = beneath::if_there(beneath::read(&self.folder, &name, LONGEST));
            match text.context(|| format!("reading the request {name}")) {
                Ok(text) => {
                    let request = text.and_then(|text| format::parse(&text));
                    all.extend(request.map(|request| (nonce, request)));
                }
                Err(error) => unread.push(error),
            }
        }
        Ok((all, unread))
    }

    /// Whether the one with this `nonce` has its answer.
    pub(super) fn is_answered(&self, nonce: Nonce) -> Result<bool, ShareError> {
        beneath::exists(&self.folder, &format!("{nonce}{ANSWER}"))
            .context(|| format!("looking for the answer to {nonce}"))
    }

    /// Answers the one with this `nonce`.
    pub(super) fn reply(&self, nonce: Nonce, answer: &Answer) -> Result<(), ShareError> {
        let name = format!("{nonce}{ANSWER}");
        self.share.replace(&self.folder, &name, answer)
    }

    /// Removes what the dead have left, by the clock of this machine, which is the server.
    pub(super) fn sweep(&self) -> Result<(), ShareError> {
        let context = || "sweeping the requests".to_owned();
        for name in beneath::names(&self.folder).context(context)? {
            let Ok(stat) = fs::statat(&self.folder, &name, AtFlags::SYMLINK_NOFOLLOW) else {
                continue;
            };
            let written =
                SystemTime::UNIX_EPOCH + Duration::from_secs(stat.st_mtime.unsigned_abs());
            if written.elapsed().is_ok_and(|age| age > LIFE) {
                let _ = fs::unlinkat(&self.folder, &name, AtFlags::empty());
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::share::database::Expect;
    use std::fs::File;
    use std::sync::Arc;

    fn share(folder: &tempfile::TempDir) -> Share {
        let root = Arc::new(File::open(folder.path()).unwrap().into());
        Share::open(root, Expect::Any).unwrap()
    }

    const SIZE: Amounts = Amounts {
        bytes: 10,
        inodes: 0,
    };

    fn opened(share: &Share) -> Requests<'_> {
        Requests::if_there(share).unwrap().unwrap()
    }

    #[test]
    fn a_request_is_there_until_it_is_done_with() {
        let folder = tempfile::tempdir().unwrap();
        let share = share(&folder);
        let request = Request::new((NameKey::of("v"), Nonce::random().unwrap()), None, SIZE);
        assert!(
            Asked::ask(&share, &request).unwrap().is_none(),
            "no agent has made the folder"
        );
        share.make_part(REQUESTS).unwrap();
        let mut asked = Asked::ask(&share, &request).unwrap().unwrap();
        let requests = opened(&share);
        let there = requests.all().unwrap().0;
        let [(nonce, found)] = there.as_slice() else {
            panic!("{there:?}");
        };
        assert_eq!(*found, request);
        let nonce = *nonce;
        assert!(!requests.is_answered(nonce).unwrap());
        assert_eq!(asked.answer().unwrap(), None);
        requests.reply(nonce, &Answer::Project(7)).unwrap();
        assert!(requests.is_answered(nonce).unwrap());
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
        share.make_part(REQUESTS).unwrap();
        let (newer, odd) = (Nonce::random().unwrap(), Nonce::random().unwrap());
        let requests = folder.path().join(".csi-nfs/requests");
        for (name, text) in [
            (format!("{newer}{REQUEST}"), r#"{"format": 99}"#),
            (format!("{odd}{REQUEST}"), "odd"),
            ("odd".to_owned(), "odd"),
        ] {
            std::fs::write(requests.join(&name), text).unwrap();
            let (all, odd) = opened(&share).all().unwrap();
            assert!(all.is_empty() && odd.is_empty(), "{name}");
        }
        let sweep = || opened(&share).sweep();
        sweep().unwrap();
        assert_eq!(std::fs::read_dir(&requests).unwrap().count(), 3);
        for file in std::fs::read_dir(&requests).unwrap() {
            let file = File::open(file.unwrap().path()).unwrap();
            file.set_modified(SystemTime::now() - 2 * LIFE).unwrap();
        }
        sweep().unwrap();
        assert_eq!(std::fs::read_dir(&requests).unwrap().count(), 0);
    }

    #[test]
    fn a_record_is_answered_by_the_volumes_nonce_and_asked_about_once() {
        let folder = tempfile::tempdir().unwrap();
        let share = share(&folder);
        share.make_part(REQUESTS).unwrap();
        let nonce = Nonce::random().unwrap();
        let request = Request::new((NameKey::of("v"), nonce), None, SIZE);
        let mut asked = Asked::by_record(&share, nonce).unwrap().unwrap();
        let requests = opened(&share);
        assert_eq!(
            (asked.answer().unwrap(), requests.all().unwrap().0),
            (None, vec![])
        );
        asked.write(&share, &request).unwrap();
        asked.write(&share, &request).unwrap();
        assert_eq!(requests.all().unwrap().0, [(nonce, request)]);
        requests.reply(nonce, &Answer::Project(7)).unwrap();
        assert_eq!(asked.answer().unwrap(), Some(Answer::Project(7)));
        drop(asked);
        let requests = folder.path().join(".csi-nfs/requests");
        assert_eq!(std::fs::read_dir(requests).unwrap().count(), 0);
    }
}
