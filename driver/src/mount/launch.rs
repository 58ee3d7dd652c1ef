//! The command lines of helpers and of their nursery, which are this program. Owns what they inherit; must not start them.

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

/// The first argument by which a process knows that it is a helper.
pub(super) const MARKER: &str = "--csi-nfs-helper-process";

/// The second argument of the process that is the nursery.
pub(super) const NURSERY: &str = "nursery";

/// That of a process that only tries to get a mount namespace of its own.
pub(super) const NAMESPACE: &str = "namespace";

/// A helper that gets its task from `theirs`, as a child of this process.
pub(super) fn command(theirs: UnixStream) -> Command {
    let mut command = helper_arguments();
    command.stdin(Stdio::from(OwnedFd::from(theirs)));
    command
}

/// What helpers and their nursery have in common.
pub(super) fn helper_arguments() -> Command {
    let mut command = Command::new("/proc/self/exe");
    command
        .arg0("csi-nfs-helper")
        .arg(MARKER)
        .arg(std::process::id().to_string())
        .env_clear()
        .current_dir("/")
        .stdout(Stdio::null())
        .process_group(0);
    command
}
