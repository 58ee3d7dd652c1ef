//! Whether the file system of a share can enforce the sizes of volumes, and if not, why. Must not change anything.

use csi_sys::file_attributes;
use csi_sys::project_quota::{self, State};
use rustix::fs::{self, FsWord};
use rustix::io::Errno;
use std::os::fd::AsFd;
use thiserror::Error;

/// A file system that enforces limits of projects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileSystem {
    /// XFS, which binds root too. A write beyond the limit is ENOSPC.
    Xfs,
    /// ext4, which binds all but root. A write beyond the limit is EDQUOT.
    Ext4,
}

/// Why there are no sizes that are enforced.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum Unable {
    /// Neither XFS nor ext4.
    #[error("{0} has no project quotas")]
    FileSystem(String),
    /// Quotas are off.
    #[error("project quotas are off on this {kind}: {remedy}")]
    Off {
        /// The file system.
        kind: &'static str,
        /// What an administrator does.
        remedy: &'static str,
    },
    /// Usage is counted and limits mean nothing.
    #[error(
        "the file system counts what is in projects and does not enforce their limits: mount it with -o prjquota"
    )]
    NotEnforced,
    /// An old kernel, or a filter of system calls.
    #[error(
        "the kernel has no quotactl_fd, which came with Linux 5.14, or a filter of system calls hides it"
    )]
    NoCall,
    /// The process may not.
    #[error(
        "this process may not set quotas: it needs CAP_SYS_ADMIN in the initial user namespace"
    )]
    NotPermitted,
    /// The share is limited by somebody already.
    #[error("the share's root is in project {0} already, whose limits are somebody else's")]
    InProject(u32),
    /// ext4 does not bind root.
    #[error(
        "ext4 does not limit root, and the export lets clients be root: export it with root_squash"
    )]
    RootNotSquashed,
    /// What nobody has thought of.
    #[error("asking the file system for its quotas: {0}")]
    Other(Errno),
}

/// What is seen of a share's file system.
#[derive(Clone, Copy, Debug)]
struct Seen {
    magic: FsWord,
    state: Result<State, Errno>,
    /// Whether this process may read a project's quota, which takes what setting one takes.
    quota: Result<(), Errno>,
    /// The project of the share's root.
    project: Result<u32, Errno>,
    /// Whether no client of the NFS server is root on it.
    squashes_root: bool,
}

const XFS: FsWord = 0x5846_5342;
const EXT4: FsWord = 0xEF53;
/// Names of the others that people export, for messages.
const OTHERS: &[(FsWord, &str)] = &[
    (0x9123_683E, "btrfs"),
    (0x0102_1994, "tmpfs"),
    (0x6969, "NFS"),
    (0x794c_7630, "overlayfs"),
    (0x2fc1_2fc1, "ZFS"),
    (0xF2F5_2010, "F2FS"),
];

/// Whether the file system of the open folder `root`, a share's, enforces sizes, where the NFS server `squashes_root` or does not.
///
/// # Errors
/// Why it does not, in words for whoever administers it.
pub fn of(root: impl AsFd, squashes_root: bool) -> Result<FileSystem, Unable> {
    let root = root.as_fd();
    judge(Seen {
        magic: fs::fstatfs(root).map_err(Unable::Other)?.f_type,
        state: project_quota::state(root),
        // Any id but 0.
        quota: project_quota::get(root, 1).map(|_| ()),
        project: file_attributes::get(root).map(|attributes| attributes.project()),
        squashes_root,
    })
}

