//! The private folder on a share: its format version, its UUID, and its parts. Owns how it is made and how it is told
//! from another share's or from none. The modules beside it own what the parts hold.

use crate::files::beneath;
use crate::files::crash_points::step;
use crate::files::owner::{Maker, Owner};
use crate::files::roots::{MoreMounts, Mounting, Root};
use crate::quota::ability::{self, FileSystem, Unable};
use crate::quota::exports;
use crate::share::agent_memory::{AgentMemory, Compared};
use crate::share::error::{Context, ShareError};
use crate::share::paths::sub_path::RECORDS_FOLDER;
use crate::share::promise_memory::Counting;
use crate::share::records::format::{FORMAT, FormatError, check_format};
use crate::share::token::{Nonce, ShareUuid};
use rustix::fs::{self, AtFlags, Mode, OFlags, StatxFlags};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, OnceLock};
use std::time::{SystemTime, UNIX_EPOCH};

const LABEL: &str = "share.json";
const VOLUMES: &str = "volumes";
pub(in crate::share) const CLAIMS: &str = "folders";
/// The folder beside the records in which deleted volumes wait for their end.
pub const TRASH: &str = "trash";
const DRAFTS: &str = "drafts";
const SNAPSHOTS: &str = "snapshots";

/// What tells a records folder from another folder of its name.
const MARKS: [&str; 2] = [LABEL, VOLUMES];

/// What a call expects of the share that it opens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    /// This very share: its UUID stands in a volume id, or was seen by this process.
    Known(ShareUuid),
    /// Any share that has records. Where there are none, those of the share with this UUID have been lost.
    Kept(ShareUuid),
    /// Any share that has records.
    Initialised,
    /// Any share; one without records gets them.
    Any,
}

/// Where a process works, seen from the share.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Position {
    /// Anywhere; it leaves nothing to agents.
    #[default]
    Alone,
    /// On the other side of a network: an agent on the server is faster.
    Away,
    /// On the server, for those who are away: it is their agent. What it makes below the records folder belongs to the owner
    /// of that, since controllers may have no more rights than that one (`root_squash`).
    Agent(Owner),
}

/// A share whose records were found to be the right ones a moment ago. Opened anew for each operation, so that a folder
/// that was removed or a disk that was unmounted is noticed before anything is said to be absent. The parts are handles.
#[derive(Debug)]
pub struct Share {
    pub(super) root: Root,
    uuid: ShareUuid,
    /// Where it can be mounted once more.
    pub more: Option<MoreMounts>,
    pub(super) position: Position,
    /// What this process remembers of agents.
    pub memory: Arc<AgentMemory>,
    /// How this process counts what is promised.
    pub(super) counting: Counting,
    /// Whether this process can enforce the sizes of volumes, where it is to.
    pub(super) quotas: Option<Result<FileSystem, Unable>>,
    /// What the last comparison has found, as it was read when somebody first asked.
    pub(super) compared: OnceLock<Option<Compared>>,
    /// `volumes/`: one folder a name key, with the record in it.
    pub(super) volumes: OwnedFd,
    /// `snapshots/`: one folder a name key, with the record and the data in it.
    pub(super) snapshots: OwnedFd,
    /// `folders/`: the tree of claimed folders.
    pub(super) claims: OwnedFd,
    /// `trash/`: what is to be purged.
    pub(super) trash: OwnedFd,
    /// `drafts/`: what is being written and is not linked or renamed to its place yet.
    pub(super) drafts: OwnedFd,
}

#[derive(Serialize, Deserialize)]
pub(super) struct Label {
    pub format: u64,
    pub uuid: ShareUuid,
    pub created: u64,
}

