//! The owner of what a process makes with more rights than those have who use it. Owns chown(2); must not know what the files mean.

use crate::files::beneath;
use csi_proto::random;
use rustix::fs::{self, AtFlags, Gid, RenameFlags, Uid};
use rustix::io::Errno;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

/// A user and a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    /// The number of the user.
    pub uid: u32,
    /// The number of the group.
    pub gid: u32,
}

impl Owner {
    /// The owner of an open file or folder, or of a handle.
    ///
    /// # Errors
    /// Whatever stat(2) says.
    pub fn of(file: impl AsFd) -> io::Result<Self> {
        let stat = fs::fstat(file)?;
        Ok(Self {
            uid: stat.st_uid,
            gid: stat.st_gid,
        })
    }

    /// Whether that is root, who may do everything on the server.
    pub fn is_root(self) -> bool {
        self.uid == 0
    }

    /// Gives this owner `name` in `at`, whatever that is.
    ///
    /// # Errors
    /// Whatever chown(2) says.
    pub fn give(self, at: impl AsFd, name: &str) -> io::Result<()> {
        let (uid, gid) = self.ids();
        Ok(fs::chownat(at, name, uid, gid, AtFlags::SYMLINK_NOFOLLOW)?)
    }

    /// Gives this owner an open file or folder.
    ///
    /// # Errors
    /// Whatever chown(2) says.
    pub fn give_open(self, file: impl AsFd) -> io::Result<()> {
        let (uid, gid) = self.ids();
        Ok(fs::fchown(file, uid, gid)?)
    }

    fn ids(self) -> (Option<Uid>, Option<Gid>) {
        (Some(Uid::from_raw(self.uid)), Some(Gid::from_raw(self.gid)))
    }
}

/// Makes folders and files that belong to an owner from the first moment at which they have their name: each is made in
/// `drafts`, given to the owner, and renamed. A process that is killed in between leaves what keeps nobody from anything.
#[derive(Debug)]
pub struct Maker {
    owner: Owner,
    drafts: OwnedFd,
}

impl Maker {
    /// One for `owner`. `drafts` is a folder of the same file system, in which nobody looks for the names.
    pub fn new(owner: Owner, drafts: OwnedFd) -> Self {
        Self { owner, drafts }
    }

    /// Makes the folder `name` in `at`, mode 0700; an existing one is fine and stays as it is. Returns whether it was made.
    ///
    /// # Errors
    /// Whatever mkdir(2), chown(2) and rename(2) say.
    pub fn make_folder(&self, at: impl AsFd, name: &str) -> io::Result<bool> {
        if beneath::exists(&at, name)? {
            return Ok(false);
        }
        let draft = draft()?;
        beneath::make_folder(&self.drafts, &draft, 0o700)?;
        let placed = self.place(&draft, at, name);
        if !matches!(placed, Ok(true)) {
            let _ = fs::unlinkat(&self.drafts, &*draft, AtFlags::REMOVEDIR);
        }
        placed
    }

    /// Writes the file `name` in `at`, mode 0600, with this content; an existing one is fine and stays as it is.
    ///
    /// # Errors
    /// Whatever the writes, chown(2) and rename(2) say.
    pub fn write_new(&self, at: impl AsFd, name: &str, content: &[u8]) -> io::Result<()> {
        let draft = draft()?;
        let written = beneath::write_new(&self.drafts, &draft, content);
        let placed = written.and_then(|()| self.place(&draft, at, name));
        if !matches!(placed, Ok(true)) {
            let _ = fs::unlinkat(&self.drafts, &*draft, AtFlags::empty());
        }
        placed.map(drop)
    }

    /// Gives the draft away, and its name to it. Returns false where something has that name already.
    fn place(&self, draft: &str, at: impl AsFd, name: &str) -> io::Result<bool> {
        self.owner.give(&self.drafts, draft)?;
        match fs::renameat_with(&self.drafts, draft, at, name, RenameFlags::NOREPLACE) {
            Ok(()) => Ok(true),
            Err(Errno::EXIST) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}

fn draft() -> io::Result<String> {
    let random = u128::from_ne_bytes(random::from_kernel()?);
    Ok(format!("made-{random:032x}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn what_is_made_belongs_to_its_owner_and_replaces_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let [at, drafts] = ["at", "drafts"].map(|name| folder.path().join(name));
        for made in [&at, &drafts] {
            std::fs::create_dir(made).unwrap();
        }
        let open = |path| -> OwnedFd { File::open(path).unwrap().into() };
        let own = Owner::of(open(&at)).unwrap();
        // Only root can give anything to others.
        let owner = match own.is_root() {
            true => Owner { uid: 65534, gid: 7 },
            false => own,
        };
        let maker = Maker::new(owner, open(&drafts));
        assert!(maker.make_folder(open(&at), "folder").unwrap());
        assert!(!maker.make_folder(open(&at), "folder").unwrap());
        maker.write_new(open(&at), "file", b"first").unwrap();
        maker.write_new(open(&at), "file", b"second").unwrap();
        assert_eq!(std::fs::read(at.join("file")).unwrap(), b"first");
        for name in ["folder", "file"] {
            let metadata = std::fs::metadata(at.join(name)).unwrap();
            assert_eq!((metadata.uid(), metadata.gid()), (owner.uid, owner.gid));
        }
        assert!(maker.make_folder(open(&at), "absent/folder").is_err());
        assert_eq!(std::fs::read_dir(&drafts).unwrap().count(), 0);
    }
}
