//! One folder of a mount as a mount of its own, found without following a symlink: whoever writes to a share must not be
//! able to lead a publish out of it. Runs in a thread that nobody else uses, in a helper process as a rule.

use crate::mount::kernel::{mount_failure, open_target, target_failure};
use crate::mount::private;
use crate::mount::task::{Failure, FailureKind};
use csi_nfs_store::files::beneath;
use rustix::fs::{AtFlags, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use rustix::mount::{MoveMountFlags, OpenTreeFlags};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

/// The folder `below` inside `top`, never outside of it and through no symlink. `top` is called `name` in errors.
pub(super) fn open_inside(top: &OwnedFd, below: &Path, name: &str) -> Result<OwnedFd, Failure> {
    let how = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let beneath = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    let open = |path: &Path| rustix::fs::openat2(top, path, how, Mode::empty(), beneath);
    // As other mounts of the share have left it in the NFS client, which may believe that for half a minute: first what is there,
    // then what is not.
    on_the_way(top, below, open, |folder, name| {
        beneath::ask(folder, name).ok();
    });
    let opened = match open(below) {
        Err(Errno::NOENT) => {
            on_the_way(top, below, open, |folder, _| {
                beneath::refresh(folder).ok();
            });
            open(below)
        }
        opened => opened,
    };
    opened.map_err(|errno| {
        let shown = below.display();
        match errno {
            Errno::NOENT | Errno::NOTDIR => {
                let detail = format!("{name} has no folder {shown}");
                Failure::new(FailureKind::NotFound, errno, detail)
            }
            Errno::LOOP | Errno::XDEV => {
                let detail =
                    format!("{shown} in {name} leads through a symlink, and none is followed");
                Failure::new(FailureKind::Symlink, errno, detail)
            }
            Errno::NOSYS => refused(errno, "openat2"),
            errno => {
                let detail = format!("opening the folder {shown} in {name}");
                mount_failure(errno, detail)
            }
        }
    })
}

/// Does `work` with each folder on the way from `top` to `below`, and the name that leads on from there.
fn on_the_way(
    top: &OwnedFd,
    below: &Path,
    open: impl Fn(&Path) -> rustix::io::Result<OwnedFd>,
    work: impl Fn(BorrowedFd<'_>, &OsStr),
) {
    let (mut at, mut path) = (None::<OwnedFd>, PathBuf::new());
    for name in below {
        work(at.as_ref().unwrap_or(top).as_fd(), name);
        path.push(name);
        // What goes wrong is met again by whoever opens the folder.
        let Ok(folder) = open(&path) else { return };
        at = Some(folder);
    }
}

/// Fails when `folder` has an entry of the name `without`, which must not appear at a target.
pub(super) fn refuse(folder: &OwnedFd, without: Option<&str>) -> Result<(), Failure> {
    let Some(name) = without else { return Ok(()) };
    match rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(_) => Err(Failure {
            kind: FailureKind::Holds,
            errno: 0,
            detail: format!("the folder has {name} in it"),
        }),
        // Whoever may not look made nothing there either.
        Err(Errno::NOENT | Errno::ACCESS) => Ok(()),
        Err(errno) => Err(mount_failure(errno, format!("looking for {name}"))),
    }
}

/// Attaches the folder `below` of the detached `mount` at `target`, and nothing else of it, unless it has an entry of the name
/// `without`. `name` is the mount in errors.
pub(super) fn attach(
    mount: &OwnedFd,
    below: &Path,
    target: &Path,
    without: Option<&str>,
    name: &str,
) -> Result<(), Failure> {
    // Of the namespace that everybody sees; its path means something else in another one.
    let place = open_target(target)?;
    if below.as_os_str().is_empty() {
        refuse(mount, without)?;
        return move_to(mount, &place, target);
    }
    let folder = take_out(mount, below, target, name)?;
    refuse(&folder, without)?;
    move_to(&folder, &place, target)
}

/// The folder as a detached mount. Kernels clone only what is attached somewhere (those before 6.15), so the whole is
/// attached for a moment where nobody sees it.
fn take_out(mount: &OwnedFd, below: &Path, place: &Path, name: &str) -> Result<OwnedFd, Failure> {
    unseen(|| {
        move_to(mount, &open_target(place)?, place)?;
        detached_copy(&open_inside(mount, below, name)?)
    })
}

/// Does `work` in a mount namespace that nobody else sees and that ends with this thread at the latest, and comes back.
pub(super) fn unseen<T>(work: impl FnOnce() -> Result<T, Failure>) -> Result<T, Failure> {
    let home = rustix::fs::open(
        "/proc/thread-self/ns/mnt",
        OFlags::RDONLY | OFlags::CLOEXEC,
        Mode::empty(),
    )
    .map_err(|errno| {
        Failure::new(
            FailureKind::Other,
            errno,
            "opening /proc/thread-self/ns/mnt",
        )
    })?;
    let done = private::detach_mounts()
        .map_err(|errno| refused(errno, "unshare"))
        .and_then(|()| work());
    move_into_link_name_space(home.as_fd(), Some(LinkNameSpaceType::Mount))
        .map_err(|errno| refused(errno, "setns"))?;
    done
}

/// What is mounted at `folder`, from there down, as a mount that is attached nowhere.
pub(super) fn detached_copy(folder: &OwnedFd) -> Result<OwnedFd, Failure> {
    let how = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_EMPTY_PATH;
    rustix::mount::open_tree(folder, "", how).map_err(|errno| refused(errno, "open_tree"))
}

/// Attaches a detached mount at `place`, which errors call `shown`.
pub(super) fn move_to(mount: &OwnedFd, place: &OwnedFd, shown: &Path) -> Result<(), Failure> {
    let how = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    rustix::mount::move_mount(mount, "", place, "", how)
        .map_err(|errno| target_failure(errno, shown))
}

/// The kernel, or a filter in front of it, does not do what this takes.
pub(super) fn refused(errno: Errno, call: &str) -> Failure {
    Failure::new(
        FailureKind::NotPermitted,
        errno,
        format!(
            "mounting a folder of a share safely takes Linux 5.6, CAP_SYS_ADMIN and CAP_SYS_CHROOT, and no filter in the \
             way: {call}"
        ),
    )
}
