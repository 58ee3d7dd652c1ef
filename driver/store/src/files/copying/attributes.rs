//! The attributes of an entry, which is everything but its bytes: owner, mode, times, extended attributes and ACLs. Owns
//! which of them travel and which failures only mean that something is left out.
//!
//! Over NFS each setting is a call, so only what differs is set, and what the kernel has at hand is not asked for again.

use super::course::Course;
use super::named::Named;
use super::report::{LeftOut, Omissions};
use crate::files::owner::Owner;
use rustix::fs::{self, AtFlags, FileType, Gid, Mode, Stat, Timespec, Timestamps, Uid, XattrFlags};
use rustix::io::{self, Errno};
use std::ffi::{CStr, CString};
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering;

/// What a folder's entry keeps of its source until all that is in it is done.
#[derive(Clone, Debug)]
pub struct Basics {
    uid: u32,
    gid: u32,
    /// Permission bits with the set-id bits.
    pub(super) mode: u32,
    times: Timestamps,
}

impl Basics {
    pub(super) fn of(stat: &Stat) -> Self {
        let times = [
            (stat.st_atime, stat.st_atime_nsec as u32),
            (stat.st_mtime, stat.st_mtime_nsec as u32),
        ];
        Self::new(stat.st_uid, stat.st_gid, stat.st_mode & 0o7777, times)
    }

    /// With these times of access and modification in seconds and nanoseconds.
    pub fn new(uid: u32, gid: u32, mode: u32, times: [(i64, u32); 2]) -> Self {
        let [last_access, last_modification] = times.map(|(seconds, nanoseconds)| Timespec {
            tv_sec: seconds,
            tv_nsec: nanoseconds.into(),
        });
        Self {
            uid,
            gid,
            mode,
            times: Timestamps {
                last_access,
                last_modification,
            },
        }
    }

    /// The same, under another owner.
    pub(super) fn owned_by(self, Owner { uid, gid }: Owner) -> Self {
        Self { uid, gid, ..self }
    }

    /// The mode that a file may have from the beginning: set-id bits come last, since a change of owner clears them.
    pub(super) fn first_mode(&self) -> Mode {
        Mode::from_raw_mode(self.mode & 0o1777)
    }

    /// Gives the open file or folder `target` owner, mode, attributes and times, in the order in which none undoes
    /// another. `made` is what it is now. `give_attributes` gives the attributes, and says whether an ACL is among them.
    pub fn give(
        &self,
        target: &OwnedFd,
        made: &Stat,
        give_attributes: impl FnOnce() -> io::Result<bool>,
        omissions: &Omissions,
        path: impl Fn() -> String,
    ) -> io::Result<()> {
        let owner = self.give_owner(made, omissions, &path, |uid, gid| {
            fs::fchown(target, uid, gid)
        })?;
        let acl = give_attributes()?;
        let mode = self.mode_under(owner, omissions, &path);
        let cleared = owner == Ownership::Given && mode & 0o6000 != 0;
        if made.st_mode & 0o7777 != mode || acl || cleared {
            match fs::fchmod(target, Mode::from_raw_mode(mode)) {
                Err(Errno::PERM) => omissions.add(LeftOut::Mode, &path),
                other => other?,
            }
        }
        fs::futimens(target, &self.times)
    }

    /// The same for what cannot be opened: a symlink, FIFO, socket or device.
    pub fn give_by_name(
        &self,
        target: Named<'_>,
        made: &Stat,
        omissions: &Omissions,
        path: impl Fn() -> String,
    ) -> io::Result<()> {
        let follow_not = AtFlags::SYMLINK_NOFOLLOW;
        let owner = self.give_owner(made, omissions, &path, |uid, gid| {
            fs::chownat(target.folder, target.name, uid, gid, follow_not)
        })?;
        // A symlink has no mode. The target is a private folder, so the name is what was made a moment ago.
        let is_link = FileType::from_raw_mode(made.st_mode) == FileType::Symlink;
        let mode = self.mode_under(owner, omissions, &path);
        let cleared = owner == Ownership::Given && mode & 0o6000 != 0;
        if !is_link && (made.st_mode & 0o7777 != mode || cleared) {
            let mode = Mode::from_raw_mode(mode);
            match fs::chmodat(target.folder, target.name, mode, AtFlags::empty()) {
                Err(Errno::PERM) => omissions.add(LeftOut::Mode, &path),
                other => other?,
            }
        }
        fs::utimensat(target.folder, target.name, &self.times, follow_not)
    }

