//! Enters namespaces in which mounts are seen by nobody else. Owns the calls for that; must not mount volumes.

use rustix::io::Errno;
use rustix::mount::MountPropagationFlags;
use rustix::thread::UnshareFlags;
use std::io;

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
    // Mounts of this process and others stop reaching each other.
    let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    Ok(rustix::mount::mount_change("/", private)?)
}

/// Enters a mount namespace out of which no mount gets. What is unmounted outside goes here, too: a process that hangs in
/// one keeps nobody else's volume.
pub(super) fn detach_mounts() -> Result<(), Errno> {
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
