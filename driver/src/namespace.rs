//! A mount namespace of one's own, so that an ordinary user may mount. Owns the dance of user and mount namespace; must
//! not mount volumes.

use crate::mount::helper;
use crate::mount::task::Task;
use rustix::io::Errno;
use rustix::mount::MountPropagationFlags;
use rustix::thread::UnshareFlags;
use std::io;

/// What [`enter_private`] came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entered {
    /// This process may mount as it is; nothing was changed.
    NotNeeded,
    /// This process and its children are alone in a new mount namespace, in which they may mount and appear as root.
    /// Their mounts are seen by nobody else and end with them.
    Private,
    /// The system refuses namespaces to this user, for the reason given; nothing was changed.
    Refused(String),
}

impl Entered {
    /// Whether mounts work now.
    pub fn may_mount(&self) -> bool {
        !matches!(self, Self::Refused(_))
    }
}

/// Gives an ordinary user a namespace in which mounting is allowed.
///
/// To be called before any thread starts: a user namespace can be entered only by a process of one thread. Tried in a
/// process of its own first, so that a system which refuses half-way leaves this process as it was.
///
/// # Errors
/// When the process has threads already, or its own program cannot be run again.
pub fn enter_private() -> io::Result<Entered> {
    if may_mount() {
        return Ok(Entered::NotNeeded);
    }
    if let Err(refusal) = helper::run_now(&Task::TryNamespace)? {
        return Ok(Entered::Refused(refusal.to_string()));
    }
    become_private()?;
    Ok(Entered::Private)
}

/// Whether this process has the capability that mounting takes.
pub fn may_mount() -> bool {
    use rustix::thread::{CapabilitySet, capabilities};
    capabilities(None).is_ok_and(|sets| sets.effective.contains(CapabilitySet::SYS_ADMIN))
}

/// Enters a user and a mount namespace and proves that mounts work there.
///
/// # Errors
/// When the system refuses any step. Then the process is to end: it may be half-way.
pub(crate) fn become_private() -> io::Result<()> {
    let uid = rustix::process::geteuid();
    let gid = rustix::process::getegid();
    unshare(UnshareFlags::NEWUSER | UnshareFlags::NEWNS)?;
    // user_namespaces(7): without a privilege outside, one's own ids can be mapped, groups after setgroups is given up.
    // They become root's, because any other user loses its capabilities when the helper is executed.
    std::fs::write("/proc/self/setgroups", "deny")?;
    std::fs::write("/proc/self/uid_map", format!("0 {} 1", uid.as_raw()))?;
    std::fs::write("/proc/self/gid_map", format!("0 {} 1", gid.as_raw()))?;
    crate::mount::make_private()?;
    Ok(())
}

/// Enters a mount namespace out of which no mount gets. What is unmounted outside goes here, too: a process that hangs in
/// one keeps nobody else's volume.
///
/// # Errors
/// When the kernel refuses.
pub(crate) fn detach_mounts() -> Result<(), Errno> {
    unshare(UnshareFlags::NEWNS)?;
    rustix::mount::mount_change(
        "/",
        MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC,
    )
}

fn unshare(flags: UnshareFlags) -> Result<(), Errno> {
    // Deprecated because it would be unsound with a flag that unshares file descriptors, which no caller here gives;
    // the replacement is `unsafe`, which this workspace forbids.
    #[allow(deprecated)]
    rustix::thread::unshare(flags)
}