fn judge(seen: Seen) -> Result<FileSystem, Unable> {
    let (kind, name, remedy) = match seen.magic {
        XFS => (FileSystem::Xfs, "XFS", "mount it with -o prjquota"),
        EXT4 => (
            FileSystem::Ext4,
            "ext4",
            "unmount it, run tune2fs -O quota,project -Q prjquota, and mount it with -o prjquota",
        ),
        other => return Err(Unable::FileSystem(name_of(other))),
    };
    let off = Unable::Off { kind: name, remedy };
    match seen.state {
        Ok(State {
            accounts: false, ..
        })
        | Err(Errno::SRCH) => return Err(off),
        Ok(State {
            enforces: false, ..
        }) => return Err(Unable::NotEnforced),
        Ok(_) => {}
        // The kernel gives this answer for itself, and for a file system that was mounted without quotas.
        Err(Errno::NOSYS) if seen.quota == Err(Errno::NOSYS) => return Err(Unable::NoCall),
        Err(Errno::NOSYS) => return Err(off),
        Err(Errno::PERM) => return Err(Unable::NotPermitted),
        Err(other) => return Err(Unable::Other(other)),
    }
    match seen.quota {
        Ok(()) => {}
        Err(Errno::PERM) => return Err(Unable::NotPermitted),
        Err(other) => return Err(Unable::Other(other)),
    }
    match seen.project {
        Ok(0) => {}
        Ok(project) => return Err(Unable::InProject(project)),
        Err(other) => return Err(Unable::Other(other)),
    }
    match kind == FileSystem::Ext4 && !seen.squashes_root {
        true => Err(Unable::RootNotSquashed),
        false => Ok(kind),
    }
}

fn name_of(magic: FsWord) -> String {
    match OTHERS.iter().find(|(known, _)| *known == magic) {
        Some((_, name)) => (*name).to_owned(),
        None => format!("this file system (type {magic:#x})"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_enforced_and_why_not() {
        use FileSystem::{Ext4, Xfs};
        let state = |accounts, enforces| Ok(State { accounts, enforces });
        let seen = |magic, state, squashes_root| Seen {
            magic,
            state,
            quota: Ok(()),
            project: Ok(0),
            squashes_root,
        };
        let of = |magic, state| seen(magic, state, true);
        let (off, counted, on) = (state(false, false), state(true, false), state(true, true));
        let no_quota = |errno, state| Seen {
            quota: Err(errno),
            ..of(XFS, state)
        };
        let project = |project| Seen {
            project,
            ..of(XFS, on)
        };
        for (seen, expected) in [
            (of(XFS, on), Ok(Xfs)),
            (of(EXT4, on), Ok(Ext4)),
            (seen(XFS, on, false), Ok(Xfs)),
            (seen(EXT4, on, false), Err("root_squash")),
            (of(0x9123_683E, on), Err("btrfs has no")),
            (of(0x0102_1994, on), Err("tmpfs has no")),
            (of(0x6969, on), Err("NFS has no")),
            (of(0x1234, on), Err("type 0x1234")),
            (of(XFS, off), Err("prjquota")),
            (of(EXT4, off), Err("tune2fs")),
            (of(EXT4, Err(Errno::SRCH)), Err("are off")),
            (of(XFS, counted), Err("does not enforce")),
            (no_quota(Errno::NOSYS, Err(Errno::NOSYS)), Err("5.14")),
            (of(EXT4, Err(Errno::NOSYS)), Err("are off")),
            (of(XFS, Err(Errno::PERM)), Err("CAP_SYS_ADMIN")),
            (no_quota(Errno::PERM, on), Err("CAP_SYS_ADMIN")),
            (no_quota(Errno::IO, on), Err("asking")),
            (project(Ok(7)), Err("in project 7")),
            (project(Err(Errno::NOTTY)), Err("asking")),
        ] {
            match (judge(seen), expected) {
                (Ok(kind), Ok(expected)) => assert_eq!(kind, expected, "{seen:?}"),
                (Err(why), Err(words)) => {
                    assert!(why.to_string().contains(words), "{seen:?}: {why}");
                }
                (judged, _) => panic!("{seen:?}: {judged:?}"),
            }
        }
    }

    #[test]
    fn a_file_system_without_projects_says_so() {
        let proc = std::fs::File::open("/proc").unwrap();
        let why = of(&proc, true).unwrap_err();
        assert!(matches!(why, Unable::FileSystem(_)), "{why}");
    }
}