impl Share {
    /// Opens the records below `root`.
    ///
    /// # Errors
    /// [`ShareError::RecordsMissing`], [`ShareError::OtherShare`] and [`ShareError::NotInitialised`] when the share is
    /// not what `expect` says, [`ShareError::NewerFormat`], [`ShareError::OlderFormat`], [`ShareError::Damaged`], and I/O
    /// errors.
    pub fn open(root: Root, expect: Expect) -> Result<Self, ShareError> {
        beneath::refresh(&*root).context(|| "looking at the share's root".to_owned())?;
        let (records, label) = match read_label(&root)? {
            Some(there) => there,
            None => match expect {
                Expect::Known(expected) | Expect::Kept(expected) => {
                    return Err(ShareError::RecordsMissing(expected));
                }
                Expect::Initialised => return Err(ShareError::NotInitialised),
                Expect::Any => initialise(&root)?,
            },
        };
        if let Expect::Known(expected) = expect
            && expected != label.uuid
        {
            return Err(ShareError::OtherShare {
                expected,
                found: label.uuid,
            });
        }
        let part = |name: &str| {
            beneath::if_there(beneath::folder_handle(&records, name))
                .context(|| format!("opening {RECORDS_FOLDER}/{name} on the share"))?
                // Made anew, an empty `volumes` would say that every volume was deleted.
                .ok_or_else(|| ShareError::Damaged {
                    what: format!("{RECORDS_FOLDER}/{name}"),
                    detail: "it is missing, somebody has removed it; put it back from a backup"
                        .to_owned(),
                })
        };
        Ok(Self {
            volumes: part(VOLUMES)?,
            snapshots: part(SNAPSHOTS)?,
            claims: part(CLAIMS)?,
            trash: part(TRASH)?,
            drafts: part(DRAFTS)?,
            uuid: label.uuid,
            more: None,
            position: Position::Alone,
            memory: Arc::default(),
            counting: Counting::default(),
            quotas: None,
            compared: OnceLock::new(),
            root,
        })
    }

    /// The same, for a process that leaves to an agent on the server what that does faster.
    pub fn away(self) -> Self {
        let position = Position::Away;
        Self { position, ..self }
    }

    /// The same, for a process that counts what is promised so.
    pub fn counting(self, counting: Counting) -> Self {
        Self { counting, ..self }
    }

    /// The same, for an agent on the server.
    pub fn as_agent(self) -> Result<Self, ShareError> {
        let owner = Owner::of(&self.drafts);
        let position =
            Position::Agent(owner.context(|| "looking at the owner of the records".to_owned())?);
        Ok(Self { position, ..self })
    }

    /// The same, for a process on the server that enforces the sizes of volumes where the file system can.
    pub fn with_quotas(self) -> Self {
        let quotas = Some(ability::of(&self.root, exports::squash_root(&self.root)));
        Self { quotas, ..self }
    }

    /// Whether this process can enforce the sizes of volumes, where it is to.
    pub fn quotas(&self) -> Option<&Result<FileSystem, Unable>> {
        self.quotas.as_ref()
    }

    /// Whether this process is known to work on the server itself.
    fn is_on_server(&self) -> bool {
        matches!(self.position, Position::Agent(_)) || self.quotas.is_some()
    }

    /// Who is to own what this process makes, where it is not this process.
    pub(super) fn owner(&self) -> Option<Owner> {
        match self.position {
            Position::Agent(owner) if !owner.is_root() => Some(owner),
            _ => None,
        }
    }

    /// Gives `name` in `at`, which this process has just made, to the owner of the records.
    pub(super) fn give(&self, at: impl AsFd, name: &str) -> io::Result<()> {
        match self.owner() {
            Some(owner) => owner.give(at, name),
            None => Ok(()),
        }
    }

    /// What makes folders and files for the owner of the records, where that is not this process.
    pub(super) fn maker(&self) -> io::Result<Option<Maker>> {
        let drafts = |owner| Ok(Maker::new(owner, self.drafts.try_clone()?));
        self.owner().map(drafts).transpose()
    }

    /// Makes the folder `name` in `at`, which belongs to the owner of the records. Returns whether it was made.
    pub(super) fn make_folder(&self, at: impl AsFd, name: &str) -> io::Result<bool> {
        match self.maker()? {
            Some(maker) => maker.make_folder(at, name),
            None => beneath::make_folder(at, name, 0o700),
        }
    }

    /// Writes the new file `name` in `at`, which belongs to the owner of the records.
    pub(super) fn write_new(&self, at: impl AsFd, name: &str, content: &[u8]) -> io::Result<()> {
        match self.maker()? {
            Some(maker) => maker.write_new(at, name, content),
            None => beneath::write_new(at, name, content),
        }
    }

    /// Writes `what` to the file `name` in `folder`: it appears whole, replaces the one before, and belongs to the owner of the
    /// records. It need not outlive a power cut. Closed before it has its name: until then an NFS client may keep what is written.
    pub(super) fn replace(
        &self,
        folder: &OwnedFd,
        name: &str,
        what: &impl Serialize,
    ) -> Result<(), ShareError> {
        self.replace_and(folder, name, what, |_| Ok(()))
    }

