//! Bind mounts: a folder of this machine, or what is mounted somewhere, appears at a target as well. Runs in a
//! thread that nobody else uses, because it leaves the mount namespace for a while.

use crate::mount::below::{self, detached_copy, move_to, unseen};
use crate::mount::kernel::{old_flags, open_target, target_failure, through};
use crate::mount::options::MountFlags;
use crate::mount::task::{Failure, FailureKind};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::{MountFlags as Flags, MountPropagationFlags};
use std::os::fd::OwnedFd;
use std::path::Path;

/// Makes the folder `below` inside `root` appear at `target` as a mount with these flags, unless it has an entry of the name
/// `without`, or no NFS export is mounted there though there is to be one.
///
/// A bind mount gets its flags by a second call, which changes that mount alone. Where the target is in a mount that other
/// namespaces share, as a node shares a pod's folder with this driver's container, they would keep the first one, which allows
/// all that its source does. So the mount is made where nobody sees it, and appears at the target with its flags or not at all.
///
/// # Errors
/// When the folder is not there or cannot be mounted; nothing is mounted then.
pub(super) fn bind(
    (root, below): (&Path, &Path),
    is_nfs: bool,
    target: &Path,
    flags: MountFlags,
    without: Option<&str>,
) -> Result<(), Failure> {
    // Also where mounting is refused: a symlink is to lead to the volume's folder and nowhere else.
    below::refuse(&open_below(root, below)?, without)?;
    // Of the namespace that everybody sees; its path means something else in another one.
    let place = open_target(target)?;
    let mount = unseen(|| {
        let folder = open_below(root, below)?;
        if is_nfs {
            refuse_unmounted(&folder, root)?;
        }
        rustix::mount::mount_bind(through(&folder), through(&open_target(target)?)).map_err(
            |errno| {
                let (kind, hint) = match errno {
                    Errno::PERM | Errno::ACCESS => (
                        FailureKind::NotPermitted,
                        ": this process needs CAP_SYS_ADMIN",
                    ),
                    _ => (FailureKind::Other, ""),
                };
                let detail = format!(
                    "mounting {} at {}{hint}",
                    root.join(below).display(),
                    target.display()
                );
                Failure::new(kind, errno, detail)
            },
        )?;
        let bound = open_target(target)?;
        // What is mounted in the source later is no part of the volume.
        rustix::mount::mount_change(through(&bound), MountPropagationFlags::PRIVATE)
            .map_err(|errno| target_failure(errno, target))?;
        // What the source's mount forbids must be forbidden again: in a user namespace the kernel refuses to lift it.
        let wanted = old_flags(flags) | inherited(&bound);
        rustix::mount::mount_remount(through(&bound), Flags::BIND | wanted, c"")
            .map_err(|errno| target_failure(errno, target))?;
        detached_copy(&bound)
    })?;
    move_to(&mount, &place, target)
}

/// The folder `below` inside `root`, never outside of it and through no symlink.
fn open_below(root: &Path, below: &Path) -> Result<OwnedFd, Failure> {
    let how = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let top = rustix::fs::open(root, how, Mode::empty()).map_err(|errno| {
        let kind = match errno {
            Errno::NOENT | Errno::NOTDIR => FailureKind::NotFound,
            _ => FailureKind::Other,
        };
        Failure::new(kind, errno, format!("the folder {}", root.display()))
    })?;
    if below.as_os_str().is_empty() {
        return Ok(top);
    }
    below::open_inside(&top, below, &root.display().to_string())
}

/// Fails as for a stale mount where `folder`, that of `root`, is on no NFS: another call has just unmounted what was stale there, and is
/// about to mount it anew. What is bound then would be the bare folder on this machine's disk.
fn refuse_unmounted(folder: &OwnedFd, root: &Path) -> Result<(), Failure> {
    match rustix::fs::fstatfs(folder) {
        Ok(stat) if stat.f_type != rustix::fs::NFS_SUPER_MAGIC => {
            let detail = format!("nothing is mounted at {} now", root.display());
            Err(Failure::new(FailureKind::NotFound, Errno::STALE, detail))
        }
        _ => Ok(()),
    }
}

fn inherited(folder: &OwnedFd) -> Flags {
    use rustix::fs::StatVfsMountFlags as Has;
    let Ok(stat) = rustix::fs::fstatvfs(folder) else {
        return Flags::empty();
    };
    let mut out = Flags::empty();
    for (has, flag) in [
        (Has::RDONLY, Flags::RDONLY),
        (Has::NOSUID, Flags::NOSUID),
        (Has::NODEV, Flags::NODEV),
        (Has::NOEXEC, Flags::NOEXEC),
        (Has::NOATIME, Flags::NOATIME),
        (Has::NODIRATIME, Flags::NODIRATIME),
        (Has::RELATIME, Flags::RELATIME),
    ] {
        out.set(flag, stat.f_flag.contains(has));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_are_opened_below_their_root_only() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("share/a/b")).unwrap();
        std::os::unix::fs::symlink("/", dir.path().join("share/out")).unwrap();
        std::os::unix::fs::symlink("a", dir.path().join("share/link")).unwrap();
        let root = dir.path().join("share");
        assert!(open_below(&root, Path::new("a/b")).is_ok());
        assert!(open_below(&root, Path::new("")).is_ok());
        for escape in ["out", "out/etc", "link", "link/b", "..", "a/../.."] {
            assert!(open_below(&root, Path::new(escape)).is_err(), "{escape}");
        }
        let missing = open_below(&root, Path::new("c")).unwrap_err();
        assert_eq!(missing.kind, FailureKind::NotFound);
        assert!(open_target(&root.join("link")).is_err());
        assert!(open_target(&root.join("a")).is_ok());
    }

    #[test]
    fn a_folder_on_which_nothing_is_mounted_any_more_is_as_stale() {
        let folder = tempfile::tempdir().unwrap();
        let opened = open_below(folder.path(), Path::new("")).unwrap();
        let refused = refuse_unmounted(&opened, folder.path());
        assert!(refused.unwrap_err().is_stale());
    }
}
