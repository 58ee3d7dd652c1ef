//! The kernel's calls for mounts. Runs only in a helper process, where any of them may block until the process is
//! killed; must not decide what is mounted where.

use crate::mount::bind;
use crate::mount::nfs::{self, Place};
use crate::mount::options::MountFlags;
use crate::mount::options::Version;
use crate::mount::task::{Done, Failure, FailureKind, Ownership, Task, Usage};
use rustix::fs::{AtFlags, Gid, Mode, OFlags, Uid};
use rustix::io::Errno;
use rustix::mount::{MountFlags as Flags, MountPropagationFlags, UnmountFlags};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;

/// Says what is done now.
pub type Say<'a> = &'a mut dyn FnMut(String);

/// Does `task`; a file descriptor comes with the answer of a detached mount.
///
/// # Errors
/// When it cannot be done; nothing is left behind then.
pub fn perform(task: &Task, say: Say<'_>) -> Result<(Done, Option<OwnedFd>), Failure> {
    match task {
        Task::MountNfs {
            source,
            below,
            target,
        } => {
            let (version, _) = nfs::mount_nfs(source, &Place::At { target, below }, say)?;
            Ok((with_version(version), None))
        }
        Task::MountDetached {
            source,
            scratch,
            show,
        } => {
            let place = Place::Nowhere {
                scratch,
                show: *show,
            };
            let (version, detached) = nfs::mount_nfs(source, &place, say)?;
            let mut done = with_version(version);
            let root = detached.map(|detached| {
                done.shown = detached.shown;
                detached.root
            });
            Ok((done, root))
        }
        Task::Bind {
            root,
            below,
            target,
            flags,
        } => {
            say(format!("binding {}", target.display()));
            bind::bind(root, below, target, *flags).map(|()| (Done::default(), None))
        }
        Task::Dress { target, ownership } => {
            say(format!("changing owner and mode of {}", target.display()));
            dress(target, *ownership).map(|()| (Done::default(), None))
        }
        Task::Unmount { target, lazy } => {
            say(format!("unmounting {}", target.display()));
            unmount(target, *lazy).map(|()| (Done::default(), None))
        }
        Task::Usage { path } => {
            say(format!("asking how full {} is", path.display()));
            let done = Done {
                usage: Some(usage(path)?),
                ..Done::default()
            };
            Ok((done, None))
        }
        Task::TryNfsClient => {
            say("asking the kernel for its NFS client".to_owned());
            nfs::try_nfs_client().map(|()| (Done::default(), None))
        }
        Task::TryNamespace => crate::namespace::become_private()
            .map(|()| (Done::default(), None))
            .map_err(|error| {
                let errno = Errno::from_io_error(&error).unwrap_or(Errno::IO);
                Failure::new(
                    FailureKind::NotPermitted,
                    errno,
                    "a mount namespace of one's own",
                )
            }),
    }
}

fn with_version(version: Version) -> Done {
    Done {
        version: Some(version),
        ..Done::default()
    }
}

pub(super) fn target_failure(errno: Errno, target: &Path) -> Failure {
    let kind = match errno {
        Errno::PERM => FailureKind::NotPermitted,
        Errno::BUSY => FailureKind::Busy,
        _ => FailureKind::Other,
    };
    Failure::new(
        kind,
        errno,
        format!("using the folder {}", target.display()),
    )
}

/// The target folder itself, never what a symlink in its place leads to.
pub(super) fn open_target(target: &Path) -> Result<OwnedFd, Failure> {
    let how = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::open(target, how, Mode::empty()).map_err(|errno| target_failure(errno, target))
}

/// A path that leads to an open folder without walking again.
pub(super) fn through(folder: &OwnedFd) -> String {
    format!("/proc/self/fd/{}", folder.as_raw_fd())
}

pub(super) fn old_flags(flags: MountFlags) -> Flags {
    let mut out = Flags::empty();
    out.set(Flags::RDONLY, flags.read_only);
    out.set(Flags::NOSUID, flags.nosuid);
    out.set(Flags::NODEV, flags.nodev);
    out.set(Flags::NOEXEC, flags.noexec);
    out.set(Flags::NOATIME, flags.noatime);
    out.set(Flags::NODIRATIME, flags.nodiratime);
    out
}

fn dress(target: &Path, ownership: Ownership) -> Result<(), Failure> {
    let folder = open_target(target)?;
    let dressed = (|| {
        let stat = rustix::fs::fstat(&folder)?;
        let uid = ownership.uid.filter(|uid| *uid != stat.st_uid);
        let gid = ownership.gid.filter(|gid| *gid != stat.st_gid);
        let given = uid.is_some() || gid.is_some();
        if given {
            let (uid, gid) = (uid.map(Uid::from_raw), gid.map(Gid::from_raw));
            rustix::fs::chownat(&folder, "", uid, gid, AtFlags::EMPTY_PATH)?;
        }
        // A change of owner clears the set-id bits.
        let kept = stat.st_mode & 0o7777;
        let mode = ownership.mode.unwrap_or(kept);
        if mode != kept || (given && mode & 0o6000 != 0) {
            rustix::fs::chmod(through(&folder), Mode::from_raw_mode(mode))?;
        }
        Ok(())
    })();
    dressed.map_err(|errno| {
        let detail = "giving the volume's folder its owner and mode (mountPermissions, uid, gid); an export with root_squash does not let this driver do so".to_owned();
        match errno {
            Errno::PERM | Errno::ACCESS => Failure::new(FailureKind::Refused, errno, detail),
            errno => nfs::mount_failure(errno, detail),
        }
    })
}

fn unmount(target: &Path, lazy: bool) -> Result<(), Failure> {
    let mut flags = UnmountFlags::NOFOLLOW;
    flags.set(UnmountFlags::DETACH, lazy);
    rustix::mount::unmount(target, flags).map_err(|errno| {
        let kind = match errno {
            Errno::BUSY => FailureKind::Busy,
            Errno::INVAL | Errno::NOENT => FailureKind::NotMounted,
            Errno::PERM => FailureKind::NotPermitted,
            _ => FailureKind::Other,
        };
        Failure::new(kind, errno, format!("unmounting {}", target.display()))
    })
}

fn usage(path: &Path) -> Result<Usage, Failure> {
    let stat = rustix::fs::statvfs(path).map_err(|errno| {
        let detail = format!("asking how full {} is", path.display());
        nfs::mount_failure(errno, detail)
    })?;
    let bytes = |blocks: u64| blocks.saturating_mul(stat.f_frsize);
    Ok(Usage {
        total_bytes: bytes(stat.f_blocks),
        available_bytes: bytes(stat.f_bavail),
        used_bytes: bytes(stat.f_blocks.saturating_sub(stat.f_bfree)),
        total_inodes: stat.f_files,
        free_inodes: stat.f_ffree,
    })
}

/// Mounts of this process and others stop reaching each other.
///
/// # Errors
/// When the kernel refuses.
pub fn make_private() -> Result<(), Errno> {
    rustix::mount::mount_change(
        "/",
        MountPropagationFlags::PRIVATE | MountPropagationFlags::REC,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usage_of_a_file_system() {
        let usage = usage(Path::new("/")).unwrap();
        assert!(usage.total_bytes >= usage.used_bytes);
        assert!(usage.total_bytes > 0);
    }
}