    /// The same, and keeps it open for writing: no NFS client ever gets a delegation of it, which could be taken back from one that has
    /// vanished only when its lease is over.
    pub(super) fn replace_and_keep(
        &self,
        folder: &OwnedFd,
        name: &str,
        what: &impl Serialize,
    ) -> Result<OwnedFd, ShareError> {
        self.replace_and(folder, name, what, |draft| {
            beneath::file_to_write(&self.drafts, draft)
        })
    }

    /// The same, and does something with the draft before it has its name.
    fn replace_and<T>(
        &self,
        folder: &OwnedFd,
        name: &str,
        what: &impl Serialize,
        with: impl FnOnce(&str) -> io::Result<T>,
    ) -> Result<T, ShareError> {
        let context = || format!("writing {name}");
        let text = serde_json::to_vec(what).map_err(io::Error::other);
        let text = text.context(context)?;
        let draft = format!("{name}-{}", Nonce::random().context(context)?);
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let drafted = fs::openat(&self.drafts, &*draft, flags, Mode::RUSR | Mode::WUSR)
            .map_err(io::Error::from)
            .and_then(|file| {
                let mut file = File::from(file);
                file.write_all(&text)?;
                // That there is no room an NFS client says when the file is flushed.
                match self.is_on_server() {
                    true => Ok(()),
                    false => file.sync_data(),
                }
            })
            .and_then(|()| self.give(&self.drafts, &draft))
            .and_then(|()| with(&draft));
        step("a file is drafted")?;
        let put = drafted.and_then(|done| {
            beneath::rename(&self.drafts, &draft, folder, name)?;
            Ok(done)
        });
        if put.is_err() {
            let _ = fs::unlinkat(&self.drafts, &*draft, AtFlags::empty());
        }
        put.context(context)
    }

    /// The folder `name` below the records, where there is one.
    pub(super) fn part_if_there(&self, name: &str) -> Result<Option<OwnedFd>, ShareError> {
        let path = format!("{RECORDS_FOLDER}/{name}");
        let opened = beneath::if_there(beneath::folder(&self.root, &path));
        opened.context(|| format!("opening {path}"))
    }

    /// The folder `name` below the records: made where it is not there.
    pub(super) fn make_part(&self, name: &str) -> Result<OwnedFd, ShareError> {
        let context = || format!("making {RECORDS_FOLDER}/{name}");
        let records = beneath::folder(&self.root, RECORDS_FOLDER).context(context)?;
        self.make_folder(&records, name).context(context)?;
        beneath::folder(&records, name).context(context)
    }

    /// Whether `folder` is the root of a share too, with records in it. A volume's user may have made a folder of their name,
    /// which are none: what the driver makes is its own, and has a label or volumes.
    pub fn is_root_of_another(&self, folder: &OwnedFd) -> io::Result<bool> {
        let records = match beneath::folder(folder, RECORDS_FOLDER) {
            Ok(records) => records,
            // Nothing, a file, or a symlink; or a folder that keeps its owner's things from others.
            Err(error)
                if beneath::is_gone(&error)
                    || matches!(
                        beneath::errno(&error),
                        Some(Errno::LOOP | Errno::NOTDIR | Errno::ACCESS)
                    ) =>
            {
                return Ok(false);
            }
            Err(error) => return Err(error),
        };
        if Owner::of(&records)?.uid != Owner::of(&self.drafts)?.uid {
            return Ok(false);
        }
        let [label, volumes] = MARKS.map(|mark| beneath::exists(&records, mark));
        Ok(label? || volumes?)
    }

    /// Whether the share itself can be asked, when something on it cannot.
    pub(super) fn answers(&self) -> bool {
        let how = AtFlags::SYMLINK_NOFOLLOW | AtFlags::STATX_FORCE_SYNC;
        let label = format!("{RECORDS_FOLDER}/{LABEL}");
        fs::statx(&self.root, label, how, StatxFlags::INO).is_ok()
    }

    /// Begins one more mount of what this share was mounted from, where there can be more. That it shows this very share is
    /// still to be proven.
    pub(super) fn mount_again(&self) -> Option<Mounting> {
        self.more.as_ref().map(MoreMounts::begin)
    }

    /// The share's root folder.
    pub fn root(&self) -> &Root {
        &self.root
    }

    /// The share's UUID.
    pub fn uuid(&self) -> ShareUuid {
        self.uuid
    }
}

