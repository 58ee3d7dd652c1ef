//! The ledger of project ids that are in use: a folder with a file for each, named by the id, which says for whom. Owns that
//! folder. An entry is there before anything has its id, and until nothing has it any more.

use crate::files::beneath;
use crate::files::owner::Owner;
use crate::quota::error::{Context, QuotaError};
use crate::quota::project_id::ProjectId;
use rustix::fs::{self, AtFlags, Mode, OFlags};
use rustix::io::Errno;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::time::{Duration, SystemTime};

/// More than any owner's text has.
const LONGEST: u64 = 8192;

/// An entry: for whom the id is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The owner, in the words of whoever has entered it; empty if the writer crashed mid-update, and then nothing has the id.
    pub owner: String,
    /// How long it has been there, by the clock of this machine, which wrote it.
    pub age: Duration,
}

/// The ledger in an open folder.
#[derive(Debug)]
pub struct Ledger {
    folder: OwnedFd,
}

impl Ledger {
    /// The ledger in `folder`, which nobody else writes to but another process of this program.
    pub fn new(folder: OwnedFd) -> Self {
        Self { folder }
    }

    /// Enters an id for `owner`. Returns whether the entry is this owner's now, whoever has made it.
    pub fn enter(&self, id: ProjectId, owner: &str) -> Result<bool, QuotaError> {
        let context = "entering a project id";
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let mode = Mode::RUSR | Mode::WUSR;
        let mut file = match fs::openat(&self.folder, id.to_string(), flags, mode) {
            Ok(file) => File::from(file),
            Err(Errno::EXIST) => return self.is_of(id, owner),
            Err(error) => return Err(error).context(context),
        };
        // The folder's owner may be a controller whom the server takes for somebody else; this process may be root.
        let folders = Owner::of(&self.folder).context(context)?;
        if Owner::of(&file).context(context)?.uid != folders.uid {
            folders.give_open(&file).context(context)?;
        }
        file.write_all(owner.as_bytes()).context(context)?;
        // On disk before the id is used: after a power cut it is still known to be ours. File systems with project quotas have a
        // journal, in which the new name comes before what is flushed here.
        file.sync_all().context(context)?;
        Ok(true)
    }

    /// Whether an id is this owner's.
    pub fn is_of(&self, id: ProjectId, owner: &str) -> Result<bool, QuotaError> {
        Ok(self.entry(id)?.is_some_and(|entry| entry.owner == owner))
    }

    /// The entry of an id.
    pub fn entry(&self, id: ProjectId) -> Result<Option<Entry>, QuotaError> {
        let context = "reading the ledger of project ids";
        let name = id.to_string();
        let Some(text) =
            beneath::if_there(beneath::read(&self.folder, &name, LONGEST)).context(context)?
        else {
            return Ok(None);
        };
        let written = match fs::statat(&self.folder, &name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => SystemTime::UNIX_EPOCH + Duration::from_secs(stat.st_mtime.unsigned_abs()),
            Err(Errno::NOENT) => return Ok(None),
            Err(error) => return Err(error).context(context),
        };
        Ok(Some(Entry {
            owner: String::from_utf8_lossy(&text).into_owned(),
            age: written.elapsed().unwrap_or_default(),
        }))
    }

    /// All entries, and what is wrong with the others. Nobody touches the id of an entry that cannot be read: it is in use.
    ///
    /// # Errors
    /// I/O errors of the ledger itself.
    pub fn entries(&self) -> Result<(BTreeMap<ProjectId, Entry>, Vec<String>), QuotaError> {
        let (mut entries, mut odd) = (BTreeMap::new(), Vec::new());
        for name in beneath::names(&self.folder).context("listing the ledger of project ids")? {
            let name = name.to_string_lossy().into_owned();
            let entry = ProjectId::parse(&name).map(|id| (id, self.entry(id)));
            let why = match entry {
                Some((id, Ok(entry))) => {
                    entries.extend(entry.map(|entry| (id, entry)));
                    continue;
                }
                Some((_, Err(error))) => error.to_string(),
                None => "it is no id".to_owned(),
            };
            odd.push(format!(
                "the ledger of project ids has {name:?}, which is not used: {why}"
            ));
        }
        Ok((entries, odd))
    }

    /// The ids of this owner.
    pub fn all_of(&self, owner: &str) -> Result<BTreeSet<ProjectId>, QuotaError> {
        let (entries, _) = self.entries()?;
        let own = entries
            .into_iter()
            .filter(|(_, entry)| entry.owner == owner);
        Ok(own.map(|(id, _)| id).collect())
    }

    /// Removes the entry of an id that nothing has any more; gone is fine.
    pub fn forget(&self, id: ProjectId) -> Result<(), QuotaError> {
        match fs::unlinkat(&self.folder, id.to_string(), AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(error) => Err(error).context("removing a project id from the ledger"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ledger(folder: &tempfile::TempDir) -> Ledger {
        Ledger::new(File::open(folder.path()).unwrap().into())
    }

    #[test]
    fn an_id_is_entered_for_one_owner() {
        let folder = tempfile::tempdir().unwrap();
        let (one, other) = (ledger(&folder), ledger(&folder));
        let id = ProjectId::new(7).unwrap();
        assert_eq!(one.entry(id).unwrap(), None);
        assert!(one.enter(id, "volume a").unwrap());
        assert!(other.enter(id, "volume a").unwrap(), "a repeat");
        assert!(!other.enter(id, "volume b").unwrap());
        let entry = other.entry(id).unwrap().unwrap();
        assert_eq!(entry.owner, "volume a");
        assert!(entry.age < Duration::from_secs(600));
        assert_eq!(one.entries().unwrap().0.len(), 1);
        assert_eq!(one.all_of("volume a").unwrap(), BTreeSet::from([id]));
        assert_eq!(one.all_of("volume b").unwrap(), BTreeSet::new());
        one.forget(id).unwrap();
        other.forget(id).unwrap();
        assert!(other.enter(id, "volume b").unwrap());
    }

    #[test]
    fn what_is_no_entry_is_told_and_hides_no_other() {
        let folder = tempfile::tempdir().unwrap();
        let good = ProjectId::new(12).unwrap();
        for name in ["12", "012", "0", "x", "name with space"] {
            std::fs::write(folder.path().join(name), "").unwrap();
        }
        std::fs::create_dir(folder.path().join("13")).unwrap();
        std::os::unix::fs::symlink("12", folder.path().join("14")).unwrap();
        let (entries, told) = ledger(&folder).entries().unwrap();
        assert_eq!(entries.keys().collect::<Vec<_>>(), [&good]);
        for name in ["012", "0", "x", "name with space", "13", "14"] {
            let is_about = |it: &&String| it.contains(&format!("{name:?}"));
            assert_eq!(told.iter().filter(is_about).count(), 1, "{name}: {told:?}");
        }
        assert_eq!(told.len(), 6);
    }
}