    /// The mode under the owner that the entry has got. Set-id bits under another would let its users be this driver.
    fn mode_under(
        &self,
        owner: Ownership,
        omissions: &Omissions,
        path: impl Fn() -> String,
    ) -> u32 {
        if owner != Ownership::Refused || self.mode & 0o6000 == 0 {
            return self.mode;
        }
        omissions.add(LeftOut::Mode, path);
        self.mode & 0o1777
    }

    fn give_owner(
        &self,
        made: &Stat,
        omissions: &Omissions,
        path: impl Fn() -> String,
        chown: impl Fn(Option<Uid>, Option<Gid>) -> io::Result<()>,
    ) -> io::Result<Ownership> {
        let uid = (made.st_uid != self.uid).then(|| Uid::from_raw(self.uid));
        let gid = (made.st_gid != self.gid).then(|| Gid::from_raw(self.gid));
        if uid.is_none() && gid.is_none() {
            return Ok(Ownership::Same);
        }
        match chown(uid, gid) {
            Ok(()) => Ok(Ownership::Given),
            // Not privileged, squashed by the server, or an id that this user namespace has not.
            Err(Errno::PERM | Errno::ACCESS | Errno::INVAL) => {
                omissions.add(LeftOut::Owner, path);
                Ok(Ownership::Refused)
            }
            Err(error) => Err(error),
        }
    }
}

/// How an entry came to its owner.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ownership {
    /// It had it.
    Same,
    /// It was given away, which has cleared the set-id bits.
    Given,
    /// It stays this process's.
    Refused,
}

/// An extended attribute.
#[derive(Clone, Debug)]
pub struct Attribute {
    name: CString,
    value: Vec<u8>,
}

impl Attribute {
    /// What it takes in memory, in bytes.
    pub fn size(&self) -> usize {
        self.name.as_bytes().len() + self.value.len()
    }

    /// One of that name.
    pub fn new(name: CString, value: Vec<u8>) -> Self {
        Self { name, value }
    }

    /// Gives all of them to `target`. Returns whether an ACL is among them.
    pub fn set_all(
        all: &[Self],
        target: &OwnedFd,
        omissions: &Omissions,
        path: impl Fn() -> String,
    ) -> io::Result<bool> {
        for attribute in all {
            set(target, &attribute.name, &attribute.value, omissions, &path)?;
        }
        Ok(all.iter().any(|attribute| is_acl(&attribute.name)))
    }
}

/// ACLs are among the `system.*` attributes. A folder gets its ACL last: what is made in it would inherit.
pub(super) fn is_acl(name: &CStr) -> bool {
    name.to_bytes().starts_with(b"system.")
}

pub(super) fn set(
    target: &OwnedFd,
    name: &CStr,
    value: &[u8],
    omissions: &Omissions,
    path: impl Fn() -> String,
) -> io::Result<()> {
    match fs::fsetxattr(target, name, value, XattrFlags::empty()) {
        Err(
            Errno::OPNOTSUPP
            | Errno::PERM
            | Errno::ACCESS
            | Errno::INVAL
            | Errno::TOOBIG
            | Errno::RANGE,
        ) => {
            omissions.add(LeftOut::Attributes(namespace(name)), path);
            Ok(())
        }
        other => other,
    }
}

fn namespace(name: &CStr) -> String {
    let text = name.to_string_lossy();
    text.split('.').next().unwrap_or_default().to_owned()
}

/// The names of the attributes of an open file or folder, each with its zero. `buffer` is for reuse.
pub(super) fn names(
    source: &OwnedFd,
    course: &Course<'_>,
    buffer: &mut Vec<u8>,
    path: impl Fn() -> String,
) -> io::Result<Vec<u8>> {
    if !course.attributes.load(Ordering::Relaxed) {
        return Ok(Vec::new());
    }
    // One call where asking for the length first would make two over NFS.
    loop {
        buffer.resize(buffer.len().max(1024), 0);
        match fs::flistxattr(source, &mut buffer[..]) {
            Ok(length) => return Ok(buffer[..length].to_vec()),
            Err(Errno::RANGE) if buffer.len() < 1 << 16 => buffer.resize(1 << 16, 0),
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => {
                course.attributes.store(false, Ordering::Relaxed);
                return Ok(Vec::new());
            }
            // More names than Linux tells anybody.
            Err(Errno::TOOBIG) => {
                let space = LeftOut::Attributes("user".to_owned());
                course.omissions.add(space, path);
                return Ok(ACLS.to_vec());
            }
            Err(error) => return Err(error),
        }
    }
}