/// The records folder, when it has a label, and that.
fn read_label(root: &Root) -> Result<Option<(OwnedFd, Label)>, ShareError> {
    let records = match beneath::folder(root, RECORDS_FOLDER) {
        Ok(records) => records,
        Err(error) if beneath::errno(&error) == Some(Errno::NOENT) => return Ok(None),
        Err(error) => {
            return Err(error).context(|| format!("opening {RECORDS_FOLDER} on the share"));
        }
    };
    // An NFS client learns all parts of it by that, in one call instead of one for each.
    let _ = beneath::names_of_opened(&records);
    let content = match beneath::read(&records, LABEL, 4096) {
        Ok(content) => content,
        Err(error) if beneath::errno(&error) == Some(Errno::NOENT) => return Ok(None),
        Err(error) if beneath::errno(&error).is_none() => return Err(damaged(error.to_string())),
        Err(error) => {
            return Err(error).context(|| format!("reading {RECORDS_FOLDER}/{LABEL} on the share"));
        }
    };
    let label = check_format(&content).and_then(|()| Ok(serde_json::from_slice(&content)?));
    match label {
        Ok(label) => Ok(Some((records, label))),
        Err(FormatError::Newer(found)) => Err(ShareError::NewerFormat(found)),
        Err(FormatError::Older(found)) => Err(ShareError::OlderFormat(found)),
        Err(FormatError::Text(error)) => Err(damaged(error.to_string())),
    }
}

/// The error about a label that cannot be used.
fn damaged(detail: String) -> ShareError {
    ShareError::Damaged {
        what: format!("{RECORDS_FOLDER}/{LABEL}"),
        detail,
    }
}

/// Makes the records folder. The label is linked last, so a share that has one has all its parts; of two controllers
/// that do this at once one label wins and both read it.
fn initialise(root: &Root) -> Result<(OwnedFd, Label), ShareError> {
    let context = || format!("making {RECORDS_FOLDER} on the share");
    beneath::make_folder(root, RECORDS_FOLDER, 0o700).context(context)?;
    let records = beneath::folder(root, RECORDS_FOLDER).context(context)?;
    // Some servers give new folders a mode of their own; the records are nobody else's.
    fs::fchmod(&records, Mode::from_raw_mode(0o700)).context(context)?;
    step("the records folder is made")?;
    for part in [VOLUMES, SNAPSHOTS, CLAIMS, TRASH, DRAFTS] {
        beneath::make_folder(&records, part, 0o700).context(context)?;
        step("a part is made")?;
    }
    // Under a new UUID the ids of these volumes would be refused for ever.
    let mut kept = false;
    for part in [VOLUMES, SNAPSHOTS] {
        let part = beneath::folder(&records, part).context(context)?;
        kept |= !beneath::names(&part).context(context)?.is_empty();
    }
    if kept {
        // Another controller may have made the label, and the first volume, in this very moment.
        return read_label(root)?.ok_or_else(|| {
            let why =
                "it is missing though there are volumes or snapshots; put it back from a backup";
            damaged(why.to_owned())
        });
    }
    let label = Label {
        format: FORMAT,
        uuid: ShareUuid::random().context(context)?,
        created: now(),
    };
    let content = serde_json::to_vec(&label).map_err(|error| ShareError::Damaged {
        what: LABEL.to_owned(),
        detail: error.to_string(),
    })?;
    let draft = format!("{DRAFTS}/{LABEL}.{}", Nonce::random().context(context)?);
    beneath::write_new(&records, &draft, &content).context(context)?;
    step("the label is written")?;
    // Whatever this says, the label that can be read afterwards is the one that counts: a retransmitted LINK reports
    // EEXIST for its own success.
    let linked = fs::linkat(&records, &draft, &records, LABEL, AtFlags::empty());
    step("the label is linked")?;
    let _ = fs::unlinkat(&records, &draft, AtFlags::empty());
    beneath::sync(&records).context(context)?;
    beneath::sync(root).context(context)?;
    match (read_label(root)?, linked) {
        (Some(there), _) => Ok(there),
        (None, Err(error)) => Err(error).context(context),
        (None, Ok(())) => Err(ShareError::Contended(RECORDS_FOLDER.to_owned())),
    }
}

