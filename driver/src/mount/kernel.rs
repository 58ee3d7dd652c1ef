//! The calls, flags and failures that bind mounts and NFS mounts have in common. Must not
//! decide what is mounted where.

use crate::mount::options::MountFlags;
use crate::mount::task::{Failure, FailureKind, Ownership, Say, Usage, asking_usage};
use rustix::fs::{AtFlags, Gid, Mode, OFlags, Uid};
use rustix::io::Errno;
use rustix::mount::{MountFlags as Flags, UnmountFlags};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;

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

/// The failure of a call that may ask an NFS server.
pub(super) fn mount_failure(errno: Errno, detail: String) -> Failure {
    let kind = match errno {
        Errno::PROTONOSUPPORT | Errno::PROTOTYPE | Errno::NOTSUP => FailureKind::Version,
        Errno::NOENT | Errno::STALE | Errno::NOTDIR => FailureKind::NotFound,
        Errno::ACCESS | Errno::PERM => FailureKind::Refused,
        Errno::TIMEDOUT
        | Errno::CONNREFUSED
        | Errno::CONNRESET
        | Errno::CONNABORTED
        | Errno::HOSTUNREACH
        | Errno::HOSTDOWN
        | Errno::NETUNREACH
        | Errno::NETDOWN
        | Errno::PIPE => FailureKind::Unreachable,
        Errno::NODEV => FailureKind::NoNfsClient,
        _ => FailureKind::Other,
    };
    Failure::new(kind, errno, detail)
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

/// Gives the folder that is mounted at `target` an owner and a mode.
pub(super) fn dress(target: &Path, ownership: Ownership, say: Say<'_>) -> Result<(), Failure> {
    if ownership == Ownership::default() {
        return Ok(());
    }
    say(format!("changing owner and mode of {}", target.display()));
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
        let detail = "giving the volume's folder its owner and mode (mountPermissions, uid, gid)";
        match errno {
            Errno::PERM | Errno::ACCESS => {
                let hint = "; an export with root_squash does not let this driver do so";
                Failure::new(FailureKind::Refused, errno, format!("{detail}{hint}"))
            }
            errno => mount_failure(errno, detail.to_owned()),
        }
    })
}

/// Takes the topmost mount away from `target`.
pub(super) fn unmount(target: &Path, lazy: bool) -> Result<(), Failure> {
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

/// How full the file system at `path` is.
pub(super) fn usage(path: &Path) -> Result<Usage, Failure> {
    let stat =
        rustix::fs::statvfs(path).map_err(|errno| mount_failure(errno, asking_usage(path)))?;
    let bytes = |blocks: u64| blocks.saturating_mul(stat.f_frsize);
    Ok(Usage {
        total_bytes: bytes(stat.f_blocks),
        available_bytes: bytes(stat.f_bavail),
        used_bytes: bytes(stat.f_blocks.saturating_sub(stat.f_bfree)),
        total_inodes: stat.f_files,
        free_inodes: stat.f_ffree,
    })
}

/// Fails when the server does not know the folder that is mounted at `path`.
pub(super) fn refuse_stale(path: &Path) -> Result<(), Failure> {
    match usage(path) {
        Err(failure) if failure.is_stale() => Err(failure),
        _ => Ok(()),
    }
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