/// The names that ACLs have.
const ACLS: &[u8] = b"system.nfs4_acl\0system.posix_acl_access\0system.posix_acl_default\0";

/// Calls `found` for those attributes with `names` of an open file or folder that have to be copied and `is_wanted`. One value at a
/// time is in memory: how much they take together is for users to say.
pub(super) fn each(
    (source, names): (&OwnedFd, &[u8]),
    course: &Course<'_>,
    buffer: &mut Vec<u8>,
    path: impl Fn() -> String,
    is_wanted: impl Fn(&CStr) -> bool,
    mut found: impl FnMut(&CStr, &[u8]) -> io::Result<()>,
) -> io::Result<()> {
    for name in names.split_inclusive(|byte| *byte == 0) {
        let Ok(name) = CStr::from_bytes_with_nul(name) else {
            continue;
        };
        if !is_wanted(name) {
            continue;
        }
        match get(source, name, buffer) {
            Ok(Some(length)) => {
                let value = &buffer[..length];
                if name.to_bytes() != b"system.nfs4_acl" || !says_what_the_mode_says(value) {
                    found(name, value)?;
                }
            }
            Ok(None) => {}
            // None of that kind.
            Err(Errno::OPNOTSUPP) if is_acl(name) => {}
            Err(Errno::OPNOTSUPP | Errno::PERM | Errno::ACCESS) => {
                course
                    .omissions
                    .add(LeftOut::Attributes(namespace(name)), &path);
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// The length of the value, which is in `buffer` then; nothing when it has gone since it was listed.
fn get(source: &OwnedFd, name: &CStr, buffer: &mut Vec<u8>) -> io::Result<Option<usize>> {
    loop {
        match fs::fgetxattr(source, name, &mut buffer[..]) {
            Ok(length) => return Ok(Some(length)),
            Err(Errno::RANGE) if buffer.len() < 1 << 16 => buffer.resize(1 << 16, 0),
            Err(Errno::NODATA) => return Ok(None),
            Err(error) => return Err(error),
        }
    }
}

/// Whether an NFSv4 ACL, in the XDR form that the kernel gives (RFC 7530, nfsace4), names nobody but owner, group and
/// everyone, and is not inherited. Servers make such a one up from the mode, and set so, it would only cost a call.
fn says_what_the_mode_says(acl: &[u8]) -> bool {
    const INHERIT: u32 = 0x0f;
    let mut words = Words(acl);
    let Some(count) = words.next() else {
        return false;
    };
    for _ in 0..count {
        let (Some(_kind), Some(flags), Some(_mask)) = (words.next(), words.next(), words.next())
        else {
            return false;
        };
        if flags & INHERIT != 0
            || !matches!(words.text(), Some(b"OWNER@" | b"GROUP@" | b"EVERYONE@"))
        {
            return false;
        }
    }
    words.0.is_empty()
}

struct Words<'a>(&'a [u8]);

impl<'a> Words<'a> {
    fn next(&mut self) -> Option<u32> {
        let (word, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u32::from_be_bytes(*word))
    }

    fn text(&mut self) -> Option<&'a [u8]> {
        let length = usize::try_from(self.next()?).ok()?;
        let (text, rest) = self.0.split_at_checked(length)?;
        self.0 = rest.get(length.next_multiple_of(4) - length..)?;
        Some(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn acl(entries: &[(u32, u32, u32, &str)]) -> Vec<u8> {
        let mut bytes = (entries.len() as u32).to_be_bytes().to_vec();
        for (kind, flags, mask, who) in entries {
            for word in [*kind, *flags, *mask, who.len() as u32] {
                bytes.extend(word.to_be_bytes());
            }
            bytes.extend(who.as_bytes());
            bytes.resize(bytes.len().next_multiple_of(4), 0);
        }
        bytes
    }

    #[test]
    fn an_acl_that_the_mode_implies_is_told_from_others() {
        let plain = [
            (0, 0, 0x1601bf, "OWNER@"),
            (0, 0x40, 0x120081, "GROUP@"),
            (0, 0, 0x120081, "EVERYONE@"),
        ];
        assert!(says_what_the_mode_says(&acl(&plain)));
        let mut named = plain.to_vec();
        named.push((0, 0, 0x1601bf, "1000"));
        assert!(!says_what_the_mode_says(&acl(&named)));
        assert!(!says_what_the_mode_says(&acl(&[(
            0, 3, 0x1601bf, "OWNER@"
        )])));
        let cut = acl(&plain);
        for length in 0..cut.len() {
            assert!(!says_what_the_mode_says(&cut[..length]), "{length}");
        }
    }
}