/// Seconds since 1970 by this machine's clock: shown to people, decides nothing.
pub fn now() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::crash_points::crashing;
    use std::fs::File;
    use std::sync::Arc;

    fn root(folder: &tempfile::TempDir) -> Root {
        Arc::new(File::open(folder.path()).unwrap().into())
    }

    #[test]
    fn two_controllers_agree_on_one_uuid() {
        for _ in 0..20 {
            let folder = tempfile::tempdir().unwrap();
            let uuids: Vec<ShareUuid> = std::thread::scope(|scope| {
                let threads: Vec<_> = (0..8)
                    .map(|_| {
                        scope.spawn(|| Share::open(root(&folder), Expect::Any).unwrap().uuid())
                    })
                    .collect();
                threads.into_iter().map(|t| t.join().unwrap()).collect()
            });
            assert!(uuids.iter().all(|uuid| *uuid == uuids[0]));
        }
    }

    #[test]
    fn a_crash_while_the_records_are_made_is_made_good() {
        for count in 0.. {
            let folder = tempfile::tempdir().unwrap();
            let first = crashing(count, || Share::open(root(&folder), Expect::Any));
            let again = Share::open(root(&folder), Expect::Any).unwrap().uuid();
            if let Ok(first) = first {
                assert_eq!(first.unwrap().uuid(), again);
                assert!(count > 5, "no step was hit");
                break;
            }
        }
    }

    #[test]
    fn missing_other_newer_and_damaged_shares_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let label = folder.path().join(".csi-nfs/share.json");
        assert!(matches!(
            Share::open(root(&folder), Expect::Initialised),
            Err(ShareError::NotInitialised)
        ));
        let uuid = Share::open(root(&folder), Expect::Any).unwrap().uuid();
        assert!(Share::open(root(&folder), Expect::Known(uuid)).is_ok());
        let other = ShareUuid::random().unwrap();
        assert!(Share::open(root(&folder), Expect::Kept(other)).is_ok());
        assert!(matches!(
            Share::open(root(&folder), Expect::Known(other)),
            Err(ShareError::OtherShare { .. })
        ));
        std::fs::write(&label, r#"{"format":3,"else":1}"#).unwrap();
        assert!(matches!(
            Share::open(root(&folder), Expect::Any),
            Err(ShareError::NewerFormat(3))
        ));
        let older = format!(r#"{{"format":1,"uuid":"{uuid}","created":1}}"#);
        std::fs::write(&label, older).unwrap();
        let error = Share::open(root(&folder), Expect::Known(uuid)).unwrap_err();
        assert!(matches!(error, ShareError::OlderFormat(1)));
        assert!(error.to_string().contains("adopt"), "{error}");
        let is_damaged = || {
            let opened = Share::open(root(&folder), Expect::Any);
            assert!(matches!(opened, Err(ShareError::Damaged { .. })));
        };
        for content in [r#"{"form"#, &" ".repeat(5000)] {
            std::fs::write(&label, content).unwrap();
            is_damaged();
        }
        std::fs::remove_file(&label).unwrap();
        std::fs::create_dir(&label).unwrap();
        is_damaged();
        std::fs::remove_dir_all(folder.path().join(".csi-nfs")).unwrap();
        for expect in [Expect::Known(uuid), Expect::Kept(uuid)] {
            let opened = Share::open(root(&folder), expect);
            assert!(matches!(opened, Err(ShareError::RecordsMissing(it)) if it == uuid));
        }
    }

    #[test]
    fn a_lost_volumes_folder_is_not_made_anew() {
        let folder = tempfile::tempdir().unwrap();
        Share::open(root(&folder), Expect::Any).unwrap();
        std::fs::remove_dir(folder.path().join(".csi-nfs/volumes")).unwrap();
        assert!(matches!(
            Share::open(root(&folder), Expect::Any),
            Err(ShareError::Damaged { .. })
        ));
    }

    #[test]
    fn a_lost_label_is_not_made_anew_over_volumes() {
        let folder = tempfile::tempdir().unwrap();
        Share::open(root(&folder), Expect::Any).unwrap();
        std::fs::create_dir(folder.path().join(".csi-nfs/volumes/x")).unwrap();
        std::fs::remove_file(folder.path().join(".csi-nfs/share.json")).unwrap();
        assert!(matches!(
            Share::open(root(&folder), Expect::Any),
            Err(ShareError::Damaged { .. })
        ));
    }

    #[test]
    fn a_planted_symlink_is_no_records_folder() {
        let outside = tempfile::tempdir().unwrap();
        let folder = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink(outside.path(), folder.path().join(".csi-nfs")).unwrap();
        assert!(Share::open(root(&folder), Expect::Any).is_err());
        assert_eq!(std::fs::read_dir(outside.path()).unwrap().count(), 0);
    }
}
